/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * join.c: how the two ends of a pipe find each other (doc/protocol.md, model/join.pml).
 *
 * An end posts its handshake when it opens and its close message when it closes (close.c). Each end joins independently as
 * soon as it holds both handshakes; there is no reply. Invariants, under the rendezvous lock:
 *   - finding the peer's handshake and registering as open are one step;
 *   - everything that can fail locally has been done before the end is registered;
 *   - the handshake is the first message about an end, and messages to one peer arrive in order: the n-th end that this process
 *     opens under a context is paired with the n-th of the peer, without a count that had to be kept (rendezvous.h);
 *   - an end in the list of an entry is open, or closed and waits for the peer's close message; the service thread touches an
 *     end, its wake words included, only while it is in the list and not closed;
 *   - a close message for an end without an own end is answered at once, and the own end that is opened for it ("late") touches
 *     nothing.
 */
#include "rpipe/connect/join.h"

#include "rpipe/connect/close.h"
#include "rpipe/connect/handshake.h"
#include "rpipe/connect/open.h"
#include "rpipe/connect/roles.h"
#include "rpipe/end/path.h"
#include "rpipe/end/config.h"
#include "rpipe/end/error.h"
#include "rpipe/end/state.h"
#include "rpipe/wait/event_message.h"

#include "control/control.h"
#include "observe/record/trace.h"
#include "util/failpoint.h"
#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The end does not wait for a handshake: it has one, has been closed at either side, has failed, or never gets one. */
#define JOIN_DECIDED                                                                               \
    (STATE_CLOSED | STATE_JOINED | STATE_ATTACHED | STATE_FAILED | STATE_PEER_CLOSED |             \
     STATE_PEER_EXITING)

static _Atomic unsigned join_warned; /* messages about invalid handshakes */

/* ---- joining: rendezvous lock held ---- */

/*
 * An end that was opened without sizes takes over those of the peer, allocates, and posts a handshake that offers its memory: the
 * peer joins with that one.
 */
static int join_adopt(struct rch *ch, const struct handshake *h, struct error *err)
{
    struct handshake own;
    int rc = handshake_adopt(ch, h, err);

    if (rc == 0)
        rc = end_size(ch, err);
    if (rc != 0)
        return rc;
    end_state_set(ch, ch->path->state);
    handshake_make(ch, &own);
    rc = message_post(ch->peer, MESSAGE_HANDSHAKE, &own.head, NULL);
    if (rc != 0 && rc != -EPIPE && rc != -ECONNRESET)
        return error_set(err, rc, "no memory for the handshake");
    return 0;
}

/* Without membarrier(2) at both ends each store that may end a wait is followed by a fence. */
static void join_choose_fences(struct rch *ch)
{
    ch->fences = !(control_membarrier() && control_peer_membarrier(ch->peer));
    if (!ch->fences && config_side(&ch->cfg) == SIDE_WRITER)
        atomic_fetch_and_explicit(&ch->w.after, ~(uint32_t)AFTER_FENCE, memory_order_relaxed);
}

/* Attaches what the peer's handshake names to an open end. */
static void join(struct rch *ch, const struct handshake *h)
{
    struct error err = {""};
    int rc = 0;

    if (handshake_is_open(
            h)) { /* the peer takes over the sizes of this end; its next handshake joins */
        rc = handshake_compare_op(ch, h, &err);
        ch->peer_opened = true;
        if (rc == 0)
            return;
    }
    if (rc == 0 && config_is_open(&ch->cfg))
        rc = join_adopt(ch, h, &err);
    if (rc == 0)
        rc = handshake_attach(ch, h, &err);
    if (rc != 0) {
        log_error("%s: cannot join: %s", end_name(ch), err.text);
        /* where the handshakes differ the peer finds that out itself; what failed here alone it must be sent */
        end_fail_locked(ch, rc, "%s", err.text);
        return;
    }
    RPIPE_FAILPOINT("join: handshake attached");
    join_choose_fences(ch);
    ch->liveness = control_liveness_hold(ch->peer); /* until close_release() */
    if (h->incarnation >
        ch->end.incarnation) /* this process has forgotten that it was open before */
        trace_set_incarnation(ch->trace, h->incarnation);
    trace_moment(ch->trace, TRACE_JOIN, 0, 0, 0);
    end_state_set(ch, config_side(&ch->cfg) == SIDE_WRITER ? STATE_ATTACHED : STATE_JOINED);
    RPIPE_FAILPOINT("join: state set");
}

