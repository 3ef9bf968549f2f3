/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event.c: rfd: a descriptor that is readable when rread would not wait (doc/protocol.md, model/event.pml).
 *
 * It is one end of a socket pair: the reader's own process and the writer make it readable by a byte to the other end, of which
 * the writer has a duplicate. It is a socket and not an eventfd, because send(2) with MSG_DONTWAIT and MSG_NOSIGNAL neither blocks
 * nor kills the writer, whatever kind of descriptor the peer has passed.
 */
#include "rpipe/wait/event.h"

#include "rpipe/end/call.h"
#include "rpipe/end/path.h"
#include "rpipe/end/state.h"
#include "rpipe/wait/event_message.h"

#include "control/control.h"
#include "util/failpoint.h"
#include "util/limit.h"
#include "util/received_fd.h"
#include "util/received_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* More than a socket holds: a peer that sends all the time does not keep this end reading. */
#define DRAIN_READS 256

static int event_watched; /* ends in event mode; rendezvous lock */

/* +1, -1: rendezvous lock held, so that the last setting is that of the last count. */
static void event_watch(struct rch *ch, int change)
{
    if (change > 0)
        rendezvous_watch(&ch->end);
    else
        rendezvous_unwatch(&ch->end);
    event_watched += change;
    control_set_ticking(event_watched >
                        0); /* a dead writer signals nothing: its liveness is polled */
}

void event_close(struct rch *ch)
{
    if (ch->event_fd >= 0) {
        received_socket_close(ch->event_fd);
        event_watch(ch, -1);
    }
    /* also that of the reader: where the writer has it in an epoll set, and no descriptor any more, the last close waits for a
     * lock of that set */
    received_fd_close(ch->signal_fd);
    ch->event_fd = ch->signal_fd = -1;
}

/*
 * From the join, which signals, until the writer has acknowledged the mode, the descriptor stays readable. After this the caller checks
 * again everything that signals, state bits included: those signals are drained like any other.
 */
bool event_drain(struct rch *ch, bool joined)
{
    uint64_t want, most;
    char bytes[4096];
    int reads = DRAIN_READS;
    ssize_t n;

    if (joined &&
        !atomic_load_explicit(&ch->r.acked, memory_order_acquire)) /* pairs with event_on_ack */
        return false;
    do
        n = ch->event_plain ? recv(ch->event_fd, bytes, sizeof(bytes), MSG_DONTWAIT)
                            : received_plain(ch->event_fd, bytes, sizeof(bytes));
    while (n == (ssize_t)sizeof(bytes) && --reads > 0);
    if (n == -EPROTO && !ch->event_plain)
        (void)end_fail(ch, -EPROTO, "rank %d sends descriptors to the descriptor of rfd", ch->peer);
    RPIPE_FAILPOINT("event: drained");
    atomic_thread_fence(memory_order_seq_cst); /* drained before it is checked again */
    if (!joined)
        return false;
    if (ch->path->message_ready(ch)) {
        end_signal(ch);
        return true;
    }
    want = atomic_load_explicit(&ch->r.want, memory_order_relaxed);
    /* after that: with GET over a network message_ready takes slots, which the writer may use again at once */
    most = ch->r.nread + ch->cfg.slots;
    if (want > most) /* the descriptor would stay readable for ever */
        (void)end_fail(ch, -EPROTO, "rank %d announces message %llu; it can be %llu at most",
                       ch->peer, (unsigned long long)want, (unsigned long long)most);
    if (want > ch->path->delivered(ch))
        end_signal(ch); /* it is in flight */
    return false;
}

static int event_fd_attempt(struct rch *ch, void *arguments)
{
    int pair[2], rc;

    *(int *)arguments = ch->event_fd;
    if (ch->event_fd >= 0)
        return 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        rc = -errno;
        return call_error(ch, rc, "socketpair: %s%s", strerror(-rc), limit_of(-rc));
    }
    rendezvous_lock(); /* the service thread uses these descriptors */
    ch->event_fd = pair[0];
    ch->signal_fd = pair[1];
    ch->event_plain = received_refuse(pair[0], true);
    received_in_order(pair[0]);
    received_fd_set_source(pair[0], RECEIVED_OF_RANK(ch->peer));
    received_fd_set_source(pair[1], RECEIVED_OF_RANK(ch->peer));
    end_signal(ch); /* readable until the writer has acknowledged */
    atomic_fetch_or_explicit(&ch->state, STATE_EVENT, memory_order_acq_rel);
    event_watch(ch, +1);
    rendezvous_unlock();
    RPIPE_FAILPOINT("event: descriptor made");
    /* if the peer is gone: the descriptor is readable, and rread returns the reason */
    (void)event_post_request(ch);
    RPIPE_FAILPOINT("event: mode requested");
    *(int *)arguments = pair[0];
    return 0;
}

int rpipe_fd(rch_t ch)
{
    struct call call;
    int rc = call_begin(&call, "rfd", ch, SIDE_READER), fd = -1;

    if (rc == 0)
        rc = call_once(ch, event_fd_attempt, &fd); /* another thread may close the end after it */
    return call_end(&call, rc != 0 ? rc : fd);
}
