/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread_id.h: the kernel's number of the calling thread, also where gettid(2) is refused (seccomp).
 */
#ifndef UTIL_THREAD_ID_H
#define UTIL_THREAD_ID_H

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The clock of a thread's processor time has the number: ~number << 3 | 6 (Linux, CPUCLOCK_SCHED). */
static inline clockid_t thread_clock(long id) { return (clockid_t)(~(unsigned)id << 3 | 6u); }

/* The C library makes the clock from the number that it stores: no system call. 0: not known. */
static inline long thread_id(void)
{
    long id = syscall(SYS_gettid);
    clockid_t clock;

    if (id > 0)
        return id;
    if (pthread_getcpuclockid(pthread_self(), &clock) != 0)
        return 0;
    return (long)(~((unsigned)clock >> 3) & 0x1fffffffu);
}

#endif
