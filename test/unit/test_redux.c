/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * redux_open(3): messages of many writers, in turn; no writer starves. All of it to oneself, so that the test has at each read what is
 * in which pipe. PUT and GET, in several modes, with RMALLOC_DEBUG=1 and without.
 */
#include "test/lib/group_pair.h"
#include "test/lib/group.h"
#include <rpipe.h>

enum { N = 5, SLOTS = 32 };

struct fan {
    rgroup_t rx;
    rch_t writer[FAN_MOST];
    uint64_t sent[FAN_MOST], got[FAN_MOST];
    int n;
};

static void fan_open(struct fan *f, rpipe_op_t op, int n)
{
    rpipe_config_t cfg = fan_config(op, 16384, n);

    *f = (struct fan){.n = n};
    cfg.slots = SLOTS;
    CHECK_OK(NULL, redux_open(&f->rx, &cfg, fan_self, n));
    fan_partners(f->writer, &cfg, n, true);
    CHECK_OK(NULL, rgroup_wait(f->rx));
    for (int i = 0; i < n; i++)
        CHECK_OK(f->writer[i], rwait(f->writer[i]));
    assert_int_equal(rgroup_count(f->rx), n);
    assert_int_equal(rgroup_lost(f->rx), -1);
}

static size_t size_of(int place, uint64_t i)
{
    return (i + (uint64_t)place) % 3 == 0 ? i % 41 : 50 + i * 61 % 300;
}

static void send(struct fan *f, int place)
{
    fan_send(f->writer[place], (uint64_t)place, f->sent[place], size_of(place, f->sent[place]));
    f->sent[place]++;
}

/* takes a message that has been read: the next one of its writer */
static void checked(struct fan *f, int place, raddr_t d, size_t size)
{
    assert_in_range(place, 0, f->n - 1);
    assert_true(f->got[place] < f->sent[place]);
    assert_int_equal(size, size_of(place, f->got[place]));
    assert_true(fan_check(rgroup_pipe(f->rx, place), d, size) ==
                ((uint64_t)place << 32 | f->got[place]));
    f->got[place]++;
}

static int receive(struct fan *f)
{
    int place = -7;
    raddr_t d = ANY_RADDR;
    size_t size = 77;

    CHECK_OK(NULL, rgroup_read(f->rx, &place, &d, &size, 0));
    checked(f, place, d, size);
    return place;
}

static void nothing(struct fan *f)
{
    int place = 9;
    raddr_t d = ANY_RADDR;
    size_t size = 77;

    CHECK_RC(R_PENDING, NULL, rgroup_read(f->rx, &place, &d, &size, R_NOWAIT));
    assert_true(place == 9 && d == ANY_RADDR && size == 77);
}

/* all have something: one message each, in the same turn, round after round */
static void test_in_turn(void **state)
{
    struct fan f;
    int order[N];

    fan_open(&f, op_of(state), N);
    nothing(&f);
    for (int round = 0; round < 40; round++) {
        if (round % 8 == 0)
            for (int i = 0; i < N; i++)
                for (int k = 0; k < 8; k++)
                    send(&f, i);
        for (int i = 0; i < N; i++) {
            int place = receive(&f);

            if (round == 0)
                order[i] = place;
            for (int k = 0; k < i; k++)
                assert_int_not_equal(order[k], place);
            assert_int_equal(place, order[i]);
        }
    }
    nothing(&f);
    fan_end(f.rx, f.writer, N);
}

/* no message in its pipe waits for more than 2n + 16 of others, whatever the others do */
static void test_no_writer_starves(void **state)
{
    for (int n = 1; n <= FAN_MOST; n += 5) {
        uint64_t s = 1000u * (unsigned)n + (unsigned)op_of(state), waited[FAN_MOST] = {0}, most = 0;
        struct fan f;

        fan_open(&f, op_of(state), n);
        for (int step = 0; step < 1500; step++) {
            /* a few send much, the others a little now and then; which of them are busy changes */
            int busy = 1 + (int)(random_mix(s + (unsigned)step / 100) % (unsigned)n), place,
                left = 0;

            for (int i = 0; i < n; i++) {
                bool much = (i + step / 200) % n < busy;

                if (f.sent[i] - f.got[i] < 6 && (much || random_mix(s++) % 50 == 0))
                    send(&f, i);
                left += f.sent[i] > f.got[i];
            }
            if (left == 0)
                continue;
            place = receive(&f);
            waited[place] = 0;
            for (int i = 0; i < n; i++) {
                waited[i] = i != place && f.sent[i] > f.got[i] ? waited[i] + 1 : 0;
                most = waited[i] > most ? waited[i] : most;
                if (waited[i] > 2 * (uint64_t)n + 16)
                    fail_msg("%d writers: writer %d has waited for %d messages of others", n, i,
                             (int)waited[i]);
            }
        }
        assert_true(n == 1 || most > 0);
        fan_end(f.rx, f.writer, n);
    }
}

