/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A descriptor is valid from rmalloc to rwrite or rfree, and from rread to rfree, at its end; every other use is -EINVAL and has
 * no effect, however often the same memory has been used for other messages since. Each test runs as PUT and as GET, with
 * RMALLOC_DEBUG=1 and without.
 */
#include "test/lib/pair.h"
#include "test/lib/random.h"

#include <rvmem.h>

#define HEAP 4096
#define LIVES 300
#define MANY_LIVES ((UINT32_C(1) << 17) + 10) /* more than one part of a generation counts */

static const size_t sizes[] = {0, 8, 40, 41, 1000};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Every call that takes a descriptor. */
static void assert_invalid(rch_t ch, raddr_t d, bool writer)
{
    CHECK_RC(-EINVAL, ch, rfree(ch, d));
    CHECK_ERRNO(EINVAL, rmem(ch, d));
    CHECK_ERRNO(EINVAL, rsize(ch, d));
    CHECK_RC(-EINVAL, ch, rset_tag(ch, d, 77));
    CHECK_ERRNO(EINVAL, rtag(ch, d));
    if (!writer)
        return;
    CHECK_RC(-EINVAL, ch, rwrite(ch, d));
    CHECK_RC(-EINVAL, ch, rwrite_n(ch, d, 0));
    CHECK_RC(-EINVAL, ch, rwrite_nb(ch, d));
    CHECK_RC(-EINVAL, ch, rshrink(ch, d, 0));
}

static void assert_invalid_at_both(const struct pair *p, raddr_t d)
{
    assert_invalid(p->w, d, true);
    assert_invalid(p->r, d, false);
}

/* A message that the writer has, and one that the reader has, which no misuse may change. */
struct held {
    raddr_t mine, theirs;
    size_t size;
};

static struct held hold(const struct pair *p, size_t size)
{
    struct held h = {.size = size};

    pair_send(p, size, 2);
    h.theirs = pair_receive(p, size, 2);
    CHECK_OK(p->r, rset_tag(p->r, h.theirs, 22));
    h.mine = pair_alloc(p, size, 1);
    CHECK_OK(p->w, rset_tag(p->w, h.mine, 11));
    return h;
}

static void let_go(const struct pair *p, const struct held *h)
{
    raddr_t d;

    assert_int_equal(rsize(p->w, h->mine), h->size);
    assert_int_equal(rsize(p->r, h->theirs), h->size);
    assert_int_equal(rtag(p->w, h->mine), 11);
    assert_int_equal(rtag(p->r, h->theirs), 22);
    assert_true(pattern_same(rmem(p->w, h->mine), h->size, 1));
    assert_true(pattern_same(rmem(p->r, h->theirs), h->size, 2));
    CHECK_OK(p->r, rfree(p->r, h->theirs));
    CHECK_OK(p->w, rwrite(p->w, h->mine));
    d = pair_receive(p, h->size, 1);
    assert_int_equal(rtag(p->r, d), 11);
    CHECK_OK(p->r, rfree(p->r, d));
}

/* ---- stale ---- */

static void test_free_read_free(void **state)
{
    struct pair p;
    raddr_t d, d2;

    for (size_t i = 0; i < SIZES; i++) {
        pair_open(&p, op_of(state), HEAP);
        pair_send(&p, sizes[i], 1);
        pair_send(&p, sizes[i], 2);
        d = pair_receive(&p, sizes[i], 1);
        CHECK_OK(p.r, rfree(p.r, d));
        d2 = pair_receive(&p, sizes[i], 2);
        CHECK_RC(-EINVAL, p.r, rfree(p.r, d));
        assert_invalid_at_both(&p, d);
        assert_true(pattern_same(rmem(p.r, d2), sizes[i], 2));
        CHECK_OK(p.r, rfree(p.r, d2));
        pair_close(&p);
    }
}

