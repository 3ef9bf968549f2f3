/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random operations on a next-fit heap beside a model that is too simple to be wrong: a map with one entry per unit
 * (which block owns it), and the list of blocks in the order of allocation as a plain array, out of which is
 * recomputed, at every request, where next-fit must place it or that it must refuse. After each operation the whole
 * heap is checked, and the memory of every block still holds what was written into it.
 *
 * The seed is printed. usage: test_heap_model [seed [operations]], or MODEL_SEED and MODEL_OPERATIONS in the
 * environment.
 */
#include "alloc/heap.h"

#include "util/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define UNITS_MAX 512

static uint64_t seed, operations = 4000;
static uint64_t random_state;

static uint64_t random_next(void) /* splitmix64 */
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t random_below(uint64_t n) { return random_next() % n; }

/* ---- the model ---- */

struct block {
    struct rdesc *d; /* NULL: freed */
    size_t size;
    unsigned at, units;
    unsigned char mark; /* what its memory is filled with */
};

struct model {
    struct heap *h;
    char *buffer;
    uint64_t bytes;
    uint32_t unit;
    unsigned units;
    struct rdesc *owner[UNITS_MAX]; /* by unit; NULL: nobody's */
    struct block block[UNITS_MAX];  /* in the order of allocation; first and last are not freed */
    unsigned blocks, held;
    unsigned peak;
    uint64_t allocs, frees, failures;
};

/* The bytes of units [at, at + units), the last unit of the range being short. */
static uint64_t bytes_of(const struct model *m, unsigned at, unsigned units)
{
    uint64_t end = (uint64_t)(at + units) * m->unit;

    return (end < m->bytes ? end : m->bytes) - (uint64_t)at * m->unit;
}

/* Where next-fit places that many bytes: a unit, or -1. */
static int model_place(const struct model *m, size_t size)
{
    unsigned need = size == 0 ? 1 : (unsigned)((size + m->unit - 1) / m->unit), head, tail;

    if (size > m->bytes)
        return -1;
    if (m->blocks == 0)
        return 0;
    tail = m->block[0].at;
    head = m->block[m->blocks - 1].at + m->block[m->blocks - 1].units;
    if (tail > m->block[m->blocks - 1].at) /* wrapped */
        return head + need <= tail ? (int)head : -1;
    if (head + need <= m->units && size <= bytes_of(m, head, m->units - head))
        return (int)head;
    return need <= tail ? 0 : -1;
}

