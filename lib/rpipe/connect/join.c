/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * join.c: how the two ends of a channel find each other, part, and come back under the same id (doc/protocol.md).
 *
 * An end sends its whole half when it opens and bye when it closes. Whoever has both halves first joins for himself; no
 * reply is needed. Invariants, under the lock of the exchange store:
 *   - looking for the peer's half and registering as open are one step;
 *   - everything that can fail locally has been done before the incarnation is counted;
 *   - an end in a meeting's list is open, or closed and waits for the peer's bye; the service thread touches an end, its
 *     wake words included, only while it is in the list and not closed;
 *   - a bye for an incarnation that is not open yet is answered at once, and that incarnation ("late") touches nothing.
 */
#include "rpipe/end/end.h"
#include "cells/cells.h"
#include "rpipe/grow/grow.h"
#include "rpipe/connect/handshake.h"
#include "rpipe/data/path_remote.h"

#include "control/control.h"
#include "observe/record/trace_clock.h"
#include "util/log.h"
#include "util/failpoint.h"
#include "util/text.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REASON_BYTES 384

/* An id, an incarnation, a number: bye (messages written), event acknowledgement (begun), fail (code, and a reason). */
struct note {
    uint32_t ctx, incarnation, side; /* of the sender */
    int32_t code;
    uint64_t number;
    char reason[REASON_BYTES]; /* MESSAGE_FAIL */
};
static_assert(sizeof(struct note) == 24 + REASON_BYTES, "on the wire");

static _Atomic unsigned join_warned; /* of what peers have said that is not understood */

static enum side join_other(enum side side)
{
    return side == SIDE_WRITER ? SIDE_READER : SIDE_WRITER;
}

static int join_post_note(enum message_type type, int peer, struct note *n, const int *fd)
{
    if (type != MESSAGE_FAIL)
        return control_post(peer, type, n, offsetof(struct note, reason), fd, fd != NULL ? 1 : 0);
    return control_post(peer, type, n, sizeof(*n), NULL, 0);
}

static struct note join_note_of(const struct rch *ch, uint64_t number)
{
    return (struct note){(uint32_t)ch->cfg.context,
                         ch->end.incarnation,
                         (uint32_t)config_side(&ch->cfg),
                         0,
                         number,
                         ""};
}

/* ---- failures ---- */

void join_post_failure(struct rch *ch, int code, const char *reason)
{
    struct note n = join_note_of(ch, 0);

    n.code = code;
    snprintf(n.reason, sizeof(n.reason), "%s", reason);
    (void)join_post_note(MESSAGE_FAIL, ch->peer, &n, NULL); /* not needed by a peer that is gone */
}

void join_fail_locked(struct rch *ch, int code, const char *reason)
{
    end_fail_locked(ch, code, "%s", reason);
}

void join_fail(struct rch *ch, int code, const char *reason)
{
    rendezvous_lock();
    join_fail_locked(ch, code, reason);
    rendezvous_unlock();
}

/* ---- joining: store lock held ---- */

static void join_events_on(struct rch *ch, int fd)
{
    struct note n;

    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_EVENT) !=
        0) { /* asked twice */
        if (fd >= 0)
            close(fd);
        return;
    }
    ch->signal_fd = fd;
    end_state_set(ch, STATE_EVENT);
    RPIPE_FAILPOINT("event: writer in event mode");
    /* every thread of this process has passed a fence: each slot not covered by `begun` is followed by a look that sees EVENT */
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    n = join_note_of(ch, atomic_load_explicit(&ch->w.sent, memory_order_seq_cst));
    (void)join_post_note(MESSAGE_EVENT_ACK, ch->peer, &n, NULL);
    RPIPE_FAILPOINT("event: acknowledged");
}

/* Attaches the peer's half to an open end. */
static void join(struct rch *ch, const void *blob, size_t bytes)
{
    struct error err = {""};
    int rc = handshake_attach(ch, blob, bytes, &err);

    if (rc != 0) {
        log_error("%s cannot be joined: %s", end_name(ch), err.text);
        (void)end_set_failed(ch, rc, err.text);
        /* where the halves disagree the peer sees that by itself; what only happened here it has to be told */
        join_post_failure(ch, rc, err.text);
        return;
    }
    RPIPE_FAILPOINT("join: half attached");
    ch->fences = !(control_membarrier() && control_peer_membarrier(ch->peer));
    ch->liveness = control_liveness(ch->peer);
    trace_moment(ch->trace, TRACE_JOIN, 0, 0, 0);
    end_state_set(ch, config_side(&ch->cfg) == SIDE_WRITER ? STATE_ATTACHED : STATE_JOINED);
    RPIPE_FAILPOINT("join: noted");
}

