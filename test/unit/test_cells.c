/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_cells.c: cells of this process, from rcells_open(3) alone: every operation, fetching or not, both ends, shared cells, misuse.
 *
 * In each of: shared memory; the service thread; and a simulated network that has every operation, compare-swap alone, or none.
 */
#include "test/lib/pair.h"
#include "test/lib/cells.h"
#include "test/lib/counts.h"
#include <rpipe.h>

#include <rinfo.h>
#include <pthread.h>
#include <stdatomic.h>

#define CELLS 16

struct cells { /* one array: both ends, as objects and as pipes */
    rcells_t user, owner;
    rch_t w, r;
};

static rcells_config_t cells_config(rcells_role_t role, uint64_t context)
{
    return (rcells_config_t){.role = role, .peer = 0, .cells = CELLS, .context = context};
}

static void open_both(struct cells *p, const rcells_config_t *user, const rcells_config_t *owner)
{
    CHECK_OK(NULL, rcells_open(&p->owner, owner));
    CHECK_OK(NULL, rcells_open(&p->user, user));
    p->w = rcells_pipe(p->user);
    p->r = rcells_pipe(p->owner);
}

static void open_cells(struct cells *p, uint64_t context, rcells_t shared)
{
    rcells_config_t user = cells_config(RCELLS_USER, context),
                    owner = cells_config(RCELLS_OWNER, context);

    owner.shared = shared;
    open_both(p, &user, &owner);
    CHECK_OK(p->w, rwait(p->w));
    CHECK_OK(p->r, rwait(p->r));
}

static void close_cells(struct cells *p)
{
    CHECK_OK(p->w, rcells_close(p->user));
    CHECK_OK(p->r, rcells_close(p->owner));
}

static uint64_t fetched(rcells_t c, rcells_op_t op, size_t cell, uint64_t operand, uint64_t compare)
{
    uint64_t old = ~UINT64_C(0);

    CHECK_OK(rcells_pipe(c), rcells_atomic(c, op, cell, operand, compare, &old));
    return old;
}

static uint64_t value(rcells_t c, size_t cell) { return fetched(c, RCELLS_ADD, cell, 0, 0); }

static void test_operations(void **state)
{
    struct cells p;

    (void)state;
    open_cells(&p, 1, NULL);
    assert_int_equal(value(p.user, 0), 0);
    assert_int_equal(fetched(p.user, RCELLS_ADD, 3, 5, 0), 0);
    assert_int_equal(fetched(p.user, RCELLS_ADD, 3, (uint64_t)-2, 0), 5);
    assert_int_equal(fetched(p.user, RCELLS_CAS, 3, 77, 4), 3); /* not swapped */
    assert_int_equal(fetched(p.user, RCELLS_CAS, 3, 77, 3), 3);
    assert_int_equal(fetched(p.user, RCELLS_SWAP, 3, 0xf0f0, 0), 77);
    assert_int_equal(fetched(p.user, RCELLS_AND, 3, 0xff00, 0), 0xf0f0);
    assert_int_equal(fetched(p.user, RCELLS_OR, 3, 0x000f, 0), 0xf000);
    assert_int_equal(fetched(p.user, RCELLS_XOR, 3, 0xffff, 0), 0xf00f);
    assert_int_equal(value(p.user, 3), 0x0ff0);
    assert_int_equal(value(p.user, 2), 0);
    assert_int_equal(value(p.user, 4), 0);
    assert_int_equal(fetched(p.user, RCELLS_SWAP, CELLS - 1, UINT64_MAX, 0), 0);
    assert_int_equal(fetched(p.user, RCELLS_ADD, CELLS - 1, 1, 0), UINT64_MAX);
    assert_int_equal(value(p.user, CELLS - 1), 0);
    close_cells(&p);
}

static void test_fire_and_forget(void **state)
{
    struct cells p;
    int i;

    (void)state;
    open_cells(&p, 2, NULL);
    for (i = 0; i < 1000; i++)
        CHECK_OK(p.w, rcells_atomic(p.user, RCELLS_ADD, (size_t)i % CELLS, 1, 0, NULL));
    CHECK_OK(p.w, rcells_atomic(p.user, RCELLS_CAS, 5, 1, 12345, NULL));
    CHECK_OK(p.w, rcells_flush(p.user));
    for (i = 0; i < CELLS; i++)
        assert_int_equal(value(p.user, (size_t)i), 1000 / CELLS + (i < 1000 % CELLS));
    close_cells(&p);
}

