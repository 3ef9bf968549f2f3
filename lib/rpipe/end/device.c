/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c: see device.h. */
#include "rpipe/end/device.h"

#include "rpipe/end/area.h"
#include "rpipe/end/config.h"
#include "rpipe/end/error.h"
#include "rpipe/end/path.h"
#include "util/failpoint.h"
#include "util/received_fd.h"

#include <errno.h>
#include <rinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A code of the program's: what is not a negative errno value is one. */
static int device_code(int rc) { return rc <= 0 && rc > -4096 ? rc : -EIO; }

/* ---- allocation ---- */

/* The peer shares this memory. */
static int device_lend(struct rch *ch, int fd, struct btl_memory *memory, struct error *err)
{
    size_t bytes = area_heap_bytes(&ch->cfg);
    int rc;

    if (ch->ops->lend_descriptor == NULL)
        return error_set(err, -ENOTSUP, "backend %s does not pass memory of a device (%s)",
                         ch->ops->name, ch->cfg.memory->name);
    if (fd < 0)
        return error_set(err, -EINVAL,
                         "%s: alloc has made no descriptor, by which the other end could import "
                         "the memory",
                         ch->cfg.memory->name);
    rc = ch->ops->lend_descriptor(ch->btl, ch->peer, fd, bytes, memory, err);
    if (rc != 0)
        return rc;
    memory->base = ch->device.base;
    memory->bytes = bytes;
    return 0;
}

/* -ENOTSUP and the reason, or the error of the backend: the memory has to be staged. */
static int device_register(struct rch *ch, int fd, uint32_t access, struct btl_memory *memory,
                           struct error *why)
{
    const rmemory_ops_t *m = ch->cfg.memory;
    size_t bytes = area_heap_bytes(&ch->cfg);
    int own = -1, rc = 0;

    if (ch->ops->register_device == NULL)
        return error_set(why, -ENOTSUP, "backend %s does not register memory of devices",
                         ch->ops->name);
    if (m->dmabuf != NULL)
        rc = device_code(m->dmabuf(m->argument, ch->device.base, bytes, &own));
    if (rc != 0)
        return error_set(why, rc, "%s: dmabuf of %zu bytes: %s", m->name, bytes,
                         rinfo_strerror(rc));
    if (m->dmabuf != NULL)
        fd = own;
    if (fd < 0)
        return error_set(why, -ENOTSUP, "%s has made no descriptor", m->name);
    rc = ch->ops->register_device(ch->btl, ch->peer, ch->device.base, bytes, fd, access, memory,
                                  why);
    if (own >= 0)
        close(own); /* the registration keeps the memory */
    return rc;
}

/* The copy that this side needs. */
static const char *device_missing_copy(const struct rch *ch)
{
    const rmemory_ops_t *m = ch->cfg.memory;

    if (config_side(&ch->cfg) == SIDE_WRITER)
        return m->copy_out == NULL ? "copy_out" : NULL;
    return m->copy_in == NULL ? "copy_in" : NULL;
}

static int device_stage(struct rch *ch, uint32_t access, struct btl_memory *memory,
                        const struct error *why, struct error *err)
{
    const char *missing = device_missing_copy(ch);
    int rc;

    if (missing != NULL)
        return error_set(err, -ENOTSUP,
                         "%s has no %s, without which memory of a device is not reached over a "
                         "network: %.256s",
                         ch->cfg.memory->name, missing, why->text);
    rc = ch->ops->alloc(ch->btl, ch->peer, area_heap_bytes(&ch->cfg), access, ch->cfg.huge_pages,
                        memory, err);
    if (rc != 0)
        return rc;
    ch->device.staging = memory->base;
    ch->device.why = strdup(why->text); /* NULL: no memory for the text */
    return 0;
}

static int device_reach(struct rch *ch, int fd, uint32_t access, struct btl_memory *memory,
                        struct error *err)
{
    struct error why = {""};

    if ((ch->ops->attributes.capabilities & BTL_LOAD_STORE) != 0)
        return device_lend(ch, fd, memory, err);
    if (device_register(ch, fd, access, memory, &why) == 0)
        return 0;
    return device_stage(ch, access, memory, &why, err);
}

int device_allocate(struct rch *ch, uint32_t access, struct btl_memory *memory, struct error *err)
{
    const rmemory_ops_t *m = ch->cfg.memory;
    size_t bytes = area_heap_bytes(&ch->cfg);
    void *base = NULL;
    int fd = -1, rc;

    rc = device_code(m->alloc(m->argument, bytes, &base, &fd));
    if (rc != 0)
        return error_set(err, rc, "%s: alloc of %zu bytes: %s", m->name, bytes, rinfo_strerror(rc));
    ch->device.base = base;
    rc = device_reach(ch, fd, access, memory, err);
    if (fd >= 0)
        close(fd); /* the kernel has it on its way to the peer, or needs it no more */
    if (rc != 0) {
        m->free(m->argument, base, bytes);
        ch->device.base = NULL;
    }
    return rc;
}

