/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.c: see thread.h. */
#include "util/thread.h"

#include "util/clock.h"
#include "util/thread_id.h"

#include <errno.h>
#include <signal.h>

#define STACK_BYTES (256u << 10)
#define NUMBERS 16 /* more than the library starts */

/* Of the threads that run; 0: unused. With more of them than entries, some are not found. */
static _Atomic long thread_numbers[NUMBERS];

static _Atomic long *thread_register(void)
{
    long number = thread_id();

    for (int i = 0; i < NUMBERS; i++) {
        long unused = 0;

        if (atomic_compare_exchange_strong_explicit(&thread_numbers[i], &unused, number,
                                                    memory_order_relaxed, memory_order_relaxed))
            return &thread_numbers[i];
    }
    return NULL;
}

bool thread_is_of_library(long number)
{
    for (int i = 0; i < NUMBERS; i++) {
        if (number != 0 && atomic_load_explicit(&thread_numbers[i], memory_order_relaxed) == number)
            return true;
    }
    return false;
}

static void *thread_main(void *argument)
{
    struct thread *thread = argument;
    _Atomic long *number = thread_register();

    thread->body(thread->argument);
    if (number != NULL) /* before the kernel can give it to another thread */
        atomic_store_explicit(number, 0, memory_order_relaxed);
    pthread_mutex_lock(&thread->lock);
    thread->ended = true;
    pthread_cond_broadcast(&thread->has_ended);
    pthread_mutex_unlock(&thread->lock);
    return NULL;
}

static void thread_init(struct thread *thread)
{
    pthread_condattr_t monotonic;

    pthread_mutex_init(&thread->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&thread->has_ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    thread->ended = false;
}

static void thread_destroy(struct thread *thread)
{
    pthread_cond_destroy(&thread->has_ended);
    pthread_mutex_destroy(&thread->lock);
}

int thread_start(struct thread *thread, const char *name, void (*body)(void *argument),
                 void *argument)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int error;

    thread_init(thread);
    thread->name = name;
    thread->body = body;
    thread->argument = argument;
    thread_does(thread, "starting");
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread->id, &attributes, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error != 0)
        thread_destroy(thread);
    else
        pthread_setname_np(thread->id, name);
    return error;
}

int thread_join(struct thread *thread, int64_t deadline)
{
    const struct timespec until = {deadline / NS_PER_S, deadline % NS_PER_S};
    bool ended;

    pthread_mutex_lock(&thread->lock);
    while (!thread->ended && !deadline_passed(deadline)) {
        if (deadline == DEADLINE_NEVER)
            pthread_cond_wait(&thread->has_ended, &thread->lock);
        else
            pthread_cond_timedwait(&thread->has_ended, &thread->lock, &until);
    }
    ended = thread->ended;
    pthread_mutex_unlock(&thread->lock);
    if (!ended)
        return -ETIMEDOUT;
    pthread_join(thread->id, NULL); /* it has nothing left to wait for */
    thread_destroy(thread);
    return 0;
}
