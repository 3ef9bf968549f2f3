/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rpipe.h: the job, its channels, reads and writes, and the control network.
 *
 * A channel carries messages one way, from a writer rank to a reader rank, in order, as pipe(2) does, but each message is
 * memory of the pipe that is handed over, not bytes that are copied. Blocking calls obey the deadline of their channel
 * and then return -ETIMEDOUT. Different channels may be used by different threads at the same time; one end of one channel
 * belongs to one thread at a time, unless it was opened with thread_sync. rpipe_error(ch) explains any failure.
 */
#ifndef RPIPE_H
#define RPIPE_H

#include <rmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default) /* what is declared here is exported; all else is hidden */

/* ---- job ---- */

int rpipe_init(int *rank, int *nranks); /* collective; either pointer may be NULL */
int rpipe_exit(void); /* collective; closes what is open; does not wait for the dead */

/* ---- channel ---- */

int rpipe_open(rch_t *ch, const rmalloc_config_t *cfg); /* does not wait for the peer */
int rpipe_wait(rch_t ch);                               /* until both ends are joined */
int rpipe_close(rch_t ch);
int rpipe_set_timeout(rch_t ch, int ms); /* -1 waits for ever */

/* ---- messages ---- */

int rpipe_write(rch_t ch, raddr_t d); /* hands the memory over: d is no longer yours */
int rpipe_write_n(rch_t ch, raddr_t d, size_t bytes); /* only its first bytes */
int rpipe_write_nb(rch_t ch, raddr_t d);              /* R_PENDING: not sent, d is still yours */
int rpipe_read(rch_t ch, raddr_t *d,
               size_t *size); /* the next message, yours until rfree; size may be NULL */
int rpipe_read_nb(rch_t ch, raddr_t *d, size_t *size); /* R_PENDING: none yet */
void *rpipe_read_mem(rch_t ch, raddr_t *d, size_t *size);
int rpipe_flush(rch_t ch); /* every rwrite so far is visible to the reader */
int rpipe_progress(void);  /* never needed for correctness */

/*
 * ---- the program's own memory ----
 *
 * A region can be sent from, and read into, on any pipe. buf NULL: memory of this pipe itself (its writer), on shm without any copy.
 * *done becomes 0, and 1 when the memory may be touched again; negative: the reader has not got the message, and will not.
 */
typedef struct rregion *rregion_t;

int rpipe_register(rch_t ch, void *buf, size_t bytes, rregion_t *region);
int rpipe_deregister(rregion_t region); /* -EBUSY: transfers are under way */
void *rpipe_region_mem(rregion_t region);
int rpipe_write_from(rch_t ch, rregion_t region, size_t offset, size_t bytes,
                     int *done); /* done may be NULL */
int rpipe_write_from_nb(rch_t ch, rregion_t region, size_t offset, size_t bytes, int *done);
/* the same, with a tag: see rpipe_set_tag */
int rpipe_write_from_tag(rch_t ch, rregion_t region, size_t offset, size_t bytes, uint64_t tag,
                         int *done);
int rpipe_write_from_tag_nb(rch_t ch, rregion_t region, size_t offset, size_t bytes, uint64_t tag,
                            int *done);
int rpipe_done(
    rch_t ch,
    const int *done); /* waits until *done is not 0; NULL: for all transfers of this end */
int rpipe_done_nb(rch_t ch, const int *done); /* looks; R_PENDING: not yet */
/* the next message, to offset, where there is room for so many bytes; -EMSGSIZE: it is larger, and still the next one */
int rpipe_read_into(rch_t ch, rregion_t region, size_t offset, size_t room, size_t *size);
int rpipe_read_into_nb(rch_t ch, rregion_t region, size_t offset, size_t room, size_t *size);
/* the same, and its tag; tag may be NULL */
int rpipe_read_into_tag(rch_t ch, rregion_t region, size_t offset, size_t room, size_t *size,
                        uint64_t *tag);
int rpipe_read_into_tag_nb(rch_t ch, rregion_t region, size_t offset, size_t room, size_t *size,
                           uint64_t *tag);

/* ---- cells of an ATOMIC pipe, counted from 0 ---- */

/* old may be NULL: fire and forget, rflush completes. RATOMIC_CAS stores operand where the cell holds compare. */
int rpipe_atomic(rch_t ch, ratomic_op_t op, size_t cell, uint64_t operand, uint64_t compare,
                 uint64_t *old);

/* ---- waiting on many ---- */

/* a descriptor for poll(2), epoll(7): readable when rread would not wait; it stays the library's */
int rpipe_fd(rch_t ch);
/* ready[i] becomes 1 where rread(ch[i]) would not wait, else 0. 0 if any is; -ETIMEDOUT; R_PENDING if timeout_ms is 0 */
int rpipe_poll(const rch_t *ch, int n, int *ready, int timeout_ms);
/* writer: would a message of this size, once it has memory, be written without waiting? R_PENDING: not at the moment */
int rpipe_room(rch_t ch, size_t size);

