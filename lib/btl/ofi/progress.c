/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c: see progress.h.
 *
 * Many providers move bytes, at the target too, only while a thread calls them. A thread that waits
 * does, for its endpoint. When none does, the service thread takes over: it sleeps until the completion queue's
 * descriptor is readable, or polls every millisecond if there is no descriptor. It leaves the
 * endpoint to a thread of the user that has driven it within the last millisecond, since a thread
 * that is woken by each packet takes time from one that polls; it then polls again a millisecond
 * later. So a thread that waits in one stream depends on no other one: it drives its other streams itself, and all endpoints that
 * no thread drives (progress_round); the service thread drives those, too, and so does rprogress.
 *
 * Invariant: `asleep` is set while the service thread waits for the descriptor alone. A thread that
 * posts something then makes it poll by time: what a provider retains (because a socket was full)
 * must not depend on the descriptor. It is set inside, by the service thread, and reset by either: both then make it poll
 * by time.
 */
#include "btl/ofi/progress.h"

#include "btl/ofi/deferred.h"
#include "btl/ofi/post.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/failpoint.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define COMPLETIONS 16
/* The service thread leaves an endpoint alone that was driven within this time. */
#define OFI_QUIET_NS 1000000
#define OFI_QUIET_US 1000
/*
 * The same for a thread that waits: later than the service thread, whose locks cost no message anything; its own streams, but the one that it waits
 * on, at once.
 */
#define OFI_LATE_NS (4 * OFI_QUIET_NS)
#define OFI_OWN_NS 25000
#define ROUNDS 64 /* in one call, before other threads get the lock */
/* Of polls of a stream by a thread that does not own it, one in so many is a claim: those of a thread that opens pipes for another one are few. */
#define CLAIM_POLLS 16

/*
 * Some descriptors are readable without a completion: after so many consecutive times they are
 * polled less often.
 */
#define FALSE_ALARMS 256
#define FALSE_ALARM_US 200

/* Handles one error of the queue. False: there was none. */
static bool progress_take_error(struct ofi_endpoint *e)
{
    struct fi_cq_err_entry error = {0};
    char device[160], message[256];
    const char *more;

    if (fi_cq_readerr(e->cq, &error, 0) <= 0)
        return false;
    more = fi_cq_strerror(e->cq, error.prov_errno, error.err_data, device, sizeof(device));
    snprintf(message, sizeof(message), "%s (%s, %d)", fi_strerror(error.err),
             more != NULL ? more : "no details", error.prov_errno);
    post_failed(e, error.op_context, error.err, message);
    return true;
}

static void ofi_progress_read(struct ofi_endpoint *e)
{
    struct fi_cq_entry entry[COMPLETIONS];
    ssize_t n;
    int round;

    for (round = 0; round < ROUNDS; round++) {
        n = fi_cq_read(e->cq, entry, COMPLETIONS);
        for (ssize_t i = 0; i < n; i++)
            post_completed(entry[i].op_context);
        if (n == -FI_EAVAIL) {
            if (!progress_take_error(e))
                return;
        } else if (n < 0 && n != -FI_EAGAIN) {
            if (!e->broken) {
                e->broken = true;
                log_error("ofi: provider %s: fi_cq_read: %s", e->provider, fi_strerror((int)-n));
                post_queue_failed(e, fi_strerror((int)-n));
            }
            return;
        } else if (n < COMPLETIONS) {
            return;
        }
    }
}

void progress_drive(struct ofi_endpoint *e)
{
    ofi_progress_read(e);
    if (!list_empty(&e->stuck) || !list_empty(&e->stuck_connections))
        deferred_continue(e);
}

static bool progress_is_driven(const struct ofi_endpoint *e, int64_t now)
{
    /* relaxed: a hint */
    return now - atomic_load_explicit(&e->driven_at, memory_order_relaxed) < OFI_QUIET_NS;
}

/* ---- by users ---- */

/* False: another thread drives it at this moment, or waits to get in. */
static bool ofi_progress_enter(struct ofi_endpoint *e, bool *as_owner)
{
    atomic_store_explicit(&e->driven_at, clock_now(), memory_order_relaxed); /* a hint for serve */
    if (e->stream == NULL && atomic_load_explicit(&e->btl->waiting, memory_order_relaxed) > 0)
        return false;
    return ofi_try(e, as_owner);
}

/*
 * Of the connections of a stream one polls for all: whether another one has, since the last progress of this one.
 */
static bool progress_is_polled(struct btl_connection *connection)
{
    const struct ofi_endpoint *e = connection->endpoint;

    if (e->stream == NULL || connection->looked == e->polls)
        return false;
    connection->looked = e->polls;
    return true;
}

/* Inside, not as the owner: a thread that only reads becomes the owner by polling. */
static void progress_claim(struct btl_stream *s)
{
    if (++s->claims % CLAIM_POLLS == 0 && ofi_claim(s->endpoint.btl) != BIASED_NEVER)
        biased_claim(&s->lock);
}

void progress_connection(struct btl_connection *connection)
{
    struct ofi_endpoint *e = connection->endpoint;
    bool as_owner;

    if (!ofi_progress_enter(e, &as_owner))
        return;
    if (!progress_is_polled(connection)) {
        progress_drive(e);
        connection->counts.polls++;
        connection->looked = ++e->polls;
        if (e->stream != NULL && !as_owner && connection->connected)
            progress_claim(e->stream);
    }
    ofi_leave(e, as_owner);
}

