/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenario_device.c: messages in memory of a device, by rwrite and rsend, rread and rrecv: see scenario.h. A simulated device
 * (test/lib/fake_device.h), in each process its own; within a host both have the same memory, over a network it is copied.
 */
#include "scenario_ends.h"
#include "test/lib/fake_device.h"

#define MESSAGES 24
#define LONGEST 900 /* of which the heap holds four */

static struct fake_device device = {.lock = PTHREAD_MUTEX_INITIALIZER};
static rmemory_ops_t memory;

static size_t bytes_of(uint64_t i) { return 1 + i * 97 % LONGEST; }

static int device_write(struct player *p, rch_t ch, uint64_t i)
{
    raddr_t d;
    int rc;

    do {
        d = rmalloc(ch, bytes_of(i));
        rc = d != ADDR_NULL ? 0 : -errno;
    } while (scene_once_more(p, rc));
    if (rc != 0)
        return rc;
    pattern_fill(fake_at(&device, rmem(ch, d), bytes_of(i)).inside, bytes_of(i), i);
    do
        rc = rwrite(ch, d);
    while (scene_once_more(p, rc));
    if (rc != 0)
        CHECK(ch, rfree(ch, d) == 0);
    return rc;
}

static int device_read(struct player *p, rch_t ch, uint64_t i)
{
    size_t bytes;
    raddr_t d;
    int rc;

    do
        rc = rread(ch, &d, &bytes);
    while (scene_once_more(p, rc));
    if (rc != 0)
        return rc;
    CHECK(ch, bytes == bytes_of(i) &&
                  pattern_same(fake_at(&device, rmem(ch, d), bytes).inside, bytes, i));
    CHECK(ch, rfree(ch, d) == 0);
    return 0;
}

int scene_device(struct player *p)
{
    rpipe_config_t cfg = scene_config(p, p->peer, 0, p->rank == 0);
    rch_t ch;
    int rc;

    memory = fake_ops(&device);
    cfg.memory = &memory;
    ch = scene_open(p, &cfg);
    rc = scene_wait_joined(p, ch);
    for (uint64_t i = 0; i < MESSAGES && rc == 0; i++) {
        if (p->rank == 0)
            rc = i % 3 == 0 ? scene_send(p, ch, i, bytes_of(i)) : device_write(p, ch, i);
        else
            rc = i % 3 == 1 ? scene_receive(p, ch, i, bytes_of(i)) : device_read(p, ch, i);
    }
    CHECK(ch, rc == 0 || rc == -EPIPE || rc == -ECONNRESET);
    return rc;
}
