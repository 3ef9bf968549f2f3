/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program's own memory: rregion_open(3), rwrite_from(3), rread_into(3). PUT and GET, in the settings of pair_main; over the
 * simulated network too, which ends the process when memory changes, or is given back, before its time.
 *
 * Memory of a region is spoiled as soon as its word allows it: so a word that comes too early is a message that is not what was sent.
 */
#include "region_pair.h"

static size_t size_of(uint64_t i)
{
    static const size_t size[] = {0, 1, 8, 40, 41, 63, 64, 65, 100, 1000, 4096, 5001};

    return size[i % (sizeof(size) / sizeof(*size))];
}

/* every size, at every alignment, between messages of the other kind */
static void every_size(rpipe_op_t op)
{
    struct pair p;
    rregion_t region;

    pair_open(&p, op, HEAP);
    region = region_of(p.w, buffer[0], ROOM);
    for (uint64_t i = 0; i < 120; i++) {
        size_t size = size_of(i), offset = i * 7 % 100;
        int word = 4711;

        pattern_fill(buffer[0] + offset, size, i);
        CHECK_OK(p.w, rwrite_from(p.w, region, offset, size, 0, &word, 0));
        if (i % 2 == 0 &&
            (op == RPIPE_PUT || !pair_over_network())) { /* it does not need a reader that reads */
            await(p.w, &word);
            memset(buffer[0], 0x5a, ROOM);
        }
        if (i % 3 == 0)
            pair_send(&p, size, i + 1000);
        pair_read_free(&p, size, i);
        await(p.w, &word);
        memset(buffer[0], 0x5a, ROOM);
        if (i % 3 == 0)
            pair_read_free(&p, size, i + 1000);
    }
    end_of(region);
    pair_close(&p);
}

/* as many as the pipe takes, from many regions, more than any end keeps metadata of; words come in the order of messages */
static void many(rpipe_op_t op)
{
    enum { REGIONS = 100, BYTES = 200, TOTAL = 600, WINDOW = 24 };
    static uint8_t memory[REGIONS][BYTES];
    rregion_t region[REGIONS];
    int word[REGIONS];
    uint64_t sent = 0, got = 0;
    struct pair p;

    pair_open(&p, op, HEAP);
    for (size_t i = 0; i < REGIONS; i++) {
        region[i] = region_of(p.w, memory[i], BYTES);
        word[i] = 1;
    }
    while (got < TOTAL) {
        while (sent < TOTAL && sent - got < WINDOW) {
            size_t i = sent % REGIONS, size = 80 + sent % 120;

            if (word[i] == 0)
                await(p.w, &word[i]);
            pattern_fill(memory[i], size, sent);
            CHECK_OK(p.w, rwrite_from(p.w, region[i], 0, size, 0, &word[i], 0));
            sent++;
        }
        for (int n = 0; n < 7 && got < sent; n++, got++)
            pair_read_free(&p, 80 + got % 120, got);
    }
    CHECK_OK(p.w, rdone(p.w, NULL, 0));
    for (size_t i = 0; i < REGIONS; i++) {
        assert_int_equal(word[i], 1);
        end_of(region[i]);
    }
    pair_close(&p);
}

/* over a network nothing but what is small is copied; on shm the memory is free at once */
static void copies(rpipe_op_t op)
{
    struct pair p;
    rregion_t from, into;
    uint64_t direct;
    size_t got = 0;
    int word = 0;

    pair_open(&p, op, HEAP);
    from = region_of(p.w, buffer[0], ROOM);
    into = region_of(p.r, buffer[1], ROOM);
    pattern_fill(buffer[0], 5000, 1);
    CHECK_OK(p.w, rwrite_from(p.w, from, 0, 5000, 0, &word, 0));
    if (!is_transferred())
        assert_int_equal(word, 1);
    CHECK_OK(p.r, rread_into(p.r, into, 100, ROOM - 100, &got, NULL, 0));
    assert_int_equal(got, 5000);
    assert_true(pattern_same(buffer[1] + 100, 5000, 1));
    direct = transport(p.w).direct;
    assert_int_equal(direct, is_transferred() ? 1 : 0);
    direct = transport(p.r).direct;
    assert_int_equal(direct, is_transferred() && op == RPIPE_GET ? 1 : 0);
    await(p.w, &word);
    end_of(from);
    end_of(into);
    pair_close(&p);
}

