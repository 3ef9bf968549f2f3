/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks in slabs (lib/btl/slab.h), with a source that only counts: blocks are disjoint, slabs are of one peer, size and
 * access, empty ones are freed, what a device may still access stays mapped, memory comes from the source if it maps.
 */
#include "btl/slab.h"

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
    int fd;
};

static struct registration registrations[MOST];
static int made, live, refuse;

static int register_range(void *backend, struct slab_range *range, struct error *err)
{
    assert_ptr_equal(backend, registrations);
    if (refuse != 0)
        return error_set(err, refuse, "this device is full");
    assert_true(made < MOST);
    registrations[made] = (struct registration){
        range->peer,  range->access, range->base,
        range->bytes, true,          range->device != NULL ? range->device->fd : -1};
    range->registration = &registrations[made++];
    live++;
    return 0;
}

static void deregister(void *backend, struct slab_range *range)
{
    struct registration *r = range->registration;

    assert_ptr_equal(backend, registrations);
    assert_true(r->live);
    assert_true(r->bytes == 0 ||
                *(volatile char *)r->base == *(volatile char *)r->base); /* still mapped */
    r->live = false;
    live--;
}

static void key(void *backend, const struct slab_range *range, size_t offset, size_t bytes,
                struct btl_key *k)
{
    const struct registration *r = range->registration;

    assert_ptr_equal(backend, registrations);
    assert_ptr_equal(range->base, r->base);
    *k = (struct btl_key){
        {(uint64_t)(r - registrations), (uint64_t)(uintptr_t)range->base + offset, bytes}};
}

static const struct slab_source device = {
    .register_range = register_range, .deregister = deregister, .key = key};

static struct slab_pool *begin(void)
{
    struct slab_pool *pool = NULL;

    made = live = refuse = 0;
    assert_int_equal(slab_pool_create(&device, registrations, &pool), 0);
    return pool;
}

static const struct registration *of(const struct btl_memory *p) { return slab_registration(p); }

static void test_one_block(void **state)
{
    struct slab_pool *pool = begin();
    struct btl_memory p = {0};
    struct error err = {""};
    char *base;

    (void)state;
    assert_int_equal(slab_alloc(pool, 3, 100, BTL_PEER_WRITES, false, &p, &err), 0);
    assert_int_equal(p.bytes, 128);
    assert_int_equal((uintptr_t)p.base % 128, 0);
    for (size_t i = 0; i < p.bytes; i++)
        assert_int_equal(((char *)p.base)[i], 0);
    assert_int_equal(p.key.word[1], (uintptr_t)p.base);
    assert_int_equal(p.key.word[2], 128);
    assert_int_equal(of(&p)->peer, 3);
    assert_int_equal(of(&p)->access, BTL_PEER_WRITES);
    base = p.base;
    // cppcheck-suppress arithOperationsOnVoidPointer
    assert_true(of(&p)->base <= base && base + p.bytes <= of(&p)->base + of(&p)->bytes);
    slab_free(pool, &p);
    assert_null(p.slab);
    assert_int_equal(live, 0);
    slab_free(pool, &p); /* nothing twice */
    slab_pool_destroy(pool);
}

/* Random blocks come and go; each is filled with a pattern of its own that must still be there when it goes. */
static void test_many(void **state)
{
    static const size_t sizes[] = {64, 128, 4160, 1 << 20};
    enum { N = 400 };
    static struct btl_memory block[N];
    static int peer[N];
    static uint32_t access[N];
    struct slab_pool *pool = begin();
    struct error err = {""};
    unsigned seed = 7;

    (void)state;
    memset(block, 0, sizeof(block));
    for (int round = 0; round < 6000; round++) {
        int i = (int)((seed = seed * 1103515245u + 12345u) >> 8) % N;
        size_t size = sizes[(seed >> 20) % (round % 50 == 0 ? 4 : 3)];

        if (block[i].slab == NULL) {
            peer[i] = (int)(seed >> 12) % 3;
            access[i] = (seed >> 14) % 4;
            assert_int_equal(slab_alloc(pool, peer[i], size, access[i], false, &block[i], &err), 0);
            assert_int_equal(block[i].bytes, (size + 127) / 128 * 128); /* pairs of lines */
            assert_int_equal((uintptr_t)block[i].base % 128, 0);
            assert_int_equal(of(&block[i])->peer, peer[i]);
            assert_int_equal(of(&block[i])->access, access[i]);
            assert_true(of(&block[i])->live);
            memset(block[i].base, i, block[i].bytes);
            continue;
        }
        for (size_t at = 0; at < block[i].bytes; at++)
            if (((unsigned char *)block[i].base)[at] != (unsigned char)i)
                fail_msg("block %d of %zu bytes is not its own at %zu", i, block[i].bytes, at);
        slab_free(pool, &block[i]);
    }
    for (int i = 0; i < N; i++)
        slab_free(pool, &block[i]);
    assert_int_equal(live, 0);
    slab_pool_destroy(pool);
}

