/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rpipe.h: the job, its pipes, messages, regions, cells, groups, and the control network; windows are in rwindow.h.
 *
 * A pipe carries messages one way, from a writer to a reader, in order, as pipe(2) does; but a message is memory of
 * the pipe that is handed over, not bytes that are copied. A call that waits obeys the deadline of its pipe and then
 * returns -ETIMEDOUT. Pipes are independent: different threads may use different pipes at the same time. One end of
 * one pipe belongs to one thread at a time, unless it was opened with RPIPE_THREADS. rerror() explains a failure.
 *
 * "Collective" means: over the ranks of the job.
 */
#ifndef RPIPE_H
#define RPIPE_H

#include <rmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(                                                                       \
    default) /* the declarations of this header are exported, all others are hidden */

/* ---- job ---- */

/* Joins the job; collective. Counted: every further call returns at once. Either pointer may be NULL. */
int R_VERB(rinit, rpipe_init, (int *rank, int *nranks));

/* Leaves the job at the last of as many calls as of rinit; collective. Closes all that is open. */
int R_VERB(rexit, rpipe_exit, (void));

/* 1 between the first rinit and the last rexit, else 0. */
int R_VERB(rinitialized, rpipe_initialized, (void));

/* The first of 2^20 contexts that belong to a name; a hash, the same in every process. NULL: 0. */
uint64_t R_VERB(rcontext, rpipe_context, (const char *name));

/* ---- streams: what the pipes of one thread have for themselves ---- */

/* From most to least; the names are those of table 3.2 of Zambre 2020. What a network cannot separate becomes less. */
typedef enum {
    RSTREAM_DYNAMIC = 0,    /* the default: a thread domain of the device */
    RSTREAM_EVERYWHERE,     /* a context of the device, as if the thread were a process */
    RSTREAM_2XDYNAMIC,      /* two thread domains, of which one is used */
    RSTREAM_SHARED_DYNAMIC, /* a thread domain for two streams */
    RSTREAM_STATIC,         /* queues in the domain of the process */
    RSTREAM_THREADS         /* what all threads share */
} rstream_share_t;

typedef struct rstream_config {
    rstream_share_t share; /* category; rinfo_describe of a pipe has the one that there is */
} rstream_config_t;

/* Opens a stream; cfg NULL: the default. Pipes, contexts and teams are opened in it with .stream; all of it belongs to one thread at a time. */
int rstream_open(rstream_t *stream, const rstream_config_t *cfg, size_t size);

/* -EBUSY: pipes, contexts or teams are open in it. rexit closes those that are left. */
int rstream_close(rstream_t stream);

/* For an object that opens pipes in the stream when it needs them: rstream_close is -EBUSY, with this name, until rstream_release. */
int rstream_hold(rstream_t stream, const char *name);

/* Ends one rstream_hold of the same name. */
int rstream_release(rstream_t stream, const char *name);

/* A line about the stream: what is open in it, and the category that it got of each backend, with the reason. */
int rstream_describe(rstream_t stream, char *text, size_t bytes);

/* ---- configuration of a pipe: flat; zero is the default of every member but role ---- */

#define R_FOREVER (-1) /* timeouts: no deadline */
#define R_AT_ONCE                                                                                  \
    (-2) /* timeout_ms of a structure: no waiting at all, since 0 is the default there */
#define RPIPE_WATERMARK_ALWAYS (-1) /* watermark: refresh the credits at every opportunity */
#define RPIPE_INLINE_NONE (-1)      /* inline_max: no payload travels in its slot */

#define RPIPE_THREADS 1u /* flags: several threads use this end; every call takes a lock */
#define RPIPE_HUGE_PAGES                                                                           \
    2u /* flags: put the heap into huge pages where this machine has free ones */

typedef enum {
    RPIPE_WRITER = 1, /* this end writes */
    RPIPE_READER = 2  /* this end reads */
} rpipe_role_t;

typedef enum {
    RPIPE_PUT = 0, /* the writer moves the payload; the reader has the heap */
    RPIPE_GET = 1  /* the reader moves the payload; the writer has the heap */
} rpipe_op_t;