/* ---- connection on demand ---- */

typedef struct rpipe_pending {
    int peer;     /* whose end waits */
    uint32_t ctx; /* of the channel */
    rdma_op_t op; /* of the channel, as the peer has opened it */
    bool writer;  /* the end that waits is the writer: who opens the other one reads */
    uint64_t reserved[2];
} rpipe_pending_t;

/* ends of channels `ctx` that peers have opened and this process has not; *seen from 0. How many, at most `most` */
int rpipe_pending(uint32_t ctx, uint64_t *seen, rpipe_pending_t *list, int most);

/* ---- values of rinfo_pipe_t, as in the configuration of 0.2 ---- */

typedef enum { RPIPE_WRITER = 1, RPIPE_READER = 2 } rpipe_role_t;
typedef enum { RPIPE_PUT = 0, RPIPE_GET = 1 } rpipe_op_t;
typedef enum {
    RMALLOC_FIT_DEFAULT = 0,
    RMALLOC_NEXT_FIT = 1,
    RMALLOC_FIRST_FIT = 2,
    RMALLOC_BEST_FIT = 3,
    RMALLOC_WORST_FIT = 4,
    RMALLOC_RANDOM_FIT = 5
} rmalloc_fit_t;
typedef enum {
    RPIPE_SYNC_DEFAULT = 0,
    RPIPE_SYNC_BLOCKS = 1,
    RPIPE_SYNC_TAGS = 2,
    RPIPE_SYNC_CHANNEL = 3
} rpipe_sync_t;

/* ---- what happened ---- */

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

/* the last failure of this channel as a sentence; NULL: of rinit, rpipe, network_* */
const char *rpipe_error(rch_t ch);

/* ---- control network: slow, reliable, for set-up ---- */

uint32_t rpipe_network_rank(void);
uint32_t rpipe_network_ranks(void);
void rpipe_network_abort(int code) __attribute__((noreturn));
int rpipe_network_barrier(void);
int rpipe_network_allgather(const void *mine, size_t bytes, void *all);
int rpipe_network_send(int to, const void *buf, size_t bytes);
int rpipe_network_recv(int from, void *buf, size_t bytes);
void *rpipe_network_header(rch_t ch, raddr_t d); /* user header that travels with the message */
size_t rpipe_network_header_bytes(rch_t ch);
int rpipe_set_tag(rch_t ch, raddr_t d, uint64_t tag); /* the header as one number, */
uint64_t rpipe_tag(rch_t ch, raddr_t d);              /* 0 unless it was set */

/*
 * ---- pipes made of pipes ----
 *
 * The end with many partners is an object; the other end of each of its pipes is a plain one, opened by rpipe(). A place is the
 * number of a pipe of the object, from 0, in the order of the list of ranks (NULL: rank 0 to n - 1); a rank that occurs several times
 * has as many pipes, ctx, ctx + 1 ... Of cfg peer and rdma_active do not matter. A partner that is gone is told once, as the
 * error of one call; ..._who() says which place the last error was about. Sentences are in rpipe_error(NULL).
 */

/* full duplex: a pipe each way, between two who both open it */
typedef struct rpipe_duplex *rduplex_t;

int rpipe_duplex_open(rduplex_t *dx, const rmalloc_config_t *cfg);
int rpipe_duplex_wait(rduplex_t dx);
rch_t rpipe_duplex_out(rduplex_t dx); /* to write to */
rch_t rpipe_duplex_in(rduplex_t dx);  /* to read from */
int rpipe_duplex_close(rduplex_t dx);

/* one writer, many readers: a message is dealt to one of them when its memory is allocated */
typedef struct rpipe_scatter *rscatter_t;

#define RSCATTER_NEXT (-1) /* in turn */
#define RSCATTER_ANY (-2)  /* the first one who has room */

int rpipe_scatter_open(rscatter_t *sc, const rmalloc_config_t *cfg, const int *readers, int n);
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

typedef enum {
    RREDUX_SUM = 0,
    RREDUX_PROD,
    RREDUX_MIN,
    RREDUX_MAX,
    RREDUX_BAND, /* bits; not of floating point */
    RREDUX_BOR,
    RREDUX_BXOR,
    RREDUX_LAND, /* truth values, 0 or 1; not of floating point */
    RREDUX_LOR
} rredux_op_t;

typedef enum {
    RREDUX_INT32 = 0,
    RREDUX_INT64,
    RREDUX_UINT32,
    RREDUX_UINT64,
    RREDUX_FLOAT,
    RREDUX_DOUBLE
} rredux_type_t;

