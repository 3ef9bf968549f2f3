/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The four ways of waiting (-spin, -yield, -sleep, -adaptive sets RPIPE_WAIT): readers that wait for messages and for
 * the end, writers that wait for slots and for memory, both for the join, also while the other one is late. In a ring
 * of all ranks, so that with more ranks than processors a rank always has to give way. (A spinning rank gives way to
 * no other: -spin with many ranks is as slow as the time slices of the scheduler.)
 */
#include "test/lib/mp_check.h"

enum { HEAP = 1024 };

static int next, previous;

static void open_ring(rch_t *w, rch_t *r, uint32_t ctx, rpipe_op_t op, uint32_t slots)
{
    CHECK_OK(NULL, mp_open(w, true, next, ctx, op, HEAP, slots));
    CHECK_OK(NULL, mp_open(r, false, previous, ctx, op, HEAP, slots));
    CHECK_OK(*w, rset_timeout(*w, -1)); /* a wake-up that is lost is a hang, and run-mpi ends it */
    CHECK_OK(*r, rset_timeout(*r, -1));
}

static void close_ring(rch_t w, rch_t r)
{
    raddr_t d;

    CHECK_OK(w, rclose(w));
    CHECK_RC(R_EOF, r, rread(r, &d, NULL));
    CHECK_OK(r, rclose(r));
}

/* a token goes round: all but one wait for a message at any moment */
static void token(uint32_t ctx, rpipe_op_t op, uint64_t rounds)
{
    rch_t w, r;

    open_ring(&w, &r, ctx, op, 2);
    for (uint64_t i = 0; i < rounds; i++) {
        size_t size = i % 2 == 0 ? 40 : 200;

        if (mp_rank == 0)
            mp_send(w, size, mp_key(mp_rank, next, ctx, i));
        mp_read_free(r, size, mp_key(previous, mp_rank, ctx, i));
        if (mp_rank != 0)
            mp_send(w, size, mp_key(mp_rank, next, ctx, i));
    }
    close_ring(w, r);
}

/* even ranks write into a channel that holds 2 messages, by slots or by memory, odd ranks read; then the reverse */
static void bounded(uint32_t ctx, rpipe_op_t op, bool memory, int late_writer)
{
    size_t size = memory ? HEAP / 2 : 20;
    rch_t w, r;

    if (mp_ranks % 2 != 0 && mp_ranks > 1)
        return;
    open_ring(&w, &r, ctx, op, memory ? 64 : 2);
    for (int turn = 0; turn < 2; turn++) {
        for (uint64_t i = 0; i < 300; i++) {
            uint64_t number = (uint64_t)turn * 1000 + i;

            if (i % 100 == 0 && (mp_rank + turn + late_writer) % 2 == 0)
                compute_ms(5); /* so that the other one really goes to sleep */
            if (mp_ranks == 1 || (mp_rank + turn) % 2 == 0)
                mp_send(w, size, mp_key(mp_rank, next, ctx, number));
            if (mp_ranks == 1 || (mp_rank + turn) % 2 != 0)
                mp_read_free(r, size, mp_key(previous, mp_rank, ctx, number));
        }
    }
    close_ring(w, r);
}

/* waits for the join, and for the end, of one that comes and goes late */
static void late_peer(uint32_t ctx, rpipe_op_t op, bool late_writer)
{
    rch_t w, r;
    raddr_t d;
    int ready;

    if (mp_ranks == 1)
        return;
    if (mp_rank == 0 &&
        late_writer) { /* 1 waits for the join, then for a message, then for the end */
        compute_ms(30);
        CHECK_OK(NULL, mp_open(&w, true, 1, ctx, op, HEAP, 2));
        compute_ms(30);
        mp_send(w, 500, mp_key(0, 1, ctx, 0));
        compute_ms(30);
        CHECK_OK(w, rclose(w));
    } else if (mp_rank == 1 && late_writer) {
        CHECK_OK(NULL, mp_open(&r, false, 0, ctx, op, HEAP, 2));
        CHECK_OK(r, rset_timeout(r, -1));
        CHECK_OK(r, rwait(r));
        mp_read_free(r, 500, mp_key(0, 1, ctx, 0));
        CHECK_RC(R_EOF, r, rread(r, &d, NULL));
        CHECK_OK(r, rclose(r));
    } else if (mp_rank == 0) { /* 1 waits for the join, for memory, and for -EPIPE */
        compute_ms(30);
        CHECK_OK(NULL, mp_open(&r, false, 1, ctx, op, HEAP, 2));
        compute_ms(30);
        mp_read_free(r, HEAP, mp_key(1, 0, ctx, 0));
        CHECK_OK(r, rpoll(&r, 1, &ready, -1)); /* the second one is there, and stays unread */
        compute_ms(30);
        CHECK_OK(r, rclose(r));
    } else if (mp_rank == 1) {
        CHECK_OK(NULL, mp_open(&w, true, 0, ctx, op, HEAP, 2));
        CHECK_OK(w, rset_timeout(w, -1));
        mp_send(w, HEAP, mp_key(1, 0, ctx, 0));
        mp_send(w, HEAP, mp_key(1, 0, ctx, 1));
        errno = 0;
        CHECK(w, rmalloc(w, HEAP) == ADDR_NULL && errno == EPIPE);
        CHECK_OK(w, rclose(w));
    }
}

