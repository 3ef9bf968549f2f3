/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rpipe_transitional.h: scatter and redux as they were in 0.1, until rgroup_ replaces them; and the statistics of 0.1, which counters replace. Not installed.
 */
#ifndef RPIPE_TRANSITIONAL_H
#define RPIPE_TRANSITIONAL_H

#include <rpipe.h>

#pragma GCC visibility push(default)

typedef struct rpipe_stats {
    uint64_t messages;        /* written, or read, at this end */
    uint64_t bytes;           /* of payload */
    uint64_t inline_messages; /* that rode in their slot */
    uint64_t
        held; /* messages that this end owns now: read and not freed, or allocated and not sent */
    uint64_t credit_fetches; /* looks at the other end's credit line (writer) */
    uint64_t stalls_ring;    /* calls that found the ring full (writer), or empty (reader) */
    uint64_t stalls_heap;    /* calls that found no memory (writer) */
    uint64_t sleeps;         /* times that a waiting call went to sleep in the kernel */
    uint64_t wakes;          /* times that this end woke the other */
    uint64_t heap_bytes;     /* size of the heap */
    uint64_t heap_used;      /* of it, as far as this end knows */
    uint32_t slots;          /* of the ring */
    uint32_t incarnation;    /* how often this end has opened this id */
    uint64_t
        stalls_queue; /* calls that found sync_queue messages outstanding (writer, tags and channel) */
    uint64_t
        returned; /* heap messages whose memory has come back (writer), or was given back (reader) */
    uint64_t grows; /* segments that the heap has grown by */
    uint64_t
        grow_refused; /* times that there was no memory to grow; the next three are of the last growth (writer): */
    uint64_t grow_at;        /* how many messages had been written, */
    uint64_t grow_request;   /* how many bytes were asked for and did not fit, */
    uint64_t grow_waited_us; /* and for how long the heap had been full, microseconds */
    uint64_t reserved[1];
} rpipe_stats_t;

int rpipe_stats(rch_t ch, rpipe_stats_t *st);

/* How the bytes of a channel travel, and what that has asked of the network; all 0 where memory is mapped. */
typedef struct rpipe_transport {
    char backend[16]; /* "shm", "ofi", "verbs" */
    char path[160];   /* the connection, in words of its backend */
    char why[320];    /* why this backend and not a better one */
    uint64_t
        work_requests;  /* transfers handed to the network by this end: payloads, slots, reads */
    uint64_t doorbells; /* calls that handed over one or more of them */
    uint64_t signaled;  /* of the work requests: with a completion */
    uint64_t inlined;   /* of the work requests: copied at once */
    uint64_t gets; /* reads of the other side's memory: credits (writer), payloads (reader, GET) */
    uint64_t atomics;
    uint64_t flushes;
    uint64_t refused;      /* times that its queues were full */
    uint64_t credit_reads; /* of the gets: for credits */
    char cells[16]; /* of an ATOMIC pipe: how they are operated on: "cpu", "device", "service" */
    uint64_t
        direct; /* payloads from, or into, the program's own memory without a copy (rregister) */
    uint64_t reserved[4];
} rpipe_transport_t;

int rpipe_transport(rch_t ch, rpipe_transport_t *transport);

/* full duplex: a pipe each way, between two who both open it */
typedef struct rpipe_duplex *rduplex_t;

int rpipe_duplex_open(rduplex_t *dx, const rpipe_config_t *cfg);
int rpipe_duplex_wait(rduplex_t dx);
rch_t rpipe_duplex_out(rduplex_t dx); /* to write to */
rch_t rpipe_duplex_in(rduplex_t dx);  /* to read from */
int rpipe_duplex_close(rduplex_t dx);

/* one writer, many readers: a message is dealt to one of them when its memory is allocated */
typedef struct rpipe_scatter *rscatter_t;

#define RSCATTER_NEXT (-1) /* in turn */
#define RSCATTER_ANY (-2)