#define RREDUX_OWN 1 /* `into` holds the reader's own contribution, the first operand */
#define RREDUX_ORDERED                                                                             \
    2 /* in the order of places, not of arrival: the same result every time, also of floating point */

/* into = into (operator) from */
typedef void (*rredux_function_t)(void *into, const void *from, size_t bytes, void *argument);

int rpipe_redux_open(rredux_t *redux, const rmalloc_config_t *cfg, const int *writers, int n);
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

#pragma GCC visibility pop

#ifndef RPIPE_NO_SHORT_NAMES
static inline int rinit(int *rank, int *nranks) { return rpipe_init(rank, nranks); }
static inline int rexit(void) { return rpipe_exit(); }
static inline int rpipe(rch_t *ch, const rmalloc_config_t *cfg) { return rpipe_open(ch, cfg); }
static inline int rclose(rch_t ch) { return rpipe_close(ch); }
static inline int rwrite(rch_t ch, raddr_t d) { return rpipe_write(ch, d); }
static inline int rwrite_n(rch_t ch, raddr_t d, size_t bytes)
{
    return rpipe_write_n(ch, d, bytes);
}
static inline int rwrite_nb(rch_t ch, raddr_t d) { return rpipe_write_nb(ch, d); }
static inline int rread(rch_t ch, raddr_t *d, size_t *size) { return rpipe_read(ch, d, size); }
static inline int rread_nb(rch_t ch, raddr_t *d, size_t *size)
{
    return rpipe_read_nb(ch, d, size);
}
static inline void *rread_mem(rch_t ch, raddr_t *d, size_t *size)
{
    return rpipe_read_mem(ch, d, size);
}
static inline int ratomic(rch_t ch, ratomic_op_t op, size_t cell, uint64_t operand,
                          uint64_t compare, uint64_t *old)
{
    return rpipe_atomic(ch, op, cell, operand, compare, old);
}
static inline int rregister(rch_t ch, void *buf, size_t bytes, rregion_t *region)
{
    return rpipe_register(ch, buf, bytes, region);
}
static inline int rderegister(rregion_t region) { return rpipe_deregister(region); }
static inline void *rregion_mem(rregion_t region) { return rpipe_region_mem(region); }
static inline int rwrite_from(rch_t ch, rregion_t region, size_t offset, size_t bytes, int *done)
{
    return rpipe_write_from(ch, region, offset, bytes, done);
}
static inline int rwrite_from_nb(rch_t ch, rregion_t region, size_t offset, size_t bytes, int *done)
{
    return rpipe_write_from_nb(ch, region, offset, bytes, done);
}
static inline int rwrite_from_tag(rch_t ch, rregion_t region, size_t offset, size_t bytes,
                                  uint64_t tag, int *done)
{
    return rpipe_write_from_tag(ch, region, offset, bytes, tag, done);
}
static inline int rwrite_from_tag_nb(rch_t ch, rregion_t region, size_t offset, size_t bytes,
                                     uint64_t tag, int *done)
{
    return rpipe_write_from_tag_nb(ch, region, offset, bytes, tag, done);
}
static inline int rdone(rch_t ch, const int *done) { return rpipe_done(ch, done); }
static inline int rdone_nb(rch_t ch, const int *done) { return rpipe_done_nb(ch, done); }
static inline int rread_into(rch_t ch, rregion_t region, size_t offset, size_t room, size_t *size)
{
    return rpipe_read_into(ch, region, offset, room, size);
}
static inline int rread_into_nb(rch_t ch, rregion_t region, size_t offset, size_t room,
                                size_t *size)
{
    return rpipe_read_into_nb(ch, region, offset, room, size);
}
static inline int rread_into_tag(rch_t ch, rregion_t region, size_t offset, size_t room,
                                 size_t *size, uint64_t *tag)
{
    return rpipe_read_into_tag(ch, region, offset, room, size, tag);
}
static inline int rread_into_tag_nb(rch_t ch, rregion_t region, size_t offset, size_t room,
                                    size_t *size, uint64_t *tag)
{
    return rpipe_read_into_tag_nb(ch, region, offset, room, size, tag);
}
static inline int rflush(rch_t ch) { return rpipe_flush(ch); }
static inline int rprogress(void) { return rpipe_progress(); }
static inline uint32_t network_rank(void) { return rpipe_network_rank(); }
static inline uint32_t network_ranks(void) { return rpipe_network_ranks(); }
static inline __attribute__((noreturn)) void network_abort(int code) { rpipe_network_abort(code); }
static inline int network_barrier(void) { return rpipe_network_barrier(); }
static inline int network_allgather(const void *mine, size_t bytes, void *all)
{
    return rpipe_network_allgather(mine, bytes, all);
}
static inline int network_send(int to, const void *buf, size_t bytes)
{
    return rpipe_network_send(to, buf, bytes);
}
static inline int network_recv(int from, void *buf, size_t bytes)
{
    return rpipe_network_recv(from, buf, bytes);
}
static inline void *network_header(rch_t ch, raddr_t d) { return rpipe_network_header(ch, d); }
static inline size_t network_header_bytes(rch_t ch) { return rpipe_network_header_bytes(ch); }
static inline int rset_tag(rch_t ch, raddr_t d, uint64_t tag) { return rpipe_set_tag(ch, d, tag); }
static inline uint64_t rtag(rch_t ch, raddr_t d) { return rpipe_tag(ch, d); }

