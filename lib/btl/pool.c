/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.c: see pool.h.
 *
 * Invariants, under `lock`: slab.used == pieces handed out; every slab is in its kind's list `slabs`, and in `open` too when it has a
 * free piece and is not kept. A kept slab is not used again, and goes with the pool.
 */
#include "btl/pool.h"

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

struct kind { /* slabs alike */
    int peer;
    uint32_t access;
    bool huge;
    size_t chunk_bytes;
    size_t pieces;     /* there are, handed out or not, in slabs that are not kept */
    struct link open;  /* slabs with a free piece */
    struct link slabs; /* all */
};

struct slab {
    void *registration; /* first: pool_registration() */
    int peer;
    char *base;
    size_t bytes;
    struct kind *kind; /* NULL: adopted, and not in any list */
    struct link open, link;
    bool kept;
    uint32_t pieces, used, fresh; /* in all; handed out; never handed out start here */
    uint32_t free_top;            /* stack of pieces given back */
    uint32_t free_memory[];
};
static_assert(offsetof(struct slab, registration) == 0, "pool_registration() loads it from there");

struct pool {
    pthread_mutex_t lock;
    struct pool_device device;
    void *backend;
    struct hash kinds;   /* kind_key → struct kind */
    struct link adopted; /* slabs */
};

/* Different kinds may collide: the key is only where to begin to look, see find_kind. */
static uint64_t pool_kind_key(int peer, size_t bytes, uint32_t access, bool huge, uint64_t probe)
{
    return ((uint64_t)(uint32_t)peer << 40) ^ ((uint64_t)bytes << 3) ^ (uint64_t)(access << 1) ^
           (uint64_t)huge ^ (probe << 58);
}

static struct kind *pool_find_kind(struct pool *pool, int peer, size_t bytes, uint32_t access,
                                   bool huge)
{
    struct kind *k;
    uint64_t probe;

    for (probe = 0; probe < 64; probe++) {
        uint64_t key = pool_kind_key(peer, bytes, access, huge, probe);

        k = hash_get(&pool->kinds, key);
        if (k != NULL && k->peer == peer && k->chunk_bytes == bytes && k->access == access &&
            k->huge == huge)
            return k;
        if (k != NULL)
            continue;
        k = calloc(1, sizeof(*k));
        if (k == NULL)
            return NULL;
        k->peer = peer;
        k->access = access;
        k->huge = huge;
        k->chunk_bytes = bytes;
        list_init(&k->open);
        list_init(&k->slabs);
        if (hash_put(&pool->kinds, key, k) != 0) {
            free(k);
            return NULL;
        }
        return k;
    }
    return NULL;
}

/* ---- slabs ---- */

/* Private memory: what a child of a fork writes to it never reaches a peer. Huge pages are a wish. */
static void *pool_map(size_t *bytes, bool huge)
{
    size_t page = huge ? HUGE_PAGE : (size_t)sysconf(_SC_PAGESIZE);
    size_t whole = (*bytes + page - 1) / page * page;
    void *base = MAP_FAILED;

    if (whole < *bytes) {
        errno = ENOMEM;
        return NULL;
    }
    if (huge)
        base = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
                    -1, 0);
    if (base == MAP_FAILED) {
        base = map_aligned(whole, PROT_READ | PROT_WRITE, 0);
        if (base != MAP_FAILED && huge)
            (void)madvise(base, whole, MADV_HUGEPAGE);
    }
    if (base == MAP_FAILED)
        return NULL;
    *bytes = whole;
    return base;
}

static int pool_slab_make(struct pool *pool, struct kind *k, struct slab **out, struct error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pieces = k->pieces / 4 + 1;
    struct slab *s;
    int rc;

    if (pieces > 1 && pieces * k->chunk_bytes > SLAB_MOST)
        pieces = SLAB_MOST / k->chunk_bytes > 0 ? SLAB_MOST / k->chunk_bytes : 1;
    if (k->chunk_bytes <= SLAB_MOST) /* whatever the last page still holds */
        pieces = (pieces * k->chunk_bytes + page - 1) / page * page / k->chunk_bytes;
    s = calloc(1, sizeof(*s) + pieces * sizeof(s->free_memory[0]));
    if (s == NULL)
        return error_set(err, -ENOMEM, "no memory for the books of registered memory");
    s->bytes = pieces * k->chunk_bytes;
    s->base = pool_map(&s->bytes, k->huge);
    if (s->base == NULL) {
        rc = -ENOMEM;
        error_note(
            err,
            "%zu bytes of memory cannot be mapped: %s (address space, ulimit -v; or overcommit)",
            pieces * k->chunk_bytes, strerror(errno));
        goto fail;
    }
    rc = pool->device.register_range(pool->backend, k->peer, s->base, s->bytes, k->access,
                                     &s->registration, err);
    if (rc != 0) {
        munmap(s->base, s->bytes);
        goto fail;
    }
    s->pieces = (uint32_t)pieces;
    s->peer = k->peer;
    s->kind = k;
    k->pieces += s->pieces;
    list_append(&k->open, &s->open);
    list_append(&k->slabs, &s->link);
    *out = s;
    return 0;
fail:
    free(s);
    return rc;
}

