/* SPDX-License-Identifier: BSD-3-Clause */
/* one_thread.c: see one_thread.h. */
#include "util/one_thread.h"

#include <unistd.h>

#include <stddef.h>

static _Thread_local char one_thread_self; /* its address stands for the thread */

/* In the child of a fork: no thread is inside. */
static void one_thread_renew(struct one_thread *o)
{
    const int process = getpid();
    const int before = atomic_load_explicit(&o->process, memory_order_relaxed);

    if (before == process)
        return;
    if (before != 0)
        atomic_store_explicit(&o->inside, NULL, memory_order_relaxed);
    atomic_store_explicit(&o->process, process, memory_order_relaxed);
}

bool one_thread_enter(struct one_thread *o, const char *call, const char **other)
{
    const char *inside = NULL;

    one_thread_renew(o);
    /* acquire: what the thread before has done inside; pairs with one_thread_leave */
    if (atomic_compare_exchange_strong_explicit(&o->inside, &inside, &one_thread_self,
                                                memory_order_acquire, memory_order_relaxed)) {
        atomic_store_explicit(&o->call, call, memory_order_relaxed);
        o->depth = 0;
    } else if (inside != &one_thread_self) {
        *other = atomic_load_explicit(&o->call, memory_order_relaxed);
        return false;
    }
    o->depth++;
    return true;
}

void one_thread_leave(struct one_thread *o)
{
    if (--o->depth > 0)
        return;
    /* release: what this thread has done inside; pairs with the acquire of one_thread_enter */
    atomic_store_explicit(&o->inside, NULL, memory_order_release);
}
