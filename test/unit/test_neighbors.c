/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rneighbors(3): a pipe each way for each neighbor. To oneself it is a loop; between two processes it is shown in
 * test/mpi/mp_compose.c. PUT and GET, in several modes, with RMALLOC_DEBUG=1 and without.
 */
#include "test/lib/group_pair.h"
#include "test/lib/group.h"
#include <rpipe.h>

static void test_loop(void **state)
{
    rpipe_config_t cfg = fan_config(op_of(state), 4096, 1);
    rneighbor_t dx;
    struct pair p;

    CHECK_OK(NULL, duplex_open(&dx, &cfg));
    CHECK_OK(NULL, duplex_wait(&dx));
    p.w = dx.out;
    p.r = dx.in;
    assert_true(p.w != NULL && p.r != NULL && p.w != p.r);
    for (uint64_t i = 0; i < 300; i++) {
        pair_send(&p, i % 3 == 0 ? 20 : 700, i);
        pair_read_free(&p, i % 3 == 0 ? 20 : 700, i);
    }
    CHECK_RC(-EBADF, p.w, rread_nb(p.w, &(raddr_t){NULL}, NULL)); /* each of one direction */
    CHECK_ERRNO(EBADF, rmalloc(p.r, 8));
    CHECK_OK(NULL, rneighbors_close(&dx, 1));
    assert_true(dx.out == NULL && dx.in == NULL);
}

static void test_again(void **state)
{
    rpipe_config_t cfg = fan_config(op_of(state), 4096, 1);

    for (uint64_t i = 0; i < 20; i++) {
        rneighbor_t dx;
        struct pair p;

        CHECK_OK(NULL, duplex_open(&dx, &cfg));
        CHECK_RC(-EEXIST, NULL, duplex_open(&(rneighbor_t){0}, &cfg));
        p.w = dx.out;
        p.r = dx.in;
        pair_send(&p, 100, i);
        pair_read_free(&p, 100, i);
        CHECK_OK(NULL, rneighbors_close(&dx, 1));
    }
}

/* A stencil on one process: what leaves on a side arrives on the opposite side, and at no other. */
static void test_sides(void **state)
{
    enum { EAST, WEST, NORTH, SOUTH };
    rpipe_config_t cfg = {.op = op_of(state), .heap_bytes = 4096, .context = rcontext("sides")};
    rneighbor_t list[] = {{.side = EAST, .opposite = WEST},
                          {.side = WEST, .opposite = EAST},
                          {.peer = R_NO_PEER, .side = 7},
                          {.side = NORTH, .opposite = SOUTH},
                          {.side = SOUTH, .opposite = NORTH}};
    static const int arrives[] = {1, 0, -1, 4, 3};
    raddr_t d;

    CHECK_OK(NULL, rneighbors(list, 5, &cfg));
    assert_true(list[2].out == NULL && list[2].in == NULL);
    for (int i = 0; i < 5; i++) {
        struct pair p = {list[i].out, NULL};

        if (i == 2)
            continue;
        CHECK_OK(p.w, rwait(p.w));
        pair_send(&p, 100, (uint64_t)i);
    }
    for (int i = 0; i < 5; i++) {
        struct pair p = {NULL, i == 2 ? NULL : list[arrives[i]].in};

        if (i == 2)
            continue;
        pair_read_free(&p, 100, (uint64_t)i);
        CHECK_RC(R_PENDING, p.r, rread_nb(p.r, &d, NULL));
    }
    CHECK_OK(NULL, rneighbors_close(list, 5));
    for (int i = 0; i < 5; i++)
        assert_true(list[i].out == NULL && list[i].in == NULL);
    CHECK_OK(NULL, rneighbors_close(list, 5)); /* all of them are closed */
}

/* A plain pipe is the other end: the contexts are those of the manual. */
static void test_plain_peer(void **state)
{
    rpipe_config_t cfg = {.op = op_of(state), .heap_bytes = 4096, .context = 5}, plain = cfg;
    rneighbor_t n = {.side = 3, .opposite = 2};
    struct pair p;

    plain.role = RPIPE_READER;
    plain.context = 5 + 1024 * 3 + 2;
    CHECK_OK(NULL, rneighbors(&n, 1, &cfg));
    CHECK_OK(NULL, rpipe(&p.r, &plain));
    p.w = n.out;
    pair_send(&p, 300, 1);
    pair_read_free(&p, 300, 1);
    CHECK_OK(p.r, rclose(p.r));
    CHECK_OK(NULL, rneighbors_close(&n, 1));
}

