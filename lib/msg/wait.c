/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c: rmsg_wait, rmsg_wait_any, rmsg_wait_all; and the waits of blocking calls.
 *
 * The death of a peer is reported once by a wait for a receive from any source, which stays posted: another peer may send.
 */
#include "msg/wait.h"

#include "msg/advertise.h"
#include "msg/direct.h"
#include "msg/fail.h"
#include "msg/move.h"
#include "msg/progress.h"
#include "msg/request.h"
#include "util/last_error.h"

#include <errno.h>
#include <stdio.h>

/* The link whose messages complete a request; NULL: any. */
static inline struct msg_link *wait_link(const struct rmsg *msg, const struct msg_request *r)
{
    return r->state != MSG_POSTED       ? r->link
           : r->peer == RMSG_ANY_SOURCE ? NULL
                                        : msg->link[r->peer];
}

static int wait_named(const char *call, int code)
{
    char text[LAST_ERROR_BYTES];

    snprintf(text, sizeof(text), "%s", last_error_get());
    return msg_fail(code, "%s: %s", call, text);
}

static __attribute__((cold, noinline)) int wait_failed(const struct msg_request *r,
                                                       const char *call)
{
    const rmsg_status_t *s = &r->status;

    if (s->error == -EMSGSIZE)
        return msg_fail(s->error,
                        "%s: the message of rank %d with tag %u has %zu bytes, and the buffer has "
                        "%zu; the rest is lost",
                        call, s->from, s->tag, s->bytes, r->bytes);
    if (s->error == -ECANCELED)
        return msg_fail(s->error, "%s: %s", call,
                        r->link == NULL || r->send ? "the request was cancelled"
                                                   : "the sender has given up the message");
    return msg_fail(s->error, "%s: the link to rank %d has ended%s%s", call,
                    r->link != NULL ? r->link->peer : r->peer, r->link != NULL ? ": " : "",
                    r->link != NULL ? r->link->why : "");
}

/* The request is done: its result; frees it, or makes it inactive. */
static inline int wait_collect(struct rmsg *msg, struct msg_request *r, rmsg_status_t *status,
                               const char *call)
{
    int rc = r->status.error;

    if (status != NULL)
        *status = r->status;
    if (MSG_UNLIKELY(rc != 0))
        (void)wait_failed(r, call);
    if (MSG_UNLIKELY(r->persistent)) {
        r->state = MSG_INACTIVE;
        r->link = NULL;
    } else {
        msg_request_free(msg, r);
    }
    return rc;
}

/* What most requests are that are waited for: done, without an error, not persistent. Then it is freed. */
static inline bool wait_take(struct rmsg *msg, rmsg_request_t *request, rmsg_status_t *status)
{
    struct msg_request *r = pool_by_handle(&msg->requests, *request);

    if (r == NULL || r->state != MSG_DONE ||
        (r->status.error != 0) | r->undoing | r->abandoned | r->persistent)
        return false;
    if (status != NULL)
        *status = r->status;
    msg_request_free(msg, r);
    *request = 0;
    return true;
}

/* A death that a receive from any source has to report. */
static int wait_lost(struct rmsg *msg, const struct msg_request *r, const char *call)
{
    int rc = msg->lost;

    if (MSG_LIKELY(rc == 0) || r->send || r->peer != RMSG_ANY_SOURCE || r->state != MSG_POSTED)
        return 0;
    msg->lost = 0;
    return msg_fail(rc,
                    "%s: the link to rank %d has ended: %s; the receive from any source stays "
                    "posted, and can be waited for again",
                    call, msg->lost_peer, msg->link[msg->lost_peer]->why);
}

int msg_wait_blocking(struct rmsg *msg, struct msg_request *r, rmsg_status_t *status,
                      const char *call)
{
    struct msg_wait w = {0};
    int rc = 0;

    while (!msg_request_done(r)) {
        rc = msg_progress_wait(msg, wait_link(msg, r), &w);
        if (MSG_LIKELY(rc == 0))
            rc = wait_lost(msg, r, call);
        else
            rc = wait_named(call, rc);
        if (MSG_UNLIKELY(rc != 0 && !msg_request_done(r))) {
            if (r->state == MSG_POSTED)
                msg_advertise_cancel(msg, r);
            if (r->cell != NULL)
                msg_move_give_up(msg, r);
            else if (r->lent != NULL)
                msg_direct_give_up(r);
            if (r->state == MSG_DONE && r->status.error == 0 && !r->undoing)
                break; /* just now */
            msg_request_abandon(msg, r);
            return rc;
        }
    }
    return wait_collect(msg, r, status, call);
}

