/* SPDX-License-Identifier: BSD-3-Clause */
/* state.c: see state.h. */
#include "control/state.h"

#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define WARNINGS_MAX 20

struct control control = {.lock = PTHREAD_MUTEX_INITIALIZER,
                          .epoll = -1,
                          .wake = -1,
                          .unix_listener = -1,
                          .tcp_listener = -1};

static _Thread_local bool state_is_service_thread;

void state_enter_service_thread(void) { state_is_service_thread = true; }
bool control_on_service_thread(void) { return state_is_service_thread; }

/* acquire: pairs with the release in control_start() */
bool control_running(void) { return atomic_load_explicit(&control.running, memory_order_acquire); }

struct peer *state_peer(int number)
{
    return number >= 0 && number < control.size ? &control.peers[number] : NULL;
}

const char *control_peer_name(int peer)
{
    static _Thread_local char names[2][24];
    static _Thread_local unsigned which;
    char *name = names[which++ % 2];

    (void)snprintf(name, sizeof(names[0]), "rank %d", peer);
    return name;
}

bool control_peer_membarrier(int peer)
{
    const struct peer *p = control_running() ? state_peer(peer) : NULL;

    if (p == NULL)
        return false;
    return peer == control.rank ? control.membarrier
                                : atomic_load_explicit(&p->membarrier, memory_order_relaxed);
}

bool control_membarrier(void) { return control_running() && control.membarrier; }

void state_init(void)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&control.completed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    list_init(&control.ready);
    list_init(&control.greeting);
    list_init(&control.open);
    list_init(&control.closed);
    list_init(&control.alive);
    list_init(&control.timed);
    control.asleep = control.stopping = control.exiting = false;
    control.exiting_sent = control.fins_sent = false;
    control.listening = true;
    control.unsent = 0;
    control.flushers = control.greetings = control.warnings = 0;
    control.timer = control.acknowledge_deadline = NO_TIME;
    control.next_tick = control.asked = 0;
    control.full_turns = 0;
    control.stop_deadline = INT64_MAX;
    atomic_store_explicit(&control.ticking, false, memory_order_relaxed);
    atomic_store_explicit(&control.check_liveness, false, memory_order_relaxed);
}

int state_make_peers(struct error *err)
{
    int i;

    control.peers = calloc((size_t)control.size, sizeof(*control.peers));
    if (control.peers == NULL)
        return error_set(err, -ENOMEM, "no memory for %d peers", control.size);
    for (i = 0; i < control.size; i++) {
        struct peer *p = &control.peers[i];

        list_init(&p->queue);
        list_init(&p->ready);
        list_init(&p->alive);
        list_init(&p->timed);
        p->retry_at = p->drain_until = p->card_deadline = NO_TIME;
    }
    return 0;
}

void state_free_peers(void)
{
    int i;

    for (i = 0; control.peers != NULL && i < control.size; i++) {
        struct peer *p = &control.peers[i];
        struct link *at, *after;

        list_for_each (at, after, &p->queue)
            message_free(container_of(at, struct message, link));
        liveness_unmap(atomic_load_explicit(&p->liveness, memory_order_relaxed));
        free(p->card);
        free(p->drain_reason);
        free(atomic_load_explicit(&p->death_reason, memory_order_relaxed));
    }
    free(control.peers);
    control.peers = NULL;
}

/* An eventfd can always be written to. */
int state_epoll_wake(bool at_once, bool change)
{
    static int watch = WATCH_WAKE;

    return state_epoll(control.wake, &watch, true, at_once, change);
}

/* EAGAIN: the eventfd is full, so the thread is awake. Where write(2) is refused (seccomp), a change
 * of the event queue wakes the thread: it undoes the change, and then does what has been stored
 * before, so no wake-up is lost between the two. */
void state_wake(void)
{
    const uint64_t one = 1;

    if (write(control.wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
        (void)state_epoll_wake(true, true);
}

void state_wake_if_asleep(void)
{
    bool asleep;

    if (!control_running())
        return;
    pthread_mutex_lock(&control.lock);
    asleep = control.asleep;
    pthread_mutex_unlock(&control.lock);
    if (asleep)
        state_wake();
}

void state_warn(const char *format, ...)
{
    char line[600];
    va_list args;

    if (control.warnings > WARNINGS_MAX)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    log_warn("control network: %s%s", line,
             control.warnings++ == WARNINGS_MAX ? " (further warnings are not logged)" : "");
}

int state_epoll(int fd, void *watch, bool read, bool write, bool change)
{
    struct epoll_event event = {.events = (read ? EPOLLIN : 0) | (write ? EPOLLOUT : 0),
                                .data.ptr = watch};

    return epoll_ctl(control.epoll, change ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) == 0
               ? 0
               : -errno;
}

void state_timer(int64_t when)
{
    if (when < control.timer)
        control.timer = when;
}

void state_drop(struct connection *c)
{
    if (c->state == CONNECTION_CLOSED)
        return;
    if (c->state != CONNECTION_OPEN)
        control.greetings--;
    /* the socket may stay open for a while, see received_socket.h */
    (void)epoll_ctl(control.epoll, EPOLL_CTL_DEL, c->fd, NULL);
    connection_close(c);
    list_remove(&c->link);
    list_append(&control.closed, &c->link);
}

void state_complete(struct peer *p, uint64_t count)
{
    if (count == 0)
        return;
    pthread_mutex_lock(&control.lock);
    p->completed += count;
    control.unsent -= count;
    if (control.flushers > 0)
        pthread_cond_broadcast(&control.completed);
    pthread_mutex_unlock(&control.lock);
}