/* Many channels cost few registrations, and not much more memory than they use. */
static void test_thrift(void **state)
{
    enum { N = 4000 };
    struct btl_memory *block = calloc(N, sizeof(*block));
    struct slab_pool *pool = begin();
    size_t mapped = 0;
    struct error err = {""};

    (void)state;
    for (int i = 0; i < N; i++)
        assert_int_equal(slab_alloc(pool, 1, 4160, BTL_PEER_WRITES, false, &block[i], &err), 0);
    for (int i = 0; i < made; i++)
        mapped += registrations[i].bytes;
    assert_in_range(made, 1, 60);
    assert_in_range(mapped, (size_t)N * 4160, (size_t)N * 4160 * 3 / 2);
    for (int i = 0; i < N; i++)
        slab_free(pool, &block[i]);
    assert_int_equal(live, 0);
    slab_pool_destroy(pool);
    free(block);
}

static void test_refused(void **state)
{
    struct slab_pool *pool = begin();
    struct btl_memory p = {0}, q = {0};
    struct error err = {""};
    char mine[256];

    (void)state;
    refuse = -ENOSPC;
    assert_int_equal(slab_alloc(pool, 1, 64, BTL_LOCAL, false, &p, &err), -ENOSPC);
    assert_string_equal(err.text, "this device is full");
    assert_int_equal(slab_register(pool, 1, mine, sizeof(mine), BTL_LOCAL, &p, &err), -ENOSPC);
    assert_null(p.slab);
    refuse = 0;
    assert_int_equal(slab_alloc(pool, 1, SIZE_MAX / 2, BTL_LOCAL, false, &p, &err), -ENOMEM);
    assert_true(strlen(err.text) > 20);
    assert_int_equal(slab_alloc(pool, 1, SIZE_MAX - 5, BTL_LOCAL, false, &p, &err), -ENOMEM);
    assert_null(p.slab);
    assert_int_equal(slab_alloc(pool, 1, 64, BTL_LOCAL, false, &p, &err), 0);
    assert_int_equal(slab_register(pool, 1, mine, sizeof(mine), BTL_LOCAL, &q, &err), 0);
    assert_ptr_equal(q.base, mine);
    assert_int_equal(q.bytes, sizeof(mine));
    assert_int_equal(live, 2);
    assert_false(q.device);
    slab_free(pool, &q);
    assert_int_equal(live, 1);
    /* of a device: the source gets the descriptor, which is not kept */
    assert_int_equal(slab_register_device(pool, 1, mine, sizeof(mine),
                                          &(struct btl_device){.fd = 77}, BTL_LOCAL, &q, &err),
                     0);
    assert_true(q.device && registrations[made - 1].fd == 77 && slab_range_of(&q)->device == NULL);
    slab_free(pool, &q);
    assert_int_equal(live, 1);
    slab_pool_destroy(pool); /* with what it still holds */
    assert_int_equal(live, 0);
}

static int ends, live_at_end;

static void end_of_memory(void *argument, void *base, size_t bytes)
{
    assert_true(argument == &ends && base != NULL && bytes == 100);
    live_at_end = live;
    ends++;
}

/* Memory of a device ends behind its registration: when it is freed, or, with a peer whose connection has failed, with the pool. */
static void test_memory_of_a_device_ends(void **state)
{
    const struct btl_device known = {.fd = -1, .end = end_of_memory, .argument = &ends};
    struct slab_pool *pool = begin();
    struct btl_memory p[3] = {{0}}, kept = {0};
    static char mine[100];
    struct error err = {""};

    (void)state;
    ends = 0;
    for (int i = 0; i < 3; i++)
        assert_int_equal(slab_register_device(pool, 1 + i / 2, mine, sizeof(mine), &known,
                                              BTL_LOCAL, &p[i], &err),
                         0);
    assert_int_equal(slab_register(pool, 2, mine, sizeof(mine), BTL_LOCAL, &kept, &err), 0);
    slab_free(pool, &p[0]);
    assert_true(ends == 1 && live_at_end == 3);
    slab_quarantine(pool, 2);
    slab_free(pool, &p[2]);
    assert_true(p[2].slab == NULL && ends == 1 && live == 3);
    slab_free(pool, &kept); /* that of the program has no end that could wait */
    assert_int_equal(live, 2);
    slab_free(pool, &p[1]);
    assert_true(ends == 2 && live_at_end == 1);
    slab_pool_destroy(pool);
    assert_true(ends == 3 && live_at_end == 0);
}

