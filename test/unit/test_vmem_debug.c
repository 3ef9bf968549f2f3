/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Misuse of the allocator by itself, damage to it, and RMALLOC_DEBUG=1. Only the tests of damage look
 * inside.
 */
#include "vmem.h"

/* ---- misuse ---- */

static void assert_no_use(rvmem_t v, raddr_t d)
{
    assert_int_equal(rvmem_free(v, d), -EINVAL);
    errno = 0;
    assert_null(rvmem_mem(v, d));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_true(rvmem_offset(v, d) == UINT64_MAX);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(rvmem_size(v, d), 0);
    assert_int_equal(errno, EINVAL);
}

static void misuse_is_detected_and_does_no_harm(void **state)
{
    char *buffer = aligned_alloc(UNIT, 4096);
    rvmem_t v = create(buffer, 4096), other = create(NULL, 4096);
    raddr_t a = rvmem_alloc(v, 1), b = rvmem_alloc(v, 1), c = rvmem_alloc(v, 1),
            d = rvmem_alloc(v, 1), foreign = rvmem_alloc(other, 1);
    rvmem_stats_t s;

    (void)state;
    assert_no_use(v, ADDR_NULL);
    assert_no_use(NULL, a);
    assert_no_use(v, foreign);
    assert_no_use(other, a);
    assert_int_equal(rvmem_free(v, b), 0);
    assert_no_use(v, b); /* waits for a */
    assert_int_equal(rvmem_free(v, c), 0);
    assert_no_use(v, b);
    assert_no_use(v, c);
    assert_int_equal(rvmem_free(v, d), 0);
    assert_no_use(v, d); /* back in its pool */
    desc_set_state(desc_of(a), DESC_SENT);
    assert_no_use(v, a); /* handed over */
    desc_set_state(desc_of(a), DESC_OWNED);
    assert_int_equal(rvmem_check(v), 0);
    assert_int_equal(rvmem_check(other), 0);
    assert_int_equal(rvmem_stats(v, &s), 0);
    assert_int_equal(s.frees, 3);
    assert_int_equal(s.blocks_used, 1);
    assert_int_equal(rvmem_free(v, a), 0);
    assert_no_use(v, a);
    assert_int_equal(rvmem_free(other, foreign), 0);
    assert_int_equal(rvmem_check(NULL), -EINVAL);
    rvmem_destroy(v);
    rvmem_destroy(other);
    free(buffer);
}

/* ---- damage, debugging ---- */

static struct heap *inside(rvmem_t v) { return (struct heap *)(void *)v; }

static void the_check_logs_an_error(void **state)
{
    rvmem_t v = create(NULL, 4096);
    raddr_t a = rvmem_alloc(v, 100);

    (void)state;
    capture_begin();
    assert_int_equal(rvmem_check(v), 0);
    assert_silent();
    desc_of(a)->units++;
    capture_begin();
    assert_int_equal(rvmem_check(v), -EUCLEAN);
    assert_printed("rvmem_check: ");
    desc_of(a)->units--;
    assert_int_equal(rvmem_check(v), 0);
    rvmem_destroy(v);
}

static void debugging_finds_damage_at_the_next_operation(void **state)
{
    rvmem_t v = create(NULL, 4096);
    raddr_t a = rvmem_alloc(v, 100), b = rvmem_alloc(v, 100);
    struct rdesc *lost = inside(v)->pool.free;

    (void)state;
    inside(v)->pool.free = NULL;
    capture_begin();
    assert_int_equal(rvmem_free(v, b), -EUCLEAN);
    assert_printed("rvmem_free: the allocator is damaged");
    if (fit == RMALLOC_SEGREGATED_FIT) /* b waits in a list of its size */
        inside(v)->pool.free = lost;
    else
        desc_of(b)->link = lost;
    assert_int_equal(rvmem_check(v), 0);
    desc_of(a)->size = 1000000;
    capture_begin();
    assert_no_block(v, 1, EUCLEAN);
    assert_printed("rvmem_alloc: the allocator is damaged");
    rvmem_destroy(v);
}

static void debugging_reports_every_misuse(void **state)
{
    rvmem_t v = create(NULL, 4096), other = create(NULL, 4096);
    raddr_t a = rvmem_alloc(v, 100), b = rvmem_alloc(v, 1), foreign = rvmem_alloc(other, 1);
    static char invalid[256];

    (void)state;
    assert_int_equal(rvmem_free(v, a), 0);
    capture_begin();
    assert_int_equal(rvmem_free(v, a), -EINVAL);
    assert_printed("rvmem_free: d has been freed already");
    capture_begin();
    assert_int_equal(rvmem_free(v, foreign), -EINVAL);
    assert_printed("no descriptor of this allocator");
    capture_begin();
    assert_null(rvmem_mem(v, (raddr_t)(void *)invalid));
    assert_printed("rvmem_mem: d is no descriptor");
    capture_begin();
    assert_true(rvmem_offset(v, (raddr_t)(void *)8) == UINT64_MAX); /* is not even read */
    assert_printed("rvmem_offset: ");
    capture_begin();
    assert_int_equal(rvmem_size(v, a), 0);
    assert_printed("rvmem_size: d has been freed already");
    capture_begin();
    assert_null(rvmem_mem(v, a));
    assert_printed("rvmem_mem: d has been freed already");
    capture_begin();
    assert_no_use(v, (raddr_t)(void *)((char *)b + 16));
    assert_printed("no descriptor");
    capture_begin();
    assert_int_equal(rvmem_free(v, ADDR_NULL), -EINVAL);
    assert_printed("ADDR_NULL");
    capture_begin();
    assert_int_equal(rvmem_grow(v, invalid, 100), -EINVAL);
    assert_printed("rvmem_grow: 100 bytes at 0x");
    assert_int_equal(rvmem_free(v, b), 0);
    rvmem_destroy(v);
    rvmem_destroy(other);
}

static void debugging_changes_no_result(void **state)
{
    rvmem_t v = create(NULL, 30 * UNIT);
    raddr_t d[8] = {ADDR_NULL};
    unsigned refused = 0;

    (void)state;
    capture_begin();
    for (unsigned i = 0; i < 2000; i++) {
        raddr_t *slot = &d[i * 5 % 7];

        if (*slot != ADDR_NULL)
            assert_int_equal(rvmem_free(v, *slot), 0);
        *slot = rvmem_alloc(v, i * 37 % 500);
        if (*slot == ADDR_NULL) {
            assert_int_equal(errno, ENOMEM);
            refused++;
        }
    }
    assert_silent();
    assert_true(refused > 0 && refused < 2000);
    rvmem_destroy(v);
}

static int run_group(const char *name)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(misuse_is_detected_and_does_no_harm, debug_off),
        cmocka_unit_test_setup(the_check_logs_an_error, debug_off),
        cmocka_unit_test_setup(debugging_finds_damage_at_the_next_operation, debug_on),
        cmocka_unit_test_setup(debugging_reports_every_misuse, debug_on),
        cmocka_unit_test_setup(debugging_changes_no_result, debug_on),
    };

    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(void) { return run_for_each_fit("vmem", run_group); }
