/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap_checks.h: what the tests of a heap share: after every operation every invariant is checked, what is refused changes nothing,
 * memory can be cut off, and damage is found by the check.
 *
 * For one file of a program, as allocation_failure.h is.
 */
#ifndef TEST_UNIT_HEAP_CHECKS_H
#define TEST_UNIT_HEAP_CHECKS_H

#include "test/lib/allocation_failure.h"
#include <rvmem.h>

#include "alloc/heap.h"

#include "alloc/fit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define UNIT 64u

static inline void assert_sound(const struct heap *h)
{
    struct error err = {""};

    if (heap_check(h, &err) != 0)
        fail_msg("%s: %s", h->ops->name, err.text);
}

static inline rvmem_stats_t stats_of(const struct heap *h)
{
    rvmem_stats_t s;

    heap_get_stats(h, &s);
    assert_int_equal(s.bytes, s.bytes_used + s.bytes_stuck + s.bytes_free);
    if (h->algorithm != RMALLOC_NEXT_FIT)
        assert_int_equal(s.bytes_stuck, 0);
    return s;
}

static inline void give(struct heap *h, struct rdesc *d)
{
    heap_free(h, d);
    assert_sound(h);
}

static inline void assert_refused(struct heap *h, size_t size, int error)
{
    rvmem_stats_t before = stats_of(h), after;

    assert_null(heap_alloc(h, size));
    assert_int_equal(heap_alloc_error(h), error);
    assert_sound(h);
    after = stats_of(h);
    assert_int_equal(after.failures, before.failures + 1);
    after.failures--;
    assert_memory_equal(&before, &after, sizeof(before));
}

static inline void assert_broken(const struct heap *h, const char *word, int line)
{
    struct error err = {""};

    if (heap_check(h, &err) != -EUCLEAN || strstr(err.text, word) == NULL)
        fail_msg("line %d, %s: the check reported \"%s\", nothing of \"%s\"", line, h->ops->name,
                 err.text, word);
}

/* Puts a wrong value in one place, lets the check find it, puts the right one back. */
#define DAMAGE(place, wrong, word)                                                                 \
    do {                                                                                           \
        __typeof__(place) right_ = (place);                                                        \
        (place) = (wrong);                                                                         \
        assert_broken(h, word, __LINE__);                                                          \
        (place) = right_;                                                                          \
        assert_sound(h);                                                                           \
    } while (0)

#define DAMAGE_STATE(d, wrong, text)                                                               \
    DAMAGE((d)->word, ((d)->word & ~DESC_STATE_MASK) | desc_word(0, (enum desc_state)(wrong)), text)

#endif
