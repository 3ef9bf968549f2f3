/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim_memory.c: memory regions of the simulated network.
 *
 * Each is a mapping of its own that ends at a page which cannot be touched. New memory may hold anything, as a
 * region that is used again does. A region that is given back becomes such a page as a whole, and its addresses are not
 * used again for a while.
 */
#include "sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define QUARANTINE_MOST 512u
#define ALIGNED_MOST ((size_t)1 << 20)
#define NOISE_MOST ((size_t)64 << 10)

enum { KEY_ID, KEY_BYTES, KEY_ACCESS, KEY_CHECK };

static uint64_t key_check(const struct sim_piece *p)
{
    return (p->id * 0x9e3779b97f4a7c15u) ^ p->bytes;
}

/* Word by word, as a device does: an aligned word is whole, and there is no order between two. */
void sim_copy_from(void *copy, const void *memory, size_t bytes)
{
    const uint8_t *from = memory;
    uint8_t *to = copy;

    while (bytes > 0) {
        bool word = bytes >= 8 && ((uintptr_t)from & 7) == 0;
        uint64_t value;

        /* acquire: pairs with the release of the process that stored what is fetched */
        if (word) {
            value = __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);
            memcpy(to, &value, 8);
        } else {
            *to = __atomic_load_n(from, __ATOMIC_ACQUIRE);
        }
        from += word ? 8 : 1;
        to += word ? 8 : 1;
        bytes -= word ? 8 : 1;
    }
}

void sim_copy_to(void *memory, const void *copy, size_t bytes)
{
    const uint8_t *from = copy;
    uint8_t *to = memory;

    while (bytes > 0) {
        bool word = bytes >= 8 && ((uintptr_t)to & 7) == 0;
        uint64_t value;

        /* release: what was stored before is visible to a thread that sees this; pairs with the loads of the layers above */
        if (word) {
            memcpy(&value, from, 8);
            __atomic_store_n((uint64_t *)(void *)to, value, __ATOMIC_RELEASE);
        } else {
            __atomic_store_n(to, *from, __ATOMIC_RELEASE);
        }
        from += word ? 8 : 1;
        to += word ? 8 : 1;
        bytes -= word ? 8 : 1;
    }
}

static int enter(struct btl *btl, struct sim_piece *p, struct btl_memory *piece, struct error *err)
{
    p->id = ++btl->last_id;
    if (hash_put(&btl->pieces, p->id, p) != 0)
        return error_set(err, -ENOMEM, "no memory for the metadata of a region");
    *piece = (struct btl_memory){.base = p->base,
                                 .bytes = p->bytes,
                                 .key = {{p->id, p->bytes, p->access, key_check(p)}},
                                 .slab = p};
    return 0;
}

/* Aligned to the largest power of two that its size is a multiple of: heaps rely on that for their units. */
static int map(struct sim_piece *p, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), align = bytes & (~bytes + 1),
           whole = (bytes + page - 1) & ~(page - 1);
    uintptr_t end;

    if (align > ALIGNED_MOST)
        align = ALIGNED_MOST;
    if (align < SIM_SLOT_BYTES) {
        whole = (bytes + SIM_SLOT_BYTES - 1) & ~(size_t)(SIM_SLOT_BYTES - 1);
        align = SIM_SLOT_BYTES;
        p->map_bytes = ((whole + page - 1) & ~(page - 1)) + page;
    } else {
        p->map_bytes = whole + page + (align > page ? align : 0);
        whole = bytes;
    }
    p->map = mmap(NULL, p->map_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p->map == MAP_FAILED)
        return -ENOMEM;
    end =
        ((uintptr_t)p->map + p->map_bytes - page) & ~(uintptr_t)((align > page ? align : page) - 1);
    if (mprotect((void *)end, page, PROT_NONE) != 0) {
        munmap(p->map, p->map_bytes);
        return -ENOMEM;
    }
    p->base = (uint8_t *)(end - whole);
    return 0;
}

static void spoil(struct btl *btl, struct sim_piece *p)
{
    size_t bytes = p->bytes < NOISE_MOST ? p->bytes : NOISE_MOST;

    if (!btl->calm && sim_draw(btl, 2) == 0)
        memset(p->base, (int)sim_draw(btl, 256), bytes);
}

int sim_alloc(struct btl *btl, int peer, size_t bytes, uint32_t access, bool huge,
              struct btl_memory *piece, struct error *err)
{
    struct sim_piece *p = calloc(1, sizeof(*p));
    int rc = -ENOMEM;

    (void)huge;
    if (bytes == 0 || access > BTL_LOCAL || !sim_is_peer(btl, peer))
        sim_die("alloc of %zu bytes for rank %d with access %u", bytes, peer, access);
    if (p == NULL || map(p, bytes) != 0) {
        error_note(err, "no memory for a region of %zu bytes", bytes);
        free(p);
        return -ENOMEM;
    }
    p->bytes = bytes;
    p->access = access;
    pthread_mutex_lock(&btl->lock);
    spoil(btl, p);
    rc = enter(btl, p, piece, err);
    pthread_mutex_unlock(&btl->lock);
    if (rc != 0) {
        munmap(p->map, p->map_bytes);
        free(p);
    }
    return rc;
}

int sim_adopt(struct btl *btl, int peer, void *base, size_t bytes, uint32_t access,
              struct btl_memory *piece, struct error *err)
{
    struct sim_piece *p = calloc(1, sizeof(*p));
    int rc;

