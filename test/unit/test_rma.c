/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rma.c: the backend mpi over a window that promises no more than MPI does (fake_mpi.h): order of payload and slot, of writes to the same
 * memory, connections that close and fail while MPI_Win_flush does not return, memory that is freed meanwhile, keys that are not valid.
 */
#include "fake_mpi.h"

#include "btl/btl.h"

#include "test/lib/random.h"

#include "util/clock.h"
#include "util/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct btl_ops btl_mpich_ops;
#define OPS (&btl_mpich_ops)
#define SLOTS 32
#define EACH 256 /* bytes of a payload */
#define WAIT_S 60

static const char *setting(const char *name)
{
    (void)name;
    return "";
}
static const struct btl_host host = {.log_level = LOG_ERROR, .setting = setting};

static struct btl *btl;
static struct btl_connection *c;
static struct btl_memory near, far, near_ring, ring;
static struct btl_remote to_far, to_ring;

static struct btl_memory get_memory(size_t bytes, uint32_t access)
{
    struct btl_memory m = {0};
    struct error err = {""};

    assert_int_equal(OPS->alloc(btl, 0, bytes, access, false, &m, &err), 0);
    return m;
}

static int prepare(void **state)
{
    struct btl_address address;
    struct error err = {""};

    (void)state;
    fake_mpi.placed = NULL;
    fake_mpi.flush_fails = 0;
    assert_int_equal(OPS->open(&host, &btl, &err), 0);
    assert_int_equal(OPS->connection_open(btl, 0, BTL_CONNECTS, 0, &c, &address, &err), 0);
    assert_int_equal(OPS->connection_connect(c, &address, &err), 0);
    near = get_memory((size_t)SLOTS * EACH, BTL_LOCAL);
    near_ring = get_memory(SLOTS * 64, BTL_LOCAL);
    far = get_memory((size_t)SLOTS * EACH, BTL_PEER_WRITES);
    ring = get_memory(SLOTS * 64, BTL_PEER_WRITES);
    memset(far.base, 0, far.bytes);
    memset(ring.base, 0, ring.bytes);
    assert_int_equal(OPS->attach(btl, 0, &far.key, far.bytes, BTL_PEER_WRITES, &to_far, &err), 0);
    assert_int_equal(OPS->attach(btl, 0, &ring.key, ring.bytes, BTL_PEER_WRITES, &to_ring, &err),
                     0);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    fake_mpi.placed = NULL;
    if (c != NULL)
        OPS->connection_close(c);
    c = NULL;
    OPS->free(btl, &far);
    OPS->free(btl, &ring);
    OPS->free(btl, &near);
    OPS->free(btl, &near_ring);
    OPS->close(btl);
    assert_int_equal(fake_mpi.attached, 0);
    return 0;
}

static void write_must(const struct btl_transfer *payload, const struct btl_transfer *slot)
{
    int64_t deadline = clock_now() + WAIT_S * NS_PER_S;
    int rc;

    while ((rc = OPS->write(c, payload, slot)) == -EAGAIN) {
        assert_false(deadline_passed(deadline));
        sched_yield();
    }
    assert_int_equal(rc, 0);
}

static void flush_must(void)
{
    int64_t deadline = clock_now() + WAIT_S * NS_PER_S;
    int rc;

    while ((rc = OPS->flush(c)) == -EAGAIN) {
        assert_false(deadline_passed(deadline));
        sched_yield();
    }
    assert_int_equal(rc, 0);
}

static void await_flush(void)
{
    int64_t deadline = clock_now() + WAIT_S * NS_PER_S;

    while (!fake_mpi.in_flush) {
        assert_false(deadline_passed(deadline));
        sched_yield();
    }
}

/* ---- order ---- */

static _Atomic int too_early;

/* A slot has the number that each byte of its payload has. */
static void check_slots(void)
{
    for (size_t i = 0; i < SLOTS; i++) {
        const uint8_t *flag = (uint8_t *)ring.base + i * 64 + 63,
                      *bytes = (uint8_t *)far.base + i * EACH;

        for (size_t k = 0; *flag != 0 && k < EACH; k++)
            too_early += bytes[k] != *flag;
    }
}

