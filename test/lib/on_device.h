/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * on_device.h: tests of pipes and regions, as they are, with memory of a device (fake_device.h) in the place of memory of the host.
 *
 * TEST_DEVICE=heap: the heap of each pipe is memory of the device; region: each region of the program's memory is; all: both. A test
 * plays the device: what rmem and rregion_mem return to it is where the device computes, while the library has addresses at which a
 * load or store ends the process. Without the variable nothing is changed. doc/devices.md has the tests that run so.
 */
#ifndef TEST_LIB_ON_DEVICE_H
#define TEST_LIB_ON_DEVICE_H

#include "test/lib/fake_device.h"
#include <rpipe.h>

/* Weak: one device of a process, however many files of it include this one. */
struct fake_device on_device_fake __attribute__((weak)) = {.lock = PTHREAD_MUTEX_INITIALIZER};
rmemory_ops_t on_device_table __attribute__((weak));

static inline bool on_device_is(const char *what)
{
    const char *asked = getenv("TEST_DEVICE");

    return asked != NULL && (strcmp(asked, what) == 0 || strcmp(asked, "all") == 0);
}

/* For the tests that count what is in slots, or share memory with the other end. */
static inline bool on_device_heap(void) { return on_device_is("heap"); }
static inline bool on_device_region(void) { return on_device_is("region"); }

static inline const rmemory_ops_t *on_device_ops(void)
{
    pthread_mutex_lock(&on_device_fake.lock);
    if (on_device_table.version == 0)
        on_device_table = fake_ops(&on_device_fake);
    pthread_mutex_unlock(&on_device_fake.lock);
    return &on_device_table;
}

static inline int on_device_open(rch_t *ch, const rpipe_config_t *cfg)
{
    rpipe_config_t changed;

    if (!on_device_heap() || cfg == NULL || cfg->memory != NULL)
        return rpipe(ch, cfg);
    changed = *cfg;
    changed.memory = on_device_ops();
    if (changed.inline_max > 0)
        changed.inline_max = RPIPE_INLINE_NONE;
    return rpipe(ch, &changed);
}

static inline void *on_device_mem(rch_t ch, raddr_t d)
{
    void *at = rmem(ch, d);

    return on_device_heap() ? fake_inside(&on_device_fake, at) : at;
}

static inline void *on_device_region_mem(rregion_t region)
{
    return fake_inside(&on_device_fake, rregion_mem(region));
}

static inline int on_device_region_open(rregion_t *region, rch_t ch, void *buf, size_t bytes)
{
    void *at;
    int rc;

    if (!on_device_region() || ch == NULL || buf == NULL || bytes == 0 || bytes == SIZE_MAX)
        return rregion_open(region, ch, buf, bytes);
    at = fake_lend(&on_device_fake, buf, bytes);
    if (at == NULL)
        abort();
    rc = rregion_open_device(region, ch, on_device_ops(), at, bytes);
    if (rc != 0)
        fake_unmap(&on_device_fake, at, bytes);
    return rc;
}

/* Memory that was lent for the region ends with it. */
static inline int on_device_region_close(rregion_t region)
{
    void *at = on_device_region() && region != NULL ? rregion_mem(region) : NULL;
    size_t bytes = 0;
    int rc;

    rc = rregion_close(region);
    pthread_mutex_lock(&on_device_fake.lock);
    for (int i = 0; i < FAKE_MOST && rc == 0 && at != NULL; i++)
        if (on_device_fake.memory[i].address == at && on_device_fake.memory[i].lent)
            bytes = on_device_fake.memory[i].bytes;
    pthread_mutex_unlock(&on_device_fake.lock);
    if (bytes > 0)
        fake_unmap(&on_device_fake, at, bytes);
    return rc;
}

#undef rpipe
#define rpipe(ch, ...) on_device_open((ch), __VA_ARGS__)
#define rmem(ch, d) on_device_mem((ch), (d))
#define rregion_open(region, ch, buf, bytes) on_device_region_open((region), (ch), (buf), (bytes))
#define rregion_close(region) on_device_region_close(region)
#define rregion_mem(region) on_device_region_mem(region)

#endif
