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

static _Atomic unsigned told; /* of what peers have said that is not understood */

static enum side other(enum side side) { return side == SIDE_WRITER ? SIDE_READER : SIDE_WRITER; }

static int post_note(enum message type, int peer, struct note *n, const int *fd)
{
    if (type != MESSAGE_FAIL)
        return control_post(peer, type, n, offsetof(struct note, reason), fd, fd != NULL ? 1 : 0);
    return control_post(peer, type, n, sizeof(*n), NULL, 0);
}

static struct note note_of(const struct rch *ch, uint64_t number)
{
    return (struct note){ch->cfg.ctx, ch->end.incarnation, (uint32_t)config_side(&ch->cfg), 0, number, ""};
}

/* ---- notices: store lock held ---- */

void notice_set(struct rch *ch, uint32_t bits)
{
    uint32_t before =
        atomic_fetch_or_explicit(&ch->notice, bits, memory_order_acq_rel); /* pairs with the loads of notice */
    _Atomic uint32_t *word = own_wake_word(ch, before | bits);

    if ((before & NOTICE_CLOSED) != 0)
        return;
    wake_look(&ch->own_wake, true);
    if (word != &ch->own_wake)
        wake_look(word, true);
    if ((before & NOTICE_READER) != 0 && ch->event_arm >= 0)
        channel_kick(ch);
}

/* False: it has failed before, and what was said then stands. */
static bool set_failed(struct rch *ch, int code, const char *reason)
{
    if ((atomic_load_explicit(&ch->notice, memory_order_relaxed) & NOTICE_FAILED) != 0)
        return false;
    ch->failure = code;
    ch->reason = strdup(reason);
    notice_set(ch, NOTICE_FAILED);
    return true;
}

static void tell_failed(struct rch *ch, int code, const char *reason)
{
    struct note n = note_of(ch, 0);

    n.code = code;
    snprintf(n.reason, sizeof(n.reason), "%s", reason);
    (void)post_note(MESSAGE_FAIL, ch->peer, &n, NULL); /* a peer that is gone needs no word */
}

void join_fail_locked(struct rch *ch, int code, const char *reason)
{
    if (set_failed(ch, code, reason)) /* once: a peer who goes on with his nonsense is not answered each time */
        tell_failed(ch, code, reason);
}

void join_fail(struct rch *ch, int code, const char *reason)
{
    store_lock();
    join_fail_locked(ch, code, reason);
    store_unlock();
}

/* ---- joining: store lock held ---- */

static void events_on(struct rch *ch, int fd)
{
    struct note n;

    if ((atomic_load_explicit(&ch->notice, memory_order_relaxed) & NOTICE_EVENT) != 0) { /* asked twice */
        if (fd >= 0)
            close(fd);
        return;
    }
    ch->event_arm = fd;
    notice_set(ch, NOTICE_EVENT);
    RPIPE_STEP("event: writer in event mode");
    /* every thread of this process has passed a fence: each slot not covered by `begun` is followed by a look that sees EVENT */
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    n = note_of(ch, atomic_load_explicit(&ch->w.sent, memory_order_seq_cst));
    (void)post_note(MESSAGE_EVENT_ACK, ch->peer, &n, NULL);
    RPIPE_STEP("event: acknowledged");
}

/* Attaches the peer's half to an open end. */
static void join(struct rch *ch, const void *blob, size_t bytes)
{
    char reason[REASON_BYTES];
    int rc = half_attach(ch, blob, bytes, reason, sizeof(reason));

    if (rc != 0) {
        log_error("%s cannot be joined: %s", channel_name(ch), reason);
        (void)set_failed(ch, rc, reason);
        /* where the halves disagree the peer sees that by itself; what only happened here it has to be told */
        tell_failed(ch, rc, reason);
        return;
    }
    RPIPE_STEP("join: half attached");
    ch->fences = !(control_membarrier() && control_peer_membarrier(ch->peer));
    ch->life = control_life(ch->peer);
    trace_moment(ch->trace, TRACE_JOIN, 0, 0, 0);
    notice_set(ch, config_side(&ch->cfg) == SIDE_WRITER ? NOTICE_MET : NOTICE_JOINED);
    RPIPE_STEP("join: noted");
}

