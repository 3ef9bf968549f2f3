/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pieces of registered memory (lib/btl/pool.h), with a device that only counts: pieces are disjoint, slabs are of one peer, size
 * and access, empty ones go back, what a device may still touch stays mapped.
 */
#include "btl/pool.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 4096

struct registration {
    int peer;
    uint32_t access;
    char *base;
    size_t bytes;
    bool live;
};

static struct registration registrations[MOST];
static int made, live, refuse;

static int enroll(void *backend, int peer, void *base, size_t bytes, uint32_t access,
                  void **registration, struct error *err)
{
    assert_ptr_equal(backend, registrations);
    if (refuse != 0)
        return error_set(err, refuse, "this device is full");
    assert_true(made < MOST);
    registrations[made] = (struct registration){peer, access, base, bytes, true};
    *registration = &registrations[made++];
    live++;
    return 0;
}

static void withdraw(void *backend, void *registration)
{
    struct registration *r = registration;

    assert_ptr_equal(backend, registrations);
    assert_true(r->live);
    assert_true(r->bytes == 0 ||
                *(volatile char *)r->base == *(volatile char *)r->base); /* still mapped */
    r->live = false;
    live--;
}

static void key(void *backend, void *registration, void *base, size_t offset, size_t bytes,
                struct btl_key *k)
{
    assert_ptr_equal(backend, registrations);
    assert_ptr_equal(base, ((struct registration *)registration)->base);
    *k = (struct btl_key){{(uint64_t)((struct registration *)registration - registrations),
                           (uint64_t)(uintptr_t)base + offset, bytes}};
}

static const struct pool_device device = {enroll, withdraw, key};

static struct pool *begin(void)
{
    struct pool *pool = NULL;

    made = live = refuse = 0;
    assert_int_equal(pool_create(&device, registrations, &pool), 0);
    return pool;
}

static const struct registration *of(const struct btl_memory *p) { return pool_registration(p); }

static void test_one_piece(void **state)
{
    struct pool *pool = begin();
    struct btl_memory p = {0};
    struct error err = {""};
    char *base;

    (void)state;
    assert_int_equal(pool_alloc(pool, 3, 100, BTL_PEER_WRITES, false, &p, &err), 0);
    assert_int_equal(p.bytes, 128);
    assert_int_equal((uintptr_t)p.base % 64, 0);
    for (size_t i = 0; i < p.bytes; i++)
        assert_int_equal(((char *)p.base)[i], 0);
    assert_int_equal(p.key.word[1], (uintptr_t)p.base);
    assert_int_equal(p.key.word[2], 128);
    assert_int_equal(of(&p)->peer, 3);
    assert_int_equal(of(&p)->access, BTL_PEER_WRITES);
    base = p.base;
    // cppcheck-suppress arithOperationsOnVoidPointer
    assert_true(of(&p)->base <= base && base + p.bytes <= of(&p)->base + of(&p)->bytes);
    pool_free(pool, &p);
    assert_null(p.slab);
    assert_int_equal(live, 0);
    pool_free(pool, &p); /* nothing twice */
    pool_destroy(pool);
}

/* Random pieces come and go; each is filled with a pattern of its own that must still be there when it goes. */
static void test_many(void **state)
{
    static const size_t sizes[] = {64, 128, 4160, 1 << 20};
    enum { N = 400 };
    static struct btl_memory piece[N];
    static int peer[N];
    static uint32_t access[N];
    struct pool *pool = begin();
    struct error err = {""};
    unsigned seed = 7;

    (void)state;
    memset(piece, 0, sizeof(piece));
    for (int round = 0; round < 6000; round++) {
        int i = (int)((seed = seed * 1103515245u + 12345u) >> 8) % N;
        size_t size = sizes[(seed >> 20) % (round % 50 == 0 ? 4 : 3)];

        if (piece[i].slab == NULL) {
            peer[i] = (int)(seed >> 12) % 3;
            access[i] = (seed >> 14) % 4;
            assert_int_equal(pool_alloc(pool, peer[i], size, access[i], false, &piece[i], &err), 0);
            assert_int_equal(piece[i].bytes, size);
            assert_int_equal(of(&piece[i])->peer, peer[i]);
            assert_int_equal(of(&piece[i])->access, access[i]);
            assert_true(of(&piece[i])->live);
            memset(piece[i].base, i, piece[i].bytes);
            continue;
        }
        for (size_t at = 0; at < piece[i].bytes; at++)
            if (((unsigned char *)piece[i].base)[at] != (unsigned char)i)
                fail_msg("piece %d of %zu bytes is not its own at %zu", i, piece[i].bytes, at);
        pool_free(pool, &piece[i]);
    }
    for (int i = 0; i < N; i++)
        pool_free(pool, &piece[i]);
    assert_int_equal(live, 0);
    pool_destroy(pool);
}

