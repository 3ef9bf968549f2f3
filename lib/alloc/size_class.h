/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * size_class.h: classes of sizes, and a set of classes that is searched by two bit scans.
 *
 * Classes are exact up to 15 units, and eight to the octave beyond: size_class() ascends, and within
 * a class no size is more than an eighth above another. There are SIZE_CLASSES for sizes up to 2^32
 * - 1; a range of n units needs those up to size_class(n).
 *
 * Fine classes are half as wide: exact up to 31 units, and sixteen to the octave beyond. Listed
 * classes are exact up to LISTED_UNITS, and those of size_class() beyond.
 */
#ifndef ALLOC_SIZE_CLASS_H
#define ALLOC_SIZE_CLASS_H

#include <assert.h>
#include <stdint.h>

#define SIZE_CLASSES 240u
#define SIZE_CLASS_NONE UINT32_MAX

/* The four highest bits of the size, and which octave they are in. */
static inline uint32_t size_class(uint32_t units)
{
    const uint32_t octave = 28 - (uint32_t)__builtin_clz(units | 8);

    return (octave << 3) + (units >> octave);
}

#define FINE_CLASSES 464u
#define FINE_EXACT 31u /* the last class that has one size */

/* The five highest bits of the size, and which octave they are in. */
static inline uint32_t fine_class(uint32_t units)
{
    const uint32_t octave = 27 - (uint32_t)__builtin_clz(units | 16);

    return (octave << 4) + (units >> octave);
}

/* The first class that has no size below `units`, which is at most 2^31. */
static inline uint32_t fine_class_above(uint32_t units)
{
    return fine_class(units + (UINT32_C(1) << (27 - (uint32_t)__builtin_clz(units | 16))) - 1);
}

/* The smallest size of a class. */
static inline uint32_t fine_class_least(uint32_t c)
{
    const uint32_t octave = c <= FINE_EXACT ? 0 : c / 16 - 1;

    return (c - (octave << 4)) << octave;
}

/* The listed classes that have one size: class 0 has 1 unit, so that all of them are one word of a set. */
#define LISTED_UNITS 64u

static inline uint32_t listed_class(uint32_t units)
{
    return units <= LISTED_UNITS ? units - 1
                                 : LISTED_UNITS + size_class(units) - size_class(LISTED_UNITS + 1);
}

#define CLASS_WORDS ((FINE_CLASSES + 63) / 64)

/* Bit c % 64 of word c / 64 is set if class c is not empty; bit w of `words`, if word w has one. */
struct class_set {
    uint64_t word[CLASS_WORDS];
    uint32_t words;
};

static_assert(CLASS_WORDS <= 32, "one word has a bit for each word");

/* The bit of a class's word in `words`. & 31 costs nothing; static analyzers find no bound of `c`. */
static inline uint32_t class_set_word(uint32_t c) { return 1u << (c / 64 & 31); }

static inline void class_set_add(struct class_set *set, uint32_t c)
{
    set->word[c / 64] |= UINT64_C(1) << c % 64;
    set->words |= class_set_word(c);
}

static inline void class_set_remove(struct class_set *set, uint32_t c)
{
    set->word[c / 64] &= ~(UINT64_C(1) << c % 64);
    if (set->word[c / 64] == 0)
        set->words &= ~class_set_word(c);
}

/* The first class that is not below `c`, which is less than FINE_CLASSES; or SIZE_CLASS_NONE. */
static inline uint32_t class_set_from(const struct class_set *set, uint32_t c)
{
    uint32_t w = c / 64, words;
    uint64_t bits = set->word[w] & UINT64_MAX << c % 64;

    if (bits == 0) {
        words = set->words & ~((2u << w) - 1);
        if (words == 0)
            return SIZE_CLASS_NONE;
        w = (uint32_t)__builtin_ctz(words);
        bits = set->word[w];
    }
    return w * 64 + (uint32_t)__builtin_ctzll(bits);
}

/* The last class, or SIZE_CLASS_NONE. */
static inline uint32_t class_set_last(const struct class_set *set)
{
    uint32_t w;

    if (set->words == 0)
        return SIZE_CLASS_NONE;
    w = 31 - (uint32_t)__builtin_clz(set->words);
    return w * 64 + 63 - (uint32_t)__builtin_clzll(set->word[w]);
}

#endif