int join_complete(struct rch *ch, int64_t deadline)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_acquire);
    int64_t slice =
        deadline == DEADLINE_NOW ? DEADLINE_NOW : clock_now() + WAIT_SLICE_MS * NS_PER_MS;
    int rc;

    if ((state & (STATE_ATTACHED | STATE_JOINED)) != STATE_ATTACHED)
        return (state & STATE_JOINED) != 0 ? 0 : R_PENDING;
    if (control_flush(ch->peer, slice < deadline ? slice : deadline) != 0)
        return R_PENDING;
    RPIPE_FAILPOINT("join: own half with the kernel");
    rc = remote_state(ch);
    if (rc != 0)
        return rc;
    atomic_fetch_or_explicit(&ch->state, STATE_JOINED,
                             memory_order_acq_rel); /* never neither of the two */
    atomic_fetch_and_explicit(&ch->state, ~(uint32_t)STATE_ATTACHED, memory_order_relaxed);
    RPIPE_FAILPOINT("join: complete");
    return 0;
}

int join_open(struct rch *ch)
{
    enum side side = config_side(&ch->cfg);
    struct rendezvous_handshake *handshake;
    struct rendezvous *m;
    struct link *last;
    unsigned char blob[HANDSHAKE_BYTES];
    int rc;

    rendezvous_lock();
    m = rendezvous_find(ch->peer, side, (uint32_t)ch->cfg.context, true);
    if (m == NULL) {
        rendezvous_unlock();
        return -ENOMEM;
    }
    last = m->ends.prev;
    if (last != &m->ends) {
        struct rch *before =
            container_of(container_of(last, struct rendezvous_end, link), struct rch, end);

        if ((atomic_load_explicit(&before->state, memory_order_relaxed) & STATE_CLOSED) == 0) {
            rendezvous_unlock();
            return -EEXIST;
        }
    }
    rendezvous_register(m, &ch->end);
    atomic_store_explicit(
        &ch->state,
        side | (ch->cfg.threads ? STATE_LOCKED : 0u) | (ch->checked ? STATE_DEBUG : 0u) |
            (ch->trace != 0 ? STATE_TRACED : 0u) | (ch->remote != NULL ? STATE_REMOTE : 0u) |
            (ch->cells != NULL ? STATE_CELLS : 0u),
        memory_order_release);
    RPIPE_FAILPOINT("rpipe: registered");
    handshake_make(ch, blob);
    handshake = rendezvous_find_handshake(m, ch->end.incarnation);
    if (handshake != NULL && handshake->close_message) {
        ch->late = true;
        ch->peer_final = handshake->final;
        end_state_set(ch, STATE_PEER_CLOSED);
        rendezvous_drop_handshake(m, handshake);
        handshake = NULL;
    }
    /* a post only queues: our half is behind everything else that we have told the peer, and before our bye */
    rc = ch->late ? 0 : control_post(ch->peer, MESSAGE_HANDSHAKE, blob, sizeof(blob), NULL, 0);
    if (rc != 0 && rc != -EPIPE &&
        rc != -ECONNRESET) { /* nobody has heard of this end: it has not been opened */
        rendezvous_unregister(&ch->end);
        m->opened--;
        atomic_store_explicit(&ch->state, STATE_CLOSED, memory_order_release);
        rendezvous_unlock();
        return rc;
    }
    RPIPE_FAILPOINT("rpipe: half posted");
    if (handshake !=
        NULL) { /* a peer that is gone has taken along the memory that its half names */
        if (rc == 0)
            join(ch, handshake->blob, handshake->bytes);
        /* a descriptor that was not received cannot be kicked: without an acknowledgement it stays readable, which is allowed */
        if (handshake->events && rc == 0 && (handshake->event_fd >= 0 || ch->remote != NULL))
            join_events_on(ch, rendezvous_take_fd(handshake));
        rendezvous_drop_handshake(m, handshake);
    }
    if (rc != 0)
        end_state_set(ch, rc == -EPIPE ? STATE_PEER_LEFT : STATE_PEER_DIED);
    rendezvous_unlock();
    return 0;
}

