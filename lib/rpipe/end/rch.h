/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rch.h: struct rch, one end of a pipe, and its parts.
 *
 * `state` selects between fast and slow paths: an end that is joined and in no other condition has exactly the value
 * WRITER_READY or READER_READY. Every other condition (not joined, closed by the peer, peer dead, failed, event mode, growth,
 * locked, checked, closed, forked) is one more bit and leads to the slow path. The service thread only sets bits, under the
 * rendezvous lock. Once the end is joined, the rest of the structure belongs to the user's thread.
 *
 * The memory of ends is type-stable: after rclose a handle stays recognizable as closed until another rpipe() takes it, so
 * that its use is an error and not a crash. An end is released when it is closed, no thread is in a call on it, and the
 * close message of the peer has arrived or the peer is gone (doc/protocol.md).
 */
#ifndef RPIPE_END_RCH_H
#define RPIPE_END_RCH_H

#include "alloc/desc.h"
#include "btl/btl.h"
#include "control/rendezvous.h"
#include "rpipe/end/config.h"
#include "rpipe/end/counts.h"
#include "sync/reclaim.h"
#include "sync/release.h"
#include "sync/slot.h"
#include "sync/slot_credit.h"
#include "sync/wait.h"

#include "util/list.h"

#include <pthread.h>
#include <rpipe.h>

struct heap;
struct rregion;
struct growth;
struct cells;
struct path_ops;
struct remote_path;
struct control_message;

enum state {
    STATE_WRITER = SIDE_WRITER,
    STATE_READER = SIDE_READER,
    STATE_JOINED = 0x004,
    STATE_PEER_CLOSED = 0x008, /* the peer has called rclose */
    STATE_PEER_DIED = 0x010,   /* the process of the peer has died */
    STATE_PEER_LEFT = 0x020,   /* the peer has called rexit and had not closed this pipe */
    STATE_FAILED = 0x040,      /* the pipe cannot be used any more; see `failure` and `reason` */
    STATE_EVENT = 0x080,       /* writer: signal after each slot; reader: rpipe_fd was called */
    STATE_LOCKED = 0x100,      /* opened with RPIPE_THREADS */
    STATE_DEBUG = 0x200,       /* RMALLOC_DEBUG=1 */
    STATE_CLOSED = 0x400,      /* rclose was called here */
    STATE_FORKED = 0x800,      /* the end belongs to the parent process */
    /*
     * Writer: the reader's handshake is attached, the own one may still be queued. The writer is joined only when its own
     * handshake is in the kernel: otherwise its death would lose what the reader needs to read the messages in the ring.
     */
    STATE_ATTACHED = 0x1000,
    STATE_GROW_REPLY = 0x2000, /* writer: a reply about growth has arrived; the writer clears it */
    STATE_REMOTE = 0x4000,     /* the peer's memory is not mapped (path.h) */
    STATE_CELLS = 0x8000,      /* a pipe of cells, without messages (cells.h) */
    STATE_EXITING = 0x10000,   /* a thread of this process is in rexit: all other calls end */
    STATE_TRACED = 0x20000,    /* RPIPE_TRACE */
    STATE_PEER_EXITING =
        0x40000, /* the peer is in rexit and has not opened its end: the two never join */
    STATE_DEVICE =
        0x80000, /* the heap is memory of a device (device.h): every call takes the slow path */
};
#define WRITER_READY (STATE_WRITER | STATE_JOINED)
#define READER_READY (STATE_READER | STATE_JOINED)
/* The same on the remote path: rmalloc and rfree, which use memory of this end alone, are short then, too. */
#define WRITER_READY_REMOTE (WRITER_READY | STATE_REMOTE)
#define READER_READY_REMOTE (READER_READY | STATE_REMOTE)

/* Besides the load of the wake word of the reader. Set by the service thread, before the state bit. */
enum after_slot { AFTER_FENCE = 1, AFTER_SIGNAL = 2 };

/*
 * How far rclose has come, for the other threads of an end with RPIPE_THREADS (close.c).
 * CLOSING_SETTLES: it waits for transfers of the program's memory, and no new one begins. It may still leave the pipe open.
 * CLOSING_ALONE: only the thread in rclose makes attempts: what it proves stays true until the close message.
 */
enum closing { CLOSING_NOT, CLOSING_SETTLES, CLOSING_ALONE };

struct writer {
    _Atomic uint64_t sent;    /* messages; stored before the slot ("begun" of the event protocol) */
    uint64_t allocated;       /* descriptors that the user owns */
    struct slot_credit slots; /* how many messages may be sent */
    _Atomic uint32_t after;   /* enum after_slot: what a slot is followed by, for rsend */
    struct reclaim blocks;    /* the heap, and blocks in flight. PUT: shadow of the reader's heap */
    struct rregion *regions;  /* regions in this heap (region.h), by .next */
    bool starved_sent;        /* the reader was sent that this end has waited for memory */
    bool lost; /* messages from regions were lost: the reader did not and will not get them */
};