static void test_a_slot_follows_its_payload(void **state)
{
    (void)state;
    fake_mpi.placed = check_slots;
    for (unsigned n = 0; n < 50 * SLOTS; n++) {
        size_t i = n % SLOTS;
        struct btl_transfer payload = {&to_far, i * EACH, &near, i * EACH, EACH},
                            slot = {&to_ring, i * 64, &near_ring, i * 64, 64};

        if (i == 0) { /* the next lap: nothing of the last one is in the ring any more */
            flush_must();
            memset(ring.base, 0, ring.bytes);
        }
        memset((uint8_t *)near.base + i * EACH, (int)(1 + n / SLOTS), EACH);
        memset((uint8_t *)near_ring.base + i * 64, (int)(1 + n / SLOTS), 64);
        if (n % 3 == 0) { /* a payload alone is there before a later slot */
            write_must(&payload, NULL);
            write_must(NULL, &slot);
        } else {
            write_must(&payload, &slot);
        }
    }
    flush_must();
    assert_int_equal(too_early, 0);
    assert_int_equal(((uint8_t *)ring.base)[SLOTS * 64 - 1], 50);
}

static void test_writes_to_the_same_memory_keep_their_order(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 40; n++) {
        for (unsigned k = 0; k < 16; k++)
            ((uint8_t *)near.base)[k] = (uint8_t)(n + k);
        pthread_mutex_lock(&fake_mpi.gate); /* so that they are queued together */
        for (unsigned k = 0; k < 16; k++)
            write_must(&(struct btl_transfer){&to_far, 16, &near, k, 1}, NULL);
        pthread_mutex_unlock(&fake_mpi.gate);
        flush_must();
        assert_int_equal(((uint8_t *)far.base)[16], n + 15);
    }
}

/* ---- while MPI_Win_flush does not return ---- */

static void test_a_closed_connection_leaves_its_done_alone(void **state)
{
    struct btl_transfer get = {&to_far, 0, &near, 0, EACH};
    struct btl_done done = {0};
    uint8_t *local = near.base;

    (void)state;
    memset(far.base, 7, EACH);
    pthread_mutex_lock(&fake_mpi.gate);
    assert_int_equal(OPS->get(c, &get, &done), 0);
    await_flush();
    assert_int_equal(OPS->get(c, &get, &done), 0);
    OPS->connection_close(c);
    c = NULL;
    OPS->free(btl, &near); /* the get still stores there */
    near = get_memory((size_t)SLOTS * EACH, BTL_LOCAL);
    assert_ptr_not_equal(near.base, local);
    memset(near.base, 1, EACH);
    pthread_mutex_unlock(&fake_mpi.gate);
    while (fake_mpi.in_flush)
        sched_yield();
    assert_int_equal(atomic_load(&done.pending), 2);
    assert_int_equal(((uint8_t *)near.base)[0], 1);
}

static void test_a_peer_that_is_gone_ends_what_is_outstanding(void **state)
{
    struct btl_transfer get = {&to_far, 0, &near, 0, EACH};
    struct btl_done done = {0};
    struct error err = {""};

    (void)state;
    pthread_mutex_lock(&fake_mpi.gate);
    assert_int_equal(OPS->get(c, &get, &done), 0);
    await_flush();
    assert_int_equal(OPS->get(c, &get, &done), 0);
    OPS->peer_gone(btl, 0);
    assert_int_equal(atomic_load(&done.pending), 0);
    assert_int_equal(atomic_load(&done.error), -ECONNRESET);
    assert_int_equal(OPS->connection_state(c, &err), -ECONNRESET);
    assert_int_equal(OPS->write(c, &get, NULL), -ECONNRESET);
    pthread_mutex_unlock(&fake_mpi.gate);
}

static void test_a_failure_of_mpi_fails_the_connection(void **state)
{
    struct btl_transfer payload = {&to_far, 0, &near, 0, EACH},
                        slot = {&to_ring, 0, &near_ring, 0, 64};
    int64_t deadline = clock_now() + WAIT_S * NS_PER_S;
    struct error err = {""};

    (void)state;
    memset(near_ring.base, 9, 64);
    fake_mpi.flush_fails = 15;
    write_must(&payload, &slot);
    while (OPS->connection_state(c, &err) == 0) {
        assert_false(deadline_passed(deadline));
        sched_yield();
    }
    assert_int_equal(OPS->connection_state(c, &err), -EIO);
    assert_non_null(strstr(err.text, "a fake failure"));
    assert_int_equal(((uint8_t *)ring.base)[63], 0);
}

