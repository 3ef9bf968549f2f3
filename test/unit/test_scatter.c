/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scatter_open(3): one writer deals messages to many readers. All of it to oneself: what the readers have is checked after each
 * message. PUT and GET, in several modes, with RMALLOC_DEBUG=1 and without.
 */
#include "test/lib/group_pair.h"
#include "test/lib/group.h"
#include <rpipe.h>

enum { N = 4 };

struct fan {
    rgroup_t sc;
    rch_t reader[FAN_MOST];
    rpipe_config_t cfg;
};

static void fan_open(struct fan *f, rpipe_op_t op, uint64_t heap, uint32_t slots, int n)
{
    f->cfg = fan_config(op, heap, n);
    f->cfg.slots = slots;
    CHECK_OK(NULL, scatter_open(&f->sc, &f->cfg, fan_self, n));
    fan_partners(f->reader, &f->cfg, n, false);
    CHECK_OK(NULL, rgroup_wait(f->sc));
    for (int i = 0; i < n; i++)
        CHECK_OK(f->reader[i], rwait(f->reader[i]));
    assert_int_equal(rgroup_count(f->sc), n);
    assert_int_equal(rgroup_lost(f->sc), -1);
}

/* deals one message; to which member */
static int deal(const struct fan *f, int to, uint64_t number, size_t size)
{
    int place = -7;
    raddr_t d = ANY_RADDR;
    rch_t ch;

    CHECK_OK(NULL, rgroup_alloc(f->sc, to, size, &place, &d, 0));
    ch = rgroup_pipe(f->sc, place);
    assert_non_null(ch);
    pattern_fill(rmem(ch, d), size, number);
    CHECK_OK(ch, rset_tag(ch, d, number));
    CHECK_OK(NULL, rwrite(rgroup_pipe(f->sc, place), d));
    return place;
}

static void receive(const struct fan *f, int place, uint64_t number, size_t size)
{
    raddr_t d;
    size_t got;

    CHECK_OK(f->reader[place], rread(f->reader[place], &d, &got));
    assert_int_equal(got, size);
    assert_true(fan_check(f->reader[place], d, size) == number);
}

static void nothing(const struct fan *f, int place)
{
    CHECK_RC(R_PENDING, f->reader[place], rread_nb(f->reader[place], &(raddr_t){NULL}, NULL));
}

static size_t size_of(uint64_t i) { return i % 3 == 0 ? i % 41 : 50 + i * 61 % 900; }

static void test_by_place(void **state)
{
    struct fan f;

    fan_open(&f, op_of(state), 8192, 16, N);
    for (uint64_t i = 0; i < 400; i++) {
        int to = (int)(random_mix(i) % N);

        assert_int_equal(deal(&f, to, i, size_of(i)), to);
        receive(&f, to, i, size_of(i));
        nothing(&f, (to + 1) % N);
    }
    CHECK_OK(NULL, rgroup_close(f.sc));
    for (int i = 0; i < N; i++)
        CHECK_RC(R_EOF, f.reader[i], rread(f.reader[i], &(raddr_t){NULL}, NULL));
    fan_close(f.reader, N);
}

static void test_in_turn(void **state)
{
    struct fan f;

    fan_open(&f, op_of(state), 8192, 16, N);
    for (uint64_t i = 0; i < 400; i++) {
        assert_int_equal(deal(&f, RGROUP_NEXT, i, size_of(i)), (int)(i % N));
        if (i % 7 == 0) { /* what goes to a chosen member does not change whose turn it is */
            (void)deal(&f, 0, 1000 + i, 8);
            receive(&f, (int)(i % N), i, size_of(i));
            receive(&f, 0, 1000 + i, 8);
        } else {
            receive(&f, (int)(i % N), i, size_of(i));
        }
    }
    fan_end(f.sc, f.reader, N);
}