int join_complete(struct rch *ch, int64_t deadline)
{
    uint32_t notice = atomic_load_explicit(&ch->notice, memory_order_acquire);
    int64_t slice = deadline == DEADLINE_NOW ? DEADLINE_NOW : clock_now() + WAIT_SLICE_MS * NS_PER_MS;
    int rc;

    if ((notice & (NOTICE_MET | NOTICE_JOINED)) != NOTICE_MET)
        return (notice & NOTICE_JOINED) != 0 ? 0 : R_PENDING;
    if (control_flush(ch->peer, slice < deadline ? slice : deadline) != 0)
        return R_PENDING;
    RPIPE_STEP("join: own half with the kernel");
    rc = net_up(ch);
    if (rc != 0)
        return rc;
    atomic_fetch_or_explicit(&ch->notice, NOTICE_JOINED, memory_order_acq_rel); /* never neither of the two */
    atomic_fetch_and_explicit(&ch->notice, ~(uint32_t)NOTICE_MET, memory_order_relaxed);
    RPIPE_STEP("join: complete");
    return 0;
}

int join_open(struct rch *ch)
{
    enum side side = config_side(&ch->cfg);
    struct store_half *half;
    struct meeting *m;
    struct link *last;
    unsigned char blob[HALF_BYTES];
    int rc;

    store_lock();
    m = store_meeting(ch->peer, side, ch->cfg.ctx, true);
    if (m == NULL) {
        store_unlock();
        return -ENOMEM;
    }
    last = m->ends.prev;
    if (last != &m->ends) {
        struct rch *before = container_of(container_of(last, struct store_end, link), struct rch, end);

        if ((atomic_load_explicit(&before->notice, memory_order_relaxed) & NOTICE_CLOSED) == 0) {
            store_unlock();
            return -EEXIST;
        }
    }
    store_register(m, &ch->end);
    atomic_store_explicit(&ch->notice,
                          side | (ch->cfg.thread_sync ? NOTICE_LOCKED : 0u) | (ch->checked ? NOTICE_CHECKED : 0u) |
                              (ch->trace != 0 ? NOTICE_TRACED : 0u) | (ch->net != NULL ? NOTICE_NET : 0u) |
                              (ch->cells != NULL ? NOTICE_CELLS : 0u),
                          memory_order_release);
    RPIPE_STEP("rpipe: registered");
    half_make(ch, blob);
    half = store_find_half(m, ch->end.incarnation);
    if (half != NULL && half->bye) {
        ch->late = true;
        ch->bye_final = half->final;
        notice_set(ch, NOTICE_BYE);
        store_drop_half(m, half);
        half = NULL;
    }
    /* a post only queues: our half is behind everything else that we have told the peer, and before our bye */
    rc = ch->late ? 0 : control_post(ch->peer, MESSAGE_HALF, blob, sizeof(blob), NULL, 0);
    if (rc != 0 && rc != -EPIPE && rc != -ECONNRESET) { /* nobody has heard of this end: it has not been opened */
        store_unregister(&ch->end);
        m->opened--;
        atomic_store_explicit(&ch->notice, NOTICE_CLOSED, memory_order_release);
        store_unlock();
        return rc;
    }
    RPIPE_STEP("rpipe: half posted");
    if (half != NULL) { /* a peer that is gone has taken along the memory that its half names */
        if (rc == 0)
            join(ch, half->blob, half->bytes);
        /* a descriptor that was not received cannot be kicked: without an acknowledgement it stays readable, which is allowed */
        if (half->events && rc == 0 && (half->event_fd >= 0 || ch->net != NULL))
            events_on(ch, store_take_fd(half));
        store_drop_half(m, half);
    }
    if (rc != 0)
        notice_set(ch, rc == -EPIPE ? NOTICE_LEFT : NOTICE_DEAD);
    store_unlock();
    return 0;
}

