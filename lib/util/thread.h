/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread.h: threads of the library, which can be joined with a deadline.
 *
 * A thread runs with all signals blocked: they are the application's. What it does at the moment is
 * a text of static lifetime, for the error message of a join whose deadline passes. Nothing that
 * such a thread may still use can be released, the code of the library included.
 */
#ifndef UTIL_THREAD_H
#define UTIL_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct thread {
    pthread_t id;
    const char *name; /* of static lifetime, at most 15 characters */
    void (*body)(void *argument);
    void *argument;
    const char *_Atomic doing; /* stored by the thread, for messages */
    pthread_mutex_t lock;
    pthread_cond_t has_ended;
    bool ended; /* under the lock */
};

/* 0, or an error number of pthread_create(3). */
int thread_start(struct thread *thread, const char *name, void (*body)(void *argument),
                 void *argument);
/* 0; -ETIMEDOUT: it runs on, and can be joined later. */
int thread_join(struct thread *thread, int64_t deadline);
/* Whether the thread with this number of the kernel was started by thread_start(), and runs. */
bool thread_is_of_library(long number);
static inline void thread_does(struct thread *thread, const char *what)
{
    atomic_store_explicit(&thread->doing, what, memory_order_relaxed);
}
static inline const char *thread_doing(const struct thread *thread)
{
    return atomic_load_explicit(&thread->doing, memory_order_relaxed);
}

#endif
