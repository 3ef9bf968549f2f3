/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rgpu.c: memory of a GPU for the heaps of pipes; see rgpu.h.
 *
 * Memory is created with a handle that can be exported as a file descriptor, and mapped to reserved addresses. The handle is released as
 * soon as it is mapped, and the size of a mapping follows from that of the heap: so nothing is recorded for a heap, and what
 * an end of a mapping needs is its address.
 *
 * Every call may be made by a thread of the library's, which has no context: it is made current for the call alone. The structure is
 * constant after rgpu_open, but for what rgpu_wait_for sets and for the message of the last failure, which has a lock.
 */
#include "rgpu.h"

#include "rgpu_driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef AT_STATX_DONT_SYNC
#define AT_STATX_DONT_SYNC 0x4000
#endif

enum { RGPU_EVENTS = 16 };

enum rgpu_writes { WRITES_IN_ORDER, WRITES_FLUSHED, WRITES_UNORDERED };

struct rgpu {
    struct driver driver;
    rmemory_ops_t memory;
    struct driver_properties properties; /* of what alloc makes */
    size_t granularity;                  /* of sizes of mappings */
    void *context, *copies;              /* the primary context; a stream for copies */
    void *event[RGPU_EVENTS];            /* that no wait uses; under the lock */
    int events;
    int device;
    enum rgpu_writes writes; /* by networks */
    atomic_bool registered;  /* rgpu_dmabuf was called: a network may write into the memory */
    atomic_bool stuck;       /* a copy has not ended in time */
    rgpu_wait_t wait;
    int wait_ms;
    void *stream;
    char name[100];
    pthread_mutex_t lock; /* of error and event */
    char error[RGPU_ERROR_BYTES];
};

static __attribute__((format(printf, 3, 4))) int rgpu_fail(struct rgpu *gpu, int rc,
                                                           const char *format, ...)
{
    va_list arguments;

    pthread_mutex_lock(&gpu->lock);
    va_start(arguments, format);
    (void)vsnprintf(gpu->error, sizeof(gpu->error), format, arguments);
    va_end(arguments);
    pthread_mutex_unlock(&gpu->lock);
    return rc;
}

/* 0, or -errno and a message with the names of the driver. */
static int rgpu_result(struct rgpu *gpu, size_t call, int code)
{
    const char *name = NULL;

    if (code == DRIVER_SUCCESS)
        return 0;
    if (gpu->driver.error_name(code, &name) != DRIVER_SUCCESS || name == NULL)
        name = "unknown error";
    return rgpu_fail(gpu,
                     code == DRIVER_OUT_OF_MEMORY    ? -ENOMEM
                     : code == DRIVER_NO_DEVICE      ? -ENODEV
                     : code == DRIVER_INVALID_DEVICE ? -ENODEV
                     : code == DRIVER_NOT_SUPPORTED  ? -ENOTSUP
                                                     : -EIO,
                     "%s: %s (%d)", driver_function(&gpu->driver, call), name, code);
}

#define RGPU_CALL(gpu, call, ...)                                                                  \
    rgpu_result((gpu), offsetof(struct driver, call), (gpu)->driver.call(__VA_ARGS__))

/* ---- the context of a thread ---- */

/* *pushed: for rgpu_leave. */
static int rgpu_enter(struct rgpu *gpu, bool *pushed)
{
    void *current = NULL;

    *pushed = false;
    if (gpu->driver.context_current(&current) == DRIVER_SUCCESS && current == gpu->context)
        return 0;
    *pushed = true;
    return RGPU_CALL(gpu, context_push, gpu->context);
}

static void rgpu_leave(struct rgpu *gpu, bool pushed)
{
    void *popped;

    if (pushed)
        (void)RGPU_CALL(gpu, context_pop, &popped);
}

/* ---- memory ---- */

static size_t rgpu_mapped_bytes(const struct rgpu *gpu, size_t bytes)
{
    return (bytes + gpu->granularity - 1) / gpu->granularity * gpu->granularity;
}

