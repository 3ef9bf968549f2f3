/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segregated_fit.c: segregated-fit: a block of a class of sizes in which every block is large
 * enough, in constant time.
 *
 * All blocks of a segment form a chain by address (tree_block.h). A free block is in one of two
 * places:
 *
 *   merged    in the list of its class (state DESC_FREE). Classes are exact up to FINE_EXACT units
 *             and a sixteenth of an octave beyond; two bit scans find the first list that is not
 *             empty.
 *   waiting   in the quick list of its size, or on the way there (state DESC_FREED), up to
 *             QUICK_UNITS whole units: not merged, and for its neighbors like an allocated block.
 *
 * In a heap of ARRIVING_FROM descriptors or more the newest ARRIVING blocks are on the way
 * (segregated_fit_arrive). A quick list has up to QUICK_FEW blocks, in a heap of more than
 * QUICK_FEW * QUICK_SHARE descriptors more (quick_most): where blocks of its size come and go at
 * random, one in as many operations meets a list that is full or empty, and changes the chain.
 *
 * A request takes, in this order, the newest waiting block of its size; the low end of the first
 * block of the first class that has no smaller sizes; one of the first SEGREGATED_PROBES blocks of
 * its own class that is large enough. If there is none, all waiting blocks are merged, and the
 * search is repeated. In an empty heap, finally, the first segment that is large enough is taken.
 *
 * So a request of more than FINE_EXACT units may be refused although a block is large enough, if
 * the block is less than a sixteenth larger and more than SEGREGATED_PROBES blocks are in its class.
 *
 * An operation takes constant time. Merging what waits takes a time proportional to the blocks that
 * have been freed since, of which there are at most QUICK_UNITS * quick_most() + ARRIVING; it happens if a
 * request cannot be satisfied otherwise, and if the last block in use is freed.
 *
 * Invariants
 * 1. The chain of a segment tiles it. No two blocks that are DESC_FREE are neighbors in it.
 * 2. A block that is DESC_FREE is in the list of the class of its whole units, and its neighbors'
 *    links to it are marked. A block that is DESC_FREED is in the quick list of its units, or in
 *    `arriving`; its last unit is not short.
 * 3. `some` has a bit for each list of a class that is not empty, `blocks` counts the blocks of all
 *    of them, `unlisted` all others: those that are allocated and those that are DESC_FREED.
 * 4. In an empty heap at most one block waits.
 * 5. A quick list has at most `most` blocks, and `most` is at most quick_most() of the descriptors
 *    that the pool has made, which never become fewer.
 * 6. `unlisted` is at most `most` of the heap, so that a block that waits may always be allocated.
 *    There are at most as many blocks in lists as segments and other blocks, so that the pool has
 *    descriptors for as many blocks as may be allocated.
 */
#include "alloc/segregated_fit.h"

#include "alloc/segregated_fit_check.h"
#include "alloc/tree_fit_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists ---- */

static inline void segregated_insert(struct heap *h, struct rdesc *d, uint32_t class)
{
    struct segregated *s = h->segregated;
    struct rdesc *next = s->list[class];

    desc_set_state(d, DESC_FREE);
    d->link = next;
    d->back = NULL;
    if (next != NULL)
        next->back = d;
    else
        class_set_add(&s->some, class);
    s->list[class] = d;
    s->blocks++;
}

static inline void segregated_remove(struct heap *h, struct rdesc *d, uint32_t class)
{
    struct segregated *s = h->segregated;
    struct rdesc *next = d->link, *back = d->back;

    if (next != NULL)
        next->back = back;
    if (back != NULL)
        back->link = next;
    else if ((s->list[class] = next) == NULL)
        class_set_remove(&s->some, class);
    s->blocks--;
}

/* A block whose class was `before` has changed. */
static inline void segregated_move(struct heap *h, struct rdesc *d, uint32_t before)
{
    const uint32_t class = segregated_class(h, d);

    if (class == before)
        return;
    segregated_remove(h, d, before);
    segregated_insert(h, d, class);
}

/* Merges a block that is in no list with its free neighbors, and lists the result. */
static void segregated_merge(struct heap *h, struct rdesc *d)
{
    struct rdesc *prev = linked(d->prev), *next = linked(d->next);

    h->segregated->unlisted--;
    if (links_to_free(d->prev)) {
        segregated_remove(h, prev, segregated_class(h, prev));
        tree_fit_merge(h, prev, d);
    } else {
        prev->next = link_to_free(d);
    }
    if (links_to_free(d->next)) {
        const uint32_t before = segregated_class(h, next);

        tree_fit_merge(h, d, next);
        segregated_move(h, next, before);
    } else {
        next->prev = link_to_free(d);
        segregated_insert(h, d, segregated_class(h, d));
    }
}

