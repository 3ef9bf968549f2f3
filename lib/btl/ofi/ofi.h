/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi.h: the structures of the libfabric backend.
 *
 *   backend.c     the table of struct btl_ops: opening, closing, fork, memory of peers
 *   fabric.c      finds a provider, opens an endpoint, reads its attributes
 *   memory.c      registration, in every mode that a provider may require
 *   operation.c   the pool of operations, and the failure of a connection
 *   post.c        posts the steps of an operation and handles their completions
 *   ordered.c     writes to providers that keep them in order
 *   transfer.c    write, get, atomic, flush
 *   deferred.c    what outlives a connection: operations, and memory that they may still access
 *   progress.c    reads the completion queue, on threads of the user and on the service thread
 *   stream.c      what the connections of one thread share: an endpoint of their own
 *   connection.c  connections
 *
 * One thread at a time is inside an endpoint: with the lock of the backend inside that of the process, or inside
 * a stream (stream.h). All else of the endpoint, its connections, and registration in its domain happen inside,
 * because domains are opened for callers that are serialized (FI_THREAD_DOMAIN). Nothing waits inside. Lock
 * order: that of the slab pool, btl.lock, a stream, that of the service thread's watches; never two streams.
 * Functions of the files from operation.c to deferred.c run inside, unless noted.
 *
 * There are two ways to write. The provider's attributes decide, never its name:
 *   ORDERED writes are placed in the order in which they are posted (FI_ORDER_RMA_WAW), and a read
 *           behind them returns what they have placed (FI_ORDER_RMA_RAW): payload and slot are
 *           posted without completions, and a flush is such a read.
 *   STEP    otherwise: the payload, with a completion after delivery (FI_DELIVERY_COMPLETE), then
 *           the slot, likewise.
 * An ORDERED payload longer than what is ordered (max_order_waw_size) is written in steps.
 *
 * ORDERED, joined: payload and slot are one operation with two ranges, where the bytes within an operation
 * are placed in order (fabric_joins). Order between operations (FI_ORDER_RMA_WAW) does not include that.
 * A payload in memory of a device is not joined: providers take the kind of memory from the first range.
 */
#ifndef BTL_OFI_OFI_H
#define BTL_OFI_OFI_H

#include "btl/btl.h"
#include "btl/slab.h"

#include "util/biased.h"
#include "util/cpu.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/list.h"

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define OFI_SLOT 64u

/* Words of struct btl_key. */
enum { KEY_KEY, KEY_ADDRESS, KEY_BYTES, KEY_ACCESS };

/* The rest of a range to be moved: what has not been posted yet. */
struct ofi_part {
    uint64_t remote, key;
    char *local;
    void *desc;
    size_t bytes;
    bool
        device; /* `local` is memory of a device, which `desc` identifies: no processor may touch it */
};

enum ofi_kind { OFI_WRITE, OFI_GET, OFI_ATOMIC, OFI_FLUSH };

struct ofi_scratch {
    uint64_t operand, compare, result, placement;
};

/* An operation with completions. One step of it is posted at a time. */
struct ofi_op {
    struct fi_context2 context; /* first: a completion returns it. Of the step that is posted */
    struct link link;           /* btl_connection.ops, ofi_endpoint.orphans or .spare */
    struct link stuck;          /* ofi_endpoint.stuck: the provider did not accept the next step */
    struct ofi_endpoint *endpoint;
    struct btl_connection *connection; /* NULL: closed; the operation may still access its memory */
    struct ofi_peer *remote;           /* of an orphan: `to` is in use until it is complete */
    int peer;
    fi_addr_t to;
    struct btl_done *done;
    enum ofi_kind kind;
    bool alone; /* WRITE: without a slot */
    int atomic; /* enum btl_atomic */
    void *old;  /* where the old value of an atomic is stored, or NULL */
    struct ofi_part part;
    struct ofi_part next;        /* WRITE: the slot, posted after the payload has been delivered */
    struct ofi_scratch *scratch; /* the operation's own registered memory */
    void *scratch_desc;
};