/* Waits of a reader for its messages (rpipe/data/push.h). */
struct push_waits {
    uint64_t number;    /* of the message at the last wait that began after a block */
    uint64_t taken;     /* blocks that had been read then */
    uint32_t polls;     /* of the last wait */
    uint32_t row;       /* waits that were long, one after the other */
    uint32_t least;     /* polls of the shortest of these */
    uint32_t announced; /* push_below of the control line */
};

struct reader {
    uint64_t nread;      /* messages */
    char *heap_base;     /* where the heap is mapped in this process */
    uint64_t heap_bytes; /* of the first segment */
    uint64_t most;       /* most heap messages in flight: units of the heap, or sync_queue */
    uint32_t shift;      /* log2 of the bytes of a unit */
    rpipe_sync_t sync;
    struct release blocks; /* heap messages that were read, and how they are given back */
    uint64_t held;         /* messages that the user owns */
    uint64_t units_held;   /* units of the heap in those messages */
    struct heap *second;   /* RMALLOC_DEBUG: second instance of the heap (debug_check.h) */
    /* event mode */
    _Atomic uint64_t want; /* messages known to be in flight; set by the service thread */
    _Atomic bool acked;    /* the writer has acknowledged event mode */
    struct push_waits waits;
};

/* Memory of a device that a segment of the heap of an end is in (device.h). */
struct device_segment {
    char *base; /* allocated or imported by this end; NULL: none */
    size_t bytes;
    /* staged: memory of the host with the same bytes, which the network moves; else NULL */
    char *staging;
    char *why; /* staged: the reason; NULL: no memory for the text */
    bool imported;
    bool registered;                     /* the backend ends the memory */
    struct device_segment *_Atomic next; /* the heap has grown (grow.c) */
};

struct rch {
    /* first line: read by every call */
    _Atomic uint32_t state;
    uint32_t ring_mask; /* offset of the last slot in the ring: end_slot */
    uint32_t fences;    /* not 0: no membarrier between the two processes, fences are needed */
    uint32_t id;        /* owner of descriptors */
    struct ring_area *ring;
    struct credit_area *credit;
    struct desc_pool pool; /* writer: of inline messages; reader: of all */

    union {
        struct writer w;
        struct reader r;
    } __attribute__((aligned(CACHE_LINE)));

    /* rarely used */
    uint64_t units; /* of the heap */
    uint64_t stalls_queue;
    uint64_t bytes, credit_fetches, stalls_ring, stalls_heap,
        wakes __attribute__((aligned(CACHE_LINE)));
    _Atomic uint64_t sleeps; /* added by threads that hold no lock */
    struct counts counts;
    struct published_end published_end;
    uint32_t trace;         /* row of the trace (trace.h); 0: not traced */
    _Atomic int timeout_ms; /* rset_timeout, while other threads wait */
    size_t inline_max;      /* of rmalloc: min(configured, heap_bytes) */
    int peer;
    int event_fd;         /* reader: the descriptor that rpipe_fd returns; -1: none */
    int signal_fd;        /* makes event_fd readable; the writer has a duplicate; -1: none */
    bool event_plain;     /* no descriptor can be queued in event_fd */
    _Atomic int64_t died; /* when the peer was first seen dead; 0: it was not */
    const _Atomic uint32_t *liveness;
    _Atomic uint32_t own_wake; /* wake word of this end before it is joined */
    _Atomic uint32_t users;    /* threads in a slow path of an end with RPIPE_THREADS */
    pthread_mutex_t mutex;     /* RPIPE_THREADS */
    enum closing closing;      /* under the mutex */
    pthread_t closer;          /* CLOSING_ALONE: the thread */

    struct growth *growth;       /* grow.c; NULL: the heap does not grow */
    struct cells *cells;         /* cells.h; NULL: a pipe of messages */
    const char *cells_way;       /* how operations on cells are done, for rinfo_describe; or NULL */
    const struct path_ops *path; /* how messages travel (path.h) */
    struct remote_path *remote;  /* of the remote path (path_remote.h) */
    struct rremote *remotes;     /* attached windows of the peer (window.h), by .next */
    struct rstream *stream;      /* stream.h; NULL: none */
    struct link in_stream;       /* rstream.ends, until rclose */
    _Atomic(char *)
        stream_got;      /* what the stream got, for rinfo_describe; set once; NULL: not yet */
    bool stream_entered; /* RMALLOC_DEBUG: by the call that is inside this end */
    const void
        *cork_table; /* of the thread that has left messages in this end (cork.h); NULL: none has */
    bool corked;     /* writer: rcork */