/* what is in flight is not given back; without a word rdone(NULL) reports it */
static void busy(rpipe_op_t op)
{
    struct pair p;
    rregion_t region;
    int word = 0, other = 0;

    pair_open(&p, op, HEAP);
    region = region_of(p.w, buffer[0], ROOM);
    CHECK_RC(-EINVAL, p.w, rdone(p.w, &other, R_NOWAIT)); /* nothing is outstanding */
    pattern_fill(buffer[0], 3000, 3);
    CHECK_OK(p.w, rwrite_from(p.w, region, 0, 1000, 0, &word, 0));
    CHECK_OK(p.w, rwrite_from(p.w, region, 1000, 2000, 0, NULL, 0));
    if (is_transferred() && op == RPIPE_GET) { /* the reader has not fetched it */
        assert_int_equal(word, 0);
        CHECK_RC(R_PENDING, p.w, rdone(p.w, &word, R_NOWAIT));
        CHECK_RC(R_PENDING, p.w, rdone(p.w, NULL, R_NOWAIT));
        CHECK_RC(-EBUSY, NULL, rregion_close(region));
        assert_non_null(strstr(rerror(NULL), "in flight"));
        CHECK_OK(p.w, rset_timeout(p.w, 1));
        CHECK_RC(-ETIMEDOUT, p.w, rdone(p.w, &word, 0));
        CHECK_RC(-ETIMEDOUT, p.w, rclose(p.w)); /* and the channel stays open */
        CHECK_OK(p.w, rset_timeout(p.w, (int)CHECK_LATE_MS));
    }
    for (int i = 0; i < 2; i++) {
        size_t size = i == 0 ? 1000 : 2000;
        raddr_t d = ADDR_NULL;
        size_t got = 0;

        CHECK_OK(p.r, rread(p.r, &d, &got));
        assert_int_equal(got, size);
        assert_memory_equal(rmem(p.r, d), buffer[0] + 1000 * i, size);
        CHECK_OK(p.r, rfree(p.r, d));
    }
    CHECK_OK(p.w, rdone(p.w, NULL, 0));
    assert_int_equal(word, 1);
    end_of(region);
    CHECK_RC(-EINVAL, NULL, rregion_close(region));
    pair_close(&p);
}

