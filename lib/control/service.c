/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * service.c: the service thread of the control network.
 *
 * It sleeps in epoll and in turn does: what the sockets say, what other threads have posted, life words and the tick, what
 * is due, the steps of an orderly end. Connections that are closed in the middle of a turn stay allocated until its end,
 * because later events of the same turn may point to them. Nothing that a peer sends can stop it: a breach of the protocol
 * closes a connection, and want of memory or descriptors is waited out.
 */
#include "control/service.h"

#include "control/collective.h"
#include "control/endpoint.h"
#include "bootstrap/job.h"
#include "control/liveness.h"
#include "util/fork_fds.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/failpoint.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 64
#define TURN_BYTES (1u << 20) /* from one connection, before the others are looked at */
#define TICK_NS (25 * NS_PER_MS)
#define HELLO_MS 5000      /* who calls has to say who it is */
#define STRANGERS_MAX 1024 /* callers that have not; more: the oldest goes */
#define WARNINGS_MAX 20
#define SELF_TRIES 500 /* of one ms, the same for what this rank sends to itself */
#define STARVED_MS 20  /* until what there was no memory for is looked at again */
#define LINGER_MS 500  /* for the acknowledgement of what TCP has taken */
#define WHY 320

void service_warn(const char *format, ...)
{
    char line[600];
    va_list args;

    if (control.warnings > WARNINGS_MAX)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    log_warn("control network: %s%s", line,
             control.warnings++ == WARNINGS_MAX ? " (no more of these are told)" : "");
}

int service_watch(int fd, void *watch, bool read, bool write, bool change)
{
    struct epoll_event event = {.events = (read ? EPOLLIN : 0) | (write ? EPOLLOUT : 0),
                                .data.ptr = watch};

    return epoll_ctl(control.epoll, change ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) == 0
               ? 0
               : -errno;
}

void service_timer(int64_t when)
{
    if (when < control.timer)
        control.timer = when;
}

void service_drop(struct connection *c)
{
    if (c->state == CONNECTION_CLOSED)
        return;
    if (c->state != CONNECTION_OPEN)
        control.greetings--;
    connection_close(
        c); /* which also ends the watch: nobody else has this socket but perhaps a child */
    list_remove(&c->link);
    list_append(&control.closed, &c->link);
}

/* ---- what comes in ---- */

static void service_give_descriptors(struct connection *c, const struct wire_frame *frame, int *fds)
{
    uint32_t i;

    for (i = 0; i < frame->nfds; i++) {
        fds[i] = c->fds[i];
        c->fds[i] = -1;
        fork_fds_forget(fds[i]);
    }
}

/* 0; -ENOMEM: there is no memory to keep it, and it has to come again: only where no descriptors came with it. */
static int service_deliver(int from, uint32_t type, const void *body, size_t bytes, const int *fds,
                           int nfds)
{
    int i;

    if (type >= CONTROL_TYPE_USER && control.hooks.message != NULL) {
        control.hooks.message(from, type, body, bytes, fds, nfds);
        return 0;
    }
    for (i = 0; i < nfds; i++)
        close(fds[i]);
    return type >= WIRE_PIECE && type <= WIRE_LEAVE ? collect_message(from, type, body, bytes) : 0;
}

static int service_frame_of_peer(struct connection *c, const struct wire_frame *frame,
                                 const void *body)
{
    int fds[CONTROL_FDS_MAX];
    bool key_cache = frame->type == WIRE_GOODBYE ||
                     (!c->outgoing && (frame->type == WIRE_PING || frame->type >= WIRE_PIECE));
    int rc;

    c->heard = true;
    if (!key_cache ||
        (frame->type < CONTROL_TYPE_USER && (frame->nfds > 0 || frame->type > WIRE_LEAVE))) {
        control_cut_off(c->peer, "it sent a message of a kind that does not exist");
        return 0;
    }
    if (frame->type == WIRE_GOODBYE) {
        peer_goodbye(c);
        return 0;
    }
    service_give_descriptors(c, frame, fds);
    RPIPE_FAILPOINT("message: read");
    rc = service_deliver(c->peer, frame->type, body, frame->bytes, fds, (int)frame->nfds);
    RPIPE_FAILPOINT("message: delivered");
    return rc;
}

