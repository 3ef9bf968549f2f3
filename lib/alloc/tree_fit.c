/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree_fit.c: first-, best-, worst- and random-fit: the fits that choose among free blocks, exactly.
 *
 * All blocks of a segment, handed out or free, are a chain by address, from its edge to its edge. A block that is split
 * gives its low end and keeps its descriptor for the rest; a block that comes back is merged with free neighbours. Free
 * blocks are found through indices (index.h), whose keys say what each fit prefers, the least being the choice:
 *
 *   first-fit    offset, units      one index, with the largest units of each subtree
 *   best-fit     units, offset      one for each class of sizes: the first class that has a block large enough
 *   worst-fit    ~units, offset     one for each class: the last class
 *   random-fit   units, offset      one for each class, with the number of blocks of each subtree
 *
 * The block that changed last is loose: it is in no index, but looked at beside them. What is allocated from it, given back
 * to it, or taken again, changes no index; when another block becomes loose, it goes into its own.
 *
 * A request may find that a block with exactly enough units is a little too short, because it ends at the short end
 * of a segment; it then goes on to the next best. There is at most one such block to a segment.
 *
 * Giving back never fails: where there is no memory for a node of an index, blocks stay loose, linked to each other, until
 * there is; nothing is allocated before, since the choice would not be exact.
 *
 * Invariants
 * 1. The chain of a segment tiles it. No two free blocks are neighbours in it.
 * 2. A block that is DESC_FREE is in the index of its class under its key; DESC_LOOSE: in the list from free.loose.
 *    There is more than one loose block only after the memory for an index was refused.
 * 3. `some` has the indices that are not empty, `indexed` is the sum of their counts.
 * 4. There are at most as many free blocks as segments and blocks handed out, so the pool has descriptors for as many
 *    blocks as may be handed out whatever their order.
 */
#include "alloc/tree_fit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* `fit` is a constant wherever it is a parameter: each fit has code of its own. */
typedef const rmalloc_algorithm_t fit_t;

static bool is_free(const struct rdesc *d) { return d->state >= DESC_FREE; }

/* ---- the indices, and the loose block ---- */

static FORCE_INLINE uint64_t key_of(const struct heap *h, const struct rdesc *d, fit_t fit)
{
    const uint64_t place = d->offset >> h->shift;

    if (fit == FIRST_FIT)
        return place << 32 | d->units;
    return (uint64_t)(fit == WORST_FIT ? ~d->units : d->units) << 32 | place;
}

static FORCE_INLINE uint32_t class_of(const struct rdesc *d, fit_t fit)
{
    return fit == FIRST_FIT ? 0 : size_class(d->units);
}

/* False: there is no memory. */
static FORCE_INLINE bool put_in_index(struct heap *h, struct rdesc *d, fit_t fit)
{
    const uint32_t class = class_of(d, fit);

    if (UNLIKELY(index_insert(&h->free.index[class], &h->free.nodes, key_of(h, d, fit), d) != 0))
        return false;
    class_set_add(&h->free.some, class);
    h->free.indexed++;
    d->state = DESC_FREE;
    return true;
}

static FORCE_INLINE void take_from_index(struct heap *h, uint32_t class, const struct index_place *place)
{
    struct index *index = &h->free.index[class];

    index_take(index, &h->free.nodes, place);
    if (index->count == 0)
        class_set_remove(&h->free.some, class);
    h->free.indexed--;
}

/* Puts all of a list of loose blocks into their indices, or as many as there is memory for; returns the rest. */
static FORCE_INLINE struct rdesc *put_all_in_index(struct heap *h, struct rdesc *list, fit_t fit)
{
    struct rdesc *next;

    for (; list != NULL; list = next) {
        next = list->link;
        if (!put_in_index(h, list, fit))
            break;
    }
    return list;
}

static FORCE_INLINE void make_loose(struct heap *h, struct rdesc *d, fit_t fit)
{
    d->state = DESC_LOOSE;
    d->link = put_all_in_index(h, h->free.loose, fit);
    h->free.loose = d;
}

/* Takes a block out of the index or the list that it is in: it will change, or be handed out. */
static FORCE_INLINE void take_out(struct heap *h, struct rdesc *d, fit_t fit)
{
    struct rdesc **link = &h->free.loose;
    struct index_place place;

    if (d->state == DESC_LOOSE) {
        while (*link != d)
            link = &(*link)->link;
        *link = d->link;
    } else {
        index_from(&h->free.index[class_of(d, fit)], key_of(h, d, fit), &place);
        take_from_index(h, class_of(d, fit), &place);
    }
}

