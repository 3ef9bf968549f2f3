/* SPDX-License-Identifier: BSD-3-Clause */
#include "heap_model.h"
#include <rvmem.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void (*model_context)(FILE *to);
uint64_t model_denials;

static const char *const names[] = {"default",   "next-fit",   "first-fit",     "best-fit",
                                    "worst-fit", "random-fit", "segregated-fit"};

static void print_model(const struct model *m, FILE *to)
{
    fprintf(to,
            "  %s, units of %u bytes; blocks handed out [unit + units #age]:", names[m->algorithm],
            m->unit);
    for (unsigned s = 0, i = 0; s < m->segments; s++) {
        fprintf(to,
                "\n  segment %u at unit %" PRIu64 " of %" PRIu64 " units, %" PRIu64 " bytes:", s,
                m->segment[s].at, m->segment[s].units, m->segment[s].bytes);
        for (; i < m->blocks && m->block[i].segment == s; i++)
            if (i < 100)
                fprintf(to, " %" PRIu64 "+%" PRIu64 "#%" PRIu64 "%s", m->block[i].at,
                        m->block[i].units, m->block[i].age, m->block[i].sent ? "s" : "");
    }
    fputc('\n', to);
}

void model_fail(const struct model *m, const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fputs("heap and model differ: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    print_model(m, stderr);
    if (model_context != NULL)
        model_context(stderr);
    abort();
}

static void *grown(void *array, unsigned *room, unsigned needed, size_t element)
{
    if (needed <= *room)
        return array;
    *room = needed * 2 + 16;
    array = realloc(array, *room * element);
    if (array == NULL)
        abort();
    return array;
}

/* ---- geometry ---- */

static uint64_t units_for(const struct model *m, size_t size)
{
    return size == 0 ? 1 : ((uint64_t)size - 1) / m->unit + 1;
}

/* The bytes of units [at, at + units), of which the last may be the short one of the segment. */
static uint64_t bytes_of(const struct model *m, unsigned segment, uint64_t at, uint64_t units)
{
    const struct model_segment *s = &m->segment[segment];
    uint64_t begin = (at - s->at) * m->unit, end = begin + units * m->unit;

    return (end < s->bytes ? end : s->bytes) - begin;
}

static void add_segment(struct model *m, void *base, uint64_t bytes)
{
    struct model_segment *s = &m->segment[m->segments];

    s->at = m->segments == 0 ? 0 : s[-1].at + s[-1].units;
    s->units = (bytes + m->unit - 1) / m->unit;
    s->bytes = bytes;
    s->base = base;
    m->segments++;
}

void model_open(struct model *m, const struct heap_config *cfg)
{
    memset(m, 0, sizeof(*m));
    m->algorithm = cfg->algorithm != RMALLOC_FIT_DEFAULT ? cfg->algorithm : RMALLOC_NEXT_FIT;
    m->unit = cfg->unit_size;
    m->limit = cfg->max_descriptors != 0 ? cfg->max_descriptors : DESC_LIMIT_DEFAULT;
    add_segment(m, cfg->base, cfg->bytes);
}

void model_close(struct model *m)
{
    free(m->block);
    free(m->piece);
    free(m->candidate);
}

bool model_can_grow(const struct model *m, const void *base, uint64_t bytes)
{
    const struct model_segment *last = &m->segment[m->segments - 1];

    return bytes > 0 && bytes <= (MODEL_UNITS_MAX - last->at - last->units) * m->unit &&
           (base == NULL) == (m->segment[0].base == NULL) && (uintptr_t)base % m->unit == 0 &&
           (uintptr_t)base <= UINTPTR_MAX - bytes;
}

void model_grow(struct model *m, void *base, uint64_t bytes)
{
    if (m->segments == MODEL_SEGMENTS)
        abort();
    add_segment(m, base, bytes);
}

uint64_t model_bytes(const struct model *m)
{
    uint64_t sum = 0;

    for (unsigned s = 0; s < m->segments; s++)
        sum += m->segment[s].bytes;
    return sum;
}

uint64_t model_largest_segment(const struct model *m)
{
    uint64_t most = 0;

    for (unsigned s = 0; s < m->segments; s++)
        most = m->segment[s].bytes > most ? m->segment[s].bytes : most;
    return most;
}

uint64_t model_block_bytes(const struct model *m, const struct model_block *b)
{
    return bytes_of(m, b->segment, b->at, b->units);
}

uint64_t model_used(const struct model *m)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < m->blocks; i++)
        sum += model_block_bytes(m, &m->block[i]);
    return sum;
}

char *model_memory(const struct model *m, const struct model_block *b)
{
    const struct model_segment *s = &m->segment[b->segment];

    return s->base == NULL ? NULL : s->base + (b->at - s->at) * m->unit;
}