/* Modes of synchronization: how freed memory returns to the writer. */
typedef enum {
    RPIPE_SYNC_DEFAULT =
        0, /* blocks with next-fit, tags otherwise; or the choice of the end that has the heap */
    RPIPE_SYNC_BLOCKS = 1, /* in the order of the messages, one word for all; next-fit only */
    RPIPE_SYNC_TAGS = 2,   /* in any order, fetched when the writer needs memory */
    RPIPE_SYNC_CHANNEL = 3 /* in any order, each at once */
} rpipe_sync_t;

/*
 * "Agreed": the end with the heap decides, 0 is its default. The other end leaves it at 0 and takes over the value, up
 * to its own ..._at_most, or gives the same value; a different one is -EPROTO. All other members are this end's own.
 */
typedef struct rpipe_config {
    rpipe_role_t role; /* RPIPE_WRITER or RPIPE_READER; must be given */
    int peer;          /* rank or peer number of the other end; may be this process */
    uint64_t context;  /* number of the pipe, below 2^61 or from rcontext; the same at both ends */
    rpipe_op_t op;     /* RPIPE_PUT or RPIPE_GET; the same at both ends */
    rmalloc_fit_t heuristic; /* agreed; which free block a request gets; default next-fit */
    rpipe_sync_t mode;       /* agreed; how freed memory returns; default as the heuristic allows */
    uint32_t unit_bytes; /* agreed; granularity of messages, a power of two, to 1 MiB; default 64 */
    uint64_t heap_bytes; /* agreed; bytes of the heap, to 2^31 units; default 1 MiB */
    uint64_t
        max_heap_bytes; /* agreed; bytes that a full heap may grow to; default: it does not grow */
    uint64_t
        heap_bytes_at_most; /* largest heap, growth included, taken over from the other end; default 1 GiB */
    uint32_t
        slots; /* agreed; messages written and not read, a power of two, to 65,536; default: RPIPE_SLOTS, else 64, over a network 512 */
    uint32_t slots_at_most; /* most slots taken over from the other end; default 65,536 */
    uint32_t
        sync_queue; /* agreed; tags, channel: heap messages written, not freed, to 2^24; default: units */
    uint32_t sync_queue_at_most; /* longest queue taken over from the other end; default 65,536 */
    int timeout_ms; /* deadline of calls, ms; R_FOREVER, R_AT_ONCE; default: RPIPE_TIMEOUT_MS */
    uint32_t flags; /* RPIPE_THREADS, RPIPE_HUGE_PAGES */
    int watermark; /* writer: percent in use that refreshes credits; RPIPE_WATERMARK_ALWAYS; 0: setting */
    int inline_max; /* writer: largest payload in its slot, to 40 bytes, RPIPE_INLINE_NONE; default 40 */
    uint32_t
        fetch_ahead; /* reader, GET over a network: messages fetched early; default of the backend */
    uint32_t grow_after_us; /* writer: us that a heap has been full before it grows; default 1000 */
    uint32_t max_messages;  /* messages that this end may own at a time; default 1,000,000 */
    uint32_t max_cqe;       /* entries of a completion queue; default of the backend */
    const char *
        backend; /* "shm", "verbs", "ofi", "tcp", "mpi"; same at both ends; default: the best that connects them */
    uint64_t seed; /* writer: start of the generator of random-fit; any number */
    const rmemory_ops_t
        *memory; /* the heap is memory of a device, at both ends; default: memory of the host */
    rstream_t stream; /* that this end is opened in; default: none */
} rpipe_config_t;

/* ---- pipe ---- */

/* Opens one end; does not wait for the peer. The same role at both ends is logged after a second. cfg is copied. */
int R_VERB(rpipe, rpipe_open, (rch_t * ch, const rpipe_config_t *cfg, size_t size));

/* Waits until both ends are joined, up to the deadline. */
int R_VERB(rwait, rpipe_wait, (rch_t ch));

/* Closes this end: what was written is delivered. Waits for transfers from regions only; -ETIMEDOUT: still open. */
int R_VERB(rclose, rpipe_close, (rch_t ch));

/* Sets the deadline of later calls, as timeout_ms of rpipe_config_t: 0 is the default. */
int R_VERB(rset_timeout, rpipe_set_timeout, (rch_t ch, int timeout_ms));