/* ---- parting ---- */

/* Store lock held. Gives back everything but the handle, and that too, when nobody needs it any more. */
static void join_release_end_if_done(struct rch *ch)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_relaxed);
    struct rch *master;

    if ((state & STATE_CLOSED) == 0 ||
        (state & (STATE_PEER_CLOSED | STATE_PEER_DIED | STATE_PEER_LEFT)) == 0 || ch->users > 0 ||
        cells_are_shared(ch))
        return;
    master = cells_master(ch);
    rendezvous_unregister(&ch->end);
    handshake_release(ch);
    end_pool_put(ch);
    if (master != NULL)
        join_release_end_if_done(master); /* which may have waited for this */
}

void join_release_locked(struct rch *ch)
{
    if (ch->end.rendezvous != NULL)
        join_release_end_if_done(ch);
}

void join_release_if_done(struct rch *ch)
{
    rendezvous_lock();
    join_release_locked(ch);
    rendezvous_unlock();
}

bool join_make_close(struct rch *ch)
{
    ch->close_message = control_message_alloc(MESSAGE_CLOSE, offsetof(struct note, reason));
    return ch->close_message != NULL;
}

/* It is queued before the end can be taken for another incarnation. */
void join_post_close_locked(struct rch *ch, uint64_t final)
{
    struct note n = join_note_of(ch, final);
    struct control_message *close_message = ch->close_message;

    if (ch->late)
        return;
    ch->close_message = NULL;
    if (control_post_message(ch->peer, close_message, &n) != 0)
        atomic_fetch_or_explicit(&ch->state, STATE_PEER_LEFT,
                                 memory_order_relaxed); /* nobody is there to answer */
}

/* Store lock held: the service thread kicks through these. */
void join_set_closed_locked(struct rch *ch)
{
    if (ch->event_fd >= 0) {
        close(ch->event_fd);
        event_watch(-1);
    }
    if (ch->signal_fd >= 0)
        close(ch->signal_fd);
    ch->event_fd = ch->signal_fd = -1;
    counter_retire(ch);
    atomic_fetch_or_explicit(&ch->state, STATE_CLOSED, memory_order_acq_rel);
    if (ch->end.rendezvous != NULL && !list_empty(&ch->end.rendezvous->handshakes))
        rendezvous_arrived(); /* rpipe_pending: the next incarnation can be opened now */
}

void join_close(struct rch *ch, uint64_t final)
{
    rendezvous_lock();
    RPIPE_FAILPOINT("rclose: lock held");
    join_set_closed_locked(ch);
    join_post_close_locked(ch, final);
    RPIPE_FAILPOINT("rclose: bye posted");
    join_release_end_if_done(ch);
    rendezvous_unlock();
    RPIPE_FAILPOINT("rclose: done");
}

/* ---- what the service thread hears: store lock held ---- */

static struct rch *join_open_end(struct rendezvous *m, uint32_t incarnation)
{
    struct rendezvous_end *end = m != NULL ? rendezvous_find_end(m, incarnation) : NULL;

    return end != NULL ? container_of(end, struct rch, end) : NULL;
}

static bool join_is_closed(const struct rch *ch)
{
    return (atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_CLOSED) != 0;
}

/* There is no memory to keep it in until our end is opened. Who waits at the other one is told now, and not by his deadline. */
static void join_return_handshake(int from, const struct handshake_id *id)
{
    struct note n = {id->ctx,
                     id->incarnation,
                     (uint32_t)join_other(id->side),
                     -ENOMEM,
                     0,
                     "no memory to keep its half"};

    (void)join_post_note(MESSAGE_FAIL, from, &n, NULL);
}

