/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call.c: what every slow path needs: who may call, what is wrong with the peer, waiting for an attempt to succeed.
 *
 * With thread_sync each attempt is made under the end's lock, and the wait between attempts without it, so that a thread
 * that frees is not kept out by one that waits for memory. `users` keeps the memory of such an end while any thread is
 * inside: a thread counts itself, then looks at CLOSED; rclose sets CLOSED, then looks at the count.
 */
#include "rpipe/end/active_calls.h"
#include "rpipe/region/region.h"

#include "control/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* The reader stores to the credit line with every message: a look takes the line away from it, and is worth it only when a
 * good part of the ring may have become free. */
#define CREDIT_PAUSES 12

#define SPINS_UNSEEN                                                                               \
    10000 /* of a call that never yields: from then on rmalloc_stat(1) tells what it waits for */

/* After its service thread has died, another thread of a killed process may still store for a moment. */
#define DEATH_GRACE_NS (10 * NS_PER_MS)

int end_check_call(struct rch *ch, const char *call, enum side side)
{
    uint32_t state;

    if (ch == NULL) {
        int rc = job_refuses(call);

        if (rc == 0)
            last_error_set("%s: the channel is NULL", call);
        return rc != 0 ? rc : -EINVAL;
    }
    state = atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    if ((state & STATE_FORKED) != 0) {
        last_error_set("%s: this channel belongs to the parent process of this one", call);
        return -ENOTCONN;
    }
    if ((state & STATE_EXITING) != 0 && active_calls_ended())
        return job_refuses(call);
    if ((state & STATE_CLOSED) != 0) {
        last_error_set("%s: this channel has been closed", call);
        return -ENOTCONN;
    }
    if (side != 0 && (state & STATE_CELLS) != 0)
        return end_error(
            ch, -EBADF,
            "%s is for pipes of messages: this one has cells (RDMA_ATOMIC), see ratomic", call);
    if (side != 0 && (state & (uint32_t)side) == 0)
        return end_error(ch, -EBADF, "%s is for the %s, this end is the %s", call,
                         side == SIDE_WRITER ? "writer" : "reader",
                         side == SIDE_WRITER ? "reader" : "writer");
    return 0;
}

const char *end_death_reason(const struct rch *ch)
{
    static _Thread_local char text[160];
    const char *why = control_peer_why(ch->peer);

    snprintf(text, sizeof(text), "%s%s", *why != '\0' ? ": " : "", why);
    return text;
}

bool end_peer_died(const struct rch *ch, uint32_t state)
{
    struct rch *changing = (struct rch *)ch;

    if ((state & STATE_PEER_DIED) == 0) {
        if (!liveness_died((state & STATE_JOINED) != 0 ? ch->liveness : control_liveness(ch->peer)))
            return false;
        control_check_liveness(); /* the service thread hears what the dead still said, and tells every end */
        if ((state & STATE_JOINED) == 0)
            return false; /* perhaps the peer's half is still on its way here */
    }
    atomic_thread_fence(
        memory_order_acquire); /* what is looked at from here on is as the dead left it */
    if (ch->died == 0)
        changing->died = clock_now();
    return clock_now() - ch->died >= DEATH_GRACE_NS;
}

static int call_trouble(struct rch *ch, const char *call, uint32_t state)
{
    if ((state & STATE_FAILED) != 0)
        return end_error(ch, ch->failure, "%s: %s", call,
                         ch->reason != NULL ? ch->reason : "the two ends cannot be joined");
    if ((state & STATE_PEER_CLOSED) != 0)
        return end_error(ch, -EPIPE, "%s: the reader, rank %d, has closed this channel", call,
                         ch->peer);
    if ((state & STATE_PEER_LEFT) != 0)
        return end_error(ch, -EPIPE, "%s: the reader, rank %d, has left the job (rexit)", call,
                         ch->peer);
    if ((state & STATE_PEER_DIED) != 0 ||
        ((state & STATE_JOINED) != 0 && liveness_died(ch->liveness)))
        return end_error(ch, -EPIPE, "%s: the reader, rank %d, has died%s", call, ch->peer,
                         end_death_reason(ch));
    if ((state & STATE_JOINED) == 0 && liveness_died(control_liveness(ch->peer)))
        control_check_liveness(); /* STATE_PEER_DIED will follow, after what the dead still said */
    return 0;
}

int end_check_peer(struct rch *ch, const char *call, uint32_t state)
{
    int rc = call_trouble(ch, call, state);

    if (rc != 0 && (state & STATE_WRITER) != 0)
        region_abort(ch, rc); /* the program is not to wait for a reader that does not come */
    return rc;
}

static int call_timed_out(struct rch *ch, const char *call, const struct awaited *awaited)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_acquire);

    atomic_fetch_add_explicit(&ch->counts.timeouts, 1, memory_order_relaxed);
    if ((state & (STATE_JOINED | STATE_ATTACHED)) == 0)
        return end_error(ch, -ETIMEDOUT, "%s: no other end within %d ms; %s", call, ch->timeout_ms,
                         join_pending(ch));
    return end_error(
        ch, -ETIMEDOUT,
        "%s: no %s within %d ms; rank %d is alive and joined, but slow, or waits itself", call,
        awaited->what, ch->timeout_ms, ch->peer);
}

int end_no_descriptor(struct rch *ch, const char *call, uint64_t held)
{
    if (ch->pool.made < ch->pool.limit)
        return end_error(ch, -ENOMEM, "%s: no memory for another descriptor", call);
    return end_error(
        ch, -ENOBUFS,
        "%s: this end holds %llu messages: give some back, or make max_descriptors (%u) larger",
        call, (unsigned long long)held, ch->cfg.max_descriptors);
}

