/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c: see device.h. */
#include "rpipe/end/device.h"

#include "rpipe/end/config.h"
#include "rpipe/end/error.h"
#include "rpipe/end/path.h"
#include "util/failpoint.h"
#include "util/received_fd.h"

#include <assert.h>
#include <errno.h>
#include <rinfo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static_assert((int)BTL_DEVICE_OTHER == (int)RMEMORY_OTHER &&
                  (int)BTL_DEVICE_CUDA == (int)RMEMORY_CUDA &&
                  (int)BTL_DEVICE_ROCM == (int)RMEMORY_ROCM &&
                  (int)BTL_DEVICE_ZE == (int)RMEMORY_ZE,
              "device_identity passes them on");

/* A code of the program's: what is not a negative errno value is one. */
static int device_code(int rc) { return rc <= 0 && rc > -4096 ? rc : -EIO; }

/* ---- memory of a table ---- */

/* A table whose alloc or import returns 0 has stored an address: every other call names the memory by it. */
static int device_no_address(const rmemory_ops_t *m, const char *call, size_t bytes,
                             struct error *err)
{
    return error_set(err, -EINVAL,
                     "%s: %s of %zu bytes returned 0 and no address (NULL); it must store one, or "
                     "return a negative errno value",
                     m->name, call, bytes);
}

int device_make(const rmemory_ops_t *m, size_t bytes, char **base, int *fd, struct error *err)
{
    void *made = NULL;
    int descriptor = -1, rc;

    rc = device_code(m->alloc(m->argument, bytes, &made, &descriptor));
    if (rc != 0)
        return error_set(err, rc, "%s: alloc of %zu bytes: %s", m->name, bytes, rinfo_strerror(rc));
    if (made == NULL) {
        if (descriptor >= 0)
            close(descriptor);
        return device_no_address(m, "alloc", bytes, err);
    }
    *base = made;
    *fd = descriptor;
    return 0;
}

int device_import_memory(struct rch *ch, const rmemory_ops_t *m, const struct btl_key *key,
                         size_t bytes, char **base, struct error *err)
{
    void *imported = NULL;
    int fd, rc;

    if (ch->ops->borrow_descriptor == NULL)
        return error_set(err, -ENOTSUP, "backend %s does not pass memory of a device (%s)",
                         ch->ops->name, m->name);
    rc = ch->ops->borrow_descriptor(ch->btl, ch->peer, key, bytes, &fd, err);
    if (rc != 0)
        return rc;
    rc = device_code(m->import(m->argument, fd, bytes, &imported));
    received_fd_close(fd);
    if (rc == R_PENDING)
        rc = -EIO;
    if (rc != 0)
        return error_set(err, rc, "%s: import of %zu bytes of rank %d: %s", m->name, bytes,
                         ch->peer, rinfo_strerror(rc));
    if (imported == NULL)
        return device_no_address(m, "import", bytes, err);
    *base = imported;
    return 0;
}

/* ---- segments ---- */

/* The peer shares this memory. */
static int device_lend(struct rch *ch, const struct device_segment *s, int fd,
                       struct btl_memory *memory, struct error *err)
{
    int rc;

    if (ch->ops->lend_descriptor == NULL)
        return error_set(err, -ENOTSUP, "backend %s does not pass memory of a device (%s)",
                         ch->ops->name, ch->cfg.memory->name);
    if (fd < 0)
        return error_set(err, -EINVAL,
                         "%s: alloc has made no descriptor, by which the other end could import "
                         "the memory",
                         ch->cfg.memory->name);
    rc = ch->ops->lend_descriptor(ch->btl, ch->peer, fd, s->bytes, memory, err);
    if (rc != 0)
        return rc;
    memory->base = s->base;
    memory->bytes = s->bytes;
    return 0;
}