/* ---- the choice ---- */

/* A request, and where what was found for it is in an index. */
struct search {
    size_t size;
    uint32_t units;
    uint32_t class;
    struct index_place place;
};

static FORCE_INLINE bool fits(const struct heap *h, const struct rdesc *d, const struct search *s)
{
    return d->units > s->units || (d->units == s->units && (!h->ragged || s->size <= block_bytes(h, d)));
}

static FORCE_INLINE struct rdesc *find_first(const struct heap *h, struct search *s)
{
    const struct index *index = &h->free.index[0];
    bool found = index_first_of(index, s->units, &s->place);

    s->class = 0;
    while (found && h->ragged && !fits(h, index_block(&s->place), s))
        found = index_next_of(index, s->units, &s->place);
    return found ? index_block(&s->place) : NULL;
}

static FORCE_INLINE struct rdesc *find_best(const struct heap *h, struct search *s)
{
    const uint64_t key = (uint64_t)s->units << 32;
    uint32_t class = class_set_from(&h->free.some, size_class(s->units));

    for (; class != SIZE_CLASS_NONE; class = class_set_from(&h->free.some, class + 1)) {
        bool found = index_from(&h->free.index[class], key, &s->place);

        while (found && h->ragged && !fits(h, index_block(&s->place), s))
            found = index_next(&h->free.index[class], &s->place);
        if (found) {
            s->class = class;
            return index_block(&s->place);
        }
    }
    return NULL;
}

static FORCE_INLINE struct rdesc *find_worst(const struct heap *h, struct search *s)
{
    const uint32_t class = class_set_last(&h->free.some);
    bool found = class != SIZE_CLASS_NONE && index_from(&h->free.index[class], 0, &s->place);

    s->class = class;
    while (found && h->ragged && index_block(&s->place)->units == s->units && !fits(h, index_block(&s->place), s))
        found = index_next(&h->free.index[class], &s->place);
    return found && index_block(&s->place)->units >= s->units ? index_block(&s->place) : NULL;
}

/* The block that the fit prefers, of all that the request fits into; NULL: there is none. */
static FORCE_INLINE struct rdesc *find(const struct heap *h, struct search *s, fit_t fit)
{
    struct rdesc *loose = h->free.loose, *d = NULL;

    if (h->free.indexed > 0)
        d = fit == FIRST_FIT ? find_first(h, s) : fit == BEST_FIT ? find_best(h, s) : find_worst(h, s);
    if (loose != NULL && fits(h, loose, s) && (d == NULL || key_of(h, loose, fit) < index_key(&s->place)))
        d = loose;
    return d;
}

/* ---- random-fit: the draw ---- */

