/* SPDX-License-Identifier: BSD-3-Clause */
/* event_message.c: the messages of event mode; see event_message.h. The handlers run on the service thread, under the rendezvous lock. */
#include "rpipe/wait/event_message.h"

#include "rpipe/end/config.h"
#include "rpipe/end/message.h"
#include "rpipe/end/path.h"
#include "rpipe/end/state.h"
#include "util/failpoint.h"
#include "util/received_fd.h"

#include <linux/membarrier.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int event_post_request(struct rch *ch)
{
    struct end_message_head head = message_head(ch, sizeof(head), 0);

    if (ch->late)
        return 0;
    return message_post(ch->peer, MESSAGE_EVENT_ON, &head, ch->path->wakes ? &ch->signal_fd : NULL);
}

/* ---- the writer ---- */

/* send(2) to such a socket, with MSG_DONTWAIT, waits for no lock that another process may hold; to one of TCP it may. */
static bool event_is_signal(int fd)
{
    int domain = 0, type = 0;
    socklen_t bytes = sizeof(int);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && domain == AF_UNIX &&
           type == SOCK_STREAM;
}

void event_request(struct rch *ch, int fd)
{
    if (fd < 0 && ch->path->wakes)
        return; /* the reader's descriptor stays readable, which is allowed */
    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_EVENT) != 0) {
        received_fd_close(fd); /* a second request */
        return;
    }
    if (fd >= 0 && !event_is_signal(fd)) {
        received_fd_close(fd);
        end_fail_locked(ch, -EPROTO,
                        "rank %d passed a descriptor for the signals of rfd that is no Unix socket",
                        ch->peer);
        return;
    }
    ch->signal_fd = fd;
    atomic_fetch_or_explicit(&ch->w.after, AFTER_SIGNAL, memory_order_relaxed);
    end_state_set(ch, STATE_EVENT);
    RPIPE_FAILPOINT("event: writer in event mode");
    /* every thread of this process passes a fence: after each slot that `sent` does not cover it loads `state` with EVENT, and `after` with SIGNAL */
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    (void)message_post_head(ch, MESSAGE_EVENT_ACK,
                            atomic_load_explicit(&ch->w.sent, memory_order_seq_cst));
    RPIPE_FAILPOINT("event: acknowledged");
}

static void event_on_request(struct rch *ch, struct message *m)
{
    const struct end_message_head *head = m->head;
    struct rendezvous_handshake *kept;
    struct rendezvous *r;

    if (head->role != SIDE_READER)
        return;
    if (ch != NULL) {
        if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_CLOSED) == 0 &&
            (m->fd >= 0 || !ch->path->wakes)) {
            event_request(ch, m->fd);
            m->fd = -1;
        }
        return;
    }
    r = rendezvous_find(m->from, SIDE_WRITER, head->context, false);
    kept = r != NULL ? rendezvous_find_handshake(r, head->end_number) : NULL;
    if (kept != NULL && !kept->events && rendezvous_keep_fd(kept, m->fd))
        m->fd = -1;
}

/* ---- the reader ---- */

static bool event_is_on(const struct rch *ch)
{
    return ch->signal_fd >= 0 && config_side(&ch->cfg) == SIDE_READER;
}

static void event_on_ack(struct rch *ch, const struct message *m)
{
    if (!event_is_on(ch))
        return;
    RPIPE_FAILPOINT("event: acknowledgement received");
    atomic_store_explicit(&ch->r.want, m->head->number, memory_order_relaxed);
    /* release: pairs with event_drain, which loads `acked` before `want` */
    atomic_store_explicit(&ch->r.acked, true, memory_order_release);
    end_signal(ch);
}

/* Over a network: so many messages are here, or in flight. */
static void event_on_signal(struct rch *ch, const struct message *m)
{
    uint64_t number = m->head->number;

    if (!event_is_on(ch))
        return;
    if (number > atomic_load_explicit(&ch->r.want, memory_order_relaxed))
        atomic_store_explicit(&ch->r.want, number, memory_order_relaxed);
    end_signal(ch);
}

void event_register_messages(void)
{
    static const struct message_handler request = {.known = sizeof(struct end_message_head),
                                                   .of_any = event_on_request},
                                        ack = {.known = sizeof(struct end_message_head),
                                               .of_open = event_on_ack},
                                        signal = {.known = sizeof(struct end_message_head),
                                                  .of_open = event_on_signal};

    message_register(MESSAGE_EVENT_ON, &request);
    message_register(MESSAGE_EVENT_ACK, &ack);
    message_register(MESSAGE_SIGNAL, &signal);
}
