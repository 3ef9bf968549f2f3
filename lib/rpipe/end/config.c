/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config.c: checks a configuration and settles its defaults: what a single end can find wrong is found here, at once.
 */
#include "rpipe/end/end.h"
#include "util/settings.h"

#include <stdio.h>

#define UNIT_MOST (1u << 20)
#define UNITS_MOST (UINT64_C(1) << 31)
#define DESCRIPTORS_DEFAULT 1000000u
#define CELLS_BYTES_MOST (UINT64_C(1) << 34)
#define QUEUE_MOST (1u << 24)
#define QUEUE_TAGS_DEFAULT 65536u
#define SLOTS_LEAST 2u
#define SLOTS_MOST 65536u

static bool config_power_of_two(uint32_t x) { return x != 0 && (x & (x - 1)) == 0; }

enum side config_side(const rmalloc_config_t *cfg)
{
    return cfg->allocator.rdma_active == (cfg->allocator.op != RDMA_GET) ? SIDE_WRITER
                                                                         : SIDE_READER;
}

const char *config_op_name(int op)
{
    static const char *const name[] = {"RDMA_PUT", "RDMA_GET", "RDMA_ATOMIC"};

    return op >= 0 && op < 3 ? name[op] : "an unknown op";
}

const char *config_algorithm_name(int algorithm)
{
    static const char *const name[] = {"NEXT_FIT", "FIRST_FIT", "BEST_FIT", "WORST_FIT",
                                       "RANDOM_FIT"};

    return algorithm >= 0 && algorithm < 5 ? name[algorithm] : "an unknown algorithm";
}

const char *config_sync_name(int sync)
{
    static const char *const name[] = {"NET_SYNC_BLOCKS", "NET_SYNC_TAGS", "CHANNEL_SYNC"};

    return sync >= 0 && sync < 3 ? name[sync] : "an unknown sync mode";
}

/* Of an ATOMIC pipe nothing counts but how many cells it has, and whose. */
static int config_settle_cells(rmalloc_allocator_config_t *a, struct error *err)
{
    if (a->alloc_size == 0 || a->alloc_size % sizeof(uint64_t) != 0 ||
        a->alloc_size > CELLS_BYTES_MOST)
        return error_set(err, -EINVAL,
                         "allocator.alloc_size is %llu; cells are of 8 bytes: a multiple of 8, at "
                         "least one, at most %llu",
                         (unsigned long long)a->alloc_size, (unsigned long long)CELLS_BYTES_MOST);
    if (a->rdma_active && a->cells_of != NULL)
        return error_set(
            err, -EINVAL,
            "allocator.cells_of is for the passive end, whose memory the cells lie in");
    a->algorithm = NEXT_FIT;
    a->unit_size = sizeof(uint64_t);
    a->max_alloc_size = 0;
    return 0;
}

static int config_settle_allocator(rmalloc_allocator_config_t *a, int ranks, struct error *err)
{
    if (a->peer < 0 || a->peer >= ranks)
        return error_set(err, -EINVAL, "allocator.peer is %d; the ranks of this job are 0 to %d",
                         a->peer, ranks - 1);
    if (a->op != RDMA_PUT && a->op != RDMA_GET && a->op != RDMA_ATOMIC)
        return error_set(err, -EINVAL,
                         "allocator.op is %d; it must be RDMA_PUT, RDMA_GET or RDMA_ATOMIC",
                         (int)a->op);
    if (a->op == RDMA_ATOMIC)
        return config_settle_cells(a, err);
    if (a->cells_of != NULL)
        return error_set(err, -EINVAL, "allocator.cells_of is for pipes with op RDMA_ATOMIC");
    if (!config_power_of_two(a->unit_size) || a->unit_size > UNIT_MOST)
        return error_set(err, -EINVAL,
                         "allocator.unit_size is %u; it must be a power of two from 1 to %u bytes",
                         a->unit_size, UNIT_MOST);
    if (a->alloc_size == 0)
        return error_set(err, -EINVAL,
                         "allocator.alloc_size is 0; a channel needs a heap of at least 1 byte");
    if (a->alloc_size > UNITS_MOST * a->unit_size)
        return error_set(err, -EINVAL,
                         "allocator.alloc_size is %llu; units of %u bytes allow at most %llu: make "
                         "unit_size larger",
                         (unsigned long long)a->alloc_size, a->unit_size,
                         (unsigned long long)(UNITS_MOST * a->unit_size));
    if ((unsigned)a->algorithm > RANDOM_FIT)
        return error_set(err, -EINVAL,
                         "allocator.algorithm is %d; it must be NEXT_FIT to RANDOM_FIT",
                         (int)a->algorithm);
    if (a->max_alloc_size != 0 && a->max_alloc_size < a->alloc_size)
        return error_set(
            err, -EINVAL,
            "allocator.max_alloc_size is %llu, less than alloc_size, %llu; 0: it does not grow",
            (unsigned long long)a->max_alloc_size, (unsigned long long)a->alloc_size);
    if (a->max_alloc_size > UNITS_MOST * a->unit_size)
        return error_set(err, -EINVAL,
                         "allocator.max_alloc_size is %llu; units of %u bytes allow at most %llu",
                         (unsigned long long)a->max_alloc_size, a->unit_size,
                         (unsigned long long)(UNITS_MOST * a->unit_size));
    return 0;
}

