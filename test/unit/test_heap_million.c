/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A million blocks in a heap of every heuristic: so many that pools of descriptors and of nodes come to their largest
 * holes, and indices to their depth. The model is a map with a byte for each unit, out of which is found, now
 * and then, where a request must go; that blocks do not overlap is seen each time.
 *
 * The seed is printed. usage: test_heap_million [seed], or MODEL_SEED in the environment.
 */
#include "test/lib/random.h"
#include "alloc/heap.h"
#include <rvmem.h>

#include "util/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BLOCKS 1000000u

static uint64_t random_state;

static uint64_t random_next(void) { return random_draw(&random_state); }

static uint64_t random_below(uint64_t n) { return random_next() % n; }

struct million {
    struct heap *h;
    struct rdesc **at; /* by unit: the block that begins there */
    unsigned char *taken;
    uint64_t held;
};

/* Which unit a request gets by the definition; random-fit: whether `given` is one that it may get. BLOCKS: none. */
static unsigned million_choice(const struct million *c, rmalloc_fit_t algorithm, unsigned units,
                               unsigned given)
{
    unsigned best = BLOCKS, best_units = 0;

    for (unsigned at = 0, end; at < BLOCKS; at = end) {
        end = at + 1;
        if (c->taken[at])
            continue;
        while (end < BLOCKS && !c->taken[end])
            end++;
        if (end - at < units)
            continue;
        if (best == BLOCKS || (algorithm == RMALLOC_BEST_FIT && end - at < best_units) ||
            (algorithm == RMALLOC_WORST_FIT && end - at > best_units) ||
            (algorithm == RMALLOC_RANDOM_FIT && at == given)) {
            best = at;
            best_units = end - at;
        }
    }
    return best;
}

static void million_alloc(struct million *c, rmalloc_fit_t algorithm, unsigned units, bool look)
{
    struct rdesc *d = heap_alloc(c->h, units);
    unsigned at;

    if (d == NULL) {
        assert_int_equal(heap_alloc_error(c->h), -EAGAIN);
        if (algorithm != RMALLOC_NEXT_FIT)
            assert_int_equal(million_choice(c, algorithm, units, BLOCKS), BLOCKS);
        return;
    }
    at = (unsigned)d->offset;
    if (look && algorithm != RMALLOC_NEXT_FIT && algorithm != RMALLOC_SEGREGATED_FIT)
        assert_int_equal(at, million_choice(c, algorithm, units, at));
    for (unsigned u = at; u < at + units; u++) {
        assert_false(c->taken[u]);
        c->taken[u] = 1;
    }
    c->at[at] = d;
    c->held++;
}

static void million_free(struct million *c, unsigned at)
{
    struct rdesc *d = c->at[at];

    memset(&c->taken[at], 0, d->units);
    c->at[at] = NULL;
    c->held--;
    heap_free(c->h, d);
}

static int million_visit(const rvmem_block_t *block, void *arg)
{
    const struct million *c = arg;

    for (uint64_t u = block->offset; u < block->offset + block->bytes; u++)
        if (c->taken[u] != (block->state == RVMEM_USED))
            return -1;
    return desc_of(block->d) == c->at[block->offset] ? 0 : -1;
}

static void million_compare(struct million *c)
{
    rvmem_stats_t stats;
    struct error err = {""};

    if (heap_check(c->h, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(heap_walk(c->h, million_visit, c), 0);
    heap_get_stats(c->h, &stats);
    assert_int_equal(stats.blocks_used, c->held);
}

static void a_million_blocks(void **state)
{
    const rmalloc_fit_t algorithm = *(const rmalloc_fit_t *)*state;
    struct heap_config cfg = {
        .algorithm = algorithm, .unit_size = 1, .bytes = BLOCKS, .max_descriptors = 2 * BLOCKS};
    struct million c = {.at = calloc(BLOCKS, sizeof(*c.at)), .taken = calloc(BLOCKS, 1)};
    const unsigned churn = 60000, first = (unsigned)random_below(BLOCKS);

    cfg.seed = random_next();
    assert_true(c.at != NULL && c.taken != NULL);
    assert_int_equal(heap_create(&c.h, &cfg), 0);
    for (unsigned i = 0; i < BLOCKS; i++)
        million_alloc(&c, algorithm, 1, i % 200000 == 0);
    assert_int_equal(c.held, BLOCKS);
    for (unsigned i = 0; i < BLOCKS; i++) { /* every second one, in an order that is none */
        unsigned at = (unsigned)((first + (uint64_t)i * 700001) % BLOCKS);

        if (at % 2 == 0)
            million_free(&c, at);
    }
    for (unsigned i = 0; i < churn; i++) {
        unsigned at = (unsigned)random_below(BLOCKS);

        if (c.at[at] != NULL)
            million_free(&c, at);
        else if (algorithm != RMALLOC_NEXT_FIT || i % 1024 == 0)
            million_alloc(&c, algorithm, 1 + (unsigned)random_below(2), i % 8192 < 2);
    }
    million_compare(&c);
    for (unsigned i = 0; i < BLOCKS; i++) {
        unsigned at = (unsigned)((first + (uint64_t)i * 700001) % BLOCKS);

        if (c.at[at] != NULL)
            million_free(&c, at);
    }
    million_alloc(&c, algorithm, BLOCKS, true);
    assert_int_equal(c.held, 1);
    million_compare(&c);
    heap_destroy(c.h);
    free(c.at);
    free(c.taken);
}

int main(int argc, char **argv)
{
    const char *s = argc > 1 ? argv[1] : getenv("MODEL_SEED");
    const struct CMUnitTest tests[] = {
        {"next_fit", a_million_blocks, NULL, NULL, &(rmalloc_fit_t){RMALLOC_NEXT_FIT}},
        {"first_fit", a_million_blocks, NULL, NULL, &(rmalloc_fit_t){RMALLOC_FIRST_FIT}},
        {"best_fit", a_million_blocks, NULL, NULL, &(rmalloc_fit_t){RMALLOC_BEST_FIT}},
        {"worst_fit", a_million_blocks, NULL, NULL, &(rmalloc_fit_t){RMALLOC_WORST_FIT}},
        {"random_fit", a_million_blocks, NULL, NULL, &(rmalloc_fit_t){RMALLOC_RANDOM_FIT}},
        {"segregated_fit", a_million_blocks, NULL, NULL, &(rmalloc_fit_t){RMALLOC_SEGREGATED_FIT}},
    };

    random_state = s != NULL ? strtoull(s, NULL, 0) : (uint64_t)clock_now();
    print_message("seed %llu\n", (unsigned long long)random_state);
    return cmocka_run_group_tests_name("a million blocks", tests, NULL, NULL);
}
