/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slab.c: see slab.h.
 *
 * Invariants, under `lock`
 * 1. slab.used is the number of its blocks in use.
 * 2. Every slab is in the list `slabs` of its kind, and in `open` too if it has a free block and is
 *    not quarantined.
 * 3. A kind exists as long as it has a slab, so that nothing is left of a peer whose blocks are
 *    freed.
 */
#include "btl/slab.h"

#include "util/cpu.h"
#include "util/hash.h"
#include "util/list.h"
#include "util/map.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLAB_MOST ((size_t)4 << 20)
#define HUGE_PAGE ((size_t)2 << 20)
#define KEY_PROBES 64 /* keys that a kind may have, where other kinds have taken the first */

struct slab_kind { /* slabs of the same peer, access, pages and length of a block */
    int peer;
    uint32_t access;
    bool huge;
    size_t block_bytes;
    uint64_t key;      /* its key in slab_pool.kinds */
    size_t blocks;     /* blocks, in use or not, of its slabs that are not quarantined */
    struct link open;  /* slabs with a free block */
    struct link slabs; /* all */
};

/* What ends memory of a device behind its registration. */
struct slab_end {
    void (*call)(void *argument, void *base, size_t bytes); /* NULL: nothing */
    void *argument, *base;
    size_t bytes;
};

struct slab {
    struct slab_range range; /* first: see slab_registration() */
    struct slab_kind *kind;  /* NULL: memory of the user */
    struct link open;        /* slab_kind.open */
    struct link link;        /* slab_kind.slabs or slab_pool.registered */
    bool quarantined;
    struct slab_end end;
    uint32_t blocks;   /* in all */
    uint32_t used;     /* in use */
    uint32_t fresh;    /* first block that was never in use */
    uint32_t free_top; /* blocks in the stack free_block */
    uint32_t free_block[];
};
static_assert(offsetof(struct slab, range.registration) == 0, "slab_registration() loads it");

struct slab_pool {
    pthread_mutex_t lock;
    struct slab_source source;
    void *backend;
    struct hash kinds;      /* slab_kind_key → struct slab_kind */
    struct link registered; /* slabs of memory of the user */
};

static int slab_no_memory(struct error *err)
{
    return error_set(err, -ENOMEM, "there is no memory for the metadata of a slab");
}

/* ---- kinds ---- */

/* Keys of different kinds may collide: slab_kind_find() then probes further ones. */
static uint64_t slab_kind_key(int peer, size_t bytes, uint32_t access, bool huge, uint64_t probe)
{
    return ((uint64_t)(uint32_t)peer << 40) ^ ((uint64_t)bytes << 3) ^ (uint64_t)(access << 1) ^
           (uint64_t)huge ^ (probe << 58);
}

/* Finds or creates the kind; NULL: there is no memory. */
static struct slab_kind *slab_kind_find(struct slab_pool *pool, int peer, size_t bytes,
                                        uint32_t access, bool huge)
{
    struct slab_kind *k;
    uint64_t probe, key = 0;

    for (probe = 0; probe < KEY_PROBES; probe++) {
        key = slab_kind_key(peer, bytes, access, huge, probe);
        k = hash_get(&pool->kinds, key);
        if (k == NULL)
            break;
        if (k->peer == peer && k->block_bytes == bytes && k->access == access && k->huge == huge)
            return k;
    }
    k = probe < KEY_PROBES ? calloc(1, sizeof(*k)) : NULL;
    if (k == NULL)
        return NULL;
    k->peer = peer;
    k->access = access;
    k->huge = huge;
    k->block_bytes = bytes;
    k->key = key;
    list_init(&k->open);
    list_init(&k->slabs);
    if (hash_put(&pool->kinds, key, k) != 0) {
        free(k);
        return NULL;
    }
    return k;
}

/* Frees a kind that has no slab. */
static void slab_kind_release(struct slab_pool *pool, struct slab_kind *k)
{
    if (!list_empty(&k->slabs))
        return;
    hash_remove(&pool->kinds, k->key);
    free(k);
}

/* Blocks of the next slab of a kind. */
static size_t slab_kind_next_blocks(const struct slab_kind *k)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t blocks = k->blocks / 4 + 1;

    if (k->access == BTL_PEER_ATOMICS)
        return 1;
    if (blocks > 1 && blocks * k->block_bytes > SLAB_MOST)
        blocks = SLAB_MOST / k->block_bytes > 0 ? SLAB_MOST / k->block_bytes : 1;
    if (k->block_bytes <= SLAB_MOST) /* as many as the last page has space for */
        blocks = map_round_up(blocks * k->block_bytes, page) / k->block_bytes;
    return blocks;
}

/* ---- slabs ---- */

