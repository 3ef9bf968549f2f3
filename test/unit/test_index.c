/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ordered set of free blocks beside a sorted array; after every change every invariant is checked. Built twice:
 * with nodes as they are, and with nodes of 4 entries (test_index_deep), which makes deep trees of few blocks.
 *
 * The seed is printed. usage: test_index [seed [operations]], or MODEL_SEED and MODEL_OPERATIONS in the environment.
 */
#include "test/lib/allocation_failure.h"
#include "test/lib/random.h"
#include "alloc/index.h"

#include "alloc/desc.h"
#include "util/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BLOCKS_MAX 3000

static uint64_t seed, operations = 60000;
static uint64_t random_state;

static uint64_t random_next(void) { return random_draw(&random_state); }

static uint32_t random_below(uint32_t n) { return (uint32_t)(random_next() % n); }

/* ---- the model: keys in order; the block of a key is found by its address in a table ---- */

struct set {
    struct index_pool pool;
    struct index ix;
    uint64_t key[BLOCKS_MAX];
    struct rdesc *block[BLOCKS_MAX];
    uint32_t count;
    uint64_t range; /* of keys */
};

static struct rdesc blocks[BLOCKS_MAX * 2];
static unsigned replaced;

static void assert_sound(const struct set *s)
{
    uint32_t nodes[2] = {0, 0};
    struct error err = {""};

    if (index_check(&s->ix, &s->pool, nodes, &err) != 0 ||
        index_pool_check(&s->pool, nodes, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(s->ix.count, s->count);
}

static struct set *open_set(enum index_kind kind, uint64_t range)
{
    static struct set s;

    s = (struct set){.range = range};
    index_pool_init(&s.pool, kind);
    assert_sound(&s);
    return &s;
}

static void close_set(struct set *s)
{
    index_pool_destroy(&s->pool);
    assert_int_equal(s->pool.made, 0);
}

/* How many of the model are below. */
static uint32_t model_rank(const struct set *s, uint64_t key)
{
    uint32_t low = 0, high = s->count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (s->key[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void model_insert(struct set *s, uint64_t key, struct rdesc *block)
{
    uint32_t at = model_rank(s, key);

    memmove(&s->key[at + 1], &s->key[at], (s->count - at) * sizeof(*s->key));
    memmove(&s->block[at + 1], &s->block[at], (s->count - at) * sizeof(struct rdesc *));
    s->key[at] = key;
    s->block[at] = block;
    s->count++;
}

static void model_remove(struct set *s, uint32_t at)
{
    s->count--;
    memmove(&s->key[at], &s->key[at + 1], (s->count - at) * sizeof(*s->key));
    memmove(&s->block[at], &s->block[at + 1], (s->count - at) * sizeof(struct rdesc *));
}

static uint64_t new_key(struct set *s)
{
    uint64_t key;
    uint32_t at;

    do {
        key = random_next() % s->range;
        if (random_below(2) == 0)
            key = key << 32 | random_below(50);
        at = model_rank(s, key);
    } while ((at < s->count && s->key[at] == key) || key > INDEX_KEY_MOST);
    return key;
}

static void insert(struct set *s, uint64_t key)
{
    struct rdesc *block = &blocks[random_below(BLOCKS_MAX * 2)];

    assert_int_equal(index_insert(&s->ix, &s->pool, key, block), 0);
    model_insert(s, key, block);
}

static void assert_place(const struct set *s, const struct index_place *place, uint32_t at)
{
    assert_true(index_key(place) == s->key[at]);
    assert_ptr_equal(index_block(place), s->block[at]);
}

static void take(struct set *s, uint32_t at)
{
    struct index_place place;

    assert_true(index_from(&s->ix, s->key[at], &place));
    assert_place(s, &place, at);
    index_take(&s->ix, &s->pool, &place);
    model_remove(s, at);
}

/* ---- what is found ---- */

static void look_for(const struct set *s, uint64_t key)
{
    uint32_t at = model_rank(s, key);
    struct index_place place, other;

    if (!index_from(&s->ix, key, &place)) {
        assert_int_equal(at, s->count);
        return;
    }
    assert_place(s, &place, at);
    other = place;
    if (index_prev(&s->ix, &other))
        assert_place(s, &other, at - 1);
    else
        assert_int_equal(at, 0);
    assert_int_equal(index_below(&s->ix, key, &other), at > 0);
    if (at > 0)
        assert_place(s, &other, at - 1);
    if (index_next(&s->ix, &place))
        assert_place(s, &place, at + 1);
    else
        assert_int_equal(at + 1, s->count);
    if (s->pool.kind == INDEX_COUNTED) {
        assert_int_equal(index_rank(&s->ix, key), at);
        assert_true(index_select(&s->ix, at, &place));
        assert_place(s, &place, at);
        assert_false(index_select(&s->ix, s->count, &place));
    }
}

static void look_for_weight(const struct set *s, uint32_t weight)
{
    struct index_place place;
    uint32_t at = 0, most = 0;
    bool found = index_first_of(&s->ix, weight, &place);

    for (uint32_t i = 0; i < s->count; i++)
        most = (uint32_t)s->key[i] > most ? (uint32_t)s->key[i] : most;
    assert_int_equal(index_largest(&s->ix, &s->pool), most);
    for (unsigned step = 0; step < 5; step++) {
        while (at < s->count && (uint32_t)s->key[at] < weight)
            at++;
        assert_int_equal(found, at < s->count);
        if (!found)
            return;
        assert_place(s, &place, at++);
        found = index_next_of(&s->ix, weight, &place);
    }
}

static void look_at_all(const struct set *s)
{
    struct index_place place;
    bool found = index_from(&s->ix, 0, &place);

    for (uint32_t i = 0; i < s->count; i++, found = index_next(&s->ix, &place)) {
        assert_true(found);
        assert_place(s, &place, i);
    }
    assert_false(found);
}

static void replace(struct set *s, uint32_t at)
{
    const uint64_t low = at > 0 ? s->key[at - 1] + 1 : 0,
                   high = at + 1 < s->count ? s->key[at + 1] : s->key[at] + random_below(1000) + 1;
    const uint64_t key = random_below(4) == 0 ? new_key(s) : low + random_next() % (high - low);
    struct rdesc *block = &blocks[random_below(BLOCKS_MAX * 2)];
    struct index_place place;

    if (key > INDEX_KEY_MOST)
        return;
    assert_true(index_from(&s->ix, s->key[at], &place));
    if (index_replace(&s->ix, &s->pool, &place, key, block)) {
        assert_true(key >= low && (key < high || at + 1 == s->count));
        s->key[at] = key;
        s->block[at] = block;
        replaced++;
    } else {
        assert_true(s->ix.height > 1 || key < low ||
                    key >= high); /* a set of one node finds its neighbours */
    }
    assert_place(s, &place, at);
}

/* ---- random operations ---- */

static void one_operation(struct set *s, unsigned mood)
{
    const uint32_t most = mood % 5 == 0 ? BLOCKS_MAX : 100;
    const bool grows = s->count < most && random_below(100) < (mood & 8 ? 70u : 30u);

    if (s->count > 0 && random_below(8) == 0)
        replace(s, random_below(s->count));
    else if (grows || s->count == 0)
        insert(s, mood & 1 && s->count > 0 && s->key[s->count - 1] < INDEX_KEY_MOST - 1000
                      ? s->key[s->count - 1] + 1 + random_below(1000)
                      : new_key(s));
    else
        take(s, mood & 2 ? 0 : mood & 4 ? s->count - 1 : random_below(s->count));
    look_for(s, s->count > 0 && random_below(2) == 0 ? s->key[random_below(s->count)]
                                                     : random_next() % s->range);
    if (s->pool.kind == INDEX_LARGEST && random_below(8) == 0)
        look_for_weight(s, s->count > 0 ? (uint32_t)s->key[random_below(s->count)] + random_below(2)
                                        : 1);
}

static void does_what_a_sorted_array_does(void **state)
{
    struct set *s =
        open_set(*(const enum index_kind *)*state, random_below(2) == 0 ? 1u << 14 : UINT64_MAX);
    uint32_t tallest = 0;
    unsigned mood = 8;

    print_message("seed %llu, %llu operations, %d entries to a node\n", (unsigned long long)seed,
                  (unsigned long long)operations, INDEX_FANOUT);
    random_state = seed;
    for (uint64_t i = 0; i < operations; i++) {
        if (i % 512 == 511)
            mood = (unsigned)random_next();
        one_operation(s, mood);
        if (s->count < 200 || i % 32 == 0)
            assert_sound(s);
        if (i % 256 == 0)
            look_at_all(s);
        tallest = s->ix.height > tallest ? s->ix.height : tallest;
    }
    look_at_all(s);
    while (s->count > 0)
        take(s, random_below(s->count));
    assert_sound(s);
    assert_null(s->ix.root);
    assert_true(tallest >= 2);
    assert_true(replaced > operations / 50);
    replaced = 0;
    close_set(s);
}

/* ---- cases ---- */

static void an_empty_index_has_nothing(void **state)
{
    struct index_place place;
    struct set *s;

    (void)state;
    for (enum index_kind kind = INDEX_PLAIN; kind <= INDEX_LARGEST; kind++) {
        s = open_set(kind, 100);
        assert_false(index_from(&s->ix, 0, &place));
        assert_false(index_select(&s->ix, 0, &place));
        assert_false(index_first_of(&s->ix, 0, &place));
        assert_int_equal(index_rank(&s->ix, 100), 0);
        assert_int_equal(index_largest(&s->ix, &s->pool), 0);
        assert_int_equal(s->pool.made, 0);
        close_set(s);
    }
}

static void the_largest_key_is_a_key(void **state)
{
    struct set *s = open_set(INDEX_COUNTED, 100);

    (void)state;
    for (uint64_t i = 0; i < 100; i++) {
        insert(s, INDEX_KEY_MOST - i);
        insert(s, i);
        assert_sound(s);
    }
    look_for(s, INDEX_KEY_MOST);
    look_for(s, UINT32_MAX);
    look_for(s, 0);
    while (s->count > 0) {
        take(s, s->count / 2);
        assert_sound(s);
    }
    close_set(s);
}

static void keys_that_come_and_go_in_order_leave_nothing_behind(void **state)
{
    (void)state;
    for (unsigned order = 0; order < 4; order++) {
        struct set *s = open_set(INDEX_COUNTED, 100);
        size_t made = 0;

        for (unsigned round = 0; round < 3; round++) {
            for (uint64_t i = 0; i < 1000; i++)
                insert(s, order & 1 ? i : 1000 - i);
            assert_sound(s);
            while (s->count > 0)
                take(s, order & 2 ? 0 : s->count - 1);
            assert_sound(s);
            assert_null(s->ix.root);
            assert_true(round == 0 || s->pool.made == made); /* all nodes had come back */
            made = s->pool.made;
        }
        close_set(s);
    }
}

static void many_indices_share_a_pool(void **state)
{
    struct index_pool pool;
    struct index ix[50] = {{NULL, 0, 0}};
    struct index_place place;
    uint32_t nodes[2] = {0, 0};
    struct error err = {""};

    (void)state;
    index_pool_init(&pool, INDEX_PLAIN);
    for (unsigned i = 0; i < 20000; i++)
        assert_int_equal(
            index_insert(&ix[i * 7 % 50], &pool, i * UINT64_C(7919) % 20011, &blocks[i % 50]), 0);
    for (unsigned k = 0; k < 50; k += 2)
        while (index_from(&ix[k], 0, &place))
            index_take(&ix[k], &pool, &place);
    for (unsigned k = 0; k < 50; k++) {
        assert_int_equal(ix[k].count, k % 2 == 0 ? 0 : 400);
        if (index_check(&ix[k], &pool, nodes, &err) != 0)
            fail_msg("%s", err.text);
    }
    if (index_pool_check(&pool, nodes, &err) != 0)
        fail_msg("%s", err.text);
    index_pool_destroy(&pool);
}

/* Bytes of nodes for each block: at most 256 / INDEX_LEAST, and a seventh of that above it, and so on. */
static double bytes_each(const struct index *ix, const struct index_pool *pool)
{
    uint32_t nodes[2] = {0, 0};
    struct error err = {""};

    if (index_check(ix, pool, nodes, &err) != 0 || index_pool_check(pool, nodes, &err) != 0)
        fail_msg("%s", err.text);
    return ((double)nodes[0] * pool->bytes[0] + (double)nodes[1] * pool->bytes[1]) / ix->count;
}

static void memory_for_many_is_bounded(void **state)
{
    enum { MANY = 200000, ASCENDING = 0, DESCENDING, AT_RANDOM };
    static const char *const patterns[] = {"ascending", "descending", "at random"};

    (void)state;
    if (INDEX_FANOUT != 15)
        skip();
    for (int pattern = ASCENDING; pattern <= AT_RANDOM; pattern++) {
        struct index_pool pool;
        struct index ix = {NULL, 0, 0};
        struct index_place place;
        double full, thin;

        index_pool_init(&pool, INDEX_LARGEST);
        for (uint32_t i = 0; i < MANY; i++) {
            uint64_t key = pattern == ASCENDING    ? i
                           : pattern == DESCENDING ? MANY - i
                                                   : random_next() >> 1;

            assert_int_equal(index_insert(&ix, &pool, key, blocks), 0);
        }
        full = bytes_each(&ix, &pool);
        assert_true((double)pool.made < full * MANY * 1.25 + 4096);
        for (uint64_t key = 0; index_from(&ix, key, &place);
             key++) { /* all but every eighth are taken */
            key = index_key(&place);
            if (random_below(8) != 0)
                index_take(&ix, &pool, &place);
        }
        thin = bytes_each(&ix, &pool);
        print_message("seed %llu, %s: %.1f bytes a block, thinned out %.1f\n",
                      (unsigned long long)seed, patterns[pattern], full, thin);
        assert_true(full < 26);
        assert_true(thin < 45);
        index_pool_destroy(&pool);
    }
}

static void without_memory_nothing_changes_and_all_can_be_taken(void **state)
{
    struct index_place place;
    unsigned refused = 0;
    struct set *s;

    (void)state;
    skip_unless_memory_can_be_cut_off();
    for (enum index_kind kind = INDEX_PLAIN; kind <= INDEX_LARGEST; kind++) {
        s = open_set(kind, UINT64_MAX);
        denied_after = 0;
        assert_int_equal(index_insert(&s->ix, &s->pool, 5, blocks), -ENOMEM);
        assert_sound(s);
        for (unsigned i = 0; i < 2500; i++) {
            uint64_t key = new_key(s);

            denied_after = 0;
            if (index_insert(&s->ix, &s->pool, key, blocks) == 0) {
                model_insert(s, key, blocks);
                continue;
            }
            refused++;
            assert_sound(s);
            assert_false(index_from(&s->ix, key, &place) && index_key(&place) == key);
            denied_after = UINT32_MAX;
            insert(s, key);
            assert_sound(s);
        }
        denied_after = 0;
        while (s->count > 0)
            take(s, random_below(s->count));
        assert_sound(s);
        denied_after = UINT32_MAX;
        close_set(s);
    }
    assert_true(refused > 10);
}

/* ---- the check ---- */

static void assert_broken(const struct set *s, const char *word, int line)
{
    uint32_t nodes[2] = {0, 0};
    struct error err = {""};

    if ((index_check(&s->ix, &s->pool, nodes, &err) == 0 &&
         index_pool_check(&s->pool, nodes, &err) == 0) ||
        strstr(err.text, word) == NULL)
        fail_msg("line %d: the check reported \"%s\", nothing of \"%s\"", line, err.text, word);
}

/* Puts a wrong value in one place, lets the check find it, puts the right one back. */
#define DAMAGE(place, wrong, word)                                                                 \
    do {                                                                                           \
        __typeof__(place) right_ = (place);                                                        \
        (place) = (wrong);                                                                         \
        assert_broken(s, word, __LINE__);                                                          \
        (place) = right_;                                                                          \
        assert_sound(s);                                                                           \
    } while (0)

static void the_check_sees_damage(void **state)
{
    struct index_place place;
    uint64_t *key;
    struct set *s;

    (void)state;
    for (enum index_kind kind = INDEX_PLAIN; kind <= INDEX_LARGEST; kind++) {
        s = open_set(kind, UINT64_MAX);
        for (unsigned i = 0; i < 1000; i++)
            insert(s, (uint64_t)(i + 1) << 33 | i);
        for (unsigned i = 0; i < 500; i++)
            take(s, i);
        DAMAGE(s->ix.count, s->ix.count + 1, "counted");
        DAMAGE(s->ix.height, 0, "levels");
        DAMAGE(s->ix.height, 77, "levels");
        DAMAGE(s->pool.made, s->pool.made + 1, "node pool");
        DAMAGE(s->pool.idle[0], s->pool.idle[0] + 1, "fewer");
        DAMAGE(s->pool.idle[0], s->pool.idle[0] - 1, "more");
        DAMAGE(s->pool.free[0], (struct index_node *)(void *)s, "out of it");
        DAMAGE(s->pool.fresh, s->pool.fresh - 512, "node pool");
        assert_true(index_from(&s->ix, s->key[100], &place));
        key = (uint64_t *)(void *)place.node[0]; /* the keys are what a node begins with */
        DAMAGE(key[1], key[0], "order");
        DAMAGE(key[0], 0, "order");
        DAMAGE(key[place.slot[0]], UINT64_MAX - 1, "order");
        key = (uint64_t *)(void *)place.node[1];
        DAMAGE(key[1], key[1] + (UINT64_C(40) << 33), "order");
        assert_true(s->ix.height > 2);
        key = (uint64_t *)(void *)place.node[2];
        DAMAGE(key[1], key[1] + 1, "begins at");
        close_set(s);
    }
}

int main(int argc, char **argv)
{
    static const enum index_kind kinds[] = {INDEX_PLAIN, INDEX_COUNTED, INDEX_LARGEST};
    const char *given = argc > 1 ? argv[1] : getenv("MODEL_SEED");
    const char *n = argc > 2 ? argv[2] : getenv("MODEL_OPERATIONS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_index_has_nothing),
        cmocka_unit_test(the_largest_key_is_a_key),
        cmocka_unit_test(keys_that_come_and_go_in_order_leave_nothing_behind),
        cmocka_unit_test(many_indices_share_a_pool),
        cmocka_unit_test(memory_for_many_is_bounded),
        cmocka_unit_test(without_memory_nothing_changes_and_all_can_be_taken),
        cmocka_unit_test(the_check_sees_damage),
        cmocka_unit_test_prestate(does_what_a_sorted_array_does, (void *)&kinds[0]),
        cmocka_unit_test_prestate(does_what_a_sorted_array_does, (void *)&kinds[1]),
        cmocka_unit_test_prestate(does_what_a_sorted_array_does, (void *)&kinds[2]),
    };

    seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)clock_now();
    if (n != NULL)
        operations = strtoull(n, NULL, 0);
    random_state = seed;
    return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
