/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy.h: copies to and from memory that other threads access at the same time.
 *
 * Words that the two ends poll (credits, flags) are aligned and are copied whole: a copy by bytes
 * could tear them. Everything longer is payload, which a slot announces.
 */
#ifndef BTL_TCP_COPY_H
#define BTL_TCP_COPY_H

#include "btl/tcp/frame.h"

#include <string.h>

#define COPY_WORDS_MOST 256u

static inline bool copy_is_by_words(const void *memory, size_t n)
{
    return n <= COPY_WORDS_MOST && (((uintptr_t)memory | n) & 7) == 0;
}

/*
 * From shared memory to `to`, which may be unaligned. acquire: what a thread did before it stored a
 * word is done before the peer has the word; pairs with its release.
 */
static inline void copy_words(void *to, const void *from, size_t n)
{
    const uint64_t *word = from;

    if (!copy_is_by_words(from, n)) {
        memcpy(to, from, n);
        return;
    }
    for (size_t i = 0; i < n / 8; i++) {
        const uint64_t value = __atomic_load_n(&word[i], __ATOMIC_ACQUIRE);

        memcpy((char *)to + 8 * i, &value, 8);
    }
}

/* From `from`, which may be unaligned, to shared memory. */
static inline void copy_place(void *to, const void *from, size_t n)
{
    uint64_t *word = to, value;

    if (!copy_is_by_words(to, n)) {
        memcpy(to, from, n);
        return;
    }
    for (size_t i = 0; i < n / 8; i++) {
        memcpy(&value, (const char *)from + 8 * i, 8);
        __atomic_store_n(&word[i], value, __ATOMIC_RELAXED);
    }
}

/* A slot to aligned memory: its last word is stored last, behind everything before (rule 8). */
static inline void copy_slot(void *to, const void *from)
{
    uint64_t *word = to, last;

    copy_place(to, from, TCP_SLOT_BYTES - 8);
    memcpy(&last, (const char *)from + TCP_SLOT_BYTES - 8, 8);
    /* release: payload and slot; pairs with the acquire of a reader that polls this word */
    __atomic_store_n(&word[TCP_SLOT_BYTES / 8 - 1], last, __ATOMIC_RELEASE);
}

#endif