/* Private memory. Huge pages are used where the system has free ones. */
static int slab_map_private(struct slab_range *r, struct error *err)
{
    size_t page = r->huge ? HUGE_PAGE : (size_t)sysconf(_SC_PAGESIZE);
    size_t whole = map_round_up(r->bytes, page);
    void *base = MAP_FAILED;

    errno = ENOMEM;
    if (r->huge && whole >= r->bytes)
        base = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
                    -1, 0);
    if (base == MAP_FAILED && whole >= r->bytes) {
        base = map_aligned(whole, PROT_READ | PROT_WRITE, 0);
        if (base != MAP_FAILED && r->huge)
            (void)madvise(base, whole, MADV_HUGEPAGE);
    }
    if (base == MAP_FAILED)
        return error_set(
            err, -ENOMEM,
            "%zu bytes of memory cannot be mapped: %s (address space, ulimit -v; or overcommit)",
            r->bytes, strerror(errno));
    r->base = base;
    r->bytes = whole;
    return 0;
}

static void slab_unmap(struct slab_pool *pool, struct slab_range *r)
{
    if (pool->source.unmap != NULL)
        pool->source.unmap(pool->backend, r);
    else
        munmap(r->base, r->bytes);
}

static int slab_create(struct slab_pool *pool, struct slab_kind *k, struct error *err)
{
    const size_t blocks = slab_kind_next_blocks(k);
    struct slab *s = calloc(1, sizeof(*s) + blocks * sizeof(s->free_block[0]));
    int rc;

    if (s == NULL)
        return slab_no_memory(err);
    s->range = (struct slab_range){
        .peer = k->peer, .access = k->access, .huge = k->huge, .bytes = blocks * k->block_bytes};
    rc = pool->source.map != NULL ? pool->source.map(pool->backend, &s->range, err)
                                  : slab_map_private(&s->range, err);
    if (rc != 0)
        goto fail_map;
    rc = pool->source.register_range(pool->backend, &s->range, err);
    if (rc != 0)
        goto fail_register;
    s->blocks = (uint32_t)blocks;
    s->kind = k;
    k->blocks += blocks;
    list_append(&k->open, &s->open);
    list_append(&k->slabs, &s->link);
    return 0;
fail_register:
    slab_unmap(pool, &s->range);
fail_map:
    free(s);
    return rc;
}

static void slab_destroy(struct slab_pool *pool, struct slab *s)
{
    pool->source.deregister(pool->backend, &s->range);
    list_remove(&s->link);
    if (s->kind != NULL) {
        list_remove(&s->open);
        if (!s->quarantined)
            s->kind->blocks -= s->blocks;
        slab_unmap(pool, &s->range);
    }
    free(s);
}

/* ---- blocks ---- */

/* Takes a free block of the kind, whose list `open` is not empty. */
static void slab_take(struct slab_pool *pool, struct slab_kind *k, struct btl_memory *memory)
{
    struct slab *s = container_of(k->open.next, struct slab, open);
    const size_t index = s->free_top > 0 ? s->free_block[--s->free_top] : s->fresh++;
    const size_t offset = index * k->block_bytes;

    if (++s->used == s->blocks)
        list_remove(&s->open);
    memory->base = s->range.base + offset;
    memory->bytes = k->block_bytes;
    memory->slab = s;
    memory->device = false;
    pool->source.key(pool->backend, &s->range, offset, k->block_bytes, &memory->key);
}

int slab_alloc(struct slab_pool *pool, int peer, size_t bytes, uint32_t access, bool huge,
               struct btl_memory *memory, struct error *err)
{
    const size_t rounded = bytes > 0 ? map_round_up(bytes, CACHE_PAIR) : CACHE_PAIR;
    struct slab_kind *k;
    int rc = 0;

    if (rounded < bytes)
        return error_set(err, -ENOMEM, "%zu bytes cannot be allocated: the most is %zu", bytes,
                         SIZE_MAX / CACHE_PAIR * CACHE_PAIR);
    pthread_mutex_lock(&pool->lock);
    k = slab_kind_find(pool, peer, rounded, access, huge);
    if (k == NULL) {
        rc = slab_no_memory(err);
    } else if (list_empty(&k->open)) {
        rc = slab_create(pool, k, err);
        if (rc != 0)
            slab_kind_release(pool, k);
    }
    if (rc == 0)
        slab_take(pool, k, memory);
    pthread_mutex_unlock(&pool->lock);
    return rc;
}

/* device NULL: memory of the host. */
static int slab_register_range(struct slab_pool *pool, int peer, void *base, size_t bytes,
                               const struct btl_device *device, uint32_t access,
                               struct btl_memory *memory, struct error *err)
{
    struct slab *s = calloc(1, sizeof(*s));
    int rc;

