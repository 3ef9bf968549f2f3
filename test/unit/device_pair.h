/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_pair.h: both ends of a pipe whose heap is memory of a device (fake_device.h), for tests that are the device. Over shared memory, over
 * networks that move a copy (PAIR_NET, pair.h), and over two that reach memory of devices: PAIR_BTL=verbs, the device of
 * test/btl/fake_verbs.h, and PAIR_BTL=ofi, the provider of test/btl/fake_hmem.h.
 */
#ifndef TEST_UNIT_DEVICE_PAIR_H
#define TEST_UNIT_DEVICE_PAIR_H

#include "test/lib/fake_device.h"
#include "test/lib/pair.h"

#include <rinfo.h>
#include <sched.h>

enum { HEAP = 1 << 16 };

static struct fake_device device = {.lock = PTHREAD_MUTEX_INITIALIZER};
static rmemory_ops_t memory;
static uint32_t ctx;

/* Which way payloads go: shared, registered or staged. */
static inline bool is_shared(void) { return !pair_over_network(); }

static inline bool is_over(const char *name)
{
    const char *backend = getenv("PAIR_BTL");

    return pair_over_network() && backend != NULL && strcmp(backend, name) == 0;
}

/* By descriptors: test/btl/fake_verbs.h. By the kind of the device: test/btl/fake_hmem.h. */
static inline bool is_registered_by_fd(void) { return is_over("verbs"); }
static inline bool is_registered_by_kind(void)
{
    return device.kind != RMEMORY_OTHER && is_over("ofi");
}
static inline bool is_registered(void) { return is_registered_by_fd() || is_registered_by_kind(); }

static inline bool is_staged(void) { return !is_shared() && !is_registered(); }

static inline rpipe_config_t device_config(rpipe_role_t role, rpipe_op_t op)
{
    rpipe_config_t cfg = {
        .role = role, .op = op, .context = 1000 + ctx, .heap_bytes = HEAP, .memory = &memory};

    pair_mode(&cfg);
    return cfg;
}

static inline struct pair device_open(const rpipe_config_t *cfg)
{
    rpipe_config_t w = pair_writer(*cfg), r = pair_reader(*cfg);
    struct pair p = {NULL, NULL};

    CHECK_OK(NULL, rpipe(&p.w, &w));
    CHECK_OK(NULL, rpipe(&p.r, &r));
    ctx++;
    return p;
}

static inline struct pair device_pair(rpipe_op_t op)
{
    rpipe_config_t cfg = device_config(RPIPE_WRITER, op);

    return device_open(&cfg);
}

static inline int device_live(void)
{
    return atomic_load(&device.allocations) + atomic_load(&device.imports);
}

/* Closes the only pair; one that a test before has left open does not count. */
static inline void device_pair_close(struct pair *p)
{
    static int left;
    double since = now_ms();
    int more;

    CHECK_OK(p->w, rclose(p->w));
    CHECK_OK(p->r, rclose(p->r));
    /* by the service thread, when each end has the other one's close message */
    while (device_live() != left && now_ms() - since < CHECK_LATE_MS)
        sched_yield();
    more = device_live() - left;
    left += more;
    assert_int_equal(more, 0);
}

static inline void device_fill(rch_t ch, raddr_t d, size_t bytes, uint64_t key)
{
    pattern_fill(fake_at(&device, rmem(ch, d), bytes).inside, bytes, key);
}

static inline bool device_has(rch_t ch, raddr_t d, size_t bytes, uint64_t key)
{
    return pattern_same(fake_at(&device, rmem(ch, d), bytes).inside, bytes, key);
}

static inline raddr_t device_message(rch_t ch, size_t bytes, uint64_t key)
{
    raddr_t d = rmalloc(ch, bytes);

    assert_true(d != ADDR_NULL);
    device_fill(ch, d, bytes, key);
    return d;
}

#endif
