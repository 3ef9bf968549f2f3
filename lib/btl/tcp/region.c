/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.c: see region.h.
 *
 * The entries are in chunks that never move and are freed with the backend only, so an entry is
 * found without a lock. Chunk i has FIRST << i entries.
 *
 * Invariants: base, bytes, peer, access and shared of an entry change under its lock, and all but
 * `shared` only while it is free; base once more if it is revoked. An entry is in the list of free ones, under the lock of the table,
 * or alive. `alive` is its generation, or 0; the generation grows when it dies. A thread in a stream
 * that has found it alive uses base, bytes, peer and access until it leaves the stream: they are cleared,
 * and the memory is unmapped, after all streams have been left.
 *
 * A region that is revoked has pages of its own in the place of the program's: what arrives for it is placed there, and
 * nothing that receives has to distinguish it.
 */
#include "btl/tcp/region.h"

#include "btl/tcp/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define FIRST 64u
#define CHUNKS 24u

struct tcp_region {
    pthread_mutex_t lock;
    _Atomic uint32_t alive; /* `generation`; 0: free */
    uint32_t index, generation;
    int peer;
    uint32_t access;
    char *_Atomic base; /* in a stream it is loaded without the lock */
    uint64_t bytes;
    bool revoked;    /* base: pages of its own */
    uint8_t *shared; /* one bit for each rank */
    size_t shared_bytes;
    struct link free;
};

struct tcp_regions {
    pthread_mutex_t lock; /* of `free`, and of adding a chunk */
    struct link free;
    _Atomic uint32_t count; /* entries; changed after their chunk exists */
    struct tcp_region *chunk[CHUNKS];
};

/* index < count */
static struct tcp_region *region_at(const struct tcp_regions *regions, uint32_t index)
{
    const uint32_t n = index / FIRST + 1, chunk = 31u - (uint32_t)__builtin_clz(n);

    return &regions->chunk[chunk][index - ((1u << chunk) - 1) * FIRST];
}

/* Lock held. Adds a chunk of free entries. */
static int regions_grow(struct tcp_regions *regions)
{
    uint32_t count = atomic_load_explicit(&regions->count, memory_order_relaxed), chunk = 0, i;
    struct tcp_region *r;

    while (chunk < CHUNKS && regions->chunk[chunk] != NULL)
        chunk++;
    r = chunk < CHUNKS ? calloc((size_t)FIRST << chunk, sizeof(*r)) : NULL;
    if (r == NULL)
        return -ENOMEM;
    regions->chunk[chunk] = r;
    for (i = 0; i < FIRST << chunk; i++) {
        pthread_mutex_init(&r[i].lock, NULL);
        r[i].index = count + i;
        r[i].generation = 1; /* a number of 0 is that of no region */
        list_append(&regions->free, &r[i].free);
    }
    /* release: the chunk; pairs with the acquire in region_enter */
    atomic_store_explicit(&regions->count, count + (FIRST << chunk), memory_order_release);
    return 0;
}

/* relaxed: a range of bytes, whose contents are ordered by messages */
static char *region_base(const struct tcp_region *r)
{
    return atomic_load_explicit(&r->base, memory_order_relaxed);
}

/* ---- the source of slabs ---- */

