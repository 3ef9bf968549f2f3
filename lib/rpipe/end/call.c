/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call.c: see call.h.
 *
 * With RPIPE_THREADS each attempt is made under the end's lock, and the wait between attempts without it, so that a thread
 * that frees is not blocked by one that waits for memory. `users` keeps the memory of such an end while any thread is
 * inside: a thread counts itself, then checks CLOSED; rclose sets CLOSED, then reads the count.
 */
#include "rpipe/end/call.h"

#include "rpipe/end/config.h"
#include "rpipe/end/counters.h"
#include "rpipe/end/connector.h"
#include "rpipe/end/cork.h"
#include "rpipe/end/debug_check.h"
#include "rpipe/end/feature.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/path.h"

#include "control/control.h"
#include "observe/record/trace.h"
#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The reader stores to the credit line with every message: a poll takes the line away from it, and is worth that only when a
 * good part of the ring may have become free. */
#define CREDIT_PAUSES 12

/* Spins of a call that never yields, after which rmalloc_stat(1) shows what it waits for. */
#define SPINS_UNSEEN 10000

/* After its service thread has died, another thread of a killed process may still store for a moment. */
#define DEATH_GRACE_NS (10 * NS_PER_MS)

const struct connector *end_connector;

/* ---- entry ---- */

/*
 * -ENOTCONN of an end that is closed or belongs to no job. Only the name of the call is kept, for rpipe_error(ch): another thread
 * may open the end anew meanwhile.
 */
static int call_gone(struct rch *ch, int rc)
{
    const char *call = call_name();

    atomic_store_explicit(&ch->gone_call, call != NULL ? call : "this call", memory_order_relaxed);
    return rc;
}

int call_check(struct rch *ch, enum side side)
{
    uint32_t state;

    if (ch == NULL) {
        int rc = job_check();

        return rc != 0 ? rc : call_error(NULL, -EINVAL, "the pipe or cell array is NULL");
    }
    state = atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    if ((state & STATE_FORKED) != 0)
        return call_gone(
            ch, call_error(NULL, -ENOTCONN, "the pipe belongs to the parent process of this one"));
    if ((state & STATE_EXITING) != 0 && calls_ended())
        return call_gone(ch, job_check());
    if ((state & STATE_CLOSED) != 0)
        return call_gone(ch, call_error(NULL, -ENOTCONN, "the pipe has been closed"));
    if (side != 0 && (state & STATE_CELLS) != 0)
        return call_error(ch, -EBADF, "this end has cells and no messages; use rcells_atomic");
    if (side != 0 && (state & (uint32_t)side) == 0)
        return call_error(ch, -EBADF, "this end is the %s; only the %s can make this call",
                          side == SIDE_WRITER ? "reader" : "writer",
                          side == SIDE_WRITER ? "writer" : "reader");
    return 0;
}

int call_begin(struct call *call, const char *name, struct rch *ch, enum side side)
{
    int rc;

    call_enter(call, name);
    rc = call_check(ch, side);
    if (rc == 0 && (atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_DEBUG) != 0)
        rc = debug_check_enter(ch, call);
    return rc;
}

int call_end(const struct call *call, int rc)
{
    if (call->inside != NULL)
        debug_check_leave(call->inside);
    call_leave(call);
    return rc;
}

int call_check_flags(struct rch *ch, int flags)
{
    if ((flags & ~R_NOWAIT) == 0)
        return 0;
    return call_error(ch, -EINVAL, "flags is 0x%x; it must be 0 or R_NOWAIT", (unsigned)flags);
}

/* ---- the peer ---- */

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

    if ((state & (STATE_PEER_DIED | STATE_JOINED)) == 0) {
        control_check_peer(ch->peer);
        return false; /* the peer's handshake may still be in flight */
    }
    if ((state & STATE_PEER_DIED) == 0) {
        if (!liveness_died(ch->liveness))
            return false;
        /* the service thread receives what the peer had sent, then sets PEER_DIED at every end */
        control_check_liveness();
    }
    /* what is read from here on is as the dead process left it */
    atomic_thread_fence(memory_order_acquire);
    if (ch->died == 0)
        changing->died = clock_now();
    return clock_now() - ch->died >= DEATH_GRACE_NS;
}

/* A pipe that was never joined is an error and a line in the log: the program may ignore the code. */
static void call_log_unjoined(struct rch *ch)
{
    if (!atomic_exchange_explicit(&ch->never_joined_logged, true, memory_order_relaxed))
        log_warn("%s", last_error_get());
}

int call_never_joins(struct rch *ch, uint32_t state)
{
    const char *left = (state & STATE_PEER_LEFT) != 0 ? "has left the job (rexit)" : "is in rexit";
    /* an end that was opened after the peer had left does not show whether the other one was open before */
    const char *opened = (state & STATE_PEER_EXITING) != 0
                             ? " and has not opened the other end of this pipe"
                             : "; this pipe was not joined before";
    int rc =
        call_error(ch, -EPIPE, "%s %s%s; check the peer, the role and the context of both ends",
                   control_peer_name(ch->peer), left, opened);

    call_log_unjoined(ch);
    return rc;
}

