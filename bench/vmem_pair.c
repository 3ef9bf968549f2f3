/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vmem_pair.c: what rvmem_alloc + rvmem_free cost, beside malloc + free of mimalloc and of the C
 * library.
 *
 * All three are called as a program calls them: exported symbols of shared libraries, through
 * direct calls. In every round each allocator runs each pattern once, one after the other, so that
 * a noisy moment strikes all; medians, minima, and the ratios of both are printed. libmimalloc
 * takes the place of malloc, under all its names, in a program that is linked with it, so dlsym
 * finds malloc of the C library in the C library itself.
 *
 * usage: vmem_pair [rounds [pairs]]
 */
#include <rinfo.h>
#include <rvmem.h>
#include <rmalloc.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef HAVE_MIMALLOC
#include <mimalloc.h>
#endif

#define OUTSTANDING 64 /* a power of two */
#define SIZES 4096     /* a power of two */
#define ROUNDS_MAX 999
#define INLINE static inline __attribute__((always_inline))

static int64_t clock_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static rvmem_t vmem;
static void *(*libc_malloc)(size_t size);
static void (*libc_free)(void *p);
static uint32_t sizes[SIZES]; /* 1..4096, uniform */
static uint8_t places[SIZES]; /* 0..OUTSTANDING - 1, uniform */

/* ---- the allocators: handles are opaque, memory() is where a user would write ---- */

typedef void *(*take_fn)(size_t size);
typedef void (*give_fn)(void *handle);
typedef void *(*memory_fn)(void *handle);

static void *ours_take(size_t size) { return rvmem_alloc(vmem, size); }
static void ours_give(void *handle) { rvmem_free(vmem, handle); }
static void *ours_memory(void *handle) { return rvmem_mem(vmem, handle); }
static void *libc_take(size_t size) { return libc_malloc(size); }
static void libc_give(void *handle) { libc_free(handle); }
static void *same_memory(void *handle) { return handle; }
#ifdef HAVE_MIMALLOC
static void *mimalloc_take(size_t size) { return mi_malloc(size); }
static void mimalloc_give(void *handle) { mi_free(handle); }
#endif

static void *need(void *handle)
{
    if (handle != NULL)
        return handle;
    fprintf(stderr, "vmem_pair: an allocation failed\n");
    exit(1);
}

/* ---- the patterns: `pairs` allocations, each given back ---- */

INLINE void one_at_a_time(take_fn take, give_fn give, memory_fn memory, long pairs)
{
    (void)memory;
    for (long i = 0; i < pairs; i++)
        give(need(take(64)));
}

INLINE void one_above_another(take_fn take, give_fn give, memory_fn memory, long pairs)
{
    void *below = need(take(64));

    (void)memory;
    for (long i = 0; i < pairs; i++)
        give(need(take(64)));
    give(below);
}

INLINE void one_written(take_fn take, give_fn give, memory_fn memory, long pairs)
{
    for (long i = 0; i < pairs; i++) {
        void *handle = need(take(64));

        *(volatile long *)memory(handle) = i;
        give(handle);
    }
}

INLINE void queue(take_fn take, give_fn give, long pairs, bool same_size)
{
    void *held[OUTSTANDING] = {NULL};

    for (long i = 0; i < pairs; i++) {
        void **slot = &held[i & (OUTSTANDING - 1)];

        if (*slot != NULL)
            give(*slot);
        *slot = need(take(same_size ? 64 : sizes[i & (SIZES - 1)]));
    }
    for (long i = pairs; i < pairs + OUTSTANDING; i++)
        if (held[i & (OUTSTANDING - 1)] != NULL)
            give(held[i & (OUTSTANDING - 1)]);
}

INLINE void fifo(take_fn take, give_fn give, memory_fn memory, long pairs)
{
    (void)memory;
    queue(take, give, pairs, true);
}

INLINE void fifo_sizes(take_fn take, give_fn give, memory_fn memory, long pairs)
{
    (void)memory;
    queue(take, give, pairs, false);
}

INLINE void stack(take_fn take, give_fn give, memory_fn memory, long pairs)
{
    void *held[OUTSTANDING];

    (void)memory;
    for (long i = 0; i < pairs; i += OUTSTANDING) {
        for (int k = 0; k < OUTSTANDING; k++)
            held[k] = need(take(64));
        for (int k = OUTSTANDING; k-- > 0;)
            give(held[k]);
    }
}

/*
 * Which of those outstanding is given back is random:
 * next-fit waits for the oldest, so it needs a long arena.
 */
INLINE void irregular(take_fn take, give_fn give, memory_fn memory, long pairs)
{
    void *held[OUTSTANDING] = {NULL};

    (void)memory;
    for (long i = 0; i < pairs; i++) {
        void **slot = &held[places[i & (SIZES - 1)]];

        if (*slot != NULL)
            give(*slot);
        *slot = need(take(64));
    }
    for (int k = 0; k < OUTSTANDING; k++)
        if (held[k] != NULL)
            give(held[k]);
}

/* One function per pattern and allocator, so that every call in it is direct. */
enum { OURS, MIMALLOC, LIBC, ALLOCATORS };
typedef void (*run_fn)(long pairs);

#ifdef HAVE_MIMALLOC
#define MIMALLOC_RUN(pattern)                                                                      \
    static void mimalloc_##pattern(long pairs)                                                     \
    {                                                                                              \
        pattern(mimalloc_take, mimalloc_give, same_memory, pairs);                                 \
    }
