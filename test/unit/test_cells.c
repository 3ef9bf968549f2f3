/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_cells.c: ATOMIC pipes to oneself, from ratomic(3) alone: every operation, fetching or not, both ends, shared cells, misuse.
 *
 * In each of: shared memory; the service thread; and a simulated network that has every operation, compare-swap alone, or none.
 */
#include "test/lib/pair.h"

#include <rinfo.h>
#include <pthread.h>
#include <stdatomic.h>

#define CELLS 16

static rmalloc_config_t cells_config(bool active)
{
    rmalloc_config_t cfg = RMALLOC_CONFIG_DEFAULT;

    cfg.allocator.op = RDMA_ATOMIC;
    cfg.allocator.peer = 0;
    cfg.allocator.alloc_size = CELLS * sizeof(uint64_t);
    cfg.allocator.rdma_active = active;
    return cfg;
}

static void open_cells(struct pair *p, uint32_t ctx, rch_t cells_of)
{
    rmalloc_config_t active = cells_config(true), passive = cells_config(false);

    active.ctx = passive.ctx = ctx;
    passive.allocator.cells_of = cells_of;
    assert_ok(NULL, rpipe(&p->r, &passive));
    assert_ok(NULL, rpipe(&p->w, &active));
    assert_ok(p->w, rpipe_wait(p->w));
    assert_ok(p->r, rpipe_wait(p->r));
}

static uint64_t fetched(rch_t ch, ratomic_op_t op, size_t cell, uint64_t operand, uint64_t compare)
{
    uint64_t old = ~UINT64_C(0);

    assert_ok(ch, ratomic(ch, op, cell, operand, compare, &old));
    return old;
}

static uint64_t value(rch_t ch, size_t cell) { return fetched(ch, RATOMIC_ADD, cell, 0, 0); }

static void test_operations(void **state)
{
    struct pair p;

    (void)state;
    open_cells(&p, 1, NULL);
    assert_int_equal(value(p.w, 0), 0);
    assert_int_equal(fetched(p.w, RATOMIC_ADD, 3, 5, 0), 0);
    assert_int_equal(fetched(p.w, RATOMIC_ADD, 3, (uint64_t)-2, 0), 5);
    assert_int_equal(fetched(p.w, RATOMIC_CAS, 3, 77, 4), 3); /* not swapped */
    assert_int_equal(fetched(p.w, RATOMIC_CAS, 3, 77, 3), 3);
    assert_int_equal(fetched(p.w, RATOMIC_SWAP, 3, 0xf0f0, 0), 77);
    assert_int_equal(fetched(p.w, RATOMIC_AND, 3, 0xff00, 0), 0xf0f0);
    assert_int_equal(fetched(p.w, RATOMIC_OR, 3, 0x000f, 0), 0xf000);
    assert_int_equal(fetched(p.w, RATOMIC_XOR, 3, 0xffff, 0), 0xf00f);
    assert_int_equal(value(p.w, 3), 0x0ff0);
    assert_int_equal(value(p.w, 2), 0);
    assert_int_equal(value(p.w, 4), 0);
    assert_int_equal(fetched(p.w, RATOMIC_SWAP, CELLS - 1, UINT64_MAX, 0), 0);
    assert_int_equal(fetched(p.w, RATOMIC_ADD, CELLS - 1, 1, 0), UINT64_MAX);
    assert_int_equal(value(p.w, CELLS - 1), 0);
    pair_close(&p);
}

static void test_fire_and_forget(void **state)
{
    struct pair p;
    int i;

    (void)state;
    open_cells(&p, 2, NULL);
    for (i = 0; i < 1000; i++)
        assert_ok(p.w, ratomic(p.w, RATOMIC_ADD, (size_t)i % CELLS, 1, 0, NULL));
    assert_ok(p.w, ratomic(p.w, RATOMIC_CAS, 5, 1, 12345, NULL));
    assert_ok(p.w, rflush(p.w));
    for (i = 0; i < CELLS; i++)
        assert_int_equal(value(p.w, (size_t)i), 1000 / CELLS + (i < 1000 % CELLS));
    pair_close(&p);
}

/* The passive end's own calls: where they are refused the sentence says what to do. */
static void test_passive_end(void **state)
{
    rpipe_transport_t t;
    uint64_t old = 7;
    struct pair p;
    int rc;

    (void)state;
    open_cells(&p, 3, NULL);
    assert_ok(p.w, ratomic(p.w, RATOMIC_ADD, 1, 40, 0, &old));
    rc = ratomic(p.r, RATOMIC_ADD, 1, 2, 0, &old);
    assert_ok(p.r, rpipe_transport(p.r, &t));
    if (rc == -ENOTSUP) {
        assert_string_equal(t.cells, "device");
        assert_non_null(strstr(rpipe_error(p.r), "RPIPE_ATOMICS"));
    } else {
        assert_ok(p.r, rc);
        assert_int_equal(old, 40);
        assert_int_equal(value(p.w, 1), 42);
    }
    pair_close(&p);
}