/* ---- parting ---- */

/* Store lock held. Gives back everything but the handle, and that too, when nobody needs it any more. */
static void release_if_done(struct rch *ch)
{
    uint32_t notice = atomic_load_explicit(&ch->notice, memory_order_relaxed);
    struct rch *master;

    if ((notice & NOTICE_CLOSED) == 0 || (notice & (NOTICE_BYE | NOTICE_DEAD | NOTICE_LEFT)) == 0 || ch->users > 0 ||
        cells_are_shared(ch))
        return;
    master = cells_master(ch);
    store_unregister(&ch->end);
    half_release(ch);
    ends_put(ch);
    if (master != NULL)
        release_if_done(master); /* which may have waited for this */
}

void join_release_locked(struct rch *ch)
{
    if (ch->end.meeting != NULL)
        release_if_done(ch);
}

void join_release_if_done(struct rch *ch)
{
    store_lock();
    join_release_locked(ch);
    store_unlock();
}

bool join_make_bye(struct rch *ch)
{
    ch->bye = control_make(MESSAGE_BYE, offsetof(struct note, reason));
    return ch->bye != NULL;
}

/* It is queued before the end can be taken for another incarnation. */
void join_say_bye_locked(struct rch *ch, uint64_t final)
{
    struct note n = note_of(ch, final);
    struct control_made *bye = ch->bye;

    if (ch->late)
        return;
    ch->bye = NULL;
    if (control_post_made(ch->peer, bye, &n) != 0)
        atomic_fetch_or_explicit(&ch->notice, NOTICE_LEFT, memory_order_relaxed); /* nobody is there to answer */
}

/* Store lock held: the service thread kicks through these. */
void join_set_closed_locked(struct rch *ch)
{
    if (ch->event_fd >= 0) {
        close(ch->event_fd);
        event_watch(-1);
    }
    if (ch->event_arm >= 0)
        close(ch->event_arm);
    ch->event_fd = ch->event_arm = -1;
    counter_retire(ch);
    atomic_fetch_or_explicit(&ch->notice, NOTICE_CLOSED, memory_order_acq_rel);
    if (ch->end.meeting != NULL && !list_empty(&ch->end.meeting->halves))
        store_arrived(); /* rpipe_pending: the next incarnation can be opened now */
}

void join_close(struct rch *ch, uint64_t final)
{
    store_lock();
    RPIPE_STEP("rclose: lock held");
    join_set_closed_locked(ch);
    join_say_bye_locked(ch, final);
    RPIPE_STEP("rclose: bye posted");
    release_if_done(ch);
    store_unlock();
    RPIPE_STEP("rclose: done");
}

/* ---- what the service thread hears: store lock held ---- */

static struct rch *open_end(struct meeting *m, uint32_t incarnation)
{
    struct store_end *end = m != NULL ? store_find_end(m, incarnation) : NULL;

    return end != NULL ? container_of(end, struct rch, end) : NULL;
}

static bool is_closed(const struct rch *ch)
{
    return (atomic_load_explicit(&ch->notice, memory_order_relaxed) & NOTICE_CLOSED) != 0;
}

/* There is no memory to keep it in until our end is opened. Who waits at the other one is told now, and not by his deadline. */
static void give_back_half(int from, const struct half_id *id)
{
    struct note n = {id->ctx, id->incarnation, (uint32_t)other(id->side), -ENOMEM, 0, "no memory to keep its half"};

    (void)post_note(MESSAGE_FAIL, from, &n, NULL);
}

