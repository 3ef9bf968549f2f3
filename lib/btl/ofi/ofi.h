/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi.h: what the files of the libfabric backend share.
 *
 *   fabric.c    finds a provider, opens an endpoint with its address vector and completion queue; answers what it can do
 *   memory.c    registration, in every mode that a provider may ask for
 *   line.c      lines: an address, counters, and the calls of struct btl_ops
 *   transfer.c  operations: how a write, a fetch, an atomic is posted, in as many steps as it takes, and finished
 *   progress.c  completions and their errors; the service thread's part
 *
 * One lock for the endpoints and everything about lines; registration takes it too, because domains are opened for callers
 * that take turns (FI_THREAD_DOMAIN). Nothing waits under it. Lock order: pool, this, the service thread's list of watches.
 *
 * Two ways to write, chosen once by what the provider's attributes promise, never by its name:
 *   STREAM: writes land in the order in which they are posted (FI_ORDER_RMA_WAW), and a read behind them sees them
 *     (FI_ORDER_RMA_RAW): the payload and then the slot, without completions; flush is such a read.
 *   STEP: anything else: the payload with a completion that says delivered (FI_DELIVERY_COMPLETE), then the slot, likewise.
 * A STREAM payload longer than what is ordered (max_order_waw_size) goes in steps.
 */
#ifndef BTL_OFI_OFI_H
#define BTL_OFI_OFI_H

#include "btl/btl.h"
#include "btl/slab.h"

#include "util/hash.h"
#include "util/list.h"
#include "util/error.h"

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
#define OFI_DEPTH 64u /* operations of a line that may be outstanding, unless it asks for more */
#define OFI_OPS_CHUNK 256u /* operations are allocated so many at a time, when lines are opened */
#define OFI_QUIET_NS                                                                               \
    1000000 /* the service thread leaves an endpoint alone that was driven within this time */
#define OFI_QUIET_US 1000

/* One range to be moved: what has not been posted of it yet. */
struct ofi_part {
    uint64_t remote, key;
    char *local;
    void *desc;
    size_t bytes;
};

enum ofi_kind { OFI_WRITE, OFI_GET, OFI_ATOMIC, OFI_FLUSH };

/* An operation with completions. `next`: of a WRITE the slot, posted when the payload has been delivered. */
struct ofi_op {
    struct fi_context2
        context; /* first: what comes back with a completion. Of the step that is posted at the moment */
    struct link link;  /* line.ops; btl.orphans; or btl.spare */
    struct link stuck; /* btl.stuck, when the provider did not take the next step of it */
    struct ofi_endpoint *endpoint;
    struct btl_connection *
        connection; /* NULL: closed meanwhile; this is kept because a device may still reach for its memory */
    int peer;
    fi_addr_t to;
    struct btl_done *done;
    enum ofi_kind kind;
    int atomic; /* ratomic_op_t */
    void *old;  /* where the old value of an atomic goes, or NULL */
    struct ofi_part part, next;
    struct ofi_scratch *scratch; /* its own, in registered memory */
    void *scratch_desc;
};

struct ofi_scratch {
    uint64_t operand, compare, result, placement;
};

struct btl_connection {
    struct btl *btl;
    struct ofi_endpoint *endpoint;
    struct link link;  /* btl.lines */
    struct link stuck; /* btl.stuck_lines, while `rest` or `rest_slot` has bytes */
    int peer;
    uint32_t id; /* names it in the context of what is posted without completion */
    uint32_t depth;
    struct btl_address far;
    fi_addr_t to;
    bool connected;
    _Atomic int error; /* 0 or -errno; set after the sentence */
    char why[256];
    struct link ops; /* outstanding */
    uint32_t pending;
    uint32_t placing; /* of them, those that flush waits for */
    struct ofi_part rest,
        rest_slot;        /* STREAM: of an accepted write, what the provider has not taken yet */
    struct ofi_part last; /* STREAM: the end of what was written last, for flush to read */
    bool unflushed;
    struct btl_counts counts;
};

/* What is open of a provider. */
struct ofi_endpoint {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *cq;
    int wait_fd; /* of the completion queue, or -1 */
    char provider[48];
    struct btl_address address;
    struct hash peers; /* hash of an address → struct ofi_peer */

