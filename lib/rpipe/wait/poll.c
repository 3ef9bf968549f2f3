/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * poll.c: rpoll: waits until one of many pipes has a message, or will have none. Takes nothing.
 */
#include "rpipe/end/call.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/path.h"
#include "rpipe/wait/many.h"

#include "observe/record/publish.h"

#include <errno.h>

#define POLL_MOST 65536

static bool poll_is_ready_unlocked(struct rch *ch)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_acquire);
    int rc;

    if ((state & (STATE_FAILED | STATE_CLOSED | STATE_PEER_LEFT)) != 0)
        return true;
    if ((state & STATE_JOINED) == 0)
        return (state & (STATE_PEER_CLOSED | STATE_PEER_EXITING)) != 0 ||
               path_message_before_join(ch) || end_peer_died(ch, state);
    if (ch->path->message_ready(ch) || ch->path->at_end(ch, state) != 0)
        return true;
    rc = ch->path->check(ch);
    return (rc != 0 && rc != R_PENDING) || end_peer_died(ch, state);
}

static int poll_ready_attempt(struct rch *ch, void *arguments)
{
    *(bool *)arguments = poll_is_ready_unlocked(ch);
    return 0;
}

/*
 * Of an end with a lock another thread may make calls or close it at any time: its memory stays while a call is in it.
 */
static bool poll_is_ready(struct rch *ch)
{
    bool ready = true;

    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_LOCKED) == 0)
        return poll_is_ready_unlocked(ch);
    (void)call_once(ch, poll_ready_attempt, &ready); /* closed meanwhile: rread reports it */
    return ready;
}

struct polled {
    const rch_t *ch;
    int n;
    int *ready;
};

/* ready[] is written only if one is. */
static int poll_attempt(void *of)
{
    const struct polled *p = of;
    bool any = false;
    int i;

    for (i = 0; i < p->n; i++)
        if (poll_is_ready(p->ch[i])) {
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

int rpipe_poll(const rch_t *ch, int n, int *ready, int timeout_ms)
{
    struct polled polled = {ch, n, ready};
    struct call call;
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
    if (rc == 0 && calls_ended())
        rc = job_check();
    else if (rc == 0)
        rc = poll_attempt(&polled);
    if (rc == R_PENDING && timeout_ms != 0)
        rc = poll_wait(&polled, timeout_ms);
    return call_end(&call, rc);
}
