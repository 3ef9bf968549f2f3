/* SPDX-License-Identifier: BSD-3-Clause */
/* accept.c: see accept.h. */
#include "control/accept.h"

#include "control/endpoint.h"
#include "control/receive.h"
#include "control/state.h"
#include "util/clock.h"
#include "util/fork_fds.h"
#include "util/received_fd.h"
#include "util/received_socket.h"
#include "util/settings.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPT_AT_ONCE 64
#define ACCEPT_RETRY_MS 100
#define HELLO_MS 5000            /* until HELLO */
#define UNAUTHENTICATED_MAX 1024 /* connections without a HELLO; beyond that the oldest is closed */

void accept_watch_listeners(bool on)
{
    static int watch_unix = WATCH_UNIX, watch_tcp = WATCH_TCP;

    control.listening = on;
    if (control.unix_listener >= 0)
        state_epoll(control.unix_listener, &watch_unix, on, false, true);
    if (control.tcp_listener >= 0)
        state_epoll(control.tcp_listener, &watch_tcp, on, false, true);
}

/* A listener stays readable: the loop would spin. */
static void accept_rest(void)
{
    accept_watch_listeners(false);
    state_timer(deadline_in_ms(ACCEPT_RETRY_MS));
}

/* Evicts the oldest unauthenticated connection. */
static void accept_evict(void)
{
    struct link *at, *after;

    list_for_each (at, after, &control.greeting) {
        struct connection *c = container_of(at, struct connection, link);

        if (c->state == CONNECTION_ACCEPTED) {
            state_drop(c);
            return;
        }
    }
}

/* One connection; its memory is allocated before it is accepted. NULL and errno. */
static struct connection *accept_one(int listener, bool is_unix)
{
    struct connection *c = connection_new(-1, is_unix, false);
    int saved;

    if (c == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (c->fd >= 0 && is_unix) {
        received_in_order(c->fd);
        received_fd_set_source(c->fd, RECEIVED_UNAUTHENTICATED);
    }
    if (c->fd >= 0)
        return c;
    saved = errno;
    connection_free(c);
    errno = saved;
    return NULL;
}

static void accept_begin(struct connection *c)
{
    fork_fds_add(c->fd);
    if (!c->is_unix)
        endpoint_tune_tcp(c->fd, setting_number(SET_KEEPALIVE_MS));
    if (control.greetings >= UNAUTHENTICATED_MAX + 2 * control.size)
        accept_evict();
    c->paused = c->unwatched = state_epoll(c->fd, c, true, false, false) != 0;
    c->watch = WATCH_CONNECTION;
    c->state = CONNECTION_ACCEPTED;
    c->deadline = deadline_in_ms(HELLO_MS);
    state_timer(c->deadline);
    list_append(&control.greeting, &c->link);
    control.greetings++;
    receive_read(c, RECEIVE_TURN_BYTES); /* mostly the greeting is there already */
}

void accept_connections(int listener, bool is_unix)
{
    struct connection *c;
    pid_t pid;
    int i;

    for (i = 0; i < ACCEPT_AT_ONCE; i++) {
        if (is_unix && received_fds_crowded()) {
            state_warn("incoming connections have to wait: too many descriptors of other processes "
                       "cannot be closed at once");
            accept_rest();
            return;
        }
        c = accept_one(listener, is_unix);
        if (c == NULL &&
            (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            state_warn("an incoming connection has to wait: %s", strerror(errno));
            accept_rest();
        }
        if (c == NULL)
            return;
        /* the name of the socket is no secret: /proc/net/unix shows it to all users */
        if (is_unix && !endpoint_same_user(c->fd, &pid)) {
            state_warn("a connection was refused: it is of another user (SO_PEERCRED)");
            connection_close(c);
            connection_free(c);
            continue;
        }
        accept_begin(c);
    }
}
