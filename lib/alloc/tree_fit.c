/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree_fit.c: first-, best-, worst- and random-fit: the heuristics that choose among free blocks,
 * exactly.
 *
 * All blocks of a segment, allocated or free, form a chain by address, from its edge to its edge
 * (tree_block.h). A block that is split gives its low end and keeps its descriptor for the rest; a
 * block that is freed merges with free neighbors. Free blocks are found by indices (index.h); a
 * heuristic prefers the smallest key:
 *
 *   first-fit    offset, units      one index, with the largest units of each subtree
 *   best-fit     units, offset      one for each size class: the first with a block large enough;
 *                                   up to LISTED_UNITS a list for each size (lowest.h)
 *   worst-fit    ~units, offset     one for each size class: the last class
 *   random-fit   units, offset      one index, with the number of blocks of each subtree
 *
 * The block that changed last is loose (free_set.h). With first-fit a block that loses its low end,
 * or grows, keeps its place in the order: its entry is changed in place.
 *
 * A block with exactly enough units may be a little too short for a request, because it ends at the
 * short end of a segment; the next best one is taken then. There is at most one such block in a
 * segment.
 *
 * Invariants, in addition to those of free_set.h
 * 1. The chain of a segment tiles it. No two free blocks are neighbors in it.
 * 2. A block that is DESC_FREE is in the index of its class under its key, or where free_set.h
 *    has it with best-fit; one that is DESC_LOOSE is free.loose, or in the list free.unindexed.
 * 3. There are at most as many free blocks as segments and allocated blocks, so that the pool has
 *    descriptors for as many blocks as may be allocated, in whatever order.
 */
#include "alloc/tree_fit.h"

#include "alloc/free_set.h"
#include "alloc/tree_fit_check.h"
#include "alloc/tree_fit_cut.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the choice ---- */

/* A request, and where the block is that was found for it. */
struct search {
    size_t size;
    uint32_t units;
    uint32_t class;           /* of the block; SIZE_CLASS_NONE: it is in no index and no list */
    uint64_t key;             /* of the block */
    struct index_place place; /* in its index, if it is in one */
};

static FORCE_INLINE bool tree_fit_fits(const struct heap *h, const struct rdesc *d,
                                       const struct search *s)
{
    return d->units > s->units ||
           (d->units == s->units && (!h->ragged || s->size <= block_bytes(h, d)));
}

static FORCE_INLINE struct rdesc *tree_fit_find_first(const struct heap *h, struct search *s)
{
    const struct index *index = &h->free.index[0];
    bool found = index_first_of(index, s->units, &s->place);

    s->class = 0;
    while (found && h->ragged && !tree_fit_fits(h, index_block(&s->place), s))
        found = index_next_of(index, s->units, &s->place);
    return found ? index_block(&s->place) : NULL;
}

/* The best block of those in indices, from a class on. */
static struct rdesc *tree_fit_find_best_indexed(const struct heap *h, struct search *s)
{
    const uint64_t key = (uint64_t)s->units << 32;

    for (; s->class != SIZE_CLASS_NONE; s->class = class_set_from(&h->free.some, s->class + 1))
        if (index_from(free_set_index(h, s->class, RMALLOC_BEST_FIT), key, &s->place)) {
            s->key = index_key(&s->place);
            return index_block(&s->place);
        }
    return NULL;
}

/* The better one of `d`, which may be NULL, and the blocks with a short last unit. */
static NOINLINE struct rdesc *tree_fit_find_best_short(const struct heap *h, struct search *s,
                                                       struct rdesc *d)
{
    for (const struct segment *g = &h->first; g != NULL; g = g->next) {
        struct rdesc *last = linked(g->edge.prev);
        const uint64_t key = tree_fit_key(h, last, RMALLOC_BEST_FIT);

        if (desc_state(last) != DESC_FREE || !block_is_short(h, last) ||
            !tree_fit_fits(h, last, s) || (d != NULL && s->key < key))
            continue;
        s->class = SIZE_CLASS_NONE;
        s->key = key;
        d = last;
    }
    return d;
}

