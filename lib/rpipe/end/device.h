/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h: a heap in memory of a device: the program's table of calls, and when each is made (doc/devices.md).
 *
 * The allocator keeps nothing in the memory that it manages, so the heap may be memory that no processor can touch. How it is made,
 * how the other process gets at it, and when bytes are visible is the program's (rmemory_ops_t). Such an end has STATE_DEVICE, and so
 * every call on it takes the slow path; no message with bytes travels in its slot.
 *
 * Order of a message: the device's stores to the payload; `left`; slot and flag (release); flag (acquire); `arrived`; the device's loads.
 */
#ifndef RPIPE_END_DEVICE_H
#define RPIPE_END_DEVICE_H

#include "rpipe/end/rch.h"
#include "util/error.h"

static inline bool device_has_heap(const struct rch *ch) { return ch->cfg.memory != NULL; }

/* The end with the heap: allocates it and lends it to the peer: heap_memory has address and key. */
int device_allocate(struct rch *ch, size_t bytes, struct error *err);
/* The other end: imports the memory that the peer's key names: heap_remote.base. */
int device_import(struct rch *ch, const struct btl_key *key, size_t bytes, struct error *err);
/* Gives back what either has made. */
void device_release(struct rch *ch);

/* Inside a call, with device_has_heap. 0, or the error of the table's call, with its message. */
int device_left(struct rch *ch, const struct rdesc *d, size_t bytes);
/* After a message was taken. On failure it is freed, and the message has its number. */
int device_arrived(struct rch *ch, struct rdesc *d);
/* rsend, rrecv: -ENOTSUP: the table has no such call. */
int device_copy_in(struct rch *ch, void *to, const void *from, size_t bytes);
int device_copy_out(struct rch *ch, void *to, const void *from, size_t bytes);
/* For calls that move bytes by the processor or register memory: -ENOTSUP. */
int device_refuses(struct rch *ch, const char *what);

#endif
