/* SPDX-License-Identifier: BSD-3-Clause */
/* one_thread.c: see one_thread.h. */
#include "util/one_thread.h"

#include "util/thread_id.h"

#include <stddef.h>
#include <unistd.h>

#define ONE_THREAD_PROCESS(inside) ((inside) >> 32)

static uint64_t one_thread_self(void)
{
    return (uint64_t)(uint32_t)getpid() << 32 | (uint32_t)thread_id();
}

bool one_thread_enter(struct one_thread *o, const char *call, const char **other)
{
    const uint64_t self = one_thread_self();
    uint64_t inside = atomic_load_explicit(&o->inside, memory_order_relaxed);

    while (inside != self) {
        if (inside != 0 && ONE_THREAD_PROCESS(inside) == ONE_THREAD_PROCESS(self)) {
            *other = atomic_load_explicit(&o->call, memory_order_relaxed);
            return false;
        }
        /* acquire: what the thread before has done inside; pairs with one_thread_leave */
        if (!atomic_compare_exchange_weak_explicit(&o->inside, &inside, self, memory_order_acquire,
                                                   memory_order_relaxed))
            continue;
        atomic_store_explicit(&o->call, call, memory_order_relaxed);
        o->depth = 0;
        break;
    }
    o->depth++;
    return true;
}

void one_thread_leave(struct one_thread *o)
{
    if (atomic_load_explicit(&o->inside, memory_order_relaxed) != one_thread_self() ||
        --o->depth > 0)
        return;
    /* release: what this thread has done inside; pairs with the acquire of one_thread_enter */
    atomic_store_explicit(&o->inside, 0, memory_order_release);
}