static void test_shared_cells(void **state)
{
    struct pair p, q;
    int i;

    (void)state;
    open_cells(&p, 4, NULL);
    open_cells(&q, 5, p.r);
    for (i = 0; i < 100; i++) {
        assert_int_equal(fetched(p.w, RATOMIC_ADD, 9, 1, 0), (uint64_t)(2 * i));
        assert_int_equal(fetched(q.w, RATOMIC_ADD, 9, 1, 0), (uint64_t)(2 * i + 1));
    }
    /* whose they are goes first: the others keep them */
    assert_ok(p.w, rclose(p.w));
    assert_ok(p.r, rclose(p.r));
    assert_int_equal(value(q.w, 9), 200);
    pair_close(&q);
}

static void test_misuse(void **state)
{
    rmalloc_config_t cfg = cells_config(false);
    uint64_t old = 9;
    rregion_t region;
    raddr_t d;
    struct pair p;
    rch_t ch;

    (void)state;
    cfg.allocator.alloc_size = 12;
    assert_rc(-EINVAL, NULL, rpipe(&ch, &cfg));
    cfg.allocator.alloc_size = 0;
    assert_rc(-EINVAL, NULL, rpipe(&ch, &cfg));
    open_cells(&p, 6, NULL);
    cfg = cells_config(true);
    cfg.ctx = 77;
    cfg.allocator.cells_of = p.r;
    assert_rc(-EINVAL, NULL, rpipe(&ch, &cfg));
    assert_rc(-EINVAL, p.w, ratomic(p.w, RATOMIC_ADD, CELLS, 1, 0, &old));
    assert_rc(-EINVAL, p.w, ratomic(p.w, (ratomic_op_t)6, 0, 1, 0, &old));
    assert_int_equal(old, 9);
    assert_rc(-EBADF, p.w, rmalloc_nb(p.w, 8, &d));
    assert_rc(-EBADF, p.r, rread_nb(p.r, &d, NULL));
    assert_rc(-EBADF, p.w, rregister(p.w, &old, sizeof(old), &region));
    assert_rc(-EINVAL, NULL, ratomic(NULL, RATOMIC_ADD, 0, 1, 0, NULL));
    pair_close(&p);
    assert_rc(-ENOTCONN, p.w, ratomic(p.w, RATOMIC_ADD, 0, 1, 0, NULL));
    pair_open(&p, RDMA_PUT, 4096);
    assert_rc(-EBADF, p.w, ratomic(p.w, RATOMIC_ADD, 0, 1, 0, NULL));
    pair_close(&p);
}

/* thread_sync: every fetch gets the value that its own operation has found, whatever the other threads ask for meanwhile */
enum { SHARERS = 4, TICKETS = 300 };

struct sharer {
    rch_t ch;
    atomic_uint *seen; /* how often each ticket was drawn */
    int rc;
};

static void *draws(void *argument)
{
    struct sharer *me = argument;

    for (int i = 0; i < TICKETS && me->rc == 0; i++) {
        uint64_t ticket = UINT64_MAX;

        me->rc = ratomic(me->ch, RATOMIC_ADD, 0, 1, 0, &ticket);
        if (me->rc == 0 && ticket < SHARERS * TICKETS)
            atomic_fetch_add(&me->seen[ticket], 1);
        if (me->rc == 0 && i % 3 == 0)
            me->rc = ratomic(me->ch, RATOMIC_ADD, 1, 1, 0, NULL);
    }
    return NULL;
}

static void test_threads(void **state)
{
    rmalloc_config_t active = cells_config(true), passive = cells_config(false);
    atomic_uint *seen = calloc(SHARERS * TICKETS, sizeof(*seen));
    struct sharer sharer[SHARERS];
    pthread_t thread[SHARERS];
    struct pair p;

    (void)state;
    assert_non_null(seen);
    active.ctx = passive.ctx = 8;
    active.thread_sync = true;
    assert_ok(NULL, rpipe(&p.r, &passive));
    assert_ok(NULL, rpipe(&p.w, &active));
    assert_ok(p.w, rpipe_wait(p.w));
    for (int i = 0; i < SHARERS; i++) {
        sharer[i] = (struct sharer){p.w, seen, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, draws, &sharer[i]), 0);
    }
    for (int i = 0; i < SHARERS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < SHARERS; i++)
        assert_ok(p.w, sharer[i].rc);
    for (int i = 0; i < SHARERS * TICKETS; i++)
        assert_int_equal(atomic_load(&seen[i]), 1);
    assert_ok(p.w, rflush(p.w));
    assert_int_equal(value(p.w, 1), SHARERS * TICKETS / 3);
    pair_close(&p);
    free(seen);
}

