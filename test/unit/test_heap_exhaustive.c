/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every state of a small heap, and every operation in each. A breadth-first search from the empty
 * heap finds the states. A state is the distribution of the units and the hole that changed last,
 * which a heap may treat differently; with next-fit also the order of blocks, freed blocks that wait,
 * and the segment used last. Each visit repeats the path to the state on a new heap, beside the model
 * (heap_model.h), and compares all visible results, with every subset of the blocks sent.
 *
 * In each state: every size from 0 to beyond the heap, byte by byte; each block freed, and shrunk to
 * every size; growth by a second segment; with first-fit, carving every size at every byte; all freed
 * from either end, and the whole heap allocated. random-fit repeats with its generator further on,
 * until it has returned each free block that is large enough.
 *
 * usage: test_heap_exhaustive [units]: how large one segment becomes.
 */
#include "heap_model.h"
#include "util/hash.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KEY_BYTES 64
#define BURNS_MAX 5000 /* one of ten candidates is missed with a probability of 10^-228 */

enum step_kind { ALLOC, FREE, GROW, CARVE, SHRINK };

struct step {
    enum step_kind kind;
    unsigned burns; /* random-fit: pairs of allocation and free before it */
    uint64_t a;     /* FREE, SHRINK: index of the block. CARVE: offset */
    uint64_t size;  /* but of FREE */
};

struct node {
    unsigned parent;
    struct step step; /* that leads here from the parent */
    unsigned char key[KEY_BYTES];
};

/* What waits in an arena of next-fit, as the list of its blocks is described: the model itself does not have it. */
struct waiting {
    uint64_t at, units, age;
    unsigned segment;
};

struct world {
    struct twins t;
    struct waiting waiting[32];
    unsigned waits;
    uint64_t changed; /* unit at which the hole that changed last begins, or NONE */
};

#define NONE 254
#define KEY_CHANGED 1 /* where a key has this */

struct search {
    struct heap_config cfg;
    uint64_t second; /* bytes of the segment that it may grow by; 0: it does not */
    struct node *node;
    unsigned nodes, room;
    unsigned *table; /* hash table of node + 1 */
    unsigned slots;
    uint64_t transitions;
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static unsigned units_most = 8; /* it takes several times as long */
#else
static unsigned units_most = 9;
#endif

/* ---- what led to a difference ---- */

static const struct search *now;
static unsigned now_node;
static struct step now_step;

static void print_step(FILE *to, const struct step *s)
{
    static const char *const names[] = {"alloc", "free block", "grow by", "carve", "shrink to"};

    if (s->burns > 0)
        fprintf(to, "  %u times: alloc 0, free it\n", s->burns);
    fprintf(to, "  %s %llu", names[s->kind],
            (unsigned long long)(s->kind == FREE ? s->a : s->size));
    if (s->kind == CARVE)
        fprintf(to, " at %llu", (unsigned long long)s->a);
    if (s->kind == SHRINK)
        fprintf(to, " block %llu", (unsigned long long)s->a);
    fputc('\n', to);
}

static void print_way(FILE *to, unsigned node)
{
    if (node == 0)
        return;
    print_way(to, now->node[node].parent);
    print_step(to, &now->node[node].step);
}

static void print_context(FILE *to)
{
    fprintf(to,
            "  algorithm %d, units of %u, %llu bytes, max_descriptors %u, seed %llu; the way:\n",
            (int)now->cfg.algorithm, now->cfg.unit_size, (unsigned long long)now->cfg.bytes,
            now->cfg.max_descriptors, (unsigned long long)now->cfg.seed);
    print_way(to, now_node);
    fputs("  and last:\n", to);
    print_step(to, &now_step);
}

/* ---- a state as a key ---- */

/* Next-fit: of what waits, what is not between two blocks that are handed out is free again. */
static void settle(struct world *w)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < w->waits; i++) {
        const struct waiting *g = &w->waiting[i];
        bool older = false, newer = false;

        for (unsigned k = 0; k < w->t.m.blocks; k++) {
            const struct model_block *b = &w->t.m.block[k];

            older |= b->segment == g->segment && b->age < g->age;
            newer |= b->segment == g->segment && b->age > g->age;
        }
        if (older && newer)
            w->waiting[kept++] = *g;
    }
    w->waits = kept;
}

