/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * layout_c.c: sizes, offsets and constants as C has them, for layout.f90, in the order of its tables.
 */
#include <rpipe.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define CONFIG(member) offsetof(rpipe_config_t, member)
#define NEIGHBOR(member) offsetof(rneighbor_t, member)

static const size_t config_table[] = {
    sizeof(rpipe_config_t),
    CONFIG(role),
    CONFIG(peer),
    CONFIG(context),
    CONFIG(op),
    CONFIG(heuristic),
    CONFIG(mode),
    CONFIG(unit_bytes),
    CONFIG(heap_bytes),
    CONFIG(max_heap_bytes),
    CONFIG(heap_bytes_at_most),
    CONFIG(slots),
    CONFIG(slots_at_most),
    CONFIG(sync_queue),
    CONFIG(sync_queue_at_most),
    CONFIG(timeout_ms),
    CONFIG(flags),
    CONFIG(watermark),
    CONFIG(inline_max),
    CONFIG(fetch_ahead),
    CONFIG(grow_after_us),
    CONFIG(max_messages),
    CONFIG(max_cqe),
    CONFIG(backend),
    CONFIG(seed),
};

static const size_t neighbor_table[] = {
    sizeof(rneighbor_t), NEIGHBOR(peer), NEIGHBOR(side), NEIGHBOR(opposite),
    NEIGHBOR(zero),      NEIGHBOR(out),  NEIGHBOR(in),
};

static const int constant_table[] = {
    R_SUCCESS,
    R_PENDING,
    R_EOF,
    R_NOWAIT,
    R_FOREVER,
    R_AT_ONCE,
    R_NO_PEER,
    RPIPE_WRITER,
    RPIPE_READER,
    RPIPE_PUT,
    RPIPE_GET,
    RMALLOC_NEXT_FIT,
    RMALLOC_FIRST_FIT,
    RMALLOC_BEST_FIT,
    RMALLOC_WORST_FIT,
    RMALLOC_RANDOM_FIT,
    RMALLOC_SEGREGATED_FIT,
    RPIPE_SYNC_BLOCKS,
    RPIPE_SYNC_TAGS,
    RPIPE_SYNC_CHANNEL,
    (int)RPIPE_THREADS,
    (int)RPIPE_HUGE_PAGES,
};

size_t layout_config(size_t row);
size_t layout_neighbor(size_t row);
int layout_constant(size_t row);

/* Rows are counted from 1; behind the last one there is SIZE_MAX, INT_MIN. */
size_t layout_config(size_t row)
{
    return row <= COUNT(config_table) ? config_table[row - 1] : SIZE_MAX;
}

size_t layout_neighbor(size_t row)
{
    return row <= COUNT(neighbor_table) ? neighbor_table[row - 1] : SIZE_MAX;
}

int layout_constant(size_t row)
{
    return row <= COUNT(constant_table) ? constant_table[row - 1] : -0x7fffffff - 1;
}
