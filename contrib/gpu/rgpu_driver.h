/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rgpu_driver.h: the functions of a driver of GPUs, CUDA's or HIP's, which is opened at run time.
 *
 * The two have the same functions with the same arguments, under names of their own, and the same values of what is used here: so
 * this is one structure of pointers. Types are those of the calling convention: an address of the device, and a handle of memory,
 * are 64 bits (CUdeviceptr and CUmemGenericAllocationHandle, or pointers), a context and a stream are pointers, codes and devices
 * are ints.
 */
#ifndef RGPU_DRIVER_H
#define RGPU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

enum { /* codes */
       DRIVER_SUCCESS = 0,
       DRIVER_OUT_OF_MEMORY = 2,
       DRIVER_NO_DEVICE = 100,
       DRIVER_INVALID_DEVICE = 101,
       DRIVER_NOT_READY = 600,
       DRIVER_NOT_SUPPORTED = 801
};
enum { DRIVER_PINNED = 1, DRIVER_DEVICE = 1, DRIVER_FD = 1, DRIVER_READ_WRITE = 3 };
enum { DRIVER_DMABUF = 1 }; /* type of a handle of a range of addresses */
enum {                      /* attributes of a device of CUDA */
       DRIVER_NETWORKS =
           110, /* memory with handles can be reached by networks, if it is made for that */
       DRIVER_FLUSH_OPTIONS = 117, /* DRIVER_FLUSH_BY_HOST: flush is there */
       DRIVER_WRITES_ORDERING =
           118 /* for which devices writes of networks are in order with what follows them */
};
enum { DRIVER_FLUSH_BY_HOST = 1, DRIVER_THIS_CONTEXT = 0, DRIVER_TO_OWNER = 100 };
enum { DRIVER_NO_TIMING = 2 };    /* flag of an event */
enum { DRIVER_NON_BLOCKING = 1 }; /* flag of a stream: not ordered with the default stream */

struct driver_location {
    int type, id; /* DRIVER_DEVICE, its number */
};

struct driver_properties { /* of memory; CUmemAllocationProp, hipMemAllocationProp */
    int type, handle_types;
    struct driver_location location;
    void *not_used;
    uint8_t flags[8]; /* DRIVER_FLAG_NETWORKS: gpuDirectRDMACapable */
};
enum { DRIVER_FLAG_NETWORKS = 1 };
_Static_assert(sizeof(struct driver_properties) == 32, "the layout of CUmemAllocationProp");

struct driver_access { /* CUmemAccessDesc, hipMemAccessDesc */
    struct driver_location location;
    int flags;
};
_Static_assert(sizeof(struct driver_access) == 12, "the layout of CUmemAccessDesc");

struct driver {
    const char *api;     /* "cuda", "hip" */
    void *library;       /* stays open: a driver has threads of its own */
    int names;           /* column of the table of names */
    int fd_by_reference; /* imports take the address of a descriptor instead of its value */

    int (*init)(unsigned flags);
    int (*error_name)(int code, const char **name);
    int (*device_get)(int *device, int ordinal);
    int (*device_name)(char *name, int bytes, int device);
    int (*context_retain)(void **context, int device);
    int (*context_release)(int device);
    int (*context_current)(void **context);
    int (*context_push)(void *context);
    int (*context_pop)(void **context);
    int (*context_set)(void *context);
    int (*synchronize)(void);

    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_query)(void *stream);
    int (*event_create)(void **event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);
    int (*copy_in)(uint64_t to, const void *from, size_t bytes, void *stream);
    int (*copy_out)(void *to, uint64_t from, size_t bytes, void *stream);

    int (*granularity)(size_t *bytes, const struct driver_properties *properties, int recommended);
    int (*create)(uint64_t *handle, size_t bytes, const struct driver_properties *properties,
                  unsigned long long flags);
    int (*release)(uint64_t handle);
    int (*properties)(struct driver_properties *properties, uint64_t handle);
    int (*export_fd)(void *fd, uint64_t handle, int type, unsigned long long flags);
    int (*import_fd)(uint64_t *handle, void *fd, int type);
    int (*reserve)(uint64_t *at, size_t bytes, size_t alignment, uint64_t hint,
                   unsigned long long flags);
    int (*unreserve)(uint64_t at, size_t bytes);
    int (*map)(uint64_t at, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags);
    int (*unmap)(uint64_t at, size_t bytes);
    int (*set_access)(uint64_t at, size_t bytes, const struct driver_access *access, size_t n);

    /* NULL: this driver has none */
    int (*attribute)(int *value, int attribute, int device);
    int (*context_record)(void *context, void *event); /* all work of the context */
    int (*flush)(int target, int scope);               /* of writes by networks */
    int (*range_fd)(void *fd, uint64_t at, size_t bytes, int type, unsigned long long flags);
};

/* -ENOENT: no such library, or without one of the functions; -EINVAL: no such api. error: the reason. */
int driver_open(struct driver *driver, const char *api, const char *library, char *error,
                size_t bytes);
/* The driver's name of the function whose pointer is at this offset. */
const char *driver_function(const struct driver *driver, size_t offset);

#endif
