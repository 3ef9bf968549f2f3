/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alloc_bench.h: what the programs behind bench/alloc share: a clock, random numbers, allocators,
 * traces, and lines of JSON.
 *
 *     alloc_allocators   ours by every heuristic, and the malloc of other libraries, opened at run
 *                        time
 *     alloc_trace        what is allocated and freed, in which order: made once, replayed by all
 *     alloc_local        pairs, growth with live blocks, fragmentation
 *     alloc_threads      one thread allocates, another frees: pipes, and mallocs with a ring of
 *                        pointers
 *     alloc_pipe         synchronization modes, bounded heaps, irregular frees, between two
 *                        processes
 *
 * Each program prints one JSON object a line, with the time of every round, and no judgement: that
 * is bench/alloc's.
 */
#ifndef BENCH_ALLOC_BENCH_H
#define BENCH_ALLOC_BENCH_H

#include <rinfo.h>
#include <rvmem.h>
#include <rmalloc.h>

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define INLINE static inline __attribute__((always_inline))
#define ROUNDS_MAX 99

static inline int64_t clock_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What this thread has had of its processor: others may take it away meanwhile */
static inline int64_t clock_thread(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void cpu_pause(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

/* ---- random numbers: splitmix64, so that a seed means the same everywhere ---- */

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* 0 .. n - 1 */
static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((random_next(state) >> 32) * n >> 32);
}

/* least .. most, uniform */
static inline uint32_t random_size(uint64_t *state, uint32_t least, uint32_t most)
{
    return least + random_below(state, most - least + 1);
}

/*
 * least .. most, with a density that falls as the square of
 * the size: half are below twice the least
 */
static inline uint32_t random_power(uint64_t *state, uint32_t least, uint32_t most)
{
    double u = (double)(random_next(state) >> 11) * 0x1p-53;

    return (uint32_t)(least / (1 - u * (1 - (double)least / most)));
}

/* ---- allocators (alloc_allocators.c) ---- */

enum allocator_kind { KIND_VMEM, KIND_MALLOC };

struct allocator {
    const char *name;
    enum allocator_kind kind;
    /* both are called through a pointer, as a call into a shared library is */
    raddr_t (*vmem_alloc)(rvmem_t vmem, size_t size);
    int (*vmem_free)(rvmem_t vmem, raddr_t d);
    void *(*vmem_ptr)(rvmem_t vmem, raddr_t d);
    void *(*malloc)(size_t size);
    void (*free)(void *p);
    rmalloc_fit_t fit;
    rvmem_t vmem;
    void *buffer; /* its range, of `heap` bytes */
    uint64_t heap;
    char missing[256]; /* why it cannot be measured; empty: it can */
};

enum { FITS = 6, MALLOCS = 4, ALLOCATORS = FITS + MALLOCS };
#define UNIT 16u /* of our instances: what malloc aligns to */

extern struct allocator allocators[ALLOCATORS];

/*
 * Restarts the program if the thread-local variables of a
 * library would not fit. Call first in main.
 */
void allocators_prepare(char **argv);
void allocators_find(void);
/*
 * Ours: an instance of so many bytes; with `touch` its
 * memory is there already. 0, or -errno and `missing`.
 */
int allocator_open(struct allocator *a, uint64_t heap, bool touch);
void allocator_close(struct allocator *a);

INLINE void *allocator_take(const struct allocator *a, enum allocator_kind kind, size_t size)
{
    return kind == KIND_VMEM ? (void *)a->vmem_alloc(a->vmem, size) : a->malloc(size);
}

INLINE void allocator_give(const struct allocator *a, enum allocator_kind kind, void *handle)
{
    if (kind == KIND_VMEM)
        (void)a->vmem_free(a->vmem, (raddr_t)handle);
    else
        a->free(handle);
}

INLINE void *allocator_memory(const struct allocator *a, enum allocator_kind kind, void *handle)
{
    return kind == KIND_VMEM ? a->vmem_ptr(a->vmem, (raddr_t)handle) : handle;
}

/* ---- traces (alloc_trace.c) ---- */

/* Frees the block of the slot, if any; then allocates size bytes for the slot, unless size is 0. */
struct step {
    uint32_t slot, size;
};

struct trace {
    const char *name, *label;
    uint32_t slots, steps;
    struct step *step;
    uint64_t allocs;
    uint64_t peak_live; /* bytes that were asked for, at most at one time */
};

enum { TRACES = 7 };

/* Which: 0 .. TRACES - 1; `scale` times as many blocks are live as in the small ones. */
int trace_make(struct trace *t, int which, uint32_t scale, uint32_t steps, uint64_t seed);
void trace_release(struct trace *t);

/* ---- output ---- */

/* As much of a text as JSON takes without escapes. */
static inline void print_text(const char *name, const char *text)
{
    printf("\"%s\":\"", name);
    for (; *text != '\0'; text++)
        putchar(*text == '"' || *text == '\\' || (unsigned char)*text < ' ' ? ' ' : *text);
    printf("\"");
}

static inline void print_rounds(const char *name, const double *value, int rounds)
{
    printf("\"%s\":[", name);
    for (int i = 0; i < rounds; i++)
        printf("%s%.6g", i > 0 ? "," : "", value[i]);
    printf("]");
}

static inline void bind_to(int cpu)
{
    cpu_set_t set;

    if (cpu < 0 || cpu >= CPU_SETSIZE)
        return;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
        fprintf(stderr, "cannot be bound to processor %d\n", cpu);
}

#endif
