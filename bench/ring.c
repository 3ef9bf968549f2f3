/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.c: what two cores can do at best with a stream: a ring of lines in shared memory.
 *
 * One process stores a number and a flag into each line, the other polls the flag and adds the number up; the count of lines
 * read is fetched only when the ring is full. "one" has a message in each line, "four" four messages with one flag, which is what
 * gathering small messages could reach. No library does better with flow control, so it is the yardstick of every rate of
 * messages, as pingpong is of latency.
 *
 * usage: ring [-n LINES] [-r ROUNDS] [-s SLOTS] [-c CPU,CPU]
 * prints one line of JSON: nanoseconds of a message, for each round.
 */
#include "two_cores.h"

#include <stdatomic.h>
#include <stdint.h>

#define SLOTS_MAX 4096
#define AHEAD 8 /* lines that the writer requests before it stores to them */

struct line {
    _Alignas(LINE) uint64_t number[7];
    _Atomic uint64_t flag;
};

/* `read` belongs to the reader, `round` to the writer: each is a line of its own. */
struct ring {
    _Alignas(LINE) _Atomic uint64_t read;
    _Alignas(LINE) _Atomic uint64_t round;
    struct line line[SLOTS_MAX];
};

/* `first`: lines written before; `messages` of a line: a constant. Returns when the reader has read all. */
static inline __attribute__((always_inline)) double
write_lines(struct ring *r, uint64_t first, uint64_t n, uint64_t slots, int messages)
{
    uint64_t limit = first + slots;
    double began = now_ns();

    for (uint64_t i = first; i < first + n; i++) {
        struct line *line = &r->line[i & (slots - 1)];

        while (i == limit) /* acquire: the reader has read the line before it is overwritten */
            limit = atomic_load_explicit(&r->read, memory_order_acquire) + slots;
        __builtin_prefetch(&r->line[(i + AHEAD) & (slots - 1)], 1);
        for (int k = 0; k < messages; k++)
            line->number[k] = i + (uint64_t)k;
        /* release: pairs with the acquire of read_lines */
        atomic_store_explicit(&line->flag, i + 1, memory_order_release);
    }
    while (atomic_load_explicit(&r->read, memory_order_acquire) != first + n)
        continue;
    return (now_ns() - began) / (double)n / messages;
}

static inline __attribute__((always_inline)) uint64_t
read_lines(struct ring *r, uint64_t first, uint64_t n, uint64_t slots, int messages)
{
    uint64_t sum = 0;

    for (uint64_t i = first; i < first + n; i++) {
        const struct line *line = &r->line[i & (slots - 1)];

        while (atomic_load_explicit(&line->flag, memory_order_acquire) != i + 1)
            continue;
        for (int k = 0; k < messages; k++)
            sum += line->number[k];
        /* release: pairs with the acquire of write_lines */
        atomic_store_explicit(&r->read, i + 1, memory_order_release);
    }
    return sum;
}

/* Both processes; the reader begins a round when the writer has. */
static void play(struct ring *r, int writer, int rounds, uint64_t n, uint64_t slots, double *one,
                 double *four)
{
    uint64_t first = 0, sum = 0;

    for (int i = 0; i < rounds; i++) {
        if (writer) {
            atomic_store_explicit(&r->round, (uint64_t)i + 1, memory_order_release);
            one[i] = write_lines(r, first, n, slots, 1);
            four[i] = write_lines(r, first + n, n, slots, 4);
        } else {
            while (atomic_load_explicit(&r->round, memory_order_acquire) != (uint64_t)i + 1)
                continue;
            sum += read_lines(r, first, n, slots, 1);
            sum += read_lines(r, first + n, n, slots, 4);
        }
        first += 2 * n;
    }
    if (!writer && sum == 0)
        _exit(1); /* the numbers are read */
}

int main(int argc, char **argv)
{
    uint64_t n = 2000000, slots = 64;
    int rounds = 1, cpu[2] = {-1, -1}, option;
    static double one[ROUNDS_MAX], four[ROUNDS_MAX];
    struct ring *ring;
    pid_t child;

    while ((option = getopt(argc, argv, "n:r:s:c:")) != -1) {
        if (option == 'n')
            n = strtoull(optarg, NULL, 10);
        else if (option == 'r')
            rounds = atoi(optarg);
        else if (option == 's')
            slots = strtoull(optarg, NULL, 10);
        else if (option != 'c' || sscanf(optarg, "%d,%d", &cpu[0], &cpu[1]) != 2)
            n = 0;
    }
    if (n == 0 || rounds < 1 || rounds > ROUNDS_MAX || slots < 2 || slots > SLOTS_MAX ||
        (slots & (slots - 1)) != 0 || optind != argc) {
        fprintf(stderr,
                "usage: ring [-n LINES] [-r ROUNDS up to %d] [-s SLOTS, a power of two up to %d] "
                "[-c CPU,CPU]\n",
                ROUNDS_MAX, SLOTS_MAX);
        return 2;
    }
    ring = shared_memory(sizeof(*ring));
    child = second_process(cpu);
    play(ring, child != 0, rounds, n, slots, one, four);
    if (child == 0)
        _exit(0);
    if (!second_process_is_good(child))
        return 1;
    printf("{");
    print_rounds("one_ns", one, rounds, ", ");
    print_rounds("four_ns", four, rounds, "}\n");
    return 0;
}
