/* SPDX-License-Identifier: BSD-3-Clause */
/* region_pair.h: what the tests of regions at both ends of one pipe share. */
#ifndef TEST_UNIT_REGION_PAIR_H
#define TEST_UNIT_REGION_PAIR_H

#include "test/lib/pair.h"
#include <errno.h>
#include <sched.h>
#include "test/lib/counts.h"
#include <rpipe.h>

enum { HEAP = 1 << 16, ROOM = 1 << 15, UNIT = 64 };

static uint8_t buffer[2][ROOM] __attribute__((aligned(64)));

/* The network moves what is in a region. */
static inline bool is_transferred(void)
{
    return pair_over_network() && !on_device_heap() && !on_device_region();
}

static inline rregion_t region_of(rch_t ch, void *base, size_t bytes)
{
    rregion_t region = NULL;

    CHECK_OK(ch, rregion_open(&region, ch, base, bytes));
    assert_non_null(region);
    return region;
}

static inline struct pipe_transport transport(rch_t ch)
{
    struct pipe_transport t;

    CHECK_OK(ch, pipe_transport(ch, &t));
    return t;
}

/* a message that the next one does not follow before it may */
static inline void await(rch_t ch, int *word)
{
    CHECK_OK(ch, rdone(ch, word, 0));
    assert_int_equal(*word, 1);
}

/* what a pipe that broke over a network still holds it lets go when it is closed, a moment later */
static inline void end_of(rregion_t region)
{
    double since = now_ms();
    int rc;

    do
        rc = rregion_close(region);
    while (rc == -EBUSY && pair_patience(since));
    check_code(__FILE__, __LINE__, "rregion_close", R_SUCCESS, rc, NULL);
}

#endif