/* memory of the pipe: parts, each the reader's until rfree; on shm what the writer stores there the reader sees */
static void own_memory(rpipe_op_t op)
{
    enum { BYTES = 8 * 1024, PART = BYTES / 4 };
    rregion_t region = NULL;
    raddr_t d[4];
    int word[4];
    struct pair p;
    uint8_t *memory;

    pair_open(&p, op, HEAP);
    CHECK_OK(p.w, rregion_open(&region, p.w, NULL, BYTES));
    memory = rregion_mem(region);
    assert_non_null(memory);
    for (uint64_t lap = 0; lap < 30; lap++) {
        for (size_t i = 0; i < 4; i++) {
            pattern_fill(memory + i * PART, PART, lap * 4 + i);
            CHECK_OK(p.w, rwrite_from(p.w, region, i * PART, PART - i * 8, 0, &word[i], 0));
            assert_int_equal(word[i], 0);
        }
        CHECK_RC(-EBUSY, p.w, rwrite_from(p.w, region, PART - UNIT, 2 * UNIT, 0, &word[0], 0));
        CHECK_RC(-EBUSY, NULL, rregion_close(region));
        for (size_t i = 0; i < 4; i++)
            d[i] = pair_receive(&p, PART - i * 8, lap * 4 + i);
        CHECK_RC(R_PENDING, p.w, rdone(p.w, &word[0], R_NOWAIT));
        if (!pair_over_network() && !on_device_heap()) {
            memory[5] ^=
                0xff; /* not allowed: how else should one see that it is the same memory? */
            assert_int_equal(((uint8_t *)rmem(p.r, d[0]))[5], memory[5]);
        }
        for (size_t i = 0; i < 4; i++)
            CHECK_OK(p.r, rfree(p.r, d[lap % 2 == 0 ? i : 3 - i]));
        for (size_t i = 0; i < 4; i++)
            await(p.w, &word[i]);
        memset(memory, 0x5a, BYTES);
        if (on_device_heap()) /* nothing is in slots */
            continue;
        CHECK_OK(p.w, rwrite_from(p.w, region, 3, 20, 0, &word[0],
                                  0)); /* small ones are copied, from anywhere */
        assert_int_equal(word[0], 1);
        d[0] = ADDR_NULL;
        CHECK_OK(p.r, rread(p.r, &d[0], NULL));
        assert_int_equal(rsize(p.r, d[0]), 20);
        CHECK_OK(p.r, rfree(p.r, d[0]));
    }
    CHECK_RC(-EINVAL, p.w, rwrite_from(p.w, region, 3, 1000, 0, NULL, 0)); /* not at a unit */
    end_of(region);
    pair_send(&p, HEAP / 2, 9); /* its memory is the heap's again */
    pair_read_free(&p, HEAP / 2, 9);
    pair_close(&p);
}

/* into a region: every size; what is too large stays; other calls in between */
static void into(rpipe_op_t op)
{
    struct pair p;
    rregion_t region;
    size_t got;

    pair_open(&p, op, HEAP);
    region = region_of(p.r, buffer[1], ROOM);
    got = 4711;
    CHECK_RC(R_PENDING, p.r, rread_into(p.r, region, 0, ROOM, &got, NULL, R_NOWAIT));
    assert_int_equal(got, 4711);
    for (uint64_t i = 0; i < 120; i++) {
        size_t size = size_of(i), offset = i * 13 % 300;

        pair_send(&p, size, i);
        if (i % 2 == 0)
            pair_send(&p, 500, i + 1000); /* read ahead, or not */
        if (size > 0) {
            got = 4711;
            CHECK_RC(-EMSGSIZE, p.r, rread_into(p.r, region, offset, size - 1, &got, NULL, 0));
            assert_int_equal(got, 4711);
        }
        memset(buffer[1], 0x5a, ROOM);
        CHECK_OK(p.r,
                 rread_into(p.r, region, offset, i % 4 == 0 ? size : size + 10, &got, NULL, 0));
        assert_int_equal(got, size);
        assert_true(pattern_same(buffer[1] + offset, size, i));
        assert_int_equal(buffer[1][offset + size], 0x5a);
        if (i % 2 == 0)
            pair_read_free(&p, 500, i + 1000);
    }
    CHECK_OK(p.w, rclose(p.w));
    CHECK_RC(R_EOF, p.r, rread_into(p.r, region, 0, ROOM, &got, NULL, 0));
    end_of(region);
    CHECK_OK(p.r, rclose(p.r));
}

/* a call that did not wait leaves a fetch behind: whatever reads next gets the message, wherever it is to be stored */
static void into_later(rpipe_op_t op)
{
    struct pair p;
    rregion_t region;
    size_t got = 0;

    pair_open(&p, op, HEAP);
    region = region_of(p.r, buffer[1], ROOM);
    for (uint64_t i = 0; i < 60; i++) {
        size_t size = 2000 + i;
        int rc;

        pair_send(&p, size, i);
        if (i % 2 == 0)
            CHECK_OK(p.w, rflush(p.w)); /* it is there: what is not waited for is begun */
        rc = rread_into(p.r, region, 0, ROOM / 2, &got, NULL, R_NOWAIT);
        assert_true(rc == 0 || rc == R_PENDING);
        if (rc == 0)
            assert_true(got == size && pattern_same(buffer[1], size, i));
        else if (i % 3 == 0)
            pair_read_free(&p, size, i);
        else {
            size_t offset = i % 3 == 1 ? 0 : ROOM / 2;

            CHECK_OK(p.r, rread_into(p.r, region, offset, ROOM / 2, &got, NULL, 0));
            assert_true(got == size && pattern_same(buffer[1] + offset, size, i));
        }
    }
    end_of(region);
    pair_close(&p);
}