/* Error message of the last failure on ch, open or closed; NULL: of this thread in any call. Never NULL. */
const char *R_VERB(rerror, rpipe_error, (rch_t ch));

/* ---- pipes with neighbors: one out, one in for each; a halo exchange, or one bidirectional connection ---- */

#define R_NO_PEER (-1) /* rneighbor_t.peer: no neighbor on this side; out and in become NULL */
#define R_SIDES 1024   /* sides are below this number */

/* The library fills in out and in. The layout is final. Entries of a list differ in peer, side or opposite. */
typedef struct rneighbor {
    int peer; /* rank or peer number of the neighbor; may be this process, or occur several times */
    uint32_t side; /* which side of this process the neighbor is on: "east" = 0, "west" = 1 ... */
    uint32_t
        opposite; /* which side of the neighbor this process is on; a neighbor to the east has it in the west */
    uint32_t zero; /* 0 */
    rch_t out;     /* pipe to the neighbor: arrives there at side `opposite` */
    rch_t in;      /* pipe from the neighbor: what it sends from its side `opposite` */
} rneighbor_t;

/* Opens out and in of all entries; cfg is without role and peer. All or none. Does not wait for the neighbors. */
int R_VERB(rneighbors, rpipe_neighbors,
           (rneighbor_t * list, int n, const rpipe_config_t *cfg, size_t size));

/* Closes out and in of all entries and sets them to NULL. Returns the first failure; closes the others all the same. */
int R_VERB(rneighbors_close, rpipe_neighbors_close, (rneighbor_t * list, int n));

/* ---- messages ---- */

/* Sends the message d, which the reader owns afterwards. Waits for a slot. On failure the caller still owns d. */
int R_VERB(rwrite, rpipe_write, (rch_t ch, raddr_t d));

/* Sends the first bytes of d and frees the rest of the block. */
int R_VERB(rwrite_n, rpipe_write_n, (rch_t ch, raddr_t d, size_t bytes));

/* rwrite without waiting. R_PENDING: not sent. */
int R_VERB(rwrite_nb, rpipe_write_nb, (rch_t ch, raddr_t d));

/* Receives the next message, which the caller owns until rfree. Waits for it. size may be NULL. R_EOF: the end. */
int R_VERB(rread, rpipe_read, (rch_t ch, raddr_t *d, size_t *size));

/* rread without waiting. R_PENDING: no message yet. */
int R_VERB(rread_nb, rpipe_read_nb, (rch_t ch, raddr_t *d, size_t *size));

/* Sends a copy of bytes at buf as one message; buf may be reused at once. flags: 0 or R_NOWAIT. */
int R_VERB(rsend, rpipe_send, (rch_t ch, const void *buf, size_t bytes, int flags));

/* Copies the next message to buf and frees it. -EMSGSIZE: it has *bytes > room, and is still the next one. */
int R_VERB(rrecv, rpipe_recv, (rch_t ch, void *buf, size_t room, size_t *bytes, int flags));

/* A message as rtake hands it over. The layout is final. */
typedef struct rtaken {
    raddr_t d;     /* the caller's until rfree; ADDR_NULL: the payload is in `slot` */
    void *mem;     /* address of the payload: in memory of the pipe, or `slot` of this structure */
    size_t bytes;  /* of the payload */
    uint64_t tag;  /* the header of the message */
    char slot[40]; /* a payload that has travelled in its slot; undefined behind it */
} rtaken_t;

/* Sends a copy of bytes at buf as one message with this header; never waits. R_PENDING: not sent. */
int R_VERB(rpost, rpipe_post, (rch_t ch, const void *buf, size_t bytes, uint64_t tag));

/* rread_nb, with header and address; a payload from a slot is copied, and has no descriptor. R_PENDING: no message yet. */
int R_VERB(rtake, rpipe_take, (rch_t ch, rtaken_t *m));

/* Writer: gives an unsent message its header, one number; 0 unless set. */
int R_VERB(rset_tag, rpipe_set_tag, (rch_t ch, raddr_t d, uint64_t tag));