static int by_age(const void *a, const void *b)
{
    const struct waiting *p = a, *q = b;

    if (p->segment != q->segment)
        return p->segment < q->segment ? -1 : 1;
    return p->age < q->age ? -1 : 1;
}

/* Three bytes for each block, by address; next-fit: in the order of age, what waits among them. */
static void make_key(const struct world *w, unsigned char *key)
{
    const struct model *m = &w->t.m;
    struct waiting all[64];
    unsigned n = 0, bytes = 0;

    memset(key, 0, KEY_BYTES);
    for (unsigned i = 0; i < m->blocks; i++)
        all[n++] = (struct waiting){m->block[i].at, m->block[i].units, m->block[i].age,
                                    m->block[i].segment};
    for (unsigned i = 0; i < w->waits; i++)
        all[n++] = w->waiting[i];
    if (m->algorithm == RMALLOC_NEXT_FIT)
        qsort(all, n, sizeof(all[0]), by_age);
    key[bytes++] = (unsigned char)m->segments;
    key[bytes++] = (unsigned char)(m->algorithm == RMALLOC_NEXT_FIT ? m->current : w->changed);
    for (unsigned i = 0; i < n; i++) {
        bool handed_out = false;

        for (unsigned k = 0; k < m->blocks; k++)
            handed_out |= m->block[k].age == all[i].age;
        assert_true(bytes + 3 <= KEY_BYTES);
        key[bytes++] = (unsigned char)(all[i].at + 1);
        key[bytes++] = (unsigned char)all[i].units;
        key[bytes++] = handed_out;
    }
}

static unsigned *slot_of(const struct search *s, const unsigned char *key)
{
    uint64_t h = hash_bytes(HASH_BASIS, key, KEY_BYTES);
    unsigned i = (unsigned)(h ^ h >> 32) & (s->slots - 1);

    while (s->table[i] != 0 && memcmp(s->node[s->table[i] - 1].key, key, KEY_BYTES) != 0)
        i = (i + 1) & (s->slots - 1);
    return &s->table[i];
}

static void rehash(struct search *s)
{
    s->slots = s->slots == 0 ? 1024 : s->slots * 2;
    free(s->table);
    s->table = calloc(s->slots, sizeof(*s->table));
    assert_non_null(s->table);
    for (unsigned i = 0; i < s->nodes; i++)
        *slot_of(s, s->node[i].key) = i + 1;
}

/* The state of `w`, come to by one step from `parent`, if it has not been seen. */
static void note(struct search *s, const struct world *w, unsigned parent, const struct step *step)
{
    unsigned char key[KEY_BYTES];
    unsigned *slot;

    make_key(w, key);
    if (s->nodes * 2 >= s->slots)
        rehash(s);
    slot = slot_of(s, key);
    if (*slot != 0)
        return;
    if (s->nodes == s->room) {
        s->room = s->room * 2 + 64;
        s->node = realloc(s->node, s->room * sizeof(*s->node));
        assert_non_null(s->node);
    }
    s->node[s->nodes] = (struct node){.parent = parent, .step = *step};
    memcpy(s->node[s->nodes].key, key, KEY_BYTES);
    *slot = ++s->nodes;
}

/* ---- going the way to a state again ---- */

static uint64_t piece_at(struct model *m, uint64_t at)
{
    model_look(m);
    for (unsigned i = 0; i < m->pieces; i++)
        if (at >= m->piece[i].at && at - m->piece[i].at < m->piece[i].units)
            return m->piece[i].at;
    return NONE;
}

/* A block has been taken out of a hole: what is left of it has changed, first what is below. */
static bool taken(struct world *w, int index)
{
    struct model *m = &w->t.m;
    struct model_block b;
    uint64_t below, above;

    if (index < 0)
        return false;
    b = m->block[index];
    below = b.at > m->segment[b.segment].at ? piece_at(m, b.at - 1) : NONE;
    above = b.at + b.units < m->segment[b.segment].at + m->segment[b.segment].units
                ? piece_at(m, b.at + b.units)
                : NONE;
    if (above != NONE)
        w->changed = above;
    else if (w->changed == b.at)
        w->changed = NONE;
    if (below != NONE &&
        m->algorithm == RMALLOC_FIRST_FIT) /* which alone can take from the middle */
        w->changed = below;
    return true;
}

