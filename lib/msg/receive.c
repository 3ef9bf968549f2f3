/* SPDX-License-Identifier: BSD-3-Clause */
/* receive.c: rmsg_recv, rmsg_irecv, and the start of a persistent receive. */
#include "msg/advertise.h"
#include "msg/arrive.h"
#include "msg/fail.h"
#include "msg/link.h"
#include "msg/prepare.h"
#include "msg/progress.h"
#include "msg/request.h"
#include "msg/send.h"
#include "msg/wait.h"

#include <errno.h>

#define RECEIVE_POLLS 16 /* for the next message of a link, before the receive is posted */

/* True: a message that waits has been matched. */
static __attribute__((noinline)) bool receive_waiting(struct rmsg *msg, struct msg_request *r)
{
    struct match_message *waits =
        match_waiting_find(&msg->waiting, (struct match_key){r->tag, r->peer, r->space});

    if (waits == NULL)
        return false;
    match_unwait(&msg->waiting, waits);
    msg_arrive_take(msg, container_of(waits, struct msg_message, match), r);
    return true;
}

/* Opens the link to a rank, if it is not open; 0, or why it brings no messages. */
static __attribute__((noinline)) int receive_possible(struct rmsg *msg, int from, const char *call)
{
    int rc;
    const struct msg_link *l = msg_link_to(msg, from, call, &rc);

    if (l == NULL)
        return rc;
    return l->state == LINK_ENDED ? msg_link_failed(l, call) : 0;
}

static MSG_INLINE int receive_start(struct rmsg *msg, struct msg_request *r, const char *call)
{
    struct msg_link *l = NULL;
    int rc;

    if (msg->waiting.first != NULL && receive_waiting(msg, r))
        return 0;
    if (r->peer != RMSG_ANY_SOURCE) {
        l = msg->link[r->peer];
        if (MSG_UNLIKELY(l == NULL || l->state != LINK_OPEN)) {
            rc = receive_possible(msg, r->peer, call);
            if (rc != 0)
                return rc;
            l = msg->link[r->peer];
        }
    }
    msg_post(msg, r, l);
    return 0;
}

int msg_receive_start(struct rmsg *msg, struct msg_request *r, const char *call)
{
    return receive_start(msg, r, call);
}

static int receive_irecv(struct rmsg *msg, int from, uint32_t space, uint32_t tag, void *buf,
                         size_t room, rmsg_request_t *request, int flags)
{
    struct msg_request *r;
    int rc = msg_check_call(msg, "rmsg_irecv", flags, RMSG_PERSISTENT);

    if (rc == 0 && request == NULL)
        rc = msg_fail(-EINVAL, "rmsg_irecv: request is NULL");
    if (rc == 0)
        rc = msg_check(msg, "rmsg_irecv", from, space, tag, buf, room, false);
    if (MSG_UNLIKELY(rc != 0))
        return rc;
    r = msg_request_make(msg, "rmsg_irecv", false, from, space, tag, buf, room);
    if (MSG_UNLIKELY(r == NULL))
        return -ENOMEM;
    r->persistent = (flags & RMSG_PERSISTENT) != 0;
    rc = MSG_UNLIKELY(r->persistent) ? 0 : receive_start(msg, r, "rmsg_irecv");
    if (MSG_UNLIKELY(rc != 0)) {
        msg_request_free(msg, r);
        return rc;
    }
    *request = pool_handle(&r->item);
    return 0;
}

int rmsg_irecv(rmsg_t msg, int from, uint32_t space, uint32_t tag, void *buf, size_t room,
               rmsg_request_t *request, int flags)
{
    int rc = msg_enter(msg, "rmsg_irecv");

    return rc != 0
               ? rc
               : msg_leave(msg, receive_irecv(msg, from, space, tag, buf, room, request, flags));
}

/* ---- a blocking receive ---- */

/*
 * Nearly always the next message of the link is the one that a blocking call waits for. So the call polls for it before it posts the
 * receive, and takes it without a request. That is as if the receive had been posted first, since it would be the last one of those
 * that are posted: any message that it cannot complete with at once is handled after it has been posted, as one that comes then.
 *
 * The poll waits for nothing else: not where something is to be sent or copied meanwhile, and not if the sender has to be informed.
 */
static inline bool receive_polls(struct rmsg *msg, const struct msg_link *l, struct match_key key,
                                 size_t room)
{
    return l != NULL && l->state == LINK_OPEN && room < msg->advertise_least &&
           list_empty(&msg->busy) && list_empty(&msg->sharing) &&
           (msg->waiting.first == NULL || match_waiting_find(&msg->waiting, key) == NULL);
}