static inline int rduplex(rduplex_t *dx, const rmalloc_config_t *cfg)
{
    return rpipe_duplex_open(dx, cfg);
}
static inline int rduplex_wait(rduplex_t dx) { return rpipe_duplex_wait(dx); }
static inline rch_t rduplex_out(rduplex_t dx) { return rpipe_duplex_out(dx); }
static inline rch_t rduplex_in(rduplex_t dx) { return rpipe_duplex_in(dx); }
static inline int rduplex_close(rduplex_t dx) { return rpipe_duplex_close(dx); }

static inline int rscatter(rscatter_t *sc, const rmalloc_config_t *cfg, const int *readers, int n)
{
    return rpipe_scatter_open(sc, cfg, readers, n);
}
static inline int rscatter_wait(rscatter_t sc) { return rpipe_scatter_wait(sc); }
static inline int rscatter_set_timeout(rscatter_t sc, int ms)
{
    return rpipe_scatter_set_timeout(sc, ms);
}
static inline int rscatter_alloc(rscatter_t sc, int to, size_t size, int *place, raddr_t *d)
{
    return rpipe_scatter_alloc(sc, to, size, place, d);
}
static inline int rscatter_alloc_nb(rscatter_t sc, int to, size_t size, int *place, raddr_t *d)
{
    return rpipe_scatter_alloc_nb(sc, to, size, place, d);
}
static inline int rscatter_write(rscatter_t sc, int place, raddr_t d)
{
    return rpipe_scatter_write(sc, place, d);
}
static inline rch_t rscatter_pipe(rscatter_t sc, int place)
{
    return rpipe_scatter_pipe(sc, place);
}
static inline int rscatter_rank(rscatter_t sc, int place) { return rpipe_scatter_rank(sc, place); }
static inline int rscatter_place(rscatter_t sc, int rank) { return rpipe_scatter_place(sc, rank); }
static inline int rscatter_live(rscatter_t sc) { return rpipe_scatter_live(sc); }
static inline int rscatter_who(rscatter_t sc) { return rpipe_scatter_who(sc); }
static inline int rscatter_close(rscatter_t sc) { return rpipe_scatter_close(sc); }

static inline int rredux(rredux_t *rx, const rmalloc_config_t *cfg, const int *writers, int n)
{
    return rpipe_redux_open(rx, cfg, writers, n);
}
static inline int rredux_wait(rredux_t rx) { return rpipe_redux_wait(rx); }
static inline int rredux_set_timeout(rredux_t rx, int ms)
{
    return rpipe_redux_set_timeout(rx, ms);
}
static inline int rredux_read(rredux_t rx, int *place, raddr_t *d, size_t *size)
{
    return rpipe_redux_read(rx, place, d, size);
}
static inline int rredux_read_nb(rredux_t rx, int *place, raddr_t *d, size_t *size)
{
    return rpipe_redux_read_nb(rx, place, d, size);
}
static inline int rredux_reduce(rredux_t rx, void *into, size_t count, rredux_type_t type,
                                rredux_op_t op, int flags, int *combined)
{
    return rpipe_redux_reduce(rx, into, count, type, op, flags, combined);
}
static inline int rredux_apply(rredux_t rx, void *into, size_t bytes, rredux_function_t function,
                               void *argument, int flags, int *combined)
{
    return rpipe_redux_apply(rx, into, bytes, function, argument, flags, combined);
}
static inline int rredux_combine(void *into, const void *from, size_t count, rredux_type_t type,
                                 rredux_op_t op)
{
    return rpipe_redux_combine(into, from, count, type, op);
}
static inline rch_t rredux_pipe(rredux_t rx, int place) { return rpipe_redux_pipe(rx, place); }
static inline int rredux_rank(rredux_t rx, int place) { return rpipe_redux_rank(rx, place); }
static inline int rredux_place(rredux_t rx, int rank) { return rpipe_redux_place(rx, rank); }
static inline int rredux_live(rredux_t rx) { return rpipe_redux_live(rx); }
static inline int rredux_who(rredux_t rx) { return rpipe_redux_who(rx); }
static inline int rredux_close(rredux_t rx) { return rpipe_redux_close(rx); }
#endif

#ifdef __cplusplus
}
#endif
#endif
