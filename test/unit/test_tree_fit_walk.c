/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What first-, best-, worst- and random-fit report: what stands in the way, block by block; a place that another component
 * has chosen; and their check, which sees damage.
 */
#include "alloc/index.h"
#include "alloc/tree_fit.h"
#include "tree_fit_heap.h"
#include <rvmem.h>

/* ---- what stands in the way, a place that the caller has chosen ---- */

static void unsent_room_is_what_there_is_when_all_that_was_sent_is_back(void **state)
{
    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 10 * UNIT, UNIT, 0);
        struct rdesc *d[5];

        assert_int_equal(heap_unsent_room(h), 10 * UNIT);
        for (unsigned i = 0; i < 5; i++)
            d[i] = take(h, 2);
        assert_int_equal(heap_unsent_room(h), 0);
        desc_set_state(d[0], DESC_SENT);
        desc_set_state(d[1], DESC_SENT);
        assert_int_equal(heap_unsent_room(h), 4 * UNIT);
        give(h, d[3]);
        desc_set_state(d[4], DESC_SENT);
        assert_int_equal(heap_unsent_room(h), 4 * UNIT);
        desc_set_state(d[2], DESC_SENT);
        assert_int_equal(heap_unsent_room(h), 10 * UNIT);
        assert_int_equal(heap_grow(h, NULL, 10 * UNIT + 1), 0);
        assert_int_equal(heap_unsent_room(h), 10 * UNIT + 1); /* not both */
        heap_destroy(h);
    }
}

static void assert_not_carved(struct heap *h, uint64_t offset, size_t size, int error)
{
    rvmem_stats_t before = stats_of(h), after;

    assert_null(heap_carve(h, offset, size));
    assert_int_equal(heap_alloc_error(h), error);
    assert_sound(h);
    after = stats_of(h);
    after.failures--;
    assert_memory_equal(&before, &after, sizeof(before));
}

static struct rdesc *carve(struct heap *h, unsigned at, size_t size)
{
    struct rdesc *d = heap_carve(h, (uint64_t)at * UNIT, size);

    assert_non_null(d);
    assert_sound(h);
    assert_int_equal(d->offset, at * UNIT);
    assert_int_equal(d->size, size);
    assert_int_equal(desc_state(d), DESC_OWNED);
    return d;
}

static void a_block_can_be_carved_anywhere(void **state)
{
    struct heap *h = heap_of_bytes(RMALLOC_FIRST_FIT, 10 * UNIT, UNIT, 0),
                *other = heap_of_bytes(RMALLOC_BEST_FIT, UNIT, UNIT, 0);
    struct rdesc *a, *b, *c;

    (void)state;
    a = carve(h, 4, 2 * UNIT);
    assert_map(h, "....##....");
    b = carve(h, 0, 1);
    c = carve(h, 9, UNIT);
    assert_map(h, "#...##...#");
    assert_not_carved(h, 3 * UNIT, 2 * UNIT, -EAGAIN);
    assert_not_carved(h, 5 * UNIT, UNIT, -EAGAIN);
    assert_not_carved(h, 0, 0, -EAGAIN);
    assert_not_carved(h, 10 * UNIT, 1, -EAGAIN);
    assert_not_carved(h, UINT64_MAX - UNIT + 1, 1, -EAGAIN);
    assert_not_carved(h, UNIT + 1, 1, -EINVAL);
    assert_not_carved(h, UNIT, SIZE_MAX, -EMSGSIZE);
    carve(h, 1, 3 * UNIT);
    carve(h, 7, 0);
    assert_map(h, "######.#.#");
    give(h, a);
    give(h, b);
    give(h, c);
    assert_map(h, ".###...#..");
    heap_destroy(h);
    assert_null(heap_carve(other, 0, 1));
    assert_int_equal(heap_alloc_error(other), -ENOTSUP);
    heap_destroy(other);

    h = heap_of_bytes(RMALLOC_FIRST_FIT, 3 * UNIT + 9, UNIT, 0);
    assert_int_equal(heap_grow(h, NULL, 2 * UNIT), 0);
    assert_not_carved(h, 3 * UNIT, 10, -EAGAIN); /* the last unit of the first segment is short */
    assert_not_carved(h, 2 * UNIT, 2 * UNIT, -EAGAIN);
    carve(h, 3, 9);
    carve(h, 4, 2 * UNIT);
    heap_destroy(h);
}