static int call_peer_state(struct rch *ch, uint32_t state)
{
    const char *other = (state & STATE_WRITER) != 0 ? "reader" : "writer";

    if ((state & STATE_FAILED) != 0)
        return call_error(ch, ch->failure, "%s",
                          ch->reason != NULL ? ch->reason : "the two ends cannot be joined");
    if ((state & STATE_PEER_CLOSED) != 0)
        return call_error(ch, -EPIPE, "the %s, rank %d, has closed this pipe", other, ch->peer);
    if (end_never_joins(state))
        return call_never_joins(ch, state);
    if ((state & STATE_PEER_LEFT) != 0)
        return call_error(ch, -EPIPE, "the %s, rank %d, has left the job (rexit)", other, ch->peer);
    if ((state & STATE_PEER_DIED) != 0 ||
        ((state & STATE_JOINED) != 0 && liveness_died(ch->liveness)))
        return call_error(ch, -EPIPE, "the %s, rank %d, has died%s", other, ch->peer,
                          end_death_reason(ch));
    if ((state & STATE_JOINED) == 0)
        control_check_peer(ch->peer); /* STATE_PEER_DIED follows, after what the peer had sent */
    return 0;
}

int call_check_peer(struct rch *ch, uint32_t state)
{
    int rc = call_peer_state(ch, state);

    if (rc != 0)
        ch->loss_reported = true;
    if (rc != 0 && (state & STATE_WRITER) != 0)
        features_peer_lost(ch, rc); /* the program must not wait for a reader that is gone */
    return rc;
}

static int call_unjoined_in_time(struct rch *ch)
{
    int rc = call_error(ch, -ETIMEDOUT, "no other end within %d ms; %s", ch->timeout_ms,
                        end_connector->pending(ch));

    if (ch->timeout_ms >= CALL_LOGGED_MS)
        call_log_unjoined(ch);
    return rc;
}

static bool call_is_locked(const struct rch *ch)
{
    return (atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_LOCKED) != 0;
}

/* Reader: messages that the program has not freed, and their memory in the heap. False: none. */
static bool call_holds(struct rch *ch, uint64_t *messages, uint64_t *bytes)
{
    bool locked = call_is_locked(ch);

    if (locked)
        pthread_mutex_lock(&ch->mutex);
    *messages = ch->r.held;
    *bytes = ch->r.units_held * ch->cfg.unit_bytes;
    if (locked)
        pthread_mutex_unlock(&ch->mutex);
    return *messages > 0;
}

/* Only where both map the wake words; a message that the writer has sent since then would have been found. */
static bool call_writer_sleeps(const struct rch *ch)
{
    return ch->path->wakes && ch->ring != NULL &&
           atomic_load_explicit(&ch->ring->control.writer_wake, memory_order_relaxed) != 0;
}

static int call_timed_out(struct rch *ch, const struct awaited *awaited)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_acquire);
    uint64_t messages, bytes;

    atomic_fetch_add_explicit(&ch->counts.timeouts, 1, memory_order_relaxed);
    if (end_never_joins(state)) /* found at the deadline: it is final, and repeating is useless */
        return call_never_joins(ch, state);
    if ((state & (STATE_JOINED | STATE_ATTACHED)) == 0)
        return call_unjoined_in_time(ch);
    if ((state & STATE_READER) != 0 && call_holds(ch, &messages, &bytes))
        return call_error(ch, -ETIMEDOUT,
                          "no %s within %d ms; this end holds %llu messages, %llu bytes of the "
                          "heap, that were read and not freed%s; call rfree for each message",
                          awaited->what, ch->timeout_ms, (unsigned long long)messages,
                          (unsigned long long)bytes,
                          call_writer_sleeps(ch) ? ", and the writer waits" : "");
    return call_error(ch, -ETIMEDOUT,
                      "no %s within %d ms; rank %d is alive and joined, but slow, or waits itself",
                      awaited->what, ch->timeout_ms, ch->peer);
}

int call_no_descriptor(struct rch *ch, uint64_t held)
{
    if (!desc_pool_is_full(&ch->pool))
        return call_error(ch, -ENOMEM, "no memory for another descriptor");
    return call_error(
        ch, -ENOBUFS,
        "this end holds %llu messages; free or send some, or increase max_messages (%u)",
        (unsigned long long)held, ch->cfg.max_messages);
}

/* ---- RPIPE_THREADS ---- */

/* False: the end has been closed by another thread. */
static bool call_use(struct rch *ch)
{
    /* seq_cst: before the load of CLOSED; rclose uses the opposite order */
    atomic_fetch_add_explicit(&ch->users, 1, memory_order_seq_cst);
    return (atomic_load_explicit(&ch->state, memory_order_seq_cst) & STATE_CLOSED) == 0;
}

