/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * futex.h: sleeping in the kernel on one word, or on several at once, in memory that processes share. A mapping that can only be
 * read suffices for both, and for the wake-up.
 */
#ifndef SYNC_FUTEX_H
#define SYNC_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FUTEX_WORDS_MOST 72 /* the kernel allows 128 */

struct futex_word {
    const _Atomic uint32_t *word;
    uint32_t seen; /* the kernel sleeps only while the word has this value */
};

/* Returns when a thread wakes the word, its value is another one, or `ns` have passed; and for no reason. */
void futex_wait(const _Atomic uint32_t *word, uint32_t seen, int64_t ns);
/* The same for all of them, until a moment of clock_now(). Only where futex_many_works(). */
void futex_wait_many(const struct futex_word *words, uint32_t n, int64_t until);
/* False after a futex_wait_many() that the kernel has refused: before Linux 5.16, or forbidden. */
bool futex_many_works(void);
/* Wakes every thread that sleeps on this word. */
void futex_wake(const _Atomic uint32_t *word);

#endif