    if (s == NULL)
        return slab_no_memory(err);
    s->range = (struct slab_range){
        .peer = peer, .access = access, .base = base, .bytes = bytes, .device = device};
    s->blocks = s->used = 1;
    pthread_mutex_lock(&pool->lock);
    rc = pool->source.register_range(pool->backend, &s->range, err);
    if (rc == 0) {
        s->range.device = NULL; /* the caller's */
        if (device != NULL)
            s->end = (struct slab_end){device->end, device->argument, base, bytes};
        list_append(&pool->registered, &s->link);
        memory->base = base;
        memory->bytes = bytes;
        memory->slab = s;
        memory->device = device != NULL;
        pool->source.key(pool->backend, &s->range, 0, bytes, &memory->key);
    } else {
        free(s);
    }
    pthread_mutex_unlock(&pool->lock);
    return rc;
}

int slab_register(struct slab_pool *pool, int peer, void *base, size_t bytes, uint32_t access,
                  struct btl_memory *memory, struct error *err)
{
    return slab_register_range(pool, peer, base, bytes, NULL, access, memory, err);
}

int slab_register_device(struct slab_pool *pool, int peer, void *base, size_t bytes,
                         const struct btl_device *device, uint32_t access,
                         struct btl_memory *memory, struct error *err)
{
    return slab_register_range(pool, peer, base, bytes, device, access, memory, err);
}

/* Returns a block to its slab. */
static void slab_give_back(struct slab_pool *pool, struct slab *s, const char *base)
{
    struct slab_kind *k = s->kind;

    if (s->used == s->blocks)
        list_append(&k->open, &s->open);
    s->free_block[s->free_top++] = (uint32_t)((size_t)(base - s->range.base) / k->block_bytes);
    if (--s->used == 0) {
        slab_destroy(pool, s);
        slab_kind_release(pool, k);
    }
}

static void slab_end_call(const struct slab_end *end)
{
    if (end->call != NULL)
        end->call(end->argument, end->base, end->bytes);
}

void slab_free(struct slab_pool *pool, struct btl_memory *memory)
{
    struct slab *s = memory->slab;
    struct slab_end end = {0};

    if (s == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    if (s->quarantined) {
        s->used--;
    } else if (s->kind == NULL) {
        end = s->end;
        slab_destroy(pool, s);
    } else {
        slab_give_back(pool, s, memory->base);
    }
    pthread_mutex_unlock(&pool->lock);
    slab_end_call(&end);
    memory->slab = NULL;
    memory->base = NULL;
}

/* ---- peers ---- */

void slab_quarantine(struct slab_pool *pool, int peer)
{
    struct link *at, *after;
    size_t cursor = 0;
    struct slab_kind *k;

    pthread_mutex_lock(&pool->lock);
    while ((k = hash_next(&pool->kinds, &cursor)) != NULL) {
        if (k->peer != peer)
            continue;
        list_for_each (at, after, &k->slabs) {
            struct slab *s = container_of(at, struct slab, link);

            s->quarantined = true;
            list_remove(&s->open);
        }
        k->blocks = 0;
    }
    list_for_each (at, after, &pool->registered) {
        struct slab *s = container_of(at, struct slab, link);

        if (s->range.peer == peer && s->end.call != NULL)
            s->quarantined = true;
    }
    pthread_mutex_unlock(&pool->lock);
}

int slab_peer(const struct btl_memory *memory) { return slab_range_of(memory)->peer; }

struct slab_range *slab_range_of(const struct btl_memory *memory)
{
    return &((struct slab *)memory->slab)->range;
}

/* ---- the pool ---- */

int slab_pool_create(const struct slab_source *source, void *backend, struct slab_pool **out)
{
    struct slab_pool *pool = calloc(1, sizeof(*pool));

    if (pool == NULL)
        return -ENOMEM;
    pool->source = *source;
    pool->backend = backend;
    pthread_mutex_init(&pool->lock, NULL);
    hash_init(&pool->kinds);
    list_init(&pool->registered);
    *out = pool;
    return 0;
}

void slab_pool_destroy(struct slab_pool *pool)
{
    struct slab_kind *k;
    size_t cursor = 0;

    if (pool == NULL)
        return;
    while ((k = hash_next(&pool->kinds, &cursor)) != NULL) {
        while (!list_empty(&k->slabs))
            slab_destroy(pool, container_of(k->slabs.next, struct slab, link));
        free(k);
    }
    while (!list_empty(&pool->registered)) {
        struct slab *s = container_of(pool->registered.next, struct slab, link);
        const struct slab_end end = s->end;

        slab_destroy(pool, s);
        slab_end_call(&end);
    }
    hash_free(&pool->kinds);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void slab_pool_forked(struct slab_pool *pool) { pthread_mutex_init(&pool->lock, NULL); }