static int service_frame_dispatch(struct connection *c, const struct wire_frame *frame,
                                  const void *body)
{
    switch (c->state) {
    case CONNECTION_ACCEPTED:
        return peer_hello(c, frame, body);
    case CONNECTION_GREETING:
        return peer_welcome(c, frame, body);
    case CONNECTION_OPEN:
        return service_frame_of_peer(c, frame, body);
    default:
        return 0;
    }
}

/* It said what cannot be. */
static void service_violation(struct connection *c, const char *why)
{
    if (c->state == CONNECTION_OPEN) {
        control_cut_off(c->peer, why);
        return;
    }
    service_warn("a connection was closed: %s", why);
    peer_lost(c, why);
}

/* There is no memory for what has come. It waits, in our buffer and the kernel's, and so does who sends more. */
static void service_starve(struct connection *c)
{
    if (!c->starved)
        service_warn("there is no memory for what %s sends: it has to wait",
                     c->state == CONNECTION_OPEN ? "a peer" : "a caller");
    c->starved = true;
    service_watch(c->fd, c, false, c->wants_write, true);
    service_timer(deadline_in_ms(STARVED_MS));
}

/* Every whole frame in the buffer. False: nothing more is to be read from this connection now. */
static bool service_take_frames(struct connection *c)
{
    const struct wire_frame *frame;
    const void *body;
    struct error err = {""};
    int whole;

    while ((whole = connection_frame(c, &frame, &body, &err)) == 1) {
        if (service_frame_dispatch(c, frame, body) == -ENOMEM) {
            service_starve(c);
            return false;
        }
        if (c->state == CONNECTION_CLOSED)
            return false;
        connection_consume(c, frame);
    }
    if (whole < 0)
        service_violation(c, err.text);
    return whole == 0;
}

void service_read(struct connection *c, size_t budget)
{
    struct error err = {""};
    size_t got = 0;
    ssize_t n;

    if (c->starved && !service_take_frames(c))
        return;
    if (c->starved) {
        if (service_watch(c->fd, c, true, c->wants_write, !c->unwatched) != 0) {
            service_timer(deadline_in_ms(STARVED_MS));
            return;
        }
        c->starved = c->unwatched = false;
    }
    while (c->state != CONNECTION_CLOSED && c->state != CONNECTION_DIALING && got < budget) {
        n = connection_receive(c, &err);
        if (n == -EAGAIN)
            return;
        if (n == -ENOMEM) {
            service_starve(c);
            return;
        }
        if (n == -EPROTO) {
            service_violation(c, err.text);
            return;
        }
        if (n <= 0) {
            peer_lost(
                c, n == 0
                       ? "it hung up without a goodbye: its process has died, or refuses this one"
                       : err.text);
            return;
        }
        got += (size_t)n;
        if (!service_take_frames(c))
            return;
    }
}

static void service_listeners_watch(bool on)
{
    static int watch_unix = WATCH_UNIX, watch_tcp = WATCH_TCP;

    control.listening = on;
    if (control.unix_listener >= 0)
        service_watch(control.unix_listener, &watch_unix, on, false, true);
    if (control.tcp_listener >= 0)
        service_watch(control.tcp_listener, &watch_tcp, on, false, true);
}

/* Makes room for a caller by showing out the one that has been silent the longest. */
static void service_evict_unauthenticated(void)
{
    struct link *at, *after;

    list_for_each (at, after, &control.greeting) {
        struct connection *c = container_of(at, struct connection, link);

        if (c->state == CONNECTION_ACCEPTED) {
            service_drop(c);
            return;
        }
    }
}

/* A caller, and memory for him first: once accepted he could only be sent away. NULL and errno. */
static struct connection *service_accept_one(int listener, bool is_unix)
{
    struct connection *c = connection_new(-1, is_unix, false);
    int saved;

