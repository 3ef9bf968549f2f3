/* SPDX-License-Identifier: BSD-3-Clause */
/* heap_twins.c: a heap and its model that live through the same operations: see heap_model.h. */
#include "heap_model.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

void twins_open(struct twins *t, const struct heap_config *cfg)
{
    int error;

    memset(t, 0, sizeof(*t));
    model_open(&t->m, cfg);
    error = heap_create(&t->h, cfg);
    if (error != 0)
        model_fail(&t->m, "heap_create gave %d", error);
}

void twins_close(struct twins *t)
{
    heap_destroy(t->h);
    model_close(&t->m);
}

static unsigned add_block(struct twins *t, struct rdesc *d, size_t size)
{
    unsigned i = model_add(&t->m, desc_handle(d), size, d->offset / t->m.unit);

    model_expect(&t->m, "state", desc_state(d), DESC_OWNED);
    model_expect(&t->m, "size", d->size, size);
    model_expect(&t->m, "units", d->units, t->m.block[i].units);
    if ((char *)d->mem != model_memory(&t->m, &t->m.block[i]))
        model_fail(&t->m, "the memory of the block at %" PRIu64 " is not where it should be",
                   d->offset);
    return i;
}

int twins_alloc(struct twins *t, size_t size)
{
    struct model *m = &t->m;
    bool either;
    int error = model_error(m, size, &either), real;
    uint64_t denials = model_denials;
    struct rdesc *d = heap_alloc(t->h, size);

    t->candidates = 0;
    if (d == NULL) {
        real = heap_alloc_error(t->h);
        if (real != error && !(either && real == -ENOBUFS) &&
            !(real == -EAGAIN && model_may_refuse(m, size)) &&
            !(denials != model_denials && real == -ENOMEM))
            model_fail(m, "a request for %zu bytes gave %d, should give %d", size, real, error);
        m->failures++;
        return -1;
    }
    if (error != 0)
        model_fail(m, "a request for %zu bytes got %" PRIu64 ", should give %d", size, d->offset,
                   error);
    for (unsigned i = 0; i < m->candidates; i++) {
        if (model_is_in(m, d->offset / m->unit, size, &m->piece[m->candidate[i]])) {
            t->candidates = m->candidates;
            t->rank = i;
            return (int)add_block(t, d, size);
        }
    }
    model_fail(m, "a request for %zu bytes got %" PRIu64 ", should get %" PRIu64 "%s", size,
               d->offset, m->piece[m->candidate[0]].at * m->unit,
               m->candidates > 1 ? " or others" : "");
}

void twins_free(struct twins *t, unsigned index)
{
    struct rdesc *d = desc_of(t->m.block[index].d);

    model_remove(&t->m, index);
    heap_free(t->h, d);
}

/* Without memory for a descriptor the block keeps its units. */
void twins_shrink(struct twins *t, unsigned index, size_t size)
{
    struct model *m = &t->m;
    struct model_block *b = &m->block[index];
    const uint64_t units = b->units, denials = model_denials;

    heap_shrink(t->h, desc_of(b->d), size);
    model_shrink(m, index, size);
    if (b->units < units && desc_of(b->d)->units == units && m->algorithm != RMALLOC_NEXT_FIT &&
        denials != model_denials)
        b->units = units;
}

void twins_send(struct twins *t, unsigned index)
{
    t->m.block[index].sent = true;
    desc_set_state(desc_of(t->m.block[index].d), DESC_SENT);
}

int twins_grow(struct twins *t, void *base, uint64_t bytes)
{
    int expected = model_can_grow(&t->m, base, bytes) ? 0 : -EINVAL, error;
    uint64_t denials = model_denials;

    error = heap_grow(t->h, base, bytes);
    if (error == -ENOMEM && expected == 0 && denials != model_denials)
        return error;
    if (error != expected)
        model_fail(&t->m, "heap_grow by %" PRIu64 " bytes gave %d, should give %d", bytes, error,
                   expected);
    if (error == 0)
        model_grow(&t->m, base, bytes);
    return error;
}

int twins_carve(struct twins *t, uint64_t offset, size_t size)
{
    struct model *m = &t->m;
    rvmem_stats_t before, after;
    struct rdesc *d;
    bool can = model_can_carve(m, offset, size);
    uint64_t denials = model_denials;

    heap_get_stats(t->h, &before);
    d = heap_carve(t->h, offset, size);
    heap_get_stats(t->h, &after);
    if (d == NULL) {
        if (can && m->blocks < m->limit && denials == model_denials)
            model_fail(m, "%zu bytes at %" PRIu64 " are free, and were not carved", size, offset);
        m->failures +=
            after.failures != before.failures; /* whether this is a failure is not laid down */
        return -1;
    }
    if (!can)
        model_fail(m, "%zu bytes at %" PRIu64 " were carved, and must not be", size, offset);
    if (d->offset != offset)
        model_fail(m, "carving %zu bytes at %" PRIu64 " gave %" PRIu64, size, offset, d->offset);
    return (int)add_block(t, d, size);
}

static void compare_blocks(struct twins *t)
{
    for (unsigned i = 0; i < t->m.blocks; i++) {
        const struct model_block *b = &t->m.block[i];
        const struct rdesc *d = desc_of(b->d);

        model_expect(&t->m, "offset", d->offset, b->at * t->m.unit);
        model_expect(&t->m, "size", d->size, b->size);
        model_expect(&t->m, "units", d->units, b->units);
        model_expect(&t->m, "state", desc_state(d), b->sent ? DESC_SENT : DESC_OWNED);
        if ((char *)d->mem != model_memory(&t->m, b))
            model_fail(&t->m, "the memory of the block at %" PRIu64 " has moved", d->offset);
    }
}

void twins_compare(struct twins *t)
{
    struct model *m = &t->m;
    rvmem_stats_t stats;
    struct model_walk w;
    struct error err = {""};
    unsigned tiles;

    if (heap_check(t->h, &err) != 0)
        model_fail(m, "heap_check: %s", err.text);
    compare_blocks(t);
    heap_get_stats(t->h, &stats);
    model_compare_stats(m, &stats);
    model_expect(m, "heap_bytes", heap_bytes(t->h), model_bytes(m));
    model_expect(m, "heap_bytes_used", heap_bytes_used(t->h), model_used(m));
    model_expect(m, "heap_largest_segment", heap_largest_segment(t->h), model_largest_segment(m));
    model_expect(m, "heap_unsent_room", heap_unsent_room(t->h), model_unsent_room(m));
    model_walk_begin(&w, m, 0);
    model_walk_end(&w, heap_walk(t->h, model_visit, &w));
    tiles = m->blocks + m->pieces;
    model_walk_begin(&w, m, tiles / 2 + 1);
    model_expect(m, "a walk that is ended", (uint64_t)heap_walk(t->h, model_visit, &w), MODEL_STOP);
}
