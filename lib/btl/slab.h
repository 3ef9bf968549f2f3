/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slab.h: blocks of this process's memory for backends, in slabs that are made accessible to one
 * peer once.
 *
 * Registering memory with a device, or passing a segment to a peer, is slow, and both are limited
 * in number. Blocks of one size, for one peer, with one kind of access therefore share slabs. Each
 * further slab of a kind holds a quarter more blocks, up to SLAB_MOST bytes: one pipe costs little,
 * and many pipes cost at most a quarter more than what they use. An empty slab is freed at once.
 *
 * Rules
 * 1. A slab is accessible to one peer: memory of two peers is never in one slab. A block with
 *    BTL_PEER_ATOMICS is alone in its slab, since the share call of a backend makes it accessible
 *    to further peers.
 * 2. A slab is mapped and registered before the first of its blocks is returned, and deregistered
 *    before it is unmapped.
 * 3. Blocks are zero when their slab is new; a block that is reused keeps its contents. They are
 *    aligned to pairs of cache lines (util/cpu.h), and to the largest power of two, up to 2 MiB, that their length is a
 *    multiple of: a heap's length is a multiple of its unit.
 * 4. All functions may be called by any thread. The callbacks run with the pool's lock held.
 */
#ifndef BTL_SLAB_H
#define BTL_SLAB_H

#include "btl/btl.h"
#include "util/error.h"

/* The memory of a slab, or memory of the user (slab_register, slab_register_device). */
struct slab_range {
    void *registration; /* the source's; first member, see slab_registration() */
    int peer;           /* the rank that may access it */
    uint32_t access;    /* BTL_PEER_... or BTL_LOCAL */
    bool huge;          /* huge pages are preferred */
    char *base;
    size_t bytes;
    const struct btl_device *device; /* while memory of a device is registered; NULL: of the host */
};

/*
 * Where memory comes from, and how it becomes accessible. int: 0, or -errno and an error message.
 */
struct slab_source {
    /*
     * Maps at least range->bytes of memory for a slab; sets base and bytes, and registration if it
     * needs a state. NULL: private anonymous memory, so that what the child of a fork writes never
     * reaches a peer.
     */
    int (*map)(void *backend, struct slab_range *range, struct error *err);
    void (*unmap)(void *backend, struct slab_range *range);
    /* Makes a range accessible to its peer, and sets registration. */
    int (*register_range)(void *backend, struct slab_range *range, struct error *err);
    void (*deregister)(void *backend, struct slab_range *range);
    /* Stores the key of `bytes` bytes at base + offset. */
    void (*key)(void *backend, const struct slab_range *range, size_t offset, size_t bytes,
                struct btl_key *key);
};

struct slab_pool;

/* 0 or -ENOMEM. */
int slab_pool_create(const struct slab_source *source, void *backend, struct slab_pool **out);
/*
 * Deregisters and unmaps all that is left; memory of the user is only deregistered. To be called
 * after the queues of a device are closed, and before its domain is.
 */
void slab_pool_destroy(struct slab_pool *pool);
/* In the child of a fork: makes the lock usable. Nothing is deregistered in a child. */
void slab_pool_forked(struct slab_pool *pool);

/* As the calls alloc, register_memory and free of struct btl_ops. */
int slab_alloc(struct slab_pool *pool, int peer, size_t bytes, uint32_t access, bool huge,
               struct btl_memory *memory, struct error *err);
int slab_register(struct slab_pool *pool, int peer, void *base, size_t bytes, uint32_t access,
                  struct btl_memory *memory, struct error *err);
/* As the call register_device: the source finds the device in the range. device->end is called without the pool's lock. */
int slab_register_device(struct slab_pool *pool, int peer, void *base, size_t bytes,
                         const struct btl_device *device, uint32_t access,
                         struct btl_memory *memory, struct error *err);
void slab_free(struct slab_pool *pool, struct btl_memory *memory);

/*
 * A device may still access memory of this peer (a connection failed with operations outstanding):
 * the peer's slabs are neither used again nor unmapped before slab_pool_destroy(), even if all
 * their blocks are freed. New blocks come from new slabs. Memory of a device that has an end (btl_device.end) ends then, too.
 */
void slab_quarantine(struct slab_pool *pool, int peer);

/* The peer that a block was allocated for. */
int slab_peer(const struct btl_memory *memory);
/* The range that a block is in; it is valid until the block is freed. */
struct slab_range *slab_range_of(const struct btl_memory *memory);

/* Registration of the slab of a block; on the data path this is one load. */
static inline void *slab_registration(const struct btl_memory *memory)
{
    return *(void **)memory->slab;
}

#endif