    struct rendezvous_end end;
    /* allocated when the end is opened, so that closing never fails for lack of memory */
    struct control_message *close_message;
    uint64_t peer_final; /* of the peer's close message: messages that it has written, or read */
    int failure;         /* STATE_FAILED: the code */
    char *reason;        /* STATE_FAILED: the message; stored before the state bit */
    char *why;           /* why this backend was chosen; NULL: no memory for the text */
    char *error_text;    /* the last failure, for rpipe_error */
    bool no_error_memory;
    const char *_Atomic gone_call; /* the last call that found this end closed, or in no job */
    bool adopts;         /* it was opened without sizes: they are those of the other end */
    bool loss_reported;  /* a call on this end has returned that the peer is lost */
    bool starved_logged; /* reader: that the writer has waited for memory */
    bool late;           /* opened after the peer's close message: touches and sends nothing */
    bool peer_opened;    /* its handshake, without sizes, has come: its close message will, too */
    _Atomic bool
        never_joined_logged; /* a call has failed because the peer has not opened its end */
    bool checked;            /* RMALLOC_DEBUG=1 */
    const char *_Atomic inside, *_Atomic inside_call; /* debug_check.c: the thread, and its call */
    const struct call *polled_by; /* by that thread: the rpoll that has entered this end, or NULL */
    struct pipe_config cfg;       /* resolved: without defaults */
    const struct btl_ops *ops;
    struct btl *btl;
    struct btl_memory ring_memory, credit_memory, heap_memory, reverse_memory;
    struct btl_remote ring_remote, credit_remote, heap_remote, reverse_remote;
    struct device_segment device; /* the first segment of the heap */
    char *device_bounce;          /* of copies between memories of devices; NULL: none was made */
    struct rch *next_free;
    struct link deferred;      /* in the list of deferred_close.c */
    int64_t deferred_deadline; /* when deferred_close.c gives up */
    uint64_t own_final;        /* the number that the deferred close message carries */
};
static_assert(offsetof(struct rch, pool) + offsetof(struct desc_pool, chunks) < CACHE_LINE,
              "what every call reads is one line");

/* Where the slot of a message is in the ring; messages are counted from 0, or from job_first(). */
static FORCE_INLINE uint32_t end_slot_offset(const struct rch *ch, uint64_t number)
{
    return (uint32_t)number * (uint32_t)sizeof(struct slot) & ch->ring_mask;
}

static FORCE_INLINE struct slot *end_slot(const struct rch *ch, uint64_t number)
{
    return ring_slot_at(ch->ring, end_slot_offset(ch, number));
}

/* The word that this end sleeps on. */
static inline _Atomic uint32_t *end_wake_word(struct rch *ch, uint32_t state)
{
    if ((state & STATE_JOINED) == 0 || ch->ring == NULL)
        return &ch->own_wake;
    return (state & STATE_WRITER) != 0 ? &ch->ring->control.writer_wake
                                       : &ch->ring->control.reader_wake;
}

/*
 * Ends of different threads share no line: an end begins and ends on one. Within it the words that the fast path of each message
 * touches are apart from those that other threads store.
 */
static_assert(_Alignof(struct rch) == CACHE_LINE && sizeof(struct rch) % CACHE_LINE == 0,
              "an end has its lines alone");
static_assert(offsetof(struct rch, w) % CACHE_LINE == 0 &&
                  offsetof(struct rch, wakes) % CACHE_LINE == 0,
              "parts begin a line");
static_assert(offsetof(struct rch, bytes) / CACHE_LINE > offsetof(struct rch, pool) / CACHE_LINE &&
                  offsetof(struct rch, bytes) < offsetof(struct rch, wakes) &&
                  offsetof(struct rch, wakes) < offsetof(struct rch, sleeps) &&
                  offsetof(struct rch, sleeps) < offsetof(struct rch, counts) &&
                  offsetof(struct rch, counts) < offsetof(struct rch, published_end),
              "what waiting threads count is in no line of a call that does not wait");

/*
 * The heap of a writer, or NULL while it may not be used. `state` was loaded with acquire: the service thread makes the heap
 * of a PUT pipe, and ATTACHED or JOINED (never without ATTACHED before) shows that the heap is complete.
 */
static inline struct heap *writer_heap(const struct rch *ch, uint32_t state)
{
    bool made = ch->cfg.op == OP_GET || (state & (STATE_ATTACHED | STATE_JOINED)) != 0;

    return made ? ch->w.blocks.heap : NULL;
}

/* After a store that may end the peer's wait. */
static inline void wake_reader(struct rch *ch)
{
    if (UNLIKELY(wake_if_waiting(&ch->ring->control.reader_wake, ch->fences)))
        ch->wakes++;
}

static inline void wake_writer(struct rch *ch)
{
    if (UNLIKELY(wake_if_waiting(&ch->ring->control.writer_wake, ch->fences)))
        ch->wakes++;
}

#endif
