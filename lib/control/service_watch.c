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

static pthread_mutex_t service_watch_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t service_watch_finished = PTHREAD_COND_INITIALIZER;
static struct link service_watch_watches = {&service_watch_watches, &service_watch_watches},
                   service_watch_dead = {&service_watch_dead, &service_watch_dead};
static struct watched *service_watch_running;

static struct watched *service_watch_find(void (*ready)(void *), void *arg)
{
    struct link *at, *after;

    list_for_each (at, after, &service_watch_watches) {
        struct watched *w = container_of(at, struct watched, link);

        if (w->ready == ready && w->arg == arg)
            return w;
    }
    return NULL;
}

/* Lock held. One event, then silence. */
static int service_watch_arm(struct watched *w)
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

    pthread_mutex_lock(&service_watch_lock);
    w = service_watch_find(ready, arg);
    if (w == NULL) {
        w = calloc(1, sizeof(*w));
        if (w == NULL) {
            pthread_mutex_unlock(&service_watch_lock);
            return -ENOMEM;
        }
        w->watch = WATCH_BACKEND;
        w->fd = fd;
        w->ready = ready;
        w->arg = arg;
        list_append(&service_watch_watches, &w->link);
    } else if (w->fd != fd) {
        if (w->added)
            (void)epoll_ctl(control.epoll, EPOLL_CTL_DEL, w->fd, NULL);
        w->added = false;
        w->fd = fd;
    }
    w->rest = TIMED;
    w->at = clock_now() + delay_us * 1000;
    if (fd >= 0 && delay_us <= 0)
        rc = service_watch_arm(w);
    pthread_mutex_unlock(&service_watch_lock);
    if (rc == 0 && (fd < 0 || delay_us > 0) && !control_on_service_thread())
        control_wake_for_watch(); /* it sleeps, perhaps, for longer than that */
    return rc;
}

void control_unwatch(void (*ready)(void *arg), void *arg)
{
    struct watched *w;

    pthread_mutex_lock(&service_watch_lock);
    while ((w = service_watch_find(ready, arg)) !=
           NULL) { /* again: a callback that was running may have watched anew */
        if (w->added)
            (void)epoll_ctl(control.epoll, EPOLL_CTL_DEL, w->fd, NULL);
        w->rest = RESTING;
        list_remove(&w->link);
        list_append(&service_watch_dead, &w->link);
        while (service_watch_running == w && !control_on_service_thread())
            pthread_cond_wait(&service_watch_finished, &service_watch_lock);
    }
    pthread_mutex_unlock(&service_watch_lock);
}

/* Lock held, and given back for the call. */
static void service_watch_fire(struct watched *w)
{
    w->rest = RESTING;
    service_watch_running = w;
    pthread_mutex_unlock(&service_watch_lock);
    w->ready(w->arg);
    pthread_mutex_lock(&service_watch_lock);
    service_watch_running = NULL;
    pthread_cond_broadcast(&service_watch_finished);
}

void watch_event(void *watch)
{
    struct watched *w = watch;

    pthread_mutex_lock(&service_watch_lock);
    if (w->rest == ARMED)
        service_watch_fire(w);
    pthread_mutex_unlock(&service_watch_lock);
}

int64_t watch_next(void)
{
    struct link *at, *after;
    int64_t next = NO_TIME;

    pthread_mutex_lock(&service_watch_lock);
    list_for_each (at, after, &service_watch_watches) {
        struct watched *w = container_of(at, struct watched, link);

        if (w->rest == TIMED && w->at < next)
            next = w->at;
    }
    pthread_mutex_unlock(&service_watch_lock);
    return next;
}

/* A watch of a descriptor whose time has come is armed; one of nothing but time fires. One at a time: the list may change. */
static bool service_watch_run_one(int64_t now)
{
    struct link *at, *after;

    list_for_each (at, after, &service_watch_watches) {
        struct watched *w = container_of(at, struct watched, link);

        if (w->rest != TIMED || w->at > now)
            continue;
        if (w->fd < 0 || service_watch_arm(w) != 0)
            service_watch_fire(w);
        return true;
    }
    return false;
}

void watch_run(void)
{
    int64_t now = clock_now();

    pthread_mutex_lock(&service_watch_lock);
    while (service_watch_run_one(now))
        ;
    while (!list_empty(&service_watch_dead)) {
        struct watched *w = container_of(service_watch_dead.next, struct watched, link);

        list_remove(&w->link);
        free(w);
    }
    pthread_mutex_unlock(&service_watch_lock);
}

/* The service thread has ended, or is another process's. */
void watch_forget(void)
{
    pthread_mutex_init(&service_watch_lock, NULL);
    service_watch_running = NULL;
    while (!list_empty(&service_watch_watches)) {
        struct link *first = service_watch_watches.next;

        list_remove(first);
        list_append(&service_watch_dead, first);
    }
    while (!list_empty(&service_watch_dead)) {
        struct watched *w = container_of(service_watch_dead.next, struct watched, link);

        list_remove(&w->link);
        free(w);
    }
}