static void hear_half(int from, const void *body, size_t bytes)
{
    struct half_id id;
    struct meeting *m;
    struct rch *ch;
    int rc;

    if (bytes > STORE_BLOB_MAX || !half_identify(body, bytes, &id)) {
        log_few(&told, "rank %d sends the half of a channel that cannot be understood: it is ignored", from);
        return;
    }
    errno = 0;
    RPIPE_STEP("join: half heard");
    m = store_visited(from, other(id.side), id.ctx, id.incarnation);
    if (m == NULL && errno == ENOMEM) {
        give_back_half(from, &id);
        return;
    }
    if (m == NULL) {
        log_few(&told, "rank %d sends more halves of channels than anybody can have open: they are ignored", from);
        return;
    }
    ch = open_end(m, id.incarnation);
    if (ch != NULL) {
        uint32_t notice = atomic_load_explicit(&ch->notice, memory_order_relaxed);

        if (!ch->late && (notice & (NOTICE_CLOSED | NOTICE_JOINED | NOTICE_MET | NOTICE_FAILED)) == 0)
            join(ch, body, bytes);
    } else if (store_is_ahead(m, id.incarnation)) {
        rc = store_keep(m, id.incarnation, body, bytes, NULL);
        if (rc == -ENOMEM)
            give_back_half(from, &id);
        if (rc != 0)
            log_few(&told, "a half of rank %d (ctx %u) is not kept: %s", from, id.ctx, strerror(-rc));
        else
            store_arrived();
    }
}

static void hear_bye(int from, const struct note *n)
{
    struct meeting *m = store_visited(from, other((enum side)n->side), n->ctx, n->incarnation);
    struct store_half *half;
    struct rch *ch;

    RPIPE_STEP("bye: heard");
    if (m == NULL)
        return;
    ch = open_end(m, n->incarnation);
    if (ch != NULL) {
        if ((atomic_load_explicit(&ch->notice, memory_order_relaxed) & NOTICE_BYE) != 0)
            return; /* there is one: its user may be looking at the number */
        ch->bye_final = n->number;
        notice_set(ch, NOTICE_BYE);
        release_if_done(ch);
    } else if (store_is_ahead(m, n->incarnation)) {
        struct note answer = {n->ctx, n->incarnation, (uint32_t)m->side, 0, 0, ""};

        half = store_find_half(m, n->incarnation);
        if (half == NULL && store_keep(m, n->incarnation, NULL, 0, &half) != 0)
            return;
        if (half->bye)
            return; /* and has been answered */
        half->bye = true;
        half->final = n->number;
        RPIPE_STEP("bye: before the answer to an early one");
        (void)post_note(MESSAGE_BYE, from, &answer, NULL); /* so that the peer need not keep its memory for us */
    }
}

/* What a peer may say that it failed with: an error, and not one that means "ask again", which would be asked for ever. */
static int failure_of(int32_t code)
{
    return code < 0 && code > R_EOF && code != R_PENDING && code != -EINTR ? code : -EPROTO;
}

static void hear_fail(int from, const struct note *n)
{
    struct rch *ch = open_end(store_meeting(from, other((enum side)n->side), n->ctx, false), n->incarnation);
    char reason[REASON_BYTES + 64];

    if (ch == NULL || is_closed(ch))
        return;
    snprintf(reason, sizeof(reason), "rank %d gave this channel up: %.*s", from, REASON_BYTES - 1, n->reason);
    text_make_printable(reason);
    (void)set_failed(ch, failure_of(n->code), reason);
}

/* True if the descriptor has been kept. */
static bool hear_event_on(int from, const struct note *n, int fd)
{
    struct meeting *m = store_meeting(from, other((enum side)n->side), n->ctx, false);
    struct rch *ch = open_end(m, n->incarnation);
    struct store_half *half;

    if (m == NULL || m->side != SIDE_WRITER)
        return false;
    if (ch != NULL && !is_closed(ch)) {
        if (fd < 0 && ch->net == NULL)
            return false; /* it stays readable, which is allowed */
        events_on(ch, fd);
        return true;
    }
    half = ch == NULL ? store_find_half(m, n->incarnation) : NULL;
    return half != NULL && !half->events && store_keep_fd(half, fd); /* if not: as above */
}

