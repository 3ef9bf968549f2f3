/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages from the program's own memory when an end closes, when a call fails, and when the writer spoils its note: see
 * rregion(3). Whatever becomes of a message, the word of the call and the region are released.
 */
#include "region_pair.h"

/* the reader goes: every word comes */
static void reader_goes(rpipe_op_t op)
{
    rregion_t region, own = NULL;
    int word = 0, part = 0, rc;
    struct pair p;

    pair_open(&p, op, HEAP);
    region = region_of(p.w, buffer[0], ROOM);
    CHECK_OK(p.w, rregion_open(&own, p.w, NULL, 4096));
    pattern_fill(buffer[0], 1000, 1);
    CHECK_OK(p.w, rwrite_from(p.w, region, 0, 1000, 0, &word, 0));
    CHECK_OK(p.w, rwrite_from(p.w, own, 0, 4096, 0, &part, 0));
    CHECK_OK(p.r, rclose(p.r));
    rc = rdone(p.w, &part, 0);
    assert_int_equal(rc, -EPIPE);
    assert_int_equal(part, -EPIPE);
    rc = rdone(p.w, &word, 0); /* PUT: it may have been placed */
    assert_true((rc == 0 && word == 1) || (rc == -EPIPE && word == -EPIPE));
    CHECK_RC(-EPIPE, p.w, rwrite_from(p.w, region, 0, 1000, 0, &word, 0));
    CHECK_OK(p.w, rclose(p.w));
    end_of(region); /* the line is closed */
    end_of(own);
    CHECK_ERRNO(EINVAL, (uintptr_t)rregion_mem(own));
}

/* what the reader has read before it closes, it has got: the word is 1 */
static void reader_has_read(rpipe_op_t op)
{
    enum { BYTES = 4096 };
    rregion_t region, own = NULL;
    int word[2] = {0}, part[2] = {0};
    struct pair p;

    pair_open(&p, op, HEAP);
    region = region_of(p.w, buffer[0], ROOM);
    CHECK_OK(p.w, rregion_open(&own, p.w, NULL, 2 * BYTES));
    pattern_fill(buffer[0], BYTES, 1);
    pattern_fill(rregion_mem(own), BYTES, 2);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(p.w, rwrite_from(p.w, region, 0, BYTES, 0, &word[i], 0));
        CHECK_OK(p.w, rwrite_from(p.w, own, (size_t)i * BYTES, BYTES, 0, &part[i], 0));
    }
    pair_read_free(&p, BYTES, 1);
    (void)pair_receive(&p, BYTES, 2);
    CHECK_OK(p.r, rclose(p.r));
    CHECK_OK(p.w, rdone(p.w, &word[0], 0));
    CHECK_OK(p.w, rdone(p.w, &part[0], 0));
    CHECK_RC(-EPIPE, p.w, rdone(p.w, &part[1], 0));
    CHECK_RC(-EPIPE, p.w, rdone(p.w, NULL, 0));
    CHECK_OK(p.w, rclose(p.w));
    end_of(region);
    end_of(own);
}

/* what was refused is not lost: nothing was sent */
static void refused_is_not_lost(rpipe_op_t op)
{
    double since = now_ms();
    rregion_t own = NULL;
    struct pair p;
    int word = 4711;

    pair_open(&p, op, HEAP);
    CHECK_OK(p.w, rregion_open(&own, p.w, NULL, 4096));
    pattern_fill(rregion_mem(own), 4096, 1);
    CHECK_OK(p.w, rwrite_from(p.w, own, 0, 4096, 0, NULL, 0));
    pair_read_free(&p, 4096, 1);
    CHECK_OK(p.w, rdone(p.w, NULL, 0));
    CHECK_OK(p.r, rclose(p.r));
    while (rflush(p.w) == 0 &&
           now_ms() - since < CHECK_LATE_MS) /* the close message is in flight */
        sched_yield();
    CHECK_RC(-EPIPE, p.w, rwrite_from(p.w, own, 0, 4096, 0, &word, 0));
    assert_int_equal(word, 4711);
    CHECK_OK(p.w, rdone(p.w, NULL, 0));
    CHECK_OK(NULL, rregion_close(own));
    CHECK_OK(p.w, rclose(p.w));
}