/* Maps the memory of a handle for this device. */
static int rgpu_map(struct rgpu *gpu, uint64_t handle, size_t bytes, void **base)
{
    const struct driver_access access = {gpu->properties.location, DRIVER_READ_WRITE};
    uint64_t at = 0;
    int rc;

    rc = RGPU_CALL(gpu, reserve, &at, bytes, 0, 0, 0);
    if (rc != 0)
        return rc;
    rc = RGPU_CALL(gpu, map, at, bytes, 0, handle, 0);
    if (rc != 0)
        goto unreserve;
    rc = RGPU_CALL(gpu, set_access, at, bytes, &access, 1);
    if (rc != 0)
        goto unmap;
    *base = (void *)(uintptr_t)at;
    return 0;
unmap:
    (void)gpu->driver.unmap(at, bytes);
unreserve:
    (void)gpu->driver.unreserve(at, bytes);
    return rc;
}

/* The memory goes with its last mapping, which may be another process's. */
static void rgpu_unmap(void *argument, void *base, size_t bytes)
{
    struct rgpu *gpu = argument;
    size_t mapped = rgpu_mapped_bytes(gpu, bytes);
    bool pushed;

    if (rgpu_enter(gpu, &pushed) != 0)
        return;
    (void)RGPU_CALL(gpu, unmap, (uintptr_t)base, mapped);
    (void)RGPU_CALL(gpu, unreserve, (uintptr_t)base, mapped);
    rgpu_leave(gpu, pushed);
}

static int rgpu_create(struct rgpu *gpu, size_t bytes, void **base, int *fd)
{
    size_t mapped = rgpu_mapped_bytes(gpu, bytes);
    uint64_t handle;
    int exported = -1, rc;

    rc = RGPU_CALL(gpu, create, &handle, mapped, &gpu->properties, 0);
    if (rc != 0)
        return rc;
    rc = RGPU_CALL(gpu, export_fd, &exported, handle, DRIVER_FD, 0);
    if (rc == 0)
        rc = rgpu_map(gpu, handle, mapped, base);
    (void)gpu->driver.release(handle); /* the mapping and the descriptor keep the memory */
    if (rc != 0) {
        if (exported >= 0)
            close(exported);
        return rc;
    }
    (void)fcntl(exported, F_SETFD, FD_CLOEXEC);
    *fd = exported;
    return 0;
}

static int rgpu_alloc(void *argument, size_t bytes, void **base, int *fd)
{
    struct rgpu *gpu = argument;
    bool pushed;
    int rc = rgpu_enter(gpu, &pushed);

    if (rc != 0)
        return rc;
    rc = rgpu_create(gpu, bytes, base, fd);
    rgpu_leave(gpu, pushed);
    return rc;
}

/*
 * For networks: the handle of CUDA's memory is no dma-buf. Addresses and sizes of mappings are whole pages. A network may
 * also register the memory by the kind of the device, without such a descriptor.
 */
static int rgpu_dmabuf(void *argument, void *base, size_t bytes, int *fd)
{
    struct rgpu *gpu = argument;
    int exported = -1, rc;
    bool pushed;

    atomic_store(&gpu->registered, true);
    if (gpu->driver.range_fd == NULL)
        return rgpu_fail(gpu, -ENOTSUP, "the driver has no %s: it is too old",
                         driver_function(&gpu->driver, offsetof(struct driver, range_fd)));
    if (gpu->writes == WRITES_UNORDERED)
        return rgpu_fail(gpu, -ENOTSUP,
                         "the device does not keep writes of networks in order, and the driver has "
                         "nothing to flush them");
    rc = rgpu_enter(gpu, &pushed);
    if (rc != 0)
        return rc;
    rc = RGPU_CALL(gpu, range_fd, &exported, (uintptr_t)base, rgpu_mapped_bytes(gpu, bytes),
                   DRIVER_DMABUF, 0);
    rgpu_leave(gpu, pushed);
    if (rc != 0)
        return rc;
    (void)fcntl(exported, F_SETFD, FD_CLOEXEC);
    *fd = exported;
    return 0;
}

