/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rpending: what it lists is what can be opened, and nothing else; a number that has seen everything finds nothing, and
 * finds the next incarnation as soon as it can be opened.
 */
#include "test/lib/pair.h"

static void settle(void)
{
    struct timespec t = {0, 200 * 1000};

    nanosleep(&t, NULL);
}

/* waits for the service thread: until one end of ctx is pending */
static rpipe_config_t await_pending(uint64_t ctx, uint64_t *seen)
{
    rpipe_config_t list[2];
    int n, looks = 0;

    while ((n = rpending(ctx, seen, list, 2)) == 0 && looks++ < 150000)
        settle();
    assert_int_equal(n, 1);
    return list[0];
}

static rch_t open_end(const rpipe_config_t *cfg, bool writer)
{
    rpipe_config_t c = *cfg;
    rch_t ch;

    c.role = writer ? RPIPE_WRITER : RPIPE_READER;
    CHECK_OK(NULL, rpipe(&ch, &c));
    return ch;
}

static void pass_message(rch_t w, rch_t r)
{
    raddr_t d = rmalloc(w, 100);
    size_t size;

    assert_true(d != ADDR_NULL);
    CHECK_OK(w, rwrite(w, d));
    CHECK_OK(r, rread(r, &d, &size));
    assert_int_equal(size, 100);
    CHECK_OK(r, rfree(r, d));
}

static void nothing_from(uint64_t ctx, uint64_t seen)
{
    rpipe_config_t p;

    CHECK_RC(0, NULL, rpending(ctx, &seen, &p, 1));
}

static void of_one_side(rpipe_op_t op, bool writer_first)
{
    rpipe_config_t cfg = pair_config(op, 4096);
    uint64_t seen = 0;
    rpipe_config_t p;
    rch_t first, second;

    nothing_from(cfg.context, 0);
    first = open_end(&cfg, writer_first);
    p = await_pending(cfg.context, &seen);
    assert_int_equal(p.peer, 0);
    assert_int_equal(p.context, cfg.context);
    assert_int_equal(p.op, op);
    assert_int_equal(p.role,
                     writer_first ? RPIPE_READER : RPIPE_WRITER); /* of the end that is missing */
    nothing_from(cfg.context, seen);                              /* it has been seen */
    nothing_from(cfg.context + 1, 0);
    seen = 0;
    assert_int_equal(await_pending(cfg.context, &seen).role, p.role); /* but it is still there */
    second = open_end(&cfg, p.role == RPIPE_WRITER);
    nothing_from(cfg.context, 0);
    pass_message(writer_first ? first : second, writer_first ? second : first);
    CHECK_OK(first, rclose(first));
    CHECK_OK(second, rclose(second));
    nothing_from(cfg.context, 0);
}

static void test_what_waits(void **state)
{
    (void)state;
    of_one_side(RPIPE_PUT, true);
    of_one_side(RPIPE_PUT, false);
    of_one_side(RPIPE_GET, true);
    of_one_side(RPIPE_GET, false);
}

/* An end that was closed again waits for no peer; the next one cannot be opened before this one is closed. */
static void test_incarnations(void **state)
{
    rpipe_config_t cfg = pair_config(RPIPE_PUT, 4096);
    uint64_t seen = 0;
    rch_t w, r, late;
    raddr_t d;

    (void)state;
    w = open_end(&cfg, true);
    await_pending(cfg.context, &seen);
    CHECK_OK(w, rclose(w));
    w = open_end(&cfg, true); /* the second: by now, or soon, the first is known to be closed */
    assert_int_equal(await_pending(cfg.context, &seen).role, RPIPE_READER);
    late = open_end(&cfg, false);
    CHECK_RC(R_EOF, late, rread(late, &d, NULL));
    nothing_from(cfg.context, 0);
    CHECK_OK(late, rclose(late));
    assert_int_equal(await_pending(cfg.context, &seen).role,
                     RPIPE_READER); /* seen is not 0: rclose has made another call worthwhile */
    r = open_end(&cfg, false);
    pass_message(w, r);
    CHECK_OK(w, rclose(w));
    CHECK_OK(r, rclose(r));
}

static void test_refused(void **state)
{
    rpipe_config_t p;
    uint64_t seen = 0;

    (void)state;
    CHECK_RC(-EINVAL, NULL, rpending(0, NULL, &p, 1));
    CHECK_RC(-EINVAL, NULL, rpending(0, &seen, NULL, 1));
    CHECK_RC(-EINVAL, NULL, rpending(0, &seen, &p, 0));
    assert_true(seen == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_waits),
        cmocka_unit_test(test_incarnations),
        cmocka_unit_test(test_refused),
    };
    rpipe_config_t p;
    uint64_t seen = 0;
    int rc;

    if (rpending(0, &seen, &p, 1) != -ENOTCONN || rinit(NULL, NULL) != R_SUCCESS)
        return 1;
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    if (rexit() != R_SUCCESS || rpending(0, &seen, &p, 1) != -ENOTCONN)
        return 1;
    return rc;
}
