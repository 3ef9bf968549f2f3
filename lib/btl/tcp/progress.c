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
 * The thread of a stream drives its connections alone, and asks epoll for those (progress_in_stream). Others drive a stream whose thread
 * has not called for a millisecond: the service thread, threads of the user that drive all, and those that wait (progress_round), which
 * drive their own streams before that, and wait for no lock.
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
#include "btl/tcp/stream.h"
#include "btl/tcp/stream_gather.h"

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

enum progress_by { BY_USER, BY_WAITING, BY_SERVICE };

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

/* Inside the connection. The service thread leaves nothing in the socket that epoll would report again. */
static void progress_reported(struct btl_connection *c, uint32_t events, bool by_service)
{
    (void)progress_drive(c, events);
    if (by_service && c->fd >= 0 && held_take(c) != 0)
        (void)tcp_fail(c, -EIO, "the socket has lost what it had");
}

/* Inside the stream: handles what epoll reports of its connections. */
static void progress_stream(struct btl_stream *s, bool by_service)
{
    struct epoll_event event[EVENTS];
    int n = epoll_wait(s->epoll, event, EVENTS, 0);

    for (int i = 0; i < n; i++)
        progress_reported(event[i].data.ptr, event[i].events, by_service);
}

/* btl.lock held: a connection, which is found by its number and entered before the lock is released. False: another thread is inside. */
static bool progress_enter(struct btl *btl, struct btl_connection *c, bool *as_owner)
{
    if (!tcp_try_enter(c, as_owner))
        return false;
    pthread_mutex_unlock(&btl->lock);
    return true;
}

/* btl.lock. False: another thread has it, and this one waits already. */
static bool progress_lock(struct btl *btl, enum progress_by by)
{
    if (by == BY_WAITING)
        return pthread_mutex_trylock(&btl->lock) == 0;
    pthread_mutex_lock(&btl->lock);
    return true;
}

/* btl.lock held, which is released. False: its thread, which is another one, drives it. */
static bool progress_stream_reported(struct btl *btl, struct btl_stream *s, bool by_service)
{
    bool as_owner, enters = (stream_is_own(s->hint) || !stream_is_driven(s, clock_now())) &&
                            biased_try(&s->lock, &as_owner);

    pthread_mutex_unlock(&btl->lock);
    if (!enters)
        return false;
    progress_stream(s, by_service);
    biased_leave(&s->lock, as_owner);
    return true;
}

/* False: it is left to another thread. */
static bool progress_event(struct btl *btl, const struct epoll_event *event, enum progress_by by)
{
    const uint64_t id = event->data.u64;
    struct tcp_arrival *arrival;
    struct btl_connection *c;
    struct btl_stream *s;
    bool as_owner;

    if (id == TCP_ALARM_ID || /* of the service thread (streams_awake) */
        !progress_lock(btl, by))
        return false;
    c = hash_get(&btl->connections, id);
    if (c != NULL && progress_enter(btl, c, &as_owner)) {
        progress_reported(c, event->events, by == BY_SERVICE);
        tcp_leave(c, as_owner);
        return true;
    }
    s = c == NULL ? stream_find(btl, id) : NULL;
    if (s != NULL)
        return progress_stream_reported(btl, s, by == BY_SERVICE);
    if (c == NULL && id == 0) {
        listener_accept(btl);
        progress_need_timer(btl);
    } else if (c == NULL && (arrival = hash_get(&btl->arrival_of, id)) != NULL) {
        listener_arrival_ready(btl, arrival);
    }
    pthread_mutex_unlock(&btl->lock);
    return true;
}

/*
 * Handles what epoll reports at the moment; the service thread leaves nothing in the sockets that
 * epoll would report again. False: nothing.
 */
static bool progress_pass(struct btl *btl, enum progress_by by)
{
    struct epoll_event event[EVENTS];
    int n = epoll_wait(btl->epoll, event, EVENTS, 0);
    bool handled = false;

    for (int i = 0; i < n; i++)
        handled = progress_event(btl, &event[i], by) || handled;
    return handled;
}

/* ---- by users ---- */

/* For how long epoll is not asked. `has_read`: this call has read a short message, for which the user waits; `read_at`: the last that has. */
static int64_t progress_others_ns(int64_t read_at, int64_t now, bool has_read)
{
    if (has_read)
        return OTHERS_LATE_NS;
    return now - read_at < OTHERS_NS ? OTHERS_BUSY_NS : OTHERS_NS;
}

