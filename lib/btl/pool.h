/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.h: pieces of this process's memory for backends that register memory with a device (ofi, verbs, ...).
 *
 * Registration is slow, and a device holds so and so many; so pieces of one size, for one peer, with one kind of access share
 * slabs, each of which is mapped and registered once. A further slab holds a quarter more pieces of its kind, up to SLAB_MOST
 * bytes: one channel costs little, many channels cost at most a quarter more than what they need. An empty slab is
 * given back at once. Memory shown to one peer is never shown to another, because no slab is.
 *
 * All calls may come from any thread; the callbacks run under the pool's lock. A piece's `slab` points to the pool's: on the
 * data path pool_registration() is one load.
 */
#ifndef BTL_POOL_H
#define BTL_POOL_H

#include "btl/btl.h"
#include "util/error.h"

struct pool_device {
    /* 0 and what the backend wants to remember of it, or -errno and a sentence. `access`: BTL_PEER_..., BTL_LOCAL. */
    int (*register_range)(void *backend, int peer, void *base, size_t bytes, uint32_t access,
                          void **registration, struct error *err);
    void (*deregister)(void *backend, void *registration);
    /* The key of the piece at base + offset, of `bytes`. */
    void (*key)(void *backend, void *registration, void *base, size_t offset, size_t bytes,
                struct btl_key *key);
};

struct pool;

int pool_create(const struct pool_device *device, void *backend, struct pool **out);
/*
 * Whatever it still holds is withdrawn and unmapped, what is adopted only withdrawn. So: after the device's queues are closed, before
 * its domain is.
 */
void pool_destroy(struct pool *pool);
void pool_forked(
    struct pool *pool); /* the lock is as the parent left it; nothing is withdrawn in a child */

/*
 * As the calls of struct btl_ops. Zero when new; pieces are aligned to cache lines, and where their length is a multiple of a larger power
 * of two, up to 2 MiB, to that: a heap's is a multiple of its unit.
 */
int pool_alloc(struct pool *pool, int peer, size_t bytes, uint32_t access, bool huge,
               struct btl_memory *memory, struct error *err);
int pool_register(struct pool *pool, int peer, void *base, size_t bytes, uint32_t access,
                  struct btl_memory *memory, struct error *err);
void pool_free(struct pool *pool, struct btl_memory *memory);

/*
 * A device may still reach for memory of this peer (a line broke with transfers under way): what is there of it now is neither
 * used again nor unmapped until pool_destroy(), also when it is freed. New pieces come from new slabs.
 */
void pool_keep(struct pool *pool, int peer);

int pool_peer(const struct btl_memory *memory); /* whom it was allocated for */

/* What enroll() has answered, for the slab of this piece. */
static inline void *pool_registration(const struct btl_memory *memory)
{
    return *(void **)memory->slab;
}

#endif
