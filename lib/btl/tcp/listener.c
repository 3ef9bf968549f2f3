/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * listener.c: see listener.h.
 *
 * Invariants: arrivals are in btl.arrivals, in the order of their deadlines, and in btl.arrival_of.
 * epoll reports an arrival's socket by the arrival's number, the listener by 0.
 */
#include "btl/tcp/listener.h"

#include "btl/tcp/greeting.h"
#include "btl/tcp/stream.h"

#include "util/clock.h"
#include "util/failpoint.h"
#include "util/fork_fds.h"
#include "util/limit.h"
#include "util/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define BACKLOG 4096
#define ACCEPTS 16 /* in one call */

/* ---- the listening socket ---- */

/* The address of this rank; without one, only this process can be reached. */
static int listener_parse(const char *text, union tcp_address *a, struct tcp_name *name)
{
    memset(a, 0, sizeof(*a));
    if (*text == '\0')
        text = "127.0.0.1";
    if (inet_pton(AF_INET, text, &a->four.sin_addr) == 1) {
        a->four.sin_family = AF_INET;
        name->family = 4;
        memcpy(name->address, &a->four.sin_addr, 4);
        return 0;
    }
    if (inet_pton(AF_INET6, text, &a->six.sin6_addr) == 1) {
        a->six.sin6_family = AF_INET6;
        name->family = 6;
        memcpy(name->address, &a->six.sin6_addr, 16);
        return 0;
    }
    return -EINVAL;
}

static int listener_watch(struct btl *btl)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};

    if (epoll_ctl(btl->epoll, EPOLL_CTL_ADD, btl->listener, &event) != 0)
        return -errno;
    btl->listening = true;
    return 0;
}

