/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * area.h: sizes of the memory areas of a pipe: the same at both ends, and in the copies that a remote path has of them.
 */
#ifndef RPIPE_END_AREA_H
#define RPIPE_END_AREA_H

#include "rpipe/end/config.h"
#include "sync/slot.h"
#include "sync/tag.h"

/* Whole units, so that an area of a slab is aligned to a unit; at least a line. */
static inline size_t area_heap_bytes(const struct pipe_config *cfg)
{
    uint64_t unit = cfg->unit_bytes < CACHE_LINE ? CACHE_LINE : cfg->unit_bytes;

    return (cfg->heap_bytes + unit - 1) & ~(unit - 1);
}

static inline size_t area_credit_bytes(const struct pipe_config *cfg)
{
    return credit_area_bytes(cfg->mode == RPIPE_SYNC_TAGS ? cfg->sync_queue : 0);
}

static inline size_t area_reverse_bytes(const struct pipe_config *cfg)
{
    return cfg->sync_queue * sizeof(struct slot);
}

/* The heap is in this end's memory. */
static inline bool area_heap_is_own(const struct rch *ch)
{
    return (config_side(&ch->cfg) == SIDE_WRITER) == (ch->cfg.op == OP_GET);
}

#endif
