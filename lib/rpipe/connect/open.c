/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.c: rpipe and rclose: the life of one end as its user sees it. Joining and parting are in join.c.
 */
#include "rpipe/end/end.h"
#include "rpipe/grow/grow.h"
#include "rpipe/connect/handshake.h"
#include "rpipe/end/call_context.h"
#include "rpipe/data/path_remote.h"

#include "control/control.h"
#include "util/settings.h"
#include "util/failpoint.h"
#include "util/sized.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A fresh end with its settled configuration and the pieces that the peer will need. */
static int open_prepare(struct rch *ch, const struct pipe_config *cfg, struct error *err)
{
    pthread_mutexattr_t attributes;
    int rc;

    ch->cfg = *cfg;
    ch->peer = cfg->peer;
    ch->timeout_ms = cfg->timeout_ms;
    ch->mask = cfg->slots - 1;
    ch->inline_max = cfg->inline_max;
    if (ch->inline_max > cfg->heap_bytes)
        ch->inline_max = (uint32_t)cfg->heap_bytes;
    ch->event_fd = ch->signal_fd = -1;
    ch->checked = setting_number(SET_DEBUG) != 0;
    ch->fences = true;
    if (cfg->threads) {
        pthread_mutexattr_init(&attributes);
        pthread_mutex_init(&ch->mutex, &attributes);
        pthread_mutexattr_destroy(&attributes);
    }
    ch->id = desc_owner_id();
    ch->whose = desc_owned_by(ch->id);
    desc_pool_init(&ch->pool, cfg->max_messages, sizeof(struct rdesc_message));
    ch->units = (cfg->heap_bytes - 1) / cfg->unit_bytes + 1;
    if (config_side(cfg) == SIDE_WRITER && credit_open(ch) != 0)
        return error_set(err, -ENOMEM, "no memory for the books of %u blocks (sync_queue)",
                         cfg->sync_queue);
    if (!join_make_close(ch))
        return error_set(err, -ENOMEM, "no memory for another channel");
    if (grow_open(ch) != 0)
        return error_set(err, -ENOMEM, "no memory for the books of a heap that grows");
    rc = btl_choose(ch->peer, cfg->backend, &ch->ops, &ch->btl, err);
    if (rc != 0)
        return rc;
    ch->why = strdup(err->text);
    counter_describe(ch);
    RPIPE_FAILPOINT("rpipe: backend chosen");
    rc = handshake_allocate(ch, err);
    if (rc != 0 && control_peer_state(ch->peer) != 0)
        rc =
            0; /* nothing can be passed to a peer that is gone; the calls that need it say so, not this one */
    return rc;
}

