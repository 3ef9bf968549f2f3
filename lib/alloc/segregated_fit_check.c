/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segregated_fit_check.c: see segregated_fit_check.h; the invariants are those of segregated_fit.c.
 */
#include "alloc/segregated_fit_check.h"

#include "alloc/broken.h"
#include "alloc/segregated.h"

#include <string.h>

/* ---- statistics ---- */

/* What is free, after all that waits has been merged. */
struct free_runs {
    uint32_t runs;
    uint32_t class, in_class; /* the last class, and its runs */
    uint64_t most;            /* bytes of the largest of them */
};

static bool segregated_is_free(const struct rdesc *d)
{
    return desc_state(d) == DESC_FREE || desc_state(d) == DESC_FREED;
}

static void segregated_add_run(const struct heap *h, struct free_runs *r, uint64_t bytes)
{
    const uint32_t class = fine_class((uint32_t)(bytes >> h->shift));

    r->runs++;
    r->in_class = class > r->class ? 1 : r->in_class + (class == r->class);
    r->class = class > r->class ? class : r->class;
    r->most = bytes > r->most ? bytes : r->most;
}

static struct free_runs segregated_count_runs(const struct heap *h)
{
    struct free_runs r = {.runs = 0};

    for (const struct segment *s = &h->first; s != NULL; s = s->next) {
        uint64_t bytes = 0;

        for (const struct rdesc *d = linked(s->edge.next); d != &s->edge; d = linked(d->next)) {
            if (segregated_is_free(d))
                bytes += block_bytes(h, d);
            if (bytes > 0 && !segregated_is_free(linked(d->next))) {
                segregated_add_run(h, &r, bytes);
                bytes = 0;
            }
        }
    }
    return r;
}

/* The largest block that the search compares with a request, if no block waits. */
static uint64_t segregated_largest_listed(const struct heap *h)
{
    const struct segregated *s = h->segregated;
    const uint32_t class = class_set_last(&s->some);
    const struct rdesc *d = class != SIZE_CLASS_NONE ? s->list[class] : NULL;
    uint64_t most = 0;

    for (unsigned i = 0; d != NULL && i < SEGREGATED_PROBES; i++, d = d->link)
        if (block_bytes(h, d) > most)
            most = block_bytes(h, d);
    return most;
}

uint64_t segregated_fit_largest(const struct heap *h)
{
    struct free_runs r;

    if (h->used == 0)
        return h->largest;
    if (segregated_waiting(h) == 0)
        return segregated_largest_listed(h);
    r = segregated_count_runs(h);
    return r.in_class <= SEGREGATED_PROBES ? r.most
                                           : (uint64_t)fine_class_least(r.class) << h->shift;
}

void segregated_fit_stats(const struct heap *h, rvmem_stats_t *stats)
{
    const struct segregated *s = h->segregated;

    stats->blocks_free = segregated_waiting(h) == 0 ? s->blocks : segregated_count_runs(h).runs;
    stats->metadata += sizeof(*s) + s->classes * sizeof(s->list[0]);
}

/* ---- check ---- */

struct totals {
    uint64_t used;
    uint32_t blocks, handed_out, merged, waiting;
};

/* The value of the neighbors' links to it. */
static const struct rdesc *segregated_link_of(const struct rdesc *d)
{
    return desc_state(d) == DESC_FREE ? link_to_free(d) : d;
}

static int segregated_check_block(const struct heap *h, const struct segment *s,
                                  const struct rdesc *d, struct totals *t, struct error *err)
{
    const unsigned long long at = d->offset;

    t->blocks++;
    switch (desc_state(d)) {
    case DESC_OWNED:
    case DESC_SENT:
        t->handed_out++;
        t->used += block_bytes(h, d);
        return 0;
    case DESC_FREED:
        t->waiting++;
        if (block_is_short(h, d))
            return broken(err, "the block at %llu waits, although its last unit is short", at);
        return d->mem == address_of(h, s->zero, d->offset)
                   ? 0
                   : broken(err, "the memory of the waiting block at %llu is at %p", at, d->mem);
    case DESC_FREE:
        t->merged++;
        return links_to_free(d->prev) ? broken(err, "the neighbors at %llu and %llu are both free",
                                               (unsigned long long)linked(d->prev)->offset, at)
                                      : 0;
    default:
        return broken(err, "the block at %llu is in state %u", at, desc_state(d));
    }
}

/* Verifies the blocks of a segment. */
static int segregated_check_chain(const struct heap *h, const struct segment *s, struct totals *t,
                                  struct error *err)
{
    const struct rdesc *d = linked(s->edge.next), *prev = &s->edge;
    uint64_t end = s->begin;
    int error;

