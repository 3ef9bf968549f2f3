/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c: see progress.h.
 *
 * A thread that waits for one connection reads its socket, without waiting; every OTHERS_NS it asks
 * epoll for the other connections, which the service thread leaves to it; while short messages keep
 * coming, which would wait for that, every OTHERS_BUSY_NS, and by a call that has read none, unless
 * it is late (OTHERS_LATE_NS). When no thread of the user drives, the service thread does: it sleeps until epoll has an event. It leaves the
 * connections to a thread of the user that has driven within the last millisecond, since a thread
 * that is woken by each packet takes time from one that polls; it then polls again a millisecond
 * later.
 *
 * A connection is found by its number under btl.lock and locked before that is released:
 * connection_close removes the number first, so no connection is freed while a thread is in it.
 */
#include "btl/tcp/progress.h"

#include "btl/tcp/failure.h"
#include "btl/tcp/gather.h"
#include "btl/tcp/greeting.h"
#include "btl/tcp/held.h"
#include "btl/tcp/listener.h"
#include "btl/tcp/receive.h"

#include "util/clock.h"
#include "util/failpoint.h"

#include <errno.h>
#include <sys/epoll.h>

#define EVENTS 32
#define ROUNDS 16 /* of the service thread, before it asks for the time again */
#define OTHERS_NS 20000
#define OTHERS_BUSY_NS 60000
#define OTHERS_LATE_NS 240000
#define SLOTS_MOST 64u
#define QUIET_NS NS_PER_MS
#define QUIET_US 1000
#define TIMER_US 100000

/* ---- one connection ---- */

/* Lock held. Whether a short message has been read, or several. */
static bool progress_drive(struct btl_connection *c, uint32_t events)
{
    c->slots = 0;
    if (c->fd < 0)
        return false;
    if (c->stage == TCP_DIALING) {
        if ((events & ~(uint32_t)EPOLLIN) != 0)
            greeting_dialed(c);
        return false;
    }
    return receive_drive(c) && c->held.shorts > 0;
}

static void progress_event(struct btl *btl, const struct epoll_event *event, bool by_service)
{
    struct btl_connection *c;
    struct tcp_arrival *arrival;

    pthread_mutex_lock(&btl->lock);
    c = hash_get(&btl->connections, event->data.u64);
    if (c != NULL && pthread_mutex_trylock(&c->lock) == 0) {
        pthread_mutex_unlock(&btl->lock);
        (void)progress_drive(c, event->events);
        if (by_service && c->fd >= 0 && held_take(c) != 0)
            (void)tcp_fail(c, -EIO, "the socket has lost what it had");
        pthread_mutex_unlock(&c->lock);
        return;
    }
    if (c == NULL && event->data.u64 == 0) {
        listener_accept(btl);
        progress_need_timer(btl);
    } else if (c == NULL && (arrival = hash_get(&btl->arrival_of, event->data.u64)) != NULL) {
        listener_arrival_ready(btl, arrival);
    }
    pthread_mutex_unlock(&btl->lock);
}

/*
 * Handles what epoll reports at the moment; the service thread leaves nothing in the sockets that
 * epoll would report again. False: nothing.
 */
static bool progress_pass(struct btl *btl, bool by_service)
{
    struct epoll_event event[EVENTS];
    int n = epoll_wait(btl->epoll, event, EVENTS, 0);

    for (int i = 0; i < n; i++)
        progress_event(btl, &event[i], by_service);
    return n > 0;
}

/* ---- by users ---- */

/* For how long epoll is not asked. `has_read`: this call has read a short message, for which the user waits. */
static int64_t progress_others_ns(const struct btl *btl, int64_t now, bool has_read)
{
    /* relaxed: a hint */
    const int64_t read = atomic_load_explicit(&btl->read_at, memory_order_relaxed);

    if (has_read)
        return OTHERS_LATE_NS;
    return now - read < OTHERS_NS ? OTHERS_BUSY_NS : OTHERS_NS;
}

/* Asks epoll, if no thread has done so for a while, or `now` is 0. */
static void progress_others(struct btl *btl, int64_t now, bool has_read)
{
    const int64_t last = atomic_load_explicit(&btl->passed_at, memory_order_relaxed);

    if (now != 0 && now - last < progress_others_ns(btl, now, has_read))
        return;
    if (now != 0) /* relaxed: two threads may both ask */
        atomic_store_explicit(&btl->passed_at, now, memory_order_relaxed);
    (void)progress_pass(btl, false);
}

