/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random operations on heaps of every heuristic, beside the model of heap_model.h: sizes from 0 to beyond the heap, frees in
 * any order of what was sent and what was not, growth at any moment, carving, shrinking, refusals. The offset of every block is what
 * the definition requires; for random-fit it is one of those that the definition allows, each as often as the others; for
 * segregated-fit any that is free. After
 * each operation everything that can be seen of the heap is compared, and its invariants are checked.
 *
 * Seed and parameters are printed. usage: test_heap_model [seed [operations [tests]]], operations being those on each heap,
 * and tests a pattern; or MODEL_SEED and MODEL_OPERATIONS in the environment.
 */
#include "test/lib/allocation_failure.h"
#include "test/lib/random.h"
#include "heap_model.h"

#include "util/clock.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAPS 60
#define COUNTED 16 /* candidates of random-fit, up to which is counted which of them it takes */

static uint64_t seed, operations = 5000;
static uint64_t random_state;

static uint64_t random_next(void) { return random_draw(&random_state); }

static uint64_t random_below(uint64_t n) { return random_next() % n; }
static bool one_in(unsigned n) { return random_below(n) == 0; }

static bool memory_is_short; /* then one request in four is denied */

static bool one_is_denied(void)
{
    if (!memory_is_short || !one_in(4))
        return false;
    model_denials++;
    return true;
}

/* ---- what led to a difference ---- */

static struct {
    const char *test;
    unsigned heap;
    uint64_t operation;
} now;

static void print_context(FILE *to)
{
    fprintf(to, "  %s: heap %u, operation %llu; seed %llu, %llu operations\n", now.test, now.heap,
            (unsigned long long)now.operation, (unsigned long long)seed,
            (unsigned long long)operations);
}

static void begin(const char *test)
{
    now.test = test;
    now.heap = 0;
    now.operation = 0;
    random_state = seed;
    for (; *test != '\0'; test++)
        random_state = random_state * 31 + (unsigned char)*test;
    print_message("seed %llu, %llu operations on each heap\n", (unsigned long long)seed,
                  (unsigned long long)operations);
}

/* ---- random-fit: which of the candidates it takes ---- */

static uint64_t taken_by_address[COUNTED + 1][COUNTED], taken_by_size[COUNTED + 1][COUNTED];

static void count_choice(const struct twins *t)
{
    const struct model *m = &t->m;
    const struct model_piece *chosen;
    unsigned rank = 0;

    if (t->candidates < 2 || t->candidates > COUNTED)
        return;
    chosen = &m->piece[m->candidate[t->rank]];
    for (unsigned i = 0; i < t->candidates; i++) {
        const struct model_piece *p = &m->piece[m->candidate[i]];

        rank += p->units < chosen->units || (p->units == chosen->units && p->at < chosen->at);
    }
    taken_by_address[t->candidates][t->rank]++;
    taken_by_size[t->candidates][rank]++;
}

/* A statistic with n - 1 degrees of freedom; the bound is passed once in more than 10^9 times where all are equal. */
static void assert_uniform(const uint64_t *taken, unsigned n, const char *what)
{
    double sum = 0, chi_square = 0, bound = n - 1 + 8 * sqrt(2 * (n - 1.0)) + 30;

    for (unsigned i = 0; i < n; i++)
        sum += (double)taken[i];
    if (sum < 20.0 * n)
        return;
    for (unsigned i = 0; i < n; i++)
        chi_square += ((double)taken[i] - sum / n) * ((double)taken[i] - sum / n) / (sum / n);
    if (chi_square > bound)
        fail_msg("of %u candidates %s, over %.0f draws, chi-square is %.1f, more than %.1f", n,
                 what, sum, chi_square, bound);
}

/* ---- one operation ---- */

static size_t random_size(struct model *m)
{
    const uint64_t bytes = model_largest_segment(m), unit = m->unit;

    switch (random_below(10)) {
    case 0:
        return random_below(bytes + unit + 2); /* any, and a little more */
    case 1:
        return model_largest(m) + random_below(3) -
               (model_largest(m) > 0); /* what just fits, what just does not */
    case 2:
    case 3:
        return random_below(4) * unit;
    case 4:
    case 5: /* what some hole holds, and a little less or more */
        model_look(m);
        if (m->pieces > 0) {
            uint64_t size = m->piece[random_below(m->pieces)].bytes;
            const uint64_t more[] = {0, 0, 0, 1, unit, unit + 1, UINT64_MAX, 0 - unit};

            size += more[random_below(8)];
            return size <= bytes + unit ? size : 0;
        }
        return 0;
    case 6:
        return one_in(8) ? SIZE_MAX - random_below(3 * unit) : (size_t)1 << random_below(52);
    case 7:
        return random_below((random_next() >> random_below(64)) + 1) %
               (bytes + 2); /* any order of magnitude */
    default:
        return random_below(bytes / 8 + 2);
    }
}

