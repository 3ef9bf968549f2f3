/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One channel between two processes, in both directions, as PUT and as GET: streams of random sizes, ping-pong, frees
 * out of order, a late reader, a writer that closes first, a reader that closes first. Every byte of every message is
 * checked.
 */
#include "test/lib/mp_check.h"
#include "test/lib/counts.h"
#include <rpipe.h>

enum { HEAP = 64 * 1024 };
static uint64_t messages; /* of each stream: the argument, or 3000 */

/* sizes around every border that a message can meet, and others */
static size_t draw_size(uint64_t key, size_t heap)
{
    static const size_t borders[] = {0,  1,   8,   39,  40,   41,   63,  64,
                                     65, 127, 128, 129, 4095, 4096, 4097};
    const size_t n = sizeof(borders) / sizeof(*borders);
    uint64_t x = random_mix(~key);

    switch (x % 8) {
    case 0:
    case 1:
    case 2:
        return borders[(x >> 8) % n] % (heap + 1);
    case 3:
        return (x >> 8) % 100 == 0 ? heap - (x >> 16) % 2 : (x >> 8) % 41;
    case 4:
        return (x >> 8) % (heap / 2 + 1);
    default:
        return (x >> 8) % 1000 % (heap + 1);
    }
}

static rch_t open_end(bool writer, uint32_t ctx, rpipe_op_t op, uint64_t heap, uint32_t slots)
{
    rch_t ch = NULL;

    CHECK_OK(NULL, mp_open(&ch, writer, 1 - mp_rank, ctx, op, heap, slots));
    return ch;
}

static uint64_t key_of(int writer, uint32_t ctx, uint64_t i)
{
    return mp_key(writer, 1 - writer, ctx, i);
}

static void stream(int writer, uint32_t ctx, rpipe_op_t op, uint64_t heap, uint32_t slots)
{
    rch_t ch = open_end(mp_rank == writer, ctx, op, heap, slots);
    uint64_t state = ctx;
    struct pipe_counts st = {0};
    raddr_t d;

    if (mp_rank == writer) {
        for (uint64_t i = 0; i < messages; i++) {
            uint64_t key = key_of(writer, ctx, i);
            size_t size = draw_size(key, heap);

            if (mp_draw(&state) % 4 == 0) { /* more memory than is needed in the end */
                CHECK(ch, (d = rmalloc(ch, size + (heap - size) / 4)) != ADDR_NULL);
                pattern_fill(rmem(ch, d), size, key);
                CHECK_OK(ch, rwrite_n(ch, d, size));
            } else {
                mp_send(ch, size, key);
            }
        }
        CHECK_OK(ch, rflush(ch));
    } else {
        for (uint64_t i = 0; i < messages; i++) {
            uint64_t key = key_of(writer, ctx, i);

            mp_read_free(ch, draw_size(key, heap), key);
        }
        CHECK_RC(R_EOF, ch, rread(ch, &d, NULL));
    }
    CHECK_OK(ch, pipe_counts(ch, &st));
    CHECK(ch, st.messages == messages && st.held == 0);
    CHECK_OK(ch, rclose(ch));
}

static void ping_pong(uint32_t ctx, rpipe_op_t op)
{
    rch_t w = open_end(true, ctx, op, HEAP, 4), r = open_end(false, ctx, op, HEAP, 4);

    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t there = key_of(0, ctx, i), back = key_of(1, ctx, i);

        if (mp_rank == 0) {
            mp_send(w, draw_size(there, HEAP), there);
            mp_read_free(r, draw_size(back, HEAP), back);
        } else {
            mp_read_free(r, draw_size(there, HEAP), there);
            mp_send(w, draw_size(back, HEAP), back);
        }
    }
    CHECK_OK(w, rclose(w));
    CHECK_OK(r, rclose(r));
}

/*
 * The reader holds up to 16 messages, checks them again before each is freed, and frees in random order. When the
 * writer waits for memory, no message comes: then the reader frees, too, or both would wait for ever.
 */
static void frees_out_of_order(int writer, uint32_t ctx, rpipe_op_t op)
{
    enum { HELD = 16 };
    rch_t ch = open_end(mp_rank == writer, ctx, op, HEAP, 8);
    raddr_t held[HELD], d;
    uint64_t key[HELD], state = ctx, next = 0;
    size_t n = 0, size;

    if (mp_rank == writer) {
        for (uint64_t i = 0; i < messages; i++)
            mp_send(ch, draw_size(key_of(writer, ctx, i), HEAP), key_of(writer, ctx, i));
        CHECK_OK(ch, rclose(ch));
        return;
    }
    while (next < messages || n > 0) {
        int rc = R_PENDING;

        if (next < messages && n < HELD) {
            rc = n == 0 ? rread(ch, &d, &size) : rread_nb(ch, &d, &size);
            CHECK(ch, rc == R_SUCCESS || rc == R_PENDING);
        }
        if (rc == R_SUCCESS) {
            key[n] = key_of(writer, ctx, next++);
            CHECK(ch, size == draw_size(key[n], HEAP));
            held[n++] = d;
        } else if (n > 0) {
            size_t k = mp_draw(&state) % n;

            CHECK(ch, pattern_same(rmem(ch, held[k]), draw_size(key[k], HEAP), key[k]));
            CHECK_OK(ch, rfree(ch, held[k]));
            held[k] = held[--n];
            key[k] = key[n];
        }
    }
    CHECK_RC(R_EOF, ch, rread(ch, &d, NULL));
    CHECK_OK(ch, rclose(ch));
}