static void call_unuse(struct rch *ch)
{
    if (atomic_fetch_sub_explicit(&ch->users, 1, memory_order_seq_cst) == 1 &&
        (atomic_load_explicit(&ch->state, memory_order_seq_cst) & STATE_CLOSED) != 0)
        end_connector->release_if_done(ch);
}

static int call_closed_meanwhile(struct rch *ch)
{
    return call_gone(ch, call_error(NULL, -ENOTCONN, "the pipe has been closed by another thread"));
}

static bool call_is_excluded(const struct rch *ch)
{
    return ch->closing == CLOSING_ALONE && !pthread_equal(ch->closer, pthread_self());
}

static int call_locked_attempt(struct rch *ch, attempt try, void *arguments)
{
    int rc;

    pthread_mutex_lock(&ch->mutex);
    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_CLOSED) != 0)
        rc = call_closed_meanwhile(ch);
    else if (call_is_excluded(ch))
        rc = call_error(ch, -ENOTCONN, "another thread closes the pipe (rclose)");
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
    rc = call_use(ch) ? call_locked_attempt(ch, try, arguments) : call_closed_meanwhile(ch);
    call_unuse(ch);
    return rc;
}

/* This thread is counted. */
static int call_once_counted(struct rch *ch, attempt try, void *arguments)
{
    int rc = calls_ended() ? job_check() : call_try(ch, try, arguments);

    if (rc == R_PENDING)
        cork_before_wait(); /* a caller that repeats the call waits */
    return rc;
}

int call_once(struct rch *ch, attempt try, void *arguments)
{
    struct call call;

    if (LIKELY(call_is_counted()))
        return call_once_counted(ch, try, arguments);
    call_enter(&call, call_name() != NULL ? call_name() : "this call");
    return call_end(&call, call_once_counted(ch, try, arguments));
}

/* ---- waiting ---- */

static void call_aim(struct rch *ch, struct waiter *w)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_acquire);
    _Atomic uint32_t *word = end_wake_word(ch, state);

    if (!ch->path->wakes && (state & (STATE_JOINED | STATE_ATTACHED)) != 0)
        word = NULL; /* a network wakes no thread: back-off sleeps with a poll after each */
    if (word != w->word && w->phase == WAIT_ARMED)
        w->phase = WAIT_YIELDING; /* joined meanwhile: no peer wakes the old word */
    w->word = word;
    w->fences = (state & STATE_JOINED) == 0 || ch->fences;
    if (ch->died != 0)
        w->sleep_from = DEADLINE_NEVER; /* the result is known within DEATH_GRACE_NS */
}

static int call_await_locked(struct rch *ch, const struct awaited *awaited, attempt try,
                             void *arguments, bool locked)
{
    bool published_end = false;
    uint32_t row;
    struct waiter w;
    int rc;

    if (calls_ended())
        return job_check();
    rc = locked ? call_locked_attempt(ch, try, arguments) : try(ch, arguments);
    if (rc != R_PENDING)
        return rc;
    row = trace_begin(ch, TRACE_WAIT);
    wait_begin(&w, NULL, deadline_in_ms(ch->timeout_ms), true);
    w.keep = locked;
    if (config_side(&ch->cfg) == SIDE_WRITER)
        w.pauses = CREDIT_PAUSES;
    if (!ch->path->wakes)
        wait_remote(&w);
    call_aim(ch, &w);
    do {
        cork_before_wait();
        if (UNLIKELY(!published_end && (w.phase != WAIT_SPINNING || w.spins > SPINS_UNSEEN))) {
            published_end = true;
            publish_wait_set(&ch->published_end.wait, awaited->what);
        }
        w.slice = awaited->slice != 0 ? awaited->slice : WAIT_SLICE_MS * NS_PER_MS;
        if (wait_step(&w) != 0) {
            rc = call_timed_out(ch, awaited);
            break;
        }
        if (calls_ended()) {
            rc = job_check();
            break;
        }
        rc = locked ? call_locked_attempt(ch, try, arguments) : try(ch, arguments);
        call_aim(ch, &w);
        if (w.sleeps > 0) { /* now, and not at the end: an observer sees that it sleeps */
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

static int call_await_counted(struct rch *ch, const struct awaited *awaited, attempt try,
                              void *arguments)
{
    int rc;

    if (!call_is_locked(ch))
        return call_await_locked(ch, awaited, try, arguments, false);
    rc = call_use(ch) ? call_await_locked(ch, awaited, try, arguments, true)
                      : call_closed_meanwhile(ch);
    call_unuse(ch);
    return rc;
}

int call_await(struct rch *ch, const struct awaited *awaited, attempt try, void *arguments)
{
    struct call call;

    if (LIKELY(call_is_counted()))
        return call_await_counted(ch, awaited, try, arguments);
    call_enter(&call, call_name());
    return call_end(&call, call_await_counted(ch, awaited, try, arguments));
}