static void segregated_merge_arriving(struct heap *h)
{
    struct segregated *s = h->segregated;

    for (unsigned i = 0; i < ARRIVING; i++)
        if (s->arriving[i] != NULL) {
            segregated_merge(h, s->arriving[i]);
            s->arriving[i] = NULL;
        }
}

/* Merges all waiting blocks, which are in a quick list or arriving. False: there were none. */
static NOINLINE bool segregated_merge_waiting(struct heap *h)
{
    struct segregated *s = h->segregated;
    struct rdesc *d, *next;

    if (segregated_waiting(h) == 0)
        return false;
    segregated_merge_arriving(h);
    for (unsigned i = 0; segregated_waiting(h) > 0; i++) {
        for (d = s->quick[i].head; d != NULL; d = next) {
            next = d->link;
            segregated_merge(h, d);
        }
        s->quick[i] = (struct quick_list){NULL, 0};
    }
    return true;
}

/* ---- the choice ---- */

/* One of the first blocks of a class that is large enough, or NULL. */
static struct rdesc *segregated_probe(const struct heap *h, uint32_t class, uint64_t bytes)
{
    const struct segregated *s = h->segregated;
    struct rdesc *d = class < s->classes ? s->list[class] : NULL;
    unsigned left = SEGREGATED_PROBES;

    while (d != NULL && block_bytes(h, d) < bytes)
        d = --left > 0 ? d->link : NULL;
    return d;
}

/* In an empty heap, in which nothing waits, every segment is one block. */
static struct rdesc *segregated_whole_segment(const struct heap *h, uint64_t bytes)
{
    for (const struct segment *s = &h->first; s != NULL; s = s->next)
        if (s->end - s->begin >= bytes)
            return linked(s->edge.next);
    return NULL;
}

/* A block in a list that is large enough; NULL: none was found. */
static struct rdesc *segregated_find(const struct heap *h, uint32_t units, uint64_t bytes)
{
    const struct segregated *s = h->segregated;
    const uint32_t class = class_set_from(&s->some, fine_class_above(units));
    struct rdesc *d;

    if (LIKELY(class != SIZE_CLASS_NONE))
        return s->list[class];
    d = segregated_probe(h, fine_class(units), bytes);
    if (d == NULL && h->ragged) /* a block whose last unit is short */
        d = segregated_probe(h, fine_class(units - 1), bytes);
    if (d == NULL && h->used == 0 && segregated_waiting(h) == 0)
        d = segregated_whole_segment(h, bytes);
    return d;
}

/* ---- allocation ---- */

/* Pops a waiting block of this size, or returns NULL. */
static struct rdesc *segregated_pop(struct heap *h, uint32_t units)
{
    struct segregated *s = h->segregated;
    struct quick_list *quick;
    struct rdesc *d;

    if (units > QUICK_UNITS)
        return NULL;
    quick = &s->quick[units - 1];
    d = quick->head;
    if (d == NULL)
        return NULL;
    quick->head = d->link;
    quick->count--;
    return d;
}

/* Takes the low end of a block of a list. The rest keeps its place if its class is the same. */
static struct rdesc *segregated_split(struct heap *h, struct rdesc *d, uint32_t units)
{
    const uint32_t before = segregated_class(h, d);
    struct rdesc *low;

    h->segregated->unlisted++;
    if (d->units == units) {
        segregated_remove(h, d, before);
        tree_fit_mark_used(d);
        return d;
    }
    low = tree_fit_cut(h, d, units);
    segregated_move(h, d, before);
    return low;
}

/* Whether another block can be unlisted, and has a descriptor: 0, -ENOBUFS or -ENOMEM. */
static int segregated_more_blocks(struct heap *h)
{
    if (UNLIKELY(h->segregated->unlisted >= h->most))
        return -ENOBUFS;
    return UNLIKELY(h->pool.free == NULL) ? desc_pool_grow(&h->pool) : 0;
}

static struct rdesc *segregated_alloc(struct heap *h, size_t size)
{
    const uint64_t bytes = size + (size == 0);
    uint32_t units;
    struct rdesc *d;
    int error;

    if (UNLIKELY(size > h->largest))
        return heap_refuse(h, -EMSGSIZE);
    units = (uint32_t)tree_fit_units(h, size);
    if (bytes > h->bytes - h->used)
        return heap_refuse(h, -EAGAIN);
    d = segregated_pop(h, units);
    if (d != NULL)
        return tree_fit_hand_out(h, d, size, block_bytes(h, d));
    do {
        d = segregated_find(h, units, bytes);
        error = d == NULL ? -EAGAIN : segregated_more_blocks(h);
    } while (UNLIKELY(error != 0) && segregated_merge_waiting(h));
    if (UNLIKELY(error != 0))
        return heap_refuse(h, error);
    d = segregated_split(h, d, units);
    return tree_fit_hand_out(h, d, size, block_bytes(h, d));
}

/* ---- freeing ---- */

