/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * debug_guard.c: RMALLOC_DEBUG=1: stores beyond a message, and to one that the program does not own any more.
 *
 * Behind a message up to the end of its last unit, or of its descriptor if it has no block, there are guard bytes, which an end
 * fills when its program gets the message and verifies when that gives it away. Memory that is shared has no other use behind
 * a message, except where the program sends parts of a block of its own (rregion): those have no guard bytes. Nor have messages in memory
 * of a device, which is not touched: they have no checksum either.
 *
 * A writer with RMALLOC_DEBUG=1 stores a checksum of the payload into the slot. A reader with it verifies that and the writer's
 * guard bytes. A message without a block is copied out of its descriptor when it is sent, and stays where it is when it is
 * freed: its memory is filled, and verified when the descriptor is taken again.
 */
#include "rpipe/end/debug_guard.h"

#include "alloc/heap.h"
#include "rpipe/end/device.h"
#include "rpipe/end/error.h"
#include "util/crc32c.h"
#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LOGGED_MOST 1000
#define GUARD_MOST 256           /* bytes */
#define GUARD_MAGIC 0x64726167u  /* "gard": upper half of the checksum in a slot */
#define POISONED (SIZE_MAX - 77) /* size of a pooled descriptor whose payload is filled */

struct guard {
    uint8_t *at;
    size_t bytes;
};

/* In the payload of the descriptor of a message of the heap, at the reader. */
struct guard_note {
    uint64_t check; /* of the slot */
    bool sealed;    /* the writer has stored it */
    bool filled;    /* the bytes behind the message are this end's guard bytes */
};
static_assert(sizeof(struct guard_note) <= DESC_INLINE_MAX, "in a descriptor");

static struct guard_note *guard_note_of(struct rdesc *d)
{
    return (struct guard_note *)(void *)desc_payload(d);
}

static uint8_t guard_byte(size_t at) { return (uint8_t)(0xd5 ^ at * 37); }

static void guard_fill(const struct guard *g)
{
    for (size_t i = 0; i < g->bytes; i++)
        g->at[i] = guard_byte(i);
}

/* The first byte that differs; g->bytes: none. */
static size_t guard_first_changed(const struct guard *g)
{
    size_t i = 0;

    while (i < g->bytes && g->at[i] == guard_byte(i))
        i++;
    return i;
}

/* The bytes of a block up to the end of the units that `size` bytes take. */
static struct guard guard_of_block(const struct rch *ch, const struct rdesc *d,
                                   uint64_t block_bytes)
{
    const uint64_t unit = ch->cfg.unit_bytes, size = d->size;
    uint64_t end = size != 0 ? (size + unit - 1) / unit * unit : unit;

    if (end > block_bytes)
        end = block_bytes;
    if (end > size + GUARD_MOST)
        end = size + GUARD_MOST;
    return (struct guard){(uint8_t *)d->mem + size, end > size ? (size_t)(end - size) : 0};
}

static struct guard guard_of_slot(struct rdesc *d)
{
    return (struct guard){desc_payload(d) + d->size,
                          sizeof(struct rdesc_message) - sizeof(struct rdesc) - d->size};
}

/* At the reader: the last unit of a heap may be short, and is in no other case. */
static struct guard guard_at_reader(const struct rch *ch, const struct rdesc *d)
{
    const uint64_t bytes = ch->r.heap_bytes;

    return guard_of_block(ch, d, d->offset < bytes ? bytes - d->offset : d->size);
}

/* The message is in memory of a device. */
static bool guard_is_out_of_reach(const struct rch *ch, const struct rdesc *d)
{
    return device_has_heap(ch) && d->units != 0;
}

/* Those that this end fills. The program of a reader may write to its messages with PUT. */
static struct guard guard_of(const struct rch *ch, struct rdesc *d)
{
    if (d->units == 0)
        return guard_of_slot(d);
    if (guard_is_out_of_reach(ch, d))
        return (struct guard){NULL, 0};
    if (config_side(&ch->cfg) == SIDE_WRITER)
        return guard_of_block(ch, d, heap_block_bytes(ch->w.blocks.heap, d));
    return guard_note_of(d)->filled ? guard_at_reader(ch, d) : (struct guard){NULL, 0};
}

void debug_guard_fill(struct rch *ch, struct rdesc *d)
{
    struct guard g = guard_of(ch, d);

    guard_fill(&g);
}

/* The peer has the memory too, and may write to it: the heap of a reader with PUT. */
static bool guard_is_shared(const struct rch *ch, const struct rdesc *d)
{
    return d->units != 0 && ch->cfg.op == OP_PUT;
}

/* A peer can cause reports: so many of a process are logged. */
static bool guard_may_log(void)
{
    static _Atomic unsigned logged;

    return atomic_fetch_add_explicit(&logged, 1, memory_order_relaxed) < LOGGED_MOST;
}

