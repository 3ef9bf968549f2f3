/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * close.c: closing an end, its close message, and the release of its memory (doc/protocol.md, model/join.pml).
 *
 * rclose posts the close message behind everything that the end has sent. The memory of an end is released when both ends are
 * closed, or the peer is gone, and no thread is in a call on it: until then the peer may access it.
 */
#include "rpipe/connect/close.h"

#include "rpipe/connect/areas.h"
#include "rpipe/data/credit.h"
#include "rpipe/end/path.h"
#include "rpipe/end/call.h"
#include "rpipe/end/config.h"
#include "alloc/heap.h"
#include "rpipe/end/counters.h"
#include "rpipe/end/device.h"
#include "rpipe/end/end_pool.h"
#include "rpipe/end/error.h"
#include "rpipe/end/message.h"
#include "rpipe/end/feature.h"
#include "rpipe/end/state.h"
#include "rpipe/end/stream.h"
#include "rpipe/wait/event.h"

#include "control/control.h"
#include "observe/record/trace.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- release: rendezvous lock held ---- */

static void close_release(struct rch *ch)
{
    bool writer = config_side(&ch->cfg) == SIDE_WRITER;

    if (writer && ch->w.blocks.heap != NULL)
        heap_destroy(ch->w.blocks.heap);
    if (writer)
        credit_close(ch);
    desc_pool_destroy(&ch->pool);
    if (ch->path != NULL) {
        ch->path->close(ch);
        features_release(ch);
        areas_release(ch);
        ch->path->release(ch);
        device_release(ch, &ch->device); /* last: until here it is registered */
    }
    free(ch->device_bounce);
    ch->device_bounce = NULL;
    if (ch->cfg.threads)
        pthread_mutex_destroy(&ch->mutex);
    control_liveness_drop(ch->peer, ch->liveness);
    ch->liveness = NULL;
    control_message_free(ch->close_message);
    ch->close_message = NULL;
    trace_row_release(ch->trace);
    free(ch->reason);
    free(ch->why);
    ch->reason = ch->why = NULL;
    free(atomic_exchange_explicit(&ch->stream_got, NULL, memory_order_relaxed));
}

void end_release_unopened(struct rch *ch)
{
    stream_remove(ch);
    rendezvous_lock();
    close_release(ch);
    rendezvous_unlock();
}

void end_release_locked(struct rch *ch)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_relaxed);

    if (ch->end.rendezvous == NULL || (state & STATE_CLOSED) == 0 ||
        (state & (STATE_PEER_CLOSED | STATE_PEER_DIED | STATE_PEER_LEFT)) == 0 ||
        atomic_load_explicit(&ch->users, memory_order_seq_cst) > 0)
        return;
    rendezvous_unregister(&ch->end);
    close_release(ch);
    end_pool_put(ch);
}

void end_release_if_done(struct rch *ch)
{
    rendezvous_lock();
    end_release_locked(ch);
    rendezvous_unlock();
}

/* No close message will arrive any more. */
void end_release_all(void)
{
    struct rendezvous *m = NULL;

    while ((m = rendezvous_next(m)) != NULL) {
        rendezvous_pin(m); /* until rendezvous_clear() */
        while (!list_empty(&m->ends)) {
            struct rch *ch = container_of(container_of(m->ends.next, struct rendezvous_end, link),
                                          struct rch, end);

            rendezvous_unregister(&ch->end);
            close_release(ch);
        }
    }
    rendezvous_clear();
}

/* ---- the close message ---- */

int close_prepare(struct rch *ch)
{
    ch->close_message = control_message_alloc(MESSAGE_CLOSE, sizeof(struct end_message_head));
    return ch->close_message != NULL ? 0 : -ENOMEM;
}

/* It is queued before the end can be taken for another incarnation. */
void close_post_locked(struct rch *ch, uint64_t final)
{
    struct end_message_head head = message_head(ch, sizeof(head), final);
    struct control_message *message = ch->close_message;

    if (ch->late)
        return;
    ch->close_message = NULL;
    if (control_post_message(ch->peer, message, &head) != 0)
        atomic_fetch_or_explicit(&ch->state, STATE_PEER_LEFT,
                                 memory_order_relaxed); /* it is gone */
}

void close_set_closed_locked(struct rch *ch)
{
    event_close(ch);
    stream_remove(ch);
    atomic_fetch_or_explicit(&ch->state, STATE_CLOSED, memory_order_acq_rel);
    if (ch->end.rendezvous != NULL && !list_empty(&ch->end.rendezvous->handshakes))
        rendezvous_arrived(); /* rpipe_pending: the next one can be opened now */
}

/*
 * The peer closes an end that has no own end yet: it is answered at once, so that the peer can release its memory. So is a
 * close whose handshake could not be kept.
 */
static void close_keep_message(struct message *m)
{
    const struct end_message_head *head = m->head;
    struct rendezvous *r =
        rendezvous_find(m->from, side_other((enum side)head->role), head->context, false);
    struct rendezvous_handshake *kept =
        r != NULL ? rendezvous_find_handshake(r, head->end_number) : NULL;
    struct end_message_head answer = message_answer(head, sizeof(answer));

    if ((head->flags & MESSAGE_OF_RECEIVER) != 0 || (kept != NULL && kept->close_message))
        return; /* it is an answer, or has been answered */
    RPIPE_FAILPOINT("close message: before the answer to an early one");
    if (message_post_answer(m, MESSAGE_CLOSE, &answer) && kept != NULL)
        rendezvous_close_handshake(kept, head->number);
}

