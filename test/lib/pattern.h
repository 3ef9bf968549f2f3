/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pattern.h: the content of messages in tests. Every byte depends on a key, so that a message that is torn, stale or another
 * one differs from the expected one.
 */
#ifndef TEST_LIB_PATTERN_H
#define TEST_LIB_PATTERN_H

#include "test/lib/random.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline void pattern_fill(void *memory, size_t bytes, uint64_t key)
{
    uint8_t *p = memory;

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = random_mix(key + i);

        memcpy(p + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

static inline bool pattern_same(const void *memory, size_t bytes, uint64_t key)
{
    const uint8_t *p = memory;

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = random_mix(key + i);

        if (memcmp(p + i, &word, bytes - i < 8 ? bytes - i : 8) != 0)
            return false;
    }
    return true;
}

#endif
