/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer.c: see transfer.h. */
#include "control/transfer.h"

#include "control/greeting.h"
#include "control/liveness.h"
#include "control/peer_end.h"
#include "control/post.h"
#include "control/state.h"
#include "util/clock.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_MS 50
/* After so many slices the peer is monitored: its end is noticed within 100 ms, and the time
 * that connecting takes. */
#define MONITOR_SLICES 1

struct transfers transfers = {.lock = PTHREAD_MUTEX_INITIALIZER};

int transfer_start(int rank, int size)
{
    pthread_condattr_t monotonic;

    transfers.pairs = calloc((size_t)size, sizeof(struct pair *));
    if (transfers.pairs == NULL)
        return -ENOMEM;
    transfers.rank = rank;
    transfers.size = size;
    transfers.abandoned = false;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&transfers.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return 0;
}

void transfer_stop(void)
{
    int peer;

    for (peer = 0; transfers.pairs != NULL && peer < transfers.size; peer++) {
        if (transfers.pairs[peer] != NULL)
            lane_free(transfers.pairs[peer]);
    }
    free(transfers.pairs);
    transfers.pairs = NULL;
}

int transfer_lock(struct error *err)
{
    if (!control_running())
        return error_set(err, -ENOTCONN, "the control network is not running; call rinit first");
    if (control_on_service_thread())
        return error_set(err, -EDEADLK, "the service thread must not wait");
    pthread_mutex_lock(&transfers.lock);
    return 0;
}

int transfer_lock_peer(int peer, struct error *err)
{
    int result = transfer_lock(err);

    if (result != 0)
        return result;
    if (peer < 0 || peer >= transfers.size)
        result = error_set(err, -ENOENT, "there is no %s; the job has %d ranks",
                           control_peer_name(peer), transfers.size);
    else if (transfer_pair(peer) == NULL)
        result = error_set(err, -ENOMEM, "no memory for messages of %s", control_peer_name(peer));
    if (result != 0)
        transfer_unlock();
    return result;
}

void transfer_unlock(void) { pthread_mutex_unlock(&transfers.lock); }

struct pair *transfer_pair(int peer)
{
    struct pair *pair = transfers.pairs[peer];

    if (pair == NULL) {
        pair = malloc(sizeof(*pair));
        if (pair != NULL)
            lane_init(pair, control_post);
        transfers.pairs[peer] = pair;
    }
    return pair;
}

/* ---- waiting ---- */

void transfer_sleep(int64_t deadline)
{
    int64_t slice = deadline_in_ms(SLICE_MS), until = slice < deadline ? slice : deadline;
    struct timespec at = {until / NS_PER_S, until % NS_PER_S};

    pthread_cond_timedwait(&transfers.changed, &transfers.lock, &at);
}

void transfer_check_peer(int peer) { control_check_peer(peer); }

/* While this thread waits for a peer: its end is reported by the service thread, after the
 * messages that it sent. */
static void transfer_monitor(int peer, int slices)
{
    struct pair *pair = transfers.pairs[peer];

    if (peer == transfers.rank)
        return;
    transfer_check_peer(peer);
    if (slices >= MONITOR_SLICES && !pair->monitored) {
        pair->monitored = true;
        control_monitor(peer);
    }
}

int transfer_seize(bool *busy, int64_t deadline)
{
    while (*busy && !transfers.abandoned) {
        if (deadline_passed(deadline))
            return -ETIMEDOUT;
        transfer_sleep(deadline);
    }
    if (transfers.abandoned)
        return -ENOTCONN;
    *busy = true;
    return 0;
}

void transfer_release(bool *busy)
{
    *busy = false;
    pthread_cond_broadcast(&transfers.changed);
}

/* ---- failures ---- */

/* "has left the job"; "has died, or cannot be reached: its host has not answered for 9000 ms
 * ..." */
static void transfer_print_end(int peer, int state, struct error *text)
{
    const char *reason = control_peer_why(peer);

    if (state == -EPIPE)
        error_note(text, "has left the job");
    else
        error_note(text, "has died, or cannot be reached%s%s", *reason != '\0' ? ": " : "", reason);
}

static int transfer_too_late(const struct transfer *send, const struct transfer *receive,
                             struct error *err)
{
    if (receive != NULL && !receive->finished)
        return error_set(err, -ETIMEDOUT,
                         "%s has not sent its message in time (%llu of %llu bytes came)",
                         control_peer_name(receive->peer), (unsigned long long)receive->done,
                         (unsigned long long)receive->bytes);
    return error_set(err, -ETIMEDOUT,
                     "%s has not received its messages in time, and the window is full (%llu "
                     "of %llu "
                     "bytes were sent; the window is %llu)",
                     control_peer_name(send->peer), (unsigned long long)send->done,
                     (unsigned long long)send->bytes,
                     (unsigned long long)transfers.pairs[send->peer]->out[send->lane].window);
}