/* The header of a message that the caller owns. */
uint64_t R_VERB(rtag, rpipe_tag, (rch_t ch, raddr_t d));

/* Writer: waits until every message so far is visible to the reader, up to the deadline. */
int R_VERB(rflush, rpipe_flush, (rch_t ch));

/*
 * Writer, on: messages may be held and posted together, up to 32. They are posted at the latest when this thread waits in
 * any call, when a call returns R_PENDING to it, by rflush, rclose, and rcork with on = 0. No effect on mapped memory.
 */
int R_VERB(rcork, rpipe_cork, (rch_t ch, int on));

/* Progresses all pipes of this process; never needed for correctness. */
int R_VERB(rprogress, rpipe_progress, (void));

/* ---- waiting for many pipes ---- */

/* Sets ready[i] to 1 where rread(ch[i]) would not wait, else to 0. timeout_ms as in poll(2): 0, ms, R_FOREVER. */
int R_VERB(rpoll, rpipe_poll, (const rch_t *ch, int n, int *ready, int timeout_ms));

/* Reader: a descriptor for poll(2) and epoll(7), readable when rread would not wait. The library owns it. */
int R_VERB(rfd, rpipe_fd, (rch_t ch));

/* Writer: 0 if a message of size bytes, once it has memory, would be sent without waiting; else R_PENDING. */
int R_VERB(rroom, rpipe_room, (rch_t ch, size_t size));

/*
 * Lists ends in `context` that peers have opened and this process has not: role, peer, context, op of each are set, the
 * rest is 0, so that rpipe opens it. *seen starts at 0. Returns how many, at most `most`; 0: none since. Never waits.
 */
int R_VERB(rpending, rpipe_pending,
           (uint64_t context, uint64_t *seen, rpipe_config_t *list, int most, size_t size));

/* ---- regions: memory of the program that messages are sent from and received into without a copy ---- */

typedef struct rregion *rregion_t;

/*
 * Registers bytes at buf, which stay the program's, for every pipe. buf NULL: memory of ch itself, which writes; ch
 * NULL, too: memory of the library, which other processes of this host can map (windows).
 */
int rregion_open(rregion_t *region, rch_t ch, void *buf, size_t bytes);

/*
 * The same of memory of a device at buf: copy_out and copy_in of the table move its bytes, where no network reads them by itself. ch and
 * buf NULL: memory that alloc of the table makes, and rregion_close frees; other processes of this host can import it (windows). The table
 * stays in place until the region is closed.
 */
int rregion_open_device(rregion_t *region, rch_t ch, const rmemory_ops_t *memory, void *buf,
                        size_t bytes);

/* Ends the registration. -EBUSY: transfers are in flight; rdone() waits for them. Or windows of the region are open. */
int rregion_close(rregion_t region);

/* Address of the first byte; NULL: errno has the code. */
void *rregion_mem(rregion_t region);

/*
 * Sends a part of a region as one message. done may be NULL; *done becomes 0, then 1 when the bytes may be changed, or
 * negative if the reader will not receive them. *done stays in place until then. flags: 0 or R_NOWAIT.
 */
int R_VERB(rwrite_from, rpipe_write_from,
           (rch_t ch, rregion_t region, size_t offset, size_t bytes, uint64_t tag, int *done,
            int flags));

/* Receives the next message at offset. size and tag may be NULL. -EMSGSIZE: *size > room, still the next one. */
int R_VERB(rread_into, rpipe_read_into,
           (rch_t ch, rregion_t region, size_t offset, size_t room, size_t *size, uint64_t *tag,
            int flags));

/* Waits until *done is not 0; done NULL: until no transfer of this end is in flight. flags: 0 or R_NOWAIT. */
int R_VERB(rdone, rpipe_done, (rch_t ch, const int *done, int flags));

/* ---- cells: an array of 64-bit words in the memory of an owner, with atomic operations from another process ---- */

typedef struct rcells *rcells_t;

typedef enum {
    RCELLS_OWNER = 1, /* the cells are in the memory of this end */
    RCELLS_USER = 2   /* the cells are in the memory of the peer */
} rcells_role_t;

