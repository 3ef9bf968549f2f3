/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cpu.h: what the processor offers, by purpose.
 *
 * A fence is named after the two operations that it keeps in order, so that its name is the reason
 * at each call. Plain C11 acquire and release suffice everywhere else.
 */
#ifndef UTIL_CPU_H
#define UTIL_CPU_H

#include <stdatomic.h>

#define CACHE_LINE 64
/* Lines that many processors fetch together: what two threads store to is in two pairs, or each takes away the line of the other. */
#define CACHE_PAIR 128
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
/* Not "cold": the compiler applies that to the callers too, and short paths lose their
 * optimization. */
#define NOINLINE __attribute__((noinline))
#define FORCE_INLINE inline __attribute__((always_inline)) /* short paths with constant arguments */

/* In a loop that polls: reduces the load on the pipeline and on a sibling hardware thread. */
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

/* Fetches a line that will be loaded soon. */
static inline void cpu_prefetch(const void *line) { __builtin_prefetch(line, 0, 3); }

/* Fetches a line that will be written soon in exclusive state, so that the store does not wait
 * for its owner's copy. */
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

/* Moves a line that was stored to, and that another processor will load, out of this one's cache. A hint; elsewhere nothing, and on
 * x86 processors without it a NOP. */
static inline void cpu_push_line(const void *line)
{
#if defined(__x86_64__)
    __asm__ __volatile__("cldemote %0" : : "m"(*(const char *)line));
#else
    (void)line;
#endif
}

/* Between a store that may end a wait and the load of the waiter's wake word, if the waiter
 * cannot issue membarrier(2). */
static inline void fence_store_before_wake_look(void) { atomic_thread_fence(memory_order_seq_cst); }

/* The same place, if the membarrier(2) of the waiter fences for both: only the compiler must not
 * reorder. */
static inline void compiler_store_before_wake_look(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/* Between the store of the own wake word and the last load of the condition, if there is no
 * membarrier(2). */
static inline void fence_wake_word_before_recheck(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

#endif
