/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads: each pair of neighbours has a channel per thread, opened, used and closed by that thread, all at the same
 * time; and one pair of ends that all threads share (thread_sync), where every message arrives once, whole, and those
 * of one thread in their order.
 */
#include "test/lib/mp_check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 4, MESSAGES = 600, HEAP = 4096 };

static int next, previous;

static size_t size_of(uint64_t key) { return random_mix(~key) % 700; }

/* one thread that writes to the next rank and reads from the previous one, several lives long */
static void *own_channels(void *argument)
{
    uint32_t ctx = (uint32_t)(uintptr_t)argument;

    for (uint64_t life = 0; life < 4; life++) {
        rpipe_op_t op = (ctx + life) % 2 == 0 ? RPIPE_PUT : RPIPE_GET;
        uint64_t sent = 0, got = 0;
        rch_t w, r;
        raddr_t d;

        CHECK_OK(NULL, mp_open(&w, true, next, ctx, op, HEAP, 8));
        CHECK_OK(NULL, mp_open(&r, false, previous, ctx, op, HEAP, 8));
        while (sent < MESSAGES || got < MESSAGES) {
            uint64_t key = mp_key(mp_rank, next, ctx, life << 32 | sent);
            size_t size;
            bool moved = false;

            if (sent < MESSAGES && rmalloc_nb(w, size_of(key), &d) == R_SUCCESS) {
                pattern_fill(rmem(w, d), size_of(key), key);
                if (rwrite_nb(w, d) == R_SUCCESS) {
                    sent++;
                    moved = true;
                } else {
                    CHECK_OK(w, rfree(w, d));
                }
            }
            if (got < MESSAGES) {
                int rc = sent < MESSAGES ? rread_nb(r, &d, &size) : rread(r, &d, &size);

                CHECK(r, rc == R_SUCCESS || (rc == R_PENDING && sent < MESSAGES));
                if (rc == R_SUCCESS) {
                    key = mp_key(previous, mp_rank, ctx, life << 32 | got++);
                    CHECK(r, size == size_of(key) && pattern_same(rmem(r, d), size, key));
                    CHECK_OK(r, rfree(r, d));
                    moved = true;
                }
            }
            if (!moved)
                sched_yield();
        }
        CHECK_OK(w, rclose(w));
        CHECK_RC(R_EOF, r, rread(r, &d, NULL));
        CHECK_OK(r, rclose(r));
    }
    return NULL;
}

/* ---- ends that are shared ---- */

static rch_t shared_w, shared_r;
static atomic_int writers_left;
static atomic_uchar seen[THREADS][MESSAGES];

static void *shared_writing(void *argument)
{
    uint64_t me = (uint64_t)(uintptr_t)argument;

    for (uint64_t i = 0; i < MESSAGES; i++) {
        uint64_t tag = me << 32 | i, key = mp_key(mp_rank, next, 999, tag);
        raddr_t d;

        /* the blocks of other threads that are not sent yet stand in the way: they will be */
        while ((d = rmalloc(shared_w, size_of(key))) == ADDR_NULL) {
            CHECK(shared_w, errno == ENOBUFS);
            sched_yield();
        }
        (void)rset_tag(shared_w, d, tag);
        pattern_fill(rmem(shared_w, d), size_of(key), key);
        CHECK_OK(shared_w, rwrite(shared_w, d));
    }
    if (atomic_fetch_sub(&writers_left, 1) == 1)
        CHECK_OK(shared_w, rclose(shared_w));
    return NULL;
}

static void *shared_reading(void *argument)
{
    int64_t last[THREADS] = {-1, -1, -1, -1};
    raddr_t d;
    size_t size;
    int rc;

    (void)argument;
    while ((rc = rread(shared_r, &d, &size)) == R_SUCCESS) {
        uint64_t tag, who, i, key;

        tag = rtag(shared_r, d);
        who = tag >> 32;
        i = tag & 0xffffffff;
        key = mp_key(previous, mp_rank, 999, tag);
        CHECK(shared_r, who < THREADS && i < MESSAGES);
        who %= THREADS; /* for analyzers that do not see the end of the call by CHECK */
        CHECK(shared_r, (int64_t)i > last[who]);
        last[who] = (int64_t)i;
        CHECK(shared_r, size == size_of(key) && pattern_same(rmem(shared_r, d), size, key));
        CHECK(shared_r, atomic_fetch_add(&seen[who][i], 1) == 0);
        CHECK_OK(shared_r, rfree(shared_r, d));
    }
    CHECK_RC(R_EOF, shared_r, rc);
    return NULL;
}

static void shared(rpipe_op_t op)
{
    rpipe_config_t cfg = {0};
    pthread_t w[THREADS], r[THREADS];

    cfg.op = op;
    cfg.heap_bytes = HEAP;
    cfg.context = 999;
    cfg.flags |= RPIPE_THREADS;
    cfg.peer = next;
    cfg.role = RPIPE_WRITER;
    CHECK_OK(NULL, rpipe(&shared_w, &cfg));
    cfg.peer = previous;
    cfg.role = RPIPE_READER;
    CHECK_OK(NULL, rpipe(&shared_r, &cfg));
    memset(seen, 0, sizeof(seen));
    atomic_store(&writers_left, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK(NULL, pthread_create(&w[i], NULL, shared_writing, (void *)i) == 0);
        CHECK(NULL, pthread_create(&r[i], NULL, shared_reading, NULL) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(w[i], NULL);
        pthread_join(r[i], NULL);
    }
    for (size_t k = 0; k < THREADS; k++)
        for (size_t i = 0; i < MESSAGES; i++)
            CHECK(shared_r, atomic_load(&seen[k][i]) == 1);
    CHECK_OK(shared_r, rclose(shared_r));
}

int main(int argc, char **argv)
{
    pthread_t t[THREADS];

    mp_begin(argc, argv, 1);
    next = (mp_rank + 1) % mp_ranks;
    previous = (mp_rank + mp_ranks - 1) % mp_ranks;
    for (size_t i = 0; i < THREADS; i++)
        CHECK(NULL, pthread_create(&t[i], NULL, own_channels, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    shared(RPIPE_PUT);
    shared(RPIPE_GET);
    return mp_end();
}
