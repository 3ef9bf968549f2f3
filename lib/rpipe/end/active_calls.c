/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * active_calls.c: see active_calls.h.
 *
 * One counter would be a line that all threads fight for: there are some, each on a line of its own, and a thread takes the
 * one that its address leads to.
 */
#include "rpipe/end/active_calls.h"

#include "util/cpu.h"

#include <pthread.h>
#include <stdatomic.h>

#define SHARDS 16u

static struct {
    _Atomic uint32_t threads;
} __attribute__((aligned(CACHE_LINE))) active_calls_shards[SHARDS];

static _Atomic bool active_calls_ending;
static _Thread_local bool active_calls_leader; /* this thread is the one in rexit */

void active_call_enter(struct active_call *in)
{
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &in->cancel);
    in->shard = (uint32_t)((uintptr_t)pthread_self() >> 12) % SHARDS;
    /* before the look at `ended`; rexit the other way round */
    atomic_fetch_add_explicit(&active_calls_shards[in->shard].threads, 1, memory_order_seq_cst);
}

void active_call_leave(const struct active_call *in)
{
    /* release: what this call has touched comes before what rexit gives back. Pairs with active_calls_any */
    atomic_fetch_sub_explicit(&active_calls_shards[in->shard].threads, 1, memory_order_release);
    (void)pthread_setcancelstate(in->cancel, NULL);
}

bool active_calls_ended(void)
{
    return UNLIKELY(atomic_load_explicit(&active_calls_ending, memory_order_seq_cst)) &&
           !active_calls_leader;
}

void active_calls_end(void)
{
    active_calls_leader = true;
    atomic_store_explicit(&active_calls_ending, true, memory_order_seq_cst);
}

void active_calls_done(void) { active_calls_leader = false; }

bool active_calls_any(void)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        if (atomic_load_explicit(&active_calls_shards[i].threads, memory_order_seq_cst) !=
            0) /* acquire, and after `ended` */
            return true;
    return false;
}

void active_calls_forked(void)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        atomic_store_explicit(&active_calls_shards[i].threads, 0, memory_order_relaxed);
}