/* a turn that failed for lack of memory is not over */
static void test_turn_waits(void **state)
{
    struct fan f;
    raddr_t d = ANY_RADDR;
    int place = 9;

    fan_open(&f, op_of(state), 1024, 16, 2);
    assert_int_equal(deal(&f, 0, 1, 1000), 0); /* its heap is full */
    CHECK_RC(R_PENDING, NULL, rgroup_alloc(f.sc, RGROUP_NEXT, 1000, &place, &d, R_NOWAIT));
    CHECK_OK(NULL, rgroup_set_timeout(f.sc, 20));
    CHECK_RC(-ETIMEDOUT, NULL, rgroup_alloc(f.sc, RGROUP_NEXT, 1000, &place, &d, 0));
    assert_true(place == 9 && d == ANY_RADDR);
    assert_int_equal(rgroup_lost(f.sc), 0);
    CHECK_OK(NULL, rgroup_set_timeout(f.sc, FAN_LIMIT_MS));
    receive(&f, 0, 1, 1000);
    assert_int_equal(deal(&f, RGROUP_NEXT, 2, 1000), 0);
    assert_int_equal(deal(&f, RGROUP_NEXT, 3, 1000), 1);
    receive(&f, 0, 2, 1000);
    receive(&f, 1, 3, 1000);
    fan_end(f.sc, f.reader, 2);
}

/* while all have credits, in turn; a member without, in its ring or in its heap, gets none until it has */
static void test_any_with_capacity(void **state)
{
    struct fan f;
    uint64_t count[N] = {0};
    raddr_t d = ANY_RADDR;
    int place = 9;

    for (int small = 0; small < 2; small++) {
        size_t size = small ? 8 : 500;

        fan_open(&f, op_of(state), 2000, 4, N);
        for (uint64_t i = 0; i < 2 * N; i++)
            assert_int_equal(deal(&f, RGROUP_ANY, i, size), (int)(i % N));
        /* readers 1 and 3 read, the others do not: they fill up, and the rest goes to 1 and 3 */
        for (uint64_t i = 0; i < 2; i++) {
            receive(&f, 1, i * N + 1, size);
            receive(&f, 3, i * N + 3, size);
        }
        memset(count, 0, sizeof(count));
        for (uint64_t i = 0; i < 100; i++) {
            place = deal(&f, RGROUP_ANY, 1000 + i, size);
            if (place % 2 == 1)
                receive(&f, place, 1000 + i, size);
            count[place]++;
        }
        assert_true(count[0] <= 2 && count[2] <= 2);
        assert_true(count[1] >= 48 && count[3] >= 48);
        while (rgroup_alloc(f.sc, RGROUP_ANY, size, &place, &d, R_NOWAIT) == 0)
            CHECK_OK(NULL, rwrite(rgroup_pipe(f.sc, place), d));
        /* no member has any */
        place = 9;
        d = ANY_RADDR;
        CHECK_OK(NULL, rgroup_set_timeout(f.sc, 20));
        CHECK_RC(-ETIMEDOUT, NULL, rgroup_alloc(f.sc, RGROUP_ANY, size, &place, &d, 0));
        assert_true(place == 9 && d == ANY_RADDR);
        assert_int_equal(rgroup_lost(f.sc), -1);
        CHECK_OK(f.reader[2], rread(f.reader[2], &d, NULL));
        CHECK_OK(f.reader[2], rfree(f.reader[2], d));
        CHECK_OK(NULL, rgroup_alloc(f.sc, RGROUP_ANY, size, &place, &d, 0));
        assert_int_equal(place, 2);
        CHECK_OK(rgroup_pipe(f.sc, place), rfree(rgroup_pipe(f.sc, place), d));
        fan_end(f.sc, f.reader, N);
    }
}

