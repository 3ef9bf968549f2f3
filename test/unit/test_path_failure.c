/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_path_failure.c: what becomes of a pipe when its connection fails while the peer lives, over the simulated network: each waiting call returns the error, in
 * rread and by the descriptor, also where the end that sees the failure makes no further call. And: rflush is proof.
 *
 * Nothing here depends on how long something takes, but for deadlines that are never reached.
 */
#include <errno.h>
#include <poll.h>
#include <rinfo.h>
#include <rpipe.h>

#include "test/lib/pair.h"

#define MESSAGES 40
#define BREAK_AT "30"     /* the operation of each line that is lost, and the line with it */
#define BREAK_READER "-3" /* the same, of the reader's line alone */
#define MANY_MS 30000
#define BYTES 1000

static rpipe_op_t op; /* of the group that runs */
static bool fetches;  /* GET: each payload, because RPIPE_EAGER is 0 */

static void open_pair(struct pair *p, rpipe_sync_t sync)
{
    rpipe_config_t cfg = pair_config(op, (uint64_t)1 << 20);

    cfg.mode = sync;
    cfg.timeout_ms = MANY_MS;
    pair_open_with(p, &cfg);
}

/* As many as the line takes. A call that fails is what the test is about, too. */
static void write_all(struct pair *p, int n)
{
    raddr_t d;
    int i;

    for (i = 0; i < n; i++) {
        errno = 0;
        d = rmalloc(p->w, BYTES);
        if (d == ADDR_NULL) {
            assert_int_equal(errno, EIO);
            break;
        }
        pattern_fill(rmem(p->w, d), BYTES, (uint64_t)i);
        if (rwrite(p->w, d) != 0)
            break;
    }
}

static int by_waiting(struct pair *p, raddr_t *d) { return rread(p->r, d, NULL); }

static int by_descriptor(struct pair *p, raddr_t *d)
{
    struct pollfd fd = {.fd = rfd(p->r), .events = POLLIN};
    double since = now_ms();
    int rc;

    while ((rc = rread_nb(p->r, d, NULL)) == R_PENDING)
        if (poll(&fd, 1, MANY_MS) != 1 || now_ms() - since > MANY_MS)
            return -ETIMEDOUT;
    return rc;
}

/* Reads until the failure of the connection: a sequence of whole messages, then -EIO with the reason. */
static void read_until_failure(struct pair *p, int (*next)(struct pair *p, raddr_t *d))
{
    raddr_t d;
    int rc, read;

    for (read = 0; (rc = next(p, &d)) == 0; read++) {
        assert_true(pattern_same(rmem(p->r, d), BYTES, (uint64_t)read));
        CHECK_OK(p->r, rfree(p->r, d));
    }
    if (rc != -EIO)
        fail_msg("after %d messages: %s, %s", read, rinfo_strerror(rc), rerror(p->r));
    assert_true(read < MESSAGES);
    assert_non_null(strstr(rerror(p->r), "RPIPE_SIM_BREAK"));
}

static void close_both(struct pair *p)
{
    (void)rclose(p->w); /* they may report that it has failed */
    (void)rclose(p->r);
}

/* ---- the writer makes no further call ---- */

static void test_waiting(void **state)
{
    struct pair p;

    (void)state;
    open_pair(&p, RPIPE_SYNC_BLOCKS);
    write_all(&p, MESSAGES);
    read_until_failure(&p, by_waiting);
    assert_true(rmalloc(p.w, BYTES) == ADDR_NULL);
    close_both(&p);
}

static void test_descriptor(void **state)
{
    struct pair p;

    (void)state;
    open_pair(&p, RPIPE_SYNC_BLOCKS);
    assert_true(rfd(p.r) >= 0);
    write_all(&p, MESSAGES);
    read_until_failure(&p, by_descriptor);
    close_both(&p);
}

/* ---- rclose without the time for proof: the service thread sees the failure, and reports it before the close message ---- */

static void test_deferred_close(void **state)
{
    struct pair p;

    (void)state;
    open_pair(&p, RPIPE_SYNC_BLOCKS);
    write_all(&p, MESSAGES);
    CHECK_OK(p.w, rset_timeout(p.w, R_AT_ONCE));
    (void)rclose(p.w);
    read_until_failure(&p, by_waiting);
    (void)rclose(p.r);
}

/* ---- the reader's connection, when the writer has closed in order: the close message promises what cannot be fetched any more ---- */