    if (base == NULL || bytes == 0 || access > BTL_LOCAL || !sim_is_peer(btl, peer))
        sim_die("registration of %zu bytes for rank %d with access %u", bytes, peer, access);
    if (p == NULL)
        return error_set(err, -ENOMEM, "no memory for the metadata of a region");
    *p = (struct sim_piece){.base = base, .bytes = bytes, .access = access};
    pthread_mutex_lock(&btl->lock);
    rc = enter(btl, p, piece, err);
    pthread_mutex_unlock(&btl->lock);
    if (rc != 0)
        free(p);
    return rc;
}

int sim_share(struct btl *btl, int peer, const struct btl_memory *piece, struct btl_key *key,
              struct error *err)
{
    (void)err;
    if (!sim_is_peer(btl, peer))
        sim_die("share of a region with rank %d", peer);
    *key = piece->key;
    return 0;
}

static void unmap(struct sim_piece *p)
{
    list_remove(&p->link);
    if (p->map != NULL)
        munmap(p->map, p->map_bytes);
    free(p->stale);
    free(p);
}

/* The oldest that no peer has attached. */
static void unmap_one(struct btl *btl)
{
    struct link *at, *after;

    list_for_each (at, after, &btl->quarantine) {
        struct sim_piece *p = container_of(at, struct sim_piece, link);

        if (p->attached > 0)
            continue;
        unmap(p);
        btl->quarantined--;
        return;
    }
}

void sim_free(struct btl *btl, struct btl_memory *piece)
{
    struct sim_piece *p = piece->slab;

    pthread_mutex_lock(&btl->lock);
    if (hash_get(&btl->pieces, piece->key.word[KEY_ID]) != p || p == NULL)
        sim_die("free of a region that is not, or is no longer, in use (%p)", piece->base);
    sim_stragglers_end(btl, 0, p);
    if (p->near + p->far > 0)
        sim_die(
            "free of a region of %zu bytes while %u operations from here and %u of the peer are "
            "outstanding",
            p->bytes, p->near, p->far);
    hash_remove(&btl->pieces, p->id);
    if (p->map != NULL) {
        (void)madvise(p->map, p->map_bytes, MADV_DONTNEED);
        if (mprotect(p->map, p->map_bytes, PROT_NONE) != 0)
            sim_die("mprotect of a region that is given back");
    }
    p->id = 0;
    list_append(&btl->quarantine, &p->link);
    if (++btl->quarantined > QUARANTINE_MOST)
        unmap_one(btl);
    pthread_mutex_unlock(&btl->lock);
    *piece = (struct btl_memory){0};
}

int sim_attach(struct btl *btl, int peer, const struct btl_key *key, size_t bytes, uint32_t access,
               struct btl_remote *remote, struct error *err)
{
    struct sim_piece *p;
    int rc = -EPROTO;

    if (!sim_is_peer(btl, peer))
        sim_die("attach to a region of rank %d", peer);
    if (btl->down) { /* it may be in another process, and is not accessed */
        *remote = (struct btl_remote){NULL, bytes, NULL, *key, false};
        return 0;
    }
    pthread_mutex_lock(&btl->lock);
    p = hash_get(&btl->pieces, key->word[KEY_ID]);
    if (p == NULL || key->word[KEY_CHECK] != key_check(p) || key->word[KEY_BYTES] != p->bytes)
        error_note(err, "rank %d has no such region", peer);
    else if (p->access == BTL_LOCAL || p->access != access || key->word[KEY_ACCESS] != access)
        error_note(err, "the region of rank %d has access %u, not %u", peer, p->access, access);
    else if (p->bytes < bytes)
        error_note(err, "the region of rank %d has %zu bytes; it needs %zu", peer, p->bytes, bytes);
    else
        rc = 0;
    if (rc == 0) {
        p->attached++;
        *remote = (struct btl_remote){NULL, bytes, p, *key, false};
        if (btl->defect == DEFECT_STALE_GET && p->stale == NULL &&
            (p->stale = malloc(p->bytes)) != NULL)
            memcpy(p->stale, p->base, p->bytes);
    }
    pthread_mutex_unlock(&btl->lock);
    return rc;
}

/* The region may be gone already: what is attached is no more than a name. Operations of others that have it attached go on. */
void sim_detach(struct btl *btl, struct btl_remote *remote)
{
    struct sim_piece *p = remote->mapping;

    if (btl->down) {
        *remote = (struct btl_remote){0};
        return;
    }
    pthread_mutex_lock(&btl->lock);
    if (p == NULL || p->attached == 0)
        sim_die("detach of what is not attached");
    if (p->far > 0 && p->attached == 1)
        sim_die("detach of a region of %zu bytes while %u operations on it are outstanding",
                p->bytes, p->far);
    p->attached--;
    pthread_mutex_unlock(&btl->lock);
    *remote = (struct btl_remote){0};
}

void sim_memory_end(struct btl *btl)
{
    struct sim_piece *p;
    size_t cursor = 0;

    while ((p = hash_next(&btl->pieces, &cursor)) != NULL)
        list_append(&btl->quarantine, &p->link);
    hash_free(&btl->pieces);
    while (!list_empty(&btl->quarantine))
        unmap(container_of(btl->quarantine.next, struct sim_piece, link));
}
