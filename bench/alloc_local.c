/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alloc_local.c: what rvmem_alloc + rvmem_free cost, beside malloc + free of others, on the same
 * traces; see alloc_bench.h.
 *
 *     pairs           time of an allocation and its free, on every trace, payload not touched or
 *                     its first word written
 *     scale           the same, at random, with 10 to a million live blocks; and what descriptors
 *                     take
 *     fragmentation   the smallest range in which a trace runs through, by bisection; resident
 *                     memory of the others
 *
 * In a round each allocator runs once, one after the other, for a given time, so that a noisy
 * moment strikes all; time is what the thread has had of its processor. A range of ours is as large
 * as the trace turns out to need: it is doubled until the trace runs through twice.
 */
#include "alloc_bench.h"
#include <rvmem.h>
#include <rinfo.h>

#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    int rounds, cpu;
    double ms; /* of one allocator in one round */
    uint64_t seed;
    uint32_t most_live, steps, scale;
} options = {.rounds = 9,
             .cpu = -1,
             .ms = 10,
             .seed = 1,
             .most_live = 1000000,
             .steps = 1 << 17,
             .scale = 32};

#define PAGE UINT64_C(4096)
#define HEAP_MOST (UINT64_C(1) << 40)

static char missing[ALLOCATORS]
                   [sizeof(allocators[0].missing)]; /* from the beginning, and not for one trace */

static void forgive(void)
{
    for (int i = 0; i < ALLOCATORS; i++)
        memcpy(allocators[i].missing, missing[i], sizeof(missing[i]));
}

/* ---- replaying ---- */

INLINE bool replay_as(const struct allocator *a, enum allocator_kind kind, bool touch,
                      const struct trace *t, void **held)
{
    for (uint32_t i = 0; i < t->steps; i++) {
        struct step s = t->step[i];
        void **slot = &held[s.slot];

        if (*slot != NULL) {
            allocator_give(a, kind, *slot);
            *slot = NULL;
        }
        if (s.size != 0) {
            void *handle = allocator_take(a, kind, s.size);

            if (__builtin_expect(handle == NULL, 0))
                return false;
            if (touch)
                *(volatile uint64_t *)allocator_memory(a, kind, handle) = i;
            *slot = handle;
        }
    }
    return true;
}

/* False: no memory. */
static bool replay(const struct allocator *a, bool touch, const struct trace *t, void **held)
{
    if (a->kind == KIND_VMEM)
        return touch ? replay_as(a, KIND_VMEM, true, t, held)
                     : replay_as(a, KIND_VMEM, false, t, held);
    return touch ? replay_as(a, KIND_MALLOC, true, t, held)
                 : replay_as(a, KIND_MALLOC, false, t, held);
}

static bool replay_twice(const struct allocator *a, bool touch, const struct trace *t, void **held)
{
    bool once = replay(a, touch, t, held);

    return once && replay(a, touch, t, held);
}

static void drain(const struct allocator *a, void **held, uint32_t slots)
{
    for (uint32_t i = 0; i < slots; i++)
        if (held[i] != NULL) {
            allocator_give(a, a->kind, held[i]);
            held[i] = NULL;
        }
}

static void *need(void *p)
{
    if (p != NULL)
        return p;
    fprintf(stderr, "alloc_local: no memory\n");
    exit(1);
}

/* ---- pairs ---- */

/* Ours: a range in which the trace runs through twice; all: warm. */
static bool warm(struct allocator *a, bool touch, const struct trace *t, void **held, uint64_t heap)
{
    for (; heap <= HEAP_MOST; heap *= 2) {
        if (allocator_open(a, heap, touch) != 0)
            return false;
        if (replay_twice(a, touch, t, held))
            return true;
        if (a->kind != KIND_VMEM)
            break;
        memset(held, 0, t->slots * sizeof(*held));
        allocator_close(a);
    }
    snprintf(a->missing, sizeof(a->missing), "no memory for trace %s", t->name);
    return false;
}

static double time_trace(struct allocator *a, bool touch, const struct trace *t, void **held)
{
    int64_t began = clock_thread(), now = began;
    long replays = 0;

    while (replays == 0 || (double)(now - began) < options.ms * 1e6) {
        while (!replay(a, touch, t,
                       held)) { /* the state differs a little from one replay to the next */
            uint64_t heap = 2 * a->heap;

            memset(held, 0, t->slots * sizeof(*held));
            allocator_close(a);
            if (!warm(a, touch, t, held, heap))
                return NAN;
            began = clock_thread();
            replays = 0;
        }
        replays++;
        now = clock_thread();
    }
    return (double)(now - began) / ((double)replays * (double)t->allocs);
}