int device_import(struct rch *ch, const struct btl_key *key, size_t bytes, struct error *err)
{
    const rmemory_ops_t *m = ch->cfg.memory;
    void *base = NULL;
    int fd, rc;

    if (ch->ops->borrow_descriptor == NULL)
        return error_set(err, -ENOTSUP, "backend %s does not pass memory of a device (%s)",
                         ch->ops->name, m->name);
    rc = ch->ops->borrow_descriptor(ch->btl, ch->peer, key, bytes, &fd, err);
    if (rc != 0)
        return rc;
    rc = device_code(m->import(m->argument, fd, bytes, &base));
    received_fd_close(fd);
    if (rc != 0)
        return error_set(err, rc, "%s: import of %zu bytes of rank %d: %s", m->name, bytes,
                         ch->peer, rinfo_strerror(rc));
    ch->device.base = base;
    ch->device.imported = true;
    ch->heap_remote.base = base;
    ch->heap_remote.bytes = bytes;
    return 0;
}

void device_release(struct rch *ch)
{
    const rmemory_ops_t *m = ch->cfg.memory;

    if (ch->device.imported)
        m->unimport(m->argument, ch->device.base, area_heap_bytes(&ch->cfg));
    else if (ch->device.base != NULL)
        m->free(m->argument, ch->device.base, area_heap_bytes(&ch->cfg));
    free(ch->device.why);
    ch->device = (struct device_heap){NULL, NULL, NULL, false};
}

/* ---- messages ---- */

/* The bytes of a message in memory of the host. */
static char *device_staging(const struct rch *ch, const struct rdesc *d)
{
    return ch->device.staging + d->offset;
}

int device_left(struct rch *ch, const struct rdesc *d, size_t bytes)
{
    const rmemory_ops_t *m = ch->cfg.memory;
    const char *call = "left";
    int rc = 0;

    if (d->units == 0 || bytes == 0)
        return 0;
    if (m->left != NULL)
        rc = device_code(m->left(m->argument, d->mem, bytes));
    if (rc == 0 && device_is_staged(ch)) {
        call = "copy_out";
        rc = device_code(m->copy_out(m->argument, device_staging(ch, d), d->mem, bytes));
        ch->counts.staged++;
    }
    RPIPE_FAILPOINT("device: message has left");
    return rc == 0 ? 0
                   : call_error(ch, rc, "%s: %s of %zu bytes: %s; nothing was sent", m->name, call,
                                bytes, rinfo_strerror(rc));
}

int device_arrived(struct rch *ch, struct rdesc *d)
{
    const rmemory_ops_t *m = ch->cfg.memory;
    const char *call = "arrived";
    int rc = 0;

    if (d->size == 0)
        return 0;
    if (device_is_staged(ch)) {
        call = "copy_in";
        rc = device_code(m->copy_in(m->argument, d->mem, device_staging(ch, d), d->size));
        ch->counts.staged++;
    } else if (m->arrived != NULL) {
        rc = device_code(m->arrived(m->argument, d->mem, d->size));
    }
    RPIPE_FAILPOINT("device: message has arrived");
    return rc == 0 ? 0
                   : call_error(ch, rc, "%s: %s of %zu bytes: %s; message %llu is lost", m->name,
                                call, d->size, rinfo_strerror(rc),
                                (unsigned long long)ch->path->delivered(ch));
}

static int device_copied(struct rch *ch, const char *call, size_t bytes, int rc)
{
    rc = device_code(rc);
    return rc == 0 ? 0
                   : call_error(ch, rc, "%s: %s of %zu bytes: %s", ch->cfg.memory->name, call,
                                bytes, rinfo_strerror(rc));
}

int device_fill(struct rch *ch, const struct rdesc *d, const void *from, size_t bytes)
{
    const rmemory_ops_t *m = ch->cfg.memory;

    if (device_is_staged(ch)) {
        memcpy(device_staging(ch, d), from, bytes);
        return 0;
    }
    return device_copied(ch, "copy_in", bytes, m->copy_in(m->argument, d->mem, from, bytes));
}

int device_extract(struct rch *ch, const struct rdesc *d, void *to)
{
    const rmemory_ops_t *m = ch->cfg.memory;

    if (device_is_staged(ch)) {
        memcpy(to, device_staging(ch, d), d->size);
        return 0;
    }
    return device_copied(ch, "copy_out", d->size, m->copy_out(m->argument, to, d->mem, d->size));
}

static int device_check_copy(struct rch *ch, bool has, const char *call)
{
    return has ? 0
               : call_error(ch, -ENOTSUP, "%s has no %s: use rwrite and rread",
                            ch->cfg.memory->name, call);
}

int device_check_fill(struct rch *ch)
{
    return device_check_copy(ch, ch->cfg.memory->copy_in != NULL, "copy_in");
}

int device_check_extract(struct rch *ch)
{
    return device_check_copy(ch, ch->cfg.memory->copy_out != NULL, "copy_out");
}

int device_refuses(struct rch *ch, const char *what)
{
    return call_error(ch, -ENOTSUP, "the heap is memory of a device (%s): no %s",
                      ch->cfg.memory->name, what);
}

/* ---- for observers ---- */

size_t device_describe(const struct rch *ch, char *text, size_t bytes)
{
    int n = snprintf(text, bytes, "memory of a device (%s), %s; ", ch->cfg.memory->name,
                     device_is_staged(ch) ? "staged through memory of the host"
                                          : "registered by its descriptor (dma-buf)");

    return n < 0 ? 0 : (size_t)n < bytes ? (size_t)n : bytes - 1;
}