/* By what a network may identify the memory. `own`: a descriptor to be closed after the registration, or -1; `why`: why there is none. */
static struct btl_device device_identity(const rmemory_ops_t *m, void *base, size_t bytes, int fd,
                                         int *own, struct error *why)
{
    struct btl_device identity = {
        .fd = fd, .no_fd = why->text, .kind = (enum btl_device_kind)config_device_kind(m)};
    int rc = 0;

    *own = -1;
    if (identity.kind != BTL_DEVICE_OTHER)
        identity.number = m->number;
    if (m->dmabuf != NULL) {
        rc = device_code(m->dmabuf(m->argument, base, bytes, own));
        identity.fd = rc == 0 ? *own : -1;
    }
    if (rc != 0)
        error_note(why, "%s: dmabuf of %zu bytes: %s", m->name, bytes, rinfo_strerror(rc));
    else if (identity.fd < 0)
        error_note(why, "%s has made no descriptor", m->name);
    return identity;
}

/* `end`: of the memory, when the registration has ended; NULL: the program's. -ENOTSUP and the reason, or the error of the backend. */
static int device_register_range(struct rch *ch, const rmemory_ops_t *m, const struct iovec *range,
                                 int fd, void (*end)(void *, void *, size_t), uint32_t access,
                                 struct btl_memory *memory, struct error *why)
{
    struct error no_fd = {""};
    struct btl_device identity;
    int own, rc;

    if (ch->ops->register_device == NULL)
        return error_set(why, -ENOTSUP, "backend %s does not register memory of devices",
                         ch->ops->name);
    identity = device_identity(m, range->iov_base, range->iov_len, fd, &own, &no_fd);
    identity.end = end;
    identity.argument = m->argument;
    rc = ch->ops->register_device(ch->btl, ch->peer, range->iov_base, range->iov_len, &identity,
                                  access, memory, why);
    if (own >= 0)
        close(own); /* the registration keeps the memory */
    return rc;
}

/* On failure the memory has to be staged. */
static int device_register(struct rch *ch, struct device_segment *s, int fd, uint32_t access,
                           struct btl_memory *memory, struct error *why)
{
    const struct iovec range = {s->base, s->bytes};
    int rc = device_register_range(ch, ch->cfg.memory, &range, fd, ch->cfg.memory->free, access,
                                   memory, why);

    s->registered = rc == 0;
    return rc;
}

int device_register_region(struct rch *ch, const rmemory_ops_t *m, const struct iovec *range,
                           int fd, uint32_t access, struct btl_memory *memory, struct error *why)
{
    return device_register_range(ch, m, range, fd, NULL, access, memory, why);
}

/* The copy that this side needs. */
static const char *device_missing_copy(const struct rch *ch)
{
    const rmemory_ops_t *m = ch->cfg.memory;

    if (config_side(&ch->cfg) == SIDE_WRITER)
        return m->copy_out == NULL ? "copy_out" : NULL;
    return m->copy_in == NULL ? "copy_in" : NULL;
}

static int device_stage(struct rch *ch, struct device_segment *s, uint32_t access,
                        struct btl_memory *memory, const struct error *why, struct error *err)
{
    const char *missing = device_missing_copy(ch);
    int rc;

    if (missing != NULL)
        return error_set(err, -ENOTSUP,
                         "%s has no %s, without which memory of a device is not reached over a "
                         "network: %.256s",
                         ch->cfg.memory->name, missing, why->text);
    rc = ch->ops->alloc(ch->btl, ch->peer, s->bytes, access, ch->cfg.huge_pages, memory, err);
    if (rc != 0)
        return rc;
    s->staging = memory->base;
    s->why = strdup(why->text); /* NULL: no memory for the text */
    return 0;
}

static int device_reach(struct rch *ch, struct device_segment *s, int fd, uint32_t access,
                        struct btl_memory *memory, struct error *err)
{
    struct error why = {""};

    if (device_is_shared(ch))
        return device_lend(ch, s, fd, memory, err);
    if (device_register(ch, s, fd, access, memory, &why) == 0)
        return 0;
    return device_stage(ch, s, access, memory, &why, err);
}

