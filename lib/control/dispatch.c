/* SPDX-License-Identifier: BSD-3-Clause */
/* dispatch.c: see dispatch.h. */
#include "control/dispatch.h"

#include "control/greeting.h"
#include "control/peer_end.h"
#include "control/peer_loss.h"
#include "control/receive.h"
#include "control/state.h"
#include "util/failpoint.h"
#include "util/fork_fds.h"
#include "util/log.h"
#include "util/received_fd.h"

#include <errno.h>

/* For memory for a message of this rank to itself. */
#define SELF_ATTEMPTS 500
#define SELF_RETRY_MS 1

/* The receiver of a frame takes its descriptors. */
static void dispatch_take_fds(struct connection *c, const struct wire_frame *frame, int *fds)
{
    uint32_t i;

    for (i = 0; i < frame->nfds; i++) {
        fds[i] = c->fds[i];
        c->fds[i] = -1;
        fork_fds_forget(fds[i]);
    }
}

/* 0; -ENOMEM: it has to be delivered again: only where no descriptors came with it. */
static int dispatch_deliver(int from, uint32_t type, const void *body, size_t bytes, const int *fds,
                            int nfds)
{
    int i;

    if (type >= CONTROL_TYPE_USER && control.hooks.message != NULL) {
        thread_does(&control.thread, "handling a message");
        return control.hooks.message(from, type, body, bytes, fds, nfds);
    }
    for (i = 0; i < nfds; i++)
        received_fd_close(fds[i]);
    return type >= WIRE_CHUNK && type <= WIRE_LEAVE ? control.lanes.message(from, type, body, bytes)
                                                    : 0;
}

static int dispatch_of_peer(struct connection *c, const struct wire_frame *frame, const void *body)
{
    int fds[CONTROL_FDS_MAX];
    const bool page_first = c->is_unix && !c->outgoing && !c->paged;
    bool allowed = frame->type == WIRE_FIN || frame->type == WIRE_EXITING ||
                   (!c->outgoing && (frame->type == WIRE_PING || frame->type >= WIRE_CHUNK));
    int rc;

    if (page_first && frame->type == WIRE_PAGE && frame->nfds == 1)
        return greeting_page(c);
    c->used = true;
    if (!allowed || page_first ||
        (frame->type < CONTROL_TYPE_USER && (frame->nfds > 0 || frame->type > WIRE_EXITING))) {
        struct error err = {""};

        error_note(&err, "it sent a frame of the unknown type %u with %u descriptors", frame->type,
                   frame->nfds);
        control_cut_off(c->peer, err.text);
        return 0;
    }
    if (frame->type == WIRE_FIN) {
        peer_end_fin(c);
        return 0;
    }
    if (frame->type == WIRE_EXITING) {
        peer_end_exiting(state_peer(c->peer));
        return 0;
    }
    dispatch_take_fds(c, frame, fds);
    RPIPE_FAILPOINT("message: read");
    rc = dispatch_deliver(c->peer, frame->type, body, frame->body_bytes, fds, (int)frame->nfds);
    RPIPE_FAILPOINT("message: delivered");
    return rc;
}

static int dispatch_frame(struct connection *c, const struct wire_frame *frame, const void *body)
{
    switch (c->state) {
    case CONNECTION_ACCEPTED:
        return greeting_hello(c, frame, body);
    case CONNECTION_GREETING:
        return greeting_welcome(c, frame, body);
    case CONNECTION_OPEN:
        return dispatch_of_peer(c, frame, body);
    default:
        return 0;
    }
}

static void dispatch_violation(struct connection *c, const char *reason)
{
    if (c->state == CONNECTION_OPEN) {
        control_cut_off(c->peer, reason);
        return;
    }
    state_warn("a connection was closed: %s", reason);
    peer_lost(c, reason);
}

void dispatch_start(void)
{
    static const struct receive_handlers handlers = {
        .frame = dispatch_frame, .violation = dispatch_violation, .ended = peer_lost};

    receive_set_handlers(&handlers);
}

/* False: there is no memory to keep it. */
static bool dispatch_one_to_self(struct message *m)
{
    int fds[CONTROL_FDS_MAX], nfds = m->nfds, i;

    for (i = 0; i < nfds; i++) {
        fds[i] = m->fds[i];
        fork_fds_forget(fds[i]);
    }
    m->nfds = 0;
    return dispatch_deliver(control.rank, m->frame.type, m->body, m->frame.body_bytes, fds, nfds) !=
           -ENOMEM;
}

/* There is no socket in which these messages could wait for memory: they wait at the head of the
 * queue. */
static void dispatch_put_back(struct peer *p, struct link *messages)
{
    pthread_mutex_lock(&control.lock);
    while (!list_empty(messages)) {
        struct link *last = messages->prev;

        list_remove(last);
        list_insert(&p->queue, last);
    }
    pthread_mutex_unlock(&control.lock);
    peer_retry_in(p, SELF_RETRY_MS);
}

void dispatch_to_self(struct peer *p)
{
    struct link mine, *at, *after;
    uint64_t count = 0;

    list_init(&mine);
    pthread_mutex_lock(&control.lock);
    list_for_each (at, after, &p->queue) {
        list_remove(at);
        list_append(&mine, at);
    }
    pthread_mutex_unlock(&control.lock);
    list_for_each (at, after, &mine) {
        struct message *m = container_of(at, struct message, link);

        if (!dispatch_one_to_self(m)) {
            if (++p->attempts < SELF_ATTEMPTS) {
                dispatch_put_back(p, &mine);
                break;
            }
            log_error("a message of this rank to itself is lost: no memory for its "
                      "%u bytes",
                      m->frame.body_bytes);
        }
        p->attempts = 0;
        list_remove(at);
        message_free(m);
        count++;
    }
    state_complete(p, count);
}