/* relaxed: a hint for progress_by_service */
static int64_t progress_note(struct btl *btl)
{
    const int64_t now = clock_now();

    atomic_store_explicit(&btl->driven_at, now, memory_order_relaxed);
    if (!gather_is_empty(btl))
        gather_send_all(btl);
    return now;
}

void progress_all(struct btl *btl)
{
    (void)progress_note(btl);
    progress_others(btl, 0, false);
}

/*
 * Lock held. Whether a call of progress has nothing to do: the first one behind a write, which is
 * mostly that of the next write, and the first ones behind slots that have come together, as many
 * as there are further slots for the user to find, up to SLOTS_MOST, unless it has requested
 * something. So a stream does not read the socket for each message.
 */
static bool progress_is_early(struct btl_connection *c)
{
    const bool early = c->written || (c->slots > 1 && c->asked == c->answered);

    if (c->slots > SLOTS_MOST)
        c->slots = SLOTS_MOST;
    if (!c->written && c->slots > 0)
        c->slots--;
    c->written = false;
    return early;
}

void progress_one(struct btl_connection *c)
{
    const bool up = atomic_load_explicit(&c->up, memory_order_relaxed);
    struct btl *btl = c->btl;
    bool read = false;
    int64_t now;

    if (up && pthread_mutex_trylock(&c->lock) == 0) { /* else another thread drives it */
        const bool early = progress_is_early(c);

        if (!early)
            read = progress_drive(c, 0);
        pthread_mutex_unlock(&c->lock);
        if (early)
            return;
    }
    now = progress_note(btl);
    if (read) /* relaxed, as passed_at */
        atomic_store_explicit(&btl->read_at, now, memory_order_relaxed);
    progress_others(btl, up ? now : 0, read);
}

/* ---- by the service thread ---- */

static void progress_by_service(void *arg)
{
    struct btl *btl = arg;
    int round;

    if (clock_now() - atomic_load_explicit(&btl->driven_at, memory_order_relaxed) < QUIET_NS) {
        (void)btl->host.watch(-1, QUIET_US, progress_by_service, btl);
        return;
    }
    for (round = 0; round < ROUNDS && progress_pass(btl, true); round++)
        ;
    RPIPE_FAILPOINT("tcp: driven by the service thread");
    (void)btl->host.watch(btl->epoll, 0, progress_by_service, btl);
}

/* ---- deadlines ---- */

/* btl.lock held. True: a connection is still on its way up. */
static bool progress_expire(struct btl *btl, int64_t now)
{
    struct link *at, *after;

    list_for_each (at, after, &btl->rising) {
        struct btl_connection *c = container_of(at, struct btl_connection, rising);

        pthread_mutex_lock(&c->lock);
        greeting_dial_again(c, now);
        if (c->stage != TCP_UP && c->deadline <= now)
            (void)tcp_fail(c, -ETIMEDOUT,
                           "the connection did not come up before its deadline (RPIPE_TIMEOUT_MS)");
        if (c->stage == TCP_UP || tcp_error_of(c) != 0)
            list_remove(at);
        pthread_mutex_unlock(&c->lock);
    }
    return !list_empty(&btl->rising);
}

static void progress_timer(void *arg)
{
    struct btl *btl = arg;
    const int64_t now = clock_now();
    bool more;

    (void)progress_pass(btl,
                        true); /* a process that was stopped finds deadlines passed, and events */
    pthread_mutex_lock(&btl->lock);
    more = listener_expire(btl, now);
    more = progress_expire(btl, now) || more;
    btl->timer = more && btl->host.watch(-1, TIMER_US, progress_timer, btl) == 0;
    pthread_mutex_unlock(&btl->lock);
}

void progress_need_timer(struct btl *btl)
{
    if (!btl->timer)
        btl->timer = btl->host.watch(-1, TIMER_US, progress_timer, btl) == 0;
}

int progress_start(struct btl *btl) { return btl->host.watch(-1, 0, progress_by_service, btl); }

void progress_stop(struct btl *btl)
{
    btl->host.unwatch(progress_by_service, btl);
    btl->host.unwatch(progress_timer, btl);
}
