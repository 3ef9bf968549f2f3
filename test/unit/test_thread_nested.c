/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RMALLOC_DEBUG=1: a call within a call, on the same ends, as the library makes them. The inner one does not leave what the outer one has entered,
 * neither an end nor its stream: a second thread is kept out until the outer one returns.
 */
#include "rpipe/end/call.h"
#include "rpipe/end/debug_check.h"

#include "test/lib/pair.h"

static void *read_once(void *of)
{
    struct rch *ch = of;
    raddr_t d = ADDR_NULL;

    return (void *)(intptr_t)rread_nb(ch, &d, NULL);
}

/* What another thread gets. */
static int read_elsewhere(rch_t ch)
{
    pthread_t thread;
    void *rc = NULL;

    assert_int_equal(pthread_create(&thread, NULL, read_once, ch), 0);
    assert_int_equal(pthread_join(thread, &rc), 0);
    return (int)(intptr_t)rc;
}

/* The outer call is on the first of the two ends; the inner one polls both. */
static void nested(rch_t outer_end, const rch_t *polled, int n, rch_t other)
{
    struct call outer;
    int ready[2];

    assert_int_equal(call_begin(&outer, "the outer call", outer_end, SIDE_READER), 0);
    assert_int_equal(rpoll(polled, n, ready, 0), R_PENDING);
    assert_int_equal(read_elsewhere(outer_end), -EBUSY);
    if (other != NULL) /* another pipe of the same stream */
        assert_int_equal(read_elsewhere(other), -EBUSY);
    assert_int_equal(call_end(&outer, 0), 0);
    assert_int_equal(read_elsewhere(outer_end), R_PENDING);
    if (other != NULL)
        assert_int_equal(read_elsewhere(other), R_PENDING);
}

static void test_end(void **state)
{
    struct pair p, q;

    (void)state;
    pair_open(&p, RPIPE_PUT, 4096);
    pair_open(&q, RPIPE_PUT, 4096);
    nested(p.r, (const rch_t[]){q.r, p.r}, 2, NULL);
    assert_int_equal(read_elsewhere(q.r), R_PENDING);
    pair_close(&p);
    pair_close(&q);
}

static void test_stream(void **state)
{
    rpipe_config_t cfg = pair_config(RPIPE_PUT, 4096);
    rstream_t stream;
    struct pair p, q;

    (void)state;
    assert_int_equal(rstream_open(&stream, NULL), 0);
    cfg.stream = stream;
    pair_open_with(&p, &cfg);
    cfg = pair_config(RPIPE_PUT, 4096);
    cfg.stream = stream;
    pair_open_with(&q, &cfg);
    nested(p.r, (const rch_t[]){p.r, q.r}, 2, q.r);
    nested(p.r, (const rch_t[]){q.r, q.r}, 2, q.r);
    pair_close(&p);
    pair_close(&q);
    assert_int_equal(rstream_close(stream), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_end), cmocka_unit_test(test_stream)};

    setenv("RPIPE_BOOTSTRAP", "single", 1);
    setenv("RMALLOC_DEBUG", "1", 1);
    return cmocka_run_group_tests_name("thread_nested", tests, pair_setup, pair_teardown);
}