struct btl_connection {
    _Alignas(CACHE_LINE) struct btl *btl; /* so no two of them share a line */
    struct ofi_endpoint *endpoint;        /* until it joins a stream that of the process */
    struct link link;                     /* ofi_endpoint.connections */
    struct link stuck; /* ofi_endpoint.stuck_connections, while `rest` or `rest_slot` has bytes */
    int peer;
    uint32_t id; /* identifies it in the context of what is posted without a completion */
    uint32_t depth;
    struct ofi_peer *remote; /* NULL: no address yet */
    fi_addr_t to;
    _Atomic bool connected;
    _Atomic int error; /* 0 or -errno; set after the message */
    char failure[256];
    struct link ops;  /* outstanding operations */
    uint32_t pending; /* their number */
    uint32_t placing; /* the number of them that a flush waits for */
    uint32_t alone;   /* the number of them that are writes without a slot: no slot passes them */
    struct ofi_part
        rest; /* ORDERED: payload of an accepted write that the provider has not accepted yet */
    struct ofi_part rest_slot; /* ORDERED: the same of its slot */
    struct ofi_part last;      /* ORDERED: the end of the last write, which a flush reads */
    bool unflushed;            /* ORDERED: something has been written behind the last flush */
    uint64_t looked;           /* polls of the endpoint at the last progress of this connection */
    struct btl_counts counts;
};

/* An open endpoint of a provider, and all that only one thread at a time accesses with it. */
struct ofi_endpoint {
    struct btl *btl;
    struct btl_stream *stream; /* NULL: it is that of the process */
    bool own_domain;           /* or that of the process's endpoint */
    struct fi_info *info;
    struct fid_fabric *fabric; /* the process's */
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *cq;
    int wait_fd; /* of the completion queue, or -1 */
    char provider[48];
    struct btl_address address;
    struct hash peers; /* hash of an address → struct ofi_peer */
    struct hash ranks; /* rank → struct ofi_rank */

    bool ordered;        /* writes go as ORDERED, see above */
    size_t ordered_most; /* bytes up to which a payload keeps its order */
    size_t joined;   /* ORDERED: most bytes of payload and slot as one operation; 0: they are two */
    bool inject;     /* the provider copies slots at once */
    bool needs_desc; /* FI_MR_LOCAL */
    bool hmem;       /* FI_HMEM: memory of devices can be registered */
    char no_hmem[200]; /* why not; "" */
    bool contexts;     /* FI_CONTEXT: everything that is posted needs a context of its own */
    size_t most;       /* bytes of one operation */
    uint32_t atomics;
    uint64_t keys; /* mask of keys that this process chooses */

    /* ---- inside ---- */
    bool broken; /* the completion queue has failed, and with it every connection */
    struct link connections;
    struct link stuck;             /* operations */
    struct link stuck_connections; /* with an accepted write that is not posted completely */
    struct link spare;             /* free operations */
    struct link orphans;           /* operations of closed connections */
    size_t ops, connection_count;
    uint32_t last_id; /* of a connection */
    struct ofi_chunk *chunks;
    uint64_t polls;                /* by threads of the user */
    uint32_t alarms;               /* consecutive times that wait_fd was readable again at once */
    _Atomic bool asleep;           /* the service thread waits for wait_fd; set inside */
    _Atomic uint32_t orphan_count; /* length of `orphans`; others load it, too */
    _Atomic int64_t driven_at;     /* when a thread of the user last made progress */
};

/* What the connections of one thread share (stream.h). */
struct btl_stream {
    struct biased lock; /* in the place of that of the process's endpoint */
    _Alignas(CACHE_LINE) struct ofi_endpoint endpoint;
    uint32_t claims; /* inside: polls by a thread that is not the owner */

