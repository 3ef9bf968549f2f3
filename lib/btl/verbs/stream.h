/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.h: what the connections of one thread share, and share with no other thread (doc/threads.md).
 *
 * One completion queue, polled for all of them at once, and the thread domain of their queue pairs, where the device has such domains. All of that may be
 * in a context of its own (context.h).
 *
 * Invariants
 * 1. One thread at a time is inside a stream (util/biased.h): it alone polls the completion queue, and accesses the data path of the
 *    connections in it. That is the stream's thread, or one that drives, opens or closes one of them.
 * 2. line[i] is an open connection with index i, or NULL. The tag in a work request has the index and a generation, which changes with
 *    every queue pair: a completion of a queue pair that exists no more has another tag, and is ignored.
 * 3. The completion queue has an entry for every work request of every queue pair that uses it.
 * 4. A stream exists until it is closed and the last of its connections is.
 */
#ifndef BTL_VERBS_STREAM_H
#define BTL_VERBS_STREAM_H

#include "btl/verbs/verbs.h"

#include "util/biased.h"

#define STREAM_LINES 1024u

struct btl_stream {
    struct biased lock;
    struct ibv_cq *cq; /* NULL: none could be created; every connection has its own */
    uint64_t polls;    /* of `cq` */
    struct btl_connection *line[STREAM_LINES];

    /* ---- opening and closing: inside, too ---- */
    struct btl *btl;
    enum btl_share got;
    struct device_context *context; /* its own, or that of the process */
    struct ibv_td *td[2];           /* NULL: none */
    struct ibv_pd *domain[2];       /* parent domains: that of the context with a thread domain */
    struct ibv_qp *unused;          /* 2XDYNAMIC: in the second one */
    uint32_t entries, reserved; /* of `cq`: that it has; for the work requests of its connections */
    uint32_t connections;       /* open ones, and 1 until the stream is closed */
    uint64_t generation;
};

int verbs_stream_open(struct btl *btl, enum btl_share wanted, struct btl_stream **out,
                      enum btl_share *got, struct error *why);
void verbs_stream_close(struct btl_stream *stream);
/* A connection that has just been opened; its context may be that of the stream then. */
void verbs_stream_join(struct btl_connection *connection, struct btl_stream *stream);
/* verbs_state_drop, while no other thread is inside the stream of the connection, if it has one. btl.lock held. */
void verbs_connect_drop(struct btl_connection *connection);
/* The connection gets a new queue pair: completions of the last one do not count. Inside. */
void verbs_stream_renew(struct btl_connection *connection);
/* The connection has no queue pair any more. Inside; returns what verbs_stream_put needs. */
struct btl_stream *verbs_stream_part(struct btl_connection *connection);
/* What the connection does not have of its stream, for its description: "" or "; static, since ...". btl.lock held. */
const char *verbs_stream_lack(const struct btl_connection *connection);
/* Outside: the stream is released with its last connection. */
void verbs_stream_put(struct btl_stream *stream);

/* The connection that a completion belongs to; NULL: it is closed, is not up, or has another queue pair now. Inside. */
static inline struct btl_connection *verbs_stream_find(const struct btl_stream *stream,
                                                       const struct ibv_wc *wc)
{
    uint64_t tag = WR_TAG(wc->wr_id);
    struct btl_connection *of = stream->line[tag % STREAM_LINES];

    /* acquire: its queue pair and numbers, written before UP by the service thread */
    return of != NULL && of->tag == tag &&
                   atomic_load_explicit(&of->state, memory_order_acquire) != CONNECTION_DOWN
               ? of
               : NULL;
}

static inline bool verbs_stream_has_queue(const struct btl_connection *connection)
{
    return connection->stream != NULL && connection->index < STREAM_LINES;
}

#endif