/* ---- where free memory is, and which of it a request gets ---- */

struct arena { /* next-fit: what is handed out of a segment, from the oldest block to the newest */
    const struct model_block *oldest, *newest;
};

static struct arena arena_of(const struct model *m, unsigned segment)
{
    struct arena a = {NULL, NULL};

    for (unsigned i = 0; i < m->blocks; i++) {
        const struct model_block *b = &m->block[i];

        if (b->segment != segment)
            continue;
        if (a.oldest == NULL || b->age < a.oldest->age)
            a.oldest = b;
        if (a.newest == NULL || b->age > a.newest->age)
            a.newest = b;
    }
    return a;
}

/* Is the hole not between the oldest block and the newest one, going round? */
static bool arena_may_use(const struct arena *a, const struct model_piece *p)
{
    if (a->oldest == NULL)
        return true;
    if (a->newest->at < a->oldest->at)
        return p->at > a->newest->at && p->at < a->oldest->at;
    return p->at > a->newest->at || p->at < a->oldest->at;
}

static void add_piece(struct model *m, unsigned segment, uint64_t at, uint64_t end)
{
    struct model_piece *p;

    if (at == end)
        return;
    m->piece = grown(m->piece, &m->piece_room, m->pieces + 1, sizeof(*m->piece));
    p = &m->piece[m->pieces++];
    *p = (struct model_piece){.at = at, .units = end - at, .segment = segment};
    p->bytes = bytes_of(m, segment, at, p->units);
}

void model_look(struct model *m)
{
    unsigned i = 0;

    m->pieces = 0;
    for (unsigned s = 0; s < m->segments; s++) {
        uint64_t at = m->segment[s].at;
        unsigned first = m->pieces;

        for (; i < m->blocks && m->block[i].segment == s; i++) {
            add_piece(m, s, at, m->block[i].at);
            at = m->block[i].at + m->block[i].units;
        }
        add_piece(m, s, at, m->segment[s].at + m->segment[s].units);
        if (m->algorithm == RMALLOC_NEXT_FIT) {
            struct arena a = arena_of(m, s);

            for (unsigned p = first; p < m->pieces; p++)
                m->piece[p].stuck = !arena_may_use(&a, &m->piece[p]);
        }
    }
}

/* A hole may end in a short unit, so that it has the units and not the bytes. */
static bool is_large_enough(const struct model *m, const struct model_piece *p, size_t size)
{
    return !p->stuck && units_for(m, size) <= p->units && size <= p->bytes;
}

/* Does the heuristic prefer hole p to hole q, which is before it? */
static bool prefers(const struct model *m, const struct model_piece *p, const struct model_piece *q)
{
    switch (m->algorithm) {
    case RMALLOC_BEST_FIT:
        return p->units < q->units;
    case RMALLOC_WORST_FIT:
        return p->units > q->units;
    default: /* the lowest */
        return false;
    }
}

static void choose_next_fit(struct model *m, size_t size)
{
    for (unsigned n = 0; n < m->segments; n++) {
        unsigned segment = (m->current + n) % m->segments;
        struct arena a = arena_of(m, segment);
        int behind = -1, around = -1; /* the newest block */

        for (unsigned i = 0; i < m->pieces; i++) {
            const struct model_piece *p = &m->piece[i];

            if (p->segment != segment || !is_large_enough(m, p, size))
                continue;
            if (a.newest != NULL && p->at < a.newest->at)
                around = (int)i;
            else
                behind = (int)i;
        }
        if (behind < 0 && around < 0)
            continue;
        m->candidate[m->candidates++] = (unsigned)(behind >= 0 ? behind : around);
        return;
    }
}

static void choose(struct model *m, size_t size)
{
    for (unsigned i = 0; i < m->pieces; i++) {
        if (!is_large_enough(m, &m->piece[i], size))
            continue;
        if (m->candidates == 0 || m->algorithm == RMALLOC_RANDOM_FIT ||
            m->algorithm == RMALLOC_SEGREGATED_FIT)
            m->candidate[m->candidates++] = i;
        else if (prefers(m, &m->piece[i], &m->piece[m->candidate[0]]))
            m->candidate[0] = i;
    }
}

unsigned model_candidates(struct model *m, size_t size)
{
    model_look(m);
    m->candidate = realloc(m->candidate, (m->pieces + 1) * sizeof(*m->candidate));
    if (m->candidate == NULL)
        abort();
    m->candidates = 0;
    if (m->algorithm == RMALLOC_NEXT_FIT)
        choose_next_fit(m, size);
    else
        choose(m, size);
    return m->candidates;
}

