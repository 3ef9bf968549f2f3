/* SPDX-License-Identifier: BSD-3-Clause */
/* step.h: one step of an operation: executed, or found to wait. */
#ifndef COLL_ENGINE_STEP_H
#define COLL_ENGINE_STEP_H

#include "coll/engine/team.h"

/* What a step returns, or a negative errno: the operation has failed. */
enum { STEP_DONE, STEP_WAITS };

/* Tries step i of the part of the plan that runs. What it has done of it stays done. */
int step_try(struct rteam *t, struct rplan *plan, uint32_t i);

/* A word that changes when step i, which waits, can go on. False: no word in memory of this host does. */
bool step_word(const struct rteam *t, const struct rplan *plan, uint32_t i, rboard_word_t *word);

/* Loads `done` of the mates into the floor of the team. */
void team_refresh_floor(struct rteam *t);

/* Whether `from` is memory of rcoll_alloc, which all of the host can read. */
static inline bool team_is_shared(const struct rteam *t, const char *from)
{
    const char *mem = t->heap + t->heap_bytes;

    return from >= mem && from < mem + t->mem_bytes;
}

/* Of what is at an offset of a base, how many bytes are there. */
static inline size_t operation_available(struct operation *o, uint32_t base, size_t at,
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
