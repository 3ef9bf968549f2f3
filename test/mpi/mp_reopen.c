/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same ids opened and closed many times, by every pair of neighbours of a ring: in random orders, with or without
 * a wait for the join, with messages that are never read, ends that close at once, and ends that come when the other
 * has gone. The n-th opening of one end belongs to the n-th of the other: both draw from one seed what each will do
 * in each life.
 */
#include "test/lib/mp_check.h"
#include "test/lib/counts.h"
#include <rpipe.h>

enum { IDS = 4, LIVES = 60, HEAP = 2048, SLOTS = 4 };

/* what happens in one life of one channel; drawn alike at both ends */
struct liveness {
    rpipe_op_t op;
    uint64_t written; /* messages, if the reader takes them */
    uint64_t read;    /* the reader leaves after so many; more than written: it reads to the end */
    bool writer_at_once, reader_at_once; /* closes without having waited for anything */
    bool wait;
};

static struct liveness draw(int writer, uint32_t ctx, uint32_t number)
{
    uint64_t x = mp_key(writer, (writer + 1) % mp_ranks, ctx, 1000000 + number);
    struct liveness l = {.op = x % 2 == 0 ? RPIPE_PUT : RPIPE_GET, .written = (x >> 8) % 12};

    l.read = (x >> 16) % 3 == 0 ? (x >> 24) % (l.written + 1) : l.written + 1;
    l.writer_at_once = (x >> 32) % 4 == 0;
    l.reader_at_once = (x >> 40) % 4 == 0;
    l.wait = (x >> 48) % 2 == 0;
    return l;
}

static size_t size_of(uint64_t key) { return random_mix(~key) % (key % 3 == 0 ? HEAP + 1 : 41); }

static uint64_t key_of(int writer, uint32_t ctx, uint32_t number, uint64_t i)
{
    return mp_key(writer, (writer + 1) % mp_ranks, ctx, (uint64_t)number << 20 | i);
}

static void write_life(int to, uint32_t ctx, uint32_t number)
{
    struct liveness l = draw(mp_rank, ctx, number);
    struct pipe_counts st = {0};
    rch_t ch;
    uint64_t i;

    CHECK_OK(NULL, mp_open(&ch, true, to, ctx, l.op, HEAP, SLOTS));
    CHECK_OK(ch, pipe_counts(ch, &st));
    CHECK(ch, st.incarnation == number);
    for (i = 0; !l.writer_at_once && i < l.written; i++) {
        uint64_t key = key_of(mp_rank, ctx, number, i);
        raddr_t d = rmalloc(ch, size_of(key));

        if (d == ADDR_NULL) {
            CHECK(ch, errno == EPIPE);
            break;
        }
        pattern_fill(rmem(ch, d), size_of(key), key);
        int rc = rwrite(ch, d);

        if (rc == -EPIPE) {
            CHECK_OK(ch, rfree(ch, d));
            break;
        }
        CHECK_OK(ch, rc);
    }
    /* -EPIPE only where the reader leaves early, and then at the latest when the ring is full behind it */
    if (!l.writer_at_once && !l.reader_at_once && l.read > l.written)
        CHECK(ch, i == l.written);
    if (l.reader_at_once)
        CHECK(ch, i <= SLOTS);
    else if (mp_at_once(ch)) /* on a network the reader's end is some messages ahead of it */
        CHECK(ch, i <= l.read + SLOTS);
    CHECK_OK(ch, rclose(ch));
}

static void read_life(int from, uint32_t ctx, uint32_t number)
{
    struct liveness l = draw(from, ctx, number);
    struct pipe_counts st = {0};
    raddr_t d;
    rch_t ch;

    CHECK_OK(NULL, mp_open(&ch, false, from, ctx, l.op, HEAP, SLOTS));
    CHECK_OK(ch, pipe_counts(ch, &st));
    CHECK(ch, st.incarnation == number);
    if (!l.reader_at_once) {
        uint64_t there = l.writer_at_once ? 0 : l.written, i;

        if (l.wait)
            CHECK_OK(ch, rwait(ch));
        for (i = 0; i < l.read && i < there; i++) {
            uint64_t key = key_of(from, ctx, number, i);

            d = mp_receive(ch, size_of(key), key);
            if (key % 5 != 0 || size_of(key) > 40 ||
                on_device_heap()) /* of those in slots some are held to the end */
                CHECK_OK(ch, rfree(ch, d));
        }
        if (l.read > there) {
            CHECK_RC(R_EOF, ch, rread(ch, &d, NULL));
            CHECK_RC(R_EOF, ch, rread_nb(ch, &d, NULL));
        }
    }
    CHECK_OK(ch, rclose(ch));
}

/* lives of all ids mixed, at most one at a time open per end; those of one id in the order of their numbers */
static void lives(void)
{
    int next = (mp_rank + 1) % mp_ranks, previous = (mp_rank + mp_ranks - 1) % mp_ranks;
    uint32_t w[IDS] = {0};

    for (uint32_t i = 0; i < IDS * LIVES; i++) {
        uint32_t id;

        /* the same order of ids everywhere, or writer and reader would wait for each other in different lives */
        for (id = (uint32_t)(random_mix(mp_seed + i) % IDS); w[id] == LIVES; id = (id + 1) % IDS)
            ;
        w[id]++;
        if (mp_ranks == 1)
            return;
        if (mp_rank % 2 == 0) {
            write_life(next, id, w[id]);
            read_life(previous, id, w[id]);
        } else {
            read_life(previous, id, w[id]);
            write_life(next, id, w[id]);
        }
    }
}

