/* SPDX-License-Identifier: BSD-3-Clause */
/* stream_gather.c: see stream_gather.h. */
#include "btl/tcp/stream_gather.h"

#include "btl/tcp/queue.h"
#include "btl/tcp/stream.h"

#include "util/cpu.h"
#include "util/membarrier.h"

#include <sys/eventfd.h>

/* ---- inside the stream ---- */

void stream_gather(struct btl_connection *c)
{
    struct btl_stream *s = c->stream;
    struct btl *btl = c->btl;
    const uint32_t n = atomic_load_explicit(&s->hint->gathered, memory_order_relaxed);

    if (c->gathered)
        return;
    c->gathered = true;
    list_append(&s->gathered, &c->waiting);
    atomic_store_explicit(&s->hint->gathered, n + 1, memory_order_relaxed);
    if (UNLIKELY(s->lock.fences))
        atomic_thread_fence(memory_order_seq_cst); /* pairs with that of streams_may_sleep */
    else
        atomic_signal_fence(memory_order_seq_cst); /* pairs with the membarrier there */
    if (UNLIKELY(atomic_load_explicit(&btl->sleeps, memory_order_relaxed)))
        (void)!eventfd_write(btl->alarm, 1);
}

void stream_gather_forget(struct btl_connection *c)
{
    struct btl_stream *s = c->stream;
    const uint32_t n = atomic_load_explicit(&s->hint->gathered, memory_order_relaxed);

    if (!c->gathered)
        return;
    c->gathered = false;
    list_remove(&c->waiting);
    atomic_store_explicit(&s->hint->gathered, n - 1, memory_order_relaxed);
}

void stream_gather_send(struct btl_stream *s)
{
    while (!list_empty(&s->gathered)) {
        struct btl_connection *c = container_of(s->gathered.next, struct btl_connection, waiting);

        stream_gather_forget(c);
        if (c->fd >= 0 && !c->queue.blocked)
            queue_send(c);
    }
}

/* ---- the service thread, and threads that wait ---- */

/* btl.lock held. Whether its thread, which is another one, drives it, or something stays in a queue of it. */
static bool stream_tend(struct btl_stream *s, int64_t now)
{
    bool as_owner;

    if (stream_is_driven(s, now) && !stream_is_own(s->hint))
        return true;
    /* relaxed: what is added at this moment is found a millisecond later, or by streams_may_sleep */
    if (atomic_load_explicit(&s->hint->gathered, memory_order_relaxed) == 0)
        return false;
    if (!biased_try(&s->lock, &as_owner))
        return true;
    stream_gather_send(s);
    biased_leave(&s->lock, as_owner);
    return false;
}

/* btl.lock held. */
static bool streams_tend_all(struct btl *btl, int64_t now)
{
    struct link *at, *after;
    bool again = false;

    list_for_each (at, after, &btl->streams)
        again = stream_tend(container_of(at, struct btl_stream, link), now) || again;
    return again;
}

bool streams_tend(struct btl *btl, int64_t now)
{
    bool again;

    pthread_mutex_lock(&btl->lock);
    again = streams_tend_all(btl, now);
    pthread_mutex_unlock(&btl->lock);
    return again;
}

void streams_tend_late(struct btl *btl, int64_t now)
{
    /* acquire: pairs with the release of stream_take_hint */
    const struct stream_hint *h = atomic_load_explicit(&btl->hints, memory_order_acquire);

    while (h != NULL && (atomic_load_explicit(&h->gathered, memory_order_relaxed) == 0 ||
                         !stream_is_late(h, now)))
        h = h->next;
    if (h == NULL || pthread_mutex_trylock(&btl->lock) != 0)
        return;
    (void)streams_tend_all(btl, now);
    pthread_mutex_unlock(&btl->lock);
}

bool streams_may_sleep(struct btl *btl)
{
    struct link *at, *after;
    bool may = true;

    atomic_store_explicit(&btl->sleeps, true, memory_order_relaxed);
    pthread_mutex_lock(&btl->lock);
    if (!list_empty(&btl->streams) && !membarrier_all())
        atomic_thread_fence(memory_order_seq_cst); /* pairs with that of stream_gather */
    list_for_each (at, after, &btl->streams)
        may =
            may && atomic_load_explicit(&container_of(at, struct btl_stream, link)->hint->gathered,
                                        memory_order_relaxed) == 0;
    pthread_mutex_unlock(&btl->lock);
    if (!may)
        atomic_store_explicit(&btl->sleeps, false, memory_order_relaxed);
    return may;
}

void streams_awake(struct btl *btl)
{
    eventfd_t n;

    if (!atomic_load_explicit(&btl->sleeps, memory_order_relaxed))
        return;
    atomic_store_explicit(&btl->sleeps, false, memory_order_relaxed);
    (void)!eventfd_read(btl->alarm, &n);
}