typedef enum {
    RCELLS_ADD = 0, /* adds operand, modulo 2^64; operand 0 reads */
    RCELLS_CAS,     /* stores operand if the cell equals compare */
    RCELLS_SWAP,    /* stores operand */
    RCELLS_AND,     /* combines bit by bit */
    RCELLS_OR,
    RCELLS_XOR
} rcells_op_t;

typedef struct rcells_config {
    rcells_role_t role; /* RCELLS_OWNER or RCELLS_USER; must be given */
    int peer;           /* rank or peer number of the other end; may be this process */
    uint64_t
        context; /* which of the cell arrays of this owner and this user; the same at both ends */
    uint64_t cells; /* number of cells, to 2^31; owner: default 512; user: default as the owner */
    uint64_t cells_at_most; /* user: most cells taken over from the owner; default 2^27 */
    rcells_t shared; /* owner: an open owner end of this process whose cells the new end has too */
    int timeout_ms;  /* deadline of calls, as in rpipe_config_t */
    uint32_t flags;  /* RPIPE_THREADS, RPIPE_HUGE_PAGES */
    const char *backend; /* as in rpipe_config_t */
} rcells_config_t;

/* Opens one end; does not wait for the peer. New cells are 0; they exist until the last end that has them is closed. */
int rcells_open(rcells_t *cells, const rcells_config_t *cfg, size_t size);

/* Operates on a cell, from 0. old: waits for the value before; NULL: does not wait, rcells_flush completes it. */
int rcells_atomic(rcells_t cells, rcells_op_t op, size_t cell, uint64_t operand, uint64_t compare,
                  uint64_t *old);

/* Waits until all operations of this end are done, up to the deadline. */
int rcells_flush(rcells_t cells);

/* The end as an argument of rwait, rset_timeout, rerror and rinfo_; it carries no messages (-EBADF). */
rch_t rcells_pipe(rcells_t cells);

/* Completes all operations and closes this end. */
int rcells_close(rcells_t cells);

/* ---- groups: pipes to many readers (scatter) or from many writers (redux) as one object ---- */

/*
 * A member is an index into the list of peers, from 0; it is stable and never used again. Peers open plain pipes, or
 * groups of their own. A peer that occurs several times has as many pipes: context, context + 1, ... The loss of a
 * member is reported once, as the error of one call; the others go on.
 */
typedef struct rgroup *rgroup_t;

#define RGROUP_NEXT (-1) /* rgroup_alloc: members in turn */
#define RGROUP_ANY                                                                                 \
    (-2) /* rgroup_alloc: the first member that has memory and a slot; all are served in turn */

typedef enum {
    RGROUP_SUM = 0, /* integers wrap */
    RGROUP_PROD,
    RGROUP_MIN, /* a number wins against a NaN */
    RGROUP_MAX,
    RGROUP_BAND, /* bit by bit; integers only */
    RGROUP_BOR,
    RGROUP_BXOR,
    RGROUP_LAND, /* truth values, result 0 or 1; integers only */
    RGROUP_LOR
} rgroup_op_t;

typedef enum {
    RGROUP_INT32 = 0,
    RGROUP_INT64,
    RGROUP_UINT32,
    RGROUP_UINT64,
    RGROUP_FLOAT,
    RGROUP_DOUBLE,
    RGROUP_INT8,
    RGROUP_INT16,
    RGROUP_UINT8,
    RGROUP_UINT16,
    RGROUP_FLOAT16,       /* IEEE 754 binary16; computed as float, and rounded */
    RGROUP_BFLOAT16,      /* the upper half of a float; so is it */
    RGROUP_COMPLEX_FLOAT, /* real and imaginary part; SUM and PROD only */
    RGROUP_COMPLEX_DOUBLE,
    RGROUP_INT32_INDEX, /* struct rgroup_int32_index, and so on; MIN and MAX only */
    RGROUP_INT64_INDEX,
    RGROUP_FLOAT_INDEX,
    RGROUP_DOUBLE_INDEX
} rgroup_type_t;

/* A value and where it is. Of equal values the one with the lower index is the result. */
struct rgroup_int32_index {
    int32_t value, index;
};
struct rgroup_int64_index {
    int64_t value, index;
};
struct rgroup_float_index {
    float value;
    int32_t index;
};
struct rgroup_double_index {
    double value;
    int64_t index;
};