static void test_after_close(void **state)
{
    struct pair p;

    (void)state;
    if (op != RPIPE_GET || !fetches)
        return;
    open_pair(
        &p, RPIPE_SYNC_CHANNEL); /* a fetch, and a block that is named: two operations a message */
    write_all(&p, 20);
    assert_int_equal(rclose(p.w), 0);
    read_until_failure(&p, by_waiting);
    (void)rclose(p.r);
}

/* PUT: all that the writer has promised is in the reader's memory, so nothing is lost */
static void test_put_after_close(void **state)
{
    struct pair p, later;
    raddr_t d;
    int read;

    (void)state;
    open_pair(&p, RPIPE_SYNC_CHANNEL); /* a block that is named: one operation a message */
    write_all(&p, 20);
    assert_int_equal(rclose(p.w), 0);
    open_pair(&later, RPIPE_SYNC_BLOCKS); /* its handshake follows the close message */
    close_both(&later);
    for (read = 0; read < 20; read++) {
        CHECK_OK(p.r, rread(p.r, &d, NULL));
        assert_true(pattern_same(rmem(p.r, d), BYTES, (uint64_t)read));
        CHECK_OK(p.r, rfree(p.r, d));
    }
    assert_int_equal(rread(p.r, &d, NULL), R_EOF);
    (void)rclose(p.r); /* it may report that its connection has failed */
}

static int breaking_reader(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_put_after_close)};

    return cmocka_run_group_tests_name("the reader's connection fails", tests, pair_setup,
                                       pair_teardown);
}

static int breaking(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waiting),
        cmocka_unit_test(test_descriptor),
        cmocka_unit_test(test_deferred_close),
        cmocka_unit_test(test_after_close),
    };

    return cmocka_run_group_tests_name("a line that fails", tests, pair_setup, pair_teardown);
}

/* ---- rflush ---- */

static void test_flush(void **state)
{
    struct pair p;
    raddr_t d;
    uint64_t i;

    (void)state;
    open_pair(&p, RPIPE_SYNC_TAGS);
    for (i = 0; i < 200; i++) {
        size_t size = i % 2 == 0 ? 8 : BYTES;

        pair_send(&p, size, i);
        CHECK_OK(p.w, rflush(p.w));
        assert_int_equal(rread_nb(p.r, &d, NULL), 0); /* at once: not CHECK_OK, which calls again */
        assert_true(pattern_same(rmem(p.r, d), size, i));
        CHECK_OK(p.r, rfree(p.r, d));
    }
    pair_close(&p);
}

static int flushing(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_flush)};

    return cmocka_run_group_tests_name("rflush", tests, pair_setup, pair_teardown);
}

int main(void)
{
    struct pair_child breaks[] = {
        {"RPIPE_SIM_BREAK", BREAK_AT, "0", NULL, "lazy", 0, NULL},
        {"RPIPE_SIM_BREAK", BREAK_AT, "1", NULL, "", 0, NULL},
        {"RPIPE_SIM_BREAK", BREAK_AT, "0", NULL, "lazy order scribble", 0, NULL},
    };
    struct pair_child breaks_reader[] = {
        {"RPIPE_SIM_BREAK", BREAK_READER, "0", NULL, "lazy", 0, NULL},
        {"RPIPE_SIM_BREAK", BREAK_READER, "1", NULL, "", 0, NULL},
    };
    struct pair_child flushes[] = {
        {NULL, NULL, "0", NULL, "lazy", 0, NULL},
        {NULL, NULL, "1", NULL, "", 0, NULL},
    };
    int failed = 0;

    setenv("PAIR_NET", "1", 0);
    for (op = RPIPE_PUT; op <= RPIPE_GET; op++)
        failed |= pair_children(breaks, sizeof(breaks) / sizeof(*breaks), breaking);
    fetches = true;
    op = RPIPE_GET;
    setenv("RPIPE_EAGER", "0", 1);
    failed |= pair_children(breaks, sizeof(breaks) / sizeof(*breaks), breaking);
    unsetenv("RPIPE_EAGER");
    op = RPIPE_PUT;
    failed |= pair_children(breaks_reader, sizeof(breaks_reader) / sizeof(*breaks_reader),
                            breaking_reader);
    failed |= pair_children(flushes, sizeof(flushes) / sizeof(*flushes), flushing);
    return failed;
}