static void join_on_handshake(int from, const void *body, size_t bytes)
{
    struct handshake_id id;
    struct rendezvous *m;
    struct rch *ch;
    int rc;

    if (bytes > RENDEZVOUS_BLOB_MAX || !handshake_identify(body, bytes, &id)) {
        log_few(&join_warned,
                "rank %d sends the half of a channel that cannot be understood: it is ignored",
                from);
        return;
    }
    errno = 0;
    RPIPE_FAILPOINT("join: half heard");
    m = rendezvous_find_for_peer(from, join_other(id.side), id.ctx, id.incarnation);
    if (m == NULL && errno == ENOMEM) {
        join_return_handshake(from, &id);
        return;
    }
    if (m == NULL) {
        log_few(
            &join_warned,
            "rank %d sends more halves of channels than anybody can have open: they are ignored",
            from);
        return;
    }
    ch = join_open_end(m, id.incarnation);
    if (ch != NULL) {
        uint32_t state = atomic_load_explicit(&ch->state, memory_order_relaxed);

        if (!ch->late &&
            (state & (STATE_CLOSED | STATE_JOINED | STATE_ATTACHED | STATE_FAILED)) == 0)
            join(ch, body, bytes);
    } else if (rendezvous_is_ahead(m, id.incarnation)) {
        rc = rendezvous_keep(m, id.incarnation, body, bytes, NULL);
        if (rc == -ENOMEM)
            join_return_handshake(from, &id);
        if (rc != 0)
            log_few(&join_warned, "a half of rank %d (ctx %u) is not kept: %s", from, id.ctx,
                    strerror(-rc));
        else
            rendezvous_arrived();
    }
}

static void join_on_close(int from, const struct note *n)
{
    struct rendezvous *m =
        rendezvous_find_for_peer(from, join_other((enum side)n->side), n->ctx, n->incarnation);
    struct rendezvous_handshake *handshake;
    struct rch *ch;

    RPIPE_FAILPOINT("bye: heard");
    if (m == NULL)
        return;
    ch = join_open_end(m, n->incarnation);
    if (ch != NULL) {
        if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_PEER_CLOSED) != 0)
            return; /* there is one: its user may be looking at the number */
        ch->peer_final = n->number;
        end_state_set(ch, STATE_PEER_CLOSED);
        join_release_end_if_done(ch);
    } else if (rendezvous_is_ahead(m, n->incarnation)) {
        struct note answer = {n->ctx, n->incarnation, (uint32_t)m->side, 0, 0, ""};

        handshake = rendezvous_find_handshake(m, n->incarnation);
        if (handshake == NULL && rendezvous_keep(m, n->incarnation, NULL, 0, &handshake) != 0)
            return;
        if (handshake->close_message)
            return; /* and has been answered */
        handshake->close_message = true;
        handshake->final = n->number;
        RPIPE_FAILPOINT("bye: before the answer to an early one");
        (void)join_post_note(MESSAGE_CLOSE, from, &answer,
                             NULL); /* so that the peer need not keep its memory for us */
    }
}

/* What a peer may say that it failed with: an error, and not one that means "ask again", which would be asked for ever. */
static int join_failure_code(int32_t code)
{
    return code < 0 && code > R_EOF && code != R_PENDING && code != -EINTR ? code : -EPROTO;
}

static void join_on_fail(int from, const struct note *n)
{
    struct rch *ch = join_open_end(
        rendezvous_find(from, join_other((enum side)n->side), n->ctx, false), n->incarnation);
    char reason[REASON_BYTES + 64];

    if (ch == NULL || join_is_closed(ch))
        return;
    snprintf(reason, sizeof(reason), "rank %d gave this channel up: %.*s", from, REASON_BYTES - 1,
             n->reason);
    text_make_printable(reason);
    (void)end_set_failed(ch, join_failure_code(n->code), reason);
}

/* True if the descriptor has been kept. */
static bool join_on_event_on(int from, const struct note *n, int fd)
{
    struct rendezvous *m = rendezvous_find(from, join_other((enum side)n->side), n->ctx, false);
    struct rch *ch = join_open_end(m, n->incarnation);
    struct rendezvous_handshake *handshake;

    if (m == NULL || m->side != SIDE_WRITER)
        return false;
    if (ch != NULL && !join_is_closed(ch)) {
        if (fd < 0 && ch->remote == NULL)
            return false; /* it stays readable, which is allowed */
        join_events_on(ch, fd);
        return true;
    }
    handshake = ch == NULL ? rendezvous_find_handshake(m, n->incarnation) : NULL;
    return handshake != NULL && !handshake->events &&
           rendezvous_keep_fd(handshake, fd); /* if not: as above */
}

