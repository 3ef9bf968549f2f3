/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_device.h: a device with memory of its own, for tests of rmemory_ops_t.
 *
 * An address of the device has no memory behind it: a load or store of a processor there is a SIGSEGV. The device computes in its own
 * copy of the memory (`inside`), which nothing else sees; the memory that other processes and networks reach is a memfd (`outside`).
 * `left` copies from inside to outside, `arrived` from outside to inside: without the one or the other a message has wrong bytes. Copies
 * are late, too: `copy_out` brings what was there at the last `left` or `arrived`, or what `copy_in` has stored since (`seen`).
 */
#ifndef TEST_LIB_FAKE_DEVICE_H
#define TEST_LIB_FAKE_DEVICE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rpipe.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FAKE_MOST 512

struct fake_memory {
    uint8_t *address, *outside, *inside, *seen;
    size_t bytes;
    int fd;    /* of outside */
    bool lent; /* inside is memory of the program */
};

/* What `alloc` makes beside memory. */
enum fake_descriptor { FAKE_MEMFD, FAKE_NONE, FAKE_OTHER };

struct fake_device {
    pthread_mutex_t lock; /* of memory: a thread of the library's makes some of the calls */
    struct fake_memory memory[FAKE_MOST];
    int used;                               /* entries that have ever been */
    _Atomic int allocations, imports;       /* that are there */
    _Atomic int copies;                     /* calls of copy_in and copy_out */
    int fail_alloc, fail_import, fail_left; /* errno of the next such call, once */
    int allocs_before;                      /* calls of alloc that succeed before that */
    int fail_arrived, fail_copy_in, fail_copy_out, fail_dmabuf;
    enum fake_descriptor descriptor;
    rmemory_kind_t kind; /* by which networks identify it */
    uint64_t number;
};

/* A network of the tests that reaches its memory by its kind sets that (test/btl/fake_hmem.c); NULL where it is not linked. */
void fake_device_seen(struct fake_device *dev) __attribute__((weak));

/* Atomic: ends of several threads make calls of one device. */
static inline int fake_fails(int *which)
{
    return -__atomic_exchange_n(which, 0, __ATOMIC_RELAXED);
}

#define FAKE_ALIGNMENT ((size_t)1 << 20)