int device_allocate(struct rch *ch, struct device_segment *s, size_t bytes, uint32_t access,
                    struct btl_memory *memory, struct error *err)
{
    const rmemory_ops_t *m = ch->cfg.memory;
    int fd = -1, rc = device_make(m, bytes, &s->base, &fd, err);

    if (rc != 0)
        return rc;
    s->bytes = bytes;
    rc = device_reach(ch, s, fd, access, memory, err);
    if (fd >= 0)
        close(fd); /* the kernel has it on its way to the peer, or needs it no more */
    if (rc != 0) {
        m->free(m->argument, s->base, bytes);
        s->base = NULL;
    }
    return rc;
}

int device_import(struct rch *ch, struct device_segment *s, const struct btl_key *key, size_t bytes,
                  struct error *err)
{
    int rc = device_import_memory(ch, ch->cfg.memory, key, bytes, &s->base, err);

    if (rc != 0) /* a descriptor that has not arrived: it travels before this key */
        return rc == R_PENDING ? -EPROTO : rc;
    s->bytes = bytes;
    s->imported = true;
    return 0;
}

void device_append(struct rch *ch, struct device_segment *s)
{
    struct device_segment *last = &ch->device, *next;

    while ((next = atomic_load_explicit(&last->next, memory_order_relaxed)) != NULL)
        last = next;
    /* release: the segment is complete. Pairs with device_segment_of */
    atomic_store_explicit(&last->next, s, memory_order_release);
}

static void device_take_out(struct rch *ch, const struct device_segment *s)
{
    struct device_segment *at = &ch->device, *next;

    for (; (next = atomic_load_explicit(&at->next, memory_order_relaxed)) != NULL; at = next)
        if (next == s) {
            atomic_store_explicit(&at->next, atomic_load(&s->next), memory_order_relaxed);
            return;
        }
}

void device_release(struct rch *ch, struct device_segment *s)
{
    const rmemory_ops_t *m = ch->cfg.memory;

    if (s->base == NULL)
        return;
    device_take_out(ch, s);
    if (s->imported)
        m->unimport(m->argument, s->base, s->bytes);
    else if (!s->registered) /* else the backend does, when it has ended the registration */
        m->free(m->argument, s->base, s->bytes);
    free(s->why);
    s->base = s->staging = s->why = NULL;
    s->imported = s->registered = false;
    atomic_store_explicit(&s->next, NULL, memory_order_relaxed);
}

/* The segment that has this address. */
static const struct device_segment *device_segment_of(const struct rch *ch, const void *at)
{
    const struct device_segment *s = &ch->device;

    while ((uintptr_t)at - (uintptr_t)s->base >= s->bytes)
        s = atomic_load_explicit(&s->next, memory_order_acquire); /* pairs with device_append */
    return s;
}

/* ---- messages ---- */

/* The bytes of a message in memory of the host; NULL: it is not staged. */
static char *device_staging(const struct rch *ch, const void *at)
{
    const struct device_segment *s = device_segment_of(ch, at);

    return s->staging != NULL ? s->staging + ((const char *)at - s->base) : NULL;
}

bool device_is_staged(const struct rch *ch, const struct rdesc *d)
{
    return d->units != 0 && device_staging(ch, d->mem) != NULL;
}

int device_left(struct rch *ch, const struct rdesc *d, const void *at, size_t bytes)
{
    const rmemory_ops_t *m = ch->cfg.memory;
    const char *call = "left";
    char *staging;
    int rc = 0;

    if (d->units == 0 || bytes == 0)
        return 0;
    staging = device_staging(ch, at);
    if (m->left != NULL)
        rc = device_code(m->left(m->argument, (void *)(uintptr_t)at, bytes));
    if (rc == 0 && staging != NULL) {
        call = "copy_out";
        rc = device_code(m->copy_out(m->argument, staging, at, bytes));
    }
    RPIPE_FAILPOINT("device: message has left");
    return rc == 0 ? staging != NULL
                   : call_error(ch, rc, "%s: %s of %zu bytes: %s; nothing was sent", m->name, call,
                                bytes, rinfo_strerror(rc));
}