#define MIMALLOC_NAME(pattern) mimalloc_##pattern
#else
#define MIMALLOC_RUN(pattern)
#define MIMALLOC_NAME(pattern) NULL
#endif
#define RUNS(pattern)                                                                              \
    static void ours_##pattern(long pairs) { pattern(ours_take, ours_give, ours_memory, pairs); }  \
    MIMALLOC_RUN(pattern)                                                                          \
    static void libc_##pattern(long pairs) { pattern(libc_take, libc_give, same_memory, pairs); }
#define ROW(pattern, label)                                                                        \
    {                                                                                              \
        label, { ours_##pattern, MIMALLOC_NAME(pattern), libc_##pattern }                          \
    }

RUNS(one_at_a_time)
RUNS(one_above_another)
RUNS(one_written)
RUNS(fifo)
RUNS(fifo_sizes)
RUNS(stack)
RUNS(irregular)

static const struct {
    const char *label;
    run_fn run[ALLOCATORS];
} patterns[] = {
    ROW(one_at_a_time, "pair of 64 B"),
    ROW(one_above_another, "pair of 64 B above another block"),
    ROW(one_written, "pair of 64 B, first word written"),
    ROW(fifo, "64 outstanding, first in first out, 64 B"),
    ROW(fifo_sizes, "64 outstanding, first in first out, 1..4096 B"),
    ROW(stack, "64 at a time, last in first out, 64 B"),
    ROW(irregular, "64 outstanding, freed at random, 64 B"),
};
#define PATTERNS ((int)(sizeof(patterns) / sizeof(patterns[0])))

static double times[PATTERNS][ALLOCATORS][ROUNDS_MAX]; /* ns per pair */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(int rounds, long pairs)
{
    for (int round = -1; round < rounds; round++) /* round -1 warms up */
        for (int p = 0; p < PATTERNS; p++)
            for (int a = 0; a < ALLOCATORS; a++) {
                int64_t begin = clock_now();

                if (patterns[p].run[a] == NULL)
                    continue;
                patterns[p].run[a](round < 0 ? pairs / 10 + 1 : pairs);
                if (round >= 0)
                    times[p][a][round] = (double)(clock_now() - begin) / (double)pairs;
            }
}

static bool find_libc(void)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

    if (libc == NULL)
        return false;
    *(void **)&libc_malloc = dlsym(libc, "malloc");
    *(void **)&libc_free = dlsym(libc, "free");
    return libc_malloc != NULL && libc_free != NULL;
}

static void print_ratio(double ours, double theirs)
{
    if (theirs > 0)
        printf(" %8.2f", ours / theirs);
    else
        printf(" %8s", "-");
}

static void report(int rounds, long pairs)
{
    bool noisy = false;

    printf("ns per pair, %d rounds of %ld pairs, interleaved\n", rounds, pairs);
    printf("%-46s %17s %17s %17s %17s %17s\n", "", "rmalloc", "mimalloc", "glibc", "/ mimalloc",
           "/ glibc");
    printf("%-46s", "pattern");
    for (int k = 0; k < 5; k++)
        printf(" %8s %8s", "median", "min");
    printf("\n");
    for (int p = 0; p < PATTERNS; p++) {
        double median[ALLOCATORS] = {0}, least[ALLOCATORS] = {0};

        printf("%-46s", patterns[p].label);
        for (int a = 0; a < ALLOCATORS; a++) {
            if (patterns[p].run[a] == NULL) {
                printf(" %8s %8s", "-", "-");
                continue;
            }
            qsort(times[p][a], (size_t)rounds, sizeof(double), by_value);
            median[a] = times[p][a][rounds / 2];
            least[a] = times[p][a][0];
            noisy = noisy || median[a] > 1.3 * least[a];
            printf(" %8.2f %8.2f", median[a], least[a]);
        }
        for (int a = MIMALLOC; a < ALLOCATORS; a++) {
            print_ratio(median[OURS], median[a]);
            print_ratio(least[OURS], least[a]);
        }
        printf("\n");
    }
    if (noisy)
        printf("NOISY: some median is more than 1.3 times its minimum; use the minima, or "
               "measure again.\n");
}

int main(int argc, char **argv)
{
    rvmem_config_t cfg = {.bytes = 1 << 20};
    int rounds = argc > 1 ? atoi(argv[1]) : 11;
    long pairs = argc > 2 ? atol(argv[2]) : 2000000;
    uint64_t random = 1;
    void *buffer;

    if (rounds < 1 || rounds > ROUNDS_MAX || pairs < 1) {
        fprintf(stderr, "usage: vmem_pair [rounds, 1..%d [pairs]]\n", ROUNDS_MAX);
        return 2;
    }
    if (!find_libc()) {
        fprintf(stderr, "vmem_pair: this C library is not glibc\n");
        return 1;
    }
    for (int i = 0; i < SIZES; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        sizes[i] = (uint32_t)(random >> 40) % 4096 + 1;
        places[i] = (uint8_t)((random >> 52) % OUTSTANDING);
    }
    cfg.buffer = buffer = aligned_alloc(4096, cfg.bytes);
    if (buffer == NULL || rvmem_create(&vmem, &cfg) != R_SUCCESS) {
        fprintf(stderr, "vmem_pair: no memory\n");
        return 1;
    }
    memset(buffer, 0, cfg.bytes);
    measure(rounds, pairs);
    report(rounds, pairs);
    rvmem_destroy(vmem);
    free(buffer);
    return 0;
}
