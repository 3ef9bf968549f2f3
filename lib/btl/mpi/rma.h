/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma.h: the structures of the backend mpi, which transfers by the one-sided operations of MPI-3. The
 * modules btl_openmpi.so and btl_mpich.so: one source, compiled with the header of each.
 *
 *   backend.c     the table of struct btl_ops: opening, closing, fork, memory of peers
 *   window.c      starts MPI where nothing else has, and makes the one window of the job
 *   arena.c       memory that is attached to the window, in large ranges
 *   memory.c      slabs of it, and memory of the user
 *   connection.c  connections, and the transfers, which queue operations
 *   operation.c   how operations end, and the failure of a connection
 *   pump.c        carries the operations out, in rounds
 *
 * One dynamic window, made once over all ranks, since a window is collective and pipes are opened by
 * pairs (doc/mpi.md). Each process attaches memory to it, and names the memory by its address.
 *
 * What orders payload and slot is MPI_Win_flush alone: two MPI_Put are not ordered, and an
 * accumulate, which would be, may wait until the target calls MPI. MPI_Win_flush waits for the
 * target and has no deadline; so the transfers only queue an operation, and a thread of the backend, the
 * pump, calls MPI (RPIPE_MPI_FLUSH=inline: the thread that transfers).
 *
 * One lock guards the queue and all connections. It is never held during a call of MPI that
 * transfers. Lock order: that of the slab pool, this one.
 */
#ifndef BTL_MPI_RMA_H
#define BTL_MPI_RMA_H

#include "btl/btl.h"
#include "btl/mpi/arena.h"
#include "btl/slab.h"

#include "util/error.h"
#include "util/list.h"
#include "util/thread.h"

#include <errno.h>
#include <pthread.h>

#define RMA_SLOT 64u
#define RMA_ROUND 64u /* operations of one round */

/* Words of struct btl_key. */
enum { KEY_ADDRESS, KEY_BYTES, KEY_ACCESS, KEY_JOB };

enum rma_kind { RMA_WRITE, RMA_GET };

/* Local memory, and the address of as much remote memory. */
struct rma_range {
    char *local;
    uint64_t remote;
    size_t bytes; /* 0: nothing */
};

/* An operation: queued, then in a round, then free again. It belongs to its connection. */
struct rma_op {
    struct link link; /* btl.queue, or btl_connection.spare */
    struct btl_connection *connection;
    struct btl_done *done; /* NULL: none, or completed already because the connection failed */
    enum rma_kind kind;
    bool used;                      /* it is not spare */
    bool in_round;                  /* the pump has it: MPI may access its memory */
    bool slot_sent;                 /* in a round: the slot goes in part 1 of the round (pump.c) */
    int code;                       /* of MPI */
    struct rma_range payload, slot; /* GET: no slot */
};

struct btl_connection {
    struct btl *btl;
    struct link link; /* btl.connections */
    int peer;
    uint32_t depth;
    _Atomic bool connected;
    _Atomic int error; /* 0 or -errno; set after the message */
    char failure[256];
    struct link spare;  /* operations */
    uint32_t placing;   /* writes that are accepted and not yet placed */
    uint32_t in_rounds; /* operations that the pump has */
    bool closed;        /* it is freed when the pump has none of its operations any more */
    struct btl_counts counts;
    struct rma_op op[]; /* depth */
};

struct btl {
    pthread_mutex_t lock;
    struct btl_host host;
    bool forked;  /* in a child, where nothing may be called */
    bool in_call; /* RPIPE_MPI_FLUSH=inline */
    bool stuck;   /* the pump is in a call of MPI that does not return */
    struct slab_pool *slabs;
    struct rma_arenas arenas; /* of the slabs */
    struct link connections;

    /* the pump */
    struct link queue;               /* operations, in the order of the calls */
    _Atomic uint32_t queued;         /* their number; changed under the lock */
    bool running;                    /* a thread carries out rounds */
    uint64_t round;                  /* number of the present or the next round */
    struct rma_op *first[RMA_ROUND]; /* of a round */
    struct rma_op
        *second[RMA_ROUND]; /* whose slots were written in the last round and not flushed */
    uint32_t firsts, seconds;
    struct link deferred; /* struct rma_deferred: memory that a round may still access */
    bool asleep, stopping;
    pthread_cond_t work;
    struct thread thread;
};

static inline int rma_error_of(const struct btl_connection *connection)
{
    return atomic_load_explicit(&connection->error, memory_order_relaxed);
}

/* In the child of a fork: -ENOTCONN and an error message. */
static inline int rma_check_fork(const struct btl *btl, struct error *err)
{
    if (!btl->forked)
        return 0;
    return error_set(err, -ENOTCONN,
                     "this process is the child of a fork; the window is its parent's");
}

#endif