static void pool_slab_destroy(struct pool *pool, struct slab *s)
{
    pool->device.deregister(pool->backend, s->registration);
    list_remove(&s->link);
    if (s->kind != NULL) {
        list_remove(&s->open);
        if (!s->kept)
            s->kind->pieces -= s->pieces;
        munmap(s->base, s->bytes);
    }
    free(s);
}

/* ---- pieces ---- */

int pool_alloc(struct pool *pool, int peer, size_t bytes, uint32_t access, bool huge,
               struct btl_memory *memory, struct error *err)
{
    size_t rounded = bytes > 0 ? (bytes + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1) : CACHE_LINE;
    struct kind *k = NULL;
    struct slab *s;
    uint32_t index;
    int rc = 0;

    if (rounded < bytes)
        return error_set(err, -ENOMEM, "no machine has %zu bytes", bytes);
    pthread_mutex_lock(&pool->lock);
    k = pool_find_kind(pool, peer, rounded, access, huge);
    if (k == NULL) {
        error_note(err, "no memory for the books of registered memory");
        rc = -ENOMEM;
    } else if (list_empty(&k->open)) {
        rc = pool_slab_make(pool, k, &s, err);
    }
    if (rc != 0) {
        pthread_mutex_unlock(&pool->lock);
        return rc;
    }
    s = container_of(k->open.next, struct slab, open);
    index = s->free_top > 0 ? s->free_memory[--s->free_top] : s->fresh++;
    if (++s->used == s->pieces)
        list_remove(&s->open);
    memory->base = s->base + (size_t)index * rounded;
    memory->bytes = rounded;
    memory->slab = s;
    pool->device.key(pool->backend, s->registration, s->base, (size_t)index * rounded, rounded,
                     &memory->key);
    pthread_mutex_unlock(&pool->lock);
    return 0;
}

int pool_register(struct pool *pool, int peer, void *base, size_t bytes, uint32_t access,
                  struct btl_memory *memory, struct error *err)
{
    struct slab *s = calloc(1, sizeof(*s));
    int rc;

    if (s == NULL)
        return error_set(err, -ENOMEM, "no memory for the books of registered memory");
    s->peer = peer;
    s->base = base;
    s->bytes = bytes;
    s->pieces = s->used = 1;
    pthread_mutex_lock(&pool->lock);
    rc = pool->device.register_range(pool->backend, peer, base, bytes, access, &s->registration,
                                     err);
    if (rc == 0) {
        list_append(&pool->adopted, &s->link);
        memory->base = base;
        memory->bytes = bytes;
        memory->slab = s;
        pool->device.key(pool->backend, s->registration, base, 0, bytes, &memory->key);
    } else {
        free(s);
    }
    pthread_mutex_unlock(&pool->lock);
    return rc;
}

void pool_free(struct pool *pool, struct btl_memory *memory)
{
    struct slab *s = memory->slab;

    if (s == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    if (s->kind == NULL) {
        pool_slab_destroy(pool, s);
    } else if (s->kept) {
        s->used--;
    } else {
        if (s->used == s->pieces)
            list_append(&s->kind->open, &s->open);
        s->free_memory[s->free_top++] =
            (uint32_t)((size_t)((char *)memory->base - s->base) / s->kind->chunk_bytes);
        if (--s->used == 0)
            pool_slab_destroy(pool, s);
    }
    pthread_mutex_unlock(&pool->lock);
    memory->slab = NULL;
    memory->base = NULL;
}

void pool_keep(struct pool *pool, int peer)
{
    struct link *at, *after;
    size_t cursor = 0;
    struct kind *k;

    pthread_mutex_lock(&pool->lock);
    while ((k = hash_next(&pool->kinds, &cursor)) != NULL) {
        if (k->peer != peer)
            continue;
        list_for_each (at, after, &k->slabs) {
            struct slab *s = container_of(at, struct slab, link);

            s->kept = true;
            list_remove(&s->open);
        }
        k->pieces = 0;
    }
    pthread_mutex_unlock(&pool->lock);
}

int pool_peer(const struct btl_memory *memory) { return ((const struct slab *)memory->slab)->peer; }

/* ---- the pool ---- */

int pool_create(const struct pool_device *device, void *backend, struct pool **out)
{
    struct pool *pool = calloc(1, sizeof(*pool));

    if (pool == NULL)
        return -ENOMEM;
    pool->device = *device;
    pool->backend = backend;
    pthread_mutex_init(&pool->lock, NULL);
    hash_init(&pool->kinds);
    list_init(&pool->adopted);
    *out = pool;
    return 0;
}

void pool_destroy(struct pool *pool)
{
    size_t cursor = 0;
    struct kind *k;

    if (pool == NULL)
        return;
    while ((k = hash_next(&pool->kinds, &cursor)) != NULL) {
        while (!list_empty(&k->slabs))
            pool_slab_destroy(pool, container_of(k->slabs.next, struct slab, link));
        free(k);
    }
    while (!list_empty(&pool->adopted))
        pool_slab_destroy(pool, container_of(pool->adopted.next, struct slab, link));
    hash_free(&pool->kinds);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void pool_forked(struct pool *pool) { pthread_mutex_init(&pool->lock, NULL); }