static void test_refused(void **state)
{
    rpipe_config_t cfg = {.op = op_of(state), .heap_bytes = 4096, .context = 9}, wrong;
    rneighbor_t n[2] = {{.side = 1}, {.side = 2}}, was[2];
    rgroup_t other;

    memcpy(was, n, sizeof(n));
    CHECK_RC(-EINVAL, NULL, rneighbors(NULL, 1, &cfg));
    CHECK_RC(-EINVAL, NULL, rneighbors(n, 1, NULL));
    CHECK_RC(-EINVAL, NULL, rneighbors(n, 0, &cfg));
    wrong = cfg;
    wrong.role = RPIPE_WRITER;
    CHECK_RC(-EINVAL, NULL, rneighbors(n, 2, &wrong));
    wrong = cfg;
    wrong.context = (1 << 20) - 1024;
    CHECK_RC(-EINVAL, NULL, rneighbors(n, 2, &wrong));
    wrong = cfg;
    wrong.op = (rpipe_op_t)2;
    CHECK_RC(-EINVAL, NULL, rneighbors(n, 2, &wrong));
    assert_non_null(strstr(rerror(NULL), "RPIPE_PUT"));
    n[1].side = 1024;
    CHECK_RC(-EINVAL, NULL, rneighbors(n, 2, &cfg));
    n[1].side = 1;
    CHECK_RC(-EINVAL, NULL, rneighbors(n, 2, &cfg)); /* twice the same */
    assert_non_null(strstr(rerror(NULL), "side"));
    n[1] = was[1];
    n[1].zero = 1;
    CHECK_RC(-EINVAL, NULL, rneighbors(n, 2, &cfg));
    n[1].zero = 0;
    n[1].peer = -2;
    CHECK_RC(-EINVAL, NULL, rneighbors(n, 2, &cfg));
    n[1].peer = 1; /* there is no such rank: the first neighbor is closed again */
    CHECK_RC(-ENOENT, NULL, rneighbors(n, 2, &cfg));
    assert_true(n[0].out == NULL && n[0].in == NULL);
    n[1] = was[1];
    CHECK_RC(-EINVAL, NULL, rneighbors_close(NULL, 1));
    CHECK_RC(-EINVAL, NULL, rneighbors_close(n, 0));
    CHECK_OK(NULL, rneighbors(n, 2, &cfg));
    CHECK_RC(-EEXIST, NULL, rneighbors(was, 2, &cfg));
    assert_true(was[0].out == NULL);
    CHECK_OK(NULL, rneighbors_close(n, 2));
    cfg.role = RPIPE_WRITER;
    CHECK_OK(NULL, rgroup_open(&other, &cfg, fan_self, 1));
    CHECK_RC(-EBADF, NULL, rgroup_read(other, &(int){0}, &(raddr_t){NULL}, NULL, 0));
    CHECK_OK(NULL, rgroup_close(other));
    CHECK_RC(-ENOTCONN, NULL, rgroup_close(other));
}

/* no peer comes */
static void test_deadline(void **state)
{
    rpipe_config_t cfg = fan_config(op_of(state), 4096, 1);
    rgroup_t sc;

    cfg.timeout_ms = 20;
    CHECK_OK(NULL, scatter_open(&sc, &cfg, fan_self, 1));
    CHECK_RC(-ETIMEDOUT, NULL, rgroup_wait(sc));
    assert_int_equal(rgroup_lost(sc), 0);
    assert_int_equal(rgroup_count(sc), 1);
    CHECK_OK(NULL, rgroup_close(sc));
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        PUT_AND_GET(test_loop),       PUT_AND_GET(test_again),   PUT_AND_GET(test_sides),
        PUT_AND_GET(test_plain_peer), PUT_AND_GET(test_refused), PUT_AND_GET(test_deadline),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