void join_peer_exiting(struct rch *ch)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_relaxed);

    if (!ch->late && !ch->peer_opened && (state & JOIN_DECIDED) == 0)
        end_state_set(ch, STATE_PEER_EXITING);
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
    RPIPE_FAILPOINT("join: own handshake in the kernel");
    rc = ch->path->connected(ch);
    if (rc != 0)
        return rc;
    /* release: pairs with the loads of `state`; at no time neither of the two bits is set */
    atomic_fetch_or_explicit(&ch->state, STATE_JOINED, memory_order_acq_rel);
    atomic_fetch_and_explicit(&ch->state, ~(uint32_t)STATE_ATTACHED, memory_order_relaxed);
    RPIPE_FAILPOINT("join: complete");
    return 0;
}

/* ---- opening: rendezvous lock held ---- */

static uint32_t join_first_state(const struct rch *ch)
{
    return (uint32_t)config_side(&ch->cfg) | (ch->cfg.threads ? STATE_LOCKED : 0u) |
           (ch->checked ? STATE_DEBUG : 0u) | (ch->trace != 0 ? STATE_TRACED : 0u) |
           ch->path->state | (ch->cfg.op == OP_CELLS ? STATE_CELLS : 0u) |
           (ch->cfg.memory != NULL ? STATE_DEVICE : 0u);
}

static bool join_is_open_already(const struct rendezvous *m)
{
    const struct link *last = m->ends.prev;
    const struct rch *before;

    if (last == &m->ends)
        return false;
    before = container_of(container_of(last, struct rendezvous_end, link), struct rch, end);
    return (atomic_load_explicit(&before->state, memory_order_relaxed) & STATE_CLOSED) == 0;
}

/* The peer has closed its end of this incarnation already. */
static void join_late(struct rch *ch, struct rendezvous_handshake *kept)
{
    ch->late = true;
    ch->peer_final = kept->final;
    end_state_set(ch, STATE_PEER_CLOSED);
    rendezvous_drop_handshake(kept);
}

/* `posted`: 0, or the error by which the peer is gone, which has taken the memory along that its handshake names. */
static void join_kept(struct rch *ch, struct rendezvous_handshake *kept, int posted)
{
    if (posted == 0) {
        join(ch, (const struct handshake *)(const void *)kept->blob);
        if (kept->events)
            event_request(ch, rendezvous_take_fd(kept));
    }
    rendezvous_drop_handshake(kept);
}

static int join_register(struct rch *ch, struct rendezvous *m)
{
    struct rendezvous_handshake *kept = rendezvous_first_handshake(m);
    struct handshake h;
    int rc;

    rendezvous_register(m, &ch->end);
    if (kept != NULL)
        (void)rendezvous_pair(m, kept->number);
    /* release: pairs with the loads of `state` */
    atomic_store_explicit(&ch->state, join_first_state(ch), memory_order_release);
    RPIPE_FAILPOINT("rpipe: registered");
    handshake_make(ch, &h);
    if (kept != NULL && kept->close_message) {
        join_late(ch, kept);
        return 0;
    }
    /* posting only queues: behind everything that was posted to this peer before, and before the close message */
    rc = message_post(ch->peer, MESSAGE_HANDSHAKE, &h.head, NULL);
    if (rc != 0 && rc != -EPIPE && rc != -ECONNRESET) { /* the peer has no notice of this end */
        rendezvous_unregister_unopened(&ch->end);
        atomic_store_explicit(&ch->state, STATE_CLOSED, memory_order_release);
        return rc;
    }
    RPIPE_FAILPOINT("rpipe: handshake posted");
    if (kept != NULL)
        join_kept(ch, kept, rc);
    else if (rc == 0)
        roles_opened(ch);
    if (rc != 0) {
        m->of->gone = true;
        end_state_set(ch, rc == -EPIPE ? STATE_PEER_LEFT : STATE_PEER_DIED);
    }
    /* set before ends_peer_exiting takes the lock; of a peer that is gone the handshakes are, too */
    if (rc == 0 && control_peer_exiting(ch->peer))
        join_peer_exiting(ch);
    return 0;
}

int join_open(struct rch *ch)
{
    struct rendezvous *m;
    int rc;

    rendezvous_lock();
    m = rendezvous_find(ch->peer, config_side(&ch->cfg), ch->cfg.context, true);
    if (m == NULL)
        rc = -ENOMEM;
    else
        rc = join_is_open_already(m) ? -EEXIST : join_register(ch, m);
    rendezvous_unlock();
    return rc;
}

/* ---- the peer's handshake: rendezvous lock held ---- */