static FORCE_INLINE struct rdesc *tree_fit_find_best(const struct heap *h, struct search *s)
{
    const struct lowest_entry *first;
    struct rdesc *d;

    s->class = class_set_from(&h->free.some, listed_class(s->units));
    if (LIKELY(s->class < LISTED_UNITS)) {
        first = &h->free.list[s->class].first;
        s->key = ((uint64_t)s->class + 1) << 32 | lowest_place(first);
        d = first->block;
    } else {
        d = tree_fit_find_best_indexed(h, s);
    }
    return LIKELY(!h->ragged) ? d : tree_fit_find_best_short(h, s, d);
}

static FORCE_INLINE struct rdesc *tree_fit_find_worst(const struct heap *h, struct search *s)
{
    const uint32_t class = class_set_last(&h->free.some);
    bool found = class != SIZE_CLASS_NONE && index_from(&h->free.index[class], 0, &s->place);

    s->class = class;
    while (found && h->ragged && index_block(&s->place)->units == s->units &&
           !tree_fit_fits(h, index_block(&s->place), s))
        found = index_next(&h->free.index[class], &s->place);
    return found && index_block(&s->place)->units >= s->units ? index_block(&s->place) : NULL;
}

/* Random-fit: the smallest one. A request draws one instead (tree_fit_find_random). */
static struct rdesc *tree_fit_find_smallest(const struct heap *h, struct search *s)
{
    const struct index *index = &h->free.index[0];
    bool found = index_from(index, (uint64_t)s->units << 32, &s->place);

    while (found && h->ragged && !tree_fit_fits(h, index_block(&s->place), s))
        found = index_next(index, &s->place);
    return found ? index_block(&s->place) : NULL;
}

/* The block that the heuristic prefers among those large enough; NULL: there is none. */
static FORCE_INLINE struct rdesc *tree_fit_find(const struct heap *h, struct search *s, fit_t fit)
{
    struct rdesc *loose = h->free.loose, *d = NULL;

    if (h->free.indexed > 0)
        d = fit == RMALLOC_FIRST_FIT   ? tree_fit_find_first(h, s)
            : fit == RMALLOC_WORST_FIT ? tree_fit_find_worst(h, s)
            : fit == RMALLOC_BEST_FIT  ? tree_fit_find_best(h, s)
                                       : tree_fit_find_smallest(h, s);
    if (fit != RMALLOC_BEST_FIT && d != NULL)
        s->key = index_key(&s->place);
    if (tree_fit_fits(h, loose, s) && (d == NULL || tree_fit_key(h, loose, fit) < s->key))
        d = loose;
    return d;
}

/* Removes the block that a search has found from its list or index. */
static FORCE_INLINE void tree_fit_take_found(struct heap *h, const struct search *s,
                                             struct rdesc *d, fit_t fit)
{
    if (free_set_is_listed(s->class, fit))
        free_set_take_listed(h, s->class + 1, d);
    else if (fit == RMALLOC_BEST_FIT && s->class == SIZE_CLASS_NONE)
        h->free.indexed--;
    else
        free_set_take(h, s->class, &s->place, fit);
}

/* ---- random-fit: the draw ---- */

