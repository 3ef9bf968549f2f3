/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * poll.c: rpoll: waits for the first of many pipes, by looking at each.
 *
 * Looks only, takes nothing, so that it needs no lock. Beyond spinning and yielding it sleeps on the wake words of all of
 * them at once, where the kernel can do that, there are not too many, and each has one. Else it naps: at most 1 ms, or so much
 * longer as a look at all of them is dear, that who waits for long uses some 3 % of a processor, and not all of it with a
 * thousand pipes.
 */
#include "rpipe/end/call_context.h"
#include "rpipe/data/path_remote.h"

#include "control/control.h"

#include <errno.h>

#define POLL_MOST 65536
#define NAP_PER_LOOK 32      /* a nap may be so much longer than a look, */
#define NAP_LEAST_US 1000    /* and always so long, */
#define NAP_LONGEST_US 20000 /* but never longer */

static bool poll_is_ready(struct rch *ch)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_acquire);

    if ((state & (STATE_FAILED | STATE_CLOSED | STATE_PEER_LEFT)) != 0)
        return true;
    if ((state & STATE_JOINED) == 0)
        return (state & STATE_PEER_CLOSED) != 0 || reader_message_before_join(ch) ||
               end_peer_died(ch, state);
    if (reader_message_ready(ch))
        return true;
    if (ch->remote != NULL)
        return ((state & STATE_PEER_CLOSED) != 0 && reader_delivered(ch) >= ch->peer_final) ||
               (ch->remote->failed_at != 0 && remote_failed(ch, "rpoll") != R_PENDING) ||
               end_peer_died(ch, state);
    return (state & STATE_PEER_CLOSED) != 0 ||
           atomic_load_explicit(&ch->ring->control.final, memory_order_acquire) != 0 ||
           end_peer_died(ch, state);
}

static int poll_ready_attempt(struct rch *ch, void *arguments)
{
    *(bool *)arguments = poll_is_ready(ch);
    return 0;
}

/*
 * Over a network a look drives the line, and takes slots: under the lock, where there is one. An end with a lock may be closed by
 * another thread at any time, and its memory is there only while somebody is known to be inside.
 */
static bool poll_is_ready_now(struct rch *ch)
{
    bool ready = true;

    if (ch->remote == NULL &&
        (atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_LOCKED) == 0)
        return poll_is_ready(ch);
    (void)call_once(ch, poll_ready_attempt, &ready); /* closed meanwhile: rread will say so */
    return ready;
}

static bool poll_poll(const rch_t *ch, int n, int *ready)
{
    bool any = false;
    int i;

    for (i = 0; i < n; i++)
        if (poll_is_ready_now(ch[i])) {
            if (!any && i > 0) /* outputs only on success */
                for (int j = 0; j < i; j++)
                    ready[j] = 0;
            any = true;
            ready[i] = 1;
        } else if (any) {
            ready[i] = 0;
        }
    return any;
}

/* The same, and by its time it says how long naps may become. */
static bool poll_poll_again(const rch_t *ch, int n, int *ready, struct waiter *w)
{
    int64_t begun = clock_now(), us;

    if (poll_poll(ch, n, ready))
        return true;
    us = (clock_now() - begun) * NAP_PER_LOOK / 1000;
    w->backoff_most_us = (uint32_t)(us < NAP_LEAST_US     ? NAP_LEAST_US
                                    : us > NAP_LONGEST_US ? NAP_LONGEST_US
                                                          : us);
    return false;
}

struct polled {
    const rch_t *ch;
    int n;
};

/* An end that is shared by threads may be closed by another one, and one on a network has nobody who wakes. */
static uint32_t poll_find_words(void *of, _Atomic uint32_t *word[WAIT_WORDS])
{
    const struct polled *p = of;

    if (p->n > WAIT_WORDS)
        return 0;
    for (int i = 0; i < p->n; i++) {
        uint32_t state = atomic_load_explicit(&p->ch[i]->state, memory_order_acquire);

        if ((state & (STATE_LOCKED | STATE_CLOSED)) != 0 || p->ch[i]->remote != NULL ||
            p->ch[i]->died != 0)
            return 0; /* died: the verdict is a few milliseconds away, and wakes nobody */
        word[i] = end_wake_word(p->ch[i], state);
    }
    return (uint32_t)p->n;
}

static int poll_wait_for_one(const rch_t *ch, int n, int *ready, int timeout_ms)
{
    struct polled polled = {ch, n};
    struct waiter w;
    int rc = 0;

    wait_begin(&w, NULL, deadline_in_ms(timeout_ms), false);
    w.words = poll_find_words;
    w.of = &polled;
    publish_process_wait("a message on one of many channels in rpoll");
    while (rc == 0 && !poll_poll_again(ch, n, ready, &w)) {
        if (wait_step(&w) != 0) {
            last_error_set("rpoll: none of %d channels has anything to read within %d ms", n,
                           timeout_ms);
            rc = -ETIMEDOUT;
        } else if (active_calls_ended()) {
            rc = job_refuses("rpoll");
        }
    }
    wait_end(&w);
    publish_process_wait(NULL);
    return rc;
}

int rpipe_poll(const rch_t *ch, int n, int *ready, int timeout_ms)
{
    struct active_call in;
    int i, rc = 0;

    if (ch == NULL || ready == NULL || n < 1 || n > POLL_MOST || timeout_ms < -1) {
        last_error_set(
            "rpoll: needs 1 to %d pipes, as many elements in ready, and a timeout of 0, ms "
            "or R_FOREVER",
            POLL_MOST);
        return -EINVAL;
    }
    for (i = 0; i < n; i++) {
        rc = end_check_call(ch[i], "rpoll", SIDE_READER);
        if (rc != 0)
            return rc;
    }
    active_call_enter(&in);
    if (active_calls_ended())
        rc = job_refuses("rpoll");
    else if (!poll_poll(ch, n, ready))
        rc = timeout_ms == 0 ? R_PENDING : poll_wait_for_one(ch, n, ready, timeout_ms);
    active_call_leave(&in);
    return rc;
}