/* rpoll waits in the same ways */
static void polled(uint32_t ctx, uint64_t rounds)
{
    rch_t w[2], r[2];
    int ready[2];

    open_ring(&w[0], &r[0], ctx, RPIPE_PUT, 4);
    open_ring(&w[1], &r[1], ctx + 1, RPIPE_GET, 4);
    for (uint64_t i = 0; i < rounds; i++) {
        int which = (int)(random_mix(mp_seed + i) % 2);

        if (mp_rank == 0)
            mp_send(w[which], 100, mp_key(mp_rank, next, ctx, i));
        do /* the pipes are examined one after the other: the end of one can be seen before the message of the other */
            CHECK_OK(NULL, rpoll(r, 2, ready, -1));
        while (i + 1 == rounds && ready[which] == 0);
        CHECK(NULL, ready[which] == 1);
        CHECK(NULL, ready[1 - which] == 0 || i + 1 == rounds); /* the end, at the end */
        mp_read_free(r[which], 100, mp_key(previous, mp_rank, ctx, i));
        if (mp_rank != 0)
            mp_send(w[which], 100, mp_key(mp_rank, next, ctx, i));
    }
    close_ring(w[0], r[0]);
    close_ring(w[1], r[1]);
}

/* a deadline ends every way of waiting */
static void deadline(uint32_t ctx)
{
    double begun;
    rch_t w, r;
    raddr_t d;

    open_ring(&w, &r, ctx, RPIPE_PUT, 2);
    CHECK_OK(r, rwait(r));
    CHECK_OK(r, rset_timeout(r, 60));
    begun = now_ms();
    CHECK_RC(-ETIMEDOUT, r, rread(r, &d, NULL));
    CHECK(r, now_ms() - begun >= 59 && now_ms() - begun < 20000);
    CHECK_OK(NULL, network_barrier()); /* before any rank closes */
    CHECK_OK(r, rset_timeout(r, -1));
    close_ring(w, r);
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"spin", "yield", "sleep", "adaptive"};
    const char *mode = "adaptive";
    uint64_t rounds;
    double begun;
    uint32_t ctx = 0;

    for (size_t i = 0; i < 4; i++) {
        char word[16];

        snprintf(word, sizeof(word), "-%s", modes[i]);
        if (mp_asked(argc, argv, word))
            mode = modes[i];
    }
    setenv("RPIPE_WAIT", mode, 1);
    mp_begin(argc, argv, 1);
    rounds = (uint64_t)mp_number(argc, argv, mp_ranks <= 3 ? 300 : 100);
    next = (mp_rank + 1) % mp_ranks;
    previous = (mp_rank + mp_ranks - 1) % mp_ranks;
    begun = now_ms();
    for (int op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        token(ctx++, (rpipe_op_t)op, rounds);
        bounded(ctx++, (rpipe_op_t)op, false, 0);
        bounded(ctx++, (rpipe_op_t)op, false, 1);
        bounded(ctx++, (rpipe_op_t)op, true, 0);
        bounded(ctx++, (rpipe_op_t)op, true, 1);
        late_peer(ctx++, (rpipe_op_t)op, true);
        late_peer(ctx++, (rpipe_op_t)op, false);
    }
    polled(ctx, rounds);
    deadline(ctx + 2);
    if (mp_rank == 0)
        printf("%s, %llu rounds: %.0f ms\n", mode, (unsigned long long)rounds, now_ms() - begun);
    return mp_end();
}
