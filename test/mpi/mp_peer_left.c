/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that has left the job in order while the others go on: what it had written is read, then R_EOF; what it had
 * not opened never joins, and the calls that need it report that, without a deadline; rpipe() does not. Rank 0 leaves: its
 * rexit() waits for the others until a deadline of 2 s, and then has left all the same.
 */
#include "test/lib/mp_check.h"

enum { HEAP = 4096 };

/* until the news has come here */
static void wait_until_left(void)
{
    double end = now_ms() + 20000;
    int rc;

    do {
        compute_ms(5);
        rc = network_send(0, NULL, 0);
    } while (rc == R_SUCCESS && now_ms() < end);
    CHECK_RC(-EPIPE, NULL, rc);
}

static void never_opened(uint32_t ctx, rpipe_op_t op)
{
    rch_t w, r;
    raddr_t d;
    int ready = 7;

    CHECK_OK(NULL, mp_open(&w, true, 0, ctx, op, HEAP, 4));
    CHECK_OK(NULL, mp_open(&r, false, 0, ctx, op, HEAP, 4));
    CHECK_OK(w, rset_timeout(w, -1));
    CHECK_OK(r, rset_timeout(r, -1));
    for (int again = 0; again < 2; again++) {
        CHECK_RC(-EPIPE, w, rwait(w));
        CHECK_RC(-EPIPE, r, rwait(r));
        CHECK_RC(-EPIPE, r, rread(r, &d, NULL));
        CHECK_RC(-EPIPE, r, rread_nb(r, &d, NULL));
        CHECK_OK(r, rpoll(&r, 1, &ready, -1));
        CHECK(r, ready == 1);
        d = rmalloc(w, 20);
        if (d != ADDR_NULL) {
            CHECK_RC(-EPIPE, w, rwrite(w, d));
            CHECK_OK(w, rfree(w, d));
        } else {
            CHECK(w, errno == EPIPE);
        }
        if (op == RPIPE_PUT)
            CHECK(w, rmalloc(w, HEAP) == ADDR_NULL && errno == EPIPE);
    }
    CHECK_OK(w, rclose(w));
    CHECK_OK(r, rclose(r));
}

int main(int argc, char **argv)
{
    rch_t w[2], r[2];
    raddr_t d, held;
    uint8_t word = 0;
    const char *own;

    own = getenv("PMIX_RANK") != NULL ? getenv("PMIX_RANK") : getenv("RPIPE_RANK");
    if (own != NULL && strcmp(own, "0") == 0) /* it waits for no peer longer */
        setenv("RPIPE_TIMEOUT_MS", "2000", 1);
    mp_begin(argc, argv, 2);
    if (mp_rank == 0) {
        for (int peer = 1; peer < mp_ranks; peer++) {
            for (uint32_t i = 0; i < 2; i++) {
                CHECK_OK(NULL,
                         mp_open(&w[i], true, peer, i, i == 0 ? RPIPE_PUT : RPIPE_GET, HEAP, 8));
                CHECK_OK(NULL,
                         mp_open(&r[i], false, peer, i, i == 0 ? RPIPE_PUT : RPIPE_GET, HEAP, 8));
                mp_send(w[i], 30, mp_key(0, peer, i, 0));
                mp_send(w[i], 3000, mp_key(0, peer, i, 1));
            }
            CHECK_OK(NULL, network_send(peer, &word, 1));
        }
        CHECK_RC(-ETIMEDOUT, NULL, rexit()); /* with all of them open */
        return 0;
    }
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_OK(NULL, mp_open(&w[i], true, 0, i, i == 0 ? RPIPE_PUT : RPIPE_GET, HEAP, 8));
        CHECK_OK(NULL, mp_open(&r[i], false, 0, i, i == 0 ? RPIPE_PUT : RPIPE_GET, HEAP, 8));
        CHECK_OK(w[i], rwait(w[i]));
    }
    wait_until_left();
    CHECK_OK(NULL, network_recv(0, &word, 1)); /* had arrived before it left */
    CHECK_RC(-EPIPE, NULL, network_recv(0, &word, 1));
    for (uint32_t i = 0; i < 2; i++) {
        mp_read_free(r[i], 30, mp_key(0, mp_rank, i, 0));
        if (i == 1 &&
            !mp_at_once(r[i])) { /* GET: the memory of a writer that did not wait is gone with it */
            int rc = rread(r[i], &d, NULL); /* unless it was fetched ahead */

            CHECK(r[i], rc == -ECONNRESET || (rc == 0 && pattern_same(rmem(r[i], d), 3000,
                                                                      mp_key(0, mp_rank, i, 1))));
            CHECK_OK(r[i], rclose(r[i]));
            CHECK_OK(w[i], rclose(w[i]));
            continue;
        }
        held = mp_receive(r[i], 3000, mp_key(0, mp_rank, i, 1));
        CHECK_RC(R_EOF, r[i], rread(r[i], &d, NULL));
        CHECK(r[i], pattern_same(rmem(r[i], held), 3000, mp_key(0, mp_rank, i, 1)));
        CHECK_OK(r[i], rwait(r[i]));
        CHECK(w[i], (d = rmalloc(w[i], 20)) != ADDR_NULL);
        CHECK_RC(-EPIPE, w[i], rwrite(w[i], d));
        CHECK_OK(w[i], rclose(w[i]));
        CHECK_OK(r[i], rclose(r[i]));
    }
    /* ids that were open there, and one that never was; again and again */
    for (uint32_t i = 0; i < 10; i++)
        never_opened(i % 3, i % 2 == 0 ? RPIPE_PUT : RPIPE_GET);
    /* the others go on with each other */
    if (mp_ranks > 2) {
        int next = mp_rank + 1 < mp_ranks ? mp_rank + 1 : 1,
            previous = mp_rank > 1 ? mp_rank - 1 : mp_ranks - 1;

        CHECK_OK(NULL, mp_open(&w[0], true, next, 5, RPIPE_PUT, HEAP, 8));
        CHECK_OK(NULL, mp_open(&r[0], false, previous, 5, RPIPE_PUT, HEAP, 8));
        mp_send(w[0], HEAP, mp_key(mp_rank, next, 5, 0));
        mp_read_free(r[0], HEAP, mp_key(previous, mp_rank, 5, 0));
        CHECK_OK(w[0], rclose(w[0]));
        CHECK_OK(r[0], rclose(r[0]));
    }
    CHECK_RC(-EPIPE, NULL, network_barrier());
    return mp_end();
}