/* from memory of one process into that of another */
static void from_into(rpipe_op_t op)
{
    struct pair p;
    rregion_t from, to;

    pair_open(&p, op, HEAP);
    from = region_of(p.w, buffer[0], ROOM);
    to = region_of(p.r, buffer[1], ROOM);
    for (uint64_t i = 0; i < 60; i++) {
        size_t size = 1000 + i * 100, got = 0;
        int word = 0;

        pattern_fill(buffer[0], size, i);
        CHECK_OK(p.w, rwrite_from(p.w, from, 0, size, 0, &word, 0));
        CHECK_OK(p.r, rread_into(p.r, to, i, ROOM - i, &got, NULL, 0));
        assert_int_equal(got, size);
        assert_true(pattern_same(buffer[1] + i, size, i));
        await(p.w, &word);
        memset(buffer[0], 0xa5, ROOM);
        memset(buffer[1], 0x5a, ROOM);
    }
    end_of(from);
    end_of(to);
    pair_close(&p);
}

/* no memory: the word is not touched, nothing is sent, and nothing is lost of the heap */
static void deadline(rpipe_op_t op)
{
    rpipe_config_t cfg = pair_config(op, 8192);
    rregion_t region;
    int word = 4711;
    struct pair p;

    cfg.slots = 64;
    pair_open_with(&p, &cfg);
    region = region_of(p.w, buffer[0], ROOM);
    CHECK_RC(-EMSGSIZE, p.w, rwrite_from(p.w, region, 0, 8193, 0, &word, 0));
    assert_int_equal(word, 4711);
    pattern_fill(buffer[0], 1024, 0);
    CHECK_OK(p.w, rset_timeout(p.w, 20));
    for (int i = 0; i < 8; i++) /* all the same: they are in flight */
        CHECK_OK(p.w, rwrite_from(p.w, region, 0, 1024, 0, NULL, 0));
    CHECK_RC(-ETIMEDOUT, p.w, rwrite_from(p.w, region, 0, 1024, 0, &word, 0));
    CHECK_RC(R_PENDING, p.w, rwrite_from(p.w, region, 0, 1024, 0, &word, R_NOWAIT));
    assert_int_equal(word, 4711);
    CHECK_OK(p.w, rset_timeout(p.w, (int)CHECK_LATE_MS));
    for (int i = 0; i < 8; i++)
        pair_read_free(&p, 1024, 0);
    pattern_fill(buffer[1], 64, 1);
    CHECK_OK(p.w, rdone(p.w, NULL, 0));
    pattern_fill(buffer[0], 8192, 7);
    CHECK_OK(p.w, rwrite_from(p.w, region, 0, 8192, 0, &word, 0));
    pair_read_free(&p, 8192, 7);
    await(p.w, &word);
    end_of(region);
    pair_close(&p);
}

/* the ring is full: the block goes back */
static void ring_full(rpipe_op_t op)
{
    rpipe_config_t cfg = pair_config(op, HEAP);
    rregion_t region;
    int word = 4711, i;
    struct pair p;

    cfg.slots = 4;
    pair_open_with(&p, &cfg);
    region = region_of(p.w, buffer[0], ROOM);
    for (i = 0; i < 4; i++)
        pair_send(&p, 10, (uint64_t)i);
    for (i = 0; i < 50; i++)
        CHECK_RC(R_PENDING, p.w, rwrite_from(p.w, region, 0, ROOM / 2, 0, &word, R_NOWAIT));
    assert_int_equal(word, 4711);
    for (i = 0; i < 4; i++)
        pair_read_free(&p, 10, (uint64_t)i);
    pattern_fill(buffer[0], ROOM, 2);
    CHECK_OK(p.w, rwrite_from(p.w, region, 0, ROOM, 0, &word, 0));
    pair_read_free(&p, ROOM, 2);
    await(p.w, &word);
    end_of(region);
    pair_close(&p);
}