/* Freed, sent and read ones, while the memory has 1 to LIVES other lives. */
static void test_lives(void **state)
{
    raddr_t unsent[LIVES], sent[LIVES], read[LIVES];
    struct pair p;

    for (size_t i = 0; i < SIZES; i++) {
        pair_open(&p, op_of(state), HEAP);
        for (unsigned n = 0; n < LIVES; n++) {
            struct held h;

            unsent[n] = pair_alloc(&p, sizes[i], n);
            CHECK_OK(p.w, rfree(p.w, unsent[n]));
            sent[n] = pair_alloc(&p, sizes[i], n);
            CHECK_OK(p.w, rwrite(p.w, sent[n]));
            read[n] = pair_receive(&p, sizes[i], n);
            CHECK_OK(p.r, rfree(p.r, read[n]));
            if (n != 0 && (n & (n + 1)) != 0 && n != LIVES - 1)
                continue;
            h = hold(&p, sizes[i]);
            for (unsigned k = 0; k <= n; k++) {
                assert_invalid_at_both(&p, unsent[k]);
                assert_invalid_at_both(&p, sent[k]);
                assert_invalid_at_both(&p, read[k]);
            }
            let_go(&p, &h);
        }
        pair_close(&p);
    }
}

/* The first descriptor of a slot and of a block, and no later one is equal to it. */
static void test_many_lives(void **state)
{
    static const size_t some[] = {8, 1000};
    struct pair p;

    for (size_t i = 0; i < 2; i++) {
        struct held h;
        raddr_t first, d = ADDR_NULL;

        pair_open(&p, op_of(state), HEAP);
        first = pair_alloc(&p, some[i], 1);
        CHECK_OK(p.w, rfree(p.w, first));
        for (uint32_t n = 0; n < MANY_LIVES; n++) {
            d = rmalloc(p.w, some[i]);
            assert_true(d != ADDR_NULL && d != first);
            if ((n & (n - 1)) == 0 || n >= MANY_LIVES - 20) {
                assert_invalid(p.w, first, true);
                assert_int_equal(rsize(p.w, d), some[i]);
            }
            CHECK_OK(p.w, rfree(p.w, d));
        }
        h = hold(&p, some[i]);
        assert_invalid_at_both(&p, first);
        assert_invalid_at_both(&p, d);
        let_go(&p, &h);
        pair_close(&p);
    }
}

/* Of pipes that are closed, with as many messages, while later ones use their memory. */
static void test_closed(void **state)
{
    static const unsigned held = 40;
    raddr_t mine[40], theirs[40], more[40];
    struct pair p, closed;

    for (size_t i = 0; i < SIZES; i++) {
        for (unsigned reopened = 0; reopened < 3; reopened++) {
            struct held h;
            unsigned n = sizes[i] > 40 ? 2 : on_device_heap() ? held / 2 : held; /* of the heap */

            pair_open(&closed, op_of(state), HEAP);
            for (unsigned k = 0; k < n; k++) {
                pair_send(&closed, sizes[i], 5);
                theirs[k] = pair_receive(&closed, sizes[i], 5);
                if (k % 2 == 0)
                    CHECK_OK(closed.r, rfree(closed.r, theirs[k]));
            }
            for (unsigned k = 0; k < n; k++)
                mine[k] = pair_alloc(&closed, sizes[i] > 40 ? 64 : sizes[i], 4);
            pair_close(&closed);
            for (unsigned opened = 0; opened <= reopened; opened++) {
                pair_open(&p, op_of(state), HEAP);
                h = hold(&p, sizes[i]);
                for (unsigned k = 0; k < n; k++)
                    more[k] = rmalloc(p.w, sizes[i] > 40 ? 64 : sizes[i]);
                for (unsigned k = 0; k < n; k++) {
                    assert_invalid_at_both(&p, mine[k]);
                    assert_invalid_at_both(&p, theirs[k]);
                }
                for (unsigned k = 0; k < n; k++)
                    CHECK_OK(p.w, rfree(p.w, more[k]));
                let_go(&p, &h);
                pair_close(&p);
            }
        }
    }
}

/* ---- foreign ---- */

static void test_foreign(void **state)
{
    struct pair p, q;

    for (size_t i = 0; i < SIZES; i++) {
        struct held hp, hq;

        pair_open(&p, op_of(state), HEAP);
        pair_open(&q, op_of(state), HEAP);
        hp = hold(&p, sizes[i]);
        hq = hold(&q, sizes[i]);
        assert_invalid(p.w, hp.theirs, true);
        assert_invalid(p.r, hp.mine, false);
        assert_invalid_at_both(&p, hq.mine);
        assert_invalid_at_both(&p, hq.theirs);
        let_go(&p, &hp);
        let_go(&q, &hq);
        pair_close(&p);
        pair_close(&q);
    }
}