static void progress_endpoint(struct ofi_endpoint *e)
{
    bool as_owner;

    if (!ofi_progress_enter(e, &as_owner))
        return;
    progress_drive(e);
    ofi_leave(e, as_owner);
}

void progress_all(struct btl *btl)
{
    const int64_t now = clock_now();
    struct link *at, *after;

    progress_endpoint(&btl->rma);
    ofi_lock(btl); /* so no stream gets another thread meanwhile: stream_take */
    list_for_each (at, after, &btl->streams) {
        struct ofi_endpoint *e = &container_of(at, struct btl_stream, link)->endpoint;

        if (!progress_is_driven(e, now))
            progress_endpoint(e);
    }
    ofi_unlock(btl);
}

/* Whether a thread that waits drives it. One that a stream has left is the service thread's. */
static bool progress_is_late(const struct ofi_endpoint *e, int64_t now)
{
    const int64_t idle = now - atomic_load_explicit(&e->driven_at, memory_order_relaxed);

    if (e->stream != NULL && atomic_load_explicit(&e->stream->users, memory_order_relaxed) == 0)
        return false;
    return idle >= OFI_LATE_NS ||
           (idle >= OFI_OWN_NS && e->stream != NULL && biased_is_owner(&e->stream->lock));
}

/* Whether one of all endpoints is. They stay until the backend is closed. */
static bool progress_any_is_late(struct btl *btl, int64_t now)
{
    /* acquire: pairs with the release of ofi_stream_try */
    const struct btl_stream *s = atomic_load_explicit(&btl->last_stream, memory_order_acquire);

    while (s != NULL && !progress_is_late(&s->endpoint, now))
        s = s->before;
    return s != NULL || progress_is_late(&btl->rma, now);
}

/* With btl.lock held no stream gets another thread (stream_take). */
void progress_round(struct btl *btl)
{
    const int64_t now = clock_now();
    struct link *at, *after;

    if (!progress_any_is_late(btl, now) || pthread_mutex_trylock(&btl->lock) != 0)
        return;
    if (progress_is_late(&btl->rma, now)) {
        atomic_store_explicit(&btl->rma.driven_at, now, memory_order_relaxed);
        progress_drive(&btl->rma);
    }
    list_for_each (at, after, &btl->streams) {
        struct ofi_endpoint *e = &container_of(at, struct btl_stream, link)->endpoint;

        if (progress_is_late(e, now))
            progress_endpoint(e);
    }
    ofi_unlock(btl);
}

static void progress_serve(void *arg);

void progress_posted(struct ofi_endpoint *e)
{
    if (!atomic_load_explicit(&e->asleep, memory_order_relaxed)) /* set inside */
        return;
    atomic_store_explicit(&e->asleep, false, memory_order_relaxed);
    atomic_store_explicit(&e->driven_at, clock_now(), memory_order_relaxed);
    (void)e->btl->host.watch(-1, OFI_QUIET_US, progress_serve, e);
}

/* ---- by the service thread ---- */

/* True: nothing is left to do, and the descriptor becomes readable when there is. */
static bool progress_may_sleep(struct ofi_endpoint *e)
{
    struct fid *fid = &e->cq->fid;

    return e->wait_fd >= 0 && list_empty(&e->stuck) && list_empty(&e->stuck_connections) &&
           fi_trywait(e->fabric, &fid, 1) == FI_SUCCESS;
}

/* Microseconds until the descriptor is watched again. */
static int64_t progress_pause_of(struct ofi_endpoint *e, bool asleep)
{
    struct pollfd fd = {.fd = e->wait_fd, .events = POLLIN};

    if (!asleep)
        return OFI_QUIET_US;
    e->alarms = poll(&fd, 1, 0) > 0 ? e->alarms + 1 : 0;
    return e->alarms > FALSE_ALARMS ? FALSE_ALARM_US : 0;
}

/* Not driven by a thread of the user. */
static void ofi_progress_serve(struct ofi_endpoint *e)
{
    const bool as_owner = ofi_enter(e, BIASED_NEVER);
    bool asleep;

    progress_drive(e);
    RPIPE_FAILPOINT("ofi: driven by the service thread, lock held");
    asleep = progress_may_sleep(e);
    atomic_store_explicit(&e->asleep, asleep, memory_order_relaxed);
    (void)e->btl->host.watch(asleep ? e->wait_fd : -1, progress_pause_of(e, asleep), progress_serve,
                             e);
    ofi_leave(e, as_owner);
}

static void progress_serve(void *arg)
{
    struct ofi_endpoint *e = arg;
    struct btl *btl = e->btl;

    atomic_store_explicit(&btl->service_thread, biased_self(), memory_order_relaxed);
    if (progress_is_driven(e, clock_now())) {
        /* outside: a polling thread would have to let this one in each time */
        atomic_store_explicit(&e->asleep, false, memory_order_relaxed);
        (void)btl->host.watch(-1, OFI_QUIET_US, progress_serve, e);
    } else {
        ofi_progress_serve(e);
    }
    deferred_free_ready(btl);
}

int progress_start(struct ofi_endpoint *e) { return e->btl->host.watch(-1, 0, progress_serve, e); }

void progress_stop(struct ofi_endpoint *e) { e->btl->host.unwatch(progress_serve, e); }
