/* SPDX-License-Identifier: BSD-3-Clause */
/* stream_pair.c: see stream_pair.h. */
#include "stream_pair.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct backend backend;

static void stream_pair_await(struct btl_connection *connection)
{
    int64_t deadline = patience();
    struct error err = {""};
    int rc;

    while ((rc = backend.ops->connection_state(connection, &err)) == -EAGAIN) {
        REQUIRE(!deadline_passed(deadline), "%s", err.text);
        usleep(100);
    }
    REQUIRE(rc == 0, "%s", err.text);
}

void pair_alloc(struct pair *p)
{
    const struct btl_ops *ops = backend.ops;
    struct error err = {""};

    REQUIRE(ops->alloc(backend.btl, 0, PAIR_BYTES, BTL_LOCAL, false, &p->near, &err) == 0, "%s",
            err.text);
    REQUIRE(ops->alloc(backend.btl, 0, PAIR_BYTES, BTL_PEER_WRITES, false, &p->far, &err) == 0,
            "%s", err.text);
    if (ops->connection_key != NULL) /* of verbs: the connection exists already */
        REQUIRE(ops->connection_key(p->accepts, &p->far, &p->far.key, &err) == 0, "%s", err.text);
    REQUIRE(ops->attach(backend.btl, 0, &p->far.key, PAIR_BYTES, BTL_PEER_WRITES, &p->remote,
                        &err) == 0,
            "%s", err.text);
}

void pair_connect(struct pair *p, struct btl_stream *stream, struct btl_stream *other)
{
    const struct btl_ops *ops = backend.ops;
    struct btl_address from, to;
    struct error err = {""};

    REQUIRE(ops->connection_open(backend.btl, 0, BTL_CONNECTS, 0, &p->dials, &from, &err) == 0,
            "%s", err.text);
    REQUIRE(ops->connection_open(backend.btl, 0, BTL_ACCEPTS, 0, &p->accepts, &to, &err) == 0, "%s",
            err.text);
    if (stream != NULL)
        ops->connection_join(p->dials, stream, &from);
    if (other != NULL)
        ops->connection_join(p->accepts, other, &to);
    REQUIRE(ops->connection_connect(p->dials, &to, &err) == 0, "%s", err.text);
    REQUIRE(ops->connection_connect(p->accepts, &from, &err) == 0, "%s", err.text);
    stream_pair_await(p->dials);
    stream_pair_await(p->accepts);
}

void pair_open(struct pair *p, struct btl_stream *stream)
{
    pair_connect(p, stream, NULL);
    pair_alloc(p);
}

void pair_close(struct pair *p)
{
    backend.ops->connection_close(p->dials);
    backend.ops->connection_close(p->accepts);
    backend.ops->detach(backend.btl, &p->remote);
    backend.ops->free(backend.btl, &p->near);
    backend.ops->free(backend.btl, &p->far);
}

/* The other end may have to be driven. */
static void stream_pair_drive(struct pair *p, int64_t deadline, const char *what)
{
    REQUIRE(!deadline_passed(deadline), "%s", what);
    REQUIRE(backend.ops->progress(p->dials) == 0, "progress");
    REQUIRE(backend.ops->progress(p->accepts) == 0, "progress");
}

void pair_write(struct pair *p, uint64_t bytes)
{
    struct btl_transfer t = {&p->remote, 0, &p->near, 0, bytes};
    int64_t deadline = patience();
    int rc;

    while ((rc = backend.ops->write(p->dials, &t, NULL)) == -EAGAIN)
        stream_pair_drive(p, deadline, "write");
    REQUIRE(rc == 0, "write: %d", rc);
}

void pair_works(struct pair *p, uint64_t key)
{
    struct btl_transfer t = {&p->remote, 0, &p->near, 0, PAIR_BYTES};
    struct btl_done done = {0};
    int64_t deadline = patience();
    int rc;

    pattern_fill(p->near.base, PAIR_BYTES, key);
    pair_write(p, PAIR_BYTES);
    while ((rc = backend.ops->flush(p->dials)) == -EAGAIN)
        stream_pair_drive(p, deadline, "flush");
    REQUIRE(rc == 0 && pattern_same(p->far.base, PAIR_BYTES, key), "flush: %d", rc);
    pattern_fill(p->far.base, PAIR_BYTES, ~key);
    while ((rc = backend.ops->get(p->dials, &t, &done)) == -EAGAIN)
        stream_pair_drive(p, deadline, "get");
    REQUIRE(rc == 0, "get: %d", rc);
    /* acquire: pairs with the release of btl_done */
    while (atomic_load_explicit(&done.pending, memory_order_acquire) != 0)
        stream_pair_drive(p, deadline, "get");
    REQUIRE(atomic_load(&done.error) == 0 && pattern_same(p->near.base, PAIR_BYTES, ~key), "get");
}

struct btl_stream *stream_begin(enum btl_share wanted, enum btl_share expected, const char *words)
{
    struct btl_stream *stream;
    struct error why = {""};
    enum btl_share got;

    REQUIRE(backend.ops->stream_open(backend.btl, wanted, &stream, &got, &why) == 0, "%s",
            why.text);
    REQUIRE(got == expected && strstr(why.text, words) != NULL, "%d instead of %d: %s", (int)got,
            (int)expected, why.text);
    return stream;
}

/* ---- a thread ---- */

static void *stream_pair_work(void *of)
{
    struct pair_worker *w = of;

    for (; !atomic_load(&w->stop); w->rounds++)
        pair_works(w->p, w->rounds);
    return NULL;
}

void pair_worker_begin(struct pair_worker *w)
{
    REQUIRE(pthread_create(&w->thread, NULL, stream_pair_work, w) == 0, "pthread_create");
}

void pair_worker_end(struct pair_worker *w)
{
    atomic_store(&w->stop, true);
    (void)pthread_join(w->thread, NULL);
}
