/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failure.c: see failure.h.
 */
#include "btl/tcp/failure.h"

#include "btl/tcp/held.h"
#include "btl/tcp/request.h"
#include "btl/tcp/stream.h"

#include "util/fork_fds.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>

void tcp_disconnect(struct btl_connection *c)
{
    if (c->fd < 0)
        return;
    (void)held_take(c); /* a socket that is closed with bytes resets what is still to be sent */
    /* explicitly: a child of a fork may still have the socket, and epoll would report it */
    (void)epoll_ctl(tcp_epoll_of(c), EPOLL_CTL_DEL, c->fd, NULL);
    fork_fds_close(c->fd);
    c->fd = -1;
    c->queue.first = c->queue.end = c->queue.first_extent = c->queue.end_extent = 0;
    c->queue.sent = c->queue.added;
    c->queue.blocked = false;
    c->body.rest = 0;
    c->held = (struct tcp_held){.possible = false};
    c->part_bytes = 0;
}

int tcp_fail(struct btl_connection *c, int error, const char *format, ...)
{
    struct error message = {""};
    va_list arguments;

    if (tcp_error_of(c) != 0) {
        tcp_disconnect(c); /* no failed connection has a socket: epoll would report it for ever */
        return tcp_error_of(c);
    }
    va_start(arguments, format);
    error_vnote(&message, format, arguments);
    va_end(arguments);
    snprintf(c->failure, sizeof(c->failure), "to rank %d: %.200s", c->peer, message.text);
    /* relaxed: a thread that reads it reads the error, too */
    atomic_store_explicit(&c->up, false, memory_order_relaxed);
    /* release: the message; pairs with the acquire in tcp_connection_state */
    atomic_store_explicit(&c->error, error, memory_order_release);
    tcp_disconnect(c);
    request_fail_all(c, error);
    if (c->btl->host.connection_failed != NULL)
        c->btl->host.connection_failed();
    return error;
}