static void join_on_event_ack(int from, const struct note *n)
{
    struct rch *ch = join_open_end(
        rendezvous_find(from, join_other((enum side)n->side), n->ctx, false), n->incarnation);

    if (ch == NULL || join_is_closed(ch) || ch->signal_fd < 0 ||
        config_side(&ch->cfg) != SIDE_READER)
        return;
    RPIPE_FAILPOINT("event: acknowledgement heard");
    /* first what is owed, then that the mode is on, then what wakes: rread reads them in the other order (acquire) */
    atomic_store_explicit(&ch->r.want, n->number, memory_order_relaxed);
    atomic_store_explicit(&ch->r.acked, true, memory_order_release);
    end_signal(ch);
}

/* So much has been written over a network: it is here, or will be. */
static void join_on_signal(int from, const struct note *n)
{
    struct rch *ch = join_open_end(
        rendezvous_find(from, join_other((enum side)n->side), n->ctx, false), n->incarnation);

    if (ch == NULL || join_is_closed(ch) || ch->signal_fd < 0 ||
        config_side(&ch->cfg) != SIDE_READER)
        return;
    /* first what is owed, then what wakes: as in on_event_ack */
    if (n->number > atomic_load_explicit(&ch->r.want, memory_order_relaxed))
        atomic_store_explicit(&ch->r.want, n->number, memory_order_relaxed);
    end_signal(ch);
}

static void join_on_growth(int from, uint32_t type, const void *body, size_t bytes)
{
    uint32_t ctx, incarnation, side;
    struct rch *ch;

    if (!grow_identify(body, bytes, &ctx, &incarnation, &side)) {
        log_few(&join_warned,
                "rank %d speaks of a growing heap in a way that this version does not understand",
                from);
        return;
    }
    ch = join_open_end(rendezvous_find(from, join_other((enum side)side), ctx, false), incarnation);
    if (ch == NULL || join_is_closed(ch))
        return;
    if (type == MESSAGE_GROW)
        grow_on_request(ch, body);
    else
        grow_on_reply(ch, body);
}

static void join_on_cells(int from, uint32_t type, const void *body, size_t bytes)
{
    uint32_t ctx, incarnation, side;
    struct rch *ch;

    if (!cells_identify(body, bytes, &ctx, &incarnation, &side)) {
        log_few(&join_warned,
                "rank %d speaks of cells in a way that this version does not understand", from);
        return;
    }
    ch = join_open_end(rendezvous_find(from, join_other((enum side)side), ctx, false), incarnation);
    if (ch == NULL || join_is_closed(ch))
        return;
    if (type == MESSAGE_ATOMIC)
        cells_on_request(ch, body);
    else
        cells_on_reply(ch, body);
}

void join_message(int from, uint32_t type, const void *body, size_t bytes, const int *fds, int nfds)
{
    size_t least = type == MESSAGE_FAIL ? sizeof(struct note) : offsetof(struct note, reason);
    struct note n = {0};
    bool kept = false;
    int i;

    if (type == MESSAGE_CLOCK || type == MESSAGE_CLOCK_REPLY) {
        trace_clock_message(from, type, body, bytes);
        goto out;
    }
    if (type == MESSAGE_BTL) {
        RPIPE_FAILPOINT("memory: told by the peer");
        btl_message(from, body, bytes, fds, nfds);
        RPIPE_FAILPOINT("memory: window open");
        return;
    }
    rendezvous_lock();
    if (type == MESSAGE_HANDSHAKE) {
        join_on_handshake(from, body, bytes);
    } else if (type == MESSAGE_GROW || type == MESSAGE_GROWN) {
        join_on_growth(from, type, body, bytes);
    } else if (type == MESSAGE_ATOMIC || type == MESSAGE_ATOMIC_DONE) {
        join_on_cells(from, type, body, bytes);
    } else if (bytes == least) {
        memcpy(&n, body, bytes);
        n.reason[REASON_BYTES - 1] = '\0';
        if (n.side != SIDE_WRITER && n.side != SIDE_READER)
            log_few(&join_warned, "rank %d speaks of an end that is neither writer nor reader",
                    from);
        else if (type == MESSAGE_CLOSE)
            join_on_close(from, &n);
        else if (type == MESSAGE_FAIL)
            join_on_fail(from, &n);
        else if (type == MESSAGE_EVENT_ON && nfds <= 1)
            kept = join_on_event_on(from, &n, nfds == 1 ? fds[0] : -1);
        else if (type == MESSAGE_EVENT_ACK)
            join_on_event_ack(from, &n);
        else if (type == MESSAGE_SIGNAL)
            join_on_signal(from, &n);
    } else {
        log_few(&join_warned,
                "rank %d sends a message of type %u that this version does not understand", from,
                type);
    }
    rendezvous_unlock();
out:
    for (i = kept ? 1 : 0; i < nfds; i++)
        close(fds[i]);
}

