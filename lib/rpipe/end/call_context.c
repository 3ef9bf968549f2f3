/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call_context.c: see call_context.h.
 *
 * One counter for all threads would be one contended line. There are some, each on a line of its own; a thread chooses one by
 * its address.
 */
#include "rpipe/end/call_context.h"

#include <pthread.h>

#define SHARDS 16u

static struct {
    _Atomic uint32_t threads;
} __attribute__((aligned(CACHE_LINE))) call_context_shards[SHARDS];

_Atomic bool calls_ending;
static _Thread_local bool call_context_leader;    /* this thread is in rexit */
static _Thread_local uint32_t call_context_depth; /* calls that it is counted for */
static _Thread_local const char *call_context_name;

const char *call_name(void) { return call_context_name; }

bool call_is_counted(void) { return call_context_depth > 0; }

const char *call_rename(const char *name)
{
    const char *before = call_context_name;

    call_context_name = name;
    return before;
}

void call_enter(struct call *call, const char *name)
{
    call->outer = call_rename(name);
    call->inside = NULL;
    call_context_depth++;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call->cancel);
    call->shard = (uint32_t)((uintptr_t)pthread_self() >> 12) % SHARDS;
    /* seq_cst: before the load in calls_ended; rexit uses the opposite order */
    atomic_fetch_add_explicit(&call_context_shards[call->shard].threads, 1, memory_order_seq_cst);
}

void call_leave(const struct call *call)
{
    /* release: this call's accesses come before the release of memory in rexit. Pairs with calls_any */
    atomic_fetch_sub_explicit(&call_context_shards[call->shard].threads, 1, memory_order_release);
    (void)pthread_setcancelstate(call->cancel, NULL);
    call_context_name = call->outer;
    call_context_depth--;
}

bool calls_end_here(void) { return call_context_leader; }

void calls_end(void)
{
    call_context_leader = true;
    atomic_store_explicit(&calls_ending, true, memory_order_seq_cst);
}

void calls_done(void) { call_context_leader = false; }

bool calls_any(void)
{
    /* seq_cst: acquire (pairs with call_leave), and after the store in calls_end */
    for (uint32_t i = 0; i < SHARDS; i++)
        if (atomic_load_explicit(&call_context_shards[i].threads, memory_order_seq_cst) != 0)
            return true;
    return false;
}

void calls_forked(void)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        atomic_store_explicit(&call_context_shards[i].threads, 0, memory_order_relaxed);
}
