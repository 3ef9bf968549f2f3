/* SPDX-License-Identifier: BSD-3-Clause */
/* receive.c: see receive.h. */
#include "control/receive.h"

#include "control/state.h"
#include "util/clock.h"

#include <errno.h>

#define RECEIVE_PAUSE_MS 20

static const struct receive_handlers *receive_handlers;

void receive_set_handlers(const struct receive_handlers *handlers) { receive_handlers = handlers; }

static void receive_pause(struct connection *c, const char *reason)
{
    if (!c->paused && c->state == CONNECTION_OPEN)
        state_warn("%s: %s; its messages wait", control_peer_name(c->peer), reason);
    else if (!c->paused)
        state_warn("an incoming connection waits: %s", reason);
    c->paused = true;
    state_epoll(c->fd, c, false, c->wants_write, true);
    state_timer(deadline_in_ms(RECEIVE_PAUSE_MS));
}

/* Every whole frame in the buffer. False: nothing more is to be read from this
 * connection now. */
static bool receive_take_frames(struct connection *c)
{
    const struct wire_frame *frame = NULL;
    const void *body = NULL;
    struct error err = {""};
    int whole;

    while ((whole = connection_frame(c, &frame, &body, &err)) == 1) {
        if (receive_handlers->frame(c, frame, body) == -ENOMEM) {
            receive_pause(c, "there is no memory for a message");
            return false;
        }
        if (c->state == CONNECTION_CLOSED)
            return false;
        connection_consume(c, frame);
    }
    if (whole < 0)
        receive_handlers->violation(c, err.text);
    return whole == 0;
}

static bool receive_unpause(struct connection *c)
{
    if (!receive_take_frames(c))
        return false;
    if (state_epoll(c->fd, c, true, c->wants_write, !c->unwatched) != 0) {
        state_timer(deadline_in_ms(RECEIVE_PAUSE_MS));
        return false;
    }
    c->paused = c->unwatched = false;
    return true;
}

void receive_read(struct connection *c, size_t budget)
{
    struct error err = {""};
    size_t got = 0;
    ssize_t n;

    if (c->paused && !receive_unpause(c))
        return;
    while (c->state != CONNECTION_CLOSED && c->state != CONNECTION_DIALING && got < budget) {
        n = connection_receive(c, &err);
        if (n == -EAGAIN)
            return;
        if (n == -ENOMEM) {
            receive_pause(c, err.text);
            return;
        }
        if (n == -EPROTO) {
            receive_handlers->violation(c, err.text);
            return;
        }
        if (n <= 0) {
            receive_handlers->ended(c, n == 0 ? "it closed its connection without a "
                                                "FIN: its process has died, or "
                                                "refuses this one"
                                              : err.text);
            return;
        }
        got += (size_t)n;
        if (!receive_take_frames(c))
            return;
    }
}

void receive_resume(struct link *connections)
{
    struct link paused, *at, *after;

    list_init(&paused);
    list_for_each (at, after, connections) {
        if (container_of(at, struct connection, link)->paused) {
            list_remove(at);
            list_append(&paused, at);
        }
    }
    while (!list_empty(&paused)) { /* reading may end any of them, which takes it
                                    off this list */
        struct connection *c = container_of(paused.next, struct connection, link);

        list_remove(&c->link);
        list_append(connections, &c->link);
        receive_read(c, RECEIVE_TURN_BYTES);
    }
}
