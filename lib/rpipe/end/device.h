/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h: a heap in memory of a device: the program's table of calls, and when each is made (doc/devices.md).
 *
 * The allocator keeps nothing in the memory that it manages, so the heap may be memory that no processor can touch. How it is made,
 * how the other process gets at it, and when bytes are visible is the program's (rmemory_ops_t). Such an end has STATE_DEVICE, and so
 * every call on it takes the slow path; no message with bytes travels in its slot.
 *
 * Three ways of a payload, each chosen when an end makes its memory:
 *   shared      the backend maps memory of the peer: one memory, which the peer imports by its descriptor
 *   registered  a network whose device reaches this memory: each end has memory of its own, as with a heap in memory of the host
 *   staged      any other network: the same, and the network moves a copy of it in memory of the host, the staging memory. rwrite copies the
 *               message out of the device, rread into it
 *
 * Order of a message: the device's stores to the payload; `left`; staged: copy_out; slot and flag (release); flag (acquire);
 * `arrived`, or staged: copy_in; the device's loads.
 *
 * A heap that grows has a segment for each growth, each with a way of its own. A message is in one of them, which is found by its address.
 *
 * Invariants
 * 1. A byte of the staging memory belongs to the end that has the byte of the heap at the same offset. So the rules by which a network
 *    uses the heap of the host again hold for the staging memory.
 * 2. Segments are appended when they are complete, by one thread: the writer's, or the reader's service thread. A thread that has a message
 *    in a segment finds it. One is taken out only while no message can be in it.
 */
#ifndef RPIPE_END_DEVICE_H
#define RPIPE_END_DEVICE_H

#include "rpipe/end/rch.h"
#include "util/error.h"

#include <sys/uio.h>

static inline bool device_has_heap(const struct rch *ch) { return ch->cfg.memory != NULL; }

/* The ends map or import one memory. */
static inline bool device_is_shared(const struct rch *ch)
{
    return (ch->ops->attributes.capabilities & BTL_LOAD_STORE) != 0;
}

/* ---- memory of a table ---- */

/* Allocates; *fd: by which another process imports it, the caller's, or -1. 0, or the code of the table and the reason. */
int device_make(const rmemory_ops_t *memory, size_t bytes, char **base, int *fd, struct error *err);
/*
 * Imports what the peer's key names. R_PENDING: its descriptor has not arrived yet; no code of the table is that.
 */
int device_import_memory(struct rch *ch, const rmemory_ops_t *memory, const struct btl_key *key,
                         size_t bytes, char **base, struct error *err);

/* ---- segments ---- */

/*
 * The end with the heap, and over a network the other one too: allocates bytes of the device. `memory` is what the backend
 * lends (its key) or transfers.
 */
int device_allocate(struct rch *ch, struct device_segment *s, size_t bytes, uint32_t access,
                    struct btl_memory *memory, struct error *err);
/* The end without the heap, where memory is shared: imports what the peer's key names. */
int device_import(struct rch *ch, struct device_segment *s, const struct btl_key *key, size_t bytes,
                  struct error *err);
/* The heap has grown by this segment, which stays in place. */
void device_append(struct rch *ch, struct device_segment *s);
/* Gives back what either has made, after the backend has released its part. */
void device_release(struct rch *ch, struct device_segment *s);

/* ---- regions ---- */

/*
 * Memory of the program, for transfers of this end, or of its peer. `fd`: of all of it, from alloc, and the caller's; or -1. 0, or -errno and
 * the reason: it has to be copied.
 */
int device_register_region(struct rch *ch, const rmemory_ops_t *m, const struct iovec *range,
                           int fd, uint32_t access, struct btl_memory *memory, struct error *why);

/* ---- messages ---- */

/* The message is in a segment that is staged. */
bool device_is_staged(const struct rch *ch, const struct rdesc *d);
/* Inside a call, with device_has_heap; `at`: its address. 1: it was copied to memory of the host, 0: not; or the error of the table's call, with its message. */
int device_left(struct rch *ch, const struct rdesc *d, const void *at, size_t bytes);
/* After a message was taken. On failure it is freed, and the message has its number. */
int device_arrived(struct rch *ch, struct rdesc *d);

/*
 * A message and other memory, of the host (`memory` NULL) or of a device; staged: instead of device_left, device_arrived. rsend, rrecv,
 * and calls with regions, on every pipe. What the device at `from` has stored is visible (`left`) before it is copied.
 */
int device_fill(struct rch *ch, const struct rdesc *d, const rmemory_ops_t *memory,
                const void *from, size_t bytes);
int device_extract(struct rch *ch, const struct rdesc *d, const rmemory_ops_t *memory, void *to);
/* The same between memory of a device and memory of the host that is in no message. */
int device_load(struct rch *ch, const rmemory_ops_t *memory, void *to, const void *from,
                size_t bytes);
int device_store(struct rch *ch, const rmemory_ops_t *memory, void *to, const void *from,
                 size_t bytes);
/* `left` and `arrived` of the table, where it has them. ch may be NULL. */
int device_call_left(struct rch *ch, const rmemory_ops_t *memory, const void *at, size_t bytes);
int device_call_arrived(struct rch *ch, const rmemory_ops_t *memory, void *at, size_t bytes);
/*
 * Between memory of the host or of a device (`near`) and a window of the peer that is memory of a device and imported here (`there`). After
 * device_put the bytes are outside of this device; device_get begins with what is there.
 */
int device_put(struct rch *ch, const rmemory_ops_t *there, void *at, const rmemory_ops_t *near,
               const void *from, size_t bytes);
int device_get(struct rch *ch, const rmemory_ops_t *there, void *at, const rmemory_ops_t *near,
               void *into, size_t bytes);
/* DEVICE_BOUNCE_BYTES of the host, made once for an end. NULL, and the error of the call: there is no memory. */
#define DEVICE_BOUNCE_BYTES ((size_t)64 * 1024)
char *device_bounce_buffer(struct rch *ch);
/* Before a message is allocated, or taken: -ENOTSUP: one of the tables has no such call. */
int device_check_fill(struct rch *ch, const rmemory_ops_t *memory);
int device_check_extract(struct rch *ch, const rmemory_ops_t *memory);
/* The table has the call for device_load, or device_store. */
int device_check_load(struct rch *ch, const rmemory_ops_t *memory);
int device_check_store(struct rch *ch, const rmemory_ops_t *memory);

/* How the payload of a network travels, for rinfo_describe: returns the characters written. */
size_t device_describe(const struct rch *ch, char *text, size_t bytes);

#endif
