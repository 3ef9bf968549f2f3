/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * service_watch.c: descriptors and times of backends that the service thread looks after, see control.h.
 *
 * A watch is named by what it calls: (ready, arg). It fires once and then rests until it is watched again, so that a callback
 * decides how soon it wants to be called, and a backend that somebody else drives at the moment is left alone.
 *
 * Invariants, under `lock`: a watch is in `watches` until it is unwatched, then in `dead` until the end of the service thread's
 * turn, because events of that turn may still point to it. `running` is the one whose callback runs, without the lock.
 */
#include "control/service.h"

#include "util/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

enum rest { RESTING, TIMED, ARMED };

struct watched {
    int watch; /* WATCH_BACKEND: what epoll points to begins so */
    enum rest rest;
    int fd;
    bool added; /* to epoll */
    int64_t at; /* TIMED */
    void (*ready)(void *arg);
    void *arg;
    struct link link;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t finished = PTHREAD_COND_INITIALIZER;
static struct link watches = {&watches, &watches}, dead = {&dead, &dead};
static struct watched *running;

static struct watched *find(void (*ready)(void *), void *arg)
{
    struct link *at, *after;

    list_for_each (at, after, &watches) {
        struct watched *w = container_of(at, struct watched, link);

        if (w->ready == ready && w->arg == arg)
            return w;
    }
    return NULL;
}

/* Lock held. One event, then silence. */
static int arm(struct watched *w)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = w};

    if (epoll_ctl(control.epoll, w->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, w->fd, &event) != 0)
        return -errno;
    w->added = true;
    w->rest = ARMED;
    return 0;
}

int control_watch(int fd, int64_t delay_us, void (*ready)(void *arg), void *arg)
{
    struct watched *w;
    int rc = 0;

    pthread_mutex_lock(&lock);
    w = find(ready, arg);
    if (w == NULL) {
        w = calloc(1, sizeof(*w));
        if (w == NULL) {
            pthread_mutex_unlock(&lock);
            return -ENOMEM;
        }
        w->watch = WATCH_BACKEND;
        w->fd = fd;
        w->ready = ready;
        w->arg = arg;
        list_append(&watches, &w->link);
    } else if (w->fd != fd) {
        if (w->added)
            (void)epoll_ctl(control.epoll, EPOLL_CTL_DEL, w->fd, NULL);
        w->added = false;
        w->fd = fd;
    }
    w->rest = TIMED;
    w->at = clock_now() + delay_us * 1000;
    if (fd >= 0 && delay_us <= 0)
        rc = arm(w);
    pthread_mutex_unlock(&lock);
    if (rc == 0 && (fd < 0 || delay_us > 0) && !control_on_service_thread())
        control_wake_for_watch(); /* it sleeps, perhaps, for longer than that */
    return rc;
}

void control_unwatch(void (*ready)(void *arg), void *arg)
{
    struct watched *w;

    pthread_mutex_lock(&lock);
    while ((w = find(ready, arg)) != NULL) { /* again: a callback that was running may have watched anew */
        if (w->added)
            (void)epoll_ctl(control.epoll, EPOLL_CTL_DEL, w->fd, NULL);
        w->rest = RESTING;
        list_remove(&w->link);
        list_append(&dead, &w->link);
        while (running == w && !control_on_service_thread())
            pthread_cond_wait(&finished, &lock);
    }
    pthread_mutex_unlock(&lock);
}

/* Lock held, and given back for the call. */
static void fire(struct watched *w)
{
    w->rest = RESTING;
    running = w;
    pthread_mutex_unlock(&lock);
    w->ready(w->arg);
    pthread_mutex_lock(&lock);
    running = NULL;
    pthread_cond_broadcast(&finished);
}

void watch_event(void *watch)
{
    struct watched *w = watch;

    pthread_mutex_lock(&lock);
    if (w->rest == ARMED)
        fire(w);
    pthread_mutex_unlock(&lock);
}

int64_t watch_next(void)
{
    struct link *at, *after;
    int64_t next = NO_TIME;

    pthread_mutex_lock(&lock);
    list_for_each (at, after, &watches) {
        struct watched *w = container_of(at, struct watched, link);

        if (w->rest == TIMED && w->at < next)
            next = w->at;
    }
    pthread_mutex_unlock(&lock);
    return next;
}

/* A watch of a descriptor whose time has come is armed; one of nothing but time fires. One at a time: the list may change. */
static bool run_one(int64_t now)
{
    struct link *at, *after;

    list_for_each (at, after, &watches) {
        struct watched *w = container_of(at, struct watched, link);

        if (w->rest != TIMED || w->at > now)
            continue;
        if (w->fd < 0 || arm(w) != 0)
            fire(w);
        return true;
    }
    return false;
}

void watch_run(void)
{
    int64_t now = clock_now();

    pthread_mutex_lock(&lock);
    while (run_one(now))
        ;
    while (!list_empty(&dead)) {
        struct watched *w = container_of(dead.next, struct watched, link);

        list_remove(&w->link);
        free(w);
    }
    pthread_mutex_unlock(&lock);
}

/* The service thread has ended, or is another process's. */
void watch_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    running = NULL;
    while (!list_empty(&watches)) {
        struct link *first = watches.next;

        list_remove(first);
        list_append(&dead, first);
    }
    while (!list_empty(&dead)) {
        struct watched *w = container_of(dead.next, struct watched, link);

        list_remove(&w->link);
        free(w);
    }
}
