/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * statistics.c: rpipe_stats and rpipe_transport of 0.1; counters by name and rinfo_describe replace them.
 */
#include "rpipe/end/end.h"
#include "rpipe/grow/grow.h"
#include "rpipe/end/path.h"

#include <errno.h>
#include <rpipe_transitional.h>
#include <stdio.h>
#include <string.h>

/* How many there have been: 0 is left out when the number wraps around. */
static uint32_t statistics_openings(uint32_t incarnation, uint32_t first)
{
    return incarnation - first - (incarnation < first);
}

static int statistics_stats_attempt(struct rch *ch, void *arguments)
{
    const uint64_t unit = ch->cfg.unit_bytes;
    rpipe_stats_t *st = arguments;
    bool writer = config_side(&ch->cfg) == SIDE_WRITER;

    *st = (rpipe_stats_t){
        .bytes = ch->bytes,
        .credit_fetches = ch->credit_fetches,
        .stalls_ring = ch->stalls_ring,
        .stalls_heap = ch->stalls_heap,
        .stalls_queue = ch->stalls_queue,
        .sleeps = atomic_load_explicit(&ch->sleeps, memory_order_relaxed),
        .wakes = ch->wakes,
        .heap_bytes = ch->units * unit,
        .slots = ch->cfg.slots,
        .incarnation = statistics_openings(ch->end.incarnation, (uint32_t)job_first()),
    };
    if (writer) {
        /* acquire: pairs with end_state_set */
        struct heap *heap = writer_heap(ch, atomic_load_explicit(&ch->state, memory_order_acquire));

        st->messages = atomic_load_explicit(&ch->w.sent, memory_order_relaxed) - job_first();
        st->inline_messages = st->messages - ch->w.blocks.sent;
        st->held = ch->w.allocated;
        st->returned = ch->w.blocks.returned;
        st->heap_used = heap != NULL ? heap_bytes_used(heap) : 0;
    } else {
        st->messages = ch->path->delivered(ch) - job_first();
        st->inline_messages = ch->r.nread - job_first() - ch->r.blocks.taken;
        st->held = ch->r.held - (ch->r.nread - ch->path->delivered(ch));
        st->heap_used = ch->r.units_held * unit;
        st->returned = ch->r.blocks.freed;
    }
    grow_stats(ch, st);
    return 0;
}

int rpipe_stats(rch_t ch, rpipe_stats_t *st)
{
    int rc = end_check_call(ch, "rpipe_stats", 0);

    if (rc == 0 && st == NULL)
        rc = end_error(ch, -EINVAL, "rpipe_stats: no place for the statistics (NULL)");
    return rc != 0 ? rc : call_once(ch, statistics_stats_attempt, st);
}

static int statistics_transport_attempt(struct rch *ch, void *arguments)
{
    rpipe_transport_t *t = arguments;
    struct btl_counts counts;

    *t = (rpipe_transport_t){.backend = ""};
    snprintf(t->backend, sizeof(t->backend), "%s", ch->ops->name);
    snprintf(t->why, sizeof(t->why), "%s", ch->why != NULL ? ch->why : "");
    snprintf(t->cells, sizeof(t->cells), "%s", ch->cells_way != NULL ? ch->cells_way : "");
    ch->path->describe(ch, t->path, sizeof(t->path));
    ch->path->count(ch);
    counts = ch->counts.remote;
    t->work_requests = counts.work_requests;
    t->doorbells = counts.doorbells;
    t->signaled = counts.signaled;
    t->inlined = counts.inlined;
    t->gets = counts.gets;
    t->atomics = counts.atomics;
    t->flushes = counts.flushes;
    t->refused = counts.refused;
    t->credit_reads = ch->counts.credit_reads;
    t->direct = ch->counts.direct;
    return 0;
}

int rpipe_transport(rch_t ch, rpipe_transport_t *transport)
{
    int rc = end_check_call(ch, "rpipe_transport", 0);

    if (rc == 0 && transport == NULL)
        rc = end_error(ch, -EINVAL, "rpipe_transport: no place for the answer (NULL)");
    return rc != 0 ? rc : call_once(ch, statistics_transport_attempt, transport);
}