/* R_PENDING of a group that no reader has joined is not "no memory": the message has the reason, also at the deadline */
static void test_not_joined(void **state)
{
    rpipe_config_t cfg = {.role = RPIPE_WRITER, .op = op_of(state), .heap_bytes = 2000, .slots = 4};
    rch_t reader;
    rgroup_t sc;
    raddr_t d;
    int place;

    cfg.context = 77000;
    CHECK_OK(NULL, rgroup_open(&sc, &cfg, (int[]){0}, 1));
    CHECK_RC(R_PENDING, NULL, rgroup_alloc(sc, RGROUP_ANY, 500, &place, &d, R_NOWAIT));
    CHECK_ERROR(NULL, "rgroup_alloc: none of 1 members is joined yet");
    CHECK_OK(NULL, rgroup_set_timeout(sc, 20));
    CHECK_RC(-ETIMEDOUT, NULL, rgroup_alloc(sc, RGROUP_ANY, 500, &place, &d, 0));
    CHECK_ERROR(NULL, "1 of them are not joined");
    if (op_of(state) == RPIPE_PUT) { /* the memory is the reader's */
        CHECK_RC(R_PENDING, NULL, rgroup_alloc(sc, RGROUP_NEXT, 500, &place, &d, R_NOWAIT));
        CHECK_ERROR(NULL, "member 0, rank 0, is not joined yet");
    }
    CHECK_RC(-ETIMEDOUT, NULL, rgroup_wait(sc));
    CHECK_ERROR(NULL, "rgroup_wait: member 0, rank 0, is not joined within 20 ms");
    cfg.role = RPIPE_READER;
    CHECK_OK(NULL, rpipe(&reader, &cfg));
    CHECK_OK(NULL, rgroup_set_timeout(sc, (int)CHECK_LATE_MS));
    CHECK_OK(NULL, rgroup_wait(sc));
    while (rgroup_alloc(sc, RGROUP_ANY, 500, &place, &d, R_NOWAIT) == 0)
        CHECK_OK(NULL, rwrite(rgroup_pipe(sc, place), d));
    assert_int_equal(rset_timeout(reader, -5), -EINVAL);
    CHECK_RC(R_PENDING, NULL, rgroup_alloc(sc, RGROUP_ANY, 500, &place, &d, R_NOWAIT));
    CHECK_ERROR(NULL, "rset_timeout"); /* full: no failure, no message */
    CHECK_OK(reader, rclose(reader));
    CHECK_OK(NULL, rgroup_close(sc));
}

/* what the caller holds itself is no reason to wait */
static void test_unsent(void **state)
{
    struct fan f;
    raddr_t d[8];
    int place[8];

    fan_open(&f, op_of(state), 4096, 4, 2);
    for (int i = 0; i < 8; i++)
        CHECK_OK(NULL, rgroup_alloc(f.sc, RGROUP_ANY, 8, &place[i], &d[i], 0));
    CHECK_RC(-ENOBUFS, NULL, rgroup_alloc(f.sc, RGROUP_ANY, 8, &(int){0}, &(raddr_t){NULL}, 0));
    for (int i = 0; i < 8; i++)
        CHECK_OK(NULL, rwrite(rgroup_pipe(f.sc, place[i]), d[i])); /* a plain pipe's message */
    CHECK_RC(R_PENDING, NULL,
             rgroup_alloc(f.sc, RGROUP_ANY, 8, &(int){0}, &(raddr_t){NULL}, R_NOWAIT));
    fan_end(f.sc, f.reader, 2);
}

