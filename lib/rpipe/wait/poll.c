/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * poll.c: rpoll: waits until one of many pipes has a message, or will have none. Takes nothing.
 *
 * What it reports rread_nb returns: a message at an end that is not joined is reported when the handshake has arrived too, for which
 * the first ones of a call wait END_HANDSHAKE_NS together.
 */
#include "rpipe/end/call.h"
#include "rpipe/end/debug_check.h"
#include "rpipe/end/cork.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/path.h"
#include "rpipe/end/state.h"
#include "rpipe/wait/many.h"

#include "observe/record/publish.h"

#include <errno.h>

#define POLL_MOST 65536

struct polled {
    const rch_t *ch;
    int n;
    int *ready;
    int64_t handshakes; /* deadline of waits for handshakes; 0: there was none */
};

/* A message is there, of an end that is not joined; the state after that moment. */
static NOINLINE uint32_t poll_await_handshake(struct polled *p, struct rch *ch)
{
    if (p->handshakes == 0)
        p->handshakes = clock_now() + END_HANDSHAKE_NS;
    return end_await_handshake(ch, p->handshakes);
}

static bool poll_is_ready_unlocked(struct polled *p, struct rch *ch)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_acquire);
    int rc;

    if ((state & STATE_JOINED) == 0 && path_message_before_join(ch))
        state = poll_await_handshake(p, ch);
    if ((state & (STATE_FAILED | STATE_CLOSED | STATE_PEER_LEFT)) != 0)
        return true;
    if ((state & STATE_JOINED) == 0)
        return (state & (STATE_PEER_CLOSED | STATE_PEER_EXITING)) != 0 || end_peer_died(ch, state);
    if (ch->path->message_ready(ch) || ch->path->at_end(ch, state) != 0)
        return true;
    rc = ch->path->check(ch);
    return (rc != 0 && rc != R_PENDING) || end_peer_died(ch, state);
}

struct poll_arguments {
    struct polled *polled;
    bool ready;
};

static int poll_ready_attempt(struct rch *ch, void *arguments)
{
    struct poll_arguments *a = arguments;

    a->ready = poll_is_ready_unlocked(a->polled, ch);
    return 0;
}

/*
 * Of an end with a lock another thread may make calls or close it at any time: its memory stays while a call is in it.
 */
static bool poll_is_ready(struct polled *p, struct rch *ch)
{
    struct poll_arguments a = {p, true};

    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_LOCKED) == 0)
        return poll_is_ready_unlocked(p, ch);
    (void)call_once(ch, poll_ready_attempt, &a); /* closed meanwhile: rread reports it */
    return a.ready;
}

/* ready[] is written only if one is. */
static int poll_attempt(void *of)
{
    struct polled *p = of;
    bool any = false;
    int i;

    for (i = 0; i < p->n; i++)
        if (poll_is_ready(p, p->ch[i])) {
            for (int j = 0; j < i && !any; j++)
                p->ready[j] = 0;
            any = true;
            p->ready[i] = 1;
        } else if (any) {
            p->ready[i] = 0;
        }
    return any ? 0 : R_PENDING;
}

static int poll_wait(struct polled *p, int timeout_ms)
{
    int rc;

    publish_process_wait("a message on one of many pipes in rpoll");
    rc = many_await(p->ch, p->n, deadline_in_ms(timeout_ms), poll_attempt, p);
    publish_process_wait(NULL);
    if (rc == -ETIMEDOUT)
        return call_error(NULL, rc, "none of %d pipes has a message within %d ms", p->n,
                          timeout_ms);
    return rc;
}

/*
 * RMALLOC_DEBUG=1: this call is inside all of the ends, as a call on one of them is, also of those that this thread is inside already. Sets
 * *entered; 0, or -EBUSY and the message.
 */
static int poll_debug_enter(const struct call *call, const rch_t *ch, int n, bool *entered)
{
    int i, rc = 0;

    for (i = 0; rc == 0 && i < n; i++) {
        struct call each = {0};

        if ((atomic_load_explicit(&ch[i]->state, memory_order_relaxed) & STATE_DEBUG) == 0)
            continue;
        *entered = true;
        rc = debug_check_enter(ch[i], &each);
        if (each.inside != NULL)
            ch[i]->polled_by = call;
    }
    return rc;
}

/* The ends that this call has entered: not those of a call around it, nor those of another thread. */
static void poll_debug_leave(const struct call *call, const rch_t *ch, int n)
{
    int i;

    for (i = 0; i < n; i++)
        if (debug_check_is_inside(ch[i]) && ch[i]->polled_by == call) {
            ch[i]->polled_by = NULL;
            debug_check_leave(ch[i]);
        }
}

int rpipe_poll(const rch_t *ch, int n, int *ready, int timeout_ms)
{
    struct polled polled = {ch, n, ready, 0};
    struct call call;
    bool debug = false;
    int i, rc = 0;

    call_enter(&call, "rpoll");
    if (ch == NULL || ready == NULL || n < 1 || n > POLL_MOST || timeout_ms < -1)
        rc = call_error(
            NULL, -EINVAL,
            "ch is %s, ready is %s, n is %d, timeout_ms is %d; n must be 1 to %d, timeout_ms 0, "
            "a number of ms, or R_FOREVER (-1)",
            ch == NULL ? "NULL" : "given", ready == NULL ? "NULL" : "given", n, timeout_ms,
            POLL_MOST);
    for (i = 0; rc == 0 && i < n; i++)
        rc = call_check(ch[i], SIDE_READER);
    if (rc == 0)
        rc = poll_debug_enter(&call, ch, n, &debug);
    if (rc == 0 && calls_ended())
        rc = job_check();
    else if (rc == 0)
        rc = poll_attempt(&polled);
    if (rc == R_PENDING)
        cork_before_wait(); /* also of a call that is repeated without waiting */
    if (rc == R_PENDING && timeout_ms != 0)
        rc = poll_wait(&polled, timeout_ms);
    if (debug)
        poll_debug_leave(&call, ch, n);
    return call_end(&call, rc);
}
