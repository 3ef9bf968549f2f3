/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_shadow.c: what the shadow holds free is free in the heap; and at rest the two are the same (issue: proof (a)).
 *
 * Both ends of a channel in this process, RMALLOC_DEBUG=1, so that the reader keeps an instance of its own by carving what is
 * announced. Random calls of both ends, none of which waits; the two instances are compared again and again, and at rest. All
 * heuristics, modes, directions, with queues of 1 and more, and heaps that grow.
 *
 *     test_shadow [OPERATIONS [SEED]]       of each combination; millions if you like
 */
#include "rpipe/end/debug_check.h"

#include "test/lib/pair.h"

#define HELD_MOST 200

struct world {
    struct pair p;
    raddr_t mine[HELD_MOST], theirs[HELD_MOST]; /* allocated and not written; read and not freed */
    int n_mine, n_theirs;
    uint64_t random, wrote, got, heap;
    bool
        prefix; /* block mode: what is freed behind a message that is held is not known to the writer */
    char name[128];
};

static uint64_t operations = 20000, first_seed = 1;
static uint64_t compared, total;

static uint64_t draw(struct world *w, uint64_t below)
{
    w->random++;
    return random_mix(w->random) % below;
}

static void compare(struct world *w, bool at_rest)
{
    struct error err = {""};
    int rc = debug_check_compare(w->p.w, w->p.r, at_rest, &err);

    compared++;
    if (rc != 0)
        fail_msg("%s, message %llu: %s", w->name, (unsigned long long)w->wrote, err.text);
}

static raddr_t take_any(struct world *w, raddr_t *from, int *n)
{
    int i = (int)draw(w, (uint64_t)*n);
    raddr_t d = from[i];

    from[i] = from[--*n];
    return d;
}

static void allocate(struct world *w)
{
    uint64_t largest = draw(w, 16) == 0 ? w->heap : w->heap / 8 + 1;
    raddr_t d;
    int rc;

    if (w->n_mine == HELD_MOST)
        return;
    rc = rmalloc_nb(w->p.w, 1 + draw(w, largest), &d);
    if (rc == 0)
        w->mine[w->n_mine++] = d;
    else if (rc != R_PENDING && rc != -ENOBUFS)
        fail_msg("%s: rmalloc_nb: %s", w->name, rerror(w->p.w));
}

static void write_one(struct world *w)
{
    raddr_t d;
    size_t bytes;
    int rc;

    if (w->n_mine == 0)
        return;
    d = take_any(w, w->mine, &w->n_mine);
    bytes = rsize(w->p.w, d);
    memset(rmem(w->p.w, d), (int)(w->wrote & 255), bytes);
    rc = rwrite_nb(w->p.w, d);
    if (rc == R_PENDING)
        w->mine[w->n_mine++] = d;
    else if (rc != 0)
        fail_msg("%s: rwrite_nb: %s", w->name, rerror(w->p.w));
    else
        w->wrote++;
}

static bool read_one(struct world *w)
{
    const unsigned char *at;
    raddr_t d;
    size_t size;
    int rc;

    if (w->n_theirs == HELD_MOST)
        return false;
    rc = rread_nb(w->p.r, &d, &size);
    if (rc == R_PENDING)
        return false;
    if (rc != 0)
        fail_msg("%s: rread_nb: %s", w->name, rerror(w->p.r));
    at = rmem(w->p.r, d);
    if (at[0] != (w->got & 255) || at[size - 1] != (w->got & 255))
        fail_msg("%s: message %llu is torn or another", w->name, (unsigned long long)w->got);
    w->got++;
    w->theirs[w->n_theirs++] = d;
    return true;
}

static void free_one(struct world *w)
{
    if (w->n_theirs > 0)
        CHECK_OK(w->p.r, rfree(w->p.r, take_any(w, w->theirs, &w->n_theirs)));
}

static void rest(struct world *w)
{
    while (read_one(w) || w->n_theirs == HELD_MOST)
        if (w->n_theirs > HELD_MOST / 2)
            free_one(w);
    compare(w, !w->prefix); /* some held, some unsent */
    while (w->n_theirs > 0)
        free_one(w);
    compare(w, true);
}