int device_arrived(struct rch *ch, struct rdesc *d)
{
    const rmemory_ops_t *m = ch->cfg.memory;
    const char *call = "arrived", *staging;
    int rc = 0;

    if (d->size == 0)
        return 0;
    staging = device_staging(ch, d->mem);
    if (staging != NULL) {
        call = "copy_in";
        rc = device_code(m->copy_in(m->argument, d->mem, staging, d->size));
        ch->counts.staged += rc == 0;
    } else if (m->arrived != NULL) {
        rc = device_code(m->arrived(m->argument, d->mem, d->size));
    }
    RPIPE_FAILPOINT("device: message has arrived");
    return rc == 0 ? 0
                   : call_error(ch, rc, "%s: %s of %zu bytes: %s; message %llu is lost", m->name,
                                call, d->size, rinfo_strerror(rc),
                                (unsigned long long)ch->path->delivered(ch));
}

/* ---- other memory ---- */

struct device_place {
    const rmemory_ops_t *memory; /* NULL: of the host */
    char *at;
};

/* Where a processor, or else a device, finds the bytes of a message. */
static struct device_place device_place_of(const struct rch *ch, const struct rdesc *d)
{
    char *staging;

    if (!device_has_heap(ch) || d->units == 0)
        return (struct device_place){NULL, d->mem};
    staging = device_staging(ch, d->mem);
    return staging != NULL ? (struct device_place){NULL, staging}
                           : (struct device_place){ch->cfg.memory, d->mem};
}

static int device_copied(struct rch *ch, const rmemory_ops_t *m, const char *call, size_t bytes,
                         int rc)
{
    rc = device_code(rc);
    return rc == 0 ? 0
                   : call_error(ch, rc, "%s: %s of %zu bytes: %s", m->name, call, bytes,
                                rinfo_strerror(rc));
}

static int device_copy_in(struct rch *ch, struct device_place to, const void *from, size_t bytes)
{
    const rmemory_ops_t *m = to.memory;

    return device_copied(ch, m, "copy_in", bytes, m->copy_in(m->argument, to.at, from, bytes));
}

static int device_copy_out(struct rch *ch, void *to, struct device_place from, size_t bytes)
{
    const rmemory_ops_t *m = from.memory;

    return device_copied(ch, m, "copy_out", bytes, m->copy_out(m->argument, to, from.at, bytes));
}

char *device_bounce_buffer(struct rch *ch)
{
    if (ch->device_bounce == NULL)
        ch->device_bounce = malloc(DEVICE_BOUNCE_BYTES);
    if (ch->device_bounce == NULL)
        (void)call_error(ch, -ENOMEM, "no memory for a buffer of copies from or to a device");
    return ch->device_bounce;
}

/* Between two devices: by a buffer of the host. */
static int device_bounce(struct rch *ch, struct device_place to, struct device_place from,
                         size_t bytes)
{
    int rc = device_bounce_buffer(ch) != NULL ? 0 : -ENOMEM;

    while (rc == 0 && bytes > 0) {
        size_t some = bytes < DEVICE_BOUNCE_BYTES ? bytes : DEVICE_BOUNCE_BYTES;

        rc = device_copy_out(ch, ch->device_bounce, from, some);
        if (rc == 0)
            rc = device_copy_in(ch, to, ch->device_bounce, some);
        to.at += some;
        from.at += some;
        bytes -= some;
    }
    return rc;
}

static int device_move(struct rch *ch, struct device_place to, struct device_place from,
                       size_t bytes)
{
    if (to.memory != NULL && from.memory != NULL)
        return device_bounce(ch, to, from, bytes);
    if (to.memory != NULL)
        return device_copy_in(ch, to, from.at, bytes);
    if (from.memory != NULL)
        return device_copy_out(ch, to.at, from, bytes);
    memcpy(to.at, from.at, bytes);
    return 0;
}

int device_call_left(struct rch *ch, const rmemory_ops_t *m, const void *at, size_t bytes)
{
    return m == NULL || m->left == NULL
               ? 0
               : device_copied(ch, m, "left", bytes,
                               m->left(m->argument, (void *)(uintptr_t)at, bytes));
}