/* ---- memory of another process ---- */

/*
 * What can be checked without a wait for another process, which calls on a file of FUSE or on a socket may be: memory of a GPU is a
 * character device of the driver's or a dma-buf, which is an inode without a type. The size of a dma-buf is its end; that
 * of a character device is checked by the driver, which refuses a mapping of another size.
 */
static int rgpu_check_descriptor(struct rgpu *gpu, int fd, size_t bytes)
{
    enum { TYPE = 0170000, CHARACTER = 0020000 };
    struct statx about = {0};
    off_t end;

    if (fcntl(fd, F_GET_SEALS) < 0) { /* nor a memfd, which the driver refuses */
        if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &about) != 0)
            return rgpu_fail(gpu, -errno, "statx: %s", strerror(errno));
        if ((about.stx_mode & TYPE) == CHARACTER)
            return 0;
        if ((about.stx_mode & TYPE) != 0)
            return rgpu_fail(gpu, -EPROTO, "the descriptor is no memory of a GPU: its type is %#o",
                             about.stx_mode & TYPE);
    }
    end = lseek(fd, 0, SEEK_END);
    if (end > 0 && (uint64_t)end < bytes)
        return rgpu_fail(gpu, -EPROTO, "the descriptor has %lld bytes of memory, not %zu",
                         (long long)end, bytes);
    return 0;
}

static int rgpu_import_handle(struct rgpu *gpu, int fd, size_t bytes, void **base)
{
    struct driver_properties properties = {0};
    uint64_t handle;
    int rc;

    rc = RGPU_CALL(gpu, import_fd, &handle,
                   gpu->driver.fd_by_reference ? (void *)&fd : (void *)(intptr_t)fd, DRIVER_FD);
    if (rc != 0)
        return rc;
    rc = RGPU_CALL(gpu, properties, &properties, handle);
    if (rc == 0 && (properties.type != DRIVER_PINNED || properties.location.type != DRIVER_DEVICE))
        rc = rgpu_fail(gpu, -EPROTO,
                       "the memory is of type %d at a location of type %d, not a GPU's",
                       properties.type, properties.location.type);
    if (rc == 0)
        rc = rgpu_map(gpu, handle, rgpu_mapped_bytes(gpu, bytes), base);
    (void)gpu->driver.release(handle);
    return rc;
}

static int rgpu_import(void *argument, int fd, size_t bytes, void **base)
{
    struct rgpu *gpu = argument;
    bool pushed;
    int rc = rgpu_check_descriptor(gpu, fd, bytes);

    if (rc != 0 || (rc = rgpu_enter(gpu, &pushed)) != 0)
        return rc;
    rc = rgpu_import_handle(gpu, fd, bytes, base);
    rgpu_leave(gpu, pushed);
    /* the driver refuses what the peer has passed; CUDA calls memory of another size not supported */
    return rc == -EIO || rc == -ENOTSUP ? -EPROTO : rc;
}

/* ---- bytes ---- */

static int64_t rgpu_clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Polls `of`, since the driver's own waits have no deadline. Gives the core away after 50 us. */
static int rgpu_poll(struct rgpu *gpu, size_t call, int (*query)(void *), void *of,
                     const char *what)
{
    int64_t begun = rgpu_clock_ns(), waited = 0;
    int code;

    while ((code = query(of)) == DRIVER_NOT_READY) {
        waited = rgpu_clock_ns() - begun;
        if (waited > gpu->wait_ms * INT64_C(1000000))
            return rgpu_fail(gpu, -ETIMEDOUT, "%s has not completed for %d ms", what, gpu->wait_ms);
        if (waited > 50000)
            sched_yield();
    }
    return rgpu_result(gpu, call, code);
}