static void print_pair(const struct allocator *a, bool touch, const struct trace *t,
                       const double *ns)
{
    printf("{\"part\":\"pairs\",");
    print_text("trace", t->name);
    printf(",");
    print_text("label", t->label);
    printf(",\"touch\":%d,", touch);
    print_text("allocator", a->name);
    if (a->missing[0] != '\0') {
        printf(",");
        print_text("missing", a->missing);
    } else {
        printf(",\"live\":%llu,\"heap\":%llu,", (unsigned long long)t->peak_live,
               (unsigned long long)a->heap);
        print_rounds("ns", ns, options.rounds);
    }
    printf("}\n");
    fflush(stdout);
}

static void measure_pairs(const struct trace *t, bool touch)
{
    static double ns[ALLOCATORS][ROUNDS_MAX];
    void **held[ALLOCATORS];

    forgive();
    for (int i = 0; i < ALLOCATORS; i++) {
        held[i] = need(calloc(t->slots, sizeof(void *)));
        if (allocators[i].missing[0] == '\0')
            warm(&allocators[i], touch, t, held[i], 2 * t->peak_live + 4096);
    }
    for (int round = 0; round < options.rounds; round++)
        for (int i = 0; i < ALLOCATORS; i++)
            if (allocators[i].missing[0] == '\0')
                ns[i][round] = time_trace(&allocators[i], touch, t, held[i]);
    for (int i = 0; i < ALLOCATORS; i++) {
        print_pair(&allocators[i], touch, t, ns[i]);
        if (allocators[i].missing[0] == '\0') {
            drain(&allocators[i], held[i], t->slots);
            allocator_close(&allocators[i]);
        }
        free(held[i]);
    }
}

static void pairs(void)
{
    for (int which = 0; which < TRACES; which++) {
        struct trace t;

        if (trace_make(&t, which, 1, options.steps, options.seed) != 0)
            need(NULL);
        measure_pairs(&t, false);
        measure_pairs(&t, true);
        trace_release(&t);
    }
}

/* ---- scale ---- */

struct churn {
    void **held;
    uint64_t random;
    uint32_t live, least, most;
};

/* Frees any of the live blocks and allocates another: `steps` times. */
INLINE bool churn_as(const struct allocator *a, enum allocator_kind kind, struct churn *c,
                     uint64_t steps)
{
    uint64_t random = c->random;

    for (uint64_t i = 0; i < steps; i++) {
        uint64_t draw = random_next(&random);
        void **slot = &c->held[(draw >> 32) * c->live >> 32];
        uint32_t size = c->least + (uint32_t)((draw & UINT32_MAX) * (c->most - c->least + 1) >> 32);

        allocator_give(a, kind, *slot);
        *slot = allocator_take(a, kind, size);
        if (__builtin_expect(*slot == NULL, 0))
            return false;
    }
    c->random = random;
    return true;
}

#define CHURN 2000 /* steps between two reads of the clock, which is a system call */

static bool churn(const struct allocator *a, struct churn *c, uint64_t steps)
{
    return a->kind == KIND_VMEM ? churn_as(a, KIND_VMEM, c, steps)
                                : churn_as(a, KIND_MALLOC, c, steps);
}

static bool fill(const struct allocator *a, struct churn *c)
{
    memset(c->held, 0, c->live * sizeof(*c->held));
    for (uint32_t i = 0; i < c->live; i++) {
        c->held[i] = allocator_take(a, a->kind, random_size(&c->random, c->least, c->most));
        if (c->held[i] == NULL)
            return false;
    }
    return true;
}

/*
 * Next-fit reaches from its oldest block to its newest. Of n blocks that are replaced at random
 * the oldest is some n * (ln n + x) replacements old, with a chance of exp(-x) that it is more.
 */
static double blocks_spanned(const struct allocator *a, uint32_t live)
{
    return a->fit == RMALLOC_NEXT_FIT ? live * (log(live) + 12) + 64 : 2.0 * live + 64;
}

/* Filled; ours with what its descriptors take; then in the state that it will stay in. */
static bool settle(struct allocator *a, struct churn *c, rvmem_stats_t *filled,
                   rvmem_stats_t *settled)
{
    uint64_t room = (c->most + UNIT - 1) / UNIT * UNIT, seed = c->random;
    double mean = (c->least + (double)room) / 2 + UNIT;

    for (int factor = 1; factor <= 64; factor *= 2) {
        c->random = seed;
        if (allocator_open(a, (uint64_t)(factor * mean * blocks_spanned(a, c->live)) + room,
                           false) != 0)
            return false;
        if (fill(a, c)) {
            if (a->kind == KIND_VMEM)
                rvmem_stats(a->vmem, filled);
            if (churn(a, c, 3 * (uint64_t)c->live + 1000)) {
                if (a->kind == KIND_VMEM)
                    rvmem_stats(a->vmem, settled);
                return true;
            }
        }
        if (a->kind != KIND_VMEM)
            break;
        allocator_close(a);
    }
    snprintf(a->missing, sizeof(a->missing), "no memory for %u live blocks", c->live);
    return false;
}

