/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * biased.h: a lock that one thread enters with two stores and a load, and all others at a higher price (doc/threads.md, model/biased.pml).
 *
 * The owner stores `inside`, then loads `revoked`. Another thread stores `revoked`, executes a fence in every thread of this
 * process (membarrier(2)), and then waits until the owner is not inside. So one of the two sees the other: the owner has stored `inside`
 * before the fence, or loads `revoked` after it. The owner then takes the way of the others, which have a mutex among themselves.
 *
 * Invariants
 * 1. At most one thread is inside.
 * 2. The first thread that enters and claims it becomes the owner, and stays it: with two owners, one after the other, the store of
 *    `inside` with which the old one leaves would hide that of the new one (mutant M_CHANGES). biased_disown is for what is used again by
 *    another thread, when the old one has nothing of it any more.
 * 3. A thread becomes the owner when it enters and claims it, or by biased_claim inside, after BIASED_CLAIMS calls with none of another thread
 *    between: for what a thread that only prepares the work of another one does a few times, too.
 */
#ifndef UTIL_BIASED_H
#define UTIL_BIASED_H

#include "util/cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BIASED_CLAIMS 4u

/* Whether the thread that enters becomes the owner, if there is none. */
enum biased_claim { BIASED_NEVER, BIASED_AT_ONCE };

struct biased {
    _Alignas(64) _Atomic uintptr_t owner; /* of a thread: its pthread_self(); 0: none yet */
    _Atomic uint32_t inside;              /* the owner is; it alone stores it */
    _Atomic uint32_t revoked;             /* another thread is, or waits to be */
    bool fences;                          /* no membarrier: the owner executes the fence */
    _Alignas(64) pthread_mutex_t mutex;   /* of the other threads; and of the two that follow */
    uintptr_t candidate;                  /* the last thread that called biased_claim */
    uint32_t claims;                      /* its calls */
};

void biased_init(struct biased *b);
/* No thread enters any more; waits for one that is leaving. */
void biased_fini(struct biased *b);
void biased_enter_other(struct biased *b, enum biased_claim claim) NOINLINE;
/* Does not wait for a thread that is inside. False: one is, and this one is not. Not for the owner. */
bool biased_try_other(struct biased *b) NOINLINE;
/* Inside, but not as the owner. */
void biased_claim(struct biased *b) NOINLINE;
void biased_leave_other(struct biased *b) NOINLINE;
/*
 * From here on it has no owner, as after biased_init. Inside by biased_enter_other; no thread that was the owner is on its way in (mutant M_IN_USE):
 * what orders this call with the last one of the owner orders the two owners (invariant 2).
 */
void biased_disown(struct biased *b);

static inline uintptr_t biased_self(void) { return (uintptr_t)pthread_self(); }

static inline bool biased_is_owner(const struct biased *b)
{
    return atomic_load_explicit(&b->owner, memory_order_relaxed) == biased_self();
}

/* The owner. False: another thread is inside, or waits to be. */
static inline bool biased_enter_owner(struct biased *b)
{
    atomic_store_explicit(&b->inside, 1, memory_order_relaxed);
    if (UNLIKELY(b->fences))
        atomic_thread_fence(memory_order_seq_cst); /* pairs with that of biased_revoke */
    else
        atomic_signal_fence(memory_order_seq_cst); /* pairs with the membarrier there */
    /* acquire: what another thread has done inside; pairs with biased_leave_other */
    if (LIKELY(atomic_load_explicit(&b->revoked, memory_order_acquire) == 0))
        return true;
    /* release: pairs with the acquire of a thread that waits for it */
    atomic_store_explicit(&b->inside, 0, memory_order_release);
    return false;
}

/* Returns what biased_leave needs. */
static inline bool biased_enter(struct biased *b, enum biased_claim claim)
{
    if (LIKELY(biased_is_owner(b)) && LIKELY(biased_enter_owner(b)))
        return true;
    biased_enter_other(b, claim);
    return false;
}

/* The same without a wait. False: not inside. */
static inline bool biased_try(struct biased *b, bool *as_owner)
{
    *as_owner = biased_is_owner(b);
    return *as_owner ? biased_enter_owner(b) : biased_try_other(b);
}

static inline void biased_leave(struct biased *b, bool as_owner)
{
    if (LIKELY(as_owner)) /* release: pairs with the acquire of biased_enter_other */
        atomic_store_explicit(&b->inside, 0, memory_order_release);
    else
        biased_leave_other(b);
}

#endif