static unsigned random_block(const struct model *m)
{
    unsigned best = 0;

    switch (random_below(6)) {
    case 0: /* the oldest */
        for (unsigned i = 0; i < m->blocks; i++)
            best = m->block[i].age < m->block[best].age ? i : best;
        return best;
    case 1: /* the newest */
        for (unsigned i = 0; i < m->blocks; i++)
            best = m->block[i].age > m->block[best].age ? i : best;
        return best;
    case 2:
        return 0;
    case 3:
        return m->blocks - 1;
    default:
        return (unsigned)random_below(m->blocks);
    }
}

static uint64_t random_range(uint32_t unit)
{
    uint64_t units, bytes;

    switch (random_below(10)) {
    case 0:
        units = one_in(8) ? MODEL_UNITS_MAX : 1 + random_below(MODEL_UNITS_MAX >> random_below(20));
        break;
    case 1:
        units = 1 + random_below(1000);
        break;
    case 2:
    case 3:
    case 4:
        units = 1 + random_below(64);
        break;
    default:
        units = 1 + random_below(16);
        break;
    }
    bytes = units * unit;
    return one_in(2) ? bytes - random_below(unit) : bytes;
}

static void grow(struct twins *t)
{
    struct model *m = &t->m;
    void *base = m->segment[0].base != NULL ? model_nowhere(m->segments) : NULL;
    uint64_t bytes = random_range(m->unit);

    switch (random_below(8)) {
    case 0: /* what must be refused */
        assert_int_equal(twins_grow(t, base, 0), -EINVAL);
        break;
    case 1:
        assert_int_equal(twins_grow(t, base, MODEL_UNITS_MAX * m->unit + random_below(m->unit)),
                         -EINVAL);
        break;
    case 2:
        assert_int_equal(twins_grow(t, base == NULL ? model_nowhere(m->segments) : NULL, bytes),
                         -EINVAL);
        break;
    case 3:
        if (base != NULL && m->unit > 1)
            assert_int_equal(twins_grow(t, (char *)base + 1 + random_below(m->unit - 1), bytes),
                             -EINVAL);
        if (base != NULL)
            assert_int_equal(twins_grow(t, (void *)(UINTPTR_MAX - m->unit + 1), m->unit + 1ull),
                             -EINVAL);
        break;
    case 4: /* as far as it may grow, and not a byte further */
        if (m->segments < MODEL_SEGMENTS && one_in(4)) {
            const struct model_segment *last = &m->segment[m->segments - 1];
            uint64_t most = (MODEL_UNITS_MAX - last->at - last->units) * m->unit;

            twins_grow(t, base, most + 1);
            twins_grow(t, base, most);
        }
        break;
    default:
        if (m->segments < MODEL_SEGMENTS)
            twins_grow(t, base, bytes);
        break;
    }
}

static void carve(struct twins *t)
{
    struct model *m = &t->m;
    const struct model_segment *last = &m->segment[m->segments - 1];
    uint64_t at = random_below(last->at + last->units + 1),
             size = random_below(4 * (uint64_t)m->unit);

    model_look(m);
    if (m->pieces > 0 && !one_in(4)) {
        const struct model_piece *p = &m->piece[random_below(m->pieces)];

        at = p->at + (one_in(2) ? 0 : random_below(p->units));
        switch (random_below(4)) {
        case 0: /* all that is left */
            size = p->bytes - (at - p->at) * m->unit;
            break;
        case 1:
            size = p->bytes - (at - p->at) * m->unit + 1;
            break;
        case 2:
            size = 1 + random_below(p->bytes);
            break;
        default:
            break;
        }
    }
    twins_carve(t, at * m->unit + (one_in(16) ? random_below(m->unit) : 0), size);
}

static void free_some(struct twins *t)
{
    unsigned i = random_block(&t->m);

    if (!t->m.block[i].sent && one_in(4))
        twins_send(t, i);
    twins_free(t, i);
}

