/* SPDX-License-Identifier: BSD-3-Clause */
/* random.h: pseudo random numbers for tests (splitmix64): the same from the same seed, on every machine. */
#ifndef TEST_LIB_RANDOM_H
#define TEST_LIB_RANDOM_H

#include <stdint.h>

/* A number that depends on every bit of x. */
static inline uint64_t random_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* The next number of a sequence. */
static inline uint64_t random_draw(uint64_t *state)
{
    uint64_t x = *state;

    *state += UINT64_C(0x9e3779b97f4a7c15);
    return random_mix(x);
}

/* A word in the place of another one: any, a small number, or the edge of a type. */
static inline uint64_t random_invalid(uint64_t *state)
{
    static const uint64_t edge[] = {0,         1,          7,         64,         4096,
                                    INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
    uint64_t x = random_draw(state);

    return x % 4 == 0   ? random_draw(state)
           : x % 4 == 1 ? random_draw(state) % 100000
                        : edge[(x >> 8) % (sizeof(edge) / sizeof(*edge))];
}

#endif