/* one region, many pipes */
static void shared(rpipe_op_t op)
{
    struct pair p[3];
    rregion_t region;
    int word[3];

    for (int i = 0; i < 3; i++)
        pair_open(&p[i], i == 1 ? RPIPE_PUT : op, HEAP);
    region = region_of(p[0].w, buffer[0], ROOM);
    pattern_fill(buffer[0], 4000, 8);
    for (int i = 0; i < 3; i++)
        CHECK_OK(p[i].w, rwrite_from(p[i].w, region, 0, 4000, 0, &word[i], 0));
    for (int i = 0; i < 3; i++)
        pair_read_free(&p[i], 4000, 8);
    for (int i = 0; i < 3; i++)
        await(p[i].w, &word[i]);
    pair_close(&p[0]);
    CHECK_OK(p[1].w, rwrite_from(p[1].w, region, 0, 4000, 0, &word[1], 0));
    pair_read_free(&p[1], 4000, 8);
    await(p[1].w, &word[1]);
    end_of(region);
    pair_close(&p[1]);
    pair_close(&p[2]);
}

/* no slot for a part of the pipe's own memory: all of it is as before, also after a deadline, and it can be given back */
static void part_and_full_ring(rpipe_op_t op)
{
    enum { BYTES = 4096 };
    rpipe_config_t cfg = pair_config(op, HEAP);
    rregion_t region = NULL;
    int word = 4711, idle = 0;
    struct pair p;

    cfg.slots = 2;
    pair_open_with(&p, &cfg);
    CHECK_OK(p.w, rregion_open(&region, p.w, NULL, BYTES));
    for (uint64_t lap = 0; lap < 5; lap++) {
        pattern_fill(rregion_mem(region), BYTES, lap);
        pair_send(&p, 10, 1);
        pair_send(&p, 10, 2);
        word = 4711;
        CHECK_RC(R_PENDING, p.w, rwrite_from(p.w, region, 0, BYTES, 0, &word, R_NOWAIT));
        CHECK_RC(R_PENDING, p.w,
                 rwrite_from(p.w, region, 0, BYTES / 2, 0, &word,
                             R_NOWAIT)); /* it is not with the reader */
        assert_int_equal(word, 4711);
        CHECK_RC(-EINVAL, p.w, rdone(p.w, &idle, R_NOWAIT)); /* nothing is outstanding */
        CHECK_OK(p.w, rset_timeout(p.w, 1));
        CHECK_RC(-ETIMEDOUT, p.w, rwrite_from(p.w, region, 0, BYTES, 0, &word, 0));
        CHECK_OK(p.w, rset_timeout(p.w, (int)CHECK_LATE_MS));
        assert_int_equal(word, 4711);
        pair_read_free(&p, 10, 1);
        CHECK_OK(p.w, rwrite_from(p.w, region, 0, BYTES, 0, &word, 0));
        pair_read_free(&p, 10, 2);
        pair_read_free(&p, BYTES, lap);
        await(p.w, &word);
    }
    pair_send(&p, 10, 1);
    pair_send(&p, 10, 2);
    CHECK_RC(R_PENDING, p.w, rwrite_from(p.w, region, 0, BYTES, 0, &word, R_NOWAIT));
    end_of(region);
    pair_read_free(&p, 10, 1);
    pair_read_free(&p, 10, 2);
    pair_send(&p, HEAP / 2, 3); /* no unit of it is missing */
    pair_read_free(&p, HEAP / 2, 3);
    pair_close(&p);
}

