/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pingpong.c: what two cores can do at best: a number in a cache line of its own, to the other core
 * and back.
 *
 * Two processes share a page. Each polls its own line and writes the other's, once with a tight
 * loop and once with a pause instruction in it; which of the two is better depends on the machine.
 * No library does better than this with one line per message, so it is the yardstick of every
 * latency, and its spread over the rounds measures how quiet the machine is.
 *
 * With -b a payload too: what a put and a flag are at best. The sender fills memory of its own, copies it into a buffer that both
 * share, one after the other of 64, and stores the number; the receiver polls the number and sums up the payload. That is a message
 * whose receiver has no address of it to find, and whose buffer needs no permission to be used again.
 *
 * usage: pingpong [-n ROUND_TRIPS] [-r ROUNDS] [-b BYTES] [-c CPU,CPU]
 * prints one line of JSON: one-way times in nanoseconds, for each round.
 */
#include "two_cores.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#define BYTES_MAX 65536
#define BUFFERS 64

struct line {
    _Alignas(LINE) _Atomic uint64_t number;
};

struct table {
    struct line to[2]; /* [i] is polled by process i */
    _Alignas(LINE) char payload[2][BUFFERS][BYTES_MAX];
};

typedef uint64_t words __attribute__((vector_size(16), aligned(1), may_alias));

static char own[BYTES_MAX];
static volatile uint64_t sink;

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield" ::: "memory");
#endif
}

static inline __attribute__((always_inline)) void await(struct line *line, uint64_t number,
                                                        bool pausing)
{
    while (atomic_load_explicit(&line->number, memory_order_acquire) != number)
        if (pausing)
            relax();
}

/* Numbers go on from round to round, so no line holds an old number that equals an expected one. */
static inline __attribute__((always_inline)) double play(struct table *t, int me, uint64_t from,
                                                         uint64_t n, bool pausing)
{
    double began = now_ns();

    for (uint64_t i = from; i < from + n; i++) {
        if (me == 0)
            atomic_store_explicit(&t->to[1].number, i, memory_order_release);
        await(&t->to[me], i, pausing);
        if (me == 1)
            atomic_store_explicit(&t->to[0].number, i, memory_order_release);
    }
    return (now_ns() - began) / (double)n / 2;
}

static void put(struct table *t, int to, uint64_t number, size_t bytes)
{
    memset(own, (int)number, bytes);
    __asm__ __volatile__("" ::: "memory"); /* it is copied from memory */
    memcpy(t->payload[to][number % BUFFERS], own, bytes);
    atomic_store_explicit(&t->to[to].number, number, memory_order_release);
}

static void take(struct table *t, int me, uint64_t number, size_t bytes)
{
    const words *at = (const words *)(const void *)t->payload[me][number % BUFFERS];
    words a = {0}, b = {0}, c = {0}, d = {0};

    await(&t->to[me], number, true);
    for (size_t i = 0; i < bytes / sizeof(*at); i += 4) {
        a += at[i];
        b += at[i + 1];
        c += at[i + 2];
        d += at[i + 3];
    }
    a += b + c + d;
    sink += a[0] + a[1];
}

static double play_put(struct table *t, int me, uint64_t from, uint64_t n, size_t bytes)
{
    double began = now_ns();

    for (uint64_t i = from; i < from + n; i++) {
        if (me == 0)
            put(t, 1, i, bytes);
        take(t, me, i, bytes);
        if (me == 1)
            put(t, 0, i, bytes);
    }
    return (now_ns() - began) / (double)n / 2;
}

int main(int argc, char **argv)
{
    uint64_t n = 200000, number = 1, bytes = 0;
    int rounds = 1, cpu[2] = {-1, -1}, option, me;
    static double tight[ROUNDS_MAX], pausing[ROUNDS_MAX], putting[ROUNDS_MAX];
    struct table *table;
    pid_t child;

    while ((option = getopt(argc, argv, "n:r:b:c:")) != -1) {
        if (option == 'n')
            n = strtoull(optarg, NULL, 10);
        else if (option == 'r')
            rounds = atoi(optarg);
        else if (option == 'b')
            bytes = strtoull(optarg, NULL, 10);
        else if (option != 'c' || sscanf(optarg, "%d,%d", &cpu[0], &cpu[1]) != 2)
            n = 0;
    }
    if (n == 0 || rounds < 1 || rounds > ROUNDS_MAX || bytes % LINE != 0 || bytes > BYTES_MAX ||
        optind != argc) {
        fprintf(stderr,
                "usage: pingpong [-n ROUND_TRIPS] [-r ROUNDS up to %d] [-b BYTES, a multiple of %d "
                "up to %d] [-c CPU,CPU]\n",
                ROUNDS_MAX, LINE, BYTES_MAX);
        return 2;
    }
    table = shared_memory(sizeof(*table));
    child = second_process(cpu);
    me = child == 0;
    play(table, me, number, 1000, true); /* both are here */
    number += 1000;
    for (int i = 0; i < rounds; i++) {
        tight[i] = play(table, me, number, n, false);
        number += n;
        pausing[i] = play(table, me, number, n, true);
        number += n;
        if (bytes > 0) {
            play_put(table, me, number, BUFFERS, bytes);
            putting[i] = play_put(table, me, number + BUFFERS, n, bytes);
            number += BUFFERS + n;
        }
    }
    if (me == 1)
        _exit(0);
    if (!second_process_is_good(child))
        return 1;
    printf("{");
    print_rounds("tight_ns", tight, rounds, ", ");
    print_rounds("pause_ns", pausing, rounds, bytes > 0 ? ", " : "}\n");
    if (bytes > 0)
        print_rounds("put_ns", putting, rounds, "}\n");
    return 0;
}