/* ---- the end of a peer ---- */

void join_peer_gone(int rank, bool died)
{
    struct link *cursor, *after;
    struct rendezvous *m;
    size_t at = 0;

    rendezvous_lock();
    while ((m = rendezvous_next(&at)) != NULL) {
        if (m->peer != rank)
            continue;
        list_for_each (cursor, after, &m->ends) {
            struct rch *ch =
                container_of(container_of(cursor, struct rendezvous_end, link), struct rch, end);

            end_state_set(ch, died ? STATE_PEER_DIED : STATE_PEER_LEFT);
            join_release_end_if_done(ch);
        }
        list_for_each (cursor, after, &m->handshakes) { /* nobody will be kicked any more */
            int fd = rendezvous_take_fd(container_of(cursor, struct rendezvous_handshake, link));

            if (fd >= 0)
                close(fd);
        }
    }
    rendezvous_unlock();
    btl_peer_gone(rank);
}

void join_tick(void)
{
    struct link *cursor, *after;
    struct rendezvous *m;
    size_t at = 0;

    rendezvous_lock();
    while ((m = rendezvous_next(&at)) != NULL) {
        list_for_each (cursor, after, &m->ends) {
            struct rch *ch =
                container_of(container_of(cursor, struct rendezvous_end, link), struct rch, end);

            if (!join_is_closed(ch) && ch->event_fd >= 0 && liveness_died(ch->liveness))
                end_signal(ch);
        }
    }
    rendezvous_unlock();
}

void join_leave(void)
{
    struct link *cursor, *after;
    struct rendezvous *m;
    size_t at = 0;

    rendezvous_lock();
    while ((m = rendezvous_next(&at)) != NULL) {
        list_for_each (cursor, after, &m->ends) {
            struct rch *ch =
                container_of(container_of(cursor, struct rendezvous_end, link), struct rch, end);

            if (!join_is_closed(ch))
                end_state_set(ch, STATE_EXITING);
        }
    }
    rendezvous_unlock();
}

int join_ask_events(struct rch *ch)
{
    struct note n = join_note_of(ch, 0);

    return ch->late ? 0
                    : join_post_note(MESSAGE_EVENT_ON, ch->peer, &n,
                                     ch->remote == NULL ? &ch->signal_fd : NULL);
}

void join_signal(struct rch *ch, uint64_t number)
{
    struct note n = join_note_of(ch, number);

    (void)join_post_note(MESSAGE_SIGNAL, ch->peer, &n,
                         NULL); /* a peer that is gone waits for nothing */
}

/* ---- for the sentence of a deadline ---- */

const char *join_pending(const struct rch *ch)
{
    static _Thread_local char text[256];
    uint32_t side = (uint32_t)config_side(&ch->cfg);
    size_t used = 0, at = 0;
    struct rendezvous *m;
    int published_end = 0;

    snprintf(text, sizeof(text), "rank %d has opened no end that could be joined to it", ch->peer);
    rendezvous_lock();
    while ((m = rendezvous_next(&at)) != NULL && published_end < 3) {
        struct link *cursor, *after;

        if (m->peer != ch->peer)
            continue;
        list_for_each (cursor, after, &m->handshakes) {
            struct handshake_id id;
            struct rendezvous_handshake *handshake =
                container_of(cursor, struct rendezvous_handshake, link);

            if (handshake->close_message ||
                !handshake_identify(handshake->blob, handshake->bytes, &id))
                continue;
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s of ctx %u (%s)%s",
                                     published_end == 0 ? "pending there: the " : ", the ",
                                     id.side == SIDE_WRITER ? "writer" : "reader", id.ctx,
                                     config_op_name(id.op),
                                     id.side == side && id.ctx == ch->cfg.context
                                         ? ", which is this side too: exactly one end is the writer"
                                         : "");
            if (used >= sizeof(text))
                used = sizeof(text) - 1;
            published_end++;
            break;
        }
    }
    rendezvous_unlock();
    return text;
}