/* To a size that frees some units, most often; sometimes the newest block, the only one that next-fit can shrink. */
static void shrink_some(struct twins *t)
{
    const unsigned i = random_block(&t->m);
    const uint64_t size = t->m.block[i].size;

    twins_shrink(t, i, one_in(8) ? size : random_below(size + 1));
}

static void one_operation(struct twins *t, unsigned mood)
{
    struct model *m = &t->m;

    if (one_in(64)) {
        grow(t);
    } else if (m->blocks > 0 && one_in(5)) {
        twins_send(t, (unsigned)random_below(m->blocks));
    } else if (m->blocks > 0 && one_in(8)) {
        shrink_some(t);
    } else if (m->blocks > 0 && random_below(100) < (mood & 1 ? 54u : 46u)) {
        free_some(t);
    } else if (m->algorithm == RMALLOC_FIRST_FIT && (mood & 2) != 0 && one_in(3)) {
        carve(t);
    } else {
        twins_alloc(t, random_size(m));
        if (m->algorithm == RMALLOC_RANDOM_FIT)
            count_choice(t);
    }
}

static void free_all(struct twins *t)
{
    while (t->m.blocks > 0) {
        free_some(t);
        twins_compare(t);
    }
    if (twins_alloc(t, model_largest_segment(&t->m)) < 0)
        model_fail(&t->m, "an empty heap has no free memory");
    twins_compare(t);
    twins_free(t, 0);
}

static void random_heap(struct twins *t, rmalloc_fit_t algorithm)
{
    struct heap_config cfg = {
        .algorithm = algorithm, .unit_size = 1u << random_below(21), .seed = random_next()};

    cfg.bytes = random_range(cfg.unit_size);
    cfg.base = one_in(2) ? model_nowhere(0) : NULL;
    cfg.max_descriptors = one_in(8) ? 1 + (uint32_t)random_below(12) : 0;
    twins_open(t, &cfg);
}

static void random_operations(rmalloc_fit_t algorithm, const char *test)
{
    uint64_t allocs = 0, failures = 0;
    struct twins t;

    begin(test);
    for (now.heap = 0; now.heap < HEAPS; now.heap++) {
        unsigned mood = 0;

        now.operation = 0;
        random_heap(&t, algorithm);
        twins_compare(&t);
        for (; now.operation < operations; now.operation++) {
            if (now.operation % 64 == 0)
                mood = (unsigned)random_next();
            one_operation(&t, mood);
            twins_compare(&t);
            if (one_in(500))
                free_all(&t);
        }
        if (one_in(2)) /* what is still handed out goes with it */
            free_all(&t);
        allocs += t.m.allocs;
        failures += t.m.failures;
        twins_close(&t);
    }
    assert_true(allocs > 0 && failures > 0);
    print_message("%llu blocks, %llu refusals\n", (unsigned long long)allocs,
                  (unsigned long long)failures);
}

/* ---- many blocks ---- */

/* Fills the heap with thousands of small blocks, makes holes, fills again, empties: indices become deep and shrink. */
static void many_blocks(rmalloc_fit_t algorithm, const char *test)
{
    struct heap_config cfg = {.algorithm = algorithm, .unit_size = 16, .bytes = 16 * 12000 - 7};
    const uint64_t each = operations; /* operations of one phase */
    static const unsigned frees_in_100[] = {5, 50, 45, 55, 97, 10, 50, 99};
    uint64_t most = 0;
    struct twins t;

    begin(test);
    cfg.seed = random_next();
    twins_open(&t, &cfg);
    for (unsigned phase = 0; phase < 8; phase++) {
        const uint64_t sizes = phase % 3 == 2 ? 3 : 100; /* all of a few classes, or of many */

        for (uint64_t i = 0; i < each; i++, now.operation++) {
            if (t.m.blocks > 0 && random_below(100) < frees_in_100[phase])
                twins_free(&t, (unsigned)random_below(t.m.blocks));
            else if (t.m.blocks > 0 && one_in(6))
                shrink_some(&t);
            else
                twins_alloc(&t, random_below(16 * (1 + random_below(sizes))));
            if (i % 256 == 0)
                twins_compare(&t);
        }
        twins_compare(&t);
        most = t.m.pieces > most ? t.m.pieces : most;
        if (phase == 3)
            twins_grow(&t, NULL, 16 * 3000 - 1);
    }
    free_all(&t);
    twins_close(&t);
    print_message("up to %llu holes\n", (unsigned long long)most);
}

/* ---- too little memory ---- */