/* The five highest bits of a number of units: the smallest size of its class. */
static uint64_t class_least(uint64_t units)
{
    uint64_t step = 1;

    while (units / step >= 32)
        step *= 2;
    return units / step * step;
}

static unsigned pieces_of_class(const struct model *m, uint64_t least)
{
    unsigned n = 0;

    for (unsigned i = 0; i < m->pieces; i++)
        n += class_least(m->piece[i].bytes / m->unit) == least;
    return n;
}

bool model_is_in(const struct model *m, uint64_t at, size_t size, const struct model_piece *p)
{
    if (m->algorithm != RMALLOC_SEGREGATED_FIT)
        return p->at == at;
    return at >= p->at && at - p->at < p->units && size <= p->bytes - (at - p->at) * m->unit;
}

bool model_may_refuse(struct model *m, size_t size)
{
    const uint64_t units = units_for(m, size), least = class_least(units);

    model_look(m);
    if (m->algorithm != RMALLOC_SEGREGATED_FIT || m->blocks == 0)
        return false;
    for (unsigned i = 0; i < m->pieces; i++) {
        const uint64_t whole = m->piece[i].bytes / m->unit;

        if (whole >= units && class_least(whole) >= (units == least ? units : least + 1))
            return false;
    }
    return pieces_of_class(m, least) > MODEL_PROBES ||
           pieces_of_class(m, class_least(units - 1)) > MODEL_PROBES;
}

/* Segregated-fit sees so many blocks of the largest class, and of others the smallest size. */
static bool largest_is(const struct model *m, uint64_t is, uint64_t should)
{
    const uint64_t least = class_least(should / m->unit);

    return is == should || (m->algorithm == RMALLOC_SEGREGATED_FIT && is < should &&
                            is >= least * m->unit && pieces_of_class(m, least) > MODEL_PROBES);
}

static unsigned stuck_pieces(const struct model *m)
{
    unsigned n = 0;

    for (unsigned i = 0; i < m->pieces; i++)
        n += m->piece[i].stuck;
    return n;
}

static uint64_t largest_piece(const struct model *m)
{
    uint64_t most = 0;

    for (unsigned i = 0; i < m->pieces; i++)
        if (!m->piece[i].stuck && m->piece[i].bytes > most)
            most = m->piece[i].bytes;
    return most;
}

uint64_t model_largest(struct model *m)
{
    model_look(m);
    return m->blocks < m->limit ? largest_piece(m) : 0;
}

uint64_t model_unsent_room(const struct model *m)
{
    struct model after = *m;
    uint64_t room;

    after.block = malloc((m->blocks + 1) * sizeof(*after.block));
    if (after.block == NULL)
        abort();
    after.blocks = 0;
    for (unsigned i = 0; i < m->blocks; i++)
        if (!m->block[i].sent)
            after.block[after.blocks++] = m->block[i];
    after.piece = NULL;
    after.piece_room = 0;
    model_look(&after);
    room = largest_piece(&after); /* of memory: whether there is a descriptor is another question */
    free(after.piece);
    free(after.block);
    return room;
}

int model_error(struct model *m, size_t size, bool *either)
{
    *either = false;
    if (size > model_largest_segment(m))
        return -EMSGSIZE;
    if (model_candidates(m, size) == 0)
        return -EAGAIN;
    if (m->blocks >= m->limit)
        return -ENOBUFS;
    *either = m->blocks + stuck_pieces(m) >= m->limit; /* what waits may take descriptors */
    return 0;
}

/* ---- changes ---- */

static unsigned segment_at(const struct model *m, uint64_t at)
{
    unsigned s = 0;

    while (s + 1 < m->segments && m->segment[s + 1].at <= at)
        s++;
    return s;
}

unsigned model_add(struct model *m, raddr_t d, size_t size, uint64_t at)
{
    struct model_block b = {
        .d = d, .size = size, .at = at, .units = units_for(m, size), .age = ++m->age};
    unsigned i = 0;
    uint64_t used;

    b.segment = segment_at(m, at);
    while (i < m->blocks && m->block[i].at < at)
        i++;
    m->block = grown(m->block, &m->block_room, m->blocks + 1, sizeof(*m->block));
    memmove(m->block + i + 1, m->block + i, (m->blocks - i) * sizeof(*m->block));
    m->block[i] = b;
    m->blocks++;
    m->current = b.segment;
    m->allocs++;
    used = model_used(m);
    m->peak = used > m->peak ? used : m->peak;
    return i;
}

void model_remove(struct model *m, unsigned index)
{
    m->blocks--;
    memmove(m->block + index, m->block + index + 1, (m->blocks - index) * sizeof(*m->block));
    m->frees++;
}

bool model_is_newest(const struct model *m, unsigned index)
{
    const struct model_block *b = &m->block[index];

    return arena_of(m, b->segment).newest == b;
}