/* a member that has been idle for long comes soon */
static void test_idle_one(void **state)
{
    struct fan f;
    int k;

    fan_open(&f, op_of(state), 3);
    for (int round = 0; round < 30; round++) {
        for (k = 0; k < 20; k++) {
            send(&f, 0);
            (void)receive(&f);
        }
        for (k = 0; k < 30; k++)
            send(&f, 0);
        send(&f, 2);
        for (k = 0; receive(&f) != 2; k++)
            assert_true(k < 2 * 3 + 16);
        while (f.got[0] < f.sent[0])
            (void)receive(&f);
    }
    fan_end(f.rx, f.writer, 3);
}

static void test_deadline(void **state)
{
    struct fan f;
    int place = 9;
    raddr_t d = ANY_RADDR;

    fan_open(&f, op_of(state), 2);
    for (int ms = 0; ms < 30; ms += 15) {
        double begun = now_ms();

        CHECK_OK(NULL, rgroup_set_timeout(f.rx, ms == 0 ? R_AT_ONCE : ms));
        CHECK_RC(-ETIMEDOUT, NULL, rgroup_read(f.rx, &place, &d, NULL, 0));
        assert_true(now_ms() - begun > ms - 1.0);
        assert_true(place == 9 && d == ANY_RADDR);
        assert_int_equal(rgroup_lost(f.rx), -1);
    }
    send(&f, 1);
    assert_int_equal(receive(&f), 1); /* what is there is there at any deadline */
    fan_end(f.rx, f.writer, 2);
}

/* writers end one after the other, each after its last message; when all have, R_EOF */
static void test_ends(void **state)
{
    struct fan f;
    int place = 9;
    raddr_t d = ANY_RADDR;

    fan_open(&f, op_of(state), N);
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 3 + i; k++)
            send(&f, i);
        if (i != 2)
            CHECK_OK(f.writer[i], rclose(f.writer[i]));
    }
    for (int k = 0; k < 3 + 4 + 5 + 6 + 7; k++)
        (void)receive(&f);
    nothing(&f); /* one is left, and nothing is reported about the others */
    assert_int_equal(rgroup_count(f.rx), 1);
    send(&f, 2);
    assert_int_equal(receive(&f), 2);
    CHECK_OK(f.writer[2], rclose(f.writer[2]));
    CHECK_RC(R_EOF, NULL, rgroup_read(f.rx, &place, &d, NULL, 0));
    CHECK_RC(R_EOF, NULL, rgroup_read(f.rx, &place, &d, NULL, R_NOWAIT));
    assert_int_equal(rgroup_lost(f.rx), -1);
    assert_int_equal(rgroup_count(f.rx), 0);
    assert_true(place == 9 && d == ANY_RADDR);
    CHECK_OK(NULL, rgroup_close(f.rx));
}

/* what the reader still holds can be given back after its writer's end */
static void test_held(void **state)
{
    struct fan f;
    raddr_t d[8];
    int place[8];

    fan_open(&f, op_of(state), 2);
    for (int i = 0; i < 8; i++)
        send(&f, i % 2);
    for (int i = 0; i < 8; i++)
        CHECK_OK(NULL, rgroup_read(f.rx, &place[i], &d[i], NULL, 0));
    fan_close(f.writer, 2);
    CHECK_RC(R_EOF, NULL, rgroup_read(f.rx, &place[0], &(raddr_t){NULL}, NULL, 0));
    for (int i = 0; i < 8; i++)
        checked(&f, place[i], d[i], rsize(rgroup_pipe(f.rx, place[i]), d[i]));
    CHECK_OK(NULL, rgroup_close(f.rx));
}

/* a part that the user closes has no part any more */
static void test_part_closed(void **state)
{
    struct fan f;
    struct pair other;
    rch_t part;

    fan_open(&f, op_of(state), 3);
    for (int i = 0; i < 3; i++)
        send(&f, i);
    for (int i = 0; i < 3; i++)
        (void)receive(&f);
    part = rgroup_pipe(f.rx, 1);
    CHECK_OK(part, rclose(part));
    assert_true(rgroup_pipe(f.rx, 1) == NULL);
    /* ends are used again: others' messages are not ours */
    CHECK_OK(f.writer[1], rclose(f.writer[1]));
    for (int i = 0; i < 40; i++) {
        pair_open(&other, op_of(state), 1024);
        pair_send(&other, 8, 1);
        nothing(&f);
        send(&f, 2);
        assert_int_equal(receive(&f), 2);
        pair_read_free(&other, 8, 1);
        pair_close(&other);
    }
    assert_int_equal(rgroup_count(f.rx), 2);
    CHECK_OK(f.writer[0], rclose(f.writer[0]));
    CHECK_OK(f.writer[2], rclose(f.writer[2]));
    CHECK_RC(R_EOF, NULL, rgroup_read(f.rx, &(int){0}, &(raddr_t){NULL}, NULL, 0));
    CHECK_OK(NULL, rgroup_close(f.rx));
}

