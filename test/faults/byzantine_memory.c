/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine_memory.c: what the byzantine rank of byzantine.h stores where it may: in slots, flags, the control line, wake words, credits, tags,
 * the reverse ring, cells, payloads, its own liveness word, and holes where memory was.
 *
 * Over a network the writer's ring and the reader's reverse ring are mirrors: what is stored there is sealed as it should be, or is
 * not, and posted. Everything else is in this rank's own memory, from where the victim fetches it.
 */
#include "byzantine.h"

#include "rpipe/end/config.h"
#include "rpipe/end/rch.h"
#include "cells/cells.h"
#include "rpipe/connect/handshake.h"
#include "rpipe/data/path_remote.h"
#include "sync/seal.h"

#include <sys/mman.h>

static bool writes(const struct rch *ch) { return config_side(&ch->cfg) == SIDE_WRITER; }

/* The numbers that come next, mostly. */
static uint64_t sequence(const struct rch *ch, uint64_t *random)
{
    uint64_t x = random_draw(random), next = writes(ch) ? ch->w.sent + 1 : ch->r.nread + 1;

    return (x & 3) == 0 ? draw_number(random) : next + (x >> 8 & 3) - (x >> 16 & 1);
}

static void invalid_slot(struct slot *s, uint64_t *random)
{
    static const uint8_t kinds[] = {SLOT_INLINE, SLOT_HEAP, SLOT_HEAP, SLOT_FREED, 0, 255};
    uint64_t x = random_draw(random);

    __atomic_store_n(&s->heap.offset, draw_number(random), __ATOMIC_RELAXED);
    __atomic_store_n(&s->heap.size, draw_number(random), __ATOMIC_RELAXED);
    __atomic_store_n(&s->header, x, __ATOMIC_RELAXED);
    __atomic_store_n(&s->kind, kinds[x % 6], __ATOMIC_RELAXED);
    __atomic_store_n(&s->bytes, (uint8_t)((x >> 8 & 3) == 0 ? x >> 16 : x >> 16 & 31),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&s->block, (uint32_t)draw_number(random), __ATOMIC_RELAXED);
}

/* ---- the ring ---- */

static void post_slot(struct rch *ch, const struct btl_remote *remote,
                      const struct btl_memory *mirror, struct slot *s)
{
    uint64_t offset = (uint64_t)((char *)s - (char *)mirror->base);
    struct btl_transfer t = {remote, offset, mirror, offset, sizeof(*s)};

    if (ch->ops->write(ch->remote->connection, NULL, &t) != 0)
        (void)ch->ops->progress(ch->remote->connection);
}

static void attack_ring(struct rch *ch, uint64_t *random)
{
    uint64_t x = random_draw(random), number = sequence(ch, random);
    struct slot *s = end_slot(ch, (x & 3) == 0 ? x >> 8 : number - 1);

    if (ch->remote != NULL && !writes(ch))
        return; /* its own */
    if ((x >> 4 & 3) != 0)
        invalid_slot(s, random);
    if ((x >> 6 & 1) != 0)
        __atomic_store_n((uint64_t *)(void *)s + (x >> 10 & 7), draw_number(random),
                         __ATOMIC_RELAXED);
    if (ch->remote == NULL) {
        ring_slot_publish(s, number);
        return;
    }
    if ((x >> 7 & 3) != 0)
        seal_slot(s, number);
    post_slot(ch, &ch->ring_remote, &ch->remote->ring, s);
}

static void attack_control_line(struct rch *ch, uint64_t *random)
{
    uint64_t x = random_draw(random);

    switch (x & 3) {
    case 0:
        atomic_store_explicit(&ch->ring->control.final, sequence(ch, random), memory_order_relaxed);
        break;
    case 1:
        atomic_store_explicit(&ch->ring->control.reader_wake, (uint32_t)(x >> 8 & 3),
                              memory_order_relaxed);
        break;
    case 2:
        atomic_store_explicit(&ch->ring->control.writer_wake, (uint32_t)(x >> 8 & 3),
                              memory_order_relaxed);
        break;
    default:
        __atomic_store_n((uint32_t *)(void *)&ch->ring->control + (x >> 8 & 15),
                         (uint32_t)draw_number(random), __ATOMIC_RELAXED);
    }
}