void model_shrink(struct model *m, unsigned index, size_t size)
{
    struct model_block *b = &m->block[index];

    b->size = size;
    if (m->algorithm != RMALLOC_NEXT_FIT || model_is_newest(m, index))
        b->units = units_for(m, size);
}

bool model_can_carve(struct model *m, uint64_t offset, size_t size)
{
    uint64_t at = offset / m->unit, units = units_for(m, size);

    if (offset % m->unit != 0)
        return false;
    model_look(m);
    for (unsigned i = 0; i < m->pieces; i++) {
        const struct model_piece *p = &m->piece[i];

        if (at >= p->at && at - p->at < p->units)
            return units <= p->units - (at - p->at) && size <= p->bytes - (at - p->at) * m->unit;
    }
    return false;
}

/* ---- comparison ---- */

void model_expect(const struct model *m, const char *what, uint64_t is, uint64_t should)
{
    if (is != should)
        model_fail(m, "%s is %" PRIu64 ", should be %" PRIu64, what, is, should);
}

void model_compare_stats(struct model *m, const rvmem_stats_t *stats)
{
    uint64_t stuck = 0;

    model_look(m);
    for (unsigned i = 0; i < m->pieces; i++)
        stuck += m->piece[i].stuck ? m->piece[i].bytes : 0;
    model_expect(m, "bytes", stats->bytes, model_bytes(m));
    model_expect(m, "bytes_used", stats->bytes_used, model_used(m));
    model_expect(m, "bytes_stuck", stats->bytes_stuck, stuck);
    model_expect(m, "bytes_free", stats->bytes_free, model_bytes(m) - model_used(m) - stuck);
    model_expect(m, "peak", stats->peak, m->peak);
    model_expect(m, "allocs", stats->allocs, m->allocs);
    model_expect(m, "frees", stats->frees, m->frees);
    model_expect(m, "failures", stats->failures, m->failures);
    model_expect(m, "blocks_used", stats->blocks_used, m->blocks);
    model_expect(m, "blocks_free", stats->blocks_free, m->pieces);
    model_expect(m, "segments", stats->segments, m->segments);
    if ((stats->largest != 0 || m->blocks + stuck_pieces(m) < m->limit) &&
        !largest_is(m, stats->largest, model_largest(m)))
        model_expect(m, "largest", stats->largest, model_largest(m));
    if (stats->metadata == 0)
        model_fail(m, "metadata is 0");
}

void model_walk_begin(struct model_walk *w, struct model *m, unsigned stop_after)
{
    model_look(m);
    *w = (struct model_walk){.m = m, .left = stop_after};
}

/* Blocks and holes, merged by address, are the tiling. */
int model_visit(const rvmem_block_t *block, void *walk)
{
    struct model_walk *w = walk;
    const struct model *m = w->m;
    const struct model_block *b = w->blocks < m->blocks ? &m->block[w->blocks] : NULL;
    const struct model_piece *p = w->pieces < m->pieces ? &m->piece[w->pieces] : NULL;

    model_expect(m, "walk: offset", block->offset, w->at * m->unit);
    if (b != NULL && b->at == w->at) {
        model_expect(m, "walk: state", block->state, RVMEM_USED);
        model_expect(m, "walk: bytes", block->bytes, model_block_bytes(m, b));
        model_expect(m, "walk: size", block->size, b->size);
        model_expect(m, "walk: segment", block->segment, b->segment);
        if (block->d != b->d)
            model_fail(m, "walk: another descriptor at unit %" PRIu64, w->at);
        w->at += b->units;
        w->blocks++;
    } else if (p != NULL && p->at == w->at) {
        model_expect(m, "walk: state", block->state, p->stuck ? RVMEM_STUCK : RVMEM_FREE);
        model_expect(m, "walk: bytes", block->bytes, p->bytes);
        model_expect(m, "walk: size", block->size, 0);
        model_expect(m, "walk: segment", block->segment, p->segment);
        if (block->d != ADDR_NULL)
            model_fail(m, "walk: a descriptor at unit %" PRIu64 ", which is free", w->at);
        w->at += p->units;
        w->pieces++;
    } else {
        model_fail(m, "walk: a block too many, at %" PRIu64, block->offset);
    }
    return w->left != 0 && --w->left == 0 ? MODEL_STOP : 0;
}

void model_walk_end(const struct model_walk *w, int result)
{
    const struct model *m = w->m;

    if (result == MODEL_STOP && w->left == 0)
        return;
    if (result != 0)
        model_fail(m, "walk gave %d", result);
    model_expect(m, "walk: blocks seen", w->blocks + w->pieces, m->blocks + m->pieces);
}
