/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * greeting.c: see greeting.h.
 */
#include "btl/tcp/greeting.h"

#include "btl/tcp/failure.h"
#include "btl/tcp/held.h"
#include "btl/tcp/queue.h"
#include "btl/tcp/stream.h"

#include "util/clock.h"
#include "util/failpoint.h"
#include "util/fork_fds.h"
#include "util/limit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define AGAIN_NS (10 * NS_PER_MS)
#define DOUBLINGS 7
#define PROBES 3 /* without an answer, then an idle connection has ended */

void greeting_print(const struct tcp_name *name, char *text, size_t bytes)
{
    char address[INET6_ADDRSTRLEN] = "";

    (void)inet_ntop(name->family == 4 ? AF_INET : AF_INET6, name->address, address,
                    sizeof(address));
    snprintf(text, bytes, name->family == 4 ? "%s:%u" : "[%s]:%u", address, name->port);
}

static socklen_t greeting_socket_address(const struct tcp_name *name, union tcp_address *to)
{
    memset(to, 0, sizeof(*to));
    if (name->family == 4) {
        to->four.sin_family = AF_INET;
        to->four.sin_port = htons(name->port);
        memcpy(&to->four.sin_addr, name->address, 4);
        return sizeof(to->four);
    }
    to->six.sin6_family = AF_INET6;
    to->six.sin6_port = htons(name->port);
    memcpy(&to->six.sin6_addr, name->address, 16);
    return sizeof(to->six);
}

bool greeting_same_cookie(const uint8_t *a, const uint8_t *b)
{
    unsigned difference = 0, i;

    for (i = 0; i < TCP_COOKIE_BYTES; i++)
        difference |= (unsigned)(a[i] ^ b[i]);
    return difference == 0;
}

static int greeting_seconds(long ms) { return ms < 1000 ? 1 : (int)(ms / 1000); }

void greeting_configure(const struct btl *btl, int fd)
{
    const long ms = strtol(btl->host.setting("RPIPE_KEEPALIVE_MS"), NULL, 10);
    const int on = 1, idle = greeting_seconds(ms / 2), interval = greeting_seconds(ms / 5),
              probes = PROBES;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (ms <= 0)
        return;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

/* Both ends have the same address: they are on this host, and nothing is between them. */
static bool greeting_is_within_host(int fd)
{
    union tcp_address here = {0}, there = {0};
    socklen_t here_bytes = sizeof(here), there_bytes = sizeof(there);

    if (getsockname(fd, &here.any, &here_bytes) != 0 ||
        getpeername(fd, &there.any, &there_bytes) != 0 || here.any.sa_family != there.any.sa_family)
        return false;
    if (here.any.sa_family == AF_INET)
        return here.four.sin_addr.s_addr == there.four.sin_addr.s_addr;
    return here.any.sa_family == AF_INET6 &&
           memcmp(&here.six.sin6_addr, &there.six.sin6_addr, sizeof(here.six.sin6_addr)) == 0;
}

/*
 * Within a host a congestion control that paces what it sends (BBR) waits for timers, to spare a link that is not there. Reno, which
 * every kernel has and every process may choose, sends at once. Between hosts it is the one of the system.
 */
static void greeting_unpace(int fd)
{
    static const char reno[] = "reno";

    if (greeting_is_within_host(fd))
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, reno, sizeof(reno) - 1);
}

/* The other end's cookie, as the first thing in the queue. */
static void greeting_queue(struct btl_connection *c)
{
    struct tcp_greeting greeting = {.magic = TCP_MAGIC, .id = c->name.id};

    memcpy(greeting.cookie, c->name.cookie, sizeof(greeting.cookie));
    queue_copy(&c->queue, &greeting, sizeof(greeting));
}