static void the_whole_heap_is_to_be_had(struct world *w)
{
    raddr_t d;

    while (w->n_mine > 0)
        CHECK_OK(w->p.w, rfree(w->p.w, take_any(w, w->mine, &w->n_mine)));
    rest(w);
    if (rmalloc_nb(w->p.w, w->heap, &d) != 0)
        fail_msg("%s: all is read and freed, and the whole heap is not to be had: %s", w->name,
                 rerror(w->p.w));
    CHECK_OK(w->p.w, rfree(w->p.w, d));
}

static void run(const rpipe_config_t *cfg, uint64_t seed)
{
    struct world w = {
        .random = seed << 32, .heap = cfg->heap_bytes, .prefix = cfg->mode == RPIPE_SYNC_BLOCKS};
    uint64_t i;

    snprintf(w.name, sizeof(w.name),
             "op %d, algorithm %d, sync %d, queue %u, unit %u, heap %llu to %llu, watermark %d, "
             "seed %llu",
             (int)cfg->op, (int)cfg->heuristic, (int)cfg->mode, cfg->sync_queue, cfg->unit_bytes,
             (unsigned long long)cfg->heap_bytes, (unsigned long long)cfg->max_heap_bytes,
             cfg->watermark, (unsigned long long)seed);
    pair_open_with(&w.p, cfg);
    for (i = 0; i < operations; i++) {
        switch (draw(&w, 8)) {
        case 0:
        case 1:
        case 2:
            allocate(&w);
            break;
        case 3:
        case 4:
            write_one(&w);
            break;
        case 5:
            (void)read_one(&w);
            break;
        case 6:
            free_one(&w);
            break;
        default:
            if (draw(&w, 8) == 0 && w.n_mine > 0)
                CHECK_OK(w.p.w, rfree(w.p.w, take_any(&w, w.mine, &w.n_mine)));
        }
        if (i % 64 == 0)
            compare(&w, false);
        if (draw(&w, 2000) == 0)
            rest(&w);
        if (draw(&w, 4000) == 0)
            the_whole_heap_is_to_be_had(&w);
    }
    the_whole_heap_is_to_be_had(&w);
    total += operations;
    pair_close(&w.p);
}

static void all_combinations(rpipe_op_t op)
{
    static const uint32_t queues[] = {1, 3, 0};
    static const int watermarks[] = {RPIPE_WATERMARK_ALWAYS, 50, 100};
    static const uint32_t units[] = {64, 1, 4096};
    uint64_t seed = first_seed;

    for (int algorithm = RMALLOC_NEXT_FIT; algorithm <= RMALLOC_SEGREGATED_FIT; algorithm++)
        for (int sync = algorithm == RMALLOC_NEXT_FIT ? RPIPE_SYNC_BLOCKS : RPIPE_SYNC_TAGS;
             sync <= RPIPE_SYNC_CHANNEL; sync++)
            for (int i = 0; i < 3; i++)
                for (int grows = 0; grows < 2; grows++) {
                    rpipe_config_t cfg = pair_config(op, units[i] * (i == 1 ? 3001u : 97u) -
                                                             (seed % 3 == 0 && units[i] > 1));

                    cfg.heuristic = (rmalloc_fit_t)algorithm;
                    cfg.unit_bytes = units[i];
                    cfg.max_heap_bytes = grows ? 5 * cfg.heap_bytes : 0;
                    cfg.seed = seed;
                    cfg.mode = (rpipe_sync_t)sync;
                    cfg.sync_queue = queues[(i + grows) % 3];
                    cfg.watermark = watermarks[(i + algorithm - RMALLOC_NEXT_FIT) % 3];
                    cfg.inline_max = RPIPE_INLINE_NONE;
                    cfg.grow_after_us = 1;
                    run(&cfg, seed++);
                }
}

static void put(void **state)
{
    (void)state;
    all_combinations(RPIPE_PUT);
}

static void get(void **state)
{
    (void)state;
    all_combinations(RPIPE_GET);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(put), cmocka_unit_test(get)};
    int failed;

    if (argc > 1)
        operations = strtoull(argv[1], NULL, 0);
    if (argc > 2)
        first_seed = strtoull(argv[2], NULL, 0);
    setenv("RMALLOC_DEBUG", "1", 1);
    unsetenv("PAIR_MODE");
    failed = cmocka_run_group_tests(tests, pair_setup, pair_teardown);
    printf("%llu operations in all, instances compared %llu times\n", (unsigned long long)total,
           (unsigned long long)compared);
    return failed;
}
