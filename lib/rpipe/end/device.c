/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c: see device.h. */
#include "rpipe/end/device.h"

#include "rpipe/end/area.h"
#include "rpipe/end/error.h"
#include "util/received_fd.h"

#include <errno.h>
#include <rinfo.h>
#include <unistd.h>

static int device_unreachable(const struct rch *ch, struct error *err)
{
    return error_set(err, -ENOTSUP,
                     "backend %s does not reach memory of a device (%s); backend shm does, between "
                     "processes of one host",
                     ch->ops->name, ch->cfg.memory->name);
}

/* A code of the program's: what is not a negative errno value is one. */
static int device_code(int rc) { return rc <= 0 && rc > -4096 ? rc : -EIO; }

int device_allocate(struct rch *ch, size_t bytes, struct error *err)
{
    const rmemory_ops_t *m = ch->cfg.memory;
    void *base = NULL;
    int fd = -1, rc;

    if (ch->ops->lend_descriptor == NULL)
        return device_unreachable(ch, err);
    rc = device_code(m->alloc(m->argument, bytes, &base, &fd));
    if (rc != 0)
        return error_set(err, rc, "%s: alloc of %zu bytes: %s", m->name, bytes, rinfo_strerror(rc));
    ch->device_base = base;
    rc = fd >= 0
             ? ch->ops->lend_descriptor(ch->btl, ch->peer, fd, bytes, &ch->heap_memory, err)
             : error_set(err, -EINVAL,
                         "%s: alloc has made no descriptor, by which the other end could import "
                         "the memory",
                         m->name);
    if (fd >= 0)
        close(fd); /* the kernel has it on its way to the peer */
    if (rc != 0) {
        m->free(m->argument, base, bytes);
        ch->device_base = NULL;
        return rc;
    }
    ch->heap_memory.base = base;
    ch->heap_memory.bytes = bytes;
    return 0;
}

int device_import(struct rch *ch, const struct btl_key *key, size_t bytes, struct error *err)
{
    const rmemory_ops_t *m = ch->cfg.memory;
    void *base = NULL;
    int fd, rc;

    if (ch->ops->borrow_descriptor == NULL)
        return device_unreachable(ch, err);
    rc = ch->ops->borrow_descriptor(ch->btl, ch->peer, key, bytes, &fd, err);
    if (rc != 0)
        return rc;
    rc = device_code(m->import(m->argument, fd, bytes, &base));
    received_fd_close(fd);
    if (rc != 0)
        return error_set(err, rc, "%s: import of %zu bytes of rank %d: %s", m->name, bytes,
                         ch->peer, rinfo_strerror(rc));
    ch->device_base = base;
    ch->heap_remote.base = base;
    ch->heap_remote.bytes = bytes;
    return 0;
}

void device_release(struct rch *ch)
{
    const rmemory_ops_t *m = ch->cfg.memory;

    if (ch->device_base == NULL)
        return;
    if (area_heap_is_own(ch))
        m->free(m->argument, ch->device_base, area_heap_bytes(&ch->cfg));
    else
        m->unimport(m->argument, ch->device_base, area_heap_bytes(&ch->cfg));
    ch->device_base = NULL;
}

int device_left(struct rch *ch, const struct rdesc *d, size_t bytes)
{
    const rmemory_ops_t *m = ch->cfg.memory;
    int rc;

    if (m->left == NULL || d->units == 0 || bytes == 0)
        return 0;
    rc = device_code(m->left(m->argument, d->mem, bytes));
    return rc == 0 ? 0
                   : call_error(ch, rc, "%s: left of %zu bytes: %s; nothing was sent", m->name,
                                bytes, rinfo_strerror(rc));
}

int device_arrived(struct rch *ch, struct rdesc *d)
{
    const rmemory_ops_t *m = ch->cfg.memory;
    int rc;

    if (m->arrived == NULL || d->size == 0)
        return 0;
    rc = device_code(m->arrived(m->argument, d->mem, d->size));
    return rc == 0
               ? 0
               : call_error(ch, rc, "%s: arrived of %zu bytes: %s; message %llu is lost", m->name,
                            d->size, rinfo_strerror(rc), (unsigned long long)ch->r.nread);
}

static int device_copy(struct rch *ch,
                       int (*copy)(void *argument, void *to, const void *from, size_t bytes),
                       const char *call, void *to, const void *from, size_t bytes)
{
    int rc;

    if (copy == NULL)
        return call_error(ch, -ENOTSUP, "%s has no %s: use rwrite and rread", ch->cfg.memory->name,
                          call);
    rc = device_code(copy(ch->cfg.memory->argument, to, from, bytes));
    return rc == 0 ? 0
                   : call_error(ch, rc, "%s: %s of %zu bytes: %s", ch->cfg.memory->name, call,
                                bytes, rinfo_strerror(rc));
}

int device_copy_in(struct rch *ch, void *to, const void *from, size_t bytes)
{
    return device_copy(ch, ch->cfg.memory->copy_in, "copy_in", to, from, bytes);
}

int device_copy_out(struct rch *ch, void *to, const void *from, size_t bytes)
{
    return device_copy(ch, ch->cfg.memory->copy_out, "copy_out", to, from, bytes);
}

int device_refuses(struct rch *ch, const char *what)
{
    return call_error(ch, -ENOTSUP, "the heap is memory of a device (%s): no %s",
                      ch->cfg.memory->name, what);
}