    /* ---- btl.lock ---- */
    _Alignas(CACHE_LINE) struct link link; /* btl.streams */
    uint32_t number;                       /* from 1 */
    _Atomic uint32_t
        users; /* open connections, and 1 until it is closed; 0: the next stream takes it */
    char no_domain[160];       /* why it has none of its own; "" */
    struct btl_stream *before; /* the one that was opened before it; does not change */
};

struct btl {
    pthread_mutex_t lock; /* of `rma`, and of all that follows it */
    _Atomic int waiting;  /* threads that wait for the lock: polling threads let them go first */
    struct btl_host host;
    bool forked;             /* in a child, where nothing may be accessed */
    struct ofi_endpoint rma; /* that of the process */
    struct slab_pool *slabs;
    struct link streams;                    /* those without users, too */
    struct btl_stream *_Atomic last_stream; /* the same, by .before, for threads without the lock */
    uint32_t stream_count;                  /* their number */
    uint32_t in_domain;                     /* the number of those in the domain of the process */
    struct link ranges;                     /* struct memory_range: memory that peers may access */
    struct link deferred; /* struct ofi_deferred: memory freed when its peer has no orphans left */
    _Atomic unsigned deferred_count;  /* length of `deferred` */
    _Atomic uintptr_t service_thread; /* 0: not known yet */
};

/* One that is not open yet. `stream`: whose it will be; NULL: that of the process. */
static inline void ofi_endpoint_init(struct ofi_endpoint *e, struct btl *btl,
                                     struct btl_stream *stream)
{
    e->btl = btl;
    e->stream = stream;
    list_init(&e->connections);
    list_init(&e->stuck);
    list_init(&e->stuck_connections);
    list_init(&e->spare);
    list_init(&e->orphans);
}

static inline void ofi_lock(struct btl *btl)
{
    if (pthread_mutex_trylock(&btl->lock) == 0)
        return;
    atomic_fetch_add_explicit(&btl->waiting, 1,
                              memory_order_relaxed); /* a hint for progress_by_user */
    pthread_mutex_lock(&btl->lock);
    atomic_fetch_sub_explicit(&btl->waiting, 1, memory_order_relaxed);
}

static inline void ofi_unlock(struct btl *btl) { pthread_mutex_unlock(&btl->lock); }

/* Enters an endpoint. Returns what ofi_leave needs. */
static inline bool ofi_enter(struct ofi_endpoint *e, enum biased_claim claim)
{
    if (e->stream != NULL)
        return biased_enter(&e->stream->lock, claim);
    ofi_lock(e->btl);
    return false;
}

/* The same without a wait. False: another thread is inside. */
static inline bool ofi_try(struct ofi_endpoint *e, bool *as_owner)
{
    if (e->stream != NULL)
        return biased_try(&e->stream->lock, as_owner);
    *as_owner = false;
    return pthread_mutex_trylock(&e->btl->lock) == 0;
}

static inline void ofi_leave(struct ofi_endpoint *e, bool as_owner)
{
    if (e->stream != NULL)
        biased_leave(&e->stream->lock, as_owner);
    else
        ofi_unlock(e->btl);
}

/*
 * For a transfer: a thread of the user may become the owner of a stream, the service thread not. Before that one is known no thread does: it has a
 * connection of a stream to close before it has served one.
 */
static inline enum biased_claim ofi_claim(const struct btl *btl)
{
    uintptr_t service = atomic_load_explicit(&btl->service_thread, memory_order_relaxed);

    return service != 0 && service != biased_self() ? BIASED_AT_ONCE : BIASED_NEVER;
}

static inline int ofi_error_of(const struct btl_connection *connection)
{
    return atomic_load_explicit(&connection->error, memory_order_relaxed);
}

/* In the child of a fork: -ENOTCONN and an error message. */
static inline int ofi_check_fork(const struct btl *btl, struct error *err)
{
    if (!btl->forked)
        return 0;
    return error_set(err, -ENOTCONN,
                     "this process is the child of a fork; the endpoint is its parent's");
}

#endif