/* the reader opens its end only when the writer has reported that it waits; what was allocated before the join is good */
static void late_reader(int writer, uint32_t ctx, rpipe_op_t op)
{
    rch_t ch;
    raddr_t d, small;
    char word = 0;

    if (mp_rank == writer) {
        ch = open_end(true, ctx, op, HEAP, 2);
        CHECK(ch, (small = rmalloc(ch, 40)) != ADDR_NULL);
        pattern_fill(rmem(ch, small), 40, key_of(writer, ctx, 0));
        CHECK_RC(R_PENDING, ch, rwrite_nb(ch, small));
        CHECK_RC(op == RPIPE_PUT ? R_PENDING : R_SUCCESS, ch, rmalloc_nb(ch, 1000, &d));
        CHECK_OK(NULL, network_send(1 - mp_rank, &word, 1));
        CHECK_OK(ch, rwrite(ch, small)); /* waits for the join */
        if (op == RPIPE_PUT)
            CHECK(ch, (d = rmalloc(ch, 1000)) != ADDR_NULL);
        pattern_fill(rmem(ch, d), 1000, key_of(writer, ctx, 1));
        CHECK_OK(ch, rwrite(ch, d));
        mp_send(ch, HEAP, key_of(writer, ctx, 2)); /* waits for both slot and memory */
    } else {
        CHECK_OK(NULL, network_recv(1 - mp_rank, &word, 1));
        compute_ms((double)(mp_seed % 50));
        ch = open_end(false, ctx, op, HEAP, 2);
        mp_read_free(ch, 40, key_of(writer, ctx, 0));
        mp_read_free(ch, 1000, key_of(writer, ctx, 1));
        mp_read_free(ch, HEAP, key_of(writer, ctx, 2));
        CHECK_RC(R_EOF, ch, rread(ch, &d, NULL));
    }
    CHECK_OK(ch, rclose(ch));
}

/* the writer has filled ring and heap, and closed, before the reader reads; in a GET channel the memory was its own */
static void writer_closes_first(int writer, uint32_t ctx, rpipe_op_t op)
{
    rch_t ch = open_end(mp_rank == writer, ctx, op, 4096, 64);
    raddr_t d, held[2];
    char word = 0;

    if (mp_rank == writer) {
        mp_send(ch, 2048, key_of(writer, ctx, 0));
        for (uint64_t i = 1; i < 62; i++)
            mp_send(ch, i % 41, key_of(writer, ctx, i));
        mp_send(ch, 2000, key_of(writer, ctx, 62));
        CHECK_RC(R_PENDING, ch, rmalloc_nb(ch, 41, &d));
        CHECK_OK(ch, rclose(ch));
        /* the same id again, to use again whatever is free: the old messages must not suffer */
        ch = open_end(true, ctx, op, 4096, 64);
        if (op == RPIPE_GET) {
            CHECK_OK(ch, rmalloc_nb(ch, 4096, &d));
            memset(rmem(ch, d), 0xff, 4096);
        }
        CHECK_OK(NULL, network_send(1 - mp_rank, &word, 1));
        CHECK_OK(NULL, network_recv(1 - mp_rank, &word, 1));
    } else {
        CHECK_OK(NULL, network_recv(1 - mp_rank, &word, 1));
        held[0] = mp_receive(ch, 2048, key_of(writer, ctx, 0));
        for (uint64_t i = 1; i < 62; i++)
            mp_read_free(ch, i % 41, key_of(writer, ctx, i));
        held[1] = mp_receive(ch, 2000, key_of(writer, ctx, 62));
        CHECK_RC(R_EOF, ch, rread(ch, &d, NULL));
        CHECK_RC(R_EOF, ch, rread_nb(ch, &d, NULL));
        CHECK(ch, pattern_same(rmem(ch, held[0]), 2048, key_of(writer, ctx, 0)));
        CHECK(ch, pattern_same(rmem(ch, held[1]), 2000, key_of(writer, ctx, 62)));
        CHECK_OK(ch, rfree(ch, held[1]));
        CHECK_OK(ch, rclose(ch));
        ch = open_end(false, ctx, op, 4096, 64);
        CHECK_OK(NULL, network_send(1 - mp_rank, &word, 1));
        CHECK_RC(R_EOF, ch, rread(ch, &d, NULL));
    }
    CHECK_OK(ch, rclose(ch));
}