/* into = into (operator) from; must not call functions of the group */
typedef void (*rgroup_function_t)(void *into, const void *from, size_t bytes, void *argument);

/* Opens a pipe for each of n peers, 1 to 65,536; peers NULL: ranks 0 to n - 1. cfg: role of this end, peer ignored. */
int rgroup_open(rgroup_t *group, const rpipe_config_t *cfg, const int *peers, int n, size_t size);

/* Waits until all members are joined, up to the deadline. */
int rgroup_wait(rgroup_t group);

/* Sets the deadline of the group and of its pipes, as timeout_ms of rpipe_config_t. */
int rgroup_set_timeout(rgroup_t group, int timeout_ms);

/* The pipe of a member, for rmem, rwrite, rfree and all others; NULL: no such member, or it is closed. */
rch_t rgroup_pipe(rgroup_t group, int member);

/* Members that are neither lost nor closed. */
int rgroup_count(rgroup_t group);

/* The member that the last failure was about, or -1. */
int rgroup_lost(rgroup_t group);

/* Writer: allocates a message of `to`: a member, RGROUP_NEXT or RGROUP_ANY; rwrite(rgroup_pipe(...), d) sends it. */
int rgroup_alloc(rgroup_t group, int to, size_t bytes, int *member, raddr_t *d, int flags);

/* Reader: the next message of any member, fair; rfree(rgroup_pipe(...), d) frees it. R_EOF: all have closed. */
int rgroup_read(rgroup_t group, int *member, raddr_t *d, size_t *size, int flags);

/* An operator of collectives (rcoll.h): into[i] = into[i] (op) from[i]; the arrays do not overlap. */
int rgroup_combine(void *into, const void *from, size_t count, rgroup_type_t type, rgroup_op_t op);

/* Closes all pipes; what was written is delivered. The group is gone, also when an error is returned. */
int rgroup_close(rgroup_t group);

/* ---- boards: memory that one of n ranks writes, and all ranks of its host read ---- */

/* A member is an index into the list of ranks, from 0. Each member writes its own memory. */
typedef struct rboard *rboard_t;

typedef struct rboard_config {
    uint64_t
        context; /* which of the boards of these ranks, below 2^61 or from rcontext; the same at all members */
    uint64_t bytes; /* of the memory of each member; the same at all members; default 4096 */
    int timeout_ms; /* deadline of rboard_wait, as in rpipe_config_t */
    uint32_t flags; /* RBOARD_GO_ON */
    const uint64_t *
        each; /* bytes of the memory of each of the n members, the same at all; NULL: all have `bytes` */
    uint64_t late,
        late_bytes; /* whole pages of each memory, from byte `late` on, that rboard_open does not allocate; the same at all */
} rboard_config_t;

#define RBOARD_GO_ON                                                                               \
    1u /* flags: the loss of a member does not end the waits of the others; see rboard_state */

/* A word of 32 bits, aligned, in the memory of any member, and the value that the caller has loaded from it. */
typedef struct rboard_word {
    const void *word;
    uint32_t seen;
} rboard_word_t;

/* Opens a board of n ranks, 1 to 65,536, this one among them; ranks NULL: 0 to n - 1. All open it; it does not wait. */
int rboard_open(rboard_t *board, const rboard_config_t *cfg, const int *ranks, int n, size_t size);

/* Waits until the memory of every member of this host is mapped, up to the deadline. */
int rboard_wait(rboard_t board);

/* Memory of this member: zero at first, page-aligned. NULL: board is NULL, or after rexit. */
void *rboard_mem(rboard_t board);

/* Memory of a member; NULL: not mapped yet, on another host, dead (but for RBOARD_GO_ON), or no such member. */
const void *rboard_mem_of(rboard_t board, int member);

/* Number of the host of a member: hosts are numbered from 0 in the order of their first members. -EINVAL: no such member. */
int rboard_host(rboard_t board, int member);

/* After a store to a word of the own memory: wakes the members that sleep on it. */
void rboard_wake(rboard_t board, const void *word);