static int tcp_region_register(void *backend, struct slab_range *range, struct error *err)
{
    struct tcp_regions *regions = ((struct btl *)backend)->regions;
    struct tcp_region *r = NULL;

    range->registration = NULL;
    if (range->access == BTL_LOCAL)
        return 0; /* no frame names it */
    pthread_mutex_lock(&regions->lock);
    if (!list_empty(&regions->free) || regions_grow(regions) == 0) {
        r = container_of(regions->free.next, struct tcp_region, free);
        list_remove(&r->free);
    }
    pthread_mutex_unlock(&regions->lock);
    if (r == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the metadata of a region");
    pthread_mutex_lock(&r->lock);
    r->peer = range->peer;
    r->access = range->access;
    atomic_store_explicit(&r->base, range->base, memory_order_relaxed);
    r->bytes = range->bytes;
    /* release: what it is; pairs with the acquire of region_find */
    atomic_store_explicit(&r->alive, r->generation, memory_order_release);
    pthread_mutex_unlock(&r->lock);
    range->registration = r;
    return 0;
}

/* Waits for at most one call of a socket in each stream, and of another connection, which return at once. */
static void tcp_region_deregister(void *backend, struct slab_range *range)
{
    struct tcp_regions *regions = ((struct btl *)backend)->regions;
    struct tcp_region *r = range->registration;

    if (r == NULL)
        return;
    pthread_mutex_lock(&r->lock);
    /* relaxed: before the fence of streams_quiesce */
    atomic_store_explicit(&r->alive, 0, memory_order_relaxed);
    if (++r->generation == 0)
        r->generation = 1;
    pthread_mutex_unlock(&r->lock);
    streams_quiesce(backend);
    pthread_mutex_lock(&r->lock);
    if (r->revoked)
        (void)munmap(region_base(r), r->bytes);
    r->revoked = false;
    atomic_store_explicit(&r->base, NULL, memory_order_relaxed);
    r->bytes = 0;
    free(r->shared);
    r->shared = NULL;
    r->shared_bytes = 0;
    pthread_mutex_unlock(&r->lock);
    pthread_mutex_lock(&regions->lock);
    list_append(&regions->free, &r->free); /* at the end: its number is used again late */
    pthread_mutex_unlock(&regions->lock);
}

static void tcp_region_key(void *backend, const struct slab_range *range, size_t offset,
                           size_t bytes, struct btl_key *k)
{
    const struct tcp_region *r = range->registration;

    (void)backend;
    *k = (struct btl_key){0};
    if (r == NULL)
        return;
    k->word[KEY_REGION] = (uint64_t)r->generation << 32 | r->index;
    k->word[KEY_OFFSET] = offset;
    k->word[KEY_BYTES] = bytes;
    k->word[KEY_ACCESS] = range->access;
}

const struct slab_source region_source = {
    .register_range = tcp_region_register,
    .deregister = tcp_region_deregister,
    .key = tcp_region_key,
};

/* ---- memory that is taken back ---- */

int region_revoke(struct btl *btl, struct tcp_region *r)
{
    int rc = 0;
    void *own;

    pthread_mutex_lock(&r->lock);
    if (r->access != BTL_PEER_WRITES)
        rc = -EINVAL;
    if (rc == 0 && !r->revoked) {
        own = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (own != MAP_FAILED) {
            atomic_store_explicit(&r->base, own, memory_order_relaxed);
            r->revoked = true;
        } else {
            rc = -ENOMEM;
        }
    }
    pthread_mutex_unlock(&r->lock);
    if (rc == 0)
        streams_quiesce(btl); /* a thread that has loaded base before has left it */
    return rc;
}

/* ---- further ranks ---- */

int region_share(struct tcp_region *r, int peer)
{
    const size_t byte = (size_t)peer / 8;
    int rc = 0;

    pthread_mutex_lock(&r->lock);
    if (byte >= r->shared_bytes) {
        uint8_t *more = realloc(r->shared, byte + 1);

        if (more != NULL) {
            memset(more + r->shared_bytes, 0, byte + 1 - r->shared_bytes);
            r->shared = more;
            r->shared_bytes = byte + 1;
        } else {
            rc = -ENOMEM;
        }
    }
    if (rc == 0)
        r->shared[byte] = (uint8_t)(r->shared[byte] | 1u << peer % 8);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

void regions_peer_gone(struct tcp_regions *regions, int peer)
{
    /* acquire: the chunks; pairs with the release in regions_grow */
    const uint32_t count = atomic_load_explicit(&regions->count, memory_order_acquire);
    const size_t byte = (size_t)peer / 8;

    for (uint32_t i = 0; i < count; i++) {
        struct tcp_region *r = region_at(regions, i);

        pthread_mutex_lock(&r->lock);
        if (byte < r->shared_bytes)
            r->shared[byte] = (uint8_t)(r->shared[byte] & ~(1u << peer % 8));
        pthread_mutex_unlock(&r->lock);
    }
}

static bool region_is_of(const struct tcp_region *r, int peer)
{
    const size_t byte = (size_t)peer / 8;

    return r->peer == peer || (byte < r->shared_bytes && (r->shared[byte] >> peer % 8 & 1) != 0);
}

static bool region_allows(const struct tcp_region *r, enum region_use use)
{
    switch (r->access) {
    case BTL_PEER_READS:
        return use == REGION_READ;
    case BTL_PEER_WRITES:
        return use == REGION_WRITE;
    default:
        return r->access == BTL_PEER_ATOMICS;
    }
}

/* The entry that the number names, if it is alive, and may be so no more at once. */
static struct tcp_region *region_find(const struct tcp_regions *regions, uint64_t id)
{
    const uint32_t index = (uint32_t)id;
    struct tcp_region *r;

    /* acquire: the chunk; pairs with the release in regions_grow */
    if (id >> 32 == 0 || index >= atomic_load_explicit(&regions->count, memory_order_acquire))
        return NULL;
    r = region_at(regions, index);
    /* acquire: what it is; pairs with the release in tcp_region_register */
    return atomic_load_explicit(&r->alive, memory_order_acquire) == id >> 32 ? r : NULL;
}

static char *region_check(const struct tcp_region *r, int peer, enum region_use use,
                          uint64_t offset, uint64_t bytes)
{
    return region_is_of(r, peer) && region_allows(r, use) && bytes <= r->bytes &&
                   offset <= r->bytes - bytes
               ? region_base(r) + offset
               : NULL;
}

char *region_enter(const struct btl_connection *c, uint64_t id, enum region_use use,
                   uint64_t offset, uint64_t bytes, struct tcp_region **entered)
{
    struct tcp_region *r = region_find(c->btl->regions, id);
    char *at = NULL;

    *entered = NULL;
    if (r == NULL)
        return NULL;
    /* memory of several ranks has a list of them, which can change */
    if (c->stream != NULL && r->access != BTL_PEER_ATOMICS)
        return region_check(r, c->peer, use, offset, bytes);
    pthread_mutex_lock(&r->lock);
    if (atomic_load_explicit(&r->alive, memory_order_relaxed) == id >> 32)
        at = region_check(r, c->peer, use, offset, bytes);
    if (at == NULL)
        pthread_mutex_unlock(&r->lock);
    else
        *entered = r;
    return at;
}

void region_leave(struct tcp_region *r)
{
    if (r != NULL)
        pthread_mutex_unlock(&r->lock);
}

/* ---- the table ---- */

int regions_create(struct tcp_regions **out)
{
    struct tcp_regions *regions = calloc(1, sizeof(*regions));

    if (regions == NULL)
        return -ENOMEM;
    pthread_mutex_init(&regions->lock, NULL);
    list_init(&regions->free);
    *out = regions;
    return 0;
}

void regions_destroy(struct tcp_regions *regions)
{
    uint32_t count, i;

    if (regions == NULL)
        return;
    count = atomic_load_explicit(&regions->count, memory_order_relaxed);
    for (i = 0; i < count; i++) {
        free(region_at(regions, i)->shared);
        pthread_mutex_destroy(&region_at(regions, i)->lock);
    }
    for (i = 0; i < CHUNKS; i++)
        free(regions->chunk[i]);
    pthread_mutex_destroy(&regions->lock);
    free(regions);
}

void regions_forked(struct tcp_regions *regions) { pthread_mutex_init(&regions->lock, NULL); }
