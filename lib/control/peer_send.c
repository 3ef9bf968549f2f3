/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_send.c: see peer_send.h. */
#include "control/peer_send.h"

#include "control/endpoint.h"
#include "control/message.h"
#include "control/peer_end.h"
#include "control/peer_loss.h"
#include "control/post.h"
#include "control/receive.h"
#include "control/state.h"
#include "util/clock.h"
#include "util/failpoint.h"
#include "util/settings.h"

#include <errno.h>
#include <string.h>

static void peer_send_watch(struct connection *c, bool wants_write)
{
    if (c->wants_write == wants_write)
        return;
    c->wants_write = wants_write;
    state_epoll(c->fd, c, true, wants_write, true);
}

/* Moves what was posted to the connection that carries it. */
static void peer_send_take_queue(struct peer *p, struct connection *c)
{
    struct link *at, *after;

    pthread_mutex_lock(&control.lock);
    list_for_each (at, after, &p->queue) {
        list_remove(at);
        list_append(&c->outbox, at);
    }
    pthread_mutex_unlock(&control.lock);
}

void peer_write(struct connection *c)
{
    struct peer *p = state_peer(c->peer);
    bool carries = c->outgoing && c->state == CONNECTION_OPEN;
    uint64_t sent = 0;
    struct error err = {""};
    int result;

    if (carries)
        peer_send_take_queue(p, c);
    RPIPE_FAILPOINT("message: before the socket");
    result = connection_send(c, &sent);
    RPIPE_FAILPOINT("message: with the kernel");
    if (carries)
        state_complete(p, sent);
    if (result == 0 || result == -EAGAIN) {
        peer_send_watch(c, result != 0);
    } else if (result == -ENOBUFS && carries) {
        peer_send_watch(c, false);
        peer_retry_in(p, 5);
    } else {
        error_note(&err, "its connection broke: %s", strerror(-result));
        receive_read(c, RECEIVE_DRAIN_BYTES); /* its FIN may have come before the end */
        peer_lost(c, err.text);
    }
}

/* Whether a message waits for a connection to this peer, or is being sent. */
static bool peer_has_queue(struct peer *p)
{
    bool waiting;

    pthread_mutex_lock(&control.lock);
    waiting = !list_empty(&p->queue);
    pthread_mutex_unlock(&control.lock);
    return waiting;
}

bool peer_send_last(struct peer *p, enum wire_type type)
{
    const bool waiting = peer_has_queue(p);
    struct message *m;

    if (p->out == NULL && p->in == NULL && !waiting)
        return false;
    m = message_new(type, NULL, 0, NULL, 0);
    if (m == NULL)
        return false;
    if (p->out == NULL && !waiting) {
        connection_queue(p->in, m);
        peer_write(p->in);
        return true;
    }
    pthread_mutex_lock(&control.lock);
    list_append(&p->queue, &m->link);
    p->posted++;
    control.unsent++;
    if (list_empty(&p->ready))
        list_append(&control.ready, &p->ready);
    pthread_mutex_unlock(&control.lock);
    return true;
}

void peer_send_exiting(struct peer *p)
{
    if (p->exiting_sent != EXITING_NOT || (p->features & CONTROL_FEATURE_EXITING) == 0 ||
        atomic_load_explicit(&p->state, memory_order_relaxed) != 0)
        return;
    /* before: a write that fails ends the connection, and takes it back (state_in_lost) */
    p->exiting_sent = p->out == NULL && !peer_has_queue(p) ? EXITING_ON_IN : EXITING_QUEUED;
    if (!peer_send_last(p, WIRE_EXITING))
        p->exiting_sent =
            EXITING_NOT; /* no connection: when it greets again; no memory: FIN follows */
    RPIPE_FAILPOINT("rexit: EXITING queued");
}

/*
 * A host from which nothing has come for a quarter of the keep-alive time is asked: its kernel
 * answers, whatever the process does. One from which nothing has come for three quarters, though it
 * was asked several times, is lost. There are eight checks in the keep-alive time, of all
 * connections in the same turns of the loop.
 */
void peer_check_host(struct connection *c)
{
    const long keepalive = setting_number(SET_KEEPALIVE_MS);
    const int64_t period = keepalive * NS_PER_MS / 8;
    struct endpoint_pulse pulse;
    struct error err = {""};

    endpoint_tcp_pulse(c->fd, &pulse);
    if (!pulse.idle && pulse.quiet_ms > keepalive * 3 / 4 &&
        pulse.tries >= (keepalive < 4000 ? 2 : 3)) {
        error_note(&err, "its host has not answered for %ld ms (RPIPE_KEEPALIVE_MS is %ld)",
                   pulse.quiet_ms, keepalive);
        peer_end_after_drain(state_peer(c->peer), err.text);
        return;
    }
    if (pulse.idle && pulse.quiet_ms > keepalive / 4)
        control_monitor(c->peer);
    c->deadline = (clock_now() / period + 1) * period;
    state_timer(c->deadline);
}