/* a writer that waits for memory, and one that waits for a slot, get -EPIPE, without a deadline */
static void reader_closes_first(int writer, uint32_t ctx, rpipe_op_t op, bool ring)
{
    rch_t ch = open_end(mp_rank == writer, ctx, op, 4096, 4);
    raddr_t d;
    char word = 0;

    if (mp_rank == writer) {
        CHECK_OK(ch, rset_timeout(ch, -1));
        if (ring) {
            for (uint64_t i = 0; i < 4; i++)
                mp_send(ch, 40, key_of(writer, ctx, i));
            CHECK(ch, (d = rmalloc(ch, 8)) != ADDR_NULL);
            CHECK_OK(NULL, network_send(1 - mp_rank, &word, 1));
            CHECK_RC(-EPIPE, ch, rwrite(ch, d));
            CHECK_RC(-EPIPE, ch, rwrite_nb(ch, d));
            CHECK_OK(ch, rfree(ch, d));
        } else {
            mp_send(ch, 4096, key_of(writer, ctx, 0));
            CHECK_OK(NULL, network_send(1 - mp_rank, &word, 1));
            errno = 0;
            CHECK(ch, rmalloc(ch, 4096) == ADDR_NULL);
            CHECK(ch, errno == EPIPE);
        }
        CHECK_OK(ch, rwait(ch));
    } else {
        if (!ring)
            mp_receive(ch, 4096, key_of(writer, ctx, 0)); /* and does not free it */
        CHECK_OK(NULL, network_recv(1 - mp_rank, &word, 1));
        CHECK_OK(ch, rwait(ch));
    }
    CHECK_OK(ch, rclose(ch));
}

/* both write all that goes in without reading, and only then read: slots and heap are each direction's own */
static void both_fill(uint32_t ctx, rpipe_op_t op)
{
    rch_t w = open_end(true, ctx, op, HEAP, 32), r = open_end(false, ctx, op, HEAP, 32);
    uint64_t sent = 0, got = 0, more;
    raddr_t d;
    size_t size;
    int rc;

    CHECK_OK(w, rwait(w));
    while ((rc = rmalloc_nb(w, draw_size(key_of(mp_rank, ctx, sent), HEAP), &d)) == R_SUCCESS) {
        size = draw_size(key_of(mp_rank, ctx, sent), HEAP);
        pattern_fill(rmem(w, d), size, key_of(mp_rank, ctx, sent));
        if (rwrite_nb(w, d) != R_SUCCESS) {
            CHECK_OK(w, rfree(w, d));
            break;
        }
        sent++;
    }
    CHECK(w, rc == R_SUCCESS || rc == R_PENDING);
    CHECK(w, sent > 0 || rc == R_PENDING);
    CHECK_OK(NULL, network_send(1 - mp_rank, &sent, sizeof(sent)));
    CHECK_OK(NULL, network_recv(1 - mp_rank, &more, sizeof(more)));
    while (got < more) { /* rwrite had returned there: so it is visible here, at once */
        CHECK_OK(r, mp_at_once(r) ? rread_nb(r, &d, &size) : rread(r, &d, &size));
        CHECK(r, size == draw_size(key_of(1 - mp_rank, ctx, got), HEAP));
        CHECK(r, pattern_same(rmem(r, d), size, key_of(1 - mp_rank, ctx, got)));
        CHECK_OK(r, rfree(r, d));
        got++;
    }
    CHECK_OK(w, rclose(w));
    CHECK_RC(R_EOF, r, rread(r, &d, NULL));
    CHECK_OK(r, rclose(r));
}

int main(int argc, char **argv)
{
    uint32_t ctx = 0;

    messages = (uint64_t)mp_number(argc, argv, 3000);
    mp_begin(argc, argv, 2);
    for (int op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        for (int writer = 0; writer < 2; writer++) {
            stream(writer, ctx++, (rpipe_op_t)op, HEAP, 0);
            stream(writer, ctx++, (rpipe_op_t)op, 1000, 2);
            frees_out_of_order(writer, ctx++, (rpipe_op_t)op);
            if (on_device_heap()) /* the others send without memory, in slots */
                continue;
            late_reader(writer, ctx++, (rpipe_op_t)op);
            writer_closes_first(writer, ctx++, (rpipe_op_t)op);
            reader_closes_first(writer, ctx++, (rpipe_op_t)op, false);
            reader_closes_first(writer, ctx++, (rpipe_op_t)op, true);
        }
        ping_pong(ctx++, (rpipe_op_t)op);
        both_fill(ctx++, (rpipe_op_t)op);
    }
    return mp_end();
}