/* Table 3.1 of the thesis: which mode goes with which heuristic; and how many blocks may be out. */
static int config_settle_sync(rmalloc_config_t *c, struct error *err)
{
    uint64_t bytes = c->allocator.max_alloc_size > c->allocator.alloc_size
                         ? c->allocator.max_alloc_size
                         : c->allocator.alloc_size;
    uint64_t units = (bytes - 1) / c->allocator.unit_size + 1, most = QUEUE_TAGS_DEFAULT;

    if ((unsigned)c->sync > CHANNEL_SYNC)
        return error_set(err, -EINVAL, "sync is %d; it must be NET_SYNC_BLOCKS to CHANNEL_SYNC",
                         (int)c->sync);
    if (c->sync == NET_SYNC_BLOCKS && c->allocator.algorithm != NEXT_FIT)
        return error_set(err, -EINVAL,
                         "NET_SYNC_BLOCKS gives memory back in the order of the messages, which "
                         "only NEXT_FIT can use: with %s "
                         "choose "
                         "NET_SYNC_TAGS (deferred) or CHANNEL_SYNC (immediate)",
                         config_algorithm_name((int)c->allocator.algorithm));
    if (c->sync_queue > QUEUE_MOST)
        return error_set(err, -EINVAL, "sync_queue is %u; it must be at most %u", c->sync_queue,
                         QUEUE_MOST);
    if (c->sync == NET_SYNC_BLOCKS)
        c->sync_queue = 0; /* there is none */
    else if (c->sync_queue == 0)
        c->sync_queue = (uint32_t)(units < most ? units : most);
    return 0;
}

int config_resolve(const rmalloc_config_t *cfg, rmalloc_config_t *resolved, int ranks,
                   struct error *err)
{
    rmalloc_config_t c = *cfg;
    int rc;

    if (c.version != RMALLOC_CONFIG_VERSION)
        return error_set(err, -EINVAL,
                         "the configuration has version %u, this library knows %u: start from "
                         "RMALLOC_CONFIG_DEFAULT",
                         c.version, RMALLOC_CONFIG_VERSION);
    rc = config_settle_allocator(&c.allocator, ranks, err);
    if (rc != 0)
        return rc;
    if (c.allocator.op == RDMA_ATOMIC)
        c.sync = NET_SYNC_BLOCKS; /* nothing is given back */
    rc = config_settle_sync(&c, err);
    if (rc != 0)
        return rc;
    if (c.timeout_ms == RPIPE_TIMEOUT_AUTO)
        c.timeout_ms = (int)setting_number(SET_TIMEOUT_MS);
    if (c.timeout_ms < -1)
        return error_set(err, -EINVAL, "timeout_ms is %d; it must be -1 (no deadline) or more",
                         c.timeout_ms);
    if (c.watermark < 0)
        c.watermark = setting_real(SET_WATERMARK);
    if (!(c.watermark <= 1))
        return error_set(err, -EINVAL, "watermark is %g; it must be from 0 to 1", c.watermark);
    if (c.slots == 0)
        c.slots = (uint32_t)setting_number(SET_SLOTS);
    if (!config_power_of_two(c.slots) || c.slots < SLOTS_LEAST || c.slots > SLOTS_MOST)
        return error_set(err, -EINVAL, "slots is %u; it must be a power of two from %u to %u",
                         c.slots, SLOTS_LEAST, SLOTS_MOST);
    if (c.max_descriptors == 0)
        c.max_descriptors = DESCRIPTORS_DEFAULT;
    if (c.thresholds.inline_max > DESC_INLINE_MAX)
        c.thresholds.inline_max = DESC_INLINE_MAX;
    if (setting_number(SET_HUGE_PAGES) != 0)
        c.huge_pages = true;
    *resolved = c;
    return 0;
}
