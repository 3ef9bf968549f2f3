/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * float16.h: floating-point numbers of 16 bits, as the words that they are stored in. Each value is one of float, too; the way back
 * rounds to the nearest, and to the even one of two (IEEE 754-2008, 4.3.1).
 *
 *              sign  exponent  fraction
 *   binary16     1       5        10
 *   bfloat16     1       8         7     the upper half of a float
 */
#ifndef UTIL_FLOAT16_H
#define UTIL_FLOAT16_H

#include <stdint.h>
#include <string.h>

static inline uint32_t float_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline float float_of_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline float bfloat16_load(uint16_t x) { return float_of_bits((uint32_t)x << 16); }

static inline uint16_t bfloat16_store(float x)
{
    uint32_t bits = float_bits(x), even = bits >> 16 & 1;

    if ((bits & 0x7fffffff) > 0x7f800000) /* a NaN stays one, a quiet one */
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + even) >>
                      16); /* the carry reaches the exponent, and infinity */
}

static inline float binary16_load(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, exponent = x >> 10 & 31, fraction = x & 0x3ff;

    if (exponent == 31) /* infinity, or a NaN */
        return float_of_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent ==
        0) /* zero or subnormal: units of 2^-24, all of which float has as normal ones */
        return float_of_bits(sign | float_bits((float)fraction * 0x1p-24f));
    return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

static inline uint16_t binary16_store(float x)
{
    uint32_t bits = float_bits(x), size = bits & 0x7fffffff, even;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);

    if (size > 0x7f800000) /* a NaN */
        return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x3ff));
    if (size >= 0x477ff000) /* from 65,520 on, which is half-way to what would be next: infinity */
        return sign | 0x7c00;
    if (size <
        0x38800000) /* below 2^-14 the result is a multiple of 2^-24: the sum is rounded to that, and is its bits */
        return (uint16_t)(sign | (float_bits(float_of_bits(size) + 0.5f) - 0x3f000000));
    even = size >> 13 & 1;
    return (uint16_t)(sign | (size - 0x38000000 + 0xfff + even) >> 13);
}

#endif
