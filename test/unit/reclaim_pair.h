/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reclaim_pair.h: the writer and the reader of lib/sync on plain memory, without a pipe: blocks are sent, held, freed and come back.
 *
 * `flight` has the messages that are sent and not freed, in the order of their slots.
 */
#ifndef TEST_UNIT_RECLAIM_PAIR_H
#define TEST_UNIT_RECLAIM_PAIR_H

#include "sync/reclaim.h"
#include "sync/release.h"
#include "sync/seal.h"
#include "sync/slot_credit.h"

#include <stdlib.h>
#include <string.h>

#define PAIR_UNIT 64
#define PAIR_UNITS 64
#define PAIR_MOST 64 /* messages in flight */

enum pair_mode { PAIR_PREFIX, PAIR_TAGS, PAIR_CHANNEL, PAIR_SEALED, PAIR_MODES };

struct pair {
    enum pair_mode mode;
    uint32_t queue;
    struct reclaim w;
    struct release r;
    struct desc_pool pool;
    struct credit_area *area;
    struct slot *ring; /* channel mode */
    struct rdesc *flight[PAIR_MOST];
    uint32_t in_flight;
};

static inline bool pair_open(struct pair *p, enum pair_mode mode, uint32_t queue,
                             uint32_t first_lap)
{
    static const struct reclaim_ops *const ops[] = {&reclaim_prefix, &reclaim_tags,
                                                    &reclaim_channel, &reclaim_channel};
    static char memory[PAIR_UNIT * PAIR_UNITS] __attribute__((aligned(PAIR_UNIT)));
    struct heap_config c = {.algorithm = mode == PAIR_PREFIX ? RMALLOC_NEXT_FIT : RMALLOC_FIRST_FIT,
                            .unit_size = PAIR_UNIT,
                            .bytes = sizeof(memory),
                            .base = memory};

    memset(p, 0, sizeof(*p));
    p->mode = mode;
    p->queue = queue;
    p->area = calloc(1, credit_area_bytes(queue));
    p->ring = calloc(queue, sizeof(*p->ring));
    desc_pool_init(&p->pool, PAIR_MOST, sizeof(struct rdesc), 1);
    ring_cursor_init(&p->r.next, queue, first_lap);
    p->w.reverse = p->r.reverse = p->ring;
    p->w.sealed = mode == PAIR_SEALED;
    return p->area != NULL && p->ring != NULL && heap_create(&p->w.heap, &c) == 0 &&
           reclaim_open(&p->w, ops[mode], queue, first_lap) == 0;
}

static inline void pair_close(struct pair *p)
{
    reclaim_close(&p->w);
    heap_destroy(p->w.heap);
    desc_pool_destroy(&p->pool);
    free(p->ring);
    free(p->area);
}

/* Sends a message of so many units; `watermark` (or NULL): whether credits are due. False: no memory, or none may be sent. */
static inline bool pair_send(struct pair *p, uint32_t units, bool *watermark)
{
    struct rdesc *d, *copy;

    if (reclaim_is_full(&p->w) || p->in_flight == PAIR_MOST)
        return false;
    d = heap_alloc(p->w.heap, (size_t)units * PAIR_UNIT);
    copy = d != NULL ? desc_take(&p->pool) : NULL;
    if (copy == NULL) {
        if (d != NULL)
            heap_free(p->w.heap, d);
        return false;
    }
    copy->offset = d->offset;
    copy->units = d->units;
    copy->block = p->w.table.entry != NULL ? block_table_put(&p->w.table, d) : 0;
    if (reclaim_sent(&p->w, d) && watermark != NULL)
        *watermark = true;
    if (p->mode == PAIR_PREFIX)
        release_append(&p->r, copy);
    p->r.taken++;
    p->flight[p->in_flight++] = copy;
    return true;
}

/* The reader frees the i-th message that it holds. */
static inline void pair_free(struct pair *p, uint32_t i)
{
    struct rdesc *d = p->flight[i];
    struct slot *s;
    uint32_t block;

    memmove(p->flight + i, p->flight + i + 1, (p->in_flight - i - 1) * sizeof(p->flight[0]));
    p->in_flight--;
    if (p->mode == PAIR_PREFIX) {
        (void)release_prefix(&p->r, &p->area->line, &p->pool, d);
        return;
    }
    block = release_named(&p->r, &p->pool, d);
    if (p->mode == PAIR_TAGS) {
        tag_append(p->area, &p->r.next, block);
    } else if (p->mode == PAIR_CHANNEL) {
        reverse_append(p->ring, &p->r.next, p->r.freed, block);
    } else {
        s = &p->ring[p->r.next.at];
        memset(s, 0, offsetof(struct slot, flag));
        s->kind = SLOT_FREED;
        s->block = block;
        seal_slot(s, p->r.freed);
        ring_cursor_advance(&p->r.next);
    }
}

static inline int pair_fetch(struct pair *p, bool all, struct violation *v)
{
    return reclaim_fetch(&p->w, p->area, all, v);
}

#endif