/* The free units behind the block have changed, if it has fewer than before. */
static bool shrunk(struct world *w, const struct step *step)
{
    struct model *m = &w->t.m;
    const uint64_t units = m->block[step->a].units;
    const struct model_block *b;

    twins_shrink(&w->t, (unsigned)step->a, step->size);
    b = &m->block[step->a];
    if (b->units < units)
        w->changed = piece_at(m, b->at + b->units);
    return true;
}

static bool take_step(struct world *w, const struct step *step)
{
    struct twins *t = &w->t;
    uint64_t at;

    for (unsigned i = 0; i < step->burns; i++) {
        int block = twins_alloc(t, 0);

        if (block < 0)
            model_fail(&t->m, "there was free memory, and is none any more");
        twins_free(t, (unsigned)block);
    }
    switch (step->kind) {
    case ALLOC:
        return taken(w, twins_alloc(t, step->size));
    case CARVE:
        return taken(w, twins_carve(t, step->a, step->size));
    case SHRINK:
        return shrunk(w, step);
    case GROW:
        w->changed = t->m.segment[0].units;
        return twins_grow(t, t->m.segment[0].base != NULL ? model_nowhere(1) : NULL, step->size) ==
               0;
    default:
        break;
    }
    if (t->m.algorithm == RMALLOC_NEXT_FIT) {
        const struct model_block *b = &t->m.block[step->a];

        w->waiting[w->waits++] = (struct waiting){b->at, b->units, b->age, b->segment};
    }
    if (step->a % 2 == 1) /* it makes no difference */
        twins_send(t, (unsigned)step->a);
    at = t->m.block[step->a].at;
    twins_free(t, (unsigned)step->a);
    settle(w);
    w->changed = piece_at(&t->m, at);
    return true;
}

static void go(const struct search *s, struct world *w, unsigned node)
{
    struct step way[64];
    unsigned steps = 0;

    for (unsigned i = node; i != 0; i = s->node[i].parent) {
        assert_true(steps < 64);
        way[steps++] = s->node[i].step;
    }
    w->waits = 0;
    w->changed = 0;
    twins_open(&w->t, &s->cfg);
    while (steps > 0)
        take_step(w, &way[--steps]);
}

/* ---- all that can be done in a state ---- */

static void one_step(struct search *s, unsigned node, const struct step *step)
{
    struct world w;

    now_step = *step;
    go(s, &w, node);
    take_step(&w, step);
    twins_compare(&w.t);
    note(s, &w, node, step);
    s->transitions++;
    twins_close(&w.t);
}

/* Until each of the candidates has been given. */
static void every_outcome(struct search *s, unsigned node, struct step step)
{
    bool given[64] = {false};
    unsigned candidates = 0, left = 1;
    struct world w;

    for (step.burns = 0; left > 0; step.burns++) {
        now_step = step;
        go(s, &w, node);
        take_step(&w, &step);
        if (candidates == 0) {
            candidates = w.t.candidates;
            left = candidates;
        }
        if (candidates != w.t.candidates)
            model_fail(&w.t.m, "another state");
        if (step.burns > BURNS_MAX)
            model_fail(&w.t.m, "of %u candidates, %u are never given", candidates, left);
        if (!given[w.t.rank]) {
            given[w.t.rank] = true;
            left--;
            twins_compare(&w.t);
            note(s, &w, node, &step);
            s->transitions++;
        }
        twins_close(&w.t);
    }
}

/* What is refused changes nothing but a counter, so that one heap serves for all. */
static void every_size(struct search *s, unsigned node, struct world *w)
{
    const uint64_t most = model_largest_segment(&w->t.m) + 1;
    struct step step = {.kind = ALLOC};
    bool either;

    for (step.size = 0; step.size <= most; step.size++) {
        if (model_error(&w->t.m, step.size, &either) == 0) {
            if (s->cfg.algorithm == RMALLOC_RANDOM_FIT)
                every_outcome(s, node, step);
            else
                one_step(s, node, &step);
            continue;
        }
        now_step = step;
        twins_alloc(&w->t, step.size);
        twins_compare(&w->t);
        s->transitions++;
    }
}

