/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alloc_trace.c: traces, made from a seed before anything is timed, see alloc_bench.h.
 *
 * A trace can be replayed again and again: what it leaves in its slots, the next replay frees when
 * it comes by.
 */
#include "alloc_bench.h"

#include <errno.h>
#include <string.h>

struct pen {
    struct trace *t;
    uint64_t random;
    uint32_t steps; /* capacity */
};

static bool put(struct pen *p, uint32_t slot, uint32_t size)
{
    if (p->t->steps == p->steps)
        return false;
    p->t->step[p->t->steps++] = (struct step){slot, size};
    return true;
}

static void write_pair(struct pen *p)
{
    while (p->steps - p->t->steps >= 2) {
        put(p, 0, 64);
        put(p, 0, 0);
    }
}

/* Whole laps, so that the next replay goes on where this one ends. */
static uint32_t laps(const struct pen *p) { return p->steps - p->steps % p->t->slots; }

static void write_fixed(struct pen *p)
{
    for (uint32_t i = 0; i < laps(p); i++)
        put(p, i % p->t->slots, 64);
}

static void write_power(struct pen *p)
{
    while (put(p, random_below(&p->random, p->t->slots), random_power(&p->random, 16, 65536)))
        ;
}

static void write_fifo(struct pen *p)
{
    for (uint32_t i = 0; i < laps(p); i++)
        put(p, i % p->t->slots, random_size(&p->random, 16, 1024));
}

/* A stack whose depth goes from one random height to the next; in the end it is empty. */
static void write_lifo(struct pen *p)
{
    uint32_t depth = 0, slots = p->t->slots;

    while (p->t->steps + 2 * slots < p->steps) {
        uint32_t target = random_below(&p->random, slots + 1);

        for (; depth < target; depth++)
            put(p, depth, random_size(&p->random, 16, 1024));
        for (; depth > target; depth--)
            put(p, depth - 1, 0);
    }
    while (depth > 0)
        put(p, --depth, 0);
}

static void write_random(struct pen *p)
{
    while (put(p, random_below(&p->random, p->t->slots), random_size(&p->random, 16, 1024)))
        ;
}

/*
 * Everything is filled, then two thirds are freed here and
 * there and filled with sizes of another kind; five times.
 */
static void write_phases(struct pen *p)
{
    static const uint32_t most[] = {64, 256, 1024, 128, 512};
    uint32_t slots = p->t->slots;

    for (uint32_t phase = 0; p->t->steps + 4 * slots < p->steps; phase++) {
        for (uint32_t i = 0; i < slots * 2 / 3; i++)
            put(p, random_below(&p->random, slots), 0);
        for (uint32_t i = 0; i < slots; i++)
            put(p, random_below(&p->random, slots),
                random_size(&p->random, most[phase % 5] / 4, most[phase % 5]));
    }
    for (uint32_t i = 0; i < slots; i++)
        put(p, i, 0);
}

static const struct {
    const char *name, *label;
    uint32_t slots;
    void (*write)(struct pen *p);
} kinds[TRACES] = {
    {"pair", "64 B, one at a time", 1, write_pair},
    {"fixed", "64 B, 1024 held, the oldest replaced", 1024, write_fixed},
    {"power law", "16 B to 64 KiB by a power law, 1024 held, any replaced", 1024, write_power},
    {"fifo", "16 to 1024 B, 1024 held, the oldest replaced", 1024, write_fifo},
    {"lifo", "16 to 1024 B, a stack of up to 1024", 1024, write_lifo},
    {"random", "16 to 1024 B, 1024 held, any replaced", 1024, write_random},
    {"phases", "sizes of five kinds, two thirds freed in between, up to 1024 held", 1024,
     write_phases},
};

/* How much is live at most, and how often something is allocated. */
static int survey(struct trace *t)
{
    uint32_t *held = calloc(t->slots, sizeof(*held));
    uint64_t live = 0;

    if (held == NULL)
        return -ENOMEM;
    for (int replay = 0; replay < 2; replay++) {
        t->allocs = 0;
        for (uint32_t i = 0; i < t->steps; i++) {
            struct step s = t->step[i];

            live += (uint64_t)s.size - held[s.slot];
            held[s.slot] = s.size;
            t->allocs += s.size != 0;
            if (live > t->peak_live)
                t->peak_live = live;
        }
    }
    free(held);
    return 0;
}

int trace_make(struct trace *t, int which, uint32_t scale, uint32_t steps, uint64_t seed)
{
    uint32_t slots = kinds[which].slots * (which == 0 ? 1 : scale);
    struct pen pen = {.t = t, .random = seed * TRACES + (uint64_t)which, .steps = steps};

    /* enough for a few times around, and for what is freed in the end */
    if (pen.steps < 8 * slots)
        pen.steps = 8 * slots;
    *t = (struct trace){.name = kinds[which].name, .label = kinds[which].label, .slots = slots};
    t->step = malloc(pen.steps * sizeof(*t->step));
    if (t->step == NULL)
        return -ENOMEM;
    kinds[which].write(&pen);
    return survey(t);
}

void trace_release(struct trace *t)
{
    free(t->step);
    t->step = NULL;
}