static void close_on_message(struct rch *ch, struct message *m)
{
    RPIPE_FAILPOINT("close message: received");
    if (ch == NULL) {
        close_keep_message(m);
        return;
    }
    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_PEER_CLOSED) != 0)
        return; /* a second one: the user may be reading the number of the first */
    ch->peer_final = m->head->number;
    end_state_set(ch, STATE_PEER_CLOSED);
    end_release_locked(ch);
}

const struct message_handler close_message_handler = {.known = sizeof(struct end_message_head),
                                                      .of_any = close_on_message};

/* ---- rclose ---- */

static void close_now(struct rch *ch, uint64_t final)
{
    rendezvous_lock();
    RPIPE_FAILPOINT("rclose: lock held");
    close_set_closed_locked(ch);
    close_post_locked(ch, final);
    RPIPE_FAILPOINT("rclose: close message posted");
    end_release_locked(ch);
    rendezvous_unlock();
    RPIPE_FAILPOINT("rclose: done");
}

struct close_arguments {
    struct awaited awaited;
    uint64_t since; /* of path_ops.drain */
    bool alone;     /* no transfer of the program's memory is left: the end will be closed */
    bool
        deferred; /* operations are in flight; the service thread posts the close message when they are complete */
};

static int close_attempt(struct rch *ch, void *arguments)
{
    const struct close_arguments *a = arguments;
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_acquire);
    uint64_t final = 0;

    if ((state & STATE_WRITER) != 0) {
        final = atomic_load_explicit(&ch->w.sent, memory_order_relaxed);
        if ((state & (STATE_JOINED | STATE_CELLS)) == STATE_JOINED)
            ch->path->announce_final(ch, final);
    } else if ((state & STATE_CELLS) == 0) {
        final = ch->path->delivered(ch); /* the writer need not keep what was not read */
    }
    if (!a->alone)
        features_close(ch);
    RPIPE_FAILPOINT("rclose: before the close message");
    if (a->deferred)
        deferred_close_begin(ch, final);
    else
        close_now(ch, final);
    return 0;
}

/* The library keeps its own memory until all transfers are complete, but not the program's: that is waited for first. */
static int close_settle(struct rch *ch, struct close_arguments *a)
{
    ch->closing = CLOSING_SETTLES;
    if (features_quiesce(ch, &a->awaited) == R_PENDING)
        return R_PENDING;
    a->awaited.what = "proof that everything has arrived";
    a->alone = true;
    features_close(ch); /* calls of other threads end from here on */
    ch->closer = pthread_self();
    ch->closing = CLOSING_ALONE;
    return 0;
}

/*
 * Over a network the close message comes behind the last operation: what it promises has arrived, and no operation accesses what
 * is released. The proof covers what was posted before it began (M_NOT_ALONE in model/net.pml), and the program's memory is free
 * only as long as no transfer begins (M_LENT_FIRST): so other threads make no attempts from the one that finds it free to the
 * one that closes.
 */
static int close_drained_attempt(struct rch *ch, void *arguments)
{
    struct close_arguments *a = arguments;
    int rc = a->alone ? 0 : close_settle(ch, a);

    if (rc == 0)
        rc = ch->path->drain(ch, &a->since);
    /* the user does not wait for what a failed pipe has requested; the close message comes behind it all the same */
    if (rc == R_PENDING && a->alone &&
        (atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_FAILED) != 0)
        return -ETIMEDOUT;
    return rc != 0 ? rc : close_attempt(ch, a);
}

/* The pipe stays open. */
static int close_give_up_attempt(struct rch *ch, void *unused)
{
    (void)unused;
    if (ch->closing == CLOSING_SETTLES)
        ch->closing = CLOSING_NOT;
    return 0;
}

/* Where the deadline is too short for the proof the service thread waits for it. */
static int close_await(struct rch *ch, bool force)
{
    struct close_arguments a = {.awaited = {"", 0}};
    int rc = call_await(ch, &a.awaited, close_drained_attempt, &a), given_up;

    if (rc == 0)
        return 0;
    if (!a.alone && !force) {
        given_up = rc == -ETIMEDOUT ? call_once(ch, close_give_up_attempt, NULL) : 0;
        return given_up != 0 ? given_up : rc; /* another thread closes it, or has closed it */
    }
    a.deferred = rc == -ETIMEDOUT;
    return call_once(ch, close_attempt, &a);
}

/* The counters are complete: the wait of this call is among them. */
static void close_retire(struct rch *ch)
{
    rendezvous_lock();
    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_CLOSED) != 0)
        counter_retire(ch);
    rendezvous_unlock();
}

static int close_checked(struct rch *ch, bool force)
{
    uint32_t row = trace_begin(ch, TRACE_CLOSE);
    int rc;

    if (force) /* rexit has ended all calls, rclose of another thread among them */
        ch->closing = CLOSING_NOT;
    atomic_fetch_add_explicit(
        &ch->users, 1,
        memory_order_seq_cst); /* the wait uses the end after the attempt that closes it */
    rc = close_await(ch, force);
    close_retire(ch);
    trace_end(row, 0, 0, rc); /* the last release gives the row to another end */
    if (atomic_fetch_sub_explicit(&ch->users, 1, memory_order_seq_cst) == 1)
        end_release_if_done(ch);
    return rc;
}

int end_close(struct rch *ch, const char *name, bool force)
{
    struct call call;
    int rc = call_begin(&call, name, ch, 0);

    return call_end(&call, rc == 0 ? close_checked(ch, force) : rc);
}

int rpipe_close(rch_t ch)
{
    struct call call;
    int rc = call_begin(&call, "rclose", ch, 0);

    if (rc == 0 && ch->cells != NULL)
        rc = call_error(ch, -EBADF, "this end has cells; close it by rcells_close");
    return call_end(&call, rc == 0 ? close_checked(ch, false) : rc);
}