static int listener_bind(struct btl *btl, union tcp_address *a)
{
    const int on = 1;
    socklen_t bytes = a->any.sa_family == AF_INET ? sizeof(a->four) : sizeof(a->six);

    btl->listener = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (btl->listener < 0)
        return -errno;
    fork_fds_add(btl->listener);
    if (a->any.sa_family == AF_INET6)
        (void)setsockopt(btl->listener, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (bind(btl->listener, &a->any, bytes) != 0 || listen(btl->listener, BACKLOG) != 0 ||
        getsockname(btl->listener, &a->any, &bytes) != 0)
        return -errno;
    btl->name.port = ntohs(a->any.sa_family == AF_INET ? a->four.sin_port : a->six.sin6_port);
    return listener_watch(btl);
}

static size_t listener_arrivals_most(void)
{
    struct rlimit files;
    size_t most;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return ARRIVALS_LEAST;
    most = files.rlim_cur / 4 < ARRIVALS_MOST ? (size_t)(files.rlim_cur / 4) : ARRIVALS_MOST;
    return most > ARRIVALS_LEAST ? most : ARRIVALS_LEAST;
}

int listener_open(struct btl *btl, struct error *err)
{
    union tcp_address a;
    int rc = listener_parse(btl->host.address, &a, &btl->name);

    btl->listener = -1;
    btl->arrivals_most = listener_arrivals_most();
    if (rc == 0)
        rc = listener_bind(btl, &a);
    if (rc == 0)
        return 0;
    fork_fds_close(btl->listener);
    btl->listener = -1;
    return error_set(err, rc, "listening at the address of this rank, \"%s\": %s%s",
                     btl->host.address, strerror(-rc), limit_of(-rc));
}

/* ---- arrivals ---- */

static void listener_forget(struct btl *btl, struct tcp_arrival *g)
{
    list_remove(&g->link);
    (void)hash_remove(&btl->arrival_of, g->id);
    btl->arrival_count--;
    free(g);
}

static void listener_show_out(struct btl *btl, struct tcp_arrival *g)
{
    (void)epoll_ctl(btl->epoll, EPOLL_CTL_DEL, g->fd, NULL);
    fork_fds_close(g->fd);
    listener_forget(btl, g);
}

static struct tcp_arrival *listener_oldest(struct btl *btl)
{
    return container_of(btl->arrivals.next, struct tcp_arrival, link);
}

/* Takes over the socket, or closes it. */
static struct tcp_arrival *listener_add(struct btl *btl, int fd)
{
    struct tcp_arrival *g = calloc(1, sizeof(*g));
    struct epoll_event event = {.events = EPOLLIN};

    fork_fds_add(fd);
    if (g == NULL || hash_put(&btl->arrival_of, btl->last_id + 1, g) != 0) {
        fork_fds_close(fd);
        free(g);
        return NULL;
    }
    event.data.u64 = g->id = ++btl->last_id;
    g->fd = fd;
    g->deadline = clock_now() + ARRIVAL_NS;
    list_append(&btl->arrivals, &g->link);
    btl->arrival_count++;
    greeting_configure(btl, fd);
    if (epoll_ctl(btl->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        listener_show_out(btl, g);
        return NULL;
    }
    return g;
}

void listener_accept(struct btl *btl)
{
    int i, fd;

    for (i = 0; i < ACCEPTS; i++) {
        struct tcp_arrival *g;

        fd = accept4(btl->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            break;
        while (btl->arrival_count >= btl->arrivals_most)
            listener_show_out(btl, listener_oldest(btl));
        g = listener_add(btl, fd);
        if (g != NULL)
            listener_arrival_ready(btl, g);
    }
    if (i < ACCEPTS && fd < 0 &&
        (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        /* epoll would report it without end: the timer adds it again */
        (void)epoll_ctl(btl->epoll, EPOLL_CTL_DEL, btl->listener, NULL);
        btl->listening = false;
    }
}

bool listener_expire(struct btl *btl, int64_t now)
{
    while (btl->arrival_count > 0 && listener_oldest(btl)->deadline <= now)
        listener_show_out(btl, listener_oldest(btl));
    if (!btl->listening)
        (void)listener_watch(btl);
    return btl->arrival_count > 0 || !btl->listening;
}

void listener_close(struct btl *btl)
{
    while (!list_empty(&btl->arrivals))
        listener_show_out(btl, listener_oldest(btl));
    fork_fds_close(btl->listener);
    btl->listener = -1;
}

/* ---- the greeting of an arrival ---- */

/* The connection that the arrival may have, this thread inside; NULL: none. */
static struct btl_connection *listener_match(struct btl *btl, const struct tcp_greeting *greeting,
                                             bool *as_owner)
{
    struct btl_connection *c = hash_get(&btl->connections, greeting->id);

    /* first the cookie, which does not change: a greeting without it takes no thread out of its stream */
    if (greeting->magic != TCP_MAGIC || c == NULL || c->role != BTL_ACCEPTS ||
        !greeting_same_cookie(greeting->cookie, c->cookie))
        return NULL;
    *as_owner = tcp_enter(c, BIASED_NEVER);
    if (c->stage == TCP_OPEN && tcp_error_of(c) == 0)
        return c;
    tcp_leave(c, *as_owner);
    return NULL;
}

/* Puts the socket of an arrival into the set of its connection. 0 or -1. */
static int listener_hand_over(const struct btl *btl, const struct btl_connection *c, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = tcp_event_of(c)};

    if (c->stream == NULL)
        return epoll_ctl(btl->epoll, EPOLL_CTL_MOD, fd, &event);
    (void)epoll_ctl(btl->epoll, EPOLL_CTL_DEL, fd, NULL);
    return epoll_ctl(c->stream->epoll, EPOLL_CTL_ADD, fd, &event);
}

static void listener_greeted(struct btl *btl, struct tcp_arrival *g)
{
    bool as_owner;
    struct btl_connection *c = listener_match(btl, &g->greeting, &as_owner);

    if (c == NULL) {
        log_debug("tcp: a connection without a valid greeting is closed");
        greeting_refuse(g->fd);
        listener_show_out(btl, g);
        return;
    }
    if (listener_hand_over(btl, c, g->fd) == 0) {
        const int fd = g->fd;

        listener_forget(btl, g);
        greeting_accepted(c, fd);
    } else {
        listener_show_out(btl, g);
    }
    tcp_leave(c, as_owner);
    RPIPE_FAILPOINT("tcp: greeting received");
}

void listener_arrival_ready(struct btl *btl, struct tcp_arrival *g)
{
    const ssize_t n =
        recv(g->fd, (char *)&g->greeting + g->bytes, sizeof(g->greeting) - g->bytes, MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
        listener_show_out(btl, g);
        return;
    }
    if (n > 0)
        g->bytes += (uint32_t)n;
    if (g->bytes == sizeof(g->greeting))
        listener_greeted(btl, g);
}