/* A turn of a call that does not wait. False: nothing has moved, so no request has become done. */
static inline bool wait_look(struct rmsg *msg)
{
    if (MSG_LIKELY(msg_progress_only_reads(msg))) {
        if (MSG_LIKELY(!msg_progress_read(msg)))
            return false;
        (void)msg_progress_send(msg);
        return true;
    }
    (void)msg_progress_all(msg);
    (void)rpipe_progress(); /* corked messages leave; else by the polls of the pipes */
    return true;
}

/* The request of a handle; NULL: *rc is the code. */
static struct msg_request *wait_request(const struct rmsg *msg, rmsg_request_t handle,
                                        const char *call, int *rc)
{
    struct msg_request *r = pool_by_handle(&msg->requests, handle);

    if (MSG_LIKELY(r != NULL && !r->abandoned))
        return r;
    *rc = msg_fail(-EINVAL, "%s: there is no request 0x%llx, or it has completed already", call,
                   (unsigned long long)handle);
    return NULL;
}

static inline void wait_nothing(rmsg_status_t *status)
{
    if (status != NULL)
        *status = (rmsg_status_t){.from = RMSG_ANY_SOURCE, .tag = RMSG_ANY_TAG};
}

/* Waits for one request, which is not inactive. */
static int wait_one(struct rmsg *msg, rmsg_request_t *request, rmsg_status_t *status, int flags,
                    const char *call)
{
    struct msg_wait w = {0};
    struct msg_request *r;
    int rc = 0;

    r = wait_request(msg, *request, call, &rc);
    if (MSG_UNLIKELY(r == NULL))
        return rc;
    if (r->state == MSG_INACTIVE) {
        wait_nothing(status);
        return 0;
    }
    while (!msg_request_done(r)) {
        if ((flags & R_NOWAIT) != 0) {
            if (wait_look(msg) && msg_request_done(r))
                break;
            rc = wait_lost(msg, r, call);
            return rc != 0 ? rc : R_PENDING; /* no text: it would take longer than the rest */
        }
        rc = msg_progress_wait(msg, wait_link(msg, r), &w);
        rc = MSG_LIKELY(rc == 0) ? wait_lost(msg, r, call) : wait_named(call, rc);
        if (MSG_UNLIKELY(rc != 0 && !msg_request_done(r)))
            return rc;
    }
    if (!r->persistent)
        *request = 0;
    return wait_collect(msg, r, status, call);
}

/*
 * Nearly all tests of requests: nothing has arrived, there is nothing else to do, and no death to report. A program may test once for
 * each of its steps, so this is short; whatever else may be is left to wait_call.
 */
static MSG_INLINE bool wait_is_vain(struct rmsg *msg, const rmsg_request_t *request)
{
    const struct msg_request *r;

    if (msg == NULL || msg->debug || request == NULL || rpipe_initialized() != 1)
        return false;
    r = pool_by_handle(&msg->requests, *request);
    return r != NULL && r->state != MSG_DONE && r->state != MSG_INACTIVE && !r->abandoned &&
           msg->lost == 0 && msg_progress_is_vain(msg);
}

static int wait_call(struct rmsg *msg, rmsg_request_t *request, rmsg_status_t *status, int flags)
{
    int rc = msg_check_call(msg, "rmsg_wait", flags, R_NOWAIT);

    if (rc == 0 && request == NULL)
        rc = msg_fail(-EINVAL, "rmsg_wait: request is NULL");
    if (MSG_UNLIKELY(rc != 0))
        return rc;
    if (wait_take(msg, request, status))
        return 0;
    if (*request == 0) {
        wait_nothing(status);
        return 0;
    }
    return wait_one(msg, request, status, flags, "rmsg_wait");
}

static __attribute__((noinline)) int wait_checked(struct rmsg *msg, rmsg_request_t *request,
                                                  rmsg_status_t *status, int flags)
{
    int rc = msg_enter(msg, "rmsg_wait");

    return rc != 0 ? rc : msg_leave(msg, wait_call(msg, request, status, flags));
}

int rmsg_wait(rmsg_t msg, rmsg_request_t *request, rmsg_status_t *status, int flags)
{
    if (flags == R_NOWAIT && wait_is_vain(msg, request))
        return R_PENDING;
    return wait_checked(msg, request, status, flags);
}