/* The reader's second instance: it is given places, in the order of reading, and gives them back in any order. */
static void a_second_instance_follows_the_first(void **state)
{
    struct heap *first = heap_of_bytes(RMALLOC_BEST_FIT, 500 * UNIT, UNIT, 0);
    struct heap *second = heap_of_bytes(RMALLOC_FIRST_FIT, 500 * UNIT, UNIT, 0);
    struct rdesc *a[64] = {NULL}, *b[64] = {NULL};
    unsigned random = 1;

    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        unsigned k;

        random = random * 1664525u + 1013904223u;
        k = random >> 26;
        if (a[k] != NULL) {
            heap_free(first, a[k]);
            heap_free(second, b[k]);
            a[k] = NULL;
        } else {
            a[k] = heap_alloc(first, (random >> 8) % 1000);
            if (a[k] != NULL)
                b[k] = carve(second, (unsigned)(a[k]->offset / UNIT), a[k]->size);
        }
        if (i % 64 == 0)
            assert_sound(first);
    }
    assert_int_equal(heap_bytes_used(first), heap_bytes_used(second));
    assert_int_equal(stats_of(first).blocks_free, stats_of(second).blocks_free);
    heap_destroy(first);
    heap_destroy(second);
}

/* ---- walk ---- */

struct visits {
    rvmem_block_t seen[16];
    unsigned count, stop_after;
};

static int note(const rvmem_block_t *b, void *arg)
{
    struct visits *v = arg;

    v->seen[v->count++] = *b;
    return v->count == v->stop_after ? 77 : 0;
}

static void a_walk_visits_every_block_by_address(void **state)
{
    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 4 * UNIT + 5, UNIT, 0);
        struct rdesc *a = take_bytes(h, 100), *b = take_bytes(h, 0), *c = take_bytes(h, UNIT + 5);
        struct visits v = {.stop_after = 0};

        give(h, b);
        assert_int_equal(heap_grow(h, NULL, 3 * UNIT), 0);
        assert_int_equal(heap_walk(h, note, &v), 0);
        assert_int_equal(v.count, 4);
        assert_memory_equal(
            &v.seen[0],
            &((rvmem_block_t){
                .bytes = 2 * UNIT, .size = 100, .d = desc_handle(a), .state = RVMEM_USED}),
            sizeof(v.seen[0]));
        assert_memory_equal(&v.seen[1], &((rvmem_block_t){.offset = 2 * UNIT, .bytes = UNIT}),
                            sizeof(v.seen[0]));
        assert_memory_equal(&v.seen[2],
                            &((rvmem_block_t){.offset = 3 * UNIT,
                                              .bytes = UNIT + 5,
                                              .size = UNIT + 5,
                                              .d = desc_handle(c),
                                              .state = RVMEM_USED}),
                            sizeof(v.seen[0]));
        assert_memory_equal(&v.seen[3],
                            &((rvmem_block_t){.offset = 5 * UNIT, .bytes = 3 * UNIT, .segment = 1}),
                            sizeof(v.seen[0]));
        for (unsigned n = 1; n <= 4; n++) {
            v = (struct visits){.stop_after = n};
            assert_int_equal(heap_walk(h, note, &v), 77);
            assert_int_equal(v.count, n);
        }
        heap_destroy(h);
    }
}

/* ---- the check ---- */

/* Of the index that `b` is in. */
static void assert_sees_damage_of_an_index(struct heap *h, rmalloc_fit_t fit, struct rdesc *b)
{
    struct index *index = &h->free.index[tree_fit_class(b->units, fit)];

    DAMAGE(b->units, 3, "index");
    DAMAGE(index->count, index->count + 1, "counted");
}