int debug_guard_check(struct rch *ch, struct rdesc *d)
{
    struct guard g = guard_of(ch, d);
    size_t at = guard_first_changed(&g);
    char other[32] = "";
    uint8_t found;

    if (at == g.bytes)
        return 0;
    found = g.at[at];
    guard_fill(&g);
    if (guard_is_shared(ch, d))
        snprintf(other, sizeof(other), ", or rank %d,", ch->peer);
    (void)call_error(
        ch, -EUCLEAN,
        "this program%s has written beyond a message of %zu bytes: byte %zu behind its "
        "end is 0x%02x and was 0x%02x; search for stores to rmem() at or above rsize(), "
        "e.g. a loop or a copy that is too long",
        other, d->size, at, found, guard_byte(at));
    if (guard_may_log())
        log_error("%s", last_error_get()); /* the text of the end is any thread's */
    return -EUCLEAN;
}

/* ---- what the writer stores, and the reader verifies ---- */

static uint64_t guard_checksum(const void *payload, size_t bytes)
{
    const uint8_t *at = payload;
    uint64_t word[8], tail = 0;
    uint32_t crc = ~0u;
    size_t rest = bytes;

    for (; rest >= sizeof(word); rest -= sizeof(word), at += sizeof(word)) {
        memcpy(word, at, sizeof(word));
        crc = crc32c_words(crc, word, 8);
    }
    for (; rest >= sizeof(tail); rest -= sizeof(tail), at += sizeof(tail)) {
        memcpy(word, at, sizeof(tail));
        crc = crc32c_words(crc, word, 1);
    }
    memcpy(&tail, at, rest);
    crc = crc32c_words(crc, &tail, 1);
    return (uint64_t)GUARD_MAGIC << 32 | crc;
}

void debug_guard_seal(const struct rch *ch, struct slot *s, const struct rdesc *d, size_t bytes)
{
    s->checked = d->units != 0 && d->mem != NULL && !guard_is_out_of_reach(ch, d);
    if (s->checked)
        s->heap.check = guard_checksum(d->mem, bytes);
}

void debug_guard_keep(const struct slot *copy, struct rdesc *d)
{
    if (d->units == 0)
        return;
    *guard_note_of(d) =
        (struct guard_note){.check = copy->heap.check,
                            .sealed = copy->kind == SLOT_HEAP && copy->checked == 1 &&
                                      copy->heap.check >> 32 == GUARD_MAGIC};
}

void debug_guard_arrived(struct rch *ch, struct rdesc *d, uint64_t number, bool behind)
{
    struct guard g;
    size_t at;

    if (d->units == 0) {
        debug_guard_fill(ch, d);
        return;
    }
    if (guard_is_out_of_reach(ch, d) || !guard_note_of(d)->sealed)
        return;
    if (guard_checksum(d->mem, d->size) != guard_note_of(d)->check && guard_may_log())
        log_error("%s: message %llu of rank %d, %zu bytes at %llu of the heap, has changed after "
                  "rwrite; look there for "
                  "stores to an address of rmem() that was kept, or beyond the message before it",
                  end_name(ch), (unsigned long long)number, ch->peer, d->size,
                  (unsigned long long)d->offset);
    g = guard_at_reader(ch, d);
    at = behind ? guard_first_changed(&g) : g.bytes;
    if (at < g.bytes && guard_may_log())
        log_error("%s: rank %d has written beyond message %llu of %zu bytes after rwrite: byte %zu "
                  "behind its end is "
                  "0x%02x and was 0x%02x; look there for stores to rmem() at or above rsize()",
                  end_name(ch), ch->peer, (unsigned long long)number, d->size, at, g.at[at],
                  guard_byte(at));
    if (ch->cfg.op != OP_PUT)
        return;
    guard_note_of(d)->filled = true;
    guard_fill(&g);
}

/* ---- messages without a block ---- */

static struct guard guard_of_pooled(struct rdesc *d)
{
    return (struct guard){desc_payload(d), sizeof(struct rdesc_message) - sizeof(struct rdesc)};
}

void debug_guard_poison(struct rdesc *d)
{
    struct guard g = guard_of_pooled(d);

    guard_fill(&g);
    d->size = POISONED;
}

void debug_guard_check_poison(struct rch *ch)
{
    struct rdesc *d = ch->pool.free;
    struct guard g;
    size_t at;

    if (d == NULL || d->size != POISONED)
        return;
    g = guard_of_pooled(d);
    at = guard_first_changed(&g);
    d->size = 0;
    if (at < g.bytes)
        log_error("%s: this program has written to a message after its rwrite or rfree: byte %zu "
                  "of it is 0x%02x and was "
                  "0x%02x; search for stores to an address of rmem() that was kept",
                  end_name(ch), at, g.at[at], guard_byte(at));
}
