/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * biased.c: see biased.h.
 */
#include "util/biased.h"

#include "util/membarrier.h"

#include <sched.h>

#define BIASED_SPINS 1000

void biased_init(struct biased *b)
{
    membarrier_register();
    atomic_init(&b->owner, 0);
    atomic_init(&b->inside, 0);
    atomic_init(&b->revoked, 0);
    b->fences = !membarrier_registered();
    pthread_mutex_init(&b->mutex, NULL);
}

void biased_fini(struct biased *b) { pthread_mutex_destroy(&b->mutex); }

void biased_enter_other(struct biased *b, bool claims)
{
    uint32_t spins = 0;

    pthread_mutex_lock(&b->mutex);
    atomic_store_explicit(&b->revoked, 1, memory_order_relaxed);
    if (b->fences || !membarrier_all())
        atomic_thread_fence(memory_order_seq_cst); /* pairs with that of biased_enter */
    /* acquire: what the owner has done inside; pairs with biased_leave */
    while (atomic_load_explicit(&b->inside, memory_order_acquire) != 0) {
        if (++spins < BIASED_SPINS)
            cpu_pause();
        else
            (void)sched_yield();
    }
    if (claims && atomic_load_explicit(&b->owner, memory_order_relaxed) == 0)
        atomic_store_explicit(&b->owner, biased_self(), memory_order_relaxed);
}

void biased_leave_other(struct biased *b)
{
    /* release: what this thread has done inside, and `owner`; pairs with the acquire of biased_enter */
    atomic_store_explicit(&b->revoked, 0, memory_order_release);
    pthread_mutex_unlock(&b->mutex);
}