static uint64_t random_next(struct free_set *f) /* splitmix64 */
{
    uint64_t z = f->random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* 0 .. n - 1, each as likely as any other: the high half of a product, drawn again where the low half would favour some. */
static uint32_t random_below(struct free_set *f, uint32_t n)
{
    uint64_t product = (random_next(f) >> 32) * n;

    if (UNLIKELY((uint32_t)product < n))
        while ((uint32_t)product < -n % n)
            product = (random_next(f) >> 32) * n;
    return (uint32_t)(product >> 32);
}

/* How many blocks in the indices have enough units, beginning with number `*skip` of the request's own class. */
static uint32_t count_large_enough(const struct heap *h, const struct search *s, uint32_t *skip)
{
    const struct class_set *some = &h->free.some;
    uint32_t own = size_class(s->units), class = class_set_from(some, own), n = 0;

    *skip = 0;
    if (class == own) {
        *skip = index_rank(&h->free.index[own], (uint64_t)s->units << 32);
        n = h->free.index[own].count - *skip;
        class = class_set_from(some, own + 1);
    }
    for (; class != SIZE_CLASS_NONE; class = class_set_from(some, class + 1))
        n += h->free.index[class].count;
    return n;
}

/* Does the request fit into the last block of a segment, which has exactly enough units? Then `*fail` does not count it. */
static bool any_fits(const struct heap *h, const struct search *s, uint32_t candidates)
{
    for (const struct segment *g = &h->first; g != NULL && candidates > 0; g = g->next) {
        const struct rdesc *last = g->edge.prev;

        candidates -= is_free(last) && last->units == s->units && !fits(h, last, s);
    }
    return candidates > 0;
}

/* Any of those that the request fits into, each with the same probability. */
static struct rdesc *find_random(struct heap *h, struct search *s)
{
    struct rdesc *loose = h->free.loose, *d;
    const bool with_loose = loose != NULL && loose->units >= s->units;
    uint32_t skip, n = count_large_enough(h, s, &skip), drawn;

    if (h->ragged ? !any_fits(h, s, n + with_loose) : n + with_loose == 0)
        return NULL;
    do {
        drawn = random_below(&h->free, n + with_loose);
        if (drawn == n) {
            d = loose;
            continue;
        }
        drawn += skip; /* counts from the first block of the request's own class */
        s->class = class_set_from(&h->free.some, size_class(s->units));
        while (drawn >= h->free.index[s->class].count) {
            drawn -= h->free.index[s->class].count;
            s->class = class_set_from(&h->free.some, s->class + 1);
        }
        index_select(&h->free.index[s->class], drawn, &s->place);
        d = index_block(&s->place);
    } while (h->ragged && !fits(h, d, s));
    return d;
}

/* ---- allocation ---- */

/* Cuts the low end off a free block: a block of its own, from the pool. */
static FORCE_INLINE struct rdesc *cut(struct heap *h, struct rdesc *rest, uint32_t units)
{
    const uint64_t bytes = (uint64_t)units << h->shift;
    struct rdesc *d = h->pool.free, *prev = rest->prev;

    h->pool.free = d->link;
    d->mem = rest->mem;
    d->offset = rest->offset;
    d->units = units;
    d->prev = prev;
    d->next = rest;
    prev->next = d;
    rest->prev = d;
    rest->mem = (void *)((uintptr_t)rest->mem + ((uintptr_t)bytes & h->mapped));
    rest->offset += bytes;
    rest->units -= units;
    return d;
}

/* Is there a descriptor for one more block? 0, -ENOBUFS, or -ENOMEM. */
static NOINLINE int more_descriptors(struct heap *h)
{
    return h->allocs - h->frees >= h->most ? -ENOBUFS : desc_pool_grow(&h->pool);
}

static FORCE_INLINE uint32_t units_of(const struct heap *h, size_t size)
{
    return (uint32_t)((size + (size == 0) + h->round_up) >> h->shift);
}

/* False: there is no memory to put what else is loose into indices. */
static FORCE_INLINE bool only_one_loose(struct heap *h, fit_t fit)
{
    struct rdesc *d = h->free.loose;

    if (LIKELY(d == NULL || d->link == NULL))
        return true;
    d->link = put_all_in_index(h, d->link, fit);
    return d->link == NULL;
}

/* The last step: the block is the user's. */
static FORCE_INLINE struct rdesc *hand_out(struct heap *h, struct rdesc *d, size_t size)
{
    d->whose = h->whose;
    d->size = size;
    h->allocs++;
    h->used += block_bytes(h, d);
    if (h->used > h->peak)
        h->peak = h->used;
    return d;
}

static FORCE_INLINE struct rdesc *tree_alloc(struct heap *h, size_t size, fit_t fit)
{
    struct rdesc *d, *rest;
    struct search s;
    int error;

    if (UNLIKELY(size > h->largest))
        return heap_refuse(h, -EMSGSIZE);
    if (UNLIKELY(!only_one_loose(h, fit)))
        return heap_refuse(h, -ENOMEM);
    s.size = size;
    s.units = units_of(h, size);
    d = fit == RANDOM_FIT ? find_random(h, &s) : find(h, &s, fit);
    if (UNLIKELY(d == NULL))
        return heap_refuse(h, -EAGAIN);
    if (UNLIKELY(h->pool.free == NULL || h->allocs - h->frees >= h->most)) { /* before anything is changed */
        error = more_descriptors(h);
        if (error != 0)
            return heap_refuse(h, error);
    }
    if (d == h->free.loose) {
        if (d->units != s.units)
            d = cut(h, d, s.units); /* what is left stays loose */
        else
            h->free.loose = NULL;
    } else {
        take_from_index(h, s.class, &s.place);
        if (d->units != s.units) {
            rest = d;
            d = cut(h, rest, s.units);
            make_loose(h, rest, fit);
        }
    }
    return hand_out(h, d, size);
}

/* ---- giving back ---- */

/* Makes one block of two neighbours, with the descriptor of the higher one. */
static FORCE_INLINE void merge(struct heap *h, struct rdesc *low, struct rdesc *high)
{
    high->mem = low->mem;
    high->offset = low->offset;
    high->units += low->units;
    high->prev = low->prev;
    low->prev->next = high;
    desc_put(&h->pool, low);
}

static FORCE_INLINE void tree_free(struct heap *h, struct rdesc *d, fit_t fit)
{
    struct rdesc *prev = d->prev, *next = d->next;

    h->frees++;
    h->used -= block_bytes(h, d);
    if (is_free(next)) {
        take_out(h, next, fit);
        merge(h, d, next);
        d = next;
    }
    if (is_free(prev)) {
        take_out(h, prev, fit);
        merge(h, prev, d);
    }
    make_loose(h, d, fit);
}

/* ---- a block at a place that somebody else has chosen ---- */

static bool lies_in(const struct heap *h, const struct rdesc *d, uint64_t offset)
{
    return d != NULL && offset - d->offset < (uint64_t)d->units << h->shift;
}

/* The free block that the offset lies in, or NULL. */
static struct rdesc *free_block_at(const struct heap *h, uint64_t offset)
{
    struct rdesc *d = h->free.loose;
    struct index_place place;

    if (lies_in(h, d, offset))
        return d;
    if (!index_below(&h->free.index[0], ((offset >> h->shift) + 1) << 32, &place))
        return NULL;
    d = index_block(&place);
    return lies_in(h, d, offset) ? d : NULL;
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
    if (!only_one_loose(h, FIRST_FIT))
        return heap_refuse(h, -ENOMEM);
    units = units_of(h, size);
    d = free_block_at(h, offset);
    if (d == NULL || size + (size == 0) > d->offset + block_bytes(h, d) - offset)
        return heap_refuse(h, -EAGAIN);
    while (error == 0 && (h->allocs - h->frees >= h->most || h->pool.free == NULL || h->pool.free->link == NULL))
        error = more_descriptors(h);
    if (error != 0)
        return heap_refuse(h, error);
    take_out(h, d, FIRST_FIT);
    if (offset > d->offset)
        low = cut(h, d, (uint32_t)((offset - d->offset) >> h->shift));
    if (d->units > units) {
        high = d;
        d = cut(h, high, units);
        make_loose(h, high, FIRST_FIT);
    }
    if (low != NULL) {
        low->whose = h->whose;
        make_loose(h, low, FIRST_FIT);
    }
    return hand_out(h, d, size);
}

/* ---- segments ---- */

static void tree_open(struct heap *h, const struct heap_config *cfg, fit_t fit)
{
    const uint64_t blocks = 2 * (uint64_t)h->most; /* invariant 4 */

    desc_pool_init(&h->pool, blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX, sizeof(struct rdesc));
    index_pool_init(&h->free.nodes, fit == FIRST_FIT ? INDEX_LARGEST : fit == RANDOM_FIT ? INDEX_COUNTED : INDEX_PLAIN);
    h->free.random = cfg->seed;
}

static void tree_close(struct heap *h)
{
    index_pool_destroy(&h->free.nodes);
    free(h->free.index);
}

/* Indices for all classes of sizes up to this one. */
static int more_indices(struct heap *h, uint32_t units, fit_t fit)
{
    const uint32_t count = fit == FIRST_FIT ? 1 : size_class(units) + 1;
    struct index *index;

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

static int tree_grow(struct heap *h, struct segment *s, fit_t fit)
{
    const uint32_t units = (uint32_t)((s->end - s->begin + h->round_up) >> h->shift);
    struct rdesc *d;

    if (more_indices(h, units, fit) != 0)
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
    d->whose = h->whose;
    d->prev = d->next = &s->edge;
    s->edge.prev = s->edge.next = d;
    make_loose(h, d, fit);
    return 0;
}

/* ---- what there is ---- */

static uint64_t tree_used(const struct heap *h) { return h->used; }

/* The largest number of units of a free block. */
static FORCE_INLINE uint32_t most_units(const struct heap *h, fit_t fit)
{
    const uint32_t class = class_set_last(&h->free.some);
    struct index_place place;
    uint32_t most = 0;

    for (const struct rdesc *d = h->free.loose; d != NULL; d = d->link)
        most = d->units > most ? d->units : most;
    if (class != SIZE_CLASS_NONE) {
        uint32_t units = 0;

        if (fit == FIRST_FIT)
            units = index_largest(&h->free.index[0], &h->free.nodes);
        else if (fit == WORST_FIT ? index_from(&h->free.index[class], 0, &place)
                                  : index_below(&h->free.index[class], INDEX_KEY_MOST, &place))
            units = index_block(&place)->units;
        most = units > most ? units : most;
    }
    return most;
}

/* In bytes; where all the largest blocks are short, the longest of these. */
static uint64_t tree_largest(const struct heap *h, fit_t fit)
{
    const uint32_t units = most_units(h, fit);
    const uint64_t whole = (uint64_t)units << h->shift;
    struct search s = {.size = whole, .units = units};
    uint64_t most = 0;

    if (units == 0 || !h->ragged || find(h, &s, fit == RANDOM_FIT ? BEST_FIT : fit) != NULL)
        return whole;
    for (const struct segment *g = &h->first; g != NULL; g = g->next) {
        const struct rdesc *last = g->edge.prev;

        if (is_free(last) && last->units == units && block_bytes(h, last) > most)
            most = block_bytes(h, last);
    }
    return most;
}

static uint64_t tree_unsent_room(const struct heap *h, const struct segment *s)
{
    uint64_t most = 0, room = 0;

    for (const struct rdesc *d = s->edge.next; d != &s->edge; d = d->next) {
        room = d->state == DESC_OWNED ? 0 : room + block_bytes(h, d);
        most = room > most ? room : most;
    }
    return most;
}

static int tree_walk(const struct heap *h, const struct segment *s, heap_visit visit, void *arg)
{
    int result = 0;

    for (struct rdesc *d = s->edge.next; d != &s->edge && result == 0; d = d->next) {
        rdma_vmem_block_t b = {.offset = d->offset, .bytes = block_bytes(h, d), .segment = s->number};

        if (!is_free(d)) {
            b.state = RDMA_BLOCK_USED;
            b.size = d->size;
            b.d = d;
        }
        result = visit(&b, arg);
    }
    return result;
}

static void tree_stats(const struct heap *h, rdma_vmem_stats_t *stats)
{
    stats->blocks_free = h->free.indexed;
    for (const struct rdesc *d = h->free.loose; d != NULL; d = d->link)
        stats->blocks_free++;
    stats->metadata += h->free.nodes.made + h->free.indices * sizeof(struct index);
}

/* ---- check ---- */

struct totals {
    uint64_t used;
    uint32_t blocks, handed_out, indexed, loose;
};

static FORCE_INLINE int check_free(const struct heap *h, const struct rdesc *d, char *why, size_t n, fit_t fit)
{
    const unsigned long long at = d->offset;
    const uint64_t key = key_of(h, d, fit);
    const uint32_t class = class_of(d, fit);
    const struct rdesc *loose = h->free.loose;
    struct index_place place;

    if (d->state == DESC_FREE && (class >= h->free.indices || !index_from(&h->free.index[class], key, &place) ||
                                  index_key(&place) != key || index_block(&place) != d))
        return heap_broken(why, n, "the free block at %llu is not in its index", at);
    if (d->state == DESC_LOOSE) {
        while (loose != NULL && loose != d)
            loose = loose->link;
        if (loose == NULL)
            return heap_broken(why, n, "the loose block at %llu is not in the list", at);
    }
    if (is_free(d->prev))
        return heap_broken(why, n, "the neighbours at %llu and %llu are both free", (unsigned long long)d->prev->offset,
                           at);
    return 0;
}

/* The blocks of a segment. */
static FORCE_INLINE int check_chain(const struct heap *h, const struct segment *s, struct totals *t, char *why,
                                    size_t n, fit_t fit)
{
    const struct rdesc *d = s->edge.next, *prev = &s->edge;
    uint64_t end = s->begin;
    int error;

    for (; d != &s->edge; prev = d, d = d->next) {
        if (!desc_pool_holds(&h->pool, d) || d->prev != prev || t->blocks > h->pool.made)
            return heap_broken(why, n, "the chain of blocks is torn after the block at %llu",
                               (unsigned long long)prev->offset);
        if (d->offset != end)
            return heap_broken(why, n, "after the block that ends at %llu comes one that begins at %llu",
                               (unsigned long long)end, (unsigned long long)d->offset);
        error = heap_check_block(h, s, d, why, n);
        if (error != 0)
            return error;
        t->blocks++;
        end += block_bytes(h, d);
        if (d->state == DESC_FREE || d->state == DESC_LOOSE) {
            t->indexed += d->state == DESC_FREE;
            t->loose += d->state == DESC_LOOSE;
            error = check_free(h, d, why, n, fit);
            if (error != 0)
                return error;
        } else if (d->state == DESC_OWNED || d->state == DESC_SENT) {
            t->handed_out++;
            t->used += block_bytes(h, d);
        } else {
            return heap_broken(why, n, "the block at %llu is in state %u", (unsigned long long)d->offset, d->state);
        }
    }
    if (end != s->end || s->edge.prev != prev)
        return heap_broken(why, n, "the last block of a segment ends at %llu, the segment at %llu",
                           (unsigned long long)end, (unsigned long long)s->end);
    return 0;
}

static int check_indices(const struct heap *h, const struct totals *t, char *why, size_t n)
{
    uint32_t nodes[2] = {0, 0}, indexed = 0, loose = 0;
    struct class_set some = {.words = 0};

    for (uint32_t class = 0; class < h->free.indices; class ++) {
        if (index_check(&h->free.index[class], &h->free.nodes, nodes, why, n) != 0)
            return -EUCLEAN;
        indexed += h->free.index[class].count;
        if (h->free.index[class].count > 0)
            class_set_add(&some, class);
    }
    if (index_pool_check(&h->free.nodes, nodes, why, n) != 0)
        return -EUCLEAN;
    if (memcmp(&some, &h->free.some, sizeof(some)) != 0)
        return heap_broken(why, n, "the set of classes that have free blocks is wrong");
    for (const struct rdesc *d = h->free.loose; d != NULL && loose <= h->pool.made; d = d->link)
        loose++;
    if (t->indexed != indexed || indexed != h->free.indexed || t->loose != loose)
        return heap_broken(why, n,
                           "%u free blocks should be in an index and %u loose; %u and %u are, and %u are counted",
                           t->indexed, t->loose, indexed, loose, h->free.indexed);
    return 0;
}

static FORCE_INLINE int tree_check(const struct heap *h, char *why, size_t n, uint32_t *descriptors,
                                   uint32_t *handed_out, fit_t fit)
{
    struct totals t = {.used = 0};
    int error;

    for (const struct segment *s = &h->first; s != NULL; s = s->next) {
        error = check_chain(h, s, &t, why, n, fit);
        if (error != 0)
            return error;
    }
    if (t.used != h->used)
        return heap_broken(why, n, "%llu bytes are handed out, %llu are counted", (unsigned long long)t.used,
                           (unsigned long long)h->used);
    error = check_indices(h, &t, why, n);
    if (error != 0)
        return error;
    *descriptors = t.blocks;
    *handed_out = t.handed_out;
    return 0;
}

/* ---- a table for each fit, which has code of its own for whatever depends on it ---- */

#define FIT_OPS(name_, says_, fit_)                                                                                    \
    static void name_##_open(struct heap *h, const struct heap_config *cfg) { tree_open(h, cfg, fit_); }               \
    static int name_##_grow(struct heap *h, struct segment *s) { return tree_grow(h, s, fit_); }                       \
    static struct rdesc *name_##_alloc(struct heap *h, size_t size) { return tree_alloc(h, size, fit_); }              \
    static void name_##_free(struct heap *h, struct rdesc *d) { tree_free(h, d, fit_); }                               \
    static uint64_t name_##_largest(const struct heap *h) { return tree_largest(h, fit_); }                            \
    static int name_##_check(const struct heap *h, char *why, size_t n, uint32_t *descriptors, uint32_t *handed_out)   \
    {                                                                                                                  \
        return tree_check(h, why, n, descriptors, handed_out, fit_);                                                   \
    }                                                                                                                  \
    const struct fit_ops name_##_ops = {                                                                               \
        .name = says_,                                                                                                 \
        .open = name_##_open,                                                                                          \
        .close = tree_close,                                                                                           \
        .grow = name_##_grow,                                                                                          \
        .alloc = name_##_alloc,                                                                                        \
        .free = name_##_free,                                                                                          \
        .used = tree_used,                                                                                             \
        .largest = name_##_largest,                                                                                    \
        .unsent_room = tree_unsent_room,                                                                               \
        .walk = tree_walk,                                                                                             \
        .stats = tree_stats,                                                                                           \
        .check = name_##_check,                                                                                        \
    }

FIT_OPS(first_fit, "first-fit", FIRST_FIT);
FIT_OPS(best_fit, "best-fit", BEST_FIT);
FIT_OPS(worst_fit, "worst-fit", WORST_FIT);
FIT_OPS(random_fit, "random-fit", RANDOM_FIT);
