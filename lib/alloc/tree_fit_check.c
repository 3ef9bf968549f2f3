/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree_fit_check.c: see tree_fit_check.h; the invariants are those of tree_fit.c and free_set.h.
 */
#include "alloc/tree_fit_check.h"

#include "alloc/broken.h"
#include "alloc/free_set.h"

#include <string.h>

uint64_t tree_fit_unsent_room(const struct heap *h, const struct segment *s)
{
    uint64_t most = 0, room = 0;

    for (const struct rdesc *d = linked(s->edge.next); d != &s->edge; d = linked(d->next)) {
        room = desc_state(d) == DESC_OWNED ? 0 : room + block_bytes(h, d);
        most = room > most ? room : most;
    }
    return most;
}

/* Blocks of segregated-fit that wait for their neighbors are free as well: what is free is one block. */
static bool tree_fit_walk_is_free(const struct rdesc *d)
{
    return desc_state(d) >= DESC_FREED && desc_state(d) <= DESC_LOOSE;
}

int tree_fit_walk(const struct heap *h, const struct segment *s, heap_visit visit, void *arg)
{
    int result = 0;

    for (struct rdesc *d = linked(s->edge.next); d != &s->edge && result == 0;
         d = linked(d->next)) {
        rvmem_block_t b = {.offset = d->offset, .bytes = block_bytes(h, d), .segment = s->number};

        if (!tree_fit_walk_is_free(d)) {
            b.state = RVMEM_USED;
            b.size = d->size;
            b.d = desc_handle(d);
        } else {
            for (; tree_fit_walk_is_free(linked(d->next)); b.bytes += block_bytes(h, d))
                d = linked(d->next);
        }
        result = visit(&b, arg);
    }
    return result;
}

void tree_fit_stats(const struct heap *h, rvmem_stats_t *stats)
{
    stats->blocks_free = h->free.indexed + (h->free.loose->units > 0);
    for (const struct rdesc *d = h->free.unindexed; d != NULL; d = d->link)
        stats->blocks_free++;
    stats->metadata += h->free.nodes.made + h->free.indices * sizeof(struct index);
    if (h->free.list != NULL)
        stats->metadata += h->free.lists.made + LISTED_UNITS * sizeof(struct lowest);
}

/* ---- check ---- */

struct totals {
    uint64_t used;
    uint32_t blocks, handed_out, loose;
    uint32_t indexed; /* that are DESC_FREE, */
    uint32_t apart;   /* and of those in no index and no list */
};

/* Whether a free block is in its index; lists are verified as a whole. */
static bool tree_fit_check_indexed(const struct heap *h, const struct rdesc *d)
{
    const uint64_t key = tree_fit_key(h, d, h->algorithm);
    const uint32_t class = tree_fit_class(d->units, h->algorithm);
    struct index_place place;

    if (free_set_is_apart(h, d, h->algorithm) || free_set_is_listed(class, h->algorithm))
        return true;
    return free_set_number(class, h->algorithm) < h->free.indices &&
           index_from(free_set_index(h, class, h->algorithm), key, &place) &&
           index_key(&place) == key && index_block(&place) == d;
}

static int tree_fit_check_free(const struct heap *h, const struct rdesc *d, struct error *err)
{
    const unsigned long long at = d->offset;
    const struct rdesc *unindexed = h->free.unindexed;

    if (desc_state(d) == DESC_FREE && !tree_fit_check_indexed(h, d))
        return broken(err, "the free block at %llu is not in its index", at);
    if (desc_state(d) == DESC_LOOSE && d != h->free.loose) {
        while (unindexed != NULL && unindexed != d)
            unindexed = unindexed->link;
        if (unindexed == NULL)
            return broken(err, "the free block at %llu is neither loose nor unindexed", at);
    }
    if (links_to_free(d->prev))
        return broken(err, "the neighbors at %llu and %llu are both free",
                      (unsigned long long)linked(d->prev)->offset, at);
    return 0;
}

/* The value of the neighbors' links to it. */
static const struct rdesc *tree_fit_check_link_of(const struct rdesc *d)
{
    return tree_fit_is_free(d) ? link_to_free(d) : d;
}

/* Verifies the blocks of a segment. */
static int tree_fit_check_chain(const struct heap *h, const struct segment *s, struct totals *t,
                                struct error *err)
{
    const struct rdesc *d = linked(s->edge.next), *prev = &s->edge;
    uint64_t end = s->begin;
    int error;