void end_signal(struct rch *ch)
{
    int cancel;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE,
                                 &cancel); /* what has been written is told */
    /* a full buffer means that it is readable already; whatever else is wrong with a descriptor that a peer passed is his loss */
    (void)send(ch->signal_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)pthread_setcancelstate(cancel, NULL);
}

/* ---- thread_sync ---- */

static bool call_is_locked(const struct rch *ch)
{
    return (atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_LOCKED) != 0;
}

static bool call_enter(struct rch *ch)
{
    atomic_fetch_add_explicit(
        &ch->users, 1,
        memory_order_seq_cst); /* before the look at CLOSED; rclose the other way round */
    return (atomic_load_explicit(&ch->state, memory_order_seq_cst) & STATE_CLOSED) == 0;
}

static void call_leave(struct rch *ch)
{
    if (atomic_fetch_sub_explicit(&ch->users, 1, memory_order_seq_cst) == 1 &&
        (atomic_load_explicit(&ch->state, memory_order_seq_cst) & STATE_CLOSED) != 0)
        join_release_if_done(ch);
}

static int call_closed_meanwhile(struct rch *ch)
{
    (void)ch;
    last_error_set("this channel has been closed by another thread");
    return -ENOTCONN;
}

static int call_locked_attempt(struct rch *ch, attempt try, void *arguments)
{
    int rc;

    pthread_mutex_lock(&ch->mutex);
    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_CLOSED) != 0)
        rc = call_closed_meanwhile(ch);
    else
        rc = try(ch, arguments);
    pthread_mutex_unlock(&ch->mutex);
    return rc;
}

static int call_try(struct rch *ch, attempt try, void *arguments)
{
    int rc;

    if (!call_is_locked(ch))
        return try(ch, arguments);
    rc = call_enter(ch) ? call_locked_attempt(ch, try, arguments) : call_closed_meanwhile(ch);
    call_leave(ch);
    return rc;
}

int call_once(struct rch *ch, attempt try, void *arguments)
{
    struct active_call in;
    int rc;

    active_call_enter(&in);
    rc = active_calls_ended() ? job_refuses("this call") : call_try(ch, try, arguments);
    active_call_leave(&in);
    return rc;
}

/* ---- waiting ---- */

static void call_aim(struct rch *ch, struct waiter *w)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_acquire);
    _Atomic uint32_t *word = end_wake_word(ch, state);

    if (ch->remote != NULL && (state & (STATE_JOINED | STATE_ATTACHED)) != 0)
        word = NULL; /* nobody wakes through a network: naps, and a look after each */
    if (word != w->word && w->phase == WAIT_ARMED)
        w->phase = WAIT_YIELDING; /* joined meanwhile: nobody wakes by the word that was set */
    w->word = word;
    w->fences = (state & STATE_JOINED) == 0 || ch->fences;
    if (ch->died != 0)
        w->sleep_from = DEADLINE_NEVER; /* the verdict is a few milliseconds away */
}

static int call_wait_for(struct rch *ch, const char *call, const struct awaited *awaited,
                         attempt try, void *arguments, bool locked)
{
    bool published_end = false;
    uint32_t row;
    struct waiter w;
    int rc;

    if (active_calls_ended())
        return job_refuses(call);
    rc = locked ? call_locked_attempt(ch, try, arguments) : try(ch, arguments);
    if (rc != R_PENDING)
        return rc;
    row = trace_begin(ch, TRACE_WAIT);
    wait_begin(&w, NULL, deadline_in_ms(ch->timeout_ms), true);
    w.keep = locked;
    if (config_side(&ch->cfg) == SIDE_WRITER)
        w.pauses = CREDIT_PAUSES;
    if (ch->remote != NULL)
        wait_remote(&w);
    call_aim(ch, &w);
    do {
        if (UNLIKELY(!published_end && (w.phase != WAIT_SPINNING || w.spins > SPINS_UNSEEN))) {
            published_end = true;
            publish_wait_set(&ch->published_end.wait, awaited->what);
        }
        w.slice = awaited->slice != 0 ? awaited->slice : WAIT_SLICE_MS * NS_PER_MS;
        if (wait_step(&w) != 0) {
            rc = call_timed_out(ch, call, awaited);
            break;
        }
        if (active_calls_ended()) {
            rc = job_refuses(call);
            break;
        }
        rc = locked ? call_locked_attempt(ch, try, arguments) : try(ch, arguments);
        call_aim(ch, &w);
        if (w.sleeps >
            0) { /* now, and not at the end: whoever asks why nothing moves wants to see it */
            atomic_fetch_add_explicit(&ch->sleeps, w.sleeps, memory_order_relaxed);
            w.sleeps = 0;
        }
    } while (rc == R_PENDING);
    wait_end(&w);
    if (published_end)
        publish_wait_set(&ch->published_end.wait, NULL);
    counter_waited(ch, &w);
    if (UNLIKELY(row != 0))
        trace_end_text(awaited->what, rc);
    if (!locked)
        counter_refresh(ch);
    return rc;
}

int call_wait(struct rch *ch, const char *call, const struct awaited *awaited, attempt try,
              void *arguments)
{
    struct active_call in;
    int rc;

    active_call_enter(&in);
    if (!call_is_locked(ch)) {
        rc = call_wait_for(ch, call, awaited, try, arguments, false);
    } else {
        rc = call_enter(ch) ? call_wait_for(ch, call, awaited, try, arguments, true)
                            : call_closed_meanwhile(ch);
        call_leave(ch);
    }
    active_call_leave(&in);
    return rc;
}
