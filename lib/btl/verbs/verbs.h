/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.h: the structures of the verbs backend: the device of this process, and a connection.
 *
 *   backend.c      the table of struct btl_ops: opening, closing, fork
 *   connection.c   opening, addresses and closing of connections
 *   connect.c      connects the queue pairs of two processes (librdmacm, on the service thread)
 *   greet.c        the first messages of a connection
 *   transfer.c     the transfers of struct btl_ops
 *   post.c         the data path
 *   stream.c       what the connections of one thread share
 *   held.c         writes that are posted together
 *   memory.c       registration of memory
 *   context.c      contexts of the device: that of the process, and those of streams
 *   multicast.c    datagrams to groups, for casts (btl/medium.h): objects of its own
 *   device.c       finds the device and its limits
 *   state.c        the state of a connection, and its queue pair
 *
 * The device, its protection domain and its registrations belong to the process; a completion queue
 * and a queue pair belong to one connection. A stream may have a context of its own (context.h), in
 * which memory is registered again.
 *
 * Locks: `btl.lock` guards everything about connecting. It is held around every call of librdmacm,
 * so that no event is being handled by that library while its identifier is destroyed. The data
 * path takes no lock: it reads btl_connection.state.
 */
#ifndef BTL_VERBS_VERBS_H
#define BTL_VERBS_VERBS_H

#include "btl/btl.h"
#include "btl/slab.h"

#include "util/cpu.h"
#include "util/hash.h"
#include "util/error.h"
#include "util/list.h"

#include <assert.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

#define DEPTH_MOST 4096u /* outstanding work requests of a connection */
#define SIGNAL_EVERY 64u /* work requests per completion */

/* An address of IPv4 or IPv6. */
union verbs_sockaddr {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

/* Limits and features of the device. */
struct verbs_limits {
    uint32_t send_depth;   /* work requests of a queue pair, and entries of its completion queue */
    uint32_t cq_most;      /* entries of a completion queue */
    uint32_t inline_most;  /* bytes */
    uint32_t message_most; /* bytes */
    uint8_t reads_out, reads_in; /* outstanding READs and atomics: initiated, served */
    uint32_t atomics;            /* bit mask of 1 << enum btl_atomic */
    bool iwarp;
    bool siw; /* soft-iWARP */
};

/*
 * A context of the device, with a protection domain. Memory and queue pairs are of one domain: a transfer needs local memory that is registered
 * in that of its queue pair, and a key of the peer's memory in that of the peer's queue pair.
 */
struct device_context {
    struct btl *btl;
    uint32_t index; /* 0: of the process; in keys of memory, and in the tokens of connections */
    struct ibv_context *ibv;
    struct ibv_pd *pd;
    struct ibv_mr *scratch_mr;        /* of btl.scratch */
    struct ibv_comp_channel *greeted; /* of greetings */
    struct ibv_cq *greetings;         /* of the receive queues of its connections; one entry each */
    uint32_t entries, connections;    /* of `greetings`; that have an entry. btl.copies */
    struct link copies;               /* registrations (memory.c) in it; of a stream's only */
};

#define VERBS_CONTEXTS 64u /* at most, with that of the process */

struct btl {
    struct btl_host host;
    char device[64]; /* "rxe0" */
    uint8_t port;
    struct verbs_limits limits;
    bool forked; /* in a child: the device is not used any more */

    struct device_context process; /* ibv is librdmacm's; destroyed with the listener */
    struct slab_pool *slabs;
    void *scratch; /* target of flushes and of old values that are not requested; never read */

    pthread_mutex_t copies; /* a leaf; guards what follows, and copies of memory */
    struct device_context *context[VERBS_CONTEXTS]; /* by index; NULL: none. Of streams only */

    struct rdma_event_channel *channel;
    void (*greeted)(void *context); /* the service thread calls it for a context (greet.h) */
    struct rdma_cm_id *listener;
    union verbs_sockaddr here; /* address of the listener */