/* Many channels cost few registrations, and not much more memory than they use. */
static void test_thrift(void **state)
{
    enum { N = 4000 };
    struct btl_memory *piece = calloc(N, sizeof(*piece));
    struct pool *pool = begin();
    size_t mapped = 0;
    struct error err = {""};

    (void)state;
    for (int i = 0; i < N; i++)
        assert_int_equal(pool_alloc(pool, 1, 4160, BTL_PEER_WRITES, false, &piece[i], &err), 0);
    for (int i = 0; i < made; i++)
        mapped += registrations[i].bytes;
    assert_in_range(made, 1, 60);
    assert_in_range(mapped, (size_t)N * 4160, (size_t)N * 4160 * 3 / 2);
    for (int i = 0; i < N; i++)
        pool_free(pool, &piece[i]);
    assert_int_equal(live, 0);
    pool_destroy(pool);
    free(piece);
}

static void test_refused(void **state)
{
    struct pool *pool = begin();
    struct btl_memory p = {0}, q = {0};
    struct error err = {""};
    char mine[256];

    (void)state;
    refuse = -ENOSPC;
    assert_int_equal(pool_alloc(pool, 1, 64, BTL_LOCAL, false, &p, &err), -ENOSPC);
    assert_string_equal(err.text, "this device is full");
    assert_int_equal(pool_register(pool, 1, mine, sizeof(mine), BTL_LOCAL, &p, &err), -ENOSPC);
    assert_null(p.slab);
    refuse = 0;
    assert_int_equal(pool_alloc(pool, 1, SIZE_MAX / 2, BTL_LOCAL, false, &p, &err), -ENOMEM);
    assert_true(strlen(err.text) > 20);
    assert_int_equal(pool_alloc(pool, 1, SIZE_MAX - 5, BTL_LOCAL, false, &p, &err), -ENOMEM);
    assert_null(p.slab);
    assert_int_equal(pool_alloc(pool, 1, 64, BTL_LOCAL, false, &p, &err), 0);
    assert_int_equal(pool_register(pool, 1, mine, sizeof(mine), BTL_LOCAL, &q, &err), 0);
    assert_ptr_equal(q.base, mine);
    assert_int_equal(q.bytes, sizeof(mine));
    assert_int_equal(live, 2);
    pool_free(pool, &q);
    assert_int_equal(live, 1);
    pool_destroy(pool); /* with what it still holds */
    assert_int_equal(live, 0);
}

static void test_kept(void **state)
{
    struct pool *pool = begin();
    struct btl_memory p = {0}, q = {0}, other = {0};
    struct error err = {""};
    char *was;

    (void)state;
    assert_int_equal(pool_alloc(pool, 1, 256, BTL_PEER_WRITES, false, &p, &err), 0);
    assert_int_equal(pool_alloc(pool, 2, 256, BTL_PEER_WRITES, false, &other, &err), 0);
    was = p.base;
    pool_keep(pool, 1);
    pool_keep(pool, 1);
    pool_free(pool, &p);
    assert_int_equal(live, 2);
    was[5] = 6; /* as a device would */
    assert_int_equal(pool_alloc(pool, 1, 256, BTL_PEER_WRITES, false, &q, &err), 0);
    assert_ptr_not_equal(q.base, was);
    assert_int_equal(((char *)q.base)[5], 0);
    pool_free(pool, &q);
    assert_int_equal(live, 2);
    pool_free(pool, &other);
    assert_int_equal(live, 1);
    pool_destroy(pool);
    assert_int_equal(live, 0);
}

/* The length of a heap is a multiple of its unit, and so is its address. */
static void test_units(void **state)
{
    struct btl_memory piece[20][3];
    struct pool *pool = begin();
    struct error err = {""};

    (void)state;
    for (size_t unit = 64; unit <= 1 << 20; unit *= 4)
        for (size_t units = 1; units <= 3; units++) {
            for (int peer = 0; peer < 20; peer++) { /* 20 of each, in a slab of their own */
                struct btl_memory *p = &piece[peer][units - 1];

                assert_int_equal(pool_alloc(pool, peer, units * unit, BTL_LOCAL, false, p, &err),
                                 0);
                assert_int_equal((uintptr_t)p->base % unit, 0);
            }
            for (int peer = 0; peer < 20; peer++)
                pool_free(pool, &piece[peer][units - 1]);
        }
    assert_int_equal(live, 0);
    pool_destroy(pool);
}

static void test_huge(void **state)
{
    struct pool *pool = begin();
    struct btl_memory p = {0};
    struct error err = {""};

    (void)state;
    assert_int_equal(pool_alloc(pool, 1, 5 << 20, BTL_PEER_WRITES, true, &p, &err), 0);
    memset(p.base, 1, p.bytes);
    pool_free(pool, &p);
    assert_int_equal(live, 0);
    pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_piece), cmocka_unit_test(test_many),
        cmocka_unit_test(test_thrift),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_kept),      cmocka_unit_test(test_huge),
        cmocka_unit_test(test_units),
    };

    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
