/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * service.c: see service.h.
 *
 * Connections that are closed in the middle of a turn stay allocated until its end, because later
 * events of the same turn may point to them.
 *
 * A deadline has passed when epoll was asked behind it, not when the clock is: a process that was
 * stopped (SIGSTOP) finds all its deadlines passed, and what it waited for has mostly come
 * meanwhile. epoll_wait(2) ends with EINTR then, without an event.
 */
#include "control/service.h"

#include "bootstrap/job.h"
#include "control/accept.h"
#include "control/dispatch.h"
#include "control/peer_dial.h"
#include "control/peer_end.h"
#include "control/peer_send.h"
#include "control/receive.h"
#include "control/state.h"
#include "control/watch.h"
#include "util/clock.h"
#include "util/failpoint.h"
#include "util/fork_fds.h"
#include "util/limit.h"

#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define EVENTS 64
#define FULL_TURNS                                                                                 \
    16 /* after so many with more events than are taken at a time, deadlines count all the same */
#define TICK_NS (25 * NS_PER_MS)
#define UNACKNOWLEDGED_MS 500 /* for the acknowledgement of what TCP has taken, at the end */

/* ---- events ---- */

static void service_event_of_connection(struct connection *c, uint32_t events)
{
    if (c->state == CONNECTION_DIALING) {
        peer_connected(c);
        return;
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
        receive_read(c, RECEIVE_TURN_BYTES);
    if ((events & EPOLLOUT) != 0 && c->state != CONNECTION_CLOSED)
        peer_write(c);
}

static void service_event_dispatch(void *watch, uint32_t events)
{
    uint64_t count;
    ssize_t n;

    switch (*(int *)watch) {
    case WATCH_WAKE:
        if ((events & EPOLLOUT) != 0)
            (void)state_epoll_wake(false, true);
        n = read(control.wake, &count, sizeof(count));
        (void)n; /* what there is to do is found elsewhere */
        break;
    case WATCH_JOB:
        job_watched();
        break;
    case WATCH_UNIX:
        accept_connections(control.unix_listener, true);
        break;
    case WATCH_TCP:
        accept_connections(control.tcp_listener, false);
        break;
    case WATCH_BACKEND:
        watch_event(watch);
        break;
    default:
        service_event_of_connection(watch, events);
        break;
    }
}

/* ---- what has been posted ---- */

static void service_serve(struct peer *p)
{
    if (peer_number(p) == control.rank)
        dispatch_to_self(p);
    else
        peer_serve(p);
}

static void service_serve_ready(void)
{
    struct link batch;
    struct peer *p;

    list_init(&batch);
    pthread_mutex_lock(&control.lock);
    /* peers that become ready from here on wait for the next turn */
    while (!list_empty(&control.ready)) {
        struct link *first = control.ready.next;

        list_remove(first);
        list_append(&batch, first);
    }
    while (!list_empty(&batch)) {
        p = container_of(batch.next, struct peer, ready);
        list_remove(&p->ready);
        pthread_mutex_unlock(&control.lock);
        service_serve(p);
        pthread_mutex_lock(&control.lock);
    }
    pthread_mutex_unlock(&control.lock);
}

/* ---- time ---- */

/* Moves the connections of a list whose deadline has passed, and notes the next deadline. */
static void service_take_due(struct link *from, struct link *due, int64_t now)
{
    struct link *at, *after;

    list_for_each (at, after, from) {
        struct connection *c = container_of(at, struct connection, link);

        state_timer(c->deadline);
        if (c->deadline <= now) {
            list_remove(at);
            list_append(due, at);
        }
    }
}

static void service_timers_run(void)
{
    const int64_t now = control.asked;
    struct link due, *at, *after;

    control.timer = NO_TIME;
    if (!control.listening)
        accept_watch_listeners(true);
    receive_resume(&control.greeting);
    receive_resume(&control.open);
    list_init(&due);
    service_take_due(&control.greeting, &due, now);
    while (!list_empty(&due)) /* state_drop() takes each out of `due` */
        peer_greeting_late(container_of(due.next, struct connection, link));
    service_take_due(&control.open, &due, now);
    while (!list_empty(&due)) {
        struct connection *c = container_of(due.next, struct connection, link);

        list_remove(&c->link);
        list_append(&control.open, &c->link);
        peer_check_host(c); /* may end the peer, whose connections leave `due` */
    }
    list_for_each (at, after, &control.timed) {
        list_remove(at);
        list_append(&due, at);
    }
    while (!list_empty(&due)) {
        struct peer *p = container_of(due.next, struct peer, timed);

        list_remove(&p->timed);
        list_append(&control.timed, &p->timed);
        if (peer_timer(p, now))
            service_serve(p);
        state_timer(p->drain_until);
        state_timer(p->retry_at);
    }
    /* what was due has been done; what became due meanwhile is done in the next turn */
    if (control.timer <= now)
        control.timer = now;
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

/* This process is in rexit: what it has posted so far is in the queues. Other peers are sent it when they are greeted. */
static void service_send_exiting(void)
{
    bool exiting;
    int rank;

    if (control.exiting_sent)
        return;
    pthread_mutex_lock(&control.lock);
    exiting = control.exiting;
    pthread_mutex_unlock(&control.lock);
    if (!exiting)
        return;
    control.exiting_sent = true;
    for (rank = 0; rank < control.size; rank++)
        if (rank != control.rank)
            peer_send_exiting(&control.peers[rank]);
}

static void service_send_fins(void)
{
    int rank;

    control.fins_sent = true;
    for (rank = 0; rank < control.size; rank++) {
        struct peer *p = &control.peers[rank];

        if (rank != control.rank && atomic_load_explicit(&p->state, memory_order_relaxed) == 0)
            (void)peer_send_last(p, WIRE_FIN); /* else the peer will consider this process dead */
    }
    RPIPE_FAILPOINT("rexit: FINs queued");
    liveness_leave();
    RPIPE_FAILPOINT("rexit: liveness word states that it has left");
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

/* What TCP has taken is sent even after close(2), but not if this was the last process of a
 * container. */
static bool service_acknowledged(void)
{
    struct link *at, *after;
    int left = 0;

    if (control.acknowledge_deadline == NO_TIME)
        control.acknowledge_deadline = deadline_in_ms(UNACKNOWLEDGED_MS);
    if (deadline_passed(control.acknowledge_deadline))
        return true;
    list_for_each (at, after, &control.open) {
        const struct connection *c = container_of(at, struct connection, link);

        if (!c->is_unix && ioctl(c->fd, SIOCOUTQ, &left) == 0 && left > 0) {
            state_timer(deadline_in_ms(1));
            return false;
        }
    }
    return true;
}

static bool service_stop_step(void)
{
    bool stopping;

    pthread_mutex_lock(&control.lock);
    stopping = control.stopping;
    pthread_mutex_unlock(&control.lock);
    if (!stopping)
        return false;
    if (!control.fins_sent) {
        service_send_fins();
        service_serve_ready();
    }
    return deadline_passed(control.stop_deadline) || (service_all_sent() && service_acknowledged());
}

static void service_free_closed(void)
{
    struct link *at, *after;

    list_for_each (at, after, &control.closed) {
        list_remove(at);
        connection_free(container_of(at, struct connection, link));
    }
}

static void service_drop_all(struct link *list)
{
    struct link *at, *after;

    list_for_each (at, after, list)
        state_drop(container_of(at, struct connection, link));
}

/* ---- the loop ---- */

/* Lock held. */
static bool service_anything_ready(void)
{
    return !list_empty(&control.ready) ||
           atomic_load_explicit(&control.check_liveness, memory_order_relaxed) ||
           (control.stopping && !control.fins_sent) || (control.exiting && !control.exiting_sent);
}

/* Sleeps until there is something to do, and takes the events of the sockets. */
static void service_wait(void)
{
    struct epoll_event events[EVENTS];
    int64_t now;
    int timeout, n, i;

    pthread_mutex_lock(&control.lock);
    control.asleep = !service_anything_ready();
    timeout = control.asleep ? service_turn_timeout() : 0;
    pthread_mutex_unlock(&control.lock);
    thread_does(&control.thread, "waiting for messages");
    now = clock_now();
    n = epoll_wait(control.epoll, events, EVENTS, timeout);
    if (n >= 0 &&
        (n < EVENTS || ++control.full_turns == FULL_TURNS)) { /* all that was there is known */
        control.asked = now;
        control.full_turns = 0;
    }
    pthread_mutex_lock(&control.lock);
    control.asleep = false;
    pthread_mutex_unlock(&control.lock);
    thread_does(&control.thread, "receiving what has come");
    for (i = 0; i < n; i++)
        service_event_dispatch(events[i].data.ptr, events[i].events);
}

static void service_tick(void)
{
    if (!atomic_load_explicit(&control.ticking, memory_order_relaxed) ||
        clock_now() < control.next_tick)
        return;
    control.next_tick = clock_now() + TICK_NS;
    peer_end_check_liveness();
    if (control.hooks.tick != NULL)
        control.hooks.tick();
}

static void service_main(void *unused)
{
    (void)unused;
    RPIPE_FAILPOINT("service: begun");
    liveness_hold();
    state_enter_service_thread();
    RPIPE_FAILPOINT("service: liveness word held");
    do {
        service_wait();
        thread_does(&control.thread, "sending messages");
        service_send_exiting();
        service_serve_ready();
        thread_does(&control.thread, "checking peers and deadlines");
        service_tick();
        if (atomic_exchange_explicit(&control.check_liveness, false, memory_order_relaxed))
            peer_end_check_liveness();
        if (control.asked >= control.timer)
            service_timers_run();
        thread_does(&control.thread, "driving a network");
        watch_run();
        service_free_closed();
    } while (!service_stop_step());
    RPIPE_FAILPOINT("rexit: before the sockets are closed");
    thread_does(&control.thread, "closing its connections");
    service_drop_all(&control.greeting);
    service_drop_all(&control.open);
    service_free_closed();
    liveness_release();
}

/* ---- start ---- */

int service_open(struct error *err)
{
    static int watch_job = WATCH_JOB, watch_unix = WATCH_UNIX, watch_tcp = WATCH_TCP;
    int result = 0;

    control.epoll = epoll_create1(EPOLL_CLOEXEC);
    fork_fds_add(control.epoll);
    control.wake = control.epoll >= 0 ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    fork_fds_add(control.wake);
    if (control.wake < 0)
        result = -errno;
    if (result == 0)
        result = state_epoll_wake(false, false);
    if (result == 0 && job_watch() >= 0)
        result = state_epoll(job_watch(), &watch_job, true, false, false);
    if (result == 0 && control.unix_listener >= 0)
        result = state_epoll(control.unix_listener, &watch_unix, true, false, false);
    if (result == 0 && control.tcp_listener >= 0)
        result = state_epoll(control.tcp_listener, &watch_tcp, true, false, false);
    if (result != 0)
        error_note(err, "the event queue of the service thread: %s%s", strerror(-result),
                   limit_of_watch(-result));
    return result;
}

int service_start(struct error *err)
{
    int error;

    dispatch_start();
    error = thread_start(&control.thread, "rmalloc", service_main, NULL);
    if (error != 0) {
        error_note(err, "the service thread cannot be started: %s%s", strerror(error),
                   limit_of(error));
        return error == EAGAIN ? -ENOMEM : -error; /* -EAGAIN would be R_PENDING */
    }
    return 0;
}

void control_set_ticking(bool on)
{
    if (!control_running())
        return;
    atomic_store_explicit(&control.ticking, on, memory_order_relaxed);
    state_wake();
}

void control_announce_exit(void)
{
    if (!control_running())
        return;
    pthread_mutex_lock(&control.lock);
    control.exiting = true;
    pthread_mutex_unlock(&control.lock);
    state_wake();
}
