/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.h: monotonic time in nanoseconds, and deadlines.
 *
 * A deadline is a moment on the monotonic clock; DEADLINE_NEVER never comes, DEADLINE_NOW has
 * passed.
 */
#ifndef UTIL_CLOCK_H
#define UTIL_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define DEADLINE_NEVER INT64_MAX
#define DEADLINE_NOW INT64_C(0)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

static inline int64_t clock_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* ms < 0: never */
static inline int64_t deadline_in_ms(int ms)
{
    if (ms < 0)
        return DEADLINE_NEVER;
    return ms == 0 ? DEADLINE_NOW : clock_now() + ms * NS_PER_MS;
}

static inline bool deadline_passed(int64_t deadline)
{
    return deadline != DEADLINE_NEVER && (deadline == DEADLINE_NOW || clock_now() >= deadline);
}

static inline void clock_sleep(int64_t ns)
{
    const struct timespec t = {(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};

    nanosleep(&t, NULL);
}

/* Milliseconds left, rounded up, for poll(2) and epoll_wait(2): -1 for ever, at most `slice` if
 * that is not negative. */
static inline int deadline_left_ms(int64_t deadline, int slice)
{
    int64_t left;

    if (deadline == DEADLINE_NEVER)
        return slice;
    left = (deadline - clock_now() + NS_PER_MS - 1) / NS_PER_MS;
    if (left < 0)
        left = 0;
    if (slice >= 0 && left > slice)
        left = slice;
    return left > INT32_MAX ? INT32_MAX : (int)left;
}

#endif
