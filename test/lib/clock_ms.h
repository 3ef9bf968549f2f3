/* SPDX-License-Identifier: BSD-3-Clause */
/* clock_ms.h: time in ms, as a number with a fraction, for bounds of deadlines; and computing for so long. */
#ifndef TEST_LIB_CLOCK_MS_H
#define TEST_LIB_CLOCK_MS_H

#include <time.h>

static inline double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static inline void compute_ms(double ms)
{
    double end = now_ms() + ms;

    while (now_ms() < end)
        ;
}

static inline void compute_us(unsigned long us) { compute_ms((double)us / 1e3); }

#endif