/* a reader that closes is reported once, and the rest goes on */
static void test_reader_closes(void **state)
{
    struct fan f;
    raddr_t d = ANY_RADDR;
    int place = 9;

    fan_open(&f, op_of(state), 8192, 16, 3);
    CHECK_OK(f.reader[1], rclose(f.reader[1]));
    assert_int_equal(deal(&f, RGROUP_NEXT, 0, 100), 0);
    /* memory that is there is given also when the reader has closed: then the write reports it */
    place = deal(&f, 0, 1, 100);
    assert_int_equal(place, 0);
    fan_await_close(rgroup_pipe(f.sc, 1));
    CHECK_OK(NULL, rgroup_alloc(f.sc, 1, 8, &place, &d, 0));
    CHECK_RC(-EPIPE, NULL, rwrite(rgroup_pipe(f.sc, 1), d));
    assert_int_equal(rgroup_lost(f.sc), 1);
    CHECK_OK(NULL, rfree(rgroup_pipe(f.sc, 1), d)); /* it has stayed ours */
    for (int i = 0; i < 3; i++) {
        /* by its place, each time */
        CHECK_RC(-EPIPE, NULL, rgroup_alloc(f.sc, 1, i == 0 ? 0 : 100, &place, &d, 0));
        CHECK_RC(-EPIPE, NULL, rgroup_alloc(f.sc, 1, 8, &place, &d, R_NOWAIT));
        assert_int_equal(rgroup_lost(f.sc), 1);
    }
    assert_int_equal(rgroup_count(f.sc), 2);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(deal(&f, RGROUP_NEXT, 100 + i, 8), i % 2 == 0 ? 2 : 0);
        assert_int_equal(deal(&f, RGROUP_ANY, 200 + i, 8) % 2, 0);
        receive(&f, 2, i % 2 == 0 ? 100 + i : 200 + i, 8);
    }
    CHECK_OK(f.reader[0], rclose(f.reader[0]));
    CHECK_OK(f.reader[2], rclose(f.reader[2]));
    fan_await_close(rgroup_pipe(f.sc, 0));
    fan_await_close(rgroup_pipe(f.sc, 2));
    /* in ANY the closed are found before memory is */
    CHECK_RC(-EPIPE, NULL, rgroup_alloc(f.sc, RGROUP_ANY, 8, &place, &d, 0));
    CHECK_RC(-EPIPE, NULL, rgroup_alloc(f.sc, RGROUP_ANY, 8, &place, &d, 0));
    assert_int_equal(rgroup_count(f.sc), 0);
    CHECK_RC(-EPIPE, NULL, rgroup_alloc(f.sc, RGROUP_ANY, 8, &place, &d, 0));
    assert_int_equal(rgroup_lost(f.sc), -1);
    CHECK_RC(-EPIPE, NULL, rgroup_alloc(f.sc, RGROUP_NEXT, 8, &place, &d, R_NOWAIT));
    CHECK_OK(NULL, rgroup_close(f.sc));
}

/* a part that the user closes has no part any more; it is no failure */
static void test_part_closed(void **state)
{
    struct fan f;
    rch_t part;

    fan_open(&f, op_of(state), 8192, 16, 3);
    part = rgroup_pipe(f.sc, 0);
    CHECK_OK(part, rclose(part));
    assert_true(rgroup_pipe(f.sc, 0) == NULL);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(deal(&f, RGROUP_NEXT, i, 8), 1 + (int)(i % 2));
        assert_int_equal(deal(&f, RGROUP_ANY, i, 8), 1 + (int)(i % 2));
        receive(&f, 1 + (int)(i % 2), i, 8);
        receive(&f, 1 + (int)(i % 2), i, 8);
    }
    assert_int_equal(rgroup_count(f.sc), 2);
    CHECK_RC(-ENOTCONN, NULL, rgroup_alloc(f.sc, 0, 8, NULL, &(raddr_t){NULL}, 0));
    CHECK_RC(R_EOF, f.reader[0], rread(f.reader[0], &(raddr_t){NULL}, NULL));
    fan_end(f.sc, f.reader, 3);
}