/* rflush proves what it is asked for, also where rdone has left a proof of less outstanding */
static void flush_after_a_look(rpipe_op_t op)
{
    rregion_t region;
    struct pair p;

    if (op == RPIPE_GET) /* what is read there has to be fetched first */
        return;
    pair_open(&p, op, HEAP);
    region = region_of(p.w, buffer[0], ROOM);
    pattern_fill(buffer[0], 2000, 6);
    for (uint64_t i = 0; i < 100; i++) {
        raddr_t d = ADDR_NULL;
        int word = 0, rc;

        CHECK_OK(p.w, rwrite_from(p.w, region, 0, 2000, 0, &word, 0));
        if (word == 0) {
            rc = rdone(p.w, &word, R_NOWAIT);
            assert_true(rc == 0 || rc == R_PENDING);
        }
        pair_send(&p, 8, i);
        CHECK_OK(p.w, rflush(p.w));
        for (size_t n = 0; n < 2; n++) {
            assert_int_equal(rread_nb(p.r, &d, NULL),
                             0); /* "not yet" is wrong, over a network too */
            assert_true(n == 0 ? pattern_same(rmem(p.r, d), 2000, 6)
                               : pattern_same(rmem(p.r, d), 8, i));
            CHECK_OK(p.r, rfree(p.r, d));
        }
        if (word == 0)
            await(p.w, &word);
    }
    end_of(region);
    pair_close(&p);
}

/* the writer goes: what it has sent from its own memory is read; a word that does not come any more shows that */
static void writer_goes(rpipe_op_t op)
{
    enum { BYTES = 4096 };
    rregion_t region, own = NULL;
    struct pair p;
    int word = 0;

    pair_open(&p, op, HEAP);
    region = region_of(p.w, buffer[0], ROOM);
    CHECK_OK(p.w, rregion_open(&own, p.w, NULL, BYTES));
    pattern_fill(rregion_mem(own), BYTES, 5);
    CHECK_OK(p.w, rwrite_from(p.w, own, 0, BYTES, 0, &word, 0));
    CHECK_OK(p.w, rclose(p.w));
    assert_int_equal(word, -ENOTCONN);
    end_of(region); /* it outlives the pipe that it was registered with */
    end_of(own);
    pair_read_free(&p, BYTES, 5);
    CHECK_OK(p.r, rclose(p.r));
}

/*
 * GET over a network: the block of a message has the remote key of the region. A writer that spoils it (here: memory that it has given
 * back) ends this channel, and nothing else.
 */
static void wrong_note(rpipe_op_t op)
{
    for (int invalid = 0; invalid < 3 && op == RPIPE_GET && is_transferred(); invalid++) {
        uint64_t few = 100;
        rregion_t region;
        int word = 0;
        struct pair p;
        uint8_t *block;
        raddr_t d;

        pair_open(&p, op, HEAP);
        region = region_of(p.w, buffer[0], ROOM);
        d = pair_alloc(&p, 500, 0);
        block = rmem(p.w, d);
        CHECK_OK(p.w, rfree(p.w, d));
        CHECK_OK(p.w, rwrite_from(p.w, region, 0, 500, 0, &word, 0));
        assert_memory_equal(block, "rreg", 4); /* there it is */
        if (invalid == 0)
            memset(block, 0xff, 64);
        else if (invalid == 1)
            memcpy(block + 16, &few, sizeof(few)); /* bytes of the region */
        else
            memset(block + 24, 0x11, 32); /* the key */
        CHECK_RC(-EPROTO, p.r, rread(p.r, &d, NULL));
        CHECK_RC(-EPROTO, p.w, rdone(p.w, &word, 0));
        assert_int_equal(word, -EPROTO);
        pair_close(&p);
        end_of(region);
    }
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(reader_goes),        BOTH(reader_has_read), BOTH(refused_is_not_lost),
        BOTH(flush_after_a_look), BOTH(writer_goes),     BOTH(wrong_note),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