static double time_churn(const struct allocator *a, struct churn *c)
{
    int64_t began = clock_thread(), now = began;
    uint64_t steps = 0;

    while (steps == 0 || (double)(now - began) < options.ms * 1e6) {
        if (!churn(a, c, CHURN))
            return NAN;
        steps += CHURN;
        now = clock_thread();
    }
    return (double)(now - began) / (double)steps;
}

static void print_scale(const struct allocator *a, const struct churn *c, const double *ns,
                        const rvmem_stats_t *filled, const rvmem_stats_t *settled)
{
    printf("{\"part\":\"scale\",\"live\":%u,\"least\":%u,\"most\":%u,", c->live, c->least, c->most);
    print_text("allocator", a->name);
    printf(",");
    if (a->missing[0] != '\0') {
        print_text("missing", a->missing);
    } else {
        if (a->kind == KIND_VMEM)
            printf(
                "\"heap\":%llu,\"filled_metadata\":%llu,\"filled_blocks\":%llu,\"metadata\":%llu,"
                "\"blocks_used\":%llu,\"blocks_free\":%llu,",
                (unsigned long long)a->heap, (unsigned long long)filled->metadata,
                (unsigned long long)filled->blocks_used + filled->blocks_free,
                (unsigned long long)settled->metadata, (unsigned long long)settled->blocks_used,
                (unsigned long long)settled->blocks_free);
        print_rounds("ns", ns, options.rounds);
    }
    printf("}\n");
    fflush(stdout);
}

static void measure_scale(uint32_t live, uint32_t least, uint32_t most)
{
    static double ns[ALLOCATORS][ROUNDS_MAX];
    static rvmem_stats_t filled[ALLOCATORS], settled[ALLOCATORS];
    struct churn c[ALLOCATORS];

    forgive();
    for (int i = 0; i < ALLOCATORS; i++) {
        c[i] = (struct churn){need(calloc(live, sizeof(void *))), options.seed, live, least, most};
        if (allocators[i].missing[0] == '\0')
            settle(&allocators[i], &c[i], &filled[i], &settled[i]);
    }
    for (int round = 0; round < options.rounds; round++)
        for (int i = 0; i < ALLOCATORS; i++)
            if (allocators[i].missing[0] == '\0')
                ns[i][round] = time_churn(&allocators[i], &c[i]);
    for (int i = 0; i < ALLOCATORS; i++) {
        print_scale(&allocators[i], &c[i], ns[i], &filled[i], &settled[i]);
        if (allocators[i].missing[0] == '\0') {
            drain(&allocators[i], c[i].held, live);
            allocator_close(&allocators[i]);
        }
        free(c[i].held);
    }
}

static void scale(void)
{
    for (uint32_t live = 10; live <= options.most_live; live *= 10) {
        measure_scale(live, 64, 64);
        measure_scale(live, 16, 256);
    }
}

/* ---- fragmentation ---- */

/*
 * Does the trace run through, twice, in so many bytes? The
 * range need not be there: nothing is written to it.
 */
static bool fits_in(struct allocator *a, const struct trace *t, void **held, uint64_t heap)
{
    bool fits;

    if (allocator_open(a, heap, false) != 0)
        return false;
    memset(held, 0, t->slots * sizeof(*held));
    fits = replay_twice(a, false, t, held);
    allocator_close(a);
    return fits;
}

/*
 * To one part in 200. A larger range need not be better, so this is *a* range that suffices
 * where one that is a little smaller does not; it is what one would find by trying.
 */
static uint64_t smallest_heap(struct allocator *a, const struct trace *t, void **held)
{
    uint64_t low = t->peak_live > PAGE ? t->peak_live / PAGE - 1 : 0,
             high = low + low / 20 + 2; /* pages */

    for (; !fits_in(a, t, held, high * PAGE); high *= 2) {
        if (a->missing[0] != '\0' || high * PAGE > HEAP_MOST)
            return 0;
        low = high;
    }
    while (high - low > high / 200 + 1) {
        uint64_t middle = low + (high - low) / 2;

        if (fits_in(a, t, held, middle * PAGE))
            high = middle;
        else
            low = middle;
    }
    return high * PAGE;
}

static uint64_t status_bytes(const char *field)
{
    FILE *file = fopen("/proc/self/status", "re");
    unsigned long long kib = 0;
    char line[256];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            sscanf(line + strlen(field), ": %llu", &kib);
    if (file != NULL)
        fclose(file);
    return kib * 1024;
}

/*
 * In a process of its own: how far resident memory grows
 * when every byte is written that the trace asks for.
 */