static uint64_t tree_fit_random_next(struct free_set *f) /* splitmix64 */
{
    uint64_t z = f->random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/*
 * Uniform in 0 .. n - 1: the high half of a product, drawn again where the low half would introduce
 * a bias.
 */
static uint32_t tree_fit_random_below(struct free_set *f, uint32_t n)
{
    uint64_t product = (tree_fit_random_next(f) >> 32) * n;

    if (UNLIKELY((uint32_t)product < n))
        while ((uint32_t)product < -n % n)
            product = (tree_fit_random_next(f) >> 32) * n;
    return (uint32_t)(product >> 32);
}

/*
 * Whether all of so many blocks with enough units are too short: those with exactly enough, at ends
 * of segments.
 */
static bool tree_fit_all_too_short(const struct heap *h, const struct search *s,
                                   uint32_t candidates)
{
    if (h->ragged)
        for (const struct segment *g = &h->first; g != NULL; g = g->next) {
            const struct rdesc *last = linked(g->edge.prev);

            candidates -=
                tree_fit_is_free(last) && last->units == s->units && !tree_fit_fits(h, last, s);
        }
    return candidates == 0;
}

/* Any of the blocks large enough, with equal probability; the loose block is the last of them. */
static struct rdesc *tree_fit_find_random(struct heap *h, struct search *s)
{
    const struct index *index = &h->free.index[0];
    const uint32_t skip = index_rank(index, (uint64_t)s->units << 32),
                   indexed = index->count - skip;
    struct rdesc *loose = h->free.loose, *d;
    const uint32_t candidates = indexed + (loose->units >= s->units);

    s->class = 0;
    if (tree_fit_all_too_short(h, s, candidates))
        return NULL;
    do {
        const uint32_t drawn = candidates > 1 ? tree_fit_random_below(&h->free, candidates) : 0;

        d = index_select(index, skip + drawn, &s->place) ? index_block(&s->place) : loose;
    } while (!tree_fit_fits(h, d, s));
    return d;
}

/* ---- allocation ---- */

static FORCE_INLINE struct rdesc *tree_fit_tree_alloc(struct heap *h, size_t size, fit_t fit)
{
    struct rdesc *d, *rest;
    struct search s;
    int error;

    if (UNLIKELY(size > h->largest))
        return heap_refuse(h, -EMSGSIZE);
    if (!free_set_index_all(h, fit))
        return heap_refuse(h, -ENOMEM);
    s.size = size;
    s.units = (uint32_t)tree_fit_units(h, size);
    d = fit == RMALLOC_RANDOM_FIT ? tree_fit_find_random(h, &s) : tree_fit_find(h, &s, fit);
    if (UNLIKELY(d == NULL))
        return heap_refuse(h, -EAGAIN);
    if (UNLIKELY(h->pool.free == NULL ||
                 h->allocs - h->frees >= h->most)) { /* before anything changes */
        error = tree_fit_more_descriptors(h);
        if (error != 0)
            return heap_refuse(h, error);
    }
    if (d == h->free.loose) {
        if (d->units != s.units)
            d = tree_fit_cut(h, d, s.units); /* the rest stays loose */
        else
            h->free.loose = tree_fit_none(h);
    } else if (d->units == s.units) {
        tree_fit_take_found(h, &s, d, fit);
    } else {
        rest = d;
        d = tree_fit_cut(h, rest, s.units);
        if (fit != RMALLOC_FIRST_FIT || !index_replace(&h->free.index[0], &h->free.nodes, &s.place,
                                                       tree_fit_key(h, rest, fit), rest)) {
            tree_fit_take_found(h, &s, rest, fit);
            free_set_index_loose(h, fit);
            free_set_make_loose(h, rest, fit);
        }
    }
    tree_fit_mark_used(d);
    return tree_fit_hand_out(h, d, size, block_bytes(h, d));
}

/* ---- freeing ---- */

/*
 * First-fit: a freed block merges with an indexed neighbor, which keeps its place. False: the
 * neighbor is not indexed.
 */
static FORCE_INLINE bool tree_fit_grow_in_place(struct heap *h, struct rdesc *d,
                                                struct rdesc *neighbor)
{
    struct index_place place;

    if (desc_state(neighbor) != DESC_FREE)
        return false;
    index_from(&h->free.index[0], tree_fit_key(h, neighbor, RMALLOC_FIRST_FIT), &place);
    if (d->next == link_to_free(neighbor)) {
        tree_fit_merge(h, d, neighbor);
        d = neighbor;
    } else {
        tree_fit_merge(h, neighbor, d);
        linked(d->next)->prev = link_to_free(d);
        desc_set_state(d, DESC_FREE);
    }
    if (!index_replace(&h->free.index[0], &h->free.nodes, &place,
                       tree_fit_key(h, d, RMALLOC_FIRST_FIT), d)) {
        free_set_take(h, 0, &place, RMALLOC_FIRST_FIT);
        free_set_index_loose(h, RMALLOC_FIRST_FIT);
        free_set_make_loose(h, d, RMALLOC_FIRST_FIT);
    }
    return true;
}

static FORCE_INLINE void tree_fit_tree_free(struct heap *h, struct rdesc *d, fit_t fit)
{
    struct rdesc *prev = linked(d->prev), *next = linked(d->next);

    if (links_to_free(d->prev))
        __builtin_prefetch(prev); /* it is used last */
    h->frees++;
    h->used -= block_bytes(h, d);
    if (fit == RMALLOC_FIRST_FIT && links_to_free(d->prev) != links_to_free(d->next) &&
        tree_fit_grow_in_place(h, d, links_to_free(d->prev) ? prev : next))
        return;
    if (h->free.loose != prev && h->free.loose != next)
        free_set_index_loose(
            h, fit); /* while the descriptors of the neighbors are being fetched from memory */
    if (links_to_free(d->next)) {
        free_set_remove(h, next, fit);
        tree_fit_merge(h, d, next);
        d = next;
    } else {
        next->prev = link_to_free(d);
    }
    if (links_to_free(d->prev)) {
        free_set_remove(h, prev, fit);
        tree_fit_merge(h, prev, d);
    } else {
        prev->next = link_to_free(d);
    }
    free_set_make_loose(h, d, fit);
}

/* ---- segments ---- */

static void tree_fit_tree_open(struct heap *h, uint64_t seed, fit_t fit)
{
    const uint64_t blocks = 2 * (uint64_t)h->most; /* invariant 3 */

    desc_pool_init(&h->pool, blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX,
                   sizeof(struct rdesc), h->owner);
    index_pool_init(&h->free.nodes, fit == RMALLOC_FIRST_FIT    ? INDEX_LARGEST
                                    : fit == RMALLOC_RANDOM_FIT ? INDEX_COUNTED
                                                                : INDEX_PLAIN);
    h->free.random = seed;
    h->free.loose = tree_fit_none(h);
}

static void tree_fit_tree_close(struct heap *h)
{
    index_pool_destroy(&h->free.nodes);
    lowest_pool_destroy(&h->free.lists);
    free(h->free.index);
    free(h->free.list);
}

/* Best-fit: the lists. */
static int tree_fit_make_lists(struct heap *h)
{
    h->free.list = malloc(LISTED_UNITS * sizeof(*h->free.list));
    if (h->free.list == NULL)
        return -ENOMEM;
    for (uint32_t c = 0; c < LISTED_UNITS; c++)
        lowest_init(&h->free.list[c]);
    return 0;
}

/* Indices for all classes of sizes up to this one. */
static int tree_fit_more_indices(struct heap *h, uint32_t units, fit_t fit)
{
    const uint32_t class = tree_fit_class(units, fit);
    const uint32_t count = free_set_is_listed(class, fit) ? 0 : free_set_number(class, fit) + 1;
    struct index *index;

    if (fit == RMALLOC_BEST_FIT && h->free.list == NULL && tree_fit_make_lists(h) != 0)
        return -ENOMEM;
    if (count <= h->free.indices)
        return 0;
    index = realloc(h->free.index, count * sizeof(*index));
    if (index == NULL)
        return -ENOMEM;
    memset(&index[h->free.indices], 0, (count - h->free.indices) * sizeof(*index));
    h->free.index = index;
    h->free.indices = count;
    return 0;
}

static int tree_fit_tree_grow(struct heap *h, struct segment *s, fit_t fit)
{
    const uint32_t units = (uint32_t)((s->end - s->begin + h->round_up) >> h->shift);
    struct rdesc *d;

    if (tree_fit_more_indices(h, units, fit) != 0)
        return -ENOMEM;
    h->pool.limit += h->pool.limit < UINT32_MAX;
    d = desc_take(&h->pool);
    if (d == NULL) {
        h->pool.limit--;
        return -ENOMEM;
    }
    d->mem = address_of(h, s->zero, s->begin);
    d->offset = s->begin;
    d->units = units;
    d->prev = d->next = &s->edge;
    tree_fit_mark_free(d);
    free_set_index_loose(h, fit);
    free_set_make_loose(h, d, fit);
    return 0;
}

/* ---- statistics ---- */

static uint64_t tree_fit_tree_used(const struct heap *h) { return h->used; }

/* The largest number of units of a free block. */
static FORCE_INLINE uint32_t tree_fit_most_units(const struct heap *h, fit_t fit)
{
    const uint32_t class = class_set_last(&h->free.some);
    struct index_place place;
    uint32_t most = h->free.loose->units;

    for (const struct rdesc *d = h->free.unindexed; d != NULL; d = d->link)
        most = d->units > most ? d->units : most;
    for (const struct segment *g = &h->first; fit == RMALLOC_BEST_FIT && g != NULL; g = g->next) {
        const struct rdesc *last = linked(g->edge.prev);

        if (tree_fit_is_free(last) && last->units > most)
            most = last->units;
    }
    if (class != SIZE_CLASS_NONE) {
        uint32_t units = 0;

        if (fit == RMALLOC_FIRST_FIT)
            units = index_largest(&h->free.index[0], &h->free.nodes);
        else if (free_set_is_listed(class, fit))
            units = class + 1;
        else if (fit == RMALLOC_WORST_FIT
                     ? index_from(free_set_index(h, class, fit), 0, &place)
                     : index_below(free_set_index(h, class, fit), INDEX_KEY_MOST, &place))
            units = index_block(&place)->units;
        most = units > most ? units : most;
    }
    return most;
}

/* In bytes; if all the largest blocks are short, the longest of them. */
static uint64_t tree_fit_tree_largest(const struct heap *h, fit_t fit)
{
    const uint32_t units = tree_fit_most_units(h, fit);
    const uint64_t whole = (uint64_t)units << h->shift;
    struct search s = {.size = whole, .units = units};
    uint64_t most = 0;

    if (units == 0 || !h->ragged || tree_fit_find(h, &s, fit) != NULL)
        return whole;
    for (const struct segment *g = &h->first; g != NULL; g = g->next) {
        const struct rdesc *last = linked(g->edge.prev);

        if (tree_fit_is_free(last) && last->units == units && block_bytes(h, last) > most)
            most = block_bytes(h, last);
    }
    return most;
}

/* ---- a table for each heuristic, with code of its own for everything that depends on it ---- */

#define FIT_OPS(name_, says_, fit_)                                                                \
    static void name_##_open(struct heap *h, uint64_t seed) { tree_fit_tree_open(h, seed, fit_); } \
    static int name_##_grow(struct heap *h, struct segment *s)                                     \
    {                                                                                              \
        return tree_fit_tree_grow(h, s, fit_);                                                     \
    }                                                                                              \
    static struct rdesc *name_##_alloc(struct heap *h, size_t size)                                \
    {                                                                                              \
        return tree_fit_tree_alloc(h, size, fit_);                                                 \
    }                                                                                              \
    static void name_##_free(struct heap *h, struct rdesc *d) { tree_fit_tree_free(h, d, fit_); }  \
    static uint64_t name_##_largest(const struct heap *h)                                          \
    {                                                                                              \
        return tree_fit_tree_largest(h, fit_);                                                     \
    }                                                                                              \
    const struct fit_ops name_##_ops = {                                                           \
        .name = (says_),                                                                           \
        .open = name_##_open,                                                                      \
        .close = tree_fit_tree_close,                                                              \
        .grow = name_##_grow,                                                                      \
        .alloc = name_##_alloc,                                                                    \
        .free = name_##_free,                                                                      \
        .shrink = tree_fit_shrink,                                                                 \
        .used = tree_fit_tree_used,                                                                \
        .largest = name_##_largest,                                                                \
        .unsent_room = tree_fit_unsent_room,                                                       \
        .walk = tree_fit_walk,                                                                     \
        .stats = tree_fit_stats,                                                                   \
        .check = tree_fit_check,                                                                   \
    }

FIT_OPS(first_fit, "first-fit", RMALLOC_FIRST_FIT);
FIT_OPS(best_fit, "best-fit", RMALLOC_BEST_FIT);
FIT_OPS(worst_fit, "worst-fit", RMALLOC_WORST_FIT);
FIT_OPS(random_fit, "random-fit", RMALLOC_RANDOM_FIT);