/* Asks epoll, if no thread has done so for a while, or `now` is 0. */
static void progress_others(struct btl *btl, int64_t now, bool has_read)
{
    /* relaxed: hints */
    const int64_t last = atomic_load_explicit(&btl->passed_at, memory_order_relaxed),
                  read_at = atomic_load_explicit(&btl->read_at, memory_order_relaxed);

    if (now != 0 && now - last < progress_others_ns(read_at, now, has_read))
        return;
    if (now != 0) /* relaxed: two threads may both ask */
        atomic_store_explicit(&btl->passed_at, now, memory_order_relaxed);
    (void)progress_pass(btl, BY_USER);
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

/* No lock held. Whether a thread that waits handles it: most of what is reported is that threads which drive their streams have not read yet. */
static bool progress_event_is_late(struct btl *btl, uint64_t id, int64_t now)
{
    const struct stream_hint *h = stream_hint_find(btl, id);

    if (id == 0 || h == NULL) /* in no stream, as the listener */
        return now - atomic_load_explicit(&btl->driven_at, memory_order_relaxed) >= STREAM_LATE_NS;
    return stream_is_late(h, now);
}

/* The service thread goes on meanwhile: this thread may be about to find what it waits for, and makes no round then. */
void progress_round(struct btl *btl)
{
    const int64_t now = clock_now();
    struct epoll_event event[EVENTS];
    int n = epoll_wait(btl->epoll, event, EVENTS, 0);

    for (int i = 0; i < n; i++)
        if (progress_event_is_late(btl, event[i].data.u64, now))
            (void)progress_event(btl, &event[i], BY_WAITING);
    streams_tend_late(btl, now);
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

/* Inside the stream of a connection that is up: the same as progress_one, of the stream alone. Whether slots have been placed that the user may not have seen. */
static bool progress_in_stream(struct btl_connection *c)
{
    struct btl_stream *s = c->stream;
    bool read, placed = c->slots > 0;
    int64_t now;

    if (progress_is_early(c))
        return placed;
    read = progress_drive(c, 0);
    placed = placed || c->slots > 0;
    now = clock_now();
    /* relaxed: a hint for others */
    atomic_store_explicit(&s->hint->driven_at, now, memory_order_relaxed);
    if (UNLIKELY(!stream_is_own(s->hint)))
        atomic_store_explicit(&s->hint->thread, biased_self(), memory_order_relaxed);
    stream_gather_send(s);
    if (read)
        s->read_at = now;
    if (now - s->passed_at >= progress_others_ns(s->read_at, now, read)) {
        s->passed_at = now;
        progress_stream(s, false);
    }
    return placed;
}

/* In a stream, not up yet: its socket may be among those of the stream. */
static void progress_rising(struct btl_connection *c)
{
    const bool as_owner = tcp_enter(c, BIASED_NEVER);

    progress_stream(c->stream, false);
    tcp_leave(c, as_owner);
}

void progress_one(struct btl_connection *c)
{
    const bool up = atomic_load_explicit(&c->up, memory_order_relaxed);
    struct btl *btl = c->btl;
    bool read = false;
    int64_t now;

    if (up && c->stream != NULL) {
        const bool as_owner = tcp_enter(c, BIASED_NEVER);

        /* a thread that opens the pipes for another one finds few messages */
        if (progress_in_stream(c) && !as_owner && tcp_may_own(btl))
            biased_claim(&c->stream->lock);
        tcp_leave(c, as_owner);
        return;
    }
    if (c->stream != NULL)
        progress_rising(c);
    else if (up && pthread_mutex_trylock(&c->lock) == 0) { /* else another thread drives it */
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
    const int64_t now = clock_now();
    bool driven = now - atomic_load_explicit(&btl->driven_at, memory_order_relaxed) < QUIET_NS;
    int round;

    atomic_store_explicit(&btl->service_thread, biased_self(), memory_order_relaxed);
    streams_awake(btl);
    for (round = 0; !driven && round < ROUNDS && progress_pass(btl, BY_SERVICE); round++)
        ;
    RPIPE_FAILPOINT("tcp: driven by the service thread");
    driven = streams_tend(btl, now) || driven;
    if (driven || !streams_may_sleep(btl))
        (void)btl->host.watch(-1, QUIET_US, progress_by_service, btl);
    else
        (void)btl->host.watch(btl->epoll, 0, progress_by_service, btl);
}

/* ---- deadlines ---- */

/* btl.lock held. True: a connection is still on its way up. */
static bool progress_expire(struct btl *btl, int64_t now)
{
    struct link *at, *after;
    bool as_owner;

    list_for_each (at, after, &btl->rising) {
        struct btl_connection *c = container_of(at, struct btl_connection, rising);

        as_owner = tcp_enter(c, BIASED_NEVER);
        greeting_dial_again(c, now);
        if (c->stage != TCP_UP && c->deadline <= now)
            (void)tcp_fail(c, -ETIMEDOUT,
                           "the connection did not come up before its deadline (RPIPE_TIMEOUT_MS)");
        if (c->stage == TCP_UP || tcp_error_of(c) != 0)
            list_remove(at);
        tcp_leave(c, as_owner);
    }
    return !list_empty(&btl->rising);
}

static void progress_timer(void *arg)
{
    struct btl *btl = arg;
    const int64_t now = clock_now();
    bool more;

    /* a process that was stopped finds deadlines passed, and events */
    (void)progress_pass(btl, BY_SERVICE);
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
