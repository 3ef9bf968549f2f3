/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tags of messages from regions and into them: rwrite_from_tag(3), rread_into_tag(3). PUT and GET, in the settings of pair_main; over the
 * simulated network too.
 */
#include "test/lib/pair.h"
#include <errno.h>

enum { HEAP = 1 << 16, ROOM = 1 << 13, OWN = 4096 };

static uint8_t out[ROOM], in[ROOM];

/* in a slot, at its limit, beyond it, copied over GET for their size, and not */
static size_t size_of(uint64_t i)
{
    static const size_t size[] = {0, 1, 40, 41, 63, 64, 65, 1000, 3000};

    return size[i % (sizeof(size) / sizeof(*size))];
}

static uint64_t tag_of(uint64_t i) { return i == 0 ? UINT64_MAX : random_mix(i); }

static rregion_t region_of(rch_t ch, void *base, size_t bytes)
{
    rregion_t region = NULL;

    CHECK_OK(ch, rregion_open(&region, ch, base, bytes));
    return region;
}

/* By one of the ways that a message can go; whether it has a tag is the way's too. */
static uint64_t send(const struct pair *p, rregion_t from, rregion_t own, uint64_t i, int *word)
{
    size_t size = size_of(i);
    uint64_t tag = tag_of(i);
    raddr_t d;

    *word = 1;
    switch (i % 5) {
    case 0:
        pattern_fill(out, size, i);
        CHECK_OK(p->w, rwrite_from(p->w, from, 0, size, tag, word, 0));
        return tag;
    case 1:
        pattern_fill(out, size, i);
        CHECK_OK(p->w, rwrite_from(p->w, from, 0, size, tag, word, R_NOWAIT));
        return tag;
    case 2:
        pattern_fill(rregion_mem(own), size, i);
        CHECK_OK(p->w, rwrite_from(p->w, own, 0, size, tag, word, 0));
        return tag;
    case 3: /* a message without one that follows one with it */
        pattern_fill(out, size, i);
        CHECK_OK(p->w, rwrite_from(p->w, from, 0, size, 0, word, 0));
        return 0;
    default:
        d = pair_alloc(p, size, i);
        CHECK_OK(p->w, rset_tag(p->w, d, tag));
        CHECK_OK(p->w, rwrite(p->w, d));
        return tag;
    }
}

static void receive(const struct pair *p, rregion_t into, uint64_t i, uint64_t tag)
{
    uint64_t got_tag = 4711;
    size_t got = 4711;
    raddr_t d;

    switch (i % 4) {
    case 0:
        CHECK_OK(p->r, rread_into(p->r, into, 0, ROOM, &got, &got_tag, 0));
        break;
    case 1:
        CHECK_OK(p->r, rread_into(p->r, into, 0, ROOM, &got, &got_tag, R_NOWAIT));
        break;
    case 2: /* neither is asked for */
        CHECK_OK(p->r, rread_into(p->r, into, 0, ROOM, NULL, NULL, 0));
        assert_true(pattern_same(in, size_of(i), i));
        return;
    default:
        d = pair_receive(p, size_of(i), i);
        assert_int_equal(rtag(p->r, d), tag);
        CHECK_OK(p->r, rfree(p->r, d));
        return;
    }
    assert_int_equal(got, size_of(i));
    assert_int_equal(got_tag, tag);
    assert_true(pattern_same(in, got, i));
}

static void tags(rpipe_op_t op)
{
    rregion_t from, into, own = NULL;
    struct pair p;

    pair_open(&p, op, HEAP);
    from = region_of(p.w, out, ROOM);
    into = region_of(p.r, in, ROOM);
    for (uint64_t i = 0; i < 180; i++) {
        uint64_t tag;
        int word;

        if (i % 20 == 0) /* next-fit keeps what was allocated after it until it goes */
            own = region_of(p.w, NULL, OWN);
        tag = send(&p, from, own, i, &word);
        receive(&p, into, i, tag);
        if (word != 1)
            CHECK_OK(p.w, rdone(p.w, &word, 0));
        if (i % 20 == 19)
            CHECK_OK(NULL, rregion_close(own));
    }
    CHECK_OK(NULL, rregion_close(from));
    CHECK_OK(NULL, rregion_close(into));
    pair_close(&p);
}

/* a call that fails stores nothing; a message that does not fit keeps its tag */
static void nothing_stored(rpipe_op_t op)
{
    uint64_t tag = 4711;
    size_t got = 4711;
    rregion_t from, into;
    int word = 4711;
    struct pair p;

    pair_open(&p, op, HEAP);
    from = region_of(p.w, out, ROOM);
    into = region_of(p.r, in, ROOM);
    CHECK_RC(-EINVAL, p.w, rwrite_from(p.w, from, ROOM, 1, 7, &word, 0));
    assert_non_null(strstr(rerror(p.w), "rwrite_from"));
    CHECK_RC(-EBADF, p.r, rwrite_from(p.r, from, 0, 1, 7, &word, R_NOWAIT));
    assert_int_equal(word, 4711);
    CHECK_RC(R_PENDING, p.r, rread_into(p.r, into, 0, ROOM, &got, &tag, R_NOWAIT));
    pattern_fill(out, 500, 3);
    CHECK_OK(p.w, rwrite_from(p.w, from, 0, 500, 99, &word, 0));
    CHECK_RC(-EMSGSIZE, p.r, rread_into(p.r, into, 0, 499, &got, &tag, 0));
    assert_true(got == 4711 && tag == 4711);
    CHECK_OK(p.r, rread_into(p.r, into, 0, ROOM, &got, &tag, 0));
    assert_true(got == 500 && tag == 99 && pattern_same(in, 500, 3));
    CHECK_OK(p.w, rdone(p.w, NULL, 0));
    CHECK_OK(NULL, rregion_close(from));
    tag = got = 4711;
    CHECK_OK(p.w, rclose(p.w));
    CHECK_RC(R_EOF, p.r, rread_into(p.r, into, 0, ROOM, &got, &tag, 0));
    assert_true(got == 4711 && tag == 4711);
    CHECK_OK(NULL, rregion_close(into));
    CHECK_OK(p.r, rclose(p.r));
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(tags),
        BOTH(nothing_stored),
    };

    return cmocka_run_group_tests_name("region_tag", tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
