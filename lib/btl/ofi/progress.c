/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c: completions and their errors; and who drives the endpoint.
 *
 * Many providers move bytes, at the target too, only while somebody calls into them. Whoever waits does. When nobody does, the
 * service thread steps in: it sleeps until the completion queue's descriptor can be read, or looks every millisecond where there
 * is none. It leaves an endpoint alone that a user's thread has driven within the last millisecond, because a thread
 * that is woken by each packet takes the time of the one that polls: then it only looks again a millisecond later.
 *
 * Invariant: `armed` is set while the service thread sleeps on descriptors alone. Whoever posts something then makes it look
 * by time: what a provider keeps to itself (a socket that was full) must not depend on the descriptor's being told.
 */
#include "btl/ofi/ofi.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/failpoint.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define COMPLETIONS 16
#define ROUNDS 64 /* in one call, then others have their turn */

/* Some descriptors can be read though there is nothing to do: after so many times in a row it is looked at less often. */
#define FALSE_ALARMS 256
#define FALSE_ALARM_US 200

/* One error of the queue: false: there was none. */
static bool progress_take_error(struct btl *btl, struct ofi_endpoint *e)
{
    struct fi_cq_err_entry error = {0};
    char device[160], said[256];
    const char *more;

    if (fi_cq_readerr(e->cq, &error, 0) <= 0)
        return false;
    more = fi_cq_strerror(e->cq, error.prov_errno, error.err_data, device, sizeof(device));
    snprintf(said, sizeof(said), "%s (%s, %d)", fi_strerror(error.err),
             more != NULL ? more : "no details", error.prov_errno);
    transfer_lost(btl, error.op_context, error.err, said);
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
            transfer_completed(btl, entry[i].op_context);
        if (n == -FI_EAVAIL) {
            if (!progress_take_error(btl, e))
                return;
        } else if (n < 0 && n != -FI_EAGAIN) {
            if (!e->broken) {
                e->broken = true;
                log_error("ofi: provider %s: fi_cq_read: %s", e->provider, fi_strerror((int)-n));
                transfer_queue_lost(btl, fi_strerror((int)-n));
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
    if (!list_empty(&btl->stuck) || !list_empty(&btl->stuck_lines))
        transfer_continue(btl);
}

/* ---- by users ---- */

void progress_by_user(struct btl *btl)
{
    atomic_store_explicit(&btl->driven_at, clock_now(),
                          memory_order_relaxed); /* a hint for serve */
    if (atomic_load_explicit(&btl->waiting, memory_order_relaxed) > 0 ||
        pthread_mutex_trylock(&btl->lock) != 0)
        return; /* somebody drives it at this moment */
    progress_drive(btl);
    ofi_unlock(btl);
}

static void progress_serve(void *arg);

void progress_posted(struct btl *btl)
{
    if (!btl->armed)
        return;
    btl->armed = false;
    atomic_store_explicit(&btl->driven_at, clock_now(), memory_order_relaxed);
    (void)btl->host.watch(-1, OFI_QUIET_US, progress_serve, btl);
}

/* ---- by the service thread ---- */

/* True: nothing is left to do, and the descriptor will tell when there is. */
static bool progress_may_sleep(struct btl *btl)
{
    struct fid *fid = &btl->rma.cq->fid;

    return btl->rma.wait_fd >= 0 && list_empty(&btl->stuck) && list_empty(&btl->stuck_lines) &&
           fi_trywait(btl->rma.fabric, &fid, 1) == FI_SUCCESS;
}

/* How long to leave the descriptor alone. */
static int64_t progress_pause_of(struct btl *btl)
{
    struct pollfd fd = {.fd = btl->rma.wait_fd, .events = POLLIN};

    if (!btl->armed)
        return OFI_QUIET_US;
    btl->alarms = poll(&fd, 1, 0) > 0 ? btl->alarms + 1 : 0;
    return btl->alarms > FALSE_ALARMS ? FALSE_ALARM_US : 0;
}

static void progress_serve(void *arg)
{
    struct btl *btl = arg;
    int64_t pause;

    if (clock_now() - atomic_load_explicit(&btl->driven_at, memory_order_relaxed) < OFI_QUIET_NS) {
        if (atomic_load_explicit(&btl->armed, memory_order_relaxed)) {
            ofi_lock(btl);
            btl->armed = false;
            ofi_unlock(btl);
        } /* else without the lock: whoever polls would have to let this go first, a thousand times a second */
        (void)btl->host.watch(-1, OFI_QUIET_US, progress_serve, btl);
        progress_part(btl);
        return;
    }
    ofi_lock(btl);
    progress_drive(btl);
    RPIPE_FAILPOINT("ofi: driven by the service thread, lock held");
    btl->armed = progress_may_sleep(btl);
    pause = progress_pause_of(btl);
    (void)btl->host.watch(btl->armed ? btl->rma.wait_fd : -1, pause, progress_serve, btl);
    ofi_unlock(btl);
    progress_part(btl);
}

int progress_start(struct btl *btl) { return btl->host.watch(-1, 0, progress_serve, btl); }

void progress_stop(struct btl *btl) { btl->host.unwatch(progress_serve, btl); }
