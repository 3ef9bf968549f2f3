/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a next-fit heap reports: what stands in the way, block by block; and its check, which sees damage.
 */
#include "next_fit_heap.h"
#include <rvmem.h>

#include <stdio.h>

/* ---- what stands in the way, walk ---- */

static void unsent_room_is_what_there_is_when_all_that_was_sent_is_back(void **state)
{
    struct heap *h = heap_of_units(10);
    struct rdesc *a, *b, *c, *d;

    (void)state;
    assert_int_equal(heap_unsent_room(h), 10 * UNIT);
    a = take(h, 4, 0);
    b = take(h, 2, 4);
    c = take(h, 2, 6);
    desc_set_state(a, DESC_SENT);
    assert_int_equal(heap_unsent_room(h), 4 * UNIT); /* before b, and two behind c */
    desc_set_state(c, DESC_SENT);
    assert_int_equal(heap_unsent_room(h), 4 * UNIT);
    desc_set_state(b, DESC_SENT);
    assert_int_equal(heap_unsent_room(h), 10 * UNIT);
    give(h, a);
    d = take(h, 3, 0); /* over a gap */
    assert_int_equal(heap_unsent_room(h), 7 * UNIT);
    desc_set_state(c, DESC_OWNED);
    assert_int_equal(heap_unsent_room(h), 3 * UNIT); /* wrapped, between d and c */
    desc_set_state(d, DESC_SENT);
    assert_int_equal(heap_unsent_room(h), 6 * UNIT);
    grow(h, 7 * UNIT);
    assert_int_equal(heap_unsent_room(h), 7 * UNIT);
    heap_destroy(h);
}

struct visits {
    rvmem_block_t seen[16];
    unsigned count;
};

static int note(const rvmem_block_t *b, void *arg)
{
    struct visits *v = arg;

    v->seen[v->count++] = *b;
    return v->count == 3 && v->seen[15].size == 1 ? -5 : 0;
}

/* `f` free, `s` stuck, `u` used, each with its length in units. */
static void assert_walk(const struct heap *h, const char *expected)
{
    struct visits v = {.count = 0};
    char found[64] = "";
    uint64_t end = 0;

    assert_int_equal(heap_walk(h, note, &v), 0);
    for (unsigned i = 0; i < v.count; i++) {
        const rvmem_block_t *b = &v.seen[i];
        char one[8];

        assert_int_equal(b->offset, end);
        end += b->bytes;
        assert_int_equal(b->d != NULL, b->state == RVMEM_USED);
        assert_int_equal(b->size, b->d != NULL ? desc_of(b->d)->size : 0);
        snprintf(one, sizeof(one), "%c%u ", "fus"[b->state], (unsigned)(b->bytes / UNIT));
        strcat(found, one);
    }
    assert_string_equal(found, expected);
    assert_int_equal(stats_of(h).blocks_free + stats_of(h).blocks_used, v.count);
}

static void a_walk_visits_every_block_by_address(void **state)
{
    struct heap *h = heap_of_units(10);
    struct visits v = {.seen[15].size = 1};
    struct rdesc *a, *b, *c, *d, *e;

    (void)state;
    assert_walk(h, "f10 ");
    a = take(h, 2, 0);
    b = take(h, 3, 2);
    c = take(h, 2, 5);
    assert_walk(h, "u2 u3 u2 f3 ");
    give(h, b);
    assert_walk(h, "u2 s3 u2 f3 ");
    give(h, a);
    assert_walk(h, "f5 u2 f3 ");
    d = take(h, 2, 7);
    e = take(h, 3, 0); /* over a gap of one */
    assert_walk(h, "u3 f2 u2 u2 s1 ");
    give(h, d); /* with the gap */
    assert_walk(h, "u3 f2 u2 s3 ");
    grow(h, 2 * UNIT);
    assert_walk(h, "u3 f2 u2 s3 f2 ");
    take(h, 2, 3);
    assert_walk(h, "u3 u2 u2 s3 f2 ");
    assert_int_equal(heap_walk(h, note, &v), -5);
    assert_int_equal(v.count, 3);
    give(h, c);
    give(h, e);
    heap_destroy(h);
}