/* Addresses with nothing behind them, aligned for the largest unit of a heap; MAP_FAILED: no memory. */
static inline void *fake_addresses(size_t bytes)
{
    uint8_t *all = mmap(NULL, bytes + FAKE_ALIGNMENT, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t page = (size_t)getpagesize(), before, whole = (bytes + page - 1) / page * page;

    if (all == MAP_FAILED)
        return all;
    before = -(uintptr_t)all % FAKE_ALIGNMENT;
    if (before > 0)
        munmap(all, before);
    munmap(all + before + whole, FAKE_ALIGNMENT - before);
    return all + before;
}

/* A free entry. Under the lock. */
static inline struct fake_memory *fake_entry(struct fake_device *dev, size_t bytes)
{
    struct fake_memory *m = dev->memory;

    while (m < dev->memory + dev->used && m->address != NULL)
        m++;
    if (m == dev->memory + FAKE_MOST)
        abort();
    if (m == dev->memory + dev->used)
        dev->used++;
    *m = (struct fake_memory){.bytes = bytes, .fd = -1};
    return m;
}

static inline int fake_map(struct fake_device *dev, int fd, size_t bytes, void **base)
{
    struct fake_memory *m;

    pthread_mutex_lock(&dev->lock);
    m = fake_entry(dev, bytes);
    m->address = fake_addresses(bytes);
    m->outside = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    m->inside = calloc(2, bytes);
    m->seen = m->inside + bytes;
    m->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_unlock(&dev->lock);
    if (m->address == MAP_FAILED || m->outside == MAP_FAILED || m->inside == NULL)
        return -ENOMEM;
    *base = m->address;
    return 0;
}

static inline void fake_unmap(struct fake_device *dev, void *base, size_t bytes)
{
    pthread_mutex_lock(&dev->lock);
    for (struct fake_memory *m = dev->memory; m < dev->memory + dev->used; m++)
        if (m->address == base && m->bytes == bytes) {
            munmap(m->address, bytes);
            munmap(m->outside, bytes);
            free(m->lent ? m->seen : m->inside);
            if (m->fd >= 0)
                close(m->fd);
            m->address = NULL;
            pthread_mutex_unlock(&dev->lock);
            return;
        }
    abort(); /* never allocated, or freed twice */
}

/* The three memories of an address; ends the process if it is not memory of the device. */
static inline struct fake_memory fake_at(struct fake_device *dev, const void *at, size_t bytes)
{
    struct fake_memory found;

    pthread_mutex_lock(&dev->lock);
    for (struct fake_memory *m = dev->memory; m < dev->memory + dev->used; m++) {
        size_t offset = (size_t)((const uint8_t *)at - m->address);

        if (m->address == NULL || offset > m->bytes || bytes > m->bytes - offset)
            continue;
        found = (struct fake_memory){m->address + offset,
                                     m->outside + offset,
                                     m->inside + offset,
                                     m->seen + offset,
                                     bytes,
                                     m->fd,
                                     m->lent};
        pthread_mutex_unlock(&dev->lock);
        return found;
    }
    abort();
}

/*
 * Memory of the program becomes what the device computes in: returns the address of the device for it, which fake_unmap ends. NULL: no
 * memory.
 */
static inline void *fake_lend(struct fake_device *dev, void *inside, size_t bytes)
{
    struct fake_memory *m;

    pthread_mutex_lock(&dev->lock);
    m = fake_entry(dev, bytes);
    m->address = fake_addresses(bytes);
    m->fd = memfd_create("fake device", MFD_CLOEXEC);
    if (m->fd < 0 || ftruncate(m->fd, (off_t)bytes) != 0)
        abort();
    m->outside = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
    m->seen = calloc(1, bytes);
    m->inside = inside;
    m->lent = true;
    pthread_mutex_unlock(&dev->lock);
    return m->address == MAP_FAILED || m->outside == MAP_FAILED || m->seen == NULL ? NULL
                                                                                   : m->address;
}

/* Where the device computes, if this is an address of it; else the address itself. */
static inline void *fake_inside(struct fake_device *dev, void *at)
{
    void *inside = at;

    pthread_mutex_lock(&dev->lock);
    for (struct fake_memory *m = dev->memory; m < dev->memory + dev->used; m++)
        if (m->address != NULL && (uintptr_t)at - (uintptr_t)m->address < m->bytes)
            inside = m->inside + ((uint8_t *)at - m->address);
    pthread_mutex_unlock(&dev->lock);
    return inside;
}

static inline int fake_alloc(void *argument, size_t bytes, void **base, int *fd)
{
    struct fake_device *dev = argument;
    int rc = 0, made;

    if (dev->allocs_before > 0)
        dev->allocs_before--;
    else
        rc = fake_fails(&dev->fail_alloc);
    if (rc != 0)
        return rc;
    made = memfd_create("fake device", MFD_CLOEXEC);
    if (made < 0 || ftruncate(made, (off_t)bytes) != 0)
        return -ENOMEM;
    dev->allocations++;
    rc = fake_map(dev, made, bytes, base);
    if (dev->descriptor != FAKE_MEMFD)
        close(made);
    *fd = dev->descriptor == FAKE_MEMFD   ? made
          : dev->descriptor == FAKE_OTHER ? open("/dev/null", O_RDWR | O_CLOEXEC)
                                          : -1;
    return rc;
}

static inline void fake_free(void *argument, void *base, size_t bytes)
{
    struct fake_device *dev = argument;

    fake_unmap(dev, base, bytes);
    dev->allocations--;
}

static inline int fake_import(void *argument, int fd, size_t bytes, void **base)
{
    struct fake_device *dev = argument;
    int rc = fake_fails(&dev->fail_import);
    struct stat s;

    if (rc != 0)
        return rc;
    if (fstat(fd, &s) != 0 || s.st_size < (off_t)bytes)
        return -EPROTO;
    dev->imports++;
    return fake_map(dev, fd, bytes, base);
}

static inline void fake_unimport(void *argument, void *base, size_t bytes)
{
    struct fake_device *dev = argument;

    fake_unmap(dev, base, bytes);
    dev->imports--;
}

static inline int fake_copy_in(void *argument, void *to, const void *from, size_t bytes)
{
    struct fake_device *dev = argument;
    struct fake_memory m = fake_at(dev, to, bytes);

    dev->copies++;
    memcpy(m.inside, from, bytes);
    memcpy(m.seen, from, bytes);
    return fake_fails(&dev->fail_copy_in);
}

static inline int fake_copy_out(void *argument, void *to, const void *from, size_t bytes)
{
    struct fake_device *dev = argument;

    dev->copies++;
    memcpy(to, fake_at(dev, from, bytes).seen, bytes);
    return fake_fails(&dev->fail_copy_out);
}

static inline int fake_left(void *argument, void *at, size_t bytes)
{
    struct fake_device *dev = argument;
    struct fake_memory m = fake_at(dev, at, bytes);

    memcpy(m.outside, m.inside, bytes);
    memcpy(m.seen, m.inside, bytes);
    return fake_fails(&dev->fail_left);
}

static inline int fake_arrived(void *argument, void *at, size_t bytes)
{
    struct fake_device *dev = argument;
    struct fake_memory m = fake_at(dev, at, bytes);

    memcpy(m.inside, m.outside, bytes);
    memcpy(m.seen, m.outside, bytes);
    return fake_fails(&dev->fail_arrived);
}

/* In the place of a dma-buf: for networks that reach memory of devices. Not in the table unless a test asks for it. */
static inline int fake_dmabuf(void *argument, void *base, size_t bytes, int *fd)
{
    struct fake_device *dev = argument;
    int rc = fake_fails(&dev->fail_dmabuf);

    if (rc == 0)
        *fd = fcntl(fake_at(dev, base, bytes).fd, F_DUPFD_CLOEXEC, 0);
    return rc;
}

static inline rmemory_ops_t fake_ops(struct fake_device *dev)
{
    if (fake_device_seen != NULL)
        fake_device_seen(dev);
    return (rmemory_ops_t){.version = RMEMORY_VERSION,
                           .name = "fake",
                           .argument = dev,
                           .alloc = fake_alloc,
                           .free = fake_free,
                           .import = fake_import,
                           .unimport = fake_unimport,
                           .copy_in = fake_copy_in,
                           .copy_out = fake_copy_out,
                           .left = fake_left,
                           .arrived = fake_arrived,
                           .kind = dev->kind,
                           .number = dev->number};
}

#endif