static void not_shared(rch_t cells_of, size_t cells)
{
    rmalloc_config_t cfg = cells_config(false);
    rch_t ch = NULL;

    cfg.ctx = 78;
    cfg.allocator.alloc_size = cells * sizeof(uint64_t);
    cfg.allocator.cells_of = cells_of;
    assert_rc(-EINVAL, NULL, rpipe(&ch, &cfg));
    assert_non_null(strstr(rpipe_error(NULL), "cells_of must be an open passive end"));
    assert_null(ch);
}

/* Cells of what has none, or others, or is not open any more. */
static void test_shared_with_whom(void **state)
{
    struct pair p, q, m;

    (void)state;
    pair_open(&m, RDMA_PUT, CELLS * sizeof(uint64_t));
    not_shared(m.r, CELLS);
    open_cells(&p, 18, NULL);
    not_shared(p.w, CELLS);
    not_shared(p.r, CELLS + 1);
    open_cells(&q, 19, p.r);
    not_shared(q.r, CELLS); /* which are p's */
    pair_close(&q);
    pair_close(&p);
    not_shared(p.r, CELLS);
    pair_close(&m);
}

/* Before rpipe_wait, and with statistics: no operation is a message. */
static void test_not_waited_for(void **state)
{
    rmalloc_config_t active = cells_config(true), passive = cells_config(false);
    uint64_t messages = 4711;
    struct pair p;

    (void)state;
    active.ctx = passive.ctx = 20;
    assert_ok(NULL, rpipe(&p.r, &passive));
    assert_ok(NULL, rpipe(&p.w, &active));
    assert_int_equal(fetched(p.w, RATOMIC_ADD, 1, 5, 0), 0);
    assert_int_equal(value(p.w, 1), 5);
    assert_ok(p.w, rinfo_count(p.w, "messages", &messages));
    assert_int_equal(messages, 0);
    pair_close(&p);
}

static void test_reader_closes(void **state)
{
    struct pair p;
    int rc;

    (void)state;
    open_cells(&p, 7, NULL);
    assert_ok(p.r, rclose(p.r));
    do
        rc = ratomic(p.w, RATOMIC_ADD, 0, 1, 0, NULL);
    while (rc == 0); /* until the bye has come */
    assert_rc(-EPIPE, p.w, rc);
    assert_ok(p.w, rclose(p.w));
}

static int join_job(void **state)
{
    (void)state;
    return rinit(NULL, NULL);
}

static int leave_job(void **state)
{
    (void)state;
    return rexit();
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations),     cmocka_unit_test(test_fire_and_forget),
        cmocka_unit_test(test_passive_end),    cmocka_unit_test(test_shared_cells),
        cmocka_unit_test(test_misuse),         cmocka_unit_test(test_reader_closes),
        cmocka_unit_test(test_threads),        cmocka_unit_test(test_shared_with_whom),
        cmocka_unit_test(test_not_waited_for),
    };

    return cmocka_run_group_tests(tests, join_job, leave_job);
}

int main(void)
{
    static const char *const way[][4] = {
        {"RPIPE_BTL", "shm", "RPIPE_ATOMICS", "auto"},
        {"RPIPE_BTL", "shm", "RPIPE_ATOMICS", "service"},
        {"RPIPE_BTL", "sim", "RPIPE_SIM_ATOMICS", "all"},
        {"RPIPE_BTL", "sim", "RPIPE_SIM_ATOMICS", "cas"},
        {"RPIPE_BTL", "sim", "RPIPE_SIM_ATOMICS", "none"},
    };
    size_t i, k;
    int status, failed = 0;

    for (i = 0; i < sizeof(way) / sizeof(way[0]) * 2; i++) {
        pid_t child = fork();

        if (child == 0) {
            for (k = 0; k < 4; k += 2)
                setenv(way[i / 2][k], way[i / 2][k + 1], 1);
            if (i % 2 == 1)
                setenv("RPIPE_SIM_MODE", "incoherent", 1);
            exit(group() != 0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            print_error("with %s=%s %s=%s%s: failed\n", way[i / 2][0], way[i / 2][1], way[i / 2][2],
                        way[i / 2][3], i % 2 == 1 ? " incoherent" : "");
            failed = 1;
        }
    }
    return failed;
}