void greeting_refuse(int fd)
{
    const struct tcp_greeting none = {.magic = TCP_MAGIC};

    (void)send(fd, &none, sizeof(none), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void greeting_up(struct btl_connection *c)
{
    held_begin(c);
    greeting_unpace(c->fd);
    c->stage = TCP_UP;
    /* relaxed: a thread that transfers is inside the connection */
    atomic_store_explicit(&c->up, true, memory_order_relaxed);
}

int greeting_dial(struct btl_connection *c, struct error *err)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.u64 = tcp_event_of(c)};
    char text[TCP_ADDRESS_TEXT];
    union tcp_address to;
    bool connected;
    socklen_t bytes = greeting_socket_address(&c->name, &to);
    int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;

    greeting_print(&c->name, text, sizeof(text));
    if (fd < 0)
        return error_set(err, -errno, "a socket to %s: %s%s", text, strerror(errno),
                         limit_of(errno));
    fork_fds_add(fd);
    greeting_configure(c->btl, fd);
    RPIPE_FAILPOINT("tcp: before dialing");
    rc = connect(fd, &to.any, bytes);
    connected = rc == 0;
    rc = connected || errno == EINPROGRESS ? 0 : -errno;
    if (rc == 0 && epoll_ctl(tcp_epoll_of(c), EPOLL_CTL_ADD, fd, &event) != 0)
        rc = -errno;
    if (rc != 0) {
        fork_fds_close(fd);
        return error_set(err, rc, "connect(2) to %s: %s%s", text, strerror(-rc), limit_of(-rc));
    }
    c->fd = fd;
    c->events = event.events;
    c->stage = TCP_DIALING;
    c->dialed++;
    if (connected)
        greeting_dialed(c);
    return 0;
}

void greeting_lost(struct btl_connection *c)
{
    const uint32_t doublings = c->dialed < DOUBLINGS ? c->dialed : DOUBLINGS;

    tcp_disconnect(c);
    c->stage = TCP_OPEN;
    c->dial_at = clock_now() + (AGAIN_NS << doublings);
}

void greeting_dial_again(struct btl_connection *c, int64_t now)
{
    struct error err = {""};
    int rc = 0;

    if (tcp_error_of(c) == 0 && c->stage == TCP_OPEN && c->role == BTL_CONNECTS && c->named &&
        c->dial_at <= now)
        rc = greeting_dial(c, &err);
    if (rc != 0)
        (void)tcp_fail(c, rc, "%s", err.text);
}

void greeting_dialed(struct btl_connection *c)
{
    char text[TCP_ADDRESS_TEXT];
    int error = 0;
    socklen_t bytes = sizeof(error);

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    if (error == ECONNRESET) {
        greeting_lost(c);
        return;
    }
    if (error != 0) {
        greeting_print(&c->name, text, sizeof(text));
        (void)tcp_fail(c, -error, "connect(2) to %s: %s", text, strerror(error));
        return;
    }
    c->stage = TCP_GREETING;
    greeting_queue(c);
    queue_send(c);
    RPIPE_FAILPOINT("tcp: greeting sent");
}

void greeting_accepted(struct btl_connection *c, int fd)
{
    c->fd = fd;
    c->events = EPOLLIN;
    c->stage = TCP_GREETED;
    if (c->named)
        greeting_named(c);
}

void greeting_named(struct btl_connection *c)
{
    if (c->stage != TCP_GREETED)
        return;
    greeting_up(c);
    greeting_queue(c);
    queue_send(c);
    RPIPE_FAILPOINT("tcp: greeting answered");
}

void greeting_answered(struct btl_connection *c, const struct tcp_greeting *greeting)
{
    if (c->stage == TCP_GREETING && greeting->magic == TCP_MAGIC && greeting->id == c->id &&
        greeting_same_cookie(greeting->cookie, c->cookie))
        greeting_up(c);
    else if (greeting->magic == TCP_MAGIC && greeting->id == 0)
        (void)tcp_fail(c, -ECONNREFUSED, "rank %d has closed the other end", c->peer);
    else
        (void)tcp_fail(c, -EIO,
                       "rank %d sent no valid greeting: another process listens at its address",
                       c->peer);
}