/* its own limits are the caller's business, and no writer is lost for them */
static void test_max_descriptors(void **state)
{
    rpipe_config_t cfg = fan_config(op_of(state), 8192, 1);
    int place;
    rch_t w;
    raddr_t d[3];
    rgroup_t rx;

    cfg.max_messages = 2;
    CHECK_OK(NULL, redux_open(&rx, &cfg, fan_self, 1));
    cfg.max_messages = 0;
    fan_partners(&w, &cfg, 1, true);
    for (uint64_t i = 0; i < 3; i++)
        fan_send(w, 0, i, 8);
    CHECK_OK(NULL, rgroup_read(rx, &place, &d[0], NULL, 0));
    CHECK_OK(NULL, rgroup_read(rx, &place, &d[1], NULL, 0));
    CHECK_RC(-ENOBUFS, NULL, rgroup_read(rx, &place, &d[2], NULL, 0));
    CHECK_RC(-ENOBUFS, NULL, rgroup_read(rx, &place, &d[2], NULL, 0));
    assert_int_equal(rgroup_lost(rx), 0);
    assert_int_equal(rgroup_count(rx), 1);
    CHECK_OK(NULL, rfree(rgroup_pipe(rx, 0), d[0]));
    CHECK_OK(NULL, rgroup_read(rx, &place, &d[2], NULL, 0));
    assert_true(fan_check(rgroup_pipe(rx, 0), d[1], 8) == 1 &&
                fan_check(rgroup_pipe(rx, 0), d[2], 8) == 2);
    CHECK_OK(NULL, rgroup_close(rx));
    CHECK_OK(w, rclose(w));
}

/* the descriptors of the parts: all readable ones are drained, then R_PENDING */
static void test_descriptors(void **state)
{
    struct fan f;

    fan_open(&f, op_of(state), 3);
    for (int i = 0; i < 3; i++)
        assert_true(rfd(rgroup_pipe(f.rx, i)) >= 0);
    for (int round = 0; round < 20; round++) {
        send(&f, round % 3);
        send(&f, (round + 1) % 3);
        (void)receive(&f);
        (void)receive(&f);
        nothing(&f);
    }
    fan_end(f.rx, f.writer, 3);
}

static void test_refused(void **state)
{
    rgroup_t rx = (rgroup_t)(uintptr_t)0x51;
    rpipe_config_t cfg = fan_config(op_of(state), 4096, 1);
    struct fan f;
    raddr_t d;
    int place;

    CHECK_RC(-EINVAL, NULL, redux_open(NULL, &cfg, fan_self, 1));
    CHECK_RC(-EINVAL, NULL, redux_open(&rx, NULL, fan_self, 1));
    CHECK_RC(-EINVAL, NULL, redux_open(&rx, &cfg, fan_self, 0));
    CHECK_RC(-EINVAL, NULL, redux_open(&rx, &cfg, fan_self, 65537));
    CHECK_RC(-EINVAL, NULL, redux_open(&rx, &cfg, NULL, 2));
    cfg.mode = 7;
    CHECK_RC(-EINVAL, NULL, redux_open(&rx, &cfg, fan_self, 1));
    assert_true(rx == (rgroup_t)(uintptr_t)0x51);
    fan_open(&f, op_of(state), 2);
    CHECK_RC(-EINVAL, NULL, rgroup_read(f.rx, NULL, &d, NULL, 0));
    CHECK_RC(-EINVAL, NULL, rgroup_read(f.rx, &place, NULL, NULL, 0));
    CHECK_RC(-EINVAL, NULL, rgroup_read(NULL, &place, &d, NULL, R_NOWAIT));
    CHECK_RC(-EINVAL, NULL, rgroup_set_timeout(f.rx, -3));
    assert_true(rgroup_pipe(f.rx, -1) == NULL && rgroup_pipe(f.rx, 2) == NULL &&
                rgroup_pipe(NULL, 0) == NULL);
    CHECK_OK(NULL, rgroup_close(f.rx));
    CHECK_RC(-ENOTCONN, NULL, rgroup_close(f.rx));
    CHECK_RC(-ENOTCONN, NULL, rgroup_read(f.rx, &place, &d, NULL, 0));
    CHECK_RC(-EINVAL, NULL, rgroup_close(NULL));
    fan_close(f.writer, 2);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        PUT_AND_GET(test_in_turn),
        PUT_AND_GET(test_no_writer_starves),
        PUT_AND_GET(test_idle_one),
        PUT_AND_GET(test_deadline),
        PUT_AND_GET(test_ends),
        PUT_AND_GET(test_held),
        PUT_AND_GET(test_part_closed),
        PUT_AND_GET(test_refused),
        PUT_AND_GET(test_max_descriptors),
        PUT_AND_GET(test_descriptors),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