#define RGPU_POLL(gpu, query, of, what)                                                            \
    rgpu_poll((gpu), offsetof(struct driver, query), (gpu)->driver.query, (of), (what))

/* An event for one wait: threads that wait at the same time have one each. */
static int rgpu_event_take(struct rgpu *gpu, void **event)
{
    *event = NULL;
    pthread_mutex_lock(&gpu->lock);
    if (gpu->events > 0)
        *event = gpu->event[--gpu->events];
    pthread_mutex_unlock(&gpu->lock);
    return *event != NULL ? 0 : RGPU_CALL(gpu, event_create, event, DRIVER_NO_TIMING);
}

static void rgpu_event_put(struct rgpu *gpu, void *event)
{
    pthread_mutex_lock(&gpu->lock);
    if (gpu->events < RGPU_EVENTS) {
        gpu->event[gpu->events++] = event;
        event = NULL;
    }
    pthread_mutex_unlock(&gpu->lock);
    if (event != NULL)
        (void)gpu->driver.event_destroy(event);
}

struct rgpu_copy {
    void *to;
    const void *from;
    size_t bytes;
    bool in; /* into the device */
};

/*
 * Copies have a stream of their own, so that they wait for nothing else, and are complete when an event behind them is: a copy from
 * memory that is not pinned may return when the bytes are staged. The event is there before the copy, which would be in flight without it.
 */
static int rgpu_copy_with(struct rgpu *gpu, const struct rgpu_copy *c, void *event)
{
    int rc = c->in ? RGPU_CALL(gpu, copy_in, (uintptr_t)c->to, c->from, c->bytes, gpu->copies)
                   : RGPU_CALL(gpu, copy_out, c->to, (uintptr_t)c->from, c->bytes, gpu->copies);
    int recorded;

    if (rc != 0)
        return rc;
    recorded = RGPU_CALL(gpu, event_record, event, gpu->copies);
    rc = recorded == 0 ? RGPU_POLL(gpu, event_query, event, "a copy")
                       : RGPU_POLL(gpu, stream_query, gpu->copies, "a copy");
    if (rc == -ETIMEDOUT)
        atomic_store(&gpu->stuck, true);
    return recorded != 0 ? recorded : rc;
}

static int rgpu_copy(struct rgpu *gpu, const struct rgpu_copy *c)
{
    void *event;
    bool pushed;
    int rc;

    if (atomic_load(&gpu->stuck))
        return rgpu_fail(gpu, -EIO, "an earlier copy has not completed, and may be made yet");
    rc = rgpu_enter(gpu, &pushed);
    if (rc != 0)
        return rc;
    rc = rgpu_event_take(gpu, &event);
    if (rc == 0) {
        rc = rgpu_copy_with(gpu, c, event);
        rgpu_event_put(gpu, event);
    }
    rgpu_leave(gpu, pushed);
    return rc;
}

static int rgpu_copy_in(void *argument, void *to, const void *from, size_t bytes)
{
    return rgpu_copy(argument, &(struct rgpu_copy){to, from, bytes, true});
}

static int rgpu_copy_out(void *argument, void *to, const void *from, size_t bytes)
{
    return rgpu_copy(argument, &(struct rgpu_copy){to, from, bytes, false});
}

/* All work of the context, by an event where the driver has one for that. */
static int rgpu_wait_for_context(struct rgpu *gpu)
{
    void *event;
    int rc;

    if (gpu->driver.context_record == NULL)
        return RGPU_CALL(gpu, synchronize);
    rc = rgpu_event_take(gpu, &event);
    if (rc != 0)
        return rc;
    rc = RGPU_CALL(gpu, context_record, gpu->context, event);
    if (rc == 0)
        rc = RGPU_POLL(gpu, event_query, event, "the work of the context");
    rgpu_event_put(gpu, event);
    return rc;
}

/*
 * What a kernel has stored is visible to all processes when its stream is complete. At the reader nothing is left to do within a host:
 * work that is started after that sees it.
 */