/* Of the list that `b` is in, alone. */
static void assert_sees_damage_of_a_list(struct heap *h, struct rdesc *b)
{
    struct lowest *list = &h->free.list[listed_class(b->units)];
    struct lowest_entry *entry = b->entry;

    DAMAGE(b->units, 3, "");
    DAMAGE(b->entry, entry + 1, "another block");
    DAMAGE(entry->block, h->free.loose, "another block");
    DAMAGE(entry->block, (struct rdesc *)(void *)h, "another block");
    DAMAGE(entry->key, entry->key + 1, "key");
    DAMAGE(entry->key, entry->key + 8, "another block");
    DAMAGE(entry[1].key, entry->key + 1, "key");
    DAMAGE(list->first.key, list->first.key - 8, "lowest");
    DAMAGE(list->first.block, h->free.loose, "lowest");
    DAMAGE(list->end, list->end - 1, "key");
    DAMAGE(list->end, list->end + 1, "another block");
    DAMAGE(list->end, NULL, "without a leaf");
    DAMAGE(h->free.lists.idle, h->free.lists.idle + 1, "pool of lists");
    DAMAGE(h->free.lists.made, h->free.lists.made + 1, "pool of lists");
}

static void the_check_sees_damage(void **state)
{
    (void)state;
    for (unsigned f = 0; f < FITS; f++) {
        struct heap *h = heap_of_bytes(fits[f], 32 * UNIT, UNIT, 0);
        struct rdesc *a = take(h, 4), *b = take(h, 2), *c = take(h, 3), *d = take(h, 2),
                     *e = take(h, 2), foreign;

        give(h, b);
        give(h, d); /* a b-free c d-free e rest: b and the rest are in an index, d is loose */
        foreign = *c;
        assert_int_equal(desc_state(b), DESC_FREE);
        assert_int_equal(desc_state(d), DESC_LOOSE);
        DAMAGE_STATE(c, DESC_POOLED, "state 0");
        DAMAGE_STATE(c, DESC_FREED, "state 3");
        DAMAGE_STATE(c, DESC_FREE, "torn");
        DAMAGE_STATE(b, DESC_OWNED, "torn");
        DAMAGE_STATE(b, DESC_LOOSE, "unindexed");
        DAMAGE_STATE(d, DESC_FREE, "index");
        DAMAGE(c->word, c->word + desc_word(1, DESC_POOLED), "owner");
        DAMAGE(c->offset, c->offset + 1, "begins at");
        DAMAGE(b->units, 0, "empty");
        if (fits[f] == RMALLOC_BEST_FIT)
            assert_sees_damage_of_a_list(h, b);
        else
            assert_sees_damage_of_an_index(h, fits[f], b);
        DAMAGE(e->units, 30, "outside");
        DAMAGE(e->units, 3, "begins at");
        DAMAGE(c->size, c->size + 1, "holds");
        DAMAGE(c->mem, h, "memory");
        DAMAGE(b->mem, h, "memory");
        DAMAGE(c->prev, b, "torn"); /* which is free */
        DAMAGE(e->prev, d->prev, "torn");
        DAMAGE(a->next, link_to_free(c), "torn");
        DAMAGE(c->next, &foreign, "torn");
        DAMAGE(h->first.edge.prev, a, "last block");
        DAMAGE(h->free.loose, tree_fit_none(h), "unindexed");
        DAMAGE(h->free.unindexed, d, "loose");
        DAMAGE(h->free.indexed, h->free.indexed + 1, "counted");
        DAMAGE(h->free.some.words, 0, "classes");
        DAMAGE(h->free.some.word[1], 1, "classes");
        DAMAGE(h->free.nodes.made, h->free.nodes.made + 1, "node pool");
        DAMAGE(h->used, h->used + UNIT, "counted");
        DAMAGE(h->peak, UNIT, "peak");
        DAMAGE(h->allocs, h->allocs + 1, "handed out");
        DAMAGE(h->bytes, h->bytes + 1, "segments");
        DAMAGE(h->largest, h->largest + 1, "segments");
        DAMAGE(h->first.end, h->first.end + UNIT, "");
        DAMAGE(h->pool.free, h->pool.free->link, "free list");
        heap_destroy(h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsent_room_is_what_there_is_when_all_that_was_sent_is_back),
        cmocka_unit_test(a_block_can_be_carved_anywhere),
        cmocka_unit_test(a_second_instance_follows_the_first),
        cmocka_unit_test(a_walk_visits_every_block_by_address),
        cmocka_unit_test(the_check_sees_damage),
    };

    return cmocka_run_group_tests_name("walks of tree fits", tests, NULL, NULL);
}
