/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_vmem_of_pipe.c: the heap of a pipe, examined by the functions of stand-alone allocators: it shows what the writer has allocated and
 * the reader has not freed, and cannot be changed by them. The reader has none.
 */
#include "test/lib/pair.h"

#include <rvmem.h>

enum { UNIT = 64, UNITS = 16 };

struct seen {
    uint64_t bytes, used;
    raddr_t d; /* of a used block */
};

static int add(const rvmem_block_t *block, void *argument)
{
    struct seen *seen = argument;

    seen->bytes += block->bytes;
    seen->used += block->state == RVMEM_USED ? block->bytes : 0;
    if (block->state == RVMEM_USED)
        seen->d = block->d;
    return 0;
}

static struct seen walk(rvmem_t vmem)
{
    struct seen seen = {0, 0, ADDR_NULL};

    CHECK_OK(NULL, rvmem_walk(vmem, add, &seen));
    CHECK_OK(NULL, rvmem_check(vmem));
    return seen;
}

static void shows_what_is_allocated(rpipe_op_t op)
{
    rvmem_stats_t stats;
    struct seen seen;
    struct pair p;
    rvmem_t vmem;
    raddr_t d;

    pair_open(&p, op, UNIT * UNITS);
    CHECK_OK(p.w, rvmem_of_pipe(&vmem, p.w));
    seen = walk(vmem);
    assert_int_equal(seen.bytes, UNIT * UNITS);
    assert_int_equal(seen.used, 0);
    d = pair_alloc(&p, 100, 1);
    seen = walk(vmem);
    assert_int_equal(seen.used, 2 * UNIT);
    assert_true(seen.d == d);
    CHECK_OK(NULL, rvmem_stats(vmem, &stats));
    assert_int_equal(stats.bytes, UNIT * UNITS);
    assert_int_equal(stats.blocks_used, 1);
    CHECK_OK(p.w, rwrite(p.w, d));
    assert_int_equal(walk(vmem).used, 2 * UNIT); /* until the reader has freed it */
    pair_read_free(&p, 100, 1);
    d = pair_alloc(&p, UNIT * UNITS, 2); /* takes over what was freed */
    assert_int_equal(walk(vmem).used, UNIT * UNITS);
    CHECK_OK(p.w, rfree(p.w, d));
    pair_close(&p);
}

static void cannot_be_changed(rpipe_op_t op)
{
    struct pair p;
    rvmem_t vmem;
    raddr_t d;

    pair_open(&p, op, UNIT * UNITS);
    CHECK_OK(p.w, rvmem_of_pipe(&vmem, p.w));
    d = pair_alloc(&p, 100, 1);
    errno = 0;
    assert_true(rvmem_alloc(vmem, 1) == ADDR_NULL && errno == EPERM);
    CHECK_RC(-EPERM, NULL, rvmem_free(vmem, d));
    CHECK_RC(-EPERM, NULL, rvmem_grow(vmem, NULL, UNIT));
    CHECK_RC(-EPERM, NULL, rvmem_destroy(vmem));
    CHECK_ERROR(NULL, "heap of a pipe");
    assert_int_equal(walk(vmem).used, 2 * UNIT);
    CHECK_OK(p.w, rfree(p.w, d));
    pair_close(&p);
}

static void belongs_to_the_writer(rpipe_op_t op)
{
    struct pair p;
    rvmem_t vmem;

    pair_open(&p, op, UNIT * UNITS);
    CHECK_RC(-EBADF, p.r, rvmem_of_pipe(&vmem, p.r));
    CHECK_RC(-EINVAL, p.w, rvmem_of_pipe(NULL, p.w));
    CHECK_RC(-EINVAL, NULL, rvmem_of_pipe(&vmem, NULL));
    pair_close(&p);
}

static int group(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(shows_what_is_allocated),
        BOTH(cannot_be_changed),
        BOTH(belongs_to_the_writer),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}

int main(void) { return pair_main(group); }