    if (c == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (c->fd >= 0)
        return c;
    saved = errno;
    connection_free(c);
    errno = saved;
    return NULL;
}

static void service_accept_callers(int listener, bool is_unix)
{
    struct connection *c;
    pid_t pid;
    int i;

    for (i = 0; i < EVENTS; i++) {
        c = service_accept_one(listener, is_unix);
        if (c == NULL &&
            (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            service_warn("a caller has to wait: %s", strerror(errno));
            service_listeners_watch(
                false); /* a listener stays readable: without this the thread would spin */
            service_timer(deadline_in_ms(100));
        }
        if (c == NULL)
            return;
        if (is_unix &&
            !endpoint_same_user(c->fd,
                                &pid)) { /* the name is no secret: /proc/net/unix shows it to all */
            service_warn("a caller was sent away: it is of another user (SO_PEERCRED)");
            close(c->fd);
            connection_free(c);
            continue;
        }
        fork_fds_add(c->fd);
        if (!is_unix)
            endpoint_tune_tcp(c->fd, setting_number(SET_KEEPALIVE_MS));
        if (control.greetings >= STRANGERS_MAX + 2 * control.size)
            service_evict_unauthenticated();
        c->starved = c->unwatched = service_watch(c->fd, c, true, false, false) != 0;
        c->watch = WATCH_CONNECTION;
        c->state = CONNECTION_ACCEPTED;
        c->deadline = deadline_in_ms(HELLO_MS);
        service_timer(c->deadline);
        list_append(&control.greeting, &c->link);
        control.greetings++;
        service_read(c, TURN_BYTES); /* the greeting is mostly there already */
    }
}

static void service_event_of_connection(struct connection *c, uint32_t events)
{
    if (c->state == CONNECTION_DIALING) {
        peer_connected(c);
        return;
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
        service_read(c, TURN_BYTES);
    if ((events & EPOLLOUT) != 0 && c->state != CONNECTION_CLOSED)
        peer_write(c);
}

static void service_event_dispatch(void *watch, uint32_t events)
{
    uint64_t count;
    ssize_t n;

    switch (*(int *)watch) {
    case WATCH_WAKE:
        n = read(control.wake, &count, sizeof(count));
        (void)n; /* what there is to do is found elsewhere */
        break;
    case WATCH_JOB:
        job_watched();
        break;
    case WATCH_UNIX:
        service_accept_callers(control.unix_listener, true);
        break;
    case WATCH_TCP:
        service_accept_callers(control.tcp_listener, false);
        break;
    case WATCH_BACKEND:
        watch_event(watch);
        break;
    default:
        service_event_of_connection(watch, events);
        break;
    }
}

/* Those that wait for memory. */
static void service_feed(struct link *connections)
{
    struct link hungry, *at, *after;

    list_init(&hungry);
    list_for_each (at, after, connections) {
        if (container_of(at, struct connection, link)->starved) {
            list_remove(at);
            list_append(&hungry, at);
        }
    }
    while (!list_empty(&hungry)) { /* reading may end any of them, which takes it out of here */
        struct connection *c = container_of(hungry.next, struct connection, link);

        list_remove(&c->link);
        list_append(connections, &c->link);
        service_read(c, TURN_BYTES);
    }
}

/* ---- what has been posted ---- */

static void service_deliver_to_self(struct peer *p)
{
    struct link mine, *at, *after;
    const struct timespec backoff = {0, NS_PER_MS};
    uint64_t count = 0;

    list_init(&mine);
    pthread_mutex_lock(&control.lock);
    list_for_each (at, after, &p->queue) {
        list_remove(at);
        list_append(&mine, at);
    }
    pthread_mutex_unlock(&control.lock);
    list_for_each (at, after, &mine) {
        struct message *m = container_of(at, struct message, link);
        int fds[CONTROL_FDS_MAX], i;

        for (i = 0; i < m->nfds; i++) {
            fds[i] = m->fds[i];
            fork_fds_forget(fds[i]);
        }
        for (i = 0; service_deliver(control.rank, m->frame.type, m->body, m->frame.bytes, fds,
                                    m->nfds) == -ENOMEM;
             i++) {
            if (i == SELF_TRIES) {
                log_error("a message of this rank to itself is lost: no memory to keep it");
                break;
            }
            nanosleep(&backoff, NULL); /* it cannot wait in a socket */
        }
        m->nfds = 0;
        message_free(m);
        count++;
    }
    pthread_mutex_lock(&control.lock);
    p->gone += count;
    control.unsent -= count;
    if (control.flushers > 0)
        pthread_cond_broadcast(&control.moved);
    pthread_mutex_unlock(&control.lock);
}

static void service_serve_ready(void)
{
    struct link batch;
    struct peer *p;

    list_init(&batch);
    pthread_mutex_lock(&control.lock);
    while (!list_empty(
        &control.ready)) { /* those that become ready meanwhile wait for the next turn */
        struct link *first = control.ready.next;

        list_remove(first);
        list_append(&batch, first);
    }
    while (!list_empty(&batch)) {
        p = container_of(batch.next, struct peer, ready);
        list_remove(&p->ready);
        pthread_mutex_unlock(&control.lock);
        if (peer_rank(p) == control.rank)
            service_deliver_to_self(p);
        else
            peer_serve(p);
        pthread_mutex_lock(&control.lock);
    }
    pthread_mutex_unlock(&control.lock);
}

/* ---- time ---- */

static void service_timers_run(void)
{
    int64_t now = clock_now();
    struct link due, *at, *after;

    control.timer = NO_TIME;
    if (!control.listening)
        service_listeners_watch(true);
    service_feed(&control.greeting);
    service_feed(&control.open);
    list_init(&due);
    list_for_each (at, after, &control.greeting) {
        struct connection *c = container_of(at, struct connection, link);

        service_timer(c->deadline);
        if (c->deadline <= now) {
            list_remove(at);
            list_append(&due, at);
        }
    }
    while (!list_empty(&due)) { /* to be dropped: service_drop() takes each out of `due` */
        struct link *first = due.next;

        peer_greeting_late(container_of(first, struct connection, link));
    }
    list_for_each (at, after, &control.open) {
        struct connection *c = container_of(at, struct connection, link);

        service_timer(c->deadline);
        if (c->deadline <= now)
            list_remove(at), list_append(&due, at);
    }
    while (!list_empty(&due)) {
        struct connection *c = container_of(due.next, struct connection, link);

        list_remove(&c->link);
        list_append(&control.open, &c->link);
        peer_pulse(c); /* may end the peer, and with it others of `due`: those leave the list */
    }
    list_for_each (at, after, &control.timed) {
        list_remove(at);
        list_append(&due, at);
    }
    while (!list_empty(&due)) {
        struct peer *p = container_of(due.next, struct peer, timed);

        list_remove(&p->timed);
        list_append(&control.timed, &p->timed);
        peer_timer(p, now);
    }
    if (control.timer <= now)
        control.timer =
            now; /* what was late has been done; what it made due again is done in the next turn */
}

static int service_turn_timeout(void)
{
    int64_t until = control.timer, due = watch_next();

    if (due < until)
        until = due;

    if (atomic_load_explicit(&control.ticking, memory_order_relaxed) && control.next_tick < until)
        until = control.next_tick;
    if (control.stopping && control.stop_deadline < until)
        until = control.stop_deadline;
    return until == NO_TIME ? -1 : deadline_left_ms(until, -1);
}

/* ---- the end ---- */

static void service_send_goodbyes(void)
{
    int rank;

    control.goodbyes_sent = true;
    for (rank = 0; rank < control.size; rank++) {
        struct peer *p = &control.peers[rank];
        struct message *m;
        bool waiting;

        if (rank == control.rank || atomic_load_explicit(&p->state, memory_order_relaxed) != 0)
            continue;
        pthread_mutex_lock(&control.lock);
        waiting = !list_empty(&p->queue);
        pthread_mutex_unlock(&control.lock);
        if (p->out == NULL && p->in == NULL && !waiting)
            continue;
        m = message_new(WIRE_GOODBYE, NULL, 0, NULL, 0);
        if (m == NULL)
            continue; /* the peer will take us for dead */
        if (p->out == NULL &&
            !waiting) { /* it talks to us, we never talked to it: say it where it listens */
            connection_queue(p->in, m);
            peer_write(p->in);
            continue;
        }
        pthread_mutex_lock(&control.lock);
        list_append(&p->queue, &m->link);
        p->posted++;
        control.unsent++;
        if (list_empty(&p->ready))
            list_append(&control.ready, &p->ready);
        pthread_mutex_unlock(&control.lock);
    }
    RPIPE_FAILPOINT("rexit: goodbyes queued");
    liveness_leave();
    RPIPE_FAILPOINT("rexit: life word says left");
}

static bool service_all_sent(void)
{
    struct link *at, *after;
    bool sent;

    pthread_mutex_lock(&control.lock);
    sent = control.unsent == 0;
    pthread_mutex_unlock(&control.lock);
    list_for_each (at, after, &control.open) {
        if (!list_empty(&container_of(at, struct connection, link)->outbox))
            sent = false;
    }
    return sent;
}

/* What TCP has taken is on its way, and stays so if we close; but not if this was the last process of a container. */
static void service_deferred(void)
{
    const struct timespec backoff = {0, NS_PER_MS};
    int64_t patience = deadline_in_ms(LINGER_MS);
    struct link *at, *after;

    list_for_each (at, after, &control.open) {
        struct connection *c = container_of(at, struct connection, link);
        int left = 0;

        while (!c->is_unix && ioctl(c->fd, SIOCOUTQ, &left) == 0 && left > 0 &&
               !deadline_passed(patience) && !deadline_passed(control.stop_deadline))
            nanosleep(&backoff, NULL);
    }
}

static bool service_stop_step(void)
{
    bool stopping;

    pthread_mutex_lock(&control.lock);
    stopping = control.stopping;
    pthread_mutex_unlock(&control.lock);
    if (!stopping)
        return false;
    if (!control.goodbyes_sent) {
        service_send_goodbyes();
        service_serve_ready();
    }
    return service_all_sent() || deadline_passed(control.stop_deadline);
}

static void service_free_all(struct link *list)
{
    struct link *at, *after;

    list_for_each (at, after, list) {
        list_remove(at);
        connection_free(container_of(at, struct connection, link));
    }
}

static void service_drop_all(struct link *list)
{
    struct link *at, *after;

    list_for_each (at, after, list)
        service_drop(container_of(at, struct connection, link));
}

static bool service_anything_ready(void)
{
    return !list_empty(&control.ready) ||
           atomic_load_explicit(&control.look, memory_order_relaxed) ||
           (control.stopping && !control.goodbyes_sent);
}

void *service_main(void *unused)
{
    struct epoll_event events[EVENTS];
    int timeout, n, i;

    (void)unused;
    RPIPE_FAILPOINT("service: begun");
    liveness_hold();
    control_enter_service_thread();
    RPIPE_FAILPOINT("service: life word held");
    do {
        pthread_mutex_lock(&control.lock);
        control.asleep = !service_anything_ready();
        timeout = control.asleep ? service_turn_timeout() : 0;
        pthread_mutex_unlock(&control.lock);
        n = epoll_wait(control.epoll, events, EVENTS, timeout);
        pthread_mutex_lock(&control.lock);
        control.asleep = false;
        pthread_mutex_unlock(&control.lock);
        for (i = 0; i < n; i++)
            service_event_dispatch(events[i].data.ptr, events[i].events);
        service_serve_ready();
        if (atomic_load_explicit(&control.ticking, memory_order_relaxed) &&
            clock_now() >= control.next_tick) {
            control.next_tick = clock_now() + TICK_NS;
            peer_check_liveness();
            if (control.hooks.tick != NULL)
                control.hooks.tick();
        }
        if (atomic_exchange_explicit(&control.look, false, memory_order_relaxed))
            peer_check_liveness();
        if (control.timer != NO_TIME && clock_now() >= control.timer)
            service_timers_run();
        watch_run();
        service_free_all(&control.closed);
    } while (!service_stop_step());
    RPIPE_FAILPOINT("rexit: before the sockets are closed");
    service_deferred();
    service_drop_all(&control.greeting);
    service_drop_all(&control.open);
    service_free_all(&control.closed);
    liveness_release();
    return NULL;
}
