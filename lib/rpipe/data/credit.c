/* SPDX-License-Identifier: BSD-3-Clause */
/* credit.c: see credit.h. */
#include "rpipe/data/credit.h"

#include "rpipe/end/job_state.h"

void credit_rescale(struct rch *ch)
{
    reclaim_set_watermark(&ch->w.blocks, ch->cfg.watermark, ch->units, ch->cfg.unit_bytes);
}

int credit_open(struct rch *ch)
{
    static const struct reclaim_ops *const mode[] = {
        [RPIPE_SYNC_BLOCKS] = &reclaim_prefix,
        [RPIPE_SYNC_TAGS] = &reclaim_tags,
        [RPIPE_SYNC_CHANNEL] = &reclaim_channel,
    };
    int rc;

    atomic_store_explicit(&ch->w.sent, job_first(), memory_order_relaxed);
    slot_credit_init(&ch->w.slots, job_first(), ch->cfg.slots, ch->cfg.watermark);
    rc = reclaim_open(&ch->w.blocks, mode[ch->cfg.mode], ch->cfg.sync_queue,
                      (uint32_t)job_first() + 1);
    credit_rescale(ch);
    return rc;
}

void credit_close(struct rch *ch) { reclaim_close(&ch->w.blocks); }
