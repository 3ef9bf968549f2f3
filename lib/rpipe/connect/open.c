/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.c: rpipe, rwait and rset_timeout. Joining is in join.c, closing in close.c.
 */
#include "rpipe/connect/open.h"

#include "rpipe/connect/areas.h"
#include "rpipe/connect/close.h"
#include "rpipe/connect/join.h"
#include "rpipe/data/credit.h"
#include "rpipe/end/call.h"
#include "rpipe/end/config.h"
#include "rpipe/end/connector.h"
#include "rpipe/end/counters.h"
#include "rpipe/end/end_pool.h"
#include "rpipe/end/error.h"
#include "rpipe/end/feature.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/path.h"
#include "rpipe/end/stream.h"

#include "control/control.h"
#include "util/failpoint.h"
#include "util/settings.h"
#include "util/sized.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int end_size(struct rch *ch, struct error *err)
{
    const struct pipe_config *cfg = &ch->cfg;
    int rc;

    ch->ring_mask = (cfg->slots - 1) * (uint32_t)sizeof(struct slot);
    ch->inline_max = cfg->inline_max;
    if (ch->inline_max > cfg->heap_bytes)
        ch->inline_max = (uint32_t)cfg->heap_bytes;
    ch->units = (cfg->heap_bytes - 1) / cfg->unit_bytes + 1;
    counter_describe(ch);
    if (config_side(cfg) == SIDE_WRITER && credit_open(ch) != 0)
        return error_set(err, -ENOMEM, "no memory for the table of %u blocks (sync_queue)",
                         cfg->sync_queue);
    rc = path_open(ch, err);
    if (rc == 0 && ch->ops->connection_open == NULL)
        stream_mapped(ch);
    if (rc == 0)
        rc = areas_allocate(ch, err);
    return rc == 0 ? features_open(ch, err) : rc;
}

static bool open_is_mapped(const struct rch *ch)
{
    return (ch->ops->attributes.capabilities & BTL_LOAD_STORE) != 0;
}

/* The other end may choose channel mode, in which over a network the service thread posts for this end (path_remote_read.c). */
static void open_lock_adopter(struct rch *ch)
{
    if (open_is_mapped(ch) || ch->cfg.threads || config_side(&ch->cfg) == SIDE_WRITER)
        return;
    pthread_mutex_init(&ch->mutex, NULL);
    ch->cfg.threads = true;
}

/* A fresh end with its configuration, and the memory that its peer needs, if its sizes are known. */
static int open_prepare(struct rch *ch, const struct pipe_config *cfg, struct error *err)
{
    int rc;

    ch->cfg = *cfg;
    ch->peer = cfg->peer;
    ch->timeout_ms = cfg->timeout_ms;
    ch->event_fd = ch->signal_fd = -1;
    ch->checked = setting_number(SET_DEBUG) != 0;
    ch->fences = true;
    if (config_side(cfg) == SIDE_WRITER)
        atomic_store_explicit(&ch->w.after, AFTER_FENCE, memory_order_relaxed);
    if (cfg->threads)
        pthread_mutex_init(&ch->mutex, NULL);
    ch->id = desc_owner_id();
    desc_pool_init(&ch->pool, cfg->max_messages, sizeof(struct rdesc_message), ch->id);
    if (close_prepare(ch) != 0)
        return error_set(err, -ENOMEM, "no memory for another pipe");
    if (cfg->memory != NULL && config_device_kind(cfg->memory) != RMEMORY_OTHER)
        btl_devices_used();
    rc = btl_choose(ch->peer, cfg->backend, &ch->ops, &ch->btl, err);
    if (rc != 0)
        return rc;
    ch->why = strdup(err->text);
    /* from here on rstream_describe of another thread may read ch->ops */
    if (cfg->stream != NULL && (rc = stream_add(cfg->stream, ch, err)) != 0)
        return rc;
    ch->trace = trace_row(); /* once: when sizes are taken over (join.c) calls read it already */
    RPIPE_FAILPOINT("rpipe: backend chosen");
    config_resolve_slots(&ch->cfg, open_is_mapped(ch));
    ch->adopts = config_is_open(cfg);
    if (ch->adopts) { /* the rest follows with the handshake of the other end: join.c */
        open_lock_adopter(ch);
        path_none(ch);
        counter_describe(ch);
        return 0;
    }
    rc = end_size(ch, err);
    if (rc == 0 || control_peer_state(ch->peer) == 0)
        return rc;
    if (ch->path == NULL)
        path_none(ch);
    return 0; /* no memory can be offered to a peer that is gone; the calls that need it fail */
}