/* The passive end's own calls: where they are refused the error message has the cure. */
static void test_passive_end(void **state)
{
    struct pipe_transport t = {0};
    uint64_t old = 7;
    struct cells p;
    int rc;

    (void)state;
    open_cells(&p, 3, NULL);
    CHECK_OK(p.w, rcells_atomic(p.user, RCELLS_ADD, 1, 40, 0, &old));
    rc = rcells_atomic(p.owner, RCELLS_ADD, 1, 2, 0, &old);
    CHECK_OK(p.r, pipe_transport(p.r, &t));
    if (rc == -ENOTSUP) {
        assert_string_equal(t.cells, "device");
        assert_non_null(strstr(rerror(p.r), "RPIPE_ATOMICS"));
    } else {
        CHECK_OK(p.r, rc);
        assert_int_equal(old, 40);
        assert_int_equal(value(p.user, 1), 42);
    }
    close_cells(&p);
}

static void test_shared_cells(void **state)
{
    struct cells p, q;
    int i;

    (void)state;
    open_cells(&p, 4, NULL);
    open_cells(&q, 5, p.owner);
    for (i = 0; i < 100; i++) {
        assert_int_equal(fetched(p.user, RCELLS_ADD, 9, 1, 0), (uint64_t)(2 * i));
        assert_int_equal(fetched(q.user, RCELLS_ADD, 9, 1, 0), (uint64_t)(2 * i + 1));
    }
    /* whose they are goes first: the others keep them */
    CHECK_OK(p.w, rcells_close(p.user));
    CHECK_OK(p.r, rcells_close(p.owner));
    assert_int_equal(value(q.user, 9), 200);
    close_cells(&q);
}

static void test_misuse(void **state)
{
    rcells_config_t cfg = cells_config(RCELLS_OWNER, 0);
    rpipe_config_t pipe = {.role = RPIPE_WRITER, .context = 1000};
    rregion_t region;
    uint64_t old = 9;
    struct cells p;
    rcells_t none = NULL;
    struct pair m;
    raddr_t d;

    (void)state;
    cfg.role = 0;
    CHECK_RC(-EINVAL, NULL, rcells_open(&none, &cfg));
    cfg.role = RCELLS_OWNER;
    cfg.cells = (UINT64_C(1) << 31) + 1;
    CHECK_RC(-EINVAL, NULL, rcells_open(&none, &cfg));
    CHECK_RC(-EINVAL, NULL, rcells_open(NULL, &cfg));
    CHECK_RC(-EINVAL, NULL, rcells_open(&none, NULL));
    open_cells(&p, 6, NULL);
    cfg = cells_config(RCELLS_USER, 77);
    cfg.shared = p.owner;
    CHECK_RC(-EINVAL, NULL, rcells_open(&none, &cfg));
    assert_null(none);
    CHECK_RC(-EINVAL, p.w, rcells_atomic(p.user, RCELLS_ADD, CELLS, 1, 0, &old));
    CHECK_RC(-EINVAL, p.w, rcells_atomic(p.user, (rcells_op_t)6, 0, 1, 0, &old));
    assert_int_equal(old, 9);
    CHECK_RC(-EBADF, p.w, rmalloc_nb(p.w, 8, &d));
    CHECK_RC(-EBADF, p.r, rread_nb(p.r, &d, NULL));
    CHECK_RC(-EBADF, p.w, rflush(p.w));
    CHECK_RC(-EBADF, p.w, rclose(p.w));
    assert_non_null(strstr(rerror(p.w), "rcells_close"));
    CHECK_RC(-EBADF, p.w, rregion_open(&region, p.w, &old, sizeof(old)));
    CHECK_RC(-EINVAL, NULL, rcells_atomic(NULL, RCELLS_ADD, 0, 1, 0, NULL));
    assert_null(rcells_pipe(NULL));
    close_cells(&p);
    CHECK_RC(-ENOTCONN, p.w, rcells_atomic(p.user, RCELLS_ADD, 0, 1, 0, NULL));
    CHECK_RC(-ENOTCONN, p.w, rcells_close(p.user));
    CHECK_OK(NULL, rpipe(&m.w, &pipe));
    CHECK_RC(-EBADF, m.w, rcells_atomic(cells_at(m.w), RCELLS_ADD, 0, 1, 0, NULL));
    assert_non_null(strstr(rerror(m.w), ": rcells_atomic: this is a pipe"));
    CHECK_RC(-EBADF, m.w, rcells_flush(cells_at(m.w)));
    assert_non_null(strstr(rerror(m.w), ": rcells_flush: this is a pipe"));
    CHECK_RC(-EBADF, m.w, rcells_close(cells_at(m.w)));
    assert_non_null(strstr(rerror(m.w), ": rcells_close: this is a pipe"));
    CHECK_OK(m.w, rclose(m.w));
}