static uint64_t peak_resident(const struct allocator *a, const struct trace *t, void **held)
{
    uint64_t grown = 0;
    int fd[2], status;
    pid_t child;

    fflush(stdout);
    if (pipe(fd) != 0 || (child = fork()) < 0)
        return 0;
    if (child == 0) {
        uint64_t before;

        malloc_trim(0); /* what this program has freed is not there for the trace */
        memset(held, 0, t->slots * sizeof(*held));
        before = status_bytes("VmRSS");
        for (uint32_t i = 0; i < t->steps; i++) {
            struct step s = t->step[i];

            if (held[s.slot] != NULL)
                a->free(held[s.slot]);
            held[s.slot] = s.size != 0 ? a->malloc(s.size) : NULL;
            if (held[s.slot] != NULL)
                memset(held[s.slot], 1, s.size);
        }
        grown = status_bytes("VmHWM") - before;
        _exit(write(fd[1], &grown, sizeof(grown)) == sizeof(grown) ? 0 : 1);
    }
    close(fd[1]);
    if (read(fd[0], &grown, sizeof(grown)) != sizeof(grown))
        grown = 0;
    close(fd[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return grown;
}

static void print_fragmentation(const struct allocator *a, const struct trace *t, uint64_t heap)
{
    printf("{\"part\":\"fragmentation\",");
    print_text("trace", t->name);
    printf(",");
    print_text("allocator", a->name);
    if (heap == 0) {
        printf(",");
        print_text("missing", a->missing[0] != '\0'
                                  ? a->missing
                                  : "the trace is incomplete, or nothing was reported");
    } else {
        printf(",\"live\":%llu,\"%s\":%llu", (unsigned long long)t->peak_live,
               a->kind == KIND_VMEM ? "heap" : "resident", (unsigned long long)heap);
    }
    printf("}\n");
    fflush(stdout);
}

static void fragmentation(void)
{
    for (int which = 1; which < TRACES; which++) { /* one at a time leaves nothing to find out */
        struct trace t;
        void **held;

        if (trace_make(&t, which, options.scale, options.steps, options.seed) != 0)
            need(NULL);
        forgive();
        held = need(calloc(t.slots, sizeof(*held)));
        for (int i = 0; i < ALLOCATORS - 1; i++) {
            struct allocator *a = &allocators[i];
            uint64_t heap = 0;

            if (a->missing[0] == '\0')
                heap =
                    a->kind == KIND_VMEM ? smallest_heap(a, &t, held) : peak_resident(a, &t, held);
            print_fragmentation(a, &t, heap);
        }
        free(held);
        trace_release(&t);
    }
}

/* ---- command line ---- */

static _Noreturn void usage(int status)
{
    fprintf(status == 0 ? stdout : stderr, "usage: alloc_local [-r ROUNDS] [-m MS] [-s SEED] [-l "
                                           "MOST_LIVE] [-t STEPS] [-f SCALE] [-c CPU] PART...\n"
                                           "parts: pairs scale fragmentation. Time is MS for each "
                                           "allocator in each round; fragmentation has SCALE\n"
                                           "times the live blocks of pairs. One JSON object a "
                                           "line; bench/alloc makes tables of it.\n");
    exit(status);
}

static double number(double least, double most)
{
    char *end;
    double x = strtod(optarg, &end);

    if (end == optarg || *end != '\0' || !(x >= least && x <= most))
        usage(2);
    return x;
}

int main(int argc, char **argv)
{
    int c;

    allocators_prepare(argv);
    while ((c = getopt(argc, argv, "r:m:s:l:t:f:c:h")) != -1)
        switch (c) {
        case 'r':
            options.rounds = (int)number(1, ROUNDS_MAX);
            break;
        case 'm':
            options.ms = number(0.001, 1e6);
            break;
        case 's':
            options.seed = (uint64_t)number(0, 1e15);
            break;
        case 'l':
            options.most_live = (uint32_t)number(10, 1e8);
            break;
        case 't':
            options.steps = (uint32_t)number(16, 1e8);
            break;
        case 'f':
            options.scale = (uint32_t)number(1, 10000);
            break;
        case 'c':
            options.cpu = (int)number(0, CPU_SETSIZE - 1);
            break;
        default:
            usage(c == 'h' ? 0 : 2);
        }
    if (optind == argc)
        usage(2);
    bind_to(options.cpu);
    allocators_find();
    for (int i = 0; i < ALLOCATORS; i++)
        memcpy(missing[i], allocators[i].missing, sizeof(missing[i]));
    for (; optind < argc; optind++) {
        if (strcmp(argv[optind], "pairs") == 0)
            pairs();
        else if (strcmp(argv[optind], "scale") == 0)
            scale();
        else if (strcmp(argv[optind], "fragmentation") == 0)
            fragmentation();
        else
            usage(2);
    }
    return 0;
}