static void hear_event_ack(int from, const struct note *n)
{
    struct rch *ch = open_end(store_meeting(from, other((enum side)n->side), n->ctx, false), n->incarnation);

    if (ch == NULL || is_closed(ch) || ch->event_arm < 0 || config_side(&ch->cfg) != SIDE_READER)
        return;
    RPIPE_STEP("event: acknowledgement heard");
    /* first what is owed, then that the mode is on, then what wakes: rread reads them in the other order (acquire) */
    atomic_store_explicit(&ch->r.want, n->number, memory_order_relaxed);
    atomic_store_explicit(&ch->r.acked, true, memory_order_release);
    channel_kick(ch);
}

/* So much has been written over a network: it is here, or will be. */
static void hear_kick(int from, const struct note *n)
{
    struct rch *ch = open_end(store_meeting(from, other((enum side)n->side), n->ctx, false), n->incarnation);

    if (ch == NULL || is_closed(ch) || ch->event_arm < 0 || config_side(&ch->cfg) != SIDE_READER)
        return;
    /* first what is owed, then what wakes: as in hear_event_ack */
    if (n->number > atomic_load_explicit(&ch->r.want, memory_order_relaxed))
        atomic_store_explicit(&ch->r.want, n->number, memory_order_relaxed);
    channel_kick(ch);
}

static void hear_growth(int from, uint32_t type, const void *body, size_t bytes)
{
    uint32_t ctx, incarnation, side;
    struct rch *ch;

    if (!grow_identify(body, bytes, &ctx, &incarnation, &side)) {
        log_few(&told, "rank %d speaks of a growing heap in a way that this version does not understand", from);
        return;
    }
    ch = open_end(store_meeting(from, other((enum side)side), ctx, false), incarnation);
    if (ch == NULL || is_closed(ch))
        return;
    if (type == MESSAGE_GROW)
        grow_hear_question(ch, body);
    else
        grow_hear_answer(ch, body);
}

static void hear_cells(int from, uint32_t type, const void *body, size_t bytes)
{
    uint32_t ctx, incarnation, side;
    struct rch *ch;

    if (!cells_identify(body, bytes, &ctx, &incarnation, &side)) {
        log_few(&told, "rank %d speaks of cells in a way that this version does not understand", from);
        return;
    }
    ch = open_end(store_meeting(from, other((enum side)side), ctx, false), incarnation);
    if (ch == NULL || is_closed(ch))
        return;
    if (type == MESSAGE_ATOMIC)
        cells_hear_request(ch, body);
    else
        cells_hear_answer(ch, body);
}

void join_message(int from, uint32_t type, const void *body, size_t bytes, const int *fds, int nfds)
{
    size_t least = type == MESSAGE_FAIL ? sizeof(struct note) : offsetof(struct note, reason);
    struct note n = {0};
    bool kept = false;
    int i;

    if (type == MESSAGE_CLOCK || type == MESSAGE_CLOCK_TOLD) {
        trace_clock_message(from, type, body, bytes);
        goto out;
    }
    if (type == MESSAGE_BTL) {
        RPIPE_STEP("memory: told by the peer");
        btl_message(from, body, bytes, fds, nfds);
        RPIPE_STEP("memory: window open");
        return;
    }
    store_lock();
    if (type == MESSAGE_HALF) {
        hear_half(from, body, bytes);
    } else if (type == MESSAGE_GROW || type == MESSAGE_GROWN) {
        hear_growth(from, type, body, bytes);
    } else if (type == MESSAGE_ATOMIC || type == MESSAGE_ATOMIC_DONE) {
        hear_cells(from, type, body, bytes);
    } else if (bytes == least) {
        memcpy(&n, body, bytes);
        n.reason[REASON_BYTES - 1] = '\0';
        if (n.side != SIDE_WRITER && n.side != SIDE_READER)
            log_few(&told, "rank %d speaks of an end that is neither writer nor reader", from);
        else if (type == MESSAGE_BYE)
            hear_bye(from, &n);
        else if (type == MESSAGE_FAIL)
            hear_fail(from, &n);
        else if (type == MESSAGE_EVENT_ON && nfds <= 1)
            kept = hear_event_on(from, &n, nfds == 1 ? fds[0] : -1);
        else if (type == MESSAGE_EVENT_ACK)
            hear_event_ack(from, &n);
        else if (type == MESSAGE_KICK)
            hear_kick(from, &n);
    } else {
        log_few(&told, "rank %d sends a message of type %u that this version does not understand", from, type);
    }
    store_unlock();
out:
    for (i = kept ? 1 : 0; i < nfds; i++)
        close(fds[i]);
}