/* Whether a quick list takes another block; the lists of a heap that has grown take more. */
static bool segregated_quick_takes(struct heap *h, const struct quick_list *quick)
{
    struct segregated *s = h->segregated;

    if (quick->count >= s->most)
        s->most = quick_most(h->pool.made);
    return quick->count < s->most;
}

static void segregated_free(struct heap *h, struct rdesc *d)
{
    struct quick_list *quick = &h->segregated->quick[(d->units - 1) % QUICK_UNITS];

    if (desc_state(d) != DESC_FREED) { /* else its quick list seemed to be full */
        h->used -= block_bytes(h, d);
        if (h->used == 0)
            segregated_merge_waiting(h);
        h->frees++;
    }
    if (h->used == 0 || d->units > QUICK_UNITS || block_is_short(h, d) ||
        !segregated_quick_takes(h, quick)) {
        segregated_merge(h, d);
        return;
    }
    desc_set_state(d, DESC_FREED);
    d->link = quick->head;
    quick->head = d;
    quick->count++;
}

/* A descriptor for the tail of `d`, linked behind it; NULL: there is no memory. */
static struct rdesc *segregated_new_tail(struct heap *h, struct rdesc *d)
{
    struct rdesc *tail = desc_take(&h->pool);

    if (tail == NULL)
        return NULL;
    tail->units = 0;
    tail->prev = d;
    tail->next = d->next;
    tree_fit_mark_free(tail);
    return tail;
}

static void segregated_shrink(struct heap *h, struct rdesc *d, uint32_t units)
{
    const uint64_t kept = (uint64_t)units << h->shift, had = block_bytes(h, d);
    struct rdesc *tail;

    if (!links_to_free(d->next) && h->pool.free == NULL && desc_pool_grow(&h->pool) != 0)
        segregated_merge_waiting(h); /* which hold descriptors; one may be the next block */
    if (links_to_free(d->next)) {
        tail = linked(d->next);
        segregated_remove(h, tail, segregated_class(h, tail));
    } else {
        tail = segregated_new_tail(h, d);
        if (tail == NULL)
            return;
    }
    h->used -= had - kept;
    tail->units += d->units - units;
    tail->offset = d->offset + kept;
    tail->mem = (void *)((uintptr_t)d->mem + ((uintptr_t)kept & h->mapped));
    d->units = units;
    segregated_insert(h, tail, segregated_class(h, tail));
}

/* ---- segments ---- */

static void segregated_open(struct heap *h, uint64_t seed)
{
    const uint64_t blocks = 2 * (uint64_t)h->most; /* invariant 6 */

    (void)seed;
    desc_pool_init(&h->pool, blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX,
                   sizeof(struct rdesc), h->owner);
}

static void segregated_close(struct heap *h) { free(h->segregated); }

/* Lists for all classes up to this one. */
static int segregated_more_classes(struct heap *h, uint32_t class)
{
    const uint32_t classes = class + 1, before = h->segregated != NULL ? h->segregated->classes : 0;
    struct segregated *s;

    if (classes <= before)
        return 0;
    s = realloc(h->segregated, sizeof(*s) + classes * sizeof(s->list[0]));
    if (s == NULL)
        return -ENOMEM;
    if (before == 0) {
        memset(s, 0, sizeof(*s));
        s->most = QUICK_FEW;
        s->units = QUICK_UNITS;
    }
    memset(&s->list[before], 0, (classes - before) * sizeof(s->list[0]));
    s->classes = classes;
    h->segregated = s;
    return 0;
}

static int segregated_grow(struct heap *h, struct segment *s)
{
    const uint64_t bytes = s->end - s->begin;
    const uint32_t class = fine_class((uint32_t)(bytes >> h->shift));
    struct rdesc *d;

    if (segregated_more_classes(h, class) != 0)
        return -ENOMEM;
    h->pool.limit += h->pool.limit < UINT32_MAX;
    d = desc_take(&h->pool);
    if (d == NULL) {
        h->pool.limit--;
        return -ENOMEM;
    }
    d->mem = address_of(h, s->zero, s->begin);
    d->offset = s->begin;
    d->units = (uint32_t)((bytes + h->round_up) >> h->shift);
    d->prev = d->next = &s->edge;
    tree_fit_mark_free(d);
    segregated_insert(h, d, class);
    if ((bytes & h->round_up) != 0)
        h->segregated->units = 0; /* the heap becomes ragged */
    return 0;
}

static uint64_t segregated_used(const struct heap *h) { return h->used; }

const struct fit_ops segregated_fit_ops = {
    .name = "segregated-fit",
    .open = segregated_open,
    .close = segregated_close,
    .grow = segregated_grow,
    .alloc = segregated_alloc,
    .free = segregated_free,
    .shrink = segregated_shrink,
    .used = segregated_used,
    .largest = segregated_fit_largest,
    .unsent_room = tree_fit_unsent_room,
    .walk = tree_fit_walk,
    .stats = segregated_fit_stats,
    .check = segregated_fit_check,
};