int end_open(rch_t *ch, const struct pipe_config *resolved)
{
    int64_t began = trace_on ? clock_now() : 0;
    struct error err = {""};
    struct rch *end = end_pool_take();
    int rc;

    if (end == NULL)
        return call_error(NULL, -ENOMEM, "no memory for another end");
    rc = open_prepare(end, resolved, &err);
    RPIPE_FAILPOINT("rpipe: memory made");
    if (rc == 0) {
        rc = join_open(end);
        if (rc == -EEXIST)
            error_note(&err, "this end is open already; another pipe between the same ranks needs "
                             "another context");
        else if (rc != 0)
            error_note(&err, "no memory for another pipe");
    }
    if (rc != 0) {
        (void)call_error(NULL, rc, "%s: %s", end_name(end), err.text);
        end_release_unopened(end);
        end_pool_put_unopened(end);
        return rc;
    }
    counter_opened(end);
    *ch = end;
    RPIPE_FAILPOINT("rpipe: open");
    if (began != 0)
        trace_past(end->trace, TRACE_OPEN, began);
    return 0;
}

static int open_pipe(rch_t *ch, const rpipe_config_t *cfg, size_t size)
{
    struct pipe_config resolved;
    struct error err = {""};
    rpipe_config_t known;
    int rc = job_check();

    if (rc != 0)
        return rc;
    if (ch == NULL || cfg == NULL)
        return call_error(NULL, -EINVAL, "%s is NULL", ch == NULL ? "ch" : "cfg");
    rc = sized_copy(&known, sizeof(known), cfg, size, &err);
    if (rc == 0)
        rc = config_resolve(&known, &resolved, job_ranks(), &err);
    if (rc != 0)
        return call_error(NULL, rc, "%s", err.text);
    return end_open(ch, &resolved);
}

int(rpipe_open)(rch_t *ch, const rpipe_config_t *cfg, size_t size)
{
    struct call call;

    call_enter(&call, "rpipe");
    return call_end(&call, open_pipe(ch, cfg, size));
}

/* ---- waiting for the join ---- */

/* The writer has both handshakes, and its connection is coming up, which that to a dead peer never does. */
static int open_connect_attempt(struct rch *ch, uint32_t state)
{
    int rc = end_join_complete(ch, deadline_in_ms(ch->timeout_ms));

    if (rc == R_PENDING && (rc = call_check_peer(ch, state)) == 0)
        rc = R_PENDING;
    return rc;
}

static int open_join_attempt(struct rch *ch, void *arguments)
{
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */

    (void)arguments;
    if ((state & STATE_FAILED) != 0)
        return call_error(ch, ch->failure, "%s",
                          ch->reason != NULL ? ch->reason : "the two ends cannot be joined");
    if ((state & (STATE_JOINED | STATE_PEER_CLOSED)) != 0)
        return 0;
    if ((state & STATE_ATTACHED) != 0)
        return open_connect_attempt(ch, state);
    if (end_never_joins(state))
        return call_never_joins(ch, state);
    if (end_peer_died(ch, state))
        return call_error(ch, (state & STATE_WRITER) != 0 ? -EPIPE : -ECONNRESET,
                          "rank %d died before it was joined%s", ch->peer, end_death_reason(ch));
    return R_PENDING;
}

int rpipe_wait(rch_t ch)
{
    static const struct awaited awaited = {"other end", 0};
    struct call call;
    int rc = call_begin(&call, "rwait", ch, 0);
    uint32_t row;

    if (rc == 0) {
        row = trace_begin(ch, TRACE_MEET);
        rc = call_await(ch, &awaited, open_join_attempt, NULL);
        trace_end(row, 0, 0, rc);
    }
    return call_end(&call, rc);
}

int rpipe_set_timeout(rch_t ch, int timeout_ms)
{
    struct call call;
    int rc = call_begin(&call, "rset_timeout", ch, 0);
    struct error err = {""};
    int ms = 0;

    if (rc == 0 && (rc = config_timeout(timeout_ms, &ms, &err)) != 0)
        (void)call_error(ch, rc, "%s", err.text);
    else if (rc == 0)
        ch->timeout_ms = ms;
    return call_end(&call, rc);
}
