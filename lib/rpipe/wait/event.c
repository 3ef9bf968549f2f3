/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event.c: rfd: a descriptor that is readable when rread would not wait (doc/protocol.md, model/event.pml).
 *
 * It is one end of a socket pair: the reader's own process and the writer make it readable by sending a byte to the
 * other end, which the writer has a duplicate of. A socket, and not an eventfd, because send(2) with MSG_DONTWAIT and
 * MSG_NOSIGNAL can neither block nor kill the writer, whatever the peer has really passed.
 */
#include "rpipe/wait/event.h"

#include "rpipe/end/end.h"

#include "control/control.h"
#include "util/limit.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DRAIN_READS                                                                                \
    256 /* more than a socket holds: a peer who sends all the time does not keep us reading */

static int event_watched; /* ends in event mode; store lock */

/* Rendezvous lock held, so that the last setting is that of the last count. */
static void event_watch(int change)
{
    event_watched += change;
    control_set_ticking(event_watched >
                        0); /* a dead writer kicks nobody: somebody has to look at its life word */
}

void event_close(struct rch *ch)
{
    if (ch->event_fd >= 0) {
        close(ch->event_fd);
        event_watch(-1);
    }
    if (ch->signal_fd >= 0)
        close(ch->signal_fd);
    ch->event_fd = ch->signal_fd = -1;
}

/*
 * There is no message. True if one has come in between; then the descriptor has been armed again, because there may be
 * more, and their kicks are gone. From the join, which kicks, until the writer has acknowledged the mode it stays readable.
 * The caller looks at everything that kicks, notices too, once more after this: their kicks are drained like any other.
 */
bool event_drain(struct rch *ch, bool joined)
{
    uint64_t want, most = ch->r.nread + ch->mask + 1;
    char bytes[4096], reason[160];
    int reads = DRAIN_READS;

    if (joined &&
        !atomic_load_explicit(&ch->r.acked, memory_order_acquire)) /* pairs with on_event_ack */
        return false;
    while (recv(ch->event_fd, bytes, sizeof(bytes), MSG_DONTWAIT) == (ssize_t)sizeof(bytes) &&
           --reads > 0)
        ;
    RPIPE_FAILPOINT("event: drained");
    atomic_thread_fence(memory_order_seq_cst); /* first drained, then looked at again */
    if (!joined)
        return false;
    if (reader_message_ready(ch)) {
        end_signal(ch);
        return true;
    }
    want = atomic_load_explicit(&ch->r.want, memory_order_relaxed);
    if (want > most) { /* the descriptor would stay readable for ever */
        snprintf(reason, sizeof(reason),
                 "rank %d says that message %llu is under way; it can be %llu at most", ch->peer,
                 (unsigned long long)want, (unsigned long long)most);
        join_fail(ch, -EPROTO, reason);
    }
    if (want > reader_delivered(ch))
        end_signal(ch); /* it is under way */
    return false;
}

static int event_fd_attempt(struct rch *ch, void *arguments)
{
    int pair[2], rc;

    (void)arguments;
    if (ch->event_fd >= 0)
        return 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        rc = -errno;
        return end_error(ch, rc, "rfd: socketpair: %s%s", strerror(-rc), limit_of(-rc));
    }
    rendezvous_lock(); /* the service thread kicks through these */
    ch->event_fd = pair[0];
    ch->signal_fd = pair[1];
    end_signal(ch); /* readable until the writer has acknowledged */
    atomic_fetch_or_explicit(&ch->state, STATE_EVENT, memory_order_acq_rel);
    event_watch(+1);
    rendezvous_unlock();
    RPIPE_FAILPOINT("event: descriptor made");
    (void)event_post_request(
        ch); /* a peer that is gone: the descriptor is readable, and rread says why */
    RPIPE_FAILPOINT("event: asked for");
    return 0;
}

int rpipe_fd(rch_t ch)
{
    int rc = end_check_call(ch, "rfd", SIDE_READER);

    if (rc == 0)
        rc = call_once(ch, event_fd_attempt, NULL);
    return rc != 0 ? rc : ch->event_fd;
}