static void carving_is_not_for_next_fit(void **state)
{
    struct heap *h = heap_of_units(4);

    (void)state;
    assert_null(heap_carve(h, 0, UNIT));
    assert_int_equal(heap_alloc_error(h), -ENOTSUP);
    assert_sound(h);
    heap_destroy(h);
}

/* ---- the check ---- */

static void the_check_sees_damage(void **state)
{
    struct heap *h = heap_of_units(16);
    struct rdesc *a = take(h, 4, 0), *b = take(h, 2, 4), *c = take(h, 2, 6), *d = take(h, 2, 8),
                 *e = take(h, 4, 10);
    struct rdesc *f, *g, foreign;

    (void)state;
    give(h, a);
    f = take(h, 3, 0); /* over a gap of 2 */
    give(h, c);
    foreign = *d;
    g = heap_alloc(h, UNIT);
    assert_non_null(g);
    /* b, c freed, d, e, the gap, f, g */
    DAMAGE_STATE(b, DESC_POOLED, "state 0");
    DAMAGE_STATE(b, 9, "state 9");
    DAMAGE_STATE(d, DESC_GAP, "state 4");
    DAMAGE_STATE(d, DESC_FREED, "both free");
    DAMAGE_STATE(e, DESC_FREED, "both free");
    DAMAGE_STATE(b, DESC_FREED, "both free");
    DAMAGE_STATE(f, DESC_FREED, "handed out");
    DAMAGE_STATE(g, DESC_FREED, "newest");
    DAMAGE_STATE(c, DESC_OWNED, "handed out");
    DAMAGE(d->word, d->word + desc_word(1, DESC_POOLED), "owner");
    DAMAGE(d->offset, d->offset + 1, "aligned");
    DAMAGE(d->offset, d->offset + UNIT, "begins at");
    DAMAGE(d->offset, h->bytes, "outside");
    DAMAGE(d->units, 0, "empty");
    DAMAGE(d->units, d->units + 1, "begins at");
    DAMAGE(d->units, 1u << 30, "outside");
    DAMAGE(d->size, d->size + 1, "holds");
    DAMAGE(d->mem, h, "memory");
    DAMAGE(d->prev, b, "torn");
    DAMAGE(d->next, f, "torn");
    DAMAGE(d->next, &foreign, "torn");
    DAMAGE(g->units, g->units + 1, "overrun");
    DAMAGE(h->first.gap.offset, h->first.gap.offset - UNIT, "begins at");
    DAMAGE(h->first.gap.units, 1, "");
    DAMAGE(h->now.last, f, "head");
    DAMAGE(h->now.head, h->now.head + UNIT, "head");
    DAMAGE(h->now.limit, h->bytes, "limit");
    DAMAGE(h->mark, h->mark + UNIT, "counted");
    DAMAGE(h->peak, h->bytes + UNIT, "counted");
    DAMAGE(h->waiting, h->waiting + 1, "wait");
    DAMAGE(h->zero, h->zero + UNIT, "segment");
    DAMAGE(h->bytes, h->bytes + UNIT, "segments");
    DAMAGE(h->segments, 2, "segments");
    DAMAGE(h->first.begin, UNIT, "begin");
    DAMAGE(h->allocs, h->allocs + 1, "handed out");
    DAMAGE(h->frees, h->frees + 1, "handed out");
    DAMAGE(h->pool.free, h->pool.free->link, "free list");
    DAMAGE(h->pool.made, h->pool.made + 1, "counted");
    DAMAGE_STATE(h->pool.free, DESC_OWNED, "state 1");
    h->peak += h->bytes; /* consistent with the mark, and impossible */
    h->mark += h->bytes;
    assert_broken(h, "peak", __LINE__);
    heap_destroy(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsent_room_is_what_there_is_when_all_that_was_sent_is_back),
        cmocka_unit_test(a_walk_visits_every_block_by_address),
        cmocka_unit_test(carving_is_not_for_next_fit),
        cmocka_unit_test(the_check_sees_damage),
    };

    return cmocka_run_group_tests_name("heap walk", tests, NULL, NULL);
}