/* Now and then there is none for the allocator itself: that refuses a request, and changes nothing; no free ever fails. */
static void short_of_memory(rmalloc_fit_t algorithm)
{
    struct heap_config cfg = {.algorithm = algorithm, .unit_size = 1, .bytes = 4000};
    const uint64_t denials = model_denials;
    unsigned refused = 0;
    struct twins t;

    for (now.heap = 0; now.heap < 10; now.heap++) {
        cfg.seed = random_next();
        twins_open(&t, &cfg);
        memory_is_short = true;
        for (now.operation = 0; now.operation < 3000; now.operation++) {
            const unsigned share = now.operation % 1500 < 700 ? 20 : 60; /* of frees, in 100 */

            if (t.m.blocks > 0 && random_below(100) < share)
                twins_free(&t, (unsigned)random_below(t.m.blocks));
            else if (one_in(100) && t.m.segments < MODEL_SEGMENTS)
                twins_grow(&t, NULL, 1 + random_below(2000));
            else if (algorithm == RMALLOC_FIRST_FIT && one_in(4))
                carve(&t);
            else if (t.m.blocks > 0 && one_in(6))
                shrink_some(&t);
            else
                refused += twins_alloc(&t, one_in(16) ? random_size(&t.m) : random_below(30)) < 0;
            if (now.operation % 16 == 0)
                twins_compare(&t);
        }
        memory_is_short = false;
        free_all(&t);
        twins_close(&t);
    }
    assert_true(model_denials > denials);
    print_message("algorithm %d: memory was denied %llu times, %u requests were refused\n",
                  (int)algorithm, (unsigned long long)(model_denials - denials), refused);
}

static void without_memory_nothing_is_changed_and_frees_succeed(void **state)
{
    (void)state;
    begin(__func__);
    skip_unless_memory_can_be_cut_off();
    for (int algorithm = RMALLOC_NEXT_FIT; algorithm <= RMALLOC_SEGREGATED_FIT; algorithm++)
        short_of_memory((rmalloc_fit_t)algorithm);
}

/* ---- tests ---- */

static struct heuristic {
    rmalloc_fit_t fit;
    const char *name;
} heuristics[] = {
    {RMALLOC_NEXT_FIT, "next_fit"},     {RMALLOC_FIRST_FIT, "first_fit"},
    {RMALLOC_BEST_FIT, "best_fit"},     {RMALLOC_WORST_FIT, "worst_fit"},
    {RMALLOC_RANDOM_FIT, "random_fit"}, {RMALLOC_SEGREGATED_FIT, "segregated_fit"},
};

static void places_blocks(void **state)
{
    const struct heuristic *h = *state;

    random_operations(h->fit, h->name);
}

static void with_many_blocks(void **state)
{
    const struct heuristic *h = *state;

    many_blocks(h->fit, h->name);
}

static void random_fit_takes_each_as_often(void **state)
{
    (void)state;
    memset(taken_by_address, 0, sizeof(taken_by_address));
    memset(taken_by_size, 0, sizeof(taken_by_size));
    random_operations(RMALLOC_RANDOM_FIT, __func__);
    for (unsigned n = 2; n <= COUNTED; n++) {
        assert_uniform(taken_by_address[n], n, "by address");
        assert_uniform(taken_by_size[n], n, "by size");
    }
}

/* `holes` holes of 1, 2, .. `sizes` units, one unit handed out between two of them; the last unit is handed out too. */
static void make_holes(struct twins *t, const struct heap_config *cfg, unsigned holes,
                       unsigned sizes)
{
    const uint64_t unit = cfg->unit_size;

    twins_open(t, cfg);
    for (unsigned i = 0; i < holes; i++) { /* random-fit has one hole to take from */
        assert_true(twins_alloc(t, (1 + i % sizes) * unit) >= 0);
        assert_true(twins_alloc(t, unit) >= 0);
    }
    while (model_largest(&t->m) > 0)
        assert_true(twins_alloc(t, model_largest(&t->m)) >= 0);
    for (unsigned i = holes; i-- > 0;)
        twins_free(t, 2 * i);
    twins_compare(t);
    assert_int_equal(t->m.pieces, holes);
}

