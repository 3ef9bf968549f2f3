/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cpu.h: what the processor offers, by purpose.
 *
 * A fence is named after the two things that it keeps in order, so that the place where it stands says why. Plain C11
 * acquire and release suffice everywhere else.
 */
#ifndef UTIL_CPU_H
#define UTIL_CPU_H

#include <stdatomic.h>

#define CACHE_LINE 64
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define NOINLINE                                                                                   \
    __attribute__((                                                                                \
        noinline)) /* not "cold": that spreads to whoever calls, and costs short paths their optimization */
#define FORCE_INLINE inline __attribute__((always_inline)) /* short paths with constant arguments */

/* In a loop that polls: gives the pipeline, and a sibling hardware thread, a rest. */
static inline void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield" ::: "memory");
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* A line that will be written soon is fetched for writing now: its owner's copy is taken away before the store needs it. */
static inline void cpu_prefetch_write(const void *line)
{
#if defined(__x86_64__)
    __asm__ __volatile__(
        "prefetchw %0"
        :
        : "m"(*(const char *)line)); /* the builtin fetches for reading, but for newer -march */
#else
    __builtin_prefetch(line, 1, 3);
#endif
}

/* Between a store that may end somebody's wait and the look at his wake word, where he cannot issue membarrier(2). */
static inline void fence_store_before_wake_look(void) { atomic_thread_fence(memory_order_seq_cst); }

/* The same place, where the sleeper's membarrier(2) fences for both: only the compiler is held back. */
static inline void compiler_store_before_wake_look(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/* Between setting one's own wake word and the last look at the condition, where membarrier(2) is not to be had. */
static inline void fence_wake_word_before_recheck(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

#endif
