/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables whose keys a peer chooses: against a set, and with keys that were chosen to share a place. */
#include "util/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "test/lib/random.h"

#define KEYS 40000
#define SMALL 500
#define COSTS_MOST 20.0 /* what chosen keys may cost beside random ones; a chain makes it 1,000 */

static uint64_t inverse(uint64_t odd)
{
    uint64_t x = odd;

    for (int i = 0; i < 5; i++)
        x *= 2 - odd * x;
    return x;
}

static uint64_t unshift(uint64_t x, int bits)
{
    uint64_t y = x;

    for (int i = bits; i < 64; i += bits)
        y = x ^ (y >> bits);
    return y;
}

/* The key that the finalizer of splitmix64, a function without a secret, maps to `place`. */
static uint64_t key_of_place(uint64_t place)
{
    uint64_t x = unshift(place, 31) * inverse(UINT64_C(0x94d049bb133111eb));

    return unshift(unshift(x, 27) * inverse(UINT64_C(0xbf58476d1ce4e5b9)), 30);
}

static double processor_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Inserts all keys, and finds and removes them again. */
static double seconds_for(const uint64_t *key)
{
    double began = processor_seconds();
    struct hash h;
    int value;

    hash_init(&h);
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(hash_put(&h, key[i], &value), 0);
    for (int i = 0; i < KEYS; i++)
        assert_ptr_equal(hash_remove(&h, key[i]), &value);
    hash_free(&h);
    return processor_seconds() - began;
}

static void chosen_keys_cost_what_random_ones_cost(void **state)
{
    static uint64_t chosen[KEYS], random[KEYS];
    uint64_t seed = 1;
    double among_chosen, among_random;

    (void)state;
    for (uint64_t i = 0; i < KEYS; i++) {
        chosen[i] = key_of_place((i + 1) << 40 | i % 16); /* 16 places, whatever the size is */
        random[i] = random_draw(&seed);
    }
    among_random = seconds_for(random);
    among_chosen = seconds_for(chosen);
    print_message("%d random keys: %.3f s, chosen ones: %.3f s\n", KEYS, among_random,
                  among_chosen);
    assert_true(among_chosen <= COSTS_MOST * among_random + 0.02);
}

/* Whatever is inserted and removed: the table has what a plain array has. */
static void a_table_is_a_set(void **state)
{
    static int present[SMALL];
    uint64_t seed = 2;
    struct hash h;
    size_t used = 0, cursor = 0;

    (void)state;
    hash_init(&h);
    for (int i = 0; i < 200000; i++) {
        int key = (int)(random_draw(&seed) % SMALL);

        if (random_draw(&seed) % 2 == 0) {
            assert_int_equal(hash_put(&h, (uint64_t)key << 40, &present[key]), 0);
            used += present[key] == 0;
            present[key] = 1;
        } else {
            assert_ptr_equal(hash_remove(&h, (uint64_t)key << 40),
                             present[key] != 0 ? &present[key] : NULL);
            used -= present[key] != 0;
            present[key] = 0;
        }
        assert_int_equal(h.used, used);
    }
    for (int key = 0; key < SMALL; key++)
        assert_ptr_equal(hash_get(&h, (uint64_t)key << 40),
                         present[key] != 0 ? &present[key] : NULL);
    while (hash_next(&h, &cursor) != NULL)
        used--;
    assert_int_equal(used, 0);
    hash_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chosen_keys_cost_what_random_ones_cost),
        cmocka_unit_test(a_table_is_a_set),
    };

    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
