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
    b->candidate = 0;
    b->claims = 0;
    pthread_mutex_init(&b->mutex, NULL);
}

/* A thread that leaves stores `revoked`, and then unlocks the mutex: the owner can enter, and end the lock, between. */
void biased_fini(struct biased *b)
{
    pthread_mutex_lock(&b->mutex);
    pthread_mutex_unlock(&b->mutex);
    pthread_mutex_destroy(&b->mutex);
}

/* Mutex held. From here on the owner does not enter. Whether it is inside. */
static bool biased_revoke(struct biased *b)
{
    atomic_store_explicit(&b->revoked, 1, memory_order_relaxed);
    if (b->fences || !membarrier_all())
        atomic_thread_fence(memory_order_seq_cst); /* pairs with that of biased_enter_owner */
    /* acquire: what the owner has done inside; pairs with biased_leave */
    return atomic_load_explicit(&b->inside, memory_order_acquire) != 0;
}

void biased_enter_other(struct biased *b, enum biased_claim claim)
{
    uint32_t spins = 0;
    bool inside;

    pthread_mutex_lock(&b->mutex);
    for (inside = biased_revoke(b); inside;
         /* acquire: as in biased_revoke */
         inside = atomic_load_explicit(&b->inside, memory_order_acquire) != 0) {
        if (++spins < BIASED_SPINS)
            cpu_pause();
        else
            (void)sched_yield();
    }
    if (claim == BIASED_AT_ONCE && atomic_load_explicit(&b->owner, memory_order_relaxed) == 0)
        atomic_store_explicit(&b->owner, biased_self(), memory_order_relaxed);
}

void biased_claim(struct biased *b)
{
    if (atomic_load_explicit(&b->owner, memory_order_relaxed) != 0)
        return;
    if (b->candidate != biased_self())
        b->claims = 0;
    b->candidate = biased_self();
    if (++b->claims >= BIASED_CLAIMS)
        atomic_store_explicit(&b->owner, biased_self(), memory_order_relaxed);
}

void biased_disown(struct biased *b)
{
    /* relaxed: the next owner finds it, or is one, with the mutex held */
    atomic_store_explicit(&b->owner, 0, memory_order_relaxed);
    b->candidate = 0;
    b->claims = 0;
}

bool biased_try_other(struct biased *b)
{
    if (pthread_mutex_trylock(&b->mutex) != 0)
        return false;
    if (!biased_revoke(b))
        return true;
    biased_leave_other(b);
    return false;
}

void biased_leave_other(struct biased *b)
{
    /* release: what this thread has done inside, and `owner`; pairs with the acquire of biased_enter */
    atomic_store_explicit(&b->revoked, 0, memory_order_release);
    pthread_mutex_unlock(&b->mutex);
}