static void test_refused(void **state)
{
    struct fan f;
    rgroup_t sc = (rgroup_t)(uintptr_t)0x51;
    rpipe_config_t cfg = fan_config(op_of(state), 4096, 1);
    raddr_t d;
    int place;

    CHECK_RC(-EINVAL, NULL, scatter_open(NULL, &cfg, fan_self, 1));
    CHECK_RC(-EINVAL, NULL, scatter_open(&sc, NULL, fan_self, 1));
    CHECK_RC(-EINVAL, NULL, scatter_open(&sc, &cfg, fan_self, 0));
    CHECK_RC(-EINVAL, NULL, scatter_open(&sc, &cfg, fan_self, -1));
    CHECK_RC(-EINVAL, NULL,
             scatter_open(&sc, &cfg, NULL, 2)); /* ranks 0 and 1: there is one rank */
    CHECK_RC(-ENOENT, NULL, scatter_open(&sc, &cfg, &(int){1}, 1));
    CHECK_RC(-ENOENT, NULL, scatter_open(&sc, &cfg, &(int){-1}, 1));
    assert_true(sc == (rgroup_t)(uintptr_t)0x51);
    /* all or none */
    fan_open(&f, op_of(state), 4096, 8, 2);
    cfg = f.cfg;
    cfg.context++;
    CHECK_RC(-EEXIST, NULL, scatter_open(&sc, &cfg, fan_self, 1));
    CHECK_RC(-EINVAL, NULL, rgroup_alloc(f.sc, 2, 8, &place, &d, 0));
    CHECK_RC(-EINVAL, NULL, rgroup_alloc(f.sc, -3, 8, &place, &d, 0));
    CHECK_RC(-EINVAL, NULL, rgroup_alloc(f.sc, RGROUP_NEXT, 8, NULL, &d, 0));
    CHECK_RC(-EINVAL, NULL, rgroup_alloc(f.sc, 0, 8, &place, NULL, 0));
    CHECK_RC(-EMSGSIZE, NULL, rgroup_alloc(f.sc, RGROUP_ANY, 100000, &place, &d, 0));
    CHECK_RC(-EMSGSIZE, NULL, rgroup_alloc(f.sc, RGROUP_NEXT, 100000, &place, &d, 0));
    CHECK_RC(-EINVAL, NULL, rwrite(rgroup_pipe(f.sc, 2), ANY_RADDR));
    CHECK_RC(-EINVAL, NULL, rwrite(rgroup_pipe(f.sc, 0), ADDR_NULL));
    CHECK_RC(-EINVAL, NULL, rgroup_set_timeout(f.sc, -3));
    assert_int_equal(rgroup_count(f.sc), 2);
    assert_true(rgroup_pipe(f.sc, -1) == NULL && rgroup_pipe(f.sc, 2) == NULL &&
                rgroup_pipe(NULL, 0) == NULL);
    CHECK_OK(NULL, rgroup_close(f.sc));
    CHECK_RC(-ENOTCONN, NULL, rgroup_close(f.sc));
    CHECK_RC(-ENOTCONN, NULL, rgroup_alloc(f.sc, 0, 8, &place, &d, 0));
    CHECK_RC(-EINVAL, NULL, rgroup_close(NULL));
    fan_close(f.reader, 2);
}

/* rroom(3) by itself */
static void test_room(void **state)
{
    rpipe_config_t cfg = fan_config(op_of(state), 4096, 1), w = pair_writer(cfg);
    raddr_t d[5], one;
    struct pair p;

    cfg.slots = w.slots = 4;
    CHECK_OK(NULL, rpipe(&p.w, &w));
    CHECK_RC(R_PENDING, p.w, rroom(p.w, 8)); /* not joined */
    w = pair_reader(cfg);
    CHECK_OK(NULL, rpipe(&p.r, &w));
    CHECK_OK(p.w, rwait(p.w));
    CHECK_RC(-EBADF, p.r, rroom(p.r, 8));
    CHECK_RC(-EINVAL, NULL, rroom(NULL, 8));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(p.w, rroom(p.w, 8));
        d[i] = pair_alloc(&p, 8, (uint64_t)i);
    }
    CHECK_RC(-ENOBUFS, p.w, rroom(p.w, 8));
    for (int i = 0; i < 4; i++)
        CHECK_OK(p.w, rwrite_nb(p.w, d[i])); /* as it has promised */
    CHECK_RC(R_PENDING, p.w, rroom(p.w, 8));
    CHECK_RC(R_PENDING, p.w, rroom(p.w, 100));
    CHECK_OK(p.r, rread(p.r, &one, NULL));
    CHECK_OK(p.w, rroom(p.w, 8));
    CHECK_OK(p.r, rfree(p.r, one));
    CHECK_OK(p.r, rclose(p.r));
    fan_await_close(p.w);
    CHECK_RC(-EPIPE, p.w, rroom(p.w, 8));
    CHECK_OK(p.w, rclose(p.w));
    CHECK_RC(-ENOTCONN, p.w, rroom(p.w, 8));
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        PUT_AND_GET(test_by_place),      PUT_AND_GET(test_in_turn),
        PUT_AND_GET(test_turn_waits),    PUT_AND_GET(test_any_with_capacity),
        PUT_AND_GET(test_not_joined),    PUT_AND_GET(test_unsent),
        PUT_AND_GET(test_reader_closes), PUT_AND_GET(test_part_closed),
        PUT_AND_GET(test_refused),       PUT_AND_GET(test_room),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