/* RPIPE_THREADS: every fetch gets the value that its own operation has found, whatever the other threads ask for meanwhile */
enum { SHARERS = 4, TICKETS = 300 };

struct sharer {
    rcells_t cells;
    atomic_uint *seen; /* how often each ticket was drawn */
    int rc;
};

static void *draws(void *argument)
{
    struct sharer *me = argument;

    for (int i = 0; i < TICKETS && me->rc == 0; i++) {
        uint64_t ticket = UINT64_MAX;

        me->rc = rcells_atomic(me->cells, RCELLS_ADD, 0, 1, 0, &ticket);
        if (me->rc == 0 && ticket < SHARERS * TICKETS)
            atomic_fetch_add(&me->seen[ticket], 1);
        if (me->rc == 0 && i % 3 == 0)
            me->rc = rcells_atomic(me->cells, RCELLS_ADD, 1, 1, 0, NULL);
    }
    return NULL;
}

static void test_threads(void **state)
{
    rcells_config_t user = cells_config(RCELLS_USER, 8), owner = cells_config(RCELLS_OWNER, 8);
    atomic_uint *seen = calloc(SHARERS * TICKETS, sizeof(*seen));
    struct sharer sharer[SHARERS];
    pthread_t thread[SHARERS];
    struct cells p;

    (void)state;
    assert_non_null(seen);
    user.flags |= RPIPE_THREADS;
    open_both(&p, &user, &owner);
    CHECK_OK(p.w, rwait(p.w));
    for (int i = 0; i < SHARERS; i++) {
        sharer[i] = (struct sharer){p.user, seen, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, draws, &sharer[i]), 0);
    }
    for (int i = 0; i < SHARERS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < SHARERS; i++)
        CHECK_OK(p.w, sharer[i].rc);
    for (int i = 0; i < SHARERS * TICKETS; i++)
        assert_int_equal(atomic_load(&seen[i]), 1);
    CHECK_OK(p.w, rcells_flush(p.user));
    assert_int_equal(value(p.user, 1), SHARERS * TICKETS / 3);
    close_cells(&p);
    free(seen);
}

static void not_shared(int expected, rch_t ch, size_t cells)
{
    rcells_config_t cfg = cells_config(RCELLS_OWNER, 78);
    rcells_t none = NULL;

    cfg.cells = cells;
    cfg.shared = cells_at(ch);
    CHECK_RC(expected, NULL, rcells_open(&none, &cfg));
    if (expected == -EINVAL)
        assert_non_null(strstr(rerror(NULL), "shared must be an open owner end"));
    assert_null(none);
}

/* Cells of what has none, or others, or is not open any more. */
static void test_shared_with_whom(void **state)
{
    struct cells p, q;
    struct pair m;

    (void)state;
    pair_open(&m, RPIPE_PUT, CELLS * sizeof(uint64_t));
    not_shared(-EBADF, m.r, CELLS);
    open_cells(&p, 18, NULL);
    not_shared(-EINVAL, p.w, CELLS);
    not_shared(-EINVAL, p.r, CELLS + 1);
    open_cells(&q, 19, p.owner);
    not_shared(-EINVAL, q.r, CELLS); /* which are p's */
    close_cells(&q);
    close_cells(&p);
    not_shared(-ENOTCONN, p.r, CELLS);
    pair_close(&m);
}

/* Before rwait, and with statistics: no operation is a message. */
static void test_not_waited_for(void **state)
{
    rcells_config_t user = cells_config(RCELLS_USER, 20), owner = cells_config(RCELLS_OWNER, 20);
    uint64_t messages = 4711;
    struct cells p;

    (void)state;
    open_both(&p, &user, &owner);
    assert_int_equal(fetched(p.user, RCELLS_ADD, 1, 5, 0), 0);
    assert_int_equal(value(p.user, 1), 5);
    CHECK_OK(p.w, rinfo_count(p.w, "messages", &messages));
    assert_int_equal(messages, 0);
    close_cells(&p);
}

static void test_reader_closes(void **state)
{
    struct cells p;
    int rc;

    (void)state;
    open_cells(&p, 7, NULL);
    CHECK_OK(p.r, rcells_close(p.owner));
    do
        rc = rcells_atomic(p.user, RCELLS_ADD, 0, 1, 0, NULL);
    while (rc == 0); /* until the close message has come */
    CHECK_RC(-EPIPE, p.w, rc);
    CHECK_OK(p.w, rcells_close(p.user));
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