static void every_carve(struct search *s, unsigned node, struct world *w)
{
    const struct model_segment *last = &w->t.m.segment[w->t.m.segments - 1];
    const uint64_t bytes = (last->at + last->units) * w->t.m.unit;
    struct step step = {.kind = CARVE};

    for (step.a = 0; step.a <= bytes; step.a++)
        for (step.size = 0; step.size <= bytes - step.a + 1; step.size++) {
            if (model_can_carve(&w->t.m, step.a, step.size)) {
                one_step(s, node, &step);
                continue;
            }
            now_step = step;
            twins_carve(&w->t, step.a, step.size);
            s->transitions++;
        }
    twins_compare(&w->t);
}

static void every_subset_sent(struct world *w)
{
    struct model *m = &w->t.m;

    for (unsigned subset = 0; subset < 1u << m->blocks; subset++) {
        for (unsigned i = 0; i < m->blocks; i++) {
            m->block[i].sent = (subset >> i & 1) != 0;
            desc_set_state(desc_of(m->block[i].d), m->block[i].sent ? DESC_SENT : DESC_OWNED);
        }
        if (heap_unsent_room(w->t.h) != model_unsent_room(m))
            model_fail(m, "heap_unsent_room is %llu, should be %llu",
                       (unsigned long long)heap_unsent_room(w->t.h),
                       (unsigned long long)model_unsent_room(m));
    }
    twins_compare(&w->t);
}

static void give_all_back(const struct search *s, unsigned node, bool from_above)
{
    struct world w;

    go(s, &w, node);
    while (w.t.m.blocks > 0) {
        twins_free(&w.t, from_above ? w.t.m.blocks - 1 : 0);
        twins_compare(&w.t);
    }
    for (unsigned i = 0; i < w.t.m.segments; i++)
        if (twins_alloc(&w.t, model_largest(&w.t.m)) < 0)
            model_fail(&w.t.m, "not all that was given back can be had");
    twins_compare(&w.t);
    twins_close(&w.t);
}

static void expand(struct search *s, unsigned node)
{
    struct world w;
    struct step step;

    now_node = node;
    now_step = (struct step){.kind = ALLOC};
    go(s, &w, node);
    twins_compare(&w.t);
    every_size(s, node, &w);
    for (unsigned i = 0; i < w.t.m.blocks; i++) {
        step = (struct step){.kind = FREE, .a = i};
        one_step(s, node, &step);
    }
    for (unsigned i = 0; i < w.t.m.blocks; i++)
        for (uint64_t size = 0; size <= w.t.m.block[i].size; size++) {
            step = (struct step){.kind = SHRINK, .a = i, .size = size};
            one_step(s, node, &step);
        }
    if (s->second != 0 && w.t.m.segments == 1) {
        step = (struct step){.kind = GROW, .size = s->second};
        one_step(s, node, &step);
    }
    if (s->cfg.algorithm == RMALLOC_FIRST_FIT)
        every_carve(s, node, &w);
    every_subset_sent(&w);
    twins_close(&w.t);
    give_all_back(s, node, false);
    give_all_back(s, node, true);
}

/* Units can be shared out in F(2n + 1) ways (Fibonacci's numbers), and a heuristic that merges at once can come to all. */
static uint64_t sharings(uint64_t units)
{
    uint64_t f = 1, next = 1;

    for (uint64_t i = 0; i < 2 * units; i++) { /* Fibonacci's numbers */
        next += f;
        f = next - f;
    }
    return f;
}

static int by_key(const void *a, const void *b) { return memcmp(a, b, KEY_BYTES); }

/* In how many ways the units were shared out in the states that were found. */
static uint64_t sharings_found(const struct search *s)
{
    unsigned char(*key)[KEY_BYTES] = malloc((s->nodes + 1) * sizeof(*key));
    uint64_t n = 0;

    assert_non_null(key);
    for (unsigned i = 0; i < s->nodes; i++) {
        memcpy(key[i], s->node[i].key, KEY_BYTES);
        key[i][KEY_CHANGED] = 0;
    }
    qsort(key, s->nodes, sizeof(*key), by_key);
    for (unsigned i = 0; i < s->nodes; i++)
        n += i == 0 || by_key(key[i], key[i - 1]) != 0;
    free(key);
    return n;
}

