/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal.h: the flag of a slot that a network writes (doc/protocol.md "Sealed slots").
 *
 * A network orders neither the words of a slot nor the bytes of its flag: TCP was seen to deliver slots whose first bytes were
 * visible without the rest. So the flag consists of the low 32 bits of the sequence number and a CRC-32C of the other 56 bytes and the
 * whole number. A flag that does not match is "not yet". The reader works on a copy, which does not change after it was checked.
 */
#ifndef SYNC_SEAL_H
#define SYNC_SEAL_H

#include "sync/slot.h"
#include "util/crc32c.h"

#include <string.h>

#define SEAL_WORDS 7 /* of a slot, before its flag */

static inline uint64_t seal_of(const uint64_t word[SEAL_WORDS], uint64_t sequence)
{
    uint32_t crc = crc32c_words(UINT32_MAX, word, SEAL_WORDS);

    return (uint64_t)crc32c_words(crc, &sequence, 1) << 32 | (uint32_t)sequence;
}

/* The slot is complete but for its flag, in memory that only this side stores to. */
static inline void seal_slot(struct slot *s, uint64_t sequence)
{
    uint64_t word[SEAL_WORDS];

    memcpy(word, s, sizeof(word));
    atomic_store_explicit(&s->flag, seal_of(word, sequence),
                          memory_order_relaxed); /* the backend orders what it posts */
}

/* May it be complete? One load, for loops that wait. */
static inline bool seal_promises(const struct slot *s, uint64_t sequence)
{
    return (uint32_t)atomic_load_explicit(&s->flag, memory_order_relaxed) == (uint32_t)sequence;
}

/* True, and the slot in `copy`, if the one with this number is complete. Acquire: the payload was visible before the flag. */
static inline bool seal_open(const struct slot *s, uint64_t sequence, struct slot *copy)
{
    uint64_t word[SEAL_WORDS], flag = atomic_load_explicit(&s->flag, memory_order_acquire);
    int i;

    if ((uint32_t)flag != (uint32_t)sequence)
        return false;
    for (i = 0; i < SEAL_WORDS; i++)
        word[i] = __atomic_load_n((const uint64_t *)(const void *)s + i, __ATOMIC_RELAXED);
    if (seal_of(word, sequence) != flag)
        return false;
    memcpy(copy, word, sizeof(word));
    return true;
}

#endif
