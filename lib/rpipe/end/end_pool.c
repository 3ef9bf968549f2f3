/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * end_pool.c: type-stable memory of channel ends.
 *
 * Ends come from chunks that are never given back, so that a handle used after rclose, or after rexit, is recognized. Closed
 * ends are a queue, and an end is taken from it only while KEPT others stay: until then a use after rclose is recognized, and
 * rerror has the message. Locked by itself: rpipe() may be called by many threads. The memory is shown to rmalloc_stat(1),
 * where that can be had (publish.h).
 */
#include "rpipe/end/end_pool.h"

#include "rpipe/end/error.h"
#include "rpipe/end/rch.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_FIRST 8
#define CHUNK_MOST 1024
#define KEPT 64 /* of rerror(3) */

struct chunk {
    struct chunk *next;
    size_t ends, bytes;
    struct rch *end;
};

static pthread_mutex_t end_pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct chunk *end_pool_chunks;
static struct rch *end_pool_fresh; /* the program has no handle of these */
static struct rch *end_pool_oldest_closed, *end_pool_newest_closed;
static size_t end_pool_closed; /* length of the queue */

static void end_pool_push_fresh(struct rch *ch)
{
    ch->next_free = end_pool_fresh;
    end_pool_fresh = ch;
}

static void end_pool_append_closed(struct rch *ch)
{
    ch->next_free = NULL;
    if (end_pool_newest_closed != NULL)
        end_pool_newest_closed->next_free = ch;
    else
        end_pool_oldest_closed = ch;
    end_pool_newest_closed = ch;
    end_pool_closed++;
}

static void end_pool_grow(void)
{
    size_t i, ends = end_pool_chunks == NULL ? CHUNK_FIRST : end_pool_chunks->ends * 2;
    struct chunk *c = malloc(sizeof(*c));

    if (ends > CHUNK_MOST)
        ends = CHUNK_MOST;
    if (c == NULL)
        return;
    c->bytes = publish_round(ends * sizeof(struct rch));
    c->end = publish_map(NULL, c->bytes, ends);
    if (c->end == NULL) {
        free(c);
        return;
    }
    c->ends = ends;
    c->next = end_pool_chunks;
    end_pool_chunks = c;
    for (i = ends; i-- > 0;) {
        atomic_init(&c->end[i].state, STATE_CLOSED);
        end_pool_push_fresh(&c->end[i]);
    }
}

static struct rch *end_pool_pop_fresh(void)
{
    struct rch *ch = end_pool_fresh;

    if (ch != NULL)
        end_pool_fresh = ch->next_free;
    return ch;
}

static struct rch *end_pool_pop_closed(void)
{
    struct rch *ch = end_pool_oldest_closed;

    if (ch == NULL)
        return NULL;
    end_pool_oldest_closed = ch->next_free;
    if (end_pool_oldest_closed == NULL)
        end_pool_newest_closed = NULL;
    end_pool_closed--;
    return ch;
}

struct rch *end_pool_take(void)
{
    struct rch *ch;

    pthread_mutex_lock(&end_pool_lock);
    if (end_pool_fresh == NULL && end_pool_closed <= KEPT)
        end_pool_grow();
    ch = end_pool_pop_fresh();
    if (ch == NULL)
        ch = end_pool_pop_closed(); /* also without memory for more */
    pthread_mutex_unlock(&end_pool_lock);
    if (ch == NULL)
        return NULL;
    error_drop(ch); /* was kept for rerror after rclose */
    memset(ch, 0, sizeof(*ch));
    atomic_init(&ch->state, STATE_CLOSED);
    list_init(&ch->end.link);
    list_init(&ch->in_stream);
    return ch;
}

static void end_pool_return(struct rch *ch, void (*add)(struct rch *ch))
{
    atomic_store_explicit(&ch->published_end.state, PUBLISHED_FREE, memory_order_relaxed);
    pthread_mutex_lock(&end_pool_lock);
    add(ch);
    pthread_mutex_unlock(&end_pool_lock);
}

void end_pool_put(struct rch *ch) { end_pool_return(ch, end_pool_append_closed); }
void end_pool_put_unopened(struct rch *ch) { end_pool_return(ch, end_pool_push_fresh); }

/* *cursor counts ends over all chunks; only where no other thread opens channels (rexit, fork) */
struct rch *end_pool_next(size_t *cursor)
{
    size_t before = 0;
    struct chunk *c;

    for (c = end_pool_chunks; c != NULL; c = c->next) {
        if (*cursor - before < c->ends)
            return &c->end[(*cursor)++ - before];
        before += c->ends;
    }
    return NULL;
}

void end_pool_publish(void)
{
    struct chunk *c;

    pthread_mutex_lock(&end_pool_lock);
    for (c = end_pool_chunks; c != NULL; c = c->next)
        (void)publish_map(c->end, c->bytes, c->ends);
    pthread_mutex_unlock(&end_pool_lock);
}

void end_pool_forked(void)
{
    struct chunk *c;

    for (c = end_pool_chunks; c != NULL; c = c->next)
        publish_make_private(c->end, c->bytes);
}