int end_open(rch_t *ch, const char *call, const struct pipe_config *resolved)
{
    int64_t began = trace_on ? clock_now() : 0;
    struct error err = {""};
    struct rch *end = end_pool_take();
    int rc;

    if (end == NULL) {
        last_error_set("%s: no memory for another end", call);
        return -ENOMEM;
    }
    rc = open_prepare(end, resolved, &err);
    RPIPE_FAILPOINT("rpipe: memory made");
    if (rc == 0) {
        rc = join_open(end);
        if (rc == -EEXIST)
            error_note(&err, "this end is open already; another pipe between the same ranks needs "
                             "another context");
        else if (rc != 0)
            error_note(&err, "no memory for another channel");
    }
    if (rc != 0) {
        last_error_set("%s: %s: %s", call, end_name(end), err.text);
        handshake_release(end);
        end_pool_put(end);
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
    return end_open(ch, "rpipe", &resolved);
}

int(rpipe_open)(rch_t *ch, const rpipe_config_t *cfg, size_t size)
{
    struct call call;

    call_enter(&call, "rpipe");
    return call_end(&call, open_pipe(ch, cfg, size));
}

/* ---- waiting for the join ---- */

static int open_join_attempt(struct rch *ch, void *arguments)
{
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */

    (void)arguments;
    if ((state & STATE_FAILED) != 0)
        return end_error(ch, ch->failure, "rwait: %s",
                         ch->reason != NULL ? ch->reason : "the two ends cannot be joined");
    if ((state & (STATE_JOINED | STATE_PEER_CLOSED)) != 0)
        return 0;
    if ((state & STATE_ATTACHED) != 0)
        return join_complete(ch, deadline_in_ms(ch->timeout_ms));
    if ((state & STATE_PEER_LEFT) != 0)
        return end_error(ch, -EPIPE,
                         "rwait: rank %d has left the job (rexit) without opening this channel",
                         ch->peer);
    if (end_peer_died(ch, state))
        return end_error(ch, (state & STATE_WRITER) != 0 ? -EPIPE : -ECONNRESET,
                         "rwait: rank %d died before it was joined%s", ch->peer,
                         end_death_reason(ch));
    return R_PENDING;
}

int rpipe_wait(rch_t ch)
{
    static const struct awaited awaited = {"other end", 0};
    int rc = end_check_call(ch, "rwait", 0);
    uint32_t row;

    if (rc != 0)
        return rc;
    row = trace_begin(ch, TRACE_MEET);
    rc = call_wait(ch, "rwait", &awaited, open_join_attempt, NULL);
    trace_end(row, 0, 0, rc);
    return rc;
}

int rpipe_set_timeout(rch_t ch, int timeout_ms)
{
    int rc = end_check_call(ch, "rset_timeout", 0);
    struct error err = {""};

    if (rc == 0 && (rc = config_timeout(timeout_ms, &ch->timeout_ms, &err)) != 0)
        return end_error(ch, rc, "rset_timeout: %s", err.text);
    return rc;
}

/* ---- closing ---- */

static int open_close_attempt(struct rch *ch, void *arguments)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_acquire);
    uint64_t final = 0;

    if ((state & STATE_WRITER) != 0) {
        final = atomic_load_explicit(&ch->w.sent, memory_order_relaxed);
        if ((state & (STATE_JOINED | STATE_REMOTE | STATE_CELLS)) == STATE_JOINED) {
            RPIPE_FAILPOINT("rclose: before the final number");
            /* begun, for the event protocol, is not needed here: bye makes the descriptor readable too */
            /* release: every slot is visible to whoever sees the final number. Pairs with at_end */
            atomic_store_explicit(&ch->ring->control.final, final + 1, memory_order_release);
            RPIPE_FAILPOINT("rclose: final number written");
            wake_reader(ch);
            if ((atomic_load_explicit(&ch->state, memory_order_acquire) & STATE_EVENT) != 0)
                end_signal(ch);
        }
    } else if ((state & STATE_CELLS) == 0) {
        final = reader_delivered(
            ch); /* what it has not read, the writer need not keep (region_abort) */
    }
    region_detach(ch);
    RPIPE_FAILPOINT("rclose: before bye");
    if (*(bool *)arguments)
        deferred_close_begin(ch, final);
    else
        join_close(ch, final);
    return 0;
}

static int open_settle_attempt(struct rch *ch, void *arguments)
{
    int rc = remote_drain(ch, "rclose", arguments);

    /* nobody waits for what a channel that has failed had asked for; but bye comes behind it all the same */
    if (rc == R_PENDING &&
        (atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_FAILED) != 0)
        return -ETIMEDOUT;
    return rc;
}

int end_close(struct rch *ch, bool force)
{
    static const struct awaited awaited = {"proof that everything has arrived", 0};
    int rc = end_check_call(ch, "rclose", 0);
    bool unfinished = false, net = false;
    uint64_t since = 0;
    uint32_t row;

    if (rc != 0)
        return rc;
    /* the library can keep its own memory until the transfers are over, but not the program's */
    net = (atomic_load_explicit(&ch->state, memory_order_relaxed) & (STATE_REMOTE | STATE_CELLS)) ==
          STATE_REMOTE;
    if (net && region_wait(ch, "rclose") == -ETIMEDOUT && !force)
        return -ETIMEDOUT;
    row = trace_begin(ch, TRACE_CLOSE);
    /*
     * Over a network bye comes behind the last operation: what it promises is there, and nobody reaches for what is given back.
     * Where the deadline is too short for the proof, the service thread waits for it.
     */
    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & (STATE_REMOTE | STATE_CELLS)) !=
        0)
        unfinished = call_wait(ch, "rclose", &awaited, open_settle_attempt, &since) == -ETIMEDOUT;
    rc = call_once(ch, open_close_attempt, &unfinished);
    trace_end(row, 0, 0, rc);
    return rc;
}

int rpipe_close(rch_t ch)
{
    if (ch != NULL && ch->cells != NULL &&
        (atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_CLOSED) == 0)
        return end_error(ch, -EBADF, "rclose: this end has cells; close it by rcells_close");
    return end_close(ch, false);
}
