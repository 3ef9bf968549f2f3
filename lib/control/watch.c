/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch.c: see watch.h.
 *
 * Invariants, under watch_lock: a watch is in `watch_list` until it is unwatched, then in
 * `watch_dead` until the end of the service thread's turn, because events of that turn may still
 * point to it. `watch_running` is the one whose callback runs, without the lock.
 */
#include "control/watch.h"

#include "control/state.h"

#include "util/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

enum watch_state { WATCH_IDLE, WATCH_TIMED, WATCH_SIGNALED };

struct watched {
    struct link
        link;  /* first: tools that search for leaks find what begins where a pointer leads */
    int watch; /* WATCH_BACKEND: what epoll points to, see state.h */
    enum watch_state state;
    int fd;
    bool added; /* to epoll */
    int64_t at; /* while timed */
    void (*ready)(void *arg);
    void *arg;
};

static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t watch_finished = PTHREAD_COND_INITIALIZER;
static struct link watch_list = {&watch_list, &watch_list}, watch_dead = {&watch_dead, &watch_dead};
static struct watched *watch_running;

static struct watched *watch_find(void (*ready)(void *), void *arg)
{
    struct link *at, *after;

    list_for_each (at, after, &watch_list) {
        struct watched *w = container_of(at, struct watched, link);

        if (w->ready == ready && w->arg == arg)
            return w;
    }
    return NULL;
}

/* Lock held. One event of the descriptor; no further ones until this is called again. */
static int watch_signal_once(struct watched *w)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = &w->watch};

    if (epoll_ctl(control.epoll, w->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, w->fd, &event) != 0)
        return -errno;
    w->added = true;
    w->state = WATCH_SIGNALED;
    return 0;
}

/* Lock held. NULL: there is none, and no memory for one. */
static struct watched *watch_find_or_make(void (*ready)(void *), void *arg)
{
    struct watched *w = watch_find(ready, arg);

    if (w != NULL)
        return w;
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        return NULL;
    w->watch = WATCH_BACKEND;
    w->fd = -1;
    w->ready = ready;
    w->arg = arg;
    list_append(&watch_list, &w->link);
    return w;
}

int control_watch_reserve(void (*ready)(void *arg), void *arg)
{
    struct watched *w;

    pthread_mutex_lock(&watch_lock);
    w = watch_find_or_make(ready, arg);
    pthread_mutex_unlock(&watch_lock);
    return w != NULL ? 0 : -ENOMEM;
}

int control_watch(int fd, int64_t delay_us, void (*ready)(void *arg), void *arg)
{
    struct watched *w;
    int rc = 0;

    pthread_mutex_lock(&watch_lock);
    w = watch_find_or_make(ready, arg);
    if (w == NULL) {
        pthread_mutex_unlock(&watch_lock);
        return -ENOMEM;
    }
    if (w->fd != fd) {
        if (w->added)
            (void)epoll_ctl(control.epoll, EPOLL_CTL_DEL, w->fd, NULL);
        w->added = false;
        w->fd = fd;
    }
    w->state = WATCH_TIMED;
    w->at = clock_now() + delay_us * 1000;
    if (fd >= 0 && delay_us <= 0)
        rc = watch_signal_once(w);
    pthread_mutex_unlock(&watch_lock);
    if (rc == 0 && (fd < 0 || delay_us > 0) && !control_on_service_thread())
        state_wake_if_asleep(); /* it may sleep for longer than that */
    return rc;
}

void control_unwatch(void (*ready)(void *arg), void *arg)
{
    struct watched *w;

    pthread_mutex_lock(&watch_lock);
    while ((w = watch_find(ready, arg)) !=
           NULL) { /* repeated: a callback that was running may have watched again */
        if (w->added)
            (void)epoll_ctl(control.epoll, EPOLL_CTL_DEL, w->fd, NULL);
        w->state = WATCH_IDLE;
        list_remove(&w->link);
        list_append(&watch_dead, &w->link);
        while (watch_running == w && !control_on_service_thread())
            pthread_cond_wait(&watch_finished, &watch_lock);
    }
    pthread_mutex_unlock(&watch_lock);
}

/* Lock held; released for the call. */
static void watch_fire(struct watched *w)
{
    w->state = WATCH_IDLE;
    watch_running = w;
    pthread_mutex_unlock(&watch_lock);
    w->ready(w->arg);
    pthread_mutex_lock(&watch_lock);
    watch_running = NULL;
    pthread_cond_broadcast(&watch_finished);
}

void watch_event(void *watch)
{
    struct watched *w = container_of((int *)watch, struct watched, watch);

    pthread_mutex_lock(&watch_lock);
    if (w->state == WATCH_SIGNALED)
        watch_fire(w);
    pthread_mutex_unlock(&watch_lock);
}

int64_t watch_next(void)
{
    struct link *at, *after;
    int64_t next = NO_TIME;

    pthread_mutex_lock(&watch_lock);
    list_for_each (at, after, &watch_list) {
        struct watched *w = container_of(at, struct watched, link);

        if (w->state == WATCH_TIMED && w->at < next)
            next = w->at;
    }
    pthread_mutex_unlock(&watch_lock);
    return next;
}

/* Lock held. A watch of a descriptor whose time has come waits for its event; one without a
 * descriptor fires. One at a time: the list may change. */
static bool watch_run_one(int64_t now)
{
    struct link *at, *after;

    list_for_each (at, after, &watch_list) {
        struct watched *w = container_of(at, struct watched, link);

        if (w->state != WATCH_TIMED || w->at > now)
            continue;
        if (w->fd < 0 || watch_signal_once(w) != 0)
            watch_fire(w);
        return true;
    }
    return false;
}

void watch_run(void)
{
    int64_t now = clock_now();

    pthread_mutex_lock(&watch_lock);
    while (watch_run_one(now))
        ;
    while (!list_empty(&watch_dead)) {
        struct watched *w = container_of(watch_dead.next, struct watched, link);

        list_remove(&w->link);
        free(w);
    }
    pthread_mutex_unlock(&watch_lock);
}

/* The service thread has ended, or is in another process. */
void watch_forget(void)
{
    pthread_mutex_init(&watch_lock, NULL);
    watch_running = NULL;
    while (!list_empty(&watch_list)) {
        struct link *first = watch_list.next;

        list_remove(first);
        list_append(&watch_dead, first);
    }
    while (!list_empty(&watch_dead)) {
        struct watched *w = container_of(watch_dead.next, struct watched, link);

        list_remove(&w->link);
        free(w);
    }
}