static void refused(rpipe_op_t op)
{
    rregion_t region = (rregion_t)(uintptr_t)0x51, own = NULL, none = region;
    struct pair p, q;
    int word = 4711;
    size_t got = 4711;

    CHECK_RC(-EINVAL, NULL, rregion_open(&region, NULL, buffer[0], ROOM));
    CHECK_RC(-EINVAL, NULL, rregion_close(NULL));
    CHECK_ERRNO(EINVAL, (uintptr_t)rregion_mem(NULL));
    pair_open(&p, op, HEAP);
    pair_open(&q, op, HEAP);
    CHECK_RC(-EINVAL, p.w, rregion_open(&region, p.w, buffer[0], 0));
    CHECK_RC(-EINVAL, p.w, rregion_open(&region, p.w, buffer[0], SIZE_MAX));
    CHECK_RC(-EINVAL, p.w, rregion_open(NULL, p.w, buffer[0], ROOM));
    CHECK_RC(-EBADF, p.r,
             rregion_open(&region, p.r, NULL, 100)); /* the pipe's memory is the writer's to give */
    CHECK_RC(-EMSGSIZE, p.w, rregion_open(&region, p.w, NULL, HEAP + 1));
    assert_true(region == none);
    region = region_of(p.w, buffer[0], ROOM);
    CHECK_RC(-EINVAL, p.w, rwrite_from(p.w, NULL, 0, 1, 0, &word, 0));
    CHECK_RC(-EINVAL, p.w, rwrite_from(p.w, region, ROOM, 1, 0, &word, 0));
    assert_non_null(strstr(rerror(p.w), "outside"));
    CHECK_RC(-EINVAL, p.w, rwrite_from(p.w, region, SIZE_MAX, 2, 0, &word, 0));
    CHECK_RC(-EINVAL, p.w, rwrite_from(p.w, region, 2, SIZE_MAX, 0, &word, 0));
    CHECK_RC(-EBADF, p.r, rwrite_from(p.r, region, 0, 1, 0, &word, 0));
    CHECK_RC(-EBADF, p.w, rread_into(p.w, region, 0, 1, &got, NULL, 0));
    CHECK_RC(-EINVAL, p.r, rread_into(p.r, region, 1, ROOM, &got, NULL, 0));
    CHECK_RC(-EINVAL, p.r, rread_into(p.r, NULL, 0, 1, &got, NULL, 0));
    CHECK_RC(-EBADF, p.r, rdone(p.r, NULL, 0));
    CHECK_OK(p.w, rregion_open(&own, p.w, NULL, 1000));
    CHECK_RC(-EINVAL, q.w, rwrite_from(q.w, own, 0, 100, 0, &word, 0)); /* memory of another pipe */
    CHECK_RC(-EINVAL, p.r, rread_into(p.r, own, 0, 1, &got, NULL, 0));
    end_of(own);
    CHECK_RC(-EINVAL, p.w, rwrite_from(p.w, own, 0, 1, 0, &word, 0));
    end_of(region);
    CHECK_RC(-EINVAL, p.w, rwrite_from(p.w, region, 0, 1, 0, &word, 0));
    assert_non_null(strstr(rerror(p.w), "closed already"));
    assert_int_equal(word, 4711);
    assert_int_equal(got, 4711);
    pair_close(&p);
    pair_close(&q);
    CHECK_RC(-ENOTCONN, NULL, rregion_open(&region, p.w, buffer[0], ROOM));
    CHECK_RC(-ENOTCONN, NULL, rdone(p.w, NULL, 0));
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(every_size), BOTH(many),      BOTH(copies),     BOTH(busy),
        BOTH(own_memory), BOTH(into),      BOTH(into_later), BOTH(from_into),
        BOTH(deadline),   BOTH(ring_full), BOTH(shared),     BOTH(part_and_full_ring),
        BOTH(refused),
    };

    return cmocka_run_group_tests_name("region", tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