static int rgpu_left(void *argument, void *at, size_t bytes)
{
    struct rgpu *gpu = argument;
    bool pushed;
    int rc;

    (void)at, (void)bytes;
    if (gpu->wait == RGPU_WAIT_NOT)
        return 0;
    rc = rgpu_enter(gpu, &pushed);
    if (rc != 0)
        return rc;
    rc = gpu->wait == RGPU_WAIT_STREAM
             ? RGPU_POLL(gpu, stream_query, gpu->stream, "the work of the stream")
             : rgpu_wait_for_context(gpu);
    rgpu_leave(gpu, pushed);
    return rc;
}

/* In the table of a device that does not keep writes of networks in order with its later work. */
static int rgpu_arrived(void *argument, void *at, size_t bytes)
{
    struct rgpu *gpu = argument;
    bool pushed;
    int rc;

    (void)at, (void)bytes;
    if (!atomic_load_explicit(&gpu->registered, memory_order_relaxed))
        return 0; /* no network writes into its memory */
    rc = rgpu_enter(gpu, &pushed);
    if (rc != 0)
        return rc;
    rc = RGPU_CALL(gpu, flush, DRIVER_THIS_CONTEXT, DRIVER_TO_OWNER);
    rgpu_leave(gpu, pushed);
    return rc;
}

/* ---- the device ---- */

/* With the context current. */
static int rgpu_prepare(struct rgpu *gpu)
{
    int rc = RGPU_CALL(gpu, stream_create, &gpu->copies, DRIVER_NON_BLOCKING);

    if (rc == 0)
        rc = RGPU_CALL(gpu, granularity, &gpu->granularity, &gpu->properties, 0);
    if (rc == 0 && gpu->granularity == 0)
        rc = rgpu_fail(gpu, -EIO, "memory has a granularity of 0 bytes");
    if (rc != 0 && gpu->copies != NULL)
        (void)gpu->driver.stream_destroy(gpu->copies);
    return rc;
}

static int rgpu_attribute(const struct rgpu *gpu, int attribute)
{
    int value = 0;

    return gpu->driver.attribute(&value, attribute, gpu->device) == DRIVER_SUCCESS ? value : 0;
}

/* Devices that share the memory of the host cannot, and refuse memory with this flag. */
static bool rgpu_reached_by_networks(const struct rgpu *gpu)
{
    return gpu->driver.attribute != NULL && rgpu_attribute(gpu, DRIVER_NETWORKS) != 0;
}

/* HIP has nothing of this kind. */
static enum rgpu_writes rgpu_writes_of_networks(const struct rgpu *gpu)
{
    if (gpu->driver.attribute == NULL ||
        rgpu_attribute(gpu, DRIVER_WRITES_ORDERING) >= DRIVER_TO_OWNER)
        return WRITES_IN_ORDER;
    return gpu->driver.flush != NULL &&
                   (rgpu_attribute(gpu, DRIVER_FLUSH_OPTIONS) & DRIVER_FLUSH_BY_HOST) != 0
               ? WRITES_FLUSHED
               : WRITES_UNORDERED;
}

/* None where a network that writes into the memory by itself would be out of order. */
static rmemory_kind_t rgpu_kind(const struct rgpu *gpu)
{
    if (gpu->writes == WRITES_UNORDERED)
        return RMEMORY_OTHER;
    return strcmp(gpu->driver.api, "hip") == 0 ? RMEMORY_ROCM : RMEMORY_CUDA;
}