int transfer_abandoned(struct error *err)
{
    return error_set(err, -ENOTCONN, "another thread is leaving the job (rexit)");
}

/* ---- the loop ---- */

/* Before a send: the window that the peer has announced. A message that needs it makes this
 * process connect. */
static void transfer_learn_window(const struct transfer *t)
{
    struct pair *pair = transfers.pairs[t->peer];
    uint32_t announced;

    if (pair->out[t->lane].announced)
        return;
    announced = t->peer == transfers.rank ? LANE_WINDOW_BYTES : greeting_window(t->peer, t->lane);
    if (announced != 0) {
        lane_announced(pair, t->lane, announced);
    } else if (lane_needs_window(pair, t) && !pair->monitored) {
        pair->monitored = true;
        control_monitor(t->peer);
    }
}

/*
 * The peer is in rexit, and this process in another call: what it has sent before has been delivered, and it takes nothing
 * unread any more. After the lane was tried: its state is loaded later than the lane under the lock.
 */
static bool transfer_is_futile(const struct transfer *t, bool receives)
{
    const struct pair *pair = transfers.pairs[t->peer];

    if ((receives ? t->kind : t->head.kind) == CHUNK_LEAVE || !control_peer_exiting(t->peer))
        return false;
    return receives || pair->out[t->lane].announced;
}

/* 0, or the error that stops this transfer. */
static int transfer_step(struct transfer *t, bool receives, struct error *err)
{
    struct pair *pair = transfers.pairs[t->peer];
    struct error end = {""};
    int result, state;

    if (t->finished)
        return 0;
    if (!receives)
        transfer_learn_window(t);
    result = receives ? lane_pull(pair, t) : lane_push(pair, t);
    if (result == 0 && !t->finished)
        result =
            control_peer_state(t->peer); /* after the pull: what it sent before its end counts */
    if (result == 0 && !t->finished && transfer_is_futile(t, receives))
        return error_set(err, -EPIPE, "%s, %s, is in rexit", control_peer_name(t->peer),
                         receives ? "from which a message is expected"
                                  : "to which a message is sent, and which has not received "
                                    "earlier ones");
    if (result == 0)
        return 0;
    if (result == -EMSGSIZE)
        return error_set(
            err, result,
            "the next message from %s has %llu bytes, and this call receives %llu; both must agree",
            control_peer_name(t->peer), (unsigned long long)t->head.total,
            (unsigned long long)t->bytes);
    state = control_peer_state(t->peer);
    if (state == 0)
        return error_set(err, result, "a message %s %s: %s", receives ? "from" : "to",
                         control_peer_name(t->peer), strerror(-result));
    transfer_print_end(t->peer, state, &end);
    return error_set(err, state, "%s, %s, %s", control_peer_name(t->peer),
                     receives ? "from which a message is expected" : "to which a message is sent",
                     end.text);
}

/* -EINPROGRESS: neither has failed, and one is not finished. */
static int transfer_step_both(struct transfer *send, struct transfer *receive, int *culprit,
                              struct error *err)
{
    int result = 0;

    if (receive != NULL)
        result = transfer_step(receive, true, err);
    if (result != 0) {
        *culprit = receive->peer;
        return result;
    }
    if (send != NULL)
        result = transfer_step(send, false, err);
    if (result != 0) {
        *culprit = send->peer;
        return result;
    }
    return (send == NULL || send->finished) && (receive == NULL || receive->finished)
               ? 0
               : -EINPROGRESS;
}

/* Whether the thread gives up: 0, or the reason. */
static int transfer_gives_up(const struct transfer *send, const struct transfer *receive,
                             const bool *ends, int64_t deadline, int *culprit, struct error *err)
{
    if (ends != NULL && *ends)
        return -EINTR;
    if (transfers.abandoned) {
        *culprit = transfers.rank;
        return transfer_abandoned(err);
    }
    if (deadline_passed(deadline)) {
        *culprit = receive != NULL && !receive->finished ? receive->peer : send->peer;
        return transfer_too_late(send, receive, err);
    }
    return 0;
}

int transfer_run(struct transfer *send, struct transfer *receive, const bool *ends,
                 int64_t deadline, int *culprit, struct error *err)
{
    int slices = 0, result;

    while ((result = transfer_step_both(send, receive, culprit, err)) == -EINPROGRESS) {
        result = transfer_gives_up(send, receive, ends, deadline, culprit, err);
        if (result != 0)
            break;
        RPIPE_FAILPOINT("network_recv: waits");
        transfer_sleep(deadline);
        slices++;
        if (receive != NULL && !receive->finished)
            transfer_monitor(receive->peer, slices);
        if (send != NULL && !send->finished)
            transfer_monitor(send->peer, slices);
    }
    if (result == 0)
        return 0;
    if (send != NULL)
        lane_cancel(transfers.pairs[send->peer], send);
    if (receive != NULL)
        lane_giveback(transfers.pairs[receive->peer], receive);
    return result;
}