static uint64_t model_largest(const struct model *m)
{
    uint64_t low = 0, high = m->bytes; /* what is placed is a prefix of the sizes */

    if (model_place(m, 1) < 0)
        return 0;
    low = 1;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;

        if (model_place(m, middle) >= 0)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void model_add(struct model *m, struct rdesc *d, size_t size, unsigned at)
{
    struct block *b = &m->block[m->blocks++];

    *b = (struct block){.d = d, .size = size, .at = at, .mark = (unsigned char)random_next()};
    b->units = size == 0 ? 1 : (unsigned)((size + m->unit - 1) / m->unit);
    for (unsigned u = at; u < at + b->units; u++) {
        assert_null(m->owner[u]); /* disjoint */
        m->owner[u] = d;
    }
    if (m->buffer != NULL)
        memset(m->buffer + (size_t)at * m->unit, b->mark, bytes_of(m, at, b->units));
    m->held++;
}

static void model_remove(struct model *m, unsigned index)
{
    struct block *b = &m->block[index];

    for (unsigned u = b->at; u < b->at + b->units; u++) {
        assert_ptr_equal(m->owner[u], b->d);
        m->owner[u] = NULL;
    }
    b->d = NULL;
    m->held--;
    while (m->blocks > 0 && m->block[m->blocks - 1].d == NULL)
        m->blocks--;
    for (index = 0; index < m->blocks && m->block[index].d == NULL; index++)
        ;
    memmove(m->block, m->block + index, (m->blocks - index) * sizeof(*m->block));
    m->blocks -= index;
}

/* ---- heap against model ---- */

static void compare(struct model *m)
{
    rdma_vmem_stats_t s;
    uint64_t used = 0;
    char why[256] = "";

    if (heap_check(m->h, why, sizeof(why)) != 0)
        fail_msg("%s", why);
    for (unsigned i = 0; i < m->blocks; i++) {
        const struct block *b = &m->block[i];

        if (b->d == NULL)
            continue;
        assert_int_equal(b->d->offset, (uint64_t)b->at * m->unit);
        assert_int_equal(b->d->size, b->size);
        assert_int_equal(b->d->units, b->units);
        used += bytes_of(m, b->at, b->units);
        for (size_t k = 0; m->buffer != NULL && k < bytes_of(m, b->at, b->units); k++)
            assert_int_equal(((unsigned char *)b->d->mem)[k], b->mark);
    }
    heap_get_stats(m->h, &s);
    assert_int_equal(heap_bytes_used(m->h), used);
    assert_int_equal(s.bytes_used, used);
    assert_int_equal(s.bytes, m->bytes);
    assert_int_equal(s.bytes_used + s.bytes_free + s.bytes_stuck, m->bytes);
    assert_int_equal(s.blocks_used, m->held);
    assert_int_equal(s.allocs, m->allocs);
    assert_int_equal(s.frees, m->frees);
    assert_int_equal(s.failures, m->failures);
    assert_int_equal(s.largest, model_largest(m));
    if (used > m->peak)
        m->peak = (unsigned)used;
    assert_int_equal(s.peak, m->peak);
}

static bool try_alloc(struct model *m, size_t size)
{
    int at = model_place(m, size);
    struct rdesc *d = heap_alloc(m->h, size);

    if (at < 0) {
        assert_null(d);
        assert_int_equal(heap_alloc_error(m->h), size > m->bytes ? -EMSGSIZE : -EAGAIN);
        m->failures++;
        return false;
    }
    assert_non_null(d);
    assert_int_equal(d->state, DESC_OWNED);
    assert_int_equal(d->offset, (uint64_t)at * m->unit);
    assert_ptr_equal(d->mem, m->buffer != NULL ? m->buffer + d->offset : NULL);
    m->allocs++;
    model_add(m, d, size, (unsigned)at);
    return true;
}

static void do_free(struct model *m, unsigned index)
{
    struct rdesc *d = m->block[index].d;

    if (random_below(2) == 0)
        d->state = DESC_SENT;
    model_remove(m, index);
    heap_free(m->h, d);
    m->frees++;
}

/* The n-th block that is not freed. */
static unsigned held_index(const struct model *m, unsigned n)
{
    unsigned i = 0;

    while (m->block[i].d == NULL || n-- > 0)
        i++;
    return i;
}

static void one_operation(struct model *m, unsigned mood)
{
    size_t size;

    if (m->held > 0 && random_below(100) < (mood & 1 ? 52u : 48u)) {
        switch (random_below(4)) {
        case 0:
            do_free(m, 0);
            return;
        case 1:
            do_free(m, m->blocks - 1);
            return;
        default:
            do_free(m, held_index(m, (unsigned)random_below(m->held)));
            return;
        }
    }
    switch (random_below(mood & 2 ? 8 : 4)) {
    case 0:
        size = (size_t)random_below(m->bytes + m->unit + 2); /* any, and a little more */
        break;
    case 1:
        size = (size_t)model_largest(m) + (size_t)random_below(2); /* what just fits, what just does not */
        break;
    case 2:
        size = (size_t)random_below(3) * m->unit;
        break;
    default:
        size = (size_t)random_below(m->bytes / 8 + 2);
        break;
    }
    try_alloc(m, size);
}

static void open_model(struct model *m, bool mapped)
{
    struct heap_config cfg;

    memset(m, 0, sizeof(*m));
    m->unit = 1u << random_below(9);
    m->units = (unsigned)random_below(random_below(4) == 0 ? UNITS_MAX : 40) + 1;
    m->bytes = (uint64_t)m->units * m->unit;
    if (random_below(3) == 0)
        m->bytes -= random_below(m->unit);
    if (mapped)
        assert_int_equal(posix_memalign((void **)&m->buffer, m->unit < 8 ? 8 : m->unit, m->bytes), 0); /* to the byte */
    cfg = (struct heap_config){.unit_size = m->unit, .bytes = m->bytes, .base = m->buffer};
    assert_int_equal(heap_create(&m->h, &cfg), 0);
}

static void free_all_in_random_order(struct model *m)
{
    while (m->held > 0) {
        do_free(m, held_index(m, (unsigned)random_below(m->held)));
        compare(m);
    }
}

static void random_operations(bool mapped)
{
    uint64_t allocs = 0, failures = 0;
    static struct model m;

    print_message("seed %llu, %llu operations on each of 40 heaps\n", (unsigned long long)seed,
                  (unsigned long long)operations);
    random_state = seed + mapped;
    for (int heap = 0; heap < 40; heap++) {
        unsigned mood = 0;

        open_model(&m, mapped);
        compare(&m);
        for (uint64_t i = 0; i < operations; i++) {
            if (i % 64 == 0)
                mood = (unsigned)random_next();
            one_operation(&m, mood);
            compare(&m);
            if (random_below(1000) == 0) {
                free_all_in_random_order(&m);
                assert_true(try_alloc(&m, m.bytes)); /* liveness */
                compare(&m);
            }
        }
        allocs += m.allocs;
        failures += m.failures;
        heap_destroy(m.h);
        free(m.buffer);
    }
    assert_true(allocs > 0 && failures > 0);
    print_message("%llu blocks, %llu refusals\n", (unsigned long long)allocs, (unsigned long long)failures);
}

static void a_mapped_heap_does_what_the_model_does(void **state)
{
    (void)state;
    random_operations(true);
}

static void a_shadow_does_what_the_model_does(void **state)
{
    (void)state;
    random_operations(false);
}

int main(int argc, char **argv)
{
    const char *s = argc > 1 ? argv[1] : getenv("MODEL_SEED");
    const char *n = argc > 2 ? argv[2] : getenv("MODEL_OPERATIONS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mapped_heap_does_what_the_model_does),
        cmocka_unit_test(a_shadow_does_what_the_model_does),
    };

    seed = s != NULL ? strtoull(s, NULL, 0) : (uint64_t)clock_now();
    if (n != NULL)
        operations = strtoull(n, NULL, 0);
    return cmocka_run_group_tests_name("heap against model", tests, NULL, NULL);
}