/* Blocks of an allocator, valid and freed, and one whose allocator is gone. */
static void test_allocator(void **state)
{
    rvmem_config_t cfg = {.bytes = HEAP};
    raddr_t block, freed, gone;
    struct held h;
    struct pair p;
    rvmem_t v;

    assert_int_equal(rvmem_create(&v, &cfg), 0);
    gone = rvmem_alloc(v, 100);
    assert_int_equal(rvmem_destroy(v), 0);
    assert_int_equal(rvmem_create(&v, &cfg), 0);
    freed = rvmem_alloc(v, 100);
    assert_int_equal(rvmem_free(v, freed), 0);
    block = rvmem_alloc(v, 100);
    pair_open(&p, op_of(state), HEAP);
    h = hold(&p, 100);
    assert_invalid_at_both(&p, block);
    assert_invalid_at_both(&p, freed);
    assert_invalid_at_both(&p, gone);
    assert_int_equal(rvmem_free(v, freed), -EINVAL);
    assert_int_equal(rvmem_free(v, gone), -EINVAL);
    assert_int_equal(rvmem_free(v, h.mine), -EINVAL);
    assert_int_equal(rvmem_free(v, h.theirs), -EINVAL);
    assert_int_equal(rvmem_size(v, block), 100);
    assert_int_equal(rvmem_free(v, block), 0);
    let_go(&p, &h);
    pair_close(&p);
    assert_int_equal(rvmem_free(v, h.mine), -EINVAL);
    assert_int_equal(rvmem_destroy(v), 0);
}

/* ---- no descriptors ---- */

/* Changed bits of a valid one, as long as the address is that of a descriptor. */
static void test_changed_bits(void **state)
{
    struct pair p;

    for (size_t i = 0; i < SIZES; i++) {
        struct held h;

        pair_open(&p, op_of(state), HEAP);
        h = hold(&p, sizes[i]);
        for (unsigned bit = 0; bit < 64; bit = bit == 5 ? 48 : bit + 1) {
            assert_invalid_at_both(&p, (raddr_t)((uintptr_t)h.mine ^ UINT64_C(1) << bit));
            assert_invalid_at_both(&p, (raddr_t)((uintptr_t)h.theirs ^ UINT64_C(1) << bit));
        }
        for (unsigned n = 1; n < 64; n++) { /* nor is there one at these addresses */
            assert_invalid_at_both(&p, (raddr_t)(uintptr_t)n);
            assert_invalid_at_both(&p, (raddr_t)((uintptr_t)h.mine + n));
        }
        let_go(&p, &h);
        pair_close(&p);
    }
}

/* With RMALLOC_DEBUG=1 any value. */
static void test_random_bits(void **state)
{
    static char memory[256];
    uint64_t random = 4711;
    struct held h;
    struct pair p;

    if (strcmp(getenv("RMALLOC_DEBUG"), "1") != 0)
        skip();
    pair_open(&p, op_of(state), HEAP);
    h = hold(&p, 1000);
    for (unsigned n = 0; n < sizeof(memory); n++)
        assert_invalid_at_both(&p, (raddr_t)(void *)(memory + n));
    for (unsigned n = 0; n < 10000; n++) {
        uint64_t bits = random_draw(&random);

        assert_invalid_at_both(&p, (raddr_t)(uintptr_t)bits);
        assert_invalid_at_both(&p, (raddr_t)((uintptr_t)h.mine ^ (UINT64_C(1) << bits % 64)));
        assert_invalid_at_both(&p, (raddr_t)((uintptr_t)h.theirs + (bits & 0xffffc0) + 1));
    }
    let_go(&p, &h);
    pair_close(&p);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        PUT_AND_GET(test_free_read_free), PUT_AND_GET(test_lives),
        PUT_AND_GET(test_many_lives),     PUT_AND_GET(test_closed),
        PUT_AND_GET(test_foreign),        PUT_AND_GET(test_allocator),
        PUT_AND_GET(test_changed_bits),   PUT_AND_GET(test_random_bits),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