static void test_kept(void **state)
{
    struct slab_pool *pool = begin();
    struct btl_memory p = {0}, q = {0}, other = {0};
    struct error err = {""};
    char *was;

    (void)state;
    assert_int_equal(slab_alloc(pool, 1, 256, BTL_PEER_WRITES, false, &p, &err), 0);
    assert_int_equal(slab_alloc(pool, 2, 256, BTL_PEER_WRITES, false, &other, &err), 0);
    was = p.base;
    slab_quarantine(pool, 1);
    slab_quarantine(pool, 1);
    slab_free(pool, &p);
    assert_int_equal(live, 2);
    was[5] = 6; /* as a device would */
    assert_int_equal(slab_alloc(pool, 1, 256, BTL_PEER_WRITES, false, &q, &err), 0);
    assert_ptr_not_equal(q.base, was);
    assert_int_equal(((char *)q.base)[5], 0);
    slab_free(pool, &q);
    assert_int_equal(live, 2);
    slab_free(pool, &other);
    assert_int_equal(live, 1);
    slab_pool_destroy(pool);
    assert_int_equal(live, 0);
}

/* Cells can be shared with further peers, so a block of theirs is alone in its slab. */
static void test_atomics_alone(void **state)
{
    struct slab_pool *pool = begin();
    struct btl_memory block[20] = {0};
    struct error err = {""};

    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(slab_alloc(pool, 1, 64, BTL_PEER_ATOMICS, false, &block[i], &err), 0);
        for (int k = 0; k < i; k++)
            assert_ptr_not_equal(of(&block[i]), of(&block[k]));
    }
    assert_int_equal(live, 20);
    for (int i = 0; i < 20; i++)
        slab_free(pool, &block[i]);
    assert_int_equal(live, 0);
    slab_pool_destroy(pool);
}

/* ---- a source with memory of its own ---- */

static char own_memory[1 << 16] __attribute__((aligned(4096)));
static int mapped;
static size_t requested;

static int map(void *backend, struct slab_range *range, struct error *err)
{
    (void)backend;
    (void)err;
    requested = range->bytes;
    assert_in_range(range->bytes, 1, sizeof(own_memory));
    assert_null(range->base);
    range->base = own_memory;
    range->bytes = sizeof(own_memory);
    mapped++;
    return 0;
}

static void unmap(void *backend, struct slab_range *range)
{
    (void)backend;
    assert_ptr_equal(range->base, own_memory);
    assert_int_equal(range->bytes, sizeof(own_memory));
    mapped--;
}

static void test_own_memory(void **state)
{
    const struct slab_source source = {map, unmap, register_range, deregister, key};
    struct slab_pool *pool = NULL;
    struct btl_memory p = {0};
    struct error err = {""};

    (void)state;
    made = live = refuse = mapped = 0;
    assert_int_equal(slab_pool_create(&source, registrations, &pool), 0);
    assert_int_equal(slab_alloc(pool, 1, 3000, BTL_PEER_READS, false, &p, &err), 0);
    assert_ptr_equal(p.base, own_memory);
    assert_in_range(requested, 3000, 8192);
    assert_int_equal(mapped, 1);
    assert_int_equal(of(&p)->bytes, sizeof(own_memory));
    slab_free(pool, &p);
    assert_int_equal(mapped, 0);
    assert_int_equal(live, 0);
    refuse = -ENOSPC;
    assert_int_equal(slab_alloc(pool, 1, 3000, BTL_PEER_READS, false, &p, &err), -ENOSPC);
    assert_int_equal(mapped, 0); /* what could not be registered is unmapped */
    slab_pool_destroy(pool);
}

/* The length of a heap is a multiple of its unit, and so is its address. */
static void test_units(void **state)
{
    struct btl_memory block[20][3];
    struct slab_pool *pool = begin();
    struct error err = {""};

    (void)state;
    for (size_t unit = 64; unit <= 1 << 20; unit *= 4)
        for (size_t units = 1; units <= 3; units++) {
            for (int peer = 0; peer < 20; peer++) { /* 20 of each, in a slab of their own */
                struct btl_memory *p = &block[peer][units - 1];

                assert_int_equal(slab_alloc(pool, peer, units * unit, BTL_LOCAL, false, p, &err),
                                 0);
                assert_int_equal((uintptr_t)p->base % unit, 0);
            }
            for (int peer = 0; peer < 20; peer++)
                slab_free(pool, &block[peer][units - 1]);
        }
    assert_int_equal(live, 0);
    slab_pool_destroy(pool);
}

static void test_huge(void **state)
{
    struct slab_pool *pool = begin();
    struct btl_memory p = {0};
    struct error err = {""};

    (void)state;
    assert_int_equal(slab_alloc(pool, 1, 5 << 20, BTL_PEER_WRITES, true, &p, &err), 0);
    memset(p.base, 1, p.bytes);
    slab_free(pool, &p);
    assert_int_equal(live, 0);
    slab_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_block),  cmocka_unit_test(test_many),
        cmocka_unit_test(test_thrift),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_kept),       cmocka_unit_test(test_huge),
        cmocka_unit_test(test_units),      cmocka_unit_test(test_atomics_alone),
        cmocka_unit_test(test_own_memory), cmocka_unit_test(test_memory_of_a_device_ends),
    };

    return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}