/* It cannot be kept until the own end is opened: the peer's end must not wait for its deadline. */
static void join_return_handshake(struct message *m, int code)
{
    struct fail_message answer = {.head = message_answer(m->head, sizeof(answer))};

    answer.head.code = code;
    if (code == -ENOMEM)
        snprintf(answer.reason, sizeof(answer.reason), "no memory to keep its handshake");
    else
        snprintf(answer.reason, sizeof(answer.reason),
                 "%u ends of this process wait for their other end already, the most is %u",
                 RENDEZVOUS_KEPT_MAX, RENDEZVOUS_KEPT_MAX);
    (void)message_post_answer(m, MESSAGE_FAIL, &answer.head);
}

static void join_keep_handshake(struct message *m)
{
    const struct end_message_head *head = m->head;
    int rc = rendezvous_keep(m->from, side_other((enum side)head->role), head->context,
                             head->end_number, head, sizeof(struct handshake));

    if (rc == -ENOMEM || rc == -ENOBUFS)
        join_return_handshake(m, rc);
    if (rc != 0) {
        log_few(&join_warned, "rank %d: handshake of context %llu is not kept: %s", m->from,
                (unsigned long long)head->context, strerror(-rc));
    } else {
        rendezvous_arrived();
        roles_kept(m->from);
    }
}

/* The first own end that waits for a handshake; NULL: none. */
static struct rch *join_pair(const struct message *m)
{
    const struct end_message_head *head = m->head;
    struct rendezvous *r =
        rendezvous_find(m->from, side_other((enum side)head->role), head->context, false);
    struct rendezvous_end *end = NULL;

    if (r != NULL && rendezvous_find_handshake(r, head->end_number) == NULL)
        end = rendezvous_pair(r, head->end_number);
    return end != NULL ? container_of(end, struct rch, end) : NULL;
}

static void join_on_handshake(struct rch *ch, struct message *m)
{
    const struct handshake *h = (const struct handshake *)(const void *)m->head;
    uint32_t state;

    if (!handshake_is_valid(h) || (m->head->flags & MESSAGE_OF_RECEIVER) != 0) {
        log_few(&join_warned, "rank %d: invalid handshake ignored", m->from);
        return;
    }
    RPIPE_FAILPOINT("join: handshake received");
    if (ch == NULL)
        ch = join_pair(m);
    if (ch == NULL) {
        join_keep_handshake(m);
        return;
    }
    state = atomic_load_explicit(&ch->state, memory_order_relaxed);
    if (!ch->late && (state & JOIN_DECIDED) == 0)
        join(ch, h);
}

const struct message_handler join_handshake_handler = {
    .known = sizeof(struct handshake), .least = HANDSHAKE_LEAST, .of_any = join_on_handshake};

/* ---- for the message of a deadline ---- */

/* Appends the handshake that waits in this entry, if any. True: there is one. */
static bool join_describe_pending(const struct rendezvous *m, const struct rch *ch, bool first,
                                  char *text, size_t bytes)
{
    const struct handshake *h;
    bool same;

    if (m->unclosed == NULL)
        return false;
    h = (const struct handshake *)(const void *)m->unclosed->blob;
    same = m->context == ch->cfg.context && h->head.role == (uint32_t)config_side(&ch->cfg);
    snprintf(text, bytes, "%s the %s of context %llu (%s)%s", first ? "" : ",",
             h->head.role == SIDE_WRITER ? "writer" : "reader",
             (unsigned long long)(m->context & ~CONTEXT_LIBRARY), config_op_name(h->op),
             same ? ", which is this side too: exactly one end is the writer" : "");
    return true;
}

const char *join_pending(const struct rch *ch)
{
    static _Thread_local char text[400];
    struct rendezvous *m = NULL;
    size_t used;
    int listed = 0;

    snprintf(text, sizeof(text), "%s has opened", control_peer_name(ch->peer));
    rendezvous_lock();
    while (listed < 3 && (m = rendezvous_next_of_peer(ch->peer, m)) != NULL) {
        used = strlen(text);
        if (join_describe_pending(m, ch, listed == 0, text + used, sizeof(text) - used))
            listed++;
    }
    rendezvous_unlock();
    used = strlen(text);
    if (listed == 0)
        snprintf(text + used, sizeof(text) - used, " no end that could be joined to it");
    else
        snprintf(text + used, sizeof(text) - used, ", and not the %s of context %llu",
                 config_side(&ch->cfg) == SIDE_WRITER ? "reader" : "writer",
                 (unsigned long long)(ch->cfg.context & ~CONTEXT_LIBRARY));
    return text;
}