static uint64_t sharings_expected(const struct search *s)
{
    uint64_t unit = s->cfg.unit_size, first = sharings((s->cfg.bytes + unit - 1) / unit);

    return s->second == 0 ? first : first + first * sharings((s->second + unit - 1) / unit);
}

static void search_all(rmalloc_fit_t algorithm, uint32_t unit, uint64_t bytes, uint64_t second,
                       uint32_t limit)
{
    struct search s = {
        .cfg = {
            .algorithm = algorithm, .unit_size = unit, .bytes = bytes, .max_descriptors = limit}};
    struct step none = {.kind = ALLOC};
    struct world w;

    s.cfg.seed = bytes;
    s.cfg.base = bytes % 2 == 0 ? model_nowhere(0) : NULL;
    s.second = second;
    now = &s;
    now_node = 0;
    go(&s, &w, 0);
    note(&s, &w, 0, &none);
    twins_close(&w.t);
    for (unsigned i = 0; i < s.nodes; i++)
        expand(&s, i);
    print_message("units of %u, %2llu bytes", unit, (unsigned long long)bytes);
    if (second != 0)
        print_message(" and then %llu more", (unsigned long long)second);
    if (limit != 0)
        print_message(", at most %u blocks", limit);
    print_message(": %u states, %llu transitions\n", s.nodes, (unsigned long long)s.transitions);
    if (algorithm != RMALLOC_NEXT_FIT && limit == 0)
        assert_int_equal(sharings_found(&s),
                         sharings_expected(&s)); /* so the search itself leaves nothing out */
    free(s.node);
    free(s.table);
}

static void every_state(rmalloc_fit_t algorithm, unsigned units)
{
    for (unsigned n = 1; n <= units; n++)
        search_all(algorithm, 1, n, 0, 0);
    for (unsigned n = 1; n < units; n++)
        search_all(algorithm, 2, 2 * n - 1, 0, 0);
    for (unsigned rest = 1; rest < 4; rest++)
        search_all(algorithm, 4, 12 + rest, 0, 0);
    search_all(algorithm, 1, 1, units - 3, 0);
    search_all(algorithm, 1, units - 3, 1, 0);
    search_all(algorithm, 1, 3, units - 4, 0);
    search_all(algorithm, 2, 5, 2 * (units - 5), 0);
    search_all(algorithm, 2, 2 * (units - 5), 5, 0);
    search_all(algorithm, 2, 5, 5, 0);
    search_all(algorithm, 1, units - 2, 0, 2);
    search_all(algorithm, 1, units - 2, 0, 3);
}

/* ---- tests ---- */

static rmalloc_fit_t fits[] = {RMALLOC_NEXT_FIT,  RMALLOC_FIRST_FIT,  RMALLOC_BEST_FIT,
                               RMALLOC_WORST_FIT, RMALLOC_RANDOM_FIT, RMALLOC_SEGREGATED_FIT};

static void every_state_of(void **state)
{
    const rmalloc_fit_t fit = *(rmalloc_fit_t *)*state;

    /* next-fit has more states to a unit than the others */
    every_state(fit, fit == RMALLOC_NEXT_FIT ? units_most - 1 : units_most);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        {"every_state_of_next_fit", every_state_of, NULL, NULL, &fits[0]},
        {"every_state_of_first_fit", every_state_of, NULL, NULL, &fits[1]},
        {"every_state_of_best_fit", every_state_of, NULL, NULL, &fits[2]},
        {"every_state_of_worst_fit", every_state_of, NULL, NULL, &fits[3]},
        {"every_state_of_random_fit", every_state_of, NULL, NULL, &fits[4]},
        {"every_state_of_segregated_fit", every_state_of, NULL, NULL, &fits[5]},
    };

    model_context = print_context;
    if (argc > 1)
        units_most = (unsigned)strtoul(argv[1], NULL, 0);
    if (units_most < 7 || units_most > 16) {
        fprintf(stderr, "usage: %s [units, 7 to 16 [tests]]\n", argv[0]);
        return 2;
    }
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    return cmocka_run_group_tests_name("every state", tests, NULL, NULL);
}