static int rgpu_open_device(struct rgpu *gpu, int ordinal)
{
    bool pushed;
    int rc;

    if ((rc = RGPU_CALL(gpu, init, 0)) != 0 ||
        (rc = RGPU_CALL(gpu, device_get, &gpu->device, ordinal)) != 0 ||
        (rc = RGPU_CALL(gpu, device_name, gpu->name, (int)sizeof(gpu->name), gpu->device)) != 0 ||
        (rc = RGPU_CALL(gpu, context_retain, &gpu->context, gpu->device)) != 0)
        return rc;
    gpu->properties = (struct driver_properties){
        .type = DRIVER_PINNED, .handle_types = DRIVER_FD, .location = {DRIVER_DEVICE, gpu->device}};
    gpu->properties.flags[DRIVER_FLAG_NETWORKS] = rgpu_reached_by_networks(gpu);
    gpu->writes = rgpu_writes_of_networks(gpu);
    rc = rgpu_enter(gpu, &pushed);
    if (rc == 0) {
        rc = rgpu_prepare(gpu);
        rgpu_leave(gpu, pushed);
    }
    if (rc != 0)
        (void)gpu->driver.context_release(gpu->device);
    return rc;
}

int rgpu_open(rgpu_t *opened, const char *api, const char *library, int device, char *error,
              size_t bytes)
{
    struct rgpu *gpu = calloc(1, sizeof(*gpu));
    int rc;

    if (gpu == NULL) {
        (void)snprintf(error, bytes, "there is no memory for the state of a GPU");
        return -ENOMEM;
    }
    rc = driver_open(&gpu->driver, api, library, error, bytes);
    if (rc != 0) {
        free(gpu);
        return rc;
    }
    pthread_mutex_init(&gpu->lock, NULL);
    rc = rgpu_open_device(gpu, device);
    if (rc != 0) {
        (void)snprintf(error, bytes, "%s, device %d: %s", api, device, gpu->error);
        pthread_mutex_destroy(&gpu->lock);
        free(gpu);
        return rc;
    }
    gpu->wait_ms = RGPU_WAIT_MS;
    gpu->memory = (rmemory_ops_t){.version = RMEMORY_VERSION,
                                  .name = gpu->driver.api,
                                  .argument = gpu,
                                  .alloc = rgpu_alloc,
                                  .free = rgpu_unmap,
                                  .import = rgpu_import,
                                  .unimport = rgpu_unmap,
                                  .copy_in = rgpu_copy_in,
                                  .copy_out = rgpu_copy_out,
                                  .left = rgpu_left,
                                  .arrived = gpu->writes == WRITES_FLUSHED ? rgpu_arrived : NULL,
                                  .dmabuf = rgpu_dmabuf,
                                  .kind = rgpu_kind(gpu),
                                  .number = (uint64_t)gpu->device};
    *opened = gpu;
    return 0;
}

void rgpu_close(rgpu_t gpu)
{
    bool pushed;

    if (rgpu_enter(gpu, &pushed) == 0) {
        while (gpu->events > 0)
            (void)gpu->driver.event_destroy(gpu->event[--gpu->events]);
        (void)gpu->driver.stream_destroy(gpu->copies);
        rgpu_leave(gpu, pushed);
    }
    (void)gpu->driver.context_release(gpu->device);
    pthread_mutex_destroy(&gpu->lock);
    free(gpu);
}

const rmemory_ops_t *rgpu_memory(rgpu_t gpu) { return &gpu->memory; }

void rgpu_wait_for(rgpu_t gpu, rgpu_wait_t what, void *stream)
{
    gpu->wait = what;
    gpu->stream = stream;
}

void rgpu_set_wait_ms(rgpu_t gpu, int ms) { gpu->wait_ms = ms; }

void rgpu_error(rgpu_t gpu, char *error, size_t bytes)
{
    pthread_mutex_lock(&gpu->lock);
    (void)snprintf(error, bytes, "%s", gpu->error);
    pthread_mutex_unlock(&gpu->lock);
}

const char *rgpu_name(rgpu_t gpu) { return gpu->name; }

int rgpu_use(rgpu_t gpu) { return RGPU_CALL(gpu, context_set, gpu->context); }

void *rgpu_function(rgpu_t gpu, const char *name) { return dlsym(gpu->driver.library, name); }