int rpipe_scatter_open(rscatter_t *sc, const rpipe_config_t *cfg, const int *readers, int n);
int rpipe_scatter_wait(rscatter_t sc);
int rpipe_scatter_set_timeout(rscatter_t sc, int ms);
/* `to` is a place, or one of the two; *place whose message it has become */
int rpipe_scatter_alloc(rscatter_t sc, int to, size_t size, int *place, raddr_t *d);
int rpipe_scatter_alloc_nb(rscatter_t sc, int to, size_t size, int *place, raddr_t *d);
int rpipe_scatter_write(rscatter_t sc, int place, raddr_t d);
rch_t rpipe_scatter_pipe(rscatter_t sc, int place);
int rpipe_scatter_rank(rscatter_t sc, int place);
int rpipe_scatter_place(rscatter_t sc, int rank); /* the first one with this rank, or -ENOENT */
int rpipe_scatter_live(rscatter_t sc);            /* readers that are not gone */
int rpipe_scatter_who(rscatter_t sc);             /* place of the last error, or -1 */
int rpipe_scatter_close(rscatter_t sc);

/* many writers, one reader: messages of whoever has some, in turn; or one of each, combined */
typedef struct rpipe_redux *rredux_t;

typedef rgroup_op_t rredux_op_t;
typedef rgroup_type_t rredux_type_t;
typedef rgroup_function_t rredux_function_t;

int rpipe_redux_open(rredux_t *redux, const rpipe_config_t *cfg, const int *writers, int n);
int rpipe_redux_wait(rredux_t rx);
int rpipe_redux_set_timeout(rredux_t rx, int ms);
/* the next message: give it back with rfree(rredux_pipe(rx, *place), *d). R_EOF: all have closed */
int rpipe_redux_read(rredux_t rx, int *place, raddr_t *d, size_t *size);
int rpipe_redux_read_nb(rredux_t rx, int *place, raddr_t *d, size_t *size);
/* one message of every writer, combined; -ETIMEDOUT and the loss of a writer: call again, it goes on */
int rpipe_redux_reduce(rredux_t rx, void *into, size_t count, rredux_type_t type, rredux_op_t op,
                       int flags, int *combined);
int rpipe_redux_apply(rredux_t rx, void *into, size_t bytes, rredux_function_t function,
                      void *argument, int flags, int *combined);
/* an operator by itself: into[i] = into[i] (op) from[i] */
int rpipe_redux_combine(void *into, const void *from, size_t count, rredux_type_t type,
                        rredux_op_t op);
rch_t rpipe_redux_pipe(rredux_t rx, int place);
int rpipe_redux_rank(rredux_t rx, int place);
int rpipe_redux_place(rredux_t rx, int rank);
int rpipe_redux_live(rredux_t rx);
int rpipe_redux_who(rredux_t rx);
int rpipe_redux_close(rredux_t rx);

#define RREDUX_SUM RGROUP_SUM
#define RREDUX_PROD RGROUP_PROD
#define RREDUX_MIN RGROUP_MIN
#define RREDUX_MAX RGROUP_MAX
#define RREDUX_BAND RGROUP_BAND
#define RREDUX_BOR RGROUP_BOR
#define RREDUX_BXOR RGROUP_BXOR
#define RREDUX_LAND RGROUP_LAND
#define RREDUX_LOR RGROUP_LOR
#define RREDUX_INT32 RGROUP_INT32
#define RREDUX_INT64 RGROUP_INT64
#define RREDUX_UINT32 RGROUP_UINT32
#define RREDUX_UINT64 RGROUP_UINT64
#define RREDUX_FLOAT RGROUP_FLOAT
#define RREDUX_DOUBLE RGROUP_DOUBLE
#define RREDUX_OWN RGROUP_OWN
#define RREDUX_ORDERED RGROUP_ORDERED

#pragma GCC visibility pop

#endif