static void random_fit_draws_uniformly_from_classes_of_any_size(void **state)
{
    static const unsigned holes[] = {2, 3, 7, 16, 17, 40, 64, 100, 150},
                          sizes[] = {1, 2, 9, 40, 150};
    static uint64_t taken[150];
    unsigned candidates;
    struct twins t;

    (void)state;
    begin(__func__);
    for (size_t h = 0; h < sizeof(holes) / sizeof(holes[0]); h++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
            for (unsigned need = 1; need <= sizes[s]; need += 1 + sizes[s] / 3) {
                struct heap_config cfg = {.algorithm = RMALLOC_RANDOM_FIT,
                                          .unit_size = 8,
                                          .seed = 1 + h * 100 + s * 10 + need};

                cfg.bytes = (uint64_t)holes[h] * (sizes[s] + 2) * cfg.unit_size;
                make_holes(&t, &cfg, holes[h], sizes[s]);
                memset(taken, 0, sizeof(taken));
                candidates = model_candidates(&t.m, need * cfg.unit_size);
                for (unsigned i = 0; i < 40 * candidates; i++, now.operation++) {
                    int block = twins_alloc(&t, need * cfg.unit_size);

                    assert_int_equal(t.candidates, candidates);
                    taken[t.rank]++;
                    twins_free(&t, (unsigned)block);
                }
                twins_compare(&t);
                if (candidates > 1)
                    assert_uniform(taken, candidates, "of one heap");
                twins_close(&t);
            }
}

/* A number that depends on all offsets of a run. */
static uint64_t offsets_of_a_run(uint64_t heap_seed)
{
    struct heap_config cfg = {
        .algorithm = RMALLOC_RANDOM_FIT, .unit_size = 4, .bytes = 999, .seed = heap_seed};
    uint64_t sum = 0;
    struct twins t;

    random_state = seed;
    twins_open(&t, &cfg);
    for (unsigned i = 0; i < 2000; i++) {
        one_operation(&t, i / 64);
        for (unsigned k = 0; k < t.m.blocks; k++)
            sum = sum * 31 + t.m.block[k].at;
    }
    twins_close(&t);
    return sum;
}

static void the_same_seed_gives_the_same_offsets(void **state)
{
    (void)state;
    begin(__func__);
    for (uint64_t s = 0; s < 20; s++) {
        assert_true(offsets_of_a_run(s) == offsets_of_a_run(s));
        assert_true(offsets_of_a_run(s) != offsets_of_a_run(s + 1));
    }
    assert_true(offsets_of_a_run(0) != offsets_of_a_run(UINT64_C(1) << 32)); /* all of it counts */
    assert_true(offsets_of_a_run(0) != offsets_of_a_run(UINT64_C(1) << 63));
}

int main(int argc, char **argv)
{
    const char *s = argc > 1 ? argv[1] : getenv("MODEL_SEED");
    const char *n = argc > 2 ? argv[2] : getenv("MODEL_OPERATIONS");
    const struct CMUnitTest tests[] = {
        {"next_fit_goes_round", places_blocks, NULL, NULL, &heuristics[0]},
        {"first_fit_takes_the_lowest", places_blocks, NULL, NULL, &heuristics[1]},
        {"best_fit_takes_the_lowest_of_the_smallest", places_blocks, NULL, NULL, &heuristics[2]},
        {"worst_fit_takes_the_lowest_of_the_largest", places_blocks, NULL, NULL, &heuristics[3]},
        cmocka_unit_test(random_fit_takes_each_as_often),
        {"next_fit_with_many_blocks", with_many_blocks, NULL, NULL, &heuristics[0]},
        {"first_fit_with_many_blocks", with_many_blocks, NULL, NULL, &heuristics[1]},
        {"best_fit_with_many_blocks", with_many_blocks, NULL, NULL, &heuristics[2]},
        {"worst_fit_with_many_blocks", with_many_blocks, NULL, NULL, &heuristics[3]},
        {"random_fit_with_many_blocks", with_many_blocks, NULL, NULL, &heuristics[4]},
        {"segregated_fit_takes_what_is_large_enough", places_blocks, NULL, NULL, &heuristics[5]},
        {"segregated_fit_with_many_blocks", with_many_blocks, NULL, NULL, &heuristics[5]},
        cmocka_unit_test(without_memory_nothing_is_changed_and_frees_succeed),
        cmocka_unit_test(random_fit_draws_uniformly_from_classes_of_any_size),
        cmocka_unit_test(the_same_seed_gives_the_same_offsets),
    };

    model_context = print_context;
    denies = one_is_denied;
    seed = s != NULL ? strtoull(s, NULL, 0) : (uint64_t)clock_now();
    if (n != NULL)
        operations = strtoull(n, NULL, 0);
    if (argc > 3)
        cmocka_set_test_filter(argv[3]);
    return cmocka_run_group_tests_name("heap against model", tests, NULL, NULL);
}
