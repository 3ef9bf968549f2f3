/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c: see progress.h.
 *
 * Many providers move bytes, at the target too, only while a thread calls them. A thread that waits
 * does. When none does, the service thread takes over: it sleeps until the completion queue's
 * descriptor is readable, or polls every millisecond if there is no descriptor. It leaves the
 * endpoint to a thread of the user that has driven it within the last millisecond, since a thread
 * that is woken by each packet takes time from one that polls; it then polls again a millisecond
 * later.
 *
 * Invariant: `asleep` is set while the service thread waits for the descriptor alone. A thread that
 * posts something then makes it poll by time: what a provider retains (because a socket was full)
 * must not depend on the descriptor.
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
#define ROUNDS 64 /* in one call, before other threads get the lock */

/*
 * Some descriptors are readable without a completion: after so many consecutive times they are
 * polled less often.
 */
#define FALSE_ALARMS 256
#define FALSE_ALARM_US 200

/* Handles one error of the queue. False: there was none. */
static bool progress_take_error(struct btl *btl, struct ofi_endpoint *e)
{
    struct fi_cq_err_entry error = {0};
    char device[160], message[256];
    const char *more;

    if (fi_cq_readerr(e->cq, &error, 0) <= 0)
        return false;
    more = fi_cq_strerror(e->cq, error.prov_errno, error.err_data, device, sizeof(device));
    snprintf(message, sizeof(message), "%s (%s, %d)", fi_strerror(error.err),
             more != NULL ? more : "no details", error.prov_errno);
    post_failed(btl, error.op_context, error.err, message);
    return true;
}

static void progress_drive_endpoint(struct btl *btl, struct ofi_endpoint *e)
{
    struct fi_cq_entry entry[COMPLETIONS];
    ssize_t n;
    int round;

    for (round = 0; round < ROUNDS; round++) {
        n = fi_cq_read(e->cq, entry, COMPLETIONS);
        for (ssize_t i = 0; i < n; i++)
            post_completed(btl, entry[i].op_context);
        if (n == -FI_EAVAIL) {
            if (!progress_take_error(btl, e))
                return;
        } else if (n < 0 && n != -FI_EAGAIN) {
            if (!e->broken) {
                e->broken = true;
                log_error("ofi: provider %s: fi_cq_read: %s", e->provider, fi_strerror((int)-n));
                post_queue_failed(btl, fi_strerror((int)-n));
            }
            return;
        } else if (n < COMPLETIONS) {
            return;
        }
    }
}

void progress_drive(struct btl *btl)
{
    progress_drive_endpoint(btl, &btl->rma);
    if (!list_empty(&btl->stuck) || !list_empty(&btl->stuck_connections))
        deferred_continue(btl);
}

/* ---- by users ---- */

void progress_by_user(struct btl *btl)
{
    atomic_store_explicit(&btl->driven_at, clock_now(),
                          memory_order_relaxed); /* a hint for serve */
    if (atomic_load_explicit(&btl->waiting, memory_order_relaxed) > 0 ||
        pthread_mutex_trylock(&btl->lock) != 0)
        return; /* another thread drives it at this moment */
    progress_drive(btl);
    ofi_unlock(btl);
}

static void progress_serve(void *arg);

void progress_posted(struct btl *btl)
{
    if (!btl->asleep)
        return;
    btl->asleep = false;
    atomic_store_explicit(&btl->driven_at, clock_now(), memory_order_relaxed);
    (void)btl->host.watch(-1, OFI_QUIET_US, progress_serve, btl);
}

/* ---- by the service thread ---- */

/* True: nothing is left to do, and the descriptor becomes readable when there is. */
static bool progress_may_sleep(struct btl *btl)
{
    struct fid *fid = &btl->rma.cq->fid;

    return btl->rma.wait_fd >= 0 && list_empty(&btl->stuck) &&
           list_empty(&btl->stuck_connections) &&
           fi_trywait(btl->rma.fabric, &fid, 1) == FI_SUCCESS;
}

/* Microseconds until the descriptor is watched again. */
static int64_t progress_pause_of(struct btl *btl)
{
    struct pollfd fd = {.fd = btl->rma.wait_fd, .events = POLLIN};

    if (!btl->asleep)
        return OFI_QUIET_US;
    btl->alarms = poll(&fd, 1, 0) > 0 ? btl->alarms + 1 : 0;
    return btl->alarms > FALSE_ALARMS ? FALSE_ALARM_US : 0;
}

static void progress_serve(void *arg)
{
    struct btl *btl = arg;
    int64_t pause;

    if (clock_now() - atomic_load_explicit(&btl->driven_at, memory_order_relaxed) < OFI_QUIET_NS) {
        if (atomic_load_explicit(&btl->asleep, memory_order_relaxed)) {
            ofi_lock(btl);
            btl->asleep = false;
            ofi_unlock(btl);
        } /* else without the lock, which a polling thread would have to yield each time */
        (void)btl->host.watch(-1, OFI_QUIET_US, progress_serve, btl);
        deferred_free_ready(btl);
        return;
    }
    ofi_lock(btl);
    progress_drive(btl);
    RPIPE_FAILPOINT("ofi: driven by the service thread, lock held");
    btl->asleep = progress_may_sleep(btl);
    pause = progress_pause_of(btl);
    (void)btl->host.watch(btl->asleep ? btl->rma.wait_fd : -1, pause, progress_serve, btl);
    ofi_unlock(btl);
    deferred_free_ready(btl);
}

int progress_start(struct btl *btl) { return btl->host.watch(-1, 0, progress_serve, btl); }

void progress_stop(struct btl *btl) { btl->host.unwatch(progress_serve, btl); }
