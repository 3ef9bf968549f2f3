/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * registration.h: registered memory of the program, as the paths use it (doc/regions.md).
 *
 * A region is memory of the program, or of a device (`memory`), or one block of a pipe's heap (`own`), whose parts are messages that are never copied. The calls
 * of the program are in region.h.
 *
 * Invariants
 * 1. region.busy counts what may still access the region: transfers, parts that the reader has, fetches into it. It is 0 before a
 *    registration ends or the block is freed.
 * 2. Registrations are appended and not removed before the region ends: they are searched without a lock. The list of a pipe's own
 *    regions and their parts are used under the lock of that end, where it has one (RPIPE_THREADS).
 */
#ifndef RPIPE_REGION_REGISTRATION_H
#define RPIPE_REGION_REGISTRATION_H

#include "rpipe/end/rch.h"
#include "util/segment.h"

/* On the wire: the block of a SLOT_REGION message: how the writer's region, which has its payload, is accessed. */
struct region_note {
    uint32_t magic, zero;
    uint64_t region; /* its number, never used for another region by this process */
    uint64_t bytes;  /* of the region */
    struct btl_key key;
    uint64_t reserved;
};
#define REGION_NOTE_BYTES 64
#define REGION_MAGIC 0x67657272u /* "rreg" */
static_assert(sizeof(struct region_note) == REGION_NOTE_BYTES, "on the wire");

/* With one backend, for one peer: what was made accessible to a peer is recorded for that peer. */
struct registration {
    struct registration *next;
    const struct btl_ops *ops;
    struct btl *btl;
    int peer;
    uint32_t access;
    bool refused; /* memory of a device that the network does not reach */
    struct btl_memory memory;
};

struct rregion {
    _Atomic uint32_t open; /* 1 until rregion_close */
    _Atomic uint32_t busy;
    char *base;
    size_t bytes;
    uint64_t number;
    const rmemory_ops_t *memory; /* of the device that base is an address of; NULL: of the host */
    struct registration *_Atomic registrations;
    /* a block of a pipe's heap */
    struct rch *own;     /* that pipe; NULL: memory of the program */
    _Atomic bool orphan; /* that pipe has been closed and does not use this structure any more */
    struct rdesc *block; /* the user's, as after rmalloc */
    struct rdesc *parts; /* messages that the reader has, by .next */
    struct rregion *next;
    /* memory of the library (region_memory.c) */
    struct segment segment;   /* the region, or staging memory of a device; base NULL: none */
    bool made;                /* by alloc of `memory` */
    int fd;                   /* of the region: from alloc, or of the segment; -1: none */
    _Atomic uint32_t windows; /* open windows of the region */
};

/* Where the payload of a message is. */
struct region_source {
    struct rregion *region;
    const struct btl_memory *memory;
    size_t offset;
    int *done;
};

/* Where the reader of a GET pipe requests a payload. */
struct placement {
    struct rregion *region; /* NULL: in the mirror */
    const struct btl_memory *memory;
    size_t offset, room;
};

/* The word *done of a message: 0 in flight, 1 complete, or the error. Written by calls of its end only, once. */
static inline void region_notify_done(int *done, int value)
{
    /* release: a thread of the program that loads the word (acquire) may access the memory */
    if (done != NULL)
        __atomic_store_n(done, value, __ATOMIC_RELEASE);
}

static inline void region_hold(struct rregion *r)
{
    atomic_fetch_add_explicit(&r->busy, 1, memory_order_relaxed);
}

/* release: the transfer's last access precedes the reuse of the memory. Pairs with region_check_busy */
static inline void region_unhold(struct rregion *r)
{
    atomic_fetch_sub_explicit(&r->busy, 1, memory_order_release);
}

static inline bool region_is_orphan(const struct rregion *r)
{
    return atomic_load_explicit(&r->orphan, memory_order_acquire); /* pairs with region_detach */
}

/* A region structure, open; NULL: no memory. They are type-stable: a closed region is recognized for a while. */
struct rregion *registration_take(void);
void registration_put(struct rregion *r);
/*
 * As memory that this end's transfers can use, registered if it is not yet. 0, or the backend's error. *memory NULL: memory of a device that
 * the network does not reach, which is copied.
 */
int registration_memory(struct rch *ch, struct rregion *region, const struct btl_memory **memory);
/* The same as local memory alone, whatever the pipe moves. */
int registration_local(struct rch *ch, struct rregion *region, const struct btl_memory **memory);
void registration_end(struct rregion *r); /* ends all registrations of the region */

/*
 * Bytes of a message on this end and of the region are copied, and not transferred, whatever the network reaches: the note of a message
 * from a region would have to be in a heap of a device, and what is read into a region of a device may have to be copied elsewhere after all.
 */
bool region_is_copied(const struct rch *ch, const struct rregion *region);

/* `offset` and `bytes` are inside this region, which is open and may be used with `ch`: 0, or the code and its message. */
int region_check(struct rch *ch, rregion_t region, size_t offset, size_t bytes);

/* ---- region_memory.c ---- */

/*
 * Memory of the library, which windows can pass to peers: sets base, bytes, segment and fd. Of r->memory, if that is a device: by its
 * table. 0, or -errno and the reason.
 */
int region_memory_make(struct rregion *r, size_t bytes, struct error *err);
/* A region of a device: its staging memory, zero at first, which is made once. 0, or -errno and the reason. */
int region_memory_stage(struct rregion *r, char **staging, struct error *err);
void region_memory_release(struct rregion *r); /* without effect on other regions */

/* ---- remote_key_cache.c ---- */

struct key_cache; /* of a GET reader: regions of the writer, by number */
struct cached_key {
    uint64_t number;
    struct btl_remote remote;
    uint32_t users; /* fetches that have not been taken */
};
/* NULL: not in the cache. */
struct cached_key *key_cache_find(struct key_cache *cache, uint64_t number);
/* From a note that has been fetched. NULL: no free entry now; or *error is set, and the pipe has failed. */
struct cached_key *key_cache_add(struct rch *ch, struct key_cache **cache, uint64_t number,
                                 const void *note, int *error);
void key_cache_release(struct rch *ch, struct key_cache *cache); /* the connection is closed */

#endif
