/* SPDX-License-Identifier: BSD-3-Clause */
/* post.c: see post.h. */
#include "control/post.h"

#include "control/peer_card.h"
#include "control/state.h"
#include "util/clock.h"
#include "util/failpoint.h"

#include <errno.h>
#include <string.h>

static int post_queue(struct peer *p, struct message *m)
{
    bool asleep = false;
    int result = 0;

    pthread_mutex_lock(&control.lock);
    if (!control_running() || control.stopping)
        result = -ENOTCONN;
    else
        result = atomic_load_explicit(&p->state, memory_order_relaxed);
    if (result == 0) {
        list_append(&p->queue, &m->link);
        p->posted++;
        control.unsent++;
        if (list_empty(&p->ready))
            list_append(&control.ready, &p->ready);
        asleep = control.asleep;
        control.asleep = false; /* one write wakes it */
    }
    pthread_mutex_unlock(&control.lock);
    RPIPE_FAILPOINT("message: queued");
    if (result != 0)
        message_free(m);
    else if (asleep)
        state_wake();
    return result;
}

static int post_copy(struct peer *p, uint32_t type, const void *body, size_t bytes, const int *fds,
                     int nfds)
{
    struct message *m = message_new(type, body, bytes, fds, nfds);

    return m != NULL ? post_queue(p, m) : -errno;
}

int control_post(int to, uint32_t type, const void *body, size_t bytes, const int *fds, int nfds)
{
    struct peer *p;

    if (!control_running())
        return -ENOTCONN;
    if (type < WIRE_PING || type > UINT16_MAX || bytes > CONTROL_BODY_MAX || nfds < 0 ||
        nfds > CONTROL_FDS_MAX || (bytes > 0 && body == NULL))
        return -EINVAL;
    p = state_peer(to);
    if (p == NULL)
        return -ENOENT;
    if (nfds > 0 && control_path(to) == CONTROL_TCP)
        return -ENOTSUP;
    return post_copy(p, type, body, bytes, fds, nfds);
}

struct control_message *control_message_alloc(uint32_t type, size_t bytes)
{
    static const uint8_t nothing[CONTROL_MESSAGE_MAX];

    return bytes <= sizeof(nothing)
               ? (struct control_message *)message_new(type, nothing, bytes, NULL, 0)
               : NULL;
}

void control_message_free(struct control_message *made)
{
    if (made != NULL)
        message_free((struct message *)made);
}

int control_post_message(int to, struct control_message *made, const void *body)
{
    struct message *m = (struct message *)made;
    struct peer *p = control_running() ? state_peer(to) : NULL;

    if (p == NULL) {
        message_free(m);
        return -ENOTCONN;
    }
    memcpy(m->body, body, m->frame.body_bytes);
    return post_queue(p, m);
}

/* Until everything that was posted to p before the call is completed. Lock held. */
static int post_flush_one(struct peer *p, int64_t deadline)
{
    uint64_t goal = p->posted;
    struct timespec until;

    while (p->completed < goal) {
        if (deadline_passed(deadline))
            return -ETIMEDOUT;
        if (deadline == DEADLINE_NEVER) {
            pthread_cond_wait(&control.completed, &control.lock);
            continue;
        }
        until = (struct timespec){deadline / NS_PER_S, deadline % NS_PER_S};
        pthread_cond_timedwait(&control.completed, &control.lock, &until);
    }
    return 0;
}

int control_flush(int to, int64_t deadline)
{
    int result = 0, peer;

    if (!control_running())
        return -ENOTCONN;
    if (control_on_service_thread())
        return -EDEADLK;
    if (to != -1 && state_peer(to) == NULL)
        return -ENOENT;
    pthread_mutex_lock(&control.lock);
    control.flushers++;
    for (peer = to == -1 ? 0 : to; peer < (to == -1 ? control.size : to + 1) && result == 0; peer++)
        result = post_flush_one(&control.peers[peer], deadline);
    control.flushers--;
    pthread_mutex_unlock(&control.lock);
    return result;
}

uint64_t control_backlog(int to)
{
    const struct peer *p;
    uint64_t backlog = 0;

    pthread_mutex_lock(&control.lock);
    p = control_running() ? state_peer(to) : NULL;
    if (p != NULL)
        backlog = p->posted - p->completed;
    pthread_mutex_unlock(&control.lock);
    return backlog;
}

void control_monitor(int peer)
{
    struct peer *p = control_running() && peer != control.rank ? state_peer(peer) : NULL;

    /* acquire: pairs with the release of the state in peer_end.c */
    if (p != NULL && atomic_load_explicit(&p->state, memory_order_acquire) == 0)
        post_copy(p, WIRE_PING, NULL, 0, NULL, 0);
}
