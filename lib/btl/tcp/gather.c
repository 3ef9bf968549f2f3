/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gather.c: see gather.h.
 *
 * Invariants: a connection whose queue has something that no socket is waited for holds it for its user (btl_ops.hold), or is in
 * btl.gathered, and `c->gathered` is set; both change under btl.gather_lock and the lock of the
 * connection, so that a thread that has either finds the same. While btl.gathered is not empty the
 * timer runs (btl.gather_timer). A connection in a stream is in the list of the stream instead (stream.c).
 */
#include "btl/tcp/gather.h"

#include "btl/tcp/queue.h"
#include "btl/tcp/stream_gather.h"

#include "util/clock.h"

/* Two writes follow each other closely if less time is between them. */
#define CLOSE_NS 3000
/* So many of them are a stream. */
#define STREAM 4u
/* One of so many goes on after a pause for credits: one write is sent at once, not STREAM of them. */
#define LONG_STREAM 16u
#define PAUSE_NS 50000

static void gather_fire(void *arg)
{
    struct btl *btl = arg;

    gather_send_all(btl);
    pthread_mutex_lock(&btl->gather_lock);
    /* one turn more than is needed, so that a stream starts it once */
    btl->gather_timer = btl->gather_again && btl->host.watch(-1, GATHER_US, gather_fire, btl) == 0;
    btl->gather_again = !list_empty(&btl->gathered);
    pthread_mutex_unlock(&btl->gather_lock);
}

/* False: the service thread cannot be asked to. */
static bool gather_add(struct btl_connection *c)
{
    struct btl *btl = c->btl;

    if (c->stream != NULL)
        stream_gather(c);
    if (c->gathered)
        return true;
    pthread_mutex_lock(&btl->gather_lock);
    if (!btl->gather_timer)
        btl->gather_timer = btl->host.watch(-1, GATHER_US, gather_fire, btl) == 0;
    btl->gather_again = true;
    if (btl->gather_timer) {
        c->gathered = true;
        list_append(&btl->gathered, &c->waiting);
        atomic_fetch_add_explicit(&btl->gathered_count, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&btl->gather_lock);
    return c->gathered;
}

/* The writes that have followed each other before this one. */
static uint32_t gather_burst(const struct btl_connection *c, int64_t now)
{
    const int64_t gap = now - c->written_at;

    if (gap < CLOSE_NS)
        return c->burst + 1;
    return gap < PAUSE_NS && c->burst >= LONG_STREAM ? STREAM - 1 : 0;
}

bool gather_write(struct btl_connection *c)
{
    const struct tcp_queue *q = &c->queue;
    const int64_t now = clock_now();

    c->burst = gather_burst(c, now);
    c->written_at = now;
    return c->burst >= STREAM && q->first_extent == q->end_extent &&
           q->end - q->first < GATHER_BYTES && gather_add(c);
}

void gather_sent(struct btl_connection *c)
{
    c->written_at = clock_now();
    c->written = c->burst < STREAM; /* in a stream the socket is read now and then */
}

void gather_forget(struct btl_connection *c)
{
    struct btl *btl = c->btl;

    if (c->stream != NULL)
        stream_gather_forget(c);
    if (!c->gathered)
        return;
    pthread_mutex_lock(&btl->gather_lock);
    c->gathered = false;
    list_remove(&c->waiting);
    atomic_fetch_sub_explicit(&btl->gathered_count, 1, memory_order_relaxed);
    pthread_mutex_unlock(&btl->gather_lock);
}

/* The number of the connection that is first in the list, which becomes the last; 0: none. */
static uint64_t gather_next(struct btl *btl)
{
    uint64_t id = 0;

    pthread_mutex_lock(&btl->gather_lock);
    if (!list_empty(&btl->gathered)) {
        struct link *first = btl->gathered.next;

        id = container_of(first, struct btl_connection, waiting)->id;
        list_remove(first);
        list_append(&btl->gathered, first);
    }
    pthread_mutex_unlock(&btl->gather_lock);
    return id;
}

void gather_send_all(struct btl *btl)
{
    uint32_t n = atomic_load_explicit(&btl->gathered_count, memory_order_relaxed);

    for (; n > 0; n--) {
        const uint64_t id = gather_next(btl);
        struct btl_connection *c;

        if (id == 0)
            return;
        pthread_mutex_lock(&btl->lock);
        c = hash_get(&btl->connections, id);
        if (c != NULL && pthread_mutex_trylock(&c->lock) != 0)
            c = NULL; /* a thread is in it: it stays in the list */
        pthread_mutex_unlock(&btl->lock);
        if (c == NULL)
            continue;
        gather_forget(c);
        if (c->fd >= 0 && !c->queue.blocked)
            queue_send(c);
        pthread_mutex_unlock(&c->lock);
    }
}

void gather_init(struct btl *btl)
{
    pthread_mutex_init(&btl->gather_lock, NULL);
    list_init(&btl->gathered);
}

void gather_stop(struct btl *btl)
{
    btl->host.unwatch(gather_fire, btl);
    pthread_mutex_lock(&btl->gather_lock);
    btl->gather_timer = false;
    pthread_mutex_unlock(&btl->gather_lock);
}

void gather_forked(struct btl *btl) { pthread_mutex_init(&btl->gather_lock, NULL); }