    bool stream;     /* see above */
    size_t ordered;  /* bytes up to which a payload keeps its place */
    bool inject;     /* slots are copied by the provider at once */
    bool needs_desc; /* FI_MR_LOCAL */
    bool contexts;   /* FI_CONTEXT: everything posted needs a context of its own */
    size_t most;     /* bytes of one operation */
    uint32_t atomics;
    uint64_t keys; /* mask of keys that this process chooses */
    bool broken;   /* its completion queue: every line has failed */
};

struct btl {
    pthread_mutex_t lock;
    _Atomic int waiting; /* for the lock: who polls lets them go first */
    struct btl_host host;
    bool forked; /* in a child, where nothing may be touched */
    struct ofi_endpoint rma;
    struct slab_pool *slabs;
    struct link lines;
    struct link stuck, stuck_lines;
    struct link spare;   /* operations */
    struct link orphans; /* operations of closed lines */
    struct link
        parting; /* struct ofi_parting: pieces to be freed when there are no orphans of their peer */
    size_t ops, line_count;
    uint32_t last_line;
    struct ofi_chunk *chunks;

    uint32_t alarms; /* in a row, after each of which the descriptor could be read at once */
    _Atomic bool
        armed; /* the service thread sleeps until a wait_fd can be read; changed under the lock */
    _Atomic unsigned partings; /* length of `parting` */
    _Atomic int64_t driven_at; /* by a thread of the user */
};

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

/* fabric.c */
int fabric_query(struct error *err);
int fabric_open(const struct btl_host *host, struct ofi_endpoint *e, struct error *err);
void fabric_close(struct ofi_endpoint *e); /* the endpoint, and what hangs on it, ... */
void fabric_close_domain(
    struct ofi_endpoint *e); /* ... when the registrations are gone, the rest */
/* The peer's address in the vector; with the lock held. */
int fabric_peer(struct ofi_endpoint *e, const struct btl_address *address, fi_addr_t *to,
                struct error *err);
void fabric_name(const struct ofi_endpoint *e, const struct btl_address *address, char *text,
                 size_t bytes);

/* memory.c */
struct ofi_registration {
    struct fid_mr *mr; /* NULL: nothing is needed */
    void *desc;
    uint64_t key;
    bool by_address; /* remote addresses are addresses of this process; or offsets */
};
extern const struct slab_source memory_source;
int memory_register(struct ofi_endpoint *e, void *base, size_t bytes, uint32_t access,
                    struct ofi_registration *r, struct error *err); /* lock held */
void memory_unregister(struct ofi_registration *r);
enum { KEY_KEY, KEY_ADDRESS, KEY_BYTES, KEY_ACCESS }; /* words of struct btl_key */

/* transfer.c; lock held for all */
int ops_reserve(struct btl *btl, struct error *err);
void ops_release(struct btl *btl);
bool ops_orphaned(const struct btl *btl, int peer);
int ofi_connection_fail(struct btl_connection *connection, int error, const char *call,
                        const char *said); /* returns the line's error */
void transfer_lost(struct btl *btl, void *context, int error,
                   const char *said); /* a completion with an error */
void transfer_queue_lost(struct btl *btl,
                         const char *said); /* no completion will come any more, of no line */
void transfer_completed(struct btl *btl, void *context);
void transfer_continue(struct btl *btl); /* what was stuck */
void transfer_abandon(struct btl_connection *connection);
void transfer_peer_gone(struct btl *btl, int peer);
uint32_t transfer_atomics(struct ofi_endpoint *e);
int transfer_write(struct btl_connection *connection, const struct btl_transfer *payload,
                   const struct btl_transfer *slot);
int transfer_get(struct btl_connection *connection, const struct btl_transfer *t,
                 struct btl_done *done);
int transfer_atomic(struct btl_connection *connection, int code, const struct btl_transfer *at,
                    uint64_t operand, uint64_t compare, struct btl_done *done);
int transfer_flush(struct btl_connection *connection);

/* progress.c */
int progress_start(struct btl *btl);
void progress_stop(struct btl *btl);
void progress_drive(struct btl *btl); /* lock held */
void progress_by_user(struct btl *btl);
void progress_posted(
    struct btl
        *btl); /* lock held: something may have to be carried on when nobody calls any more */
void progress_part(struct btl *btl); /* no lock held: frees what orphans held back */

#endif
