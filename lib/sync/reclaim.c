/* SPDX-License-Identifier: BSD-3-Clause */
/* reclaim.c: see reclaim.h; what the three modes have in common. */
#include "sync/reclaim.h"

int reclaim_open(struct reclaim *r, const struct reclaim_ops *ops, uint32_t queue,
                 uint32_t first_lap)
{
    r->ops = ops;
    r->limit = UINT64_MAX;
    if (!ops->bounded)
        return 0;
    r->limit = queue;
    ring_cursor_init(&r->next, queue, first_lap);
    return block_table_create(&r->table, queue);
}

void reclaim_close(struct reclaim *r) { block_table_destroy(&r->table); }

void reclaim_set_watermark(struct reclaim *r, double share, uint64_t units, uint32_t unit_bytes)
{
    r->watermark = (uint64_t)(share * (double)units);
    r->refresh_units = r->watermark;
    r->unit_bytes = unit_bytes;
    if (r->ops == &reclaim_channel)
        r->step = 0;
    else
        r->step = unit_bytes < RECLAIM_STEP ? RECLAIM_STEP / unit_bytes : 1;
    reclaim_schedule_ahead(r);
}