/* ---- what is given back ---- */

static void attack_credits(struct rch *ch, uint64_t *random)
{
    uint64_t x = random_draw(random),
             value = (x & 1) != 0 ? draw_number(random) : ch->r.nread + (x >> 8 & 3);
    uint32_t queue = ch->cfg.sync_queue;

    if (writes(ch))
        return; /* only the reader has them */
    if ((x >> 16 & 3) == 0)
        atomic_store_explicit(&ch->credit->line.slots_read, value, memory_order_relaxed);
    else if ((x >> 16 & 3) == 1)
        atomic_store_explicit(&ch->credit->line.heap_freed, value, memory_order_relaxed);
    else if (ch->cfg.mode == RPIPE_SYNC_TAGS)
        atomic_store_explicit(&ch->credit->tag[(x >> 20) % queue],
                              (x >> 1 & 1) != 0 ? draw_number(random)
                                                : (1 + (x >> 2 & 1)) << 32 | (x >> 3) % queue,
                              memory_order_relaxed);
    if (ch->cfg.mode == RPIPE_SYNC_CHANNEL && ch->r.blocks.reverse != NULL) {
        struct slot *s = &ch->r.blocks.reverse[(x >> 20) % queue];
        uint64_t number =
            (x >> 4 & 1) != 0 ? draw_number(random) : ch->r.blocks.freed + (x >> 5 & 3);

        invalid_slot(s, random);
        if ((x >> 7 & 1) != 0)
            __atomic_store_n(&s->block, (uint32_t)((x >> 8) % queue), __ATOMIC_RELAXED);
        if (ch->remote == NULL) {
            ring_slot_publish(s, number);
            return;
        }
        seal_slot(s, number);
        post_slot(ch, &ch->reverse_remote, &ch->remote->reverse, s);
    }
}

/* ---- payloads, cells, holes ---- */

static void attack_payload(struct rch *ch, uint64_t *random)
{
    char *base = writes(ch) ? (ch->cfg.op == OP_GET ? ch->heap_memory.base : ch->heap_remote.base)
                            : ch->heap_memory.base;

    if (base == NULL)
        return;
    for (int i = 0; i < 16; i++)
        __atomic_store_n(
            (uint64_t *)(void *)(base + random_draw(random) % (ch->cfg.heap_bytes / 8) * 8),
            random_draw(random), __ATOMIC_RELAXED);
}

/* In any page that has something of this channel; of memory that only this rank writes, the kernel allows none. */
static void punch_hole(struct rch *ch, uint64_t *random)
{
    void *const at[] = {ch->ring, ch->credit, ch->heap_memory.base, ch->heap_remote.base,
                        ch->reverse_memory.base};
    uintptr_t page = (uintptr_t)at[random_draw(random) % 5] & ~(uintptr_t)4095;

    if (page != 0)
        (void)madvise((void *)page, 4096, MADV_REMOVE); /* NOLINT(performance-no-int-to-ptr) */
}

static void attack_cells(struct rch *ch, uint64_t *random)
{
    if (ch->cells->cell != NULL)
        __atomic_store_n(&ch->cells->cell[random_draw(random) % ch->cells->count],
                         draw_number(random), __ATOMIC_RELAXED);
}

void memory_attack(rch_t ch, uint64_t *random)
{
    uint64_t x = random_draw(random);

    if (ch->cells != NULL) {
        attack_cells(ch, random);
        return;
    }
    switch (x & 15) {
    case 0:
    case 1:
        attack_control_line(ch, random);
        break;
    case 2:
        attack_payload(ch, random);
        break;
    case 3:
        if (ch->remote == NULL && (x >> 8 & 3) == 0)
            punch_hole(ch, random);
        break;
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
        attack_credits(ch, random);
        break;
    default:
        attack_ring(ch, random);
    }
}
