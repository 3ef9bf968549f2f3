/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An end without RPIPE_THREADS in two threads: RMALLOC_DEBUG=1 names both calls, and the second is not made. When the first has
 * returned the other thread may use the end. With RPIPE_THREADS nothing is reported.
 */
#include "test/lib/pair.h"

#include <sched.h>

static void *read_one(void *argument)
{
    rch_t r = argument;
    raddr_t d = ADDR_NULL;
    int rc;

    while ((rc = rread(r, &d, NULL)) == -EBUSY) /* the other thread is in rread_nb */
        sched_yield();
    CHECK(r, rc == 0);
    CHECK(r, rfree(r, d) == 0);
    return NULL;
}

/* The code of rread_nb in this thread, while another one is in rread for some time. */
static int read_meanwhile(rch_t r)
{
    double since = now_ms();
    raddr_t d = ADDR_NULL;
    int rc;

    while ((rc = rread_nb(r, &d, NULL)) == R_PENDING && now_ms() - since < 2000)
        sched_yield();
    return rc;
}

static void open_pair(struct pair *p, uint32_t flags)
{
    rpipe_config_t cfg = pair_config(RPIPE_PUT, 1 << 16);

    cfg.flags |= flags;
    pair_open_with(p, &cfg);
}

static void test_named(void **state)
{
    raddr_t d = ADDR_NULL;
    pthread_t thread;
    struct pair p;

    (void)state;
    atomic_store(&check_failures, 0);
    open_pair(&p, 0);
    assert_int_equal(pthread_create(&thread, NULL, read_one, p.r), 0);
    assert_int_equal(read_meanwhile(p.r), -EBUSY);
    CHECK_ERROR(p.r, "rread_nb: another thread is inside rread;");
    pair_send(&p, 100, 1);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&check_failures), 0);
    CHECK_RC(R_PENDING, p.r, rread_nb(p.r, &d, NULL));
    pair_close(&p);
}

static void test_allowed(void **state)
{
    pthread_t thread;
    struct pair p;

    (void)state;
    atomic_store(&check_failures, 0);
    open_pair(&p, RPIPE_THREADS);
    assert_int_equal(pthread_create(&thread, NULL, read_one, p.r), 0);
    assert_int_equal(read_meanwhile(p.r), R_PENDING);
    pair_send(&p, 100, 1);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&check_failures), 0);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named),
        cmocka_unit_test(test_allowed),
    };

    setenv("RPIPE_BOOTSTRAP", "single", 1);
    setenv("RMALLOC_DEBUG", "1", 1);
    return cmocka_run_group_tests_name("thread_misuse", tests, pair_setup, pair_teardown);
}