/* The same for a word on which one member of this host alone sleeps. */
void rboard_wake_one(rboard_t board, const void *word, int member);

/*
 * Copies bytes of the private memory of a member of this host, at an address that this has passed: from its process, by one copy
 * (process_vm_readv(2)). -ENOTSUP: not permitted here, or RPIPE_CROSS is 0; -ECONNRESET: dead; -EPROTO: no such memory there, or left.
 */
int rboard_fetch(rboard_t board, int member, void *into, const void *from, size_t bytes);

/* Sleeps until one of n words, 1 to 64, has another value than seen. timeout_ms: ms, or R_FOREVER. */
int rboard_sleep(rboard_t board, const rboard_word_t *words, int n, int timeout_ms);

/* 0, or the code of the loss of a member of any host, which stays. member may be NULL. */
int rboard_lost(rboard_t board, int *member);

/* 0: nothing is wrong with this member; R_PENDING: not mapped yet; -ECONNRESET: dead; -EPIPE: left; another code: its failure. */
int rboard_state(rboard_t board, int member);

/* Reports a failure of this member, -1 to -4095, to all members: rboard_lost returns it there, and waits end. */
int rboard_fail(rboard_t board, int code);

/*
 * Sends a word to a member of any host, by the control network, and does not wait. A word that this member has not taken yet is replaced; one
 * that comes before it has opened the board is dropped. R_PENDING: too many messages wait for this member, the word is not sent.
 */
int rboard_post(rboard_t board, int member, uint64_t word);

/* Takes the word that has come first, and the member that has posted it. R_PENDING: there is none. */
int rboard_take(rboard_t board, int *member, uint64_t *word);

/* Closes the board here: all memory is unmapped. Does not wait for other members. */
int rboard_close(rboard_t board);

/* ---- control network: slow, reliable, for set-up ---- */

/* Rank of this process, from 0; -ENOTCONN outside of a job. */
int R_VERB(network_rank, rpipe_network_rank, (void));

/* Number of ranks of the job; -ENOTCONN outside of a job. */
int R_VERB(network_ranks, rpipe_network_ranks, (void));

/* Waits for all ranks; collective. */
int R_VERB(network_barrier, rpipe_network_barrier, (void));

/* Gathers `bytes` bytes of every rank at `all`, in the order of ranks; collective. */
int R_VERB(network_allgather, rpipe_network_allgather, (const void *mine, size_t bytes, void *all));

/* Sends bytes to a rank; may return before they are received. */
int R_VERB(network_send, rpipe_network_send, (int to, const void *buf, size_t bytes));

/* Receives the next message of a rank, which must have exactly so many bytes. */
int R_VERB(network_recv, rpipe_network_recv, (int from, void *buf, size_t bytes));

/* Ends all processes of the job with this exit status. */
void R_VERB(network_abort, rpipe_network_abort, (int code)) __attribute__((noreturn));

#pragma GCC visibility pop

/* A macro adds the size that a structure has in this header; see "Sizes" in rmalloc.h. */
#ifndef RPIPE_NO_SHORT_NAMES
#define rpipe(...) rpipe(__VA_ARGS__, sizeof(rpipe_config_t))
#define rneighbors(...) rneighbors(__VA_ARGS__, sizeof(rpipe_config_t))
#define rpending(...) rpending(__VA_ARGS__, sizeof(rpipe_config_t))
#else
#define rpipe_open(...) rpipe_open(__VA_ARGS__, sizeof(rpipe_config_t))
#define rpipe_neighbors(...) rpipe_neighbors(__VA_ARGS__, sizeof(rpipe_config_t))
#define rpipe_pending(...) rpipe_pending(__VA_ARGS__, sizeof(rpipe_config_t))
#endif
#define rstream_open(...) rstream_open(__VA_ARGS__, sizeof(rstream_config_t))
#define rcells_open(...) rcells_open(__VA_ARGS__, sizeof(rcells_config_t))
#define rboard_open(...) rboard_open(__VA_ARGS__, sizeof(rboard_config_t))
#define rgroup_open(...) rgroup_open(__VA_ARGS__, sizeof(rpipe_config_t))

#ifdef __cplusplus
}
#endif

#include <rwindow.h>

#endif