/* both neighbours open the id once more: a message arrives, then the end */
static void good_life(uint32_t ctx, rpipe_op_t op)
{
    int next = (mp_rank + 1) % mp_ranks, previous = (mp_rank + mp_ranks - 1) % mp_ranks;
    raddr_t d;
    rch_t w, r;

    CHECK_OK(NULL, mp_open(&w, true, next, ctx, op, HEAP, SLOTS));
    CHECK_OK(NULL, mp_open(&r, false, previous, ctx, op, HEAP, SLOTS));
    mp_send(w, HEAP, mp_key(mp_rank, next, ctx, 0));
    mp_read_free(r, HEAP, mp_key(previous, mp_rank, ctx, 0));
    CHECK_OK(w, rclose(w));
    CHECK_RC(R_EOF, r, rread(r, &d, NULL));
    CHECK_OK(r, rclose(r));
}

/* one end far ahead: its lives are over before the other begins, and each one is found as it ended */
static void far_ahead(uint32_t ctx, bool writer_ahead)
{
    enum { AHEAD = 50 };
    int next = (mp_rank + 1) % mp_ranks, previous = (mp_rank + mp_ranks - 1) % mp_ranks;
    rpipe_op_t op = ctx % 2 == 0 ? RPIPE_PUT : RPIPE_GET;
    raddr_t d;
    rch_t ch;

    for (int i = 0; i < AHEAD; i++) {
        CHECK_OK(NULL, writer_ahead ? mp_open(&ch, true, next, ctx, op, HEAP, SLOTS)
                                    : mp_open(&ch, false, previous, ctx, op, HEAP, SLOTS));
        CHECK_OK(ch, rclose(ch));
    }
    CHECK_OK(NULL, network_barrier());
    for (int i = 0; i < AHEAD; i++) {
        if (writer_ahead) {
            CHECK_OK(NULL, mp_open(&ch, false, previous, ctx, op, HEAP, SLOTS));
            CHECK_RC(R_EOF, ch, rread(ch, &d, NULL));
        } else {
            CHECK_OK(NULL, mp_open(&ch, true, next, ctx, op, HEAP, SLOTS));
            CHECK_OK(ch, rwait(ch));
            int rc = R_SUCCESS;

            for (int k = 0; k <= SLOTS && rc == R_SUCCESS; k++) {
                d = rmalloc(ch, 40);
                rc = d == ADDR_NULL ? -errno : rwrite(ch, d);
            }
            CHECK_RC(-EPIPE, ch, rc);
        }
        CHECK_OK(ch, rclose(ch));
    }
    good_life(ctx, op);
}

/* both open and close as fast as they can, without waiting: whatever meets, nothing may be left over or mixed up */
static void unjoined(uint32_t ctx)
{
    int next = (mp_rank + 1) % mp_ranks, previous = (mp_rank + mp_ranks - 1) % mp_ranks;
    /* of the heaps of a device that a rank passes 64 may wait for the other end (doc/devices.md) */
    const uint32_t most = on_device_heap() ? 50 : 200;
    rch_t w, r;

    for (uint32_t i = 0; i < most; i++) {
        rpipe_op_t op = i % 2 == 0 ? RPIPE_PUT : RPIPE_GET;

        CHECK_OK(NULL, mp_open(&w, true, next, ctx, op, HEAP, SLOTS));
        CHECK_OK(NULL, mp_open(&r, false, previous, ctx, op, HEAP, SLOTS));
        if (random_mix(mp_seed ^ i ^ (uint64_t)mp_rank << 32) % 2 == 0) {
            CHECK_OK(w, rclose(w));
            CHECK_OK(r, rclose(r));
        } else {
            CHECK_OK(r, rclose(r));
            CHECK_OK(w, rclose(w));
        }
    }
    good_life(ctx, RPIPE_PUT);
}

/* ends that never get a counterpart, left open for rexit() */
static void half_open(uint32_t ctx)
{
    int next = (mp_rank + 1) % mp_ranks;
    rch_t ch;
    raddr_t d;

    for (uint32_t i = 0; i < 20; i++) {
        CHECK_OK(NULL, mp_open(&ch, i % 2 == 0, next, ctx + 1000 * (uint32_t)mp_rank + i,
                               i % 4 < 2 ? RPIPE_PUT : RPIPE_GET, HEAP, SLOTS));
        CHECK_OK(ch, rset_timeout(ch, 1));
        CHECK_RC(-ETIMEDOUT, ch, rwait(ch));
        if (i % 2 == 0) {
            d = rmalloc(ch, 10);
            if (d == ADDR_NULL) /* a slot has no place for it */
                CHECK(ch, on_device_heap() && errno == ETIMEDOUT);
            else
                CHECK_RC(-ETIMEDOUT, ch, rwrite(ch, d));
        } else {
            CHECK_RC(-ETIMEDOUT, ch, rread(ch, &d, NULL));
        }
        if (i % 5 == 0)
            CHECK_OK(ch, rclose(ch));
    }
    CHECK_OK(NULL, network_barrier()); /* of a peer in rexit the result is another one */
}

int main(int argc, char **argv)
{
    mp_begin(argc, argv, 1);
    lives();
    far_ahead(100, true);
    far_ahead(101, true);
    far_ahead(102, false);
    far_ahead(103, false);
    unjoined(200);
    half_open(10000);
    return mp_end();
}