    for (; d != &s->edge; prev = d, d = linked(d->next)) {
        if (!desc_pool_holds(&h->pool, d) || d->prev != segregated_link_of(prev) ||
            prev->next != segregated_link_of(d) || t->blocks > h->pool.made)
            return broken(err, "the chain of blocks is torn after the block at %llu",
                          (unsigned long long)prev->offset);
        if (d->offset != end)
            return broken(err, "after the block that ends at %llu comes one that begins at %llu",
                          (unsigned long long)end, (unsigned long long)d->offset);
        error = fit_check_block(h, s, d, err);
        if (error == 0)
            error = segregated_check_block(h, s, d, t, err);
        if (error != 0)
            return error;
        end += block_bytes(h, d);
    }
    if (end != s->end || s->edge.prev != segregated_link_of(prev) || prev->next != &s->edge)
        return broken(err, "the last block of a segment ends at %llu, the segment at %llu",
                      (unsigned long long)end, (unsigned long long)s->end);
    return 0;
}

/* Verifies the list of a class, whose blocks are in the chain. */
static int segregated_check_list(const struct heap *h, uint32_t class, uint32_t *blocks,
                                 struct error *err)
{
    const struct rdesc *back = NULL;

    for (const struct rdesc *d = h->segregated->list[class]; d != NULL; back = d, d = d->link)
        if (!desc_pool_holds(&h->pool, d) || desc_state(d) != DESC_FREE ||
            segregated_class(h, d) != class || d->back != back || (*blocks)++ > h->pool.made)
            return broken(err, "the list of class %u is torn after the block at %llu", class,
                          back != NULL ? (unsigned long long)back->offset : 0);
    return 0;
}

static int segregated_check_quick(const struct heap *h, uint32_t units, uint32_t *waiting,
                                  struct error *err)
{
    const struct quick_list *quick = &h->segregated->quick[units - 1];
    uint32_t count = 0;

    for (const struct rdesc *d = quick->head; d != NULL; d = d->link)
        if (!desc_pool_holds(&h->pool, d) || desc_state(d) != DESC_FREED || d->units != units ||
            count++ >= h->segregated->most)
            return broken(err, "the quick list of %u units is torn after %u blocks", units, count);
    if (count != quick->count)
        return broken(err, "the quick list of %u units has %u blocks, %u are counted", units, count,
                      quick->count);
    *waiting += count;
    return 0;
}

static int segregated_check_arriving(const struct heap *h, uint32_t *waiting, struct error *err)
{
    const struct segregated *s = h->segregated;

    for (uint32_t i = 0; i < ARRIVING; i++) {
        const struct rdesc *d = s->arriving[i];

        if (d == NULL)
            continue;
        if (!desc_pool_holds(&h->pool, d) || desc_state(d) != DESC_FREED || d->units > QUICK_UNITS)
            return broken(err, "entry %u of the blocks on their way to a quick list is torn", i);
        ++*waiting;
    }
    return 0;
}

static int segregated_check_lists(const struct heap *h, const struct totals *t, struct error *err)
{
    const struct segregated *s = h->segregated;
    struct class_set some = {.words = 0};
    uint32_t blocks = 0, waiting = 0;

    for (uint32_t c = 0; c < s->classes; c++) {
        if (segregated_check_list(h, c, &blocks, err) != 0)
            return -EUCLEAN;
        if (s->list[c] != NULL)
            class_set_add(&some, c);
    }
    for (uint32_t units = 1; units <= QUICK_UNITS; units++)
        if (segregated_check_quick(h, units, &waiting, err) != 0)
            return -EUCLEAN;
    if (segregated_check_arriving(h, &waiting, err) != 0)
        return -EUCLEAN;
    if (s->unlisted > h->most)
        return broken(err, "%u blocks are allocated or wait, of at most %u", s->unlisted, h->most);
    if (s->units != (h->ragged ? 0 : QUICK_UNITS))
        return broken(err, "a block of up to %u units waits at once", s->units);
    if (s->most < QUICK_FEW || s->most > quick_most(h->pool.made))
        return broken(err, "a quick list has up to %u blocks, %u in a heap of %u descriptors",
                      s->most, quick_most(h->pool.made), h->pool.made);
    if (memcmp(&some, &s->some, sizeof(some)) != 0)
        return broken(err, "the set of classes that have free blocks is wrong");
    if (blocks != t->merged || blocks != s->blocks || waiting != t->waiting ||
        waiting + t->handed_out != s->unlisted)
        return broken(
            err, "%u blocks are free and %u wait; %u and %u are in lists, %u and %u are counted",
            t->merged, t->waiting, blocks, waiting, s->blocks, s->unlisted - t->handed_out);
    if (h->used == 0 && waiting > 1)
        return broken(err, "%u blocks of an empty heap are not merged", waiting);
    return 0;
}

int segregated_fit_check(const struct heap *h, struct error *err, uint32_t *descriptors,
                         uint32_t *handed_out)
{
    struct totals t = {.used = 0};
    int error;

    for (const struct segment *s = &h->first; s != NULL; s = s->next) {
        error = segregated_check_chain(h, s, &t, err);
        if (error != 0)
            return error;
    }
    if (t.used != h->used)
        return broken(err, "%llu bytes are handed out, %llu are counted",
                      (unsigned long long)t.used, (unsigned long long)h->used);
    error = segregated_check_lists(h, &t, err);
    if (error != 0)
        return error;
    *descriptors = t.blocks;
    *handed_out = t.handed_out;
    return 0;
}
