/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.c: see stream.h.
 *
 * What a category means here: each pipe has a socket of its own, with or without a stream, so that all but THREADS are EVERYWHERE.
 */
#include "btl/tcp/stream.h"

#include "btl/share.h"
#include "util/failpoint.h"
#include "util/fork_fds.h"
#include "util/limit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

/* ---- opening and closing ---- */

/* btl.lock held. One that no stream has; NULL: no memory. */
static struct stream_hint *stream_take_hint(struct btl *btl)
{
    struct stream_hint *h = stream_hint_find(btl, 0);

    if (h != NULL)
        return h;
    h = aligned_alloc(_Alignof(struct stream_hint), sizeof(*h));
    if (h == NULL)
        return NULL;
    memset(h, 0, sizeof(*h));
    h->next = atomic_load_explicit(&btl->hints, memory_order_relaxed);
    /* release: pairs with the acquire of stream_hint_find */
    atomic_store_explicit(&btl->hints, h, memory_order_release);
    return h;
}

static void stream_free_hints(struct btl *btl)
{
    struct stream_hint *h, *next;

    for (h = atomic_load_explicit(&btl->hints, memory_order_relaxed); h != NULL; h = next) {
        next = h->next;
        free(h);
    }
}

/* btl.lock held. 0 or -errno. */
static int stream_register(struct btl *btl, struct btl_stream *s)
{
    struct epoll_event event = {.events = EPOLLIN};
    int rc = hash_put(&btl->stream_of, btl->last_id + 1, s);

    if (rc != 0)
        return rc;
    s->hint = stream_take_hint(btl);
    if (s->hint == NULL) {
        (void)hash_remove(&btl->stream_of, btl->last_id + 1);
        return -ENOMEM;
    }
    event.data.u64 = s->id = ++btl->last_id;
    if (epoll_ctl(btl->epoll, EPOLL_CTL_ADD, s->epoll, &event) != 0) {
        rc = -errno;
        (void)hash_remove(&btl->stream_of, s->id);
        return rc;
    }
    atomic_store_explicit(&s->hint->driven_at, 0, memory_order_relaxed);
    atomic_store_explicit(&s->hint->thread, 0, memory_order_relaxed);
    atomic_store_explicit(&s->hint->gathered, 0, memory_order_relaxed);
    atomic_store_explicit(&s->hint->id, s->id, memory_order_relaxed);
    list_append(&btl->streams, &s->link);
    return 0;
}

static void tcp_stream_free(struct btl_stream *s)
{
    fork_fds_close(s->epoll);
    biased_fini(&s->lock);
    free(s);
}

int tcp_stream_open(struct btl *btl, enum btl_share wanted, struct btl_stream **out,
                    enum btl_share *got, struct error *why)
{
    struct btl_stream *s;
    int rc = tcp_check_fork(btl, why);

    if (rc != 0)
        return rc;
    if (wanted == BTL_SHARE_THREADS)
        return error_set(why, -ENOTSUP, "threads; as without a stream: locks for all threads");
    s = aligned_alloc(_Alignof(struct btl_stream), sizeof(*s));
    if (s == NULL)
        return error_set(why, -ENOMEM, "threads, since there is no memory for another stream");
    memset(s, 0, sizeof(*s));
    biased_init(&s->lock);
    list_init(&s->gathered);
    s->btl = btl;
    s->connections = 1;
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    rc = s->epoll < 0 ? -errno : 0;
    fork_fds_add(s->epoll);
    RPIPE_FAILPOINT("tcp: set of a stream created");
    if (rc == 0) {
        pthread_mutex_lock(&btl->lock);
        rc = stream_register(btl, s);
        pthread_mutex_unlock(&btl->lock);
    }
    if (rc != 0) {
        tcp_stream_free(s);
        return error_set(why, rc, "threads, since there is no further epoll_create1(2): %s%s",
                         strerror(-rc), limit_of(-rc));
    }
    *got = BTL_SHARE_EVERYWHERE;
    error_note(why, "everywhere%s%s; a socket for each pipe, a set of sockets and no lock",
               wanted != *got ? " for " : "", wanted != *got ? btl_share_name(wanted) : "");
    *out = s;
    return 0;
}

void stream_put(struct btl_stream *s)
{
    struct btl *btl = s->btl;
    bool last, as_owner;

    pthread_mutex_lock(&btl->lock);
    last = --s->connections == 0;
    if (last) {
        (void)hash_remove(&btl->stream_of, s->id);
        atomic_store_explicit(&s->hint->id, 0, memory_order_relaxed);
        list_remove(&s->link);
        (void)epoll_ctl(btl->epoll, EPOLL_CTL_DEL, s->epoll, NULL);
    }
    pthread_mutex_unlock(&btl->lock);
    if (!last)
        return;
    as_owner = biased_enter(&s->lock, BIASED_NEVER); /* a thread that has found it before */
    biased_leave(&s->lock, as_owner);
    tcp_stream_free(s);
}

void tcp_stream_close(struct btl_stream *s)
{
    if (!s->btl->forked)
        stream_put(s);
}

void tcp_connection_join(struct btl_connection *c, struct btl_stream *s,
                         struct btl_address *address)
{
    struct btl *btl = c->btl;

    (void)address; /* the listener of the process accepts for streams, too */
    if (btl->forked)
        return;
    /* no thread is inside the connection: it has no socket, and others find it with this lock only */
    pthread_mutex_lock(&btl->lock);
    c->stream = s;
    s->connections++;
    pthread_mutex_unlock(&btl->lock);
}

int streams_open(struct btl *btl)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = TCP_ALARM_ID};

    hash_init(&btl->stream_of);
    btl->alarm = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (btl->alarm < 0)
        return -errno;
    fork_fds_add(btl->alarm);
    return epoll_ctl(btl->epoll, EPOLL_CTL_ADD, btl->alarm, &event) != 0 ? -errno : 0;
}

void streams_close(struct btl *btl)
{
    fork_fds_close(btl->alarm);
    stream_free_hints(btl);
    hash_free(&btl->stream_of);
}

void streams_quiesce(struct btl *btl)
{
    struct link *at, *after;

    pthread_mutex_lock(&btl->lock);
    list_for_each (at, after, &btl->streams) {
        struct btl_stream *s = container_of(at, struct btl_stream, link);

        biased_leave(&s->lock, biased_enter(&s->lock, BIASED_NEVER));
    }
    pthread_mutex_unlock(&btl->lock);
}

struct btl_stream *stream_find(struct btl *btl, uint64_t id)
{
    return hash_get(&btl->stream_of, id);
}
