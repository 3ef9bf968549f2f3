/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree_fit_cut.c: see tree_fit_cut.h.
 */
#include "alloc/tree_fit_cut.h"

#include "alloc/free_set.h"

#include <errno.h>

int tree_fit_more_descriptors(struct heap *h)
{
    return h->allocs - h->frees >= h->most ? -ENOBUFS : desc_pool_grow(&h->pool);
}

struct rdesc *tree_fit_renew(struct heap *h, struct rdesc *d)
{
    struct rdesc *other = desc_renew(&h->pool, d);

    if (other != d) {
        other->mem = d->mem;
        other->size = d->size;
        other->offset = d->offset;
        other->units = d->units;
        other->prev = d->prev;
        other->next = d->next;
        tree_fit_mark_used(other);
    }
    return other;
}

/* ---- a block at a given offset ---- */

static bool tree_fit_contains(const struct heap *h, const struct rdesc *d, uint64_t offset)
{
    return offset - d->offset < (uint64_t)d->units << h->shift;
}

/* The free block that contains the offset, or NULL. */
static struct rdesc *tree_fit_free_block_at(const struct heap *h, uint64_t offset)
{
    struct rdesc *d = h->free.loose;
    struct index_place place;

    if (tree_fit_contains(h, d, offset))
        return d;
    if (!index_below(&h->free.index[0], ((offset >> h->shift) + 1) << 32, &place))
        return NULL;
    d = index_block(&place);
    return tree_fit_contains(h, d, offset) ? d : NULL;
}

/* Adds a free block to the set, as the one that changed last. */
static void tree_fit_add_free(struct heap *h, struct rdesc *d, fit_t fit)
{
    tree_fit_mark_free(d);
    free_set_index_loose(h, fit);
    free_set_make_loose(h, d, fit);
}

struct rdesc *tree_fit_carve(struct heap *h, uint64_t offset, size_t size)
{
    struct rdesc *d, *low = NULL, *high = NULL;
    uint32_t units;
    int error = 0;

    if (size > h->largest)
        return heap_refuse(h, -EMSGSIZE);
    if ((offset & h->round_up) != 0)
        return heap_refuse(h, -EINVAL);
    if (!free_set_index_all(h, RMALLOC_FIRST_FIT))
        return heap_refuse(h, -ENOMEM);
    units = (uint32_t)tree_fit_units(h, size);
    d = tree_fit_free_block_at(h, offset);
    if (d == NULL || size + (size == 0) > d->offset + block_bytes(h, d) - offset)
        return heap_refuse(h, -EAGAIN);
    while (error == 0 &&
           (h->allocs - h->frees >= h->most || h->pool.free == NULL || h->pool.free->link == NULL))
        error = tree_fit_more_descriptors(h);
    if (error != 0)
        return heap_refuse(h, error);
    free_set_remove(h, d, RMALLOC_FIRST_FIT);
    if (offset > d->offset)
        low = tree_fit_cut(h, d, (uint32_t)((offset - d->offset) >> h->shift));
    if (d->units > units) {
        high = d;
        d = tree_fit_cut(h, high, units);
        free_set_index_loose(h, RMALLOC_FIRST_FIT);
        free_set_make_loose(h, high, RMALLOC_FIRST_FIT);
    }
    tree_fit_mark_used(d);
    if (low != NULL)
        tree_fit_add_free(h, low, RMALLOC_FIRST_FIT);
    return tree_fit_hand_out(h, d, size, block_bytes(h, d));
}

/* ---- the tail of a block ---- */

/*
 * A descriptor for the tail of `d`, linked behind it as an allocated block; NULL: there is no
 * memory.
 */
static struct rdesc *tree_fit_split_tail(struct heap *h, struct rdesc *d)
{
    struct rdesc *tail = desc_take(&h->pool);

    if (tail == NULL)
        return NULL;
    tail->units = 0;
    tail->next = d->next;
    return tail;
}

void tree_fit_shrink(struct heap *h, struct rdesc *d, uint32_t units)
{
    const uint64_t kept = (uint64_t)units << h->shift;
    struct rdesc *tail = linked(d->next);

    if (links_to_free(d->next))
        free_set_remove(h, tail, h->algorithm);
    else
        tail = tree_fit_split_tail(h, d);
    if (tail == NULL)
        return;
    h->used -= block_bytes(h, d) - kept;
    tail->units += d->units - units;
    tail->offset = d->offset + kept;
    tail->mem = (void *)((uintptr_t)d->mem + ((uintptr_t)kept & h->mapped));
    tail->prev = d;
    d->units = units;
    tree_fit_add_free(h, tail, h->algorithm);
}
