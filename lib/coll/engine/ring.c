/* SPDX-License-Identifier: BSD-3-Clause */
/* ring.c: see ring.h. */
#include "coll/engine/ring.h"

void ring_init(struct ring *r, uint64_t bytes) { *r = (struct ring){.bytes = bytes}; }

/* Whether a block at a position would not reach what is in use. */
static bool ring_fits(const struct ring *r, uint64_t head, size_t bytes)
{
    return head + bytes - r->tail <= r->bytes;
}

bool ring_alloc(struct ring *r, uint64_t number, size_t bytes, bool near, size_t *at)
{
    uint64_t head, offset;

    if (r->count == 0)
        r->head = r->tail = 0; /* the lines that were used last */
    head = r->head;
    offset = head % r->bytes;
    if (offset + bytes > r->bytes ||
        (near && ring_is_far(r, bytes) && ring_fits(r, head + r->bytes - offset, bytes))) {
        head += r->bytes - offset;
        offset = 0;
    }
    if (r->count == RING_BLOCKS || !ring_fits(r, head, bytes))
        return false;
    r->head = head + bytes;
    r->block[(r->first + r->count++) % RING_BLOCKS] =
        (struct ring_block){.number = number, .start = head};
    *at = (size_t)offset;
    return true;
}

void ring_release(struct ring *r, uint64_t number)
{
    while (r->count > 0 && r->block[r->first].number < number) {
        r->first = (r->first + 1) % RING_BLOCKS;
        r->count--;
    }
    if (r->count > 0) /* else the next block begins anew */
        r->tail = r->block[r->first].start;
}