/* ---- what a peer sends ---- */

static void test_keys_and_addresses_are_checked(void **state)
{
    struct btl_address own, bad;
    struct btl_connection *other;
    struct btl_remote remote;
    struct error err = {""};

    (void)state;
    for (size_t word = 0; word < 4; word++) {
        struct btl_key key = far.key;

        key.word[word] = word == 0   ? UINT64_MAX - 8
                         : word == 1 ? far.bytes - 1
                                     : key.word[word] ^ 1;
        assert_int_equal(OPS->attach(btl, 0, &key, far.bytes, BTL_PEER_WRITES, &remote, &err),
                         -EPROTO);
    }
    assert_int_equal(OPS->connection_open(btl, 0, BTL_ACCEPTS, 0, &other, &own, &err), 0);
    for (size_t i = 0; i <= own.bytes; i++) {
        bad = own;
        if (i == own.bytes)
            bad.bytes--;
        else
            bad.byte[i] ^= 1;
        assert_int_equal(OPS->connection_connect(other, &bad, &err), -EPROTO);
        assert_int_equal(OPS->connection_state(other, &err), -EAGAIN);
    }
    OPS->connection_close(other);
}

/* ---- memory ---- */

/* Blocks of many lengths, given back in another order: none overlaps, each is zero, and few ranges are attached. */
static void test_memory_comes_from_few_ranges(void **state)
{
    enum { BLOCKS = 100 };
    struct btl_memory block[BLOCKS] = {{0}};
    uint64_t seed = 5;
    int most = 0;

    (void)state;
    for (unsigned n = 0; n < 2000; n++) {
        struct btl_memory *m;
        size_t bytes;

        seed = random_mix(seed);
        m = &block[seed % BLOCKS];
        bytes = 4096 * (1 + seed / BLOCKS % 40) + 64 * (seed % 7);
        if (m->base != NULL) {
            for (size_t i = 0; i < m->bytes; i += 512)
                assert_int_equal(((uint8_t *)m->base)[i], (uint8_t)(m - block));
            OPS->free(btl, m);
            *m = (struct btl_memory){0};
            continue;
        }
        *m = get_memory(bytes, BTL_PEER_ATOMICS); /* alone in its slab: from the arena, and new */
        for (size_t i = 0; i < m->bytes; i += 512)
            assert_int_equal(((uint8_t *)m->base)[i], 0);
        memset(m->base, (int)(m - block), m->bytes);
        most = fake_mpi.attached > most ? fake_mpi.attached : most;
    }
    for (size_t i = 0; i < BLOCKS; i++)
        OPS->free(btl, &block[i]);
    assert_in_range(most, 1, 8);
}

static void test_less_than_multiple_is_refused(void **state)
{
    struct btl *none;
    struct error err = {""};

    (void)state;
    fake_mpi.level = MPI_THREAD_SERIALIZED;
    assert_int_equal(OPS->open(&host, &none, &err), -ENOTSUP);
    assert_non_null(strstr(err.text, "MPI_THREAD_MULTIPLE"));
    fake_mpi.level = MPI_THREAD_MULTIPLE;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_less_than_multiple_is_refused), /* before the window is made */
        cmocka_unit_test_setup_teardown(test_a_slot_follows_its_payload, prepare, clean),
        cmocka_unit_test_setup_teardown(test_writes_to_the_same_memory_keep_their_order, prepare,
                                        clean),
        cmocka_unit_test_setup_teardown(test_a_closed_connection_leaves_its_done_alone, prepare,
                                        clean),
        cmocka_unit_test_setup_teardown(test_a_peer_that_is_gone_ends_what_is_outstanding, prepare,
                                        clean),
        cmocka_unit_test_setup_teardown(test_a_failure_of_mpi_fails_the_connection, prepare, clean),
        cmocka_unit_test_setup_teardown(test_keys_and_addresses_are_checked, prepare, clean),
        cmocka_unit_test_setup_teardown(test_memory_comes_from_few_ranges, prepare, clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