/* A request whose wait has failed: false if it has completed, and is persistent. */
static inline bool wait_goes_on(const struct rmsg *msg, rmsg_request_t handle)
{
    const struct msg_request *r = pool_by_handle(&msg->requests, handle);

    return r == NULL || r->abandoned || r->state != MSG_INACTIVE;
}

static int wait_call_all(struct rmsg *msg, rmsg_request_t *requests, int n, rmsg_status_t *status,
                         int flags)
{
    int rc = msg_check_call(msg, "rmsg_wait_all", flags, 0), first = 0;

    if (rc == 0 && (n < 0 || (n > 0 && requests == NULL)))
        rc = msg_fail(-EINVAL, "rmsg_wait_all: requests is %s for n = %d",
                      requests == NULL ? "NULL" : "given", n);
    if (rc != 0)
        return rc;
    for (int i = 0; i < n; i++) {
        rmsg_status_t *s = status == NULL ? NULL : &status[i];

        if (wait_take(msg, &requests[i], s))
            continue;
        if (requests[i] == 0) {
            wait_nothing(s);
            continue;
        }
        rc = wait_one(msg, &requests[i], s, 0, "rmsg_wait_all");
        if (MSG_UNLIKELY(rc != 0 && requests[i] != 0 && wait_goes_on(msg, requests[i])))
            return rc;
        if (first == 0)
            first = rc;
    }
    return first;
}

int rmsg_wait_all(rmsg_t msg, rmsg_request_t *requests, int n, rmsg_status_t *status, int flags)
{
    int rc = msg_enter(msg, "rmsg_wait_all");

    return rc != 0 ? rc : msg_leave(msg, wait_call_all(msg, requests, n, status, flags));
}

/* The first of n requests that is done; n: none. *active: some are active. */
static int wait_find(const struct rmsg *msg, const rmsg_request_t *requests, int n, bool *active,
                     int *rc)
{
    *active = false;
    for (int i = 0; i < n; i++) {
        const struct msg_request *r;

        if (requests[i] == 0)
            continue;
        r = wait_request(msg, requests[i], "rmsg_wait_any", rc);
        if (r == NULL)
            return n;
        if (r->state == MSG_INACTIVE)
            continue;
        if (msg_request_done(r))
            return i;
        *active = true;
    }
    return n;
}

/* A death that one of n requests, none of which is done, has to report. */
static inline int wait_any_lost(struct rmsg *msg, const rmsg_request_t *requests, int n)
{
    int rc = 0;

    for (int i = 0; i < n && MSG_UNLIKELY(msg->lost != 0) && rc == 0; i++) {
        const struct msg_request *r = pool_by_handle(&msg->requests, requests[i]);

        if (r != NULL)
            rc = wait_lost(msg, r, "rmsg_wait_any");
    }
    return rc;
}

static int wait_call_any(struct rmsg *msg, rmsg_request_t *requests, int n, int *which,
                         rmsg_status_t *status, int flags)
{
    int rc = msg_check_call(msg, "rmsg_wait_any", flags, R_NOWAIT), found;
    struct msg_wait w = {0};
    bool active;

    if (rc == 0 && (n < 0 || which == NULL || (n > 0 && requests == NULL)))
        rc = msg_fail(-EINVAL, "rmsg_wait_any: requests is %s, which is %s for n = %d",
                      requests == NULL ? "NULL" : "given", which == NULL ? "NULL" : "given", n);
    if (rc != 0)
        return rc;
    while ((found = wait_find(msg, requests, n, &active, &rc)) == n && rc == 0 && active) {
        rc = wait_any_lost(msg, requests, n);
        if (MSG_UNLIKELY(rc != 0))
            return rc;
        if ((flags & R_NOWAIT) != 0) {
            if (w.turns > 0 || !wait_look(msg))
                return R_PENDING;
            w.turns = 1;
            continue;
        }
        rc = msg_progress_wait(msg, NULL, &w);
        if (rc != 0)
            return wait_named("rmsg_wait_any", rc);
    }
    if (rc != 0)
        return rc;
    *which = found;
    if (found == n) {
        wait_nothing(status);
        return 0;
    }
    return wait_one(msg, &requests[found], status, 0, "rmsg_wait_any");
}

int rmsg_wait_any(rmsg_t msg, rmsg_request_t *requests, int n, int *which, rmsg_status_t *status,
                  int flags)
{
    int rc = msg_enter(msg, "rmsg_wait_any");

    return rc != 0 ? rc : msg_leave(msg, wait_call_any(msg, requests, n, which, status, flags));
}