    pthread_mutex_t lock;
    struct hash connections;          /* token → struct btl_connection */
    _Atomic uintptr_t service_thread; /* known before any connection is up */
};

/*
 * State of a connection for the data path, which loads it (acquire); pairs with the releases of
 * state.c.
 */
enum verbs_state { CONNECTION_DOWN, CONNECTION_UP, CONNECTION_FAILING, CONNECTION_FAILED };

enum verbs_stage { IDLE, RESOLVING, ROUTING, CONNECTING, GREETING, CONNECTED, PAUSING };

struct btl_connection {
    /* ---- data path: one thread at a time ---- */
    _Alignas(CACHE_LINE) _Atomic int state; /* so no two of them share a line */
    struct ibv_qp *qp;
    struct ibv_cq *cq;              /* its own, or that of its stream */
    struct btl_stream *stream;      /* stream.h; NULL: none */
    struct device_context *context; /* of its queue pair */
    uint64_t tag;      /* upper bits of the number of a work request: whose it is (verbs_wr_id) */
    uint64_t looked;   /* polls of the stream at the last progress of this connection */
    _Atomic bool used; /* in a stream: a transfer was made (transfer.c) */
    uint32_t index; /* in the table of the stream; STREAM_LINES: its completion queue is its own */
    uint64_t posted,
        completed;           /* numbers of work requests, from 0; those between are outstanding */
    uint32_t depth, mask;    /* entries of the send queue; of `done`, minus 1 */
    uint32_t unsignaled;     /* posted since the last signal */
    struct btl_done **done;  /* by work request: what its completion completes, or NULL */
    uint64_t written;        /* work requests that a flush has to cover */
    uint64_t placed;         /* work requests that a flush has covered */
    uint32_t awaited;        /* entries of done[] that are not complete */
    struct btl_done flushed; /* the READ of the outstanding flush */
    uint64_t flushing;       /* value of `written` that the outstanding flush covers */
    uint64_t flush_end;      /* its own number + 1; 0: no flush is outstanding */
    uint64_t last_address;   /* target of the last write or atomic, which a flush reads */
    uint32_t last_key;
    struct verbs_held *held; /* writes that are posted together (held.h); NULL: none ever was */
    struct btl_counts counts;

    /* ---- connecting: under btl.lock ---- */
    struct btl *btl;
    struct ibv_pd *pd; /* of its queue pair */
    enum btl_role role;
    enum verbs_stage stage;
    uint64_t token;      /* identifies this end; its lowest byte is the index of its context */
    uint64_t peer_token; /* identifies the other end; 0 until its address is received */
    struct rdma_cm_id *id;
    union verbs_sockaddr there;
    int64_t deadline;
    int64_t
        retry_at;  /* PAUSING: the next attempt; GREETING, at the connecting end: the next nudge */
    int64_t pause; /* before the next attempt */
    int nudges;
    int peer;
    bool greets;        /* it has an entry in the greetings of its context (context.h) */
    char obstacle[160]; /* why the last attempt failed */

    char failure[256]; /* written before CONNECTION_FAILED (release) */
    int error;
};

/*
 * A work request carries its number and, in the upper bits, the tag of its connection: in the completion queue of a stream that finds
 * the connection. Fewer than 2^39 are outstanding, so that the lower bits are enough for the number.
 */
#define WR_NUMBER_BITS 40
#define WR_TAG(id) ((id) >> WR_NUMBER_BITS)

static inline uint64_t verbs_wr_id(const struct btl_connection *connection, uint64_t number)
{
    return connection->tag << WR_NUMBER_BITS | (number & ((UINT64_C(1) << WR_NUMBER_BITS) - 1));
}

/* The number of which the lower bits are in `id`: the nearest to those that are complete. */
static inline uint64_t verbs_wr_number(const struct btl_connection *connection, uint64_t id)
{
    uint64_t behind = (id - connection->completed) << (64 - WR_NUMBER_BITS);

    return connection->completed + (uint64_t)((int64_t)behind >> (64 - WR_NUMBER_BITS));
}

/* Words of struct btl_key. */
enum { KEY_ADDRESS, KEY_RKEY, KEY_BYTES, KEY_CONTEXT };

/* The index of the context of an end. */
static inline uint32_t verbs_token_context(uint64_t token) { return (uint32_t)(token & 0xff); }
static_assert(VERBS_CONTEXTS <= 0x100, "an index is a byte of a token");

/* In the child of a fork: -ENOTCONN and an error message. */
static inline int verbs_check_fork(const struct btl *btl, struct error *err)
{
    if (!btl->forked)
        return 0;
    return error_set(err, -ENOTCONN, "the RDMA device belongs to the parent of this process");
}

#endif