    for (; d != &s->edge; prev = d, d = linked(d->next)) {
        if (!desc_pool_holds(&h->pool, d) || d->prev != tree_fit_check_link_of(prev) ||
            prev->next != tree_fit_check_link_of(d) || t->blocks > h->pool.made)
            return broken(err, "the chain of blocks is torn after the block at %llu",
                          (unsigned long long)prev->offset);
        if (d->offset != end)
            return broken(err, "after the block that ends at %llu comes one that begins at %llu",
                          (unsigned long long)end, (unsigned long long)d->offset);
        error = fit_check_block(h, s, d, err);
        if (error != 0)
            return error;
        t->blocks++;
        end += block_bytes(h, d);
        if (desc_state(d) == DESC_FREE || desc_state(d) == DESC_LOOSE) {
            t->indexed += desc_state(d) == DESC_FREE;
            t->apart += desc_state(d) == DESC_FREE && free_set_is_apart(h, d, h->algorithm);
            t->loose += desc_state(d) == DESC_LOOSE;
            error = tree_fit_check_free(h, d, err);
            if (error != 0)
                return error;
        } else if (desc_state(d) == DESC_OWNED || desc_state(d) == DESC_SENT) {
            t->handed_out++;
            t->used += block_bytes(h, d);
        } else {
            return broken(err, "the block at %llu is in state %u", (unsigned long long)d->offset,
                          desc_state(d));
        }
    }
    if (end != s->end || s->edge.prev != tree_fit_check_link_of(prev) || prev->next != &s->edge)
        return broken(err, "the last block of a segment ends at %llu, the segment at %llu",
                      (unsigned long long)end, (unsigned long long)s->end);
    return 0;
}

struct list_of {
    const struct heap *h;
    uint32_t units;
};

static bool tree_fit_check_may_list(const struct rdesc *d, uint64_t place, const void *arg)
{
    const struct list_of *of = arg;

    return desc_pool_holds(&of->h->pool, d) && desc_state(d) == DESC_FREE &&
           d->units == of->units && d->offset >> of->h->shift == place && !block_is_short(of->h, d);
}

/* Best-fit: adds the blocks in lists, and the lists that have one. */
static int tree_fit_check_lists(const struct heap *h, uint32_t *listed, struct class_set *some,
                                struct error *err)
{
    uint32_t nodes = 0;

    for (uint32_t c = 0; h->free.list != NULL && c < LISTED_UNITS; c++) {
        const struct list_of of = {h, c + 1};

        if (lowest_check(&h->free.list[c], tree_fit_check_may_list, &of, h->pool.made, listed,
                         &nodes, err) != 0)
            return -EUCLEAN;
        if (!lowest_is_empty(&h->free.list[c]))
            class_set_add(some, c);
    }
    return lowest_pool_check(&h->free.lists, nodes, err);
}

static int tree_fit_check_indices(const struct heap *h, const struct totals *t, struct error *err)
{
    uint32_t nodes[2] = {0, 0}, indexed = t->apart, loose = h->free.loose->units > 0;
    const uint32_t lists = h->algorithm == RMALLOC_BEST_FIT ? LISTED_UNITS : 0;
    struct class_set some = {.words = 0};

    for (uint32_t c = 0; c < h->free.indices; c++) {
        if (index_check(&h->free.index[c], &h->free.nodes, nodes, err) != 0)
            return -EUCLEAN;
        indexed += h->free.index[c].count;
        if (h->free.index[c].count > 0)
            class_set_add(&some, lists + c);
    }
    if (index_pool_check(&h->free.nodes, nodes, err) != 0 ||
        tree_fit_check_lists(h, &indexed, &some, err) != 0)
        return -EUCLEAN;
    if (memcmp(&some, &h->free.some, sizeof(some)) != 0)
        return broken(err, "the set of classes that have free blocks is wrong");
    if (h->free.unindexed != NULL && h->free.loose != &h->first.edge)
        return broken(err, "a block is loose while others are unindexed");
    for (const struct rdesc *d = h->free.unindexed; d != NULL && loose <= h->pool.made; d = d->link)
        loose++;
    if (t->indexed != indexed || indexed != h->free.indexed || t->loose != loose)
        return broken(
            err,
            "%u free blocks should be in an index and %u not; %u and %u are, and %u are counted",
            t->indexed, t->loose, indexed, loose, h->free.indexed);
    return 0;
}

int tree_fit_check(const struct heap *h, struct error *err, uint32_t *descriptors,
                   uint32_t *handed_out)
{
    struct totals t = {.used = 0};
    int error;

    for (const struct segment *s = &h->first; s != NULL; s = s->next) {
        error = tree_fit_check_chain(h, s, &t, err);
        if (error != 0)
            return error;
    }
    if (t.used != h->used)
        return broken(err, "%llu bytes are handed out, %llu are counted",
                      (unsigned long long)t.used, (unsigned long long)h->used);
    error = tree_fit_check_indices(h, &t, err);
    if (error != 0)
        return error;
    *descriptors = t.blocks;
    *handed_out = t.handed_out;
    return 0;
}