/* As rtake. */
static inline int receive_next(const struct msg_link *l, rtaken_t *m)
{
    int rc = rpipe_take(l->in, m);

    for (int polls = 1; polls < RECEIVE_POLLS && rc == R_PENDING; polls++) {
        msg_prepare(l->msg);
        msg_pause();
        rc = rpipe_take(l->in, m);
    }
    return rc;
}

/* A message of the link is for a receive with this key, which is the last one of those that are posted, and fits. */
static inline bool receive_completes(const struct rmsg *msg, const struct msg_link *l,
                                     const rtaken_t *m, struct match_key key, size_t room)
{
    const uint32_t tag = msg_wire_word(m->tag);

    return msg_wire_is_msg_in(m->tag, key.space) && (tag == key.tag || key.tag == RMSG_ANY_TAG) &&
           m->bytes <= room && msg_arrive_allows(l, tag, m->bytes) &&
           (msg->posted.table.count == 0 ||
            match_posted_find(&msg->posted, (struct match_key){tag, l->peer, key.space}) == NULL);
}

static inline void receive_message(struct msg_link *l, const rtaken_t *m, void *buf,
                                   rmsg_status_t *status)
{
    msg_arrive_count(l, m->bytes);
    l->msg->counts.bytes_in += m->bytes;
    if (status != NULL)
        *status = (rmsg_status_t){.from = l->peer,
                                  .space = msg_wire_space(m->tag),
                                  .tag = msg_wire_word(m->tag),
                                  .bytes = m->bytes};
    msg_arrive_copy(l, m, buf, m->bytes);
}

/* The receive is posted, unless a message waits. next: what rtake has returned for its link before. */
static __attribute__((noinline)) int receive_by_request(struct rmsg *msg, struct match_key key,
                                                        void *buf, size_t room,
                                                        rmsg_status_t *status, int next,
                                                        const rtaken_t *m)
{
    struct msg_request *r =
        msg_request_make(msg, "rmsg_recv", false, key.source, key.space, key.tag, buf, room);
    int rc = -ENOMEM;

    if (MSG_LIKELY(r != NULL)) {
        r->blocking = true;
        rc = receive_start(msg, r, "rmsg_recv");
    }
    if (next != R_PENDING) /* it is not lost, whatever has failed */
        (void)msg_arrive(msg->link[key.source], next, m);
    if (MSG_UNLIKELY(rc != 0)) {
        if (r != NULL)
            msg_request_free(msg, r);
        return rc;
    }
    return msg_wait_blocking(msg, r, status, "rmsg_recv");
}

static int receive_recv(struct rmsg *msg, int from, uint32_t space, uint32_t tag, void *buf,
                        size_t room, rmsg_status_t *status, int flags)
{
    const struct match_key key = {tag, from, space};
    struct msg_link *l;
    rtaken_t m;
    int rc = msg_check_call(msg, "rmsg_recv", flags, R_NOWAIT);

    if (rc == 0)
        rc = msg_check(msg, "rmsg_recv", from, space, tag, buf, room, false);
    if (MSG_UNLIKELY(rc != 0))
        return rc;
    if (MSG_UNLIKELY((flags & R_NOWAIT) != 0))
        (void)msg_progress_all(msg);
    l = from == RMSG_ANY_SOURCE ? NULL : msg->link[from];
    if (MSG_UNLIKELY((flags & R_NOWAIT) != 0)) {
        if (match_waiting_find(&msg->waiting, key) == NULL && (l == NULL || l->state != LINK_ENDED))
            return R_PENDING;
        return receive_by_request(msg, key, buf, room, status, R_PENDING, NULL);
    }
    rc = receive_polls(msg, l, key, room) ? receive_next(l, &m) : R_PENDING;
    if (MSG_LIKELY(rc == 0) && receive_completes(msg, l, &m, key, room)) {
        receive_message(l, &m, buf, status);
        return 0;
    }
    return receive_by_request(msg, key, buf, room, status, rc, &m);
}

int rmsg_recv(rmsg_t msg, int from, uint32_t space, uint32_t tag, void *buf, size_t room,
              rmsg_status_t *status, int flags)
{
    int rc = msg_enter(msg, "rmsg_recv");

    return rc != 0 ? rc
                   : msg_leave(msg, receive_recv(msg, from, space, tag, buf, room, status, flags));
}