/* ---- the end of a peer ---- */

void join_peer_gone(int rank, bool died)
{
    struct link *cursor, *after;
    struct meeting *m;
    size_t at = 0;

    store_lock();
    while ((m = store_next(&at)) != NULL) {
        if (m->peer != rank)
            continue;
        list_for_each (cursor, after, &m->ends) {
            struct rch *ch = container_of(container_of(cursor, struct store_end, link), struct rch, end);

            notice_set(ch, died ? NOTICE_DEAD : NOTICE_LEFT);
            release_if_done(ch);
        }
        list_for_each (cursor, after, &m->halves) { /* nobody will be kicked any more */
            int fd = store_take_fd(container_of(cursor, struct store_half, link));

            if (fd >= 0)
                close(fd);
        }
    }
    store_unlock();
    btl_peer_gone(rank);
}

void join_tick(void)
{
    struct link *cursor, *after;
    struct meeting *m;
    size_t at = 0;

    store_lock();
    while ((m = store_next(&at)) != NULL) {
        list_for_each (cursor, after, &m->ends) {
            struct rch *ch = container_of(container_of(cursor, struct store_end, link), struct rch, end);

            if (!is_closed(ch) && ch->event_fd >= 0 && life_died(ch->life))
                channel_kick(ch);
        }
    }
    store_unlock();
}

void join_leave(void)
{
    struct link *cursor, *after;
    struct meeting *m;
    size_t at = 0;

    store_lock();
    while ((m = store_next(&at)) != NULL) {
        list_for_each (cursor, after, &m->ends) {
            struct rch *ch = container_of(container_of(cursor, struct store_end, link), struct rch, end);

            if (!is_closed(ch))
                notice_set(ch, NOTICE_LEAVING);
        }
    }
    store_unlock();
}

int join_ask_events(struct rch *ch)
{
    struct note n = note_of(ch, 0);

    return ch->late ? 0 : post_note(MESSAGE_EVENT_ON, ch->peer, &n, ch->net == NULL ? &ch->event_arm : NULL);
}

void join_kick(struct rch *ch, uint64_t number)
{
    struct note n = note_of(ch, number);

    (void)post_note(MESSAGE_KICK, ch->peer, &n, NULL); /* a peer that is gone waits for nothing */
}

/* ---- for the sentence of a deadline ---- */

const char *join_pending(const struct rch *ch)
{
    static _Thread_local char text[256];
    uint32_t side = (uint32_t)config_side(&ch->cfg);
    size_t used = 0, at = 0;
    struct meeting *m;
    int shown = 0;

    snprintf(text, sizeof(text), "rank %d has opened no end that could be joined to it", ch->peer);
    store_lock();
    while ((m = store_next(&at)) != NULL && shown < 3) {
        struct link *cursor, *after;

        if (m->peer != ch->peer)
            continue;
        list_for_each (cursor, after, &m->halves) {
            struct half_id id;
            struct store_half *half = container_of(cursor, struct store_half, link);

            if (half->bye || !half_identify(half->blob, half->bytes, &id))
                continue;
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s of ctx %u (%s)%s",
                                     shown == 0 ? "pending there: the " : ", the ",
                                     id.side == SIDE_WRITER ? "writer" : "reader", id.ctx, config_op_name(id.op),
                                     id.side == side && id.ctx == ch->cfg.ctx
                                         ? ", which is this side too: exactly one end is the writer"
                                         : "");
            if (used >= sizeof(text))
                used = sizeof(text) - 1;
            shown++;
            break;
        }
    }
    store_unlock();
    return text;
}
