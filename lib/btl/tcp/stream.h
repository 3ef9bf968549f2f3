/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.h: what the connections of one thread share, and share with no other thread (doc/threads.md, doc/tcp.md).
 *
 * The connections of a stream have, in the place of a lock each, that of the stream, which its thread enters without a locked instruction
 * (util/biased.h); a set of sockets, which their thread asks alone; and a list of those with writes that stay in their queues.
 * The set is itself in the set of the backend, so that the service thread finds out when no thread drives the stream.
 *
 * Invariants
 * 1. A connection is in a stream from connection_join on until it is closed; it has no socket before. "Inside the connection" is inside its stream.
 * 2. The set of the stream has sockets of connections that are not closed: they enter and leave it inside. So what epoll reports inside is valid.
 * 3. Memory that a peer may access is accessed inside; it is unmapped after streams_quiesce() has been inside every stream once.
 * 4. A stream exists until it is closed and the last of its connections is.
 */
#ifndef BTL_TCP_STREAM_H
#define BTL_TCP_STREAM_H

#include "btl/tcp/tcp.h"

#include "util/clock.h"

#define STREAM_QUIET_NS NS_PER_MS /* without a call of its thread: then others drive it */
/* The same for a thread that waits: later than the service thread, whose locks cost no message anything; its own streams, but the one that it waits on, at once. */
#define STREAM_LATE_NS (4 * NS_PER_MS)
#define STREAM_OWN_NS 25000

int tcp_stream_open(struct btl *btl, enum btl_share wanted, struct btl_stream **out,
                    enum btl_share *got, struct error *why);
void tcp_stream_close(struct btl_stream *s);
void tcp_connection_join(struct btl_connection *c, struct btl_stream *s,
                         struct btl_address *address);
/* Outside, btl.lock not held: a connection of it has been closed. */
void stream_put(struct btl_stream *s);

/* Of the backend. */
int streams_open(struct btl *btl); /* 0 or -errno */
void streams_close(struct btl *btl);
/* Waits until every thread that was inside a stream has left it. No lock of a connection held. */
void streams_quiesce(struct btl *btl);

/* btl.lock held. The stream with this number; NULL: there is none. */
struct btl_stream *stream_find(struct btl *btl, uint64_t id);
static inline bool stream_is_driven(const struct btl_stream *s, int64_t now)
{
    /* relaxed: a hint */
    return now - atomic_load_explicit(&s->hint->driven_at, memory_order_relaxed) < STREAM_QUIET_NS;
}

/* Whether this thread was the last one of the user that has driven it. */
static inline bool stream_is_own(const struct stream_hint *h)
{
    return atomic_load_explicit(&h->thread, memory_order_relaxed) == biased_self();
}

/* Whether a thread that waits drives it. */
static inline bool stream_is_late(const struct stream_hint *h, int64_t now)
{
    const int64_t idle = now - atomic_load_explicit(&h->driven_at, memory_order_relaxed);

    return idle >= STREAM_LATE_NS || (idle >= STREAM_OWN_NS && stream_is_own(h));
}

/* That of the stream with this number; NULL: there is none. */
static inline struct stream_hint *stream_hint_find(struct btl *btl, uint64_t id)
{
    /* acquire: `next`; pairs with the release of stream_take_hint */
    struct stream_hint *h = atomic_load_explicit(&btl->hints, memory_order_acquire);

    while (h != NULL && atomic_load_explicit(&h->id, memory_order_relaxed) != id)
        h = h->next;
    return h;
}

/* ---- the lock of a connection: its own, or that of its stream ---- */

/* The set that reports its socket, and as what. */
static inline int tcp_epoll_of(const struct btl_connection *c)
{
    return c->stream != NULL ? c->stream->epoll : c->btl->epoll;
}

static inline uint64_t tcp_event_of(const struct btl_connection *c)
{
    return c->stream != NULL ? (uint64_t)(uintptr_t)c : c->id;
}

/* Returns what tcp_leave needs. */
static inline bool tcp_enter(struct btl_connection *c, enum biased_claim claim)
{
    if (c->stream != NULL)
        return biased_enter(&c->stream->lock, claim);
    pthread_mutex_lock(&c->lock);
    return false;
}

static inline bool tcp_try_enter(struct btl_connection *c, bool *as_owner)
{
    if (c->stream != NULL)
        return biased_try(&c->stream->lock, as_owner);
    *as_owner = false;
    return pthread_mutex_trylock(&c->lock) == 0;
}

static inline void tcp_leave(struct btl_connection *c, bool as_owner)
{
    if (c->stream != NULL)
        biased_leave(&c->stream->lock, as_owner);
    else
        pthread_mutex_unlock(&c->lock);
}

/* A thread of the user, which may own a stream; not the service thread. */
static inline bool tcp_may_own(const struct btl *btl)
{
    return atomic_load_explicit(&btl->service_thread, memory_order_relaxed) != biased_self();
}

#endif