int device_call_arrived(struct rch *ch, const rmemory_ops_t *m, void *at, size_t bytes)
{
    return m == NULL || m->arrived == NULL
               ? 0
               : device_copied(ch, m, "arrived", bytes, m->arrived(m->argument, at, bytes));
}

int device_fill(struct rch *ch, const struct rdesc *d, const rmemory_ops_t *memory,
                const void *from, size_t bytes)
{
    struct device_place source = {memory, (char *)(uintptr_t)from};
    int rc;

    if (bytes == 0)
        return 0;
    rc = device_call_left(ch, memory, from, bytes);
    return rc == 0 ? device_move(ch, device_place_of(ch, d), source, bytes) : rc;
}

int device_extract(struct rch *ch, const struct rdesc *d, const rmemory_ops_t *memory, void *to)
{
    if (d->size == 0)
        return 0;
    return device_move(ch, (struct device_place){memory, to}, device_place_of(ch, d), d->size);
}

int device_load(struct rch *ch, const rmemory_ops_t *memory, void *to, const void *from,
                size_t bytes)
{
    int rc = device_call_left(ch, memory, from, bytes);

    return rc == 0 ? device_copy_out(ch, to, (struct device_place){memory, (char *)(uintptr_t)from},
                                     bytes)
                   : rc;
}

int device_store(struct rch *ch, const rmemory_ops_t *memory, void *to, const void *from,
                 size_t bytes)
{
    return device_copy_in(ch, (struct device_place){memory, to}, from, bytes);
}

int device_put(struct rch *ch, const rmemory_ops_t *there, void *at, const rmemory_ops_t *near,
               const void *from, size_t bytes)
{
    const struct device_place to = {there, at}, source = {near, (char *)(uintptr_t)from};
    int rc = device_call_left(ch, near, from, bytes);

    if (rc == 0)
        rc = device_move(ch, to, source, bytes);
    RPIPE_FAILPOINT("window: copied to the device");
    return rc == 0 ? device_call_left(ch, there, at, bytes) : rc;
}

int device_get(struct rch *ch, const rmemory_ops_t *there, void *at, const rmemory_ops_t *near,
               void *into, size_t bytes)
{
    int rc = device_call_arrived(ch, there, at, bytes);

    return rc == 0 ? device_move(ch, (struct device_place){near, into},
                                 (struct device_place){there, at}, bytes)
                   : rc;
}

static int device_check_copy(struct rch *ch, const rmemory_ops_t *m, bool has, const char *call)
{
    return has ? 0 : call_error(ch, -ENOTSUP, "%s has no %s: use rwrite and rread", m->name, call);
}

int device_check_load(struct rch *ch, const rmemory_ops_t *memory)
{
    return memory == NULL ? 0 : device_check_copy(ch, memory, memory->copy_out != NULL, "copy_out");
}

int device_check_store(struct rch *ch, const rmemory_ops_t *memory)
{
    return memory == NULL ? 0 : device_check_copy(ch, memory, memory->copy_in != NULL, "copy_in");
}

int device_check_fill(struct rch *ch, const rmemory_ops_t *memory)
{
    int rc = device_check_load(ch, memory);

    return rc == 0 ? device_check_store(ch, ch->cfg.memory) : rc;
}

int device_check_extract(struct rch *ch, const rmemory_ops_t *memory)
{
    int rc = device_check_store(ch, memory);

    return rc == 0 ? device_check_load(ch, ch->cfg.memory) : rc;
}

/* ---- for observers ---- */

size_t device_describe(const struct rch *ch, char *text, size_t bytes)
{
    int n = snprintf(text, bytes, "memory of a device (%s), %s; ", ch->cfg.memory->name,
                     ch->device.staging != NULL ? "staged through memory of the host"
                                                : "registered, and reached by the network itself");

    return n < 0 ? 0 : (size_t)n < bytes ? (size_t)n : bytes - 1;
}
