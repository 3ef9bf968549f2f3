/* SPDX-License-Identifier: BSD-3-Clause */
/* operation.h: what the steps of an operation have in common: what is there, what may be written. */
#ifndef COLL_ENGINE_OPERATION_H
#define COLL_ENGINE_OPERATION_H

#include "coll/engine/team.h"

/* What a step returns, or a negative errno: the operation has failed. */
enum { STEP_DONE, STEP_WAITS };

/* ---- steps ---- */

static inline bool operation_step_is_done(const struct operation *o, uint32_t i)
{
    return i < o->next || (o->ahead && (o->is_done[i / 64] >> i % 64 & 1) != 0);
}

static inline bool operation_step_may_begin(const struct operation *o, const struct step *s)
{
    for (uint32_t k = 0; k < s->nbefore; k++)
        if (!operation_step_is_done(o, o->program->before[s->first_before + k]))
            return false;
    return true;
}

/* ---- what may be written ---- */

/* Loads `done` of the mates into the floor of the team. */
static inline void team_refresh_floor(struct rteam *t)
{
    uint64_t floor = UINT64_MAX;

    for (int i = 0; i < t->nmates; i++) {
        const struct head *head = (const struct head *)(const void *)t->board_of[t->mates[i]];
        /* acquire: pairs with the release of team_publish_done; the mate has ended its reads */
        uint64_t done = atomic_load_explicit(&head->done, memory_order_acquire);

        floor = done < floor ? done : floor;
    }
    /* no operation beyond the own ones matters, and a mate may store any number */
    if (floor > t->number)
        floor = t->number;
    if (t->nmates > 0 && floor > t->floor)
        t->floor = floor;
}

/*
 * A message has been received: the cell of the next operation is fetched for writing, while this one ends and that one
 * begins. A mate that has ended this one polls it already, so that the store would wait for the line.
 */
static inline void team_expect_send(struct rteam *t, uint64_t number, const struct step *recv)
{
    const struct cell *cell = &t->cells[((number + 1) & (t->depth - 1)) * CELL_PAIR];

    t->received = number;
    cpu_prefetch_write(cell);
    if (UNLIKELY(recv->in_second)) /* the next one may be as long */
        cpu_prefetch_write(cell_second(cell));
}

/* ---- what is there ---- */

/* SEND, RECV: its cell of an operation. */
static inline const struct cell *operation_cell(uint64_t number, const struct step *s)
{
    const void *cell = (const char *)s->cells + (number & s->mask) * s->pitch;

    return cell;
}

/*
 * RECV of a message that does not fit into the first line of its cell: the second one is requested with each poll, so that it comes
 * while the first one does, and not after it.
 */
static inline void operation_expect_second(const struct cell *cell, const struct step *s)
{
    if (UNLIKELY(s->in_second))
        cpu_prefetch(cell_second(cell));
}

/* The part of the check of a message that its length and its mark have. */
static inline uint32_t operation_salt(const struct step *s)
{
    return (uint32_t)((2 * s->bytes + s->marked) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* A word of another member that is not atomic: loaded once, so that what has been checked is what is used. */
static inline uint64_t operation_load_once(const uint64_t *word)
{
    return *(const volatile uint64_t *)word;
}

/* Whether `from` is memory of rcoll_alloc, which all of the host can read. */
static inline bool team_is_shared(const struct rteam *t, const char *from)
{
    const char *mem = t->heap + t->heap_bytes;

    return from >= mem && from < mem + t->mem_bytes;
}

/* What `ready` of a view is whose message is in the process of its sender: all is there. */
extern const _Atomic uint64_t operation_in_process;

/* Of what is at an offset of a base, how many bytes are there. */
static inline size_t operation_available(const struct operation *o, uint32_t base, size_t at,
                                         size_t bytes)
{
    uint64_t ready;

    if (base < BASE_VIEWS || o->ready[base] == NULL)
        return bytes;
    /* acquire: pairs with the release of step_copy_into_heap; the bytes are visible */
    ready = atomic_load_explicit(o->ready[base], memory_order_acquire);
    if (ready <= at)
        return 0;
    return ready - at < bytes ? (size_t)(ready - at) : bytes;
}

#endif
