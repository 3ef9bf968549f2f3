/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * end.h: one end of a channel, as everything in lib/rpipe sees it.
 *
 * `notice` says what the fast paths have to know: an end that is joined, and nothing else, has exactly the value
 * WRITER_READY or READER_READY; everything that needs a second look (not joined, closed by the peer, dead, failed, event
 * mode, growth, a lock, checks, closed, forked) is one more bit, and leads to the slow path. The service thread only ever
 * or-s bits in, under the lock of the exchange store; the rest of the structure, once joined, belongs to the user's thread.
 *
 * Memory of ends is type-stable: after rclose a handle is remembered as closed until another rpipe() takes it, so that
 * using it is an error and not a crash. An end is released, and may be taken again, when it is closed, nobody is inside
 * a call, and the peer has said bye or is gone (doc/protocol.md "Joining and parting").
 */
#ifndef RPIPE_END_END_H
#define RPIPE_END_END_H

#include "alloc/desc.h"
#include "alloc/heap.h"
#include "control/rendezvous.h"
#include "btl/btl.h"
#include "observe/record/counter.h"
#include "observe/record/publish.h"
#include "observe/record/trace.h"
#include "sync/block_table.h"
#include "sync/slot.h"
#include "sync/tag.h"
#include "sync/wait.h"
#include "util/error.h"

#include <pthread.h>
#include <rpipe.h>

#define PROTOCOL_VERSION 3u

enum side { SIDE_WRITER = 1, SIDE_READER = 2 };

enum state {
    STATE_WRITER = SIDE_WRITER,
    STATE_READER = SIDE_READER,
    STATE_JOINED = 0x004,
    STATE_PEER_CLOSED = 0x008, /* the peer has closed in order */
    STATE_PEER_DIED = 0x010,   /* the peer has died */
    STATE_PEER_LEFT = 0x020,   /* the peer has left the job in order, without having closed this */
    STATE_FAILED = 0x040,      /* `failure` says how; the channel is of no more use */
    STATE_EVENT = 0x080,       /* writer: kick after every slot; reader: rpipe_fd has been called */
    STATE_LOCKED = 0x100,      /* opened with thread_sync */
    STATE_DEBUG = 0x200,       /* RMALLOC_DEBUG=1 */
    STATE_CLOSED = 0x400,
    STATE_FORKED = 0x800, /* belongs to the parent process */
    STATE_ATTACHED =
        0x1000, /* writer: the reader's half is attached; joined once the own half is with the kernel, so that a
                              writer that dies after its first message has not taken along what the reader needs to read it */
    STATE_REMOTE =
        0x4000, /* the other side's memory is not mapped here: every call takes the slow path (path_remote.h) */
    STATE_CELLS = 0x8000,    /* an ATOMIC pipe: cells, no messages (cells.h) */
    STATE_EXITING = 0x10000, /* a thread of this process is in rexit: calls of all others end */
    STATE_TRACED = 0x20000,  /* RPIPE_TRACE */
    STATE_GROW_REPLY =
        0x2000, /* writer: an answer about growth is there; the writer's own calls clear it */
};
#define WRITER_READY (STATE_WRITER | STATE_JOINED)
#define READER_READY (STATE_READER | STATE_JOINED)

struct writer {
    _Atomic uint64_t sent; /* messages; stored before the slot: "begun" of the event protocol */
    uint64_t limit;        /* `sent` may come up to here: slots read, as far as known, + slots */
    uint64_t look_at;      /* look for credits when `sent` gets here (watermark) */
    struct heap *heap;     /* PUT: the shadow of the reader's heap; GET: the own heap */
    struct rdesc *oldest,
        *newest; /* block mode: blocks sent and not known to be freed, in the order of their slots, by .link */
    uint64_t heap_sent, heap_applied; /* heap messages: sent; known to be freed */
    uint64_t
        heap_limit; /* `heap_sent` may come up to here: heap_applied + sync_queue; block mode: no bound */
    uint64_t units_out;              /* of blocks sent and not known to be freed */
    uint64_t units_look;             /* look for credits when units_out gets here (watermark) */
    struct block_table table;        /* tag and channel mode: those blocks, by index */
    struct ring_cursor back;         /* and where the next one that comes back will be named */
    struct slot *reverse;            /* channel mode: our ring of freed blocks */
    uint64_t look_slots, look_units; /* watermark in slots, in units */
    uint64_t allocated;              /* descriptors that the user owns */
    struct rregion *regions;         /* of this heap (region.h), by .next */
    uint32_t parts_out; /* messages out that are parts of those: not blocks of the heap */
    bool lost; /* of messages from regions: some that the reader has not got, and will not */
};

struct reader {
    uint64_t nread;      /* messages */
    char *heap_base;     /* where the messages lie, as mapped here */
    uint64_t heap_bytes; /* of the first segment */
    uint64_t most;  /* heap messages that can be outstanding: units of the heap, or sync_queue */
    uint32_t shift; /* log2 of the bytes of a unit */
    rmalloc_sync_t sync;
    struct rdesc *oldest,
        *newest; /* block mode: heap messages read and not in the credit line yet, in order, by .next */
    uint64_t heap_read, heap_freed; /* heap messages: read; told to the writer as free */
    struct ring_cursor
        back;             /* tag and channel mode: where the next one that is freed will be named */
    struct slot *reverse; /* channel mode: the writer's ring of freed blocks */
    uint64_t held;        /* messages that the user owns */
    uint64_t units_held;  /* of the heap, in them */
    struct heap *second;  /* RMALLOC_DEBUG: the heap as the reader sees it (debug_check.c) */
    /* event mode */
    _Atomic uint64_t want; /* items that are known to be under way; service thread */
    _Atomic bool acked;
};

struct rch {
    /* first line: every call */
    _Atomic uint32_t state;
    uint32_t whose; /* of a descriptor that this end's user owns: desc_owned_by(id) */
    uint32_t mask;  /* slots - 1 */
    bool fences;    /* no membarrier between the two processes */
    struct ring_area *ring;
    struct credit_area *credit;
    struct desc_pool pool; /* writer: of inline messages; reader: of all */

    union {
        struct writer w;
        struct reader r;
    } __attribute__((aligned(CACHE_LINE)));

    /* seldom */
    uint32_t id;    /* owner of descriptors */
    uint64_t units; /* of the heap */
    uint64_t stalls_queue;
    uint64_t bytes, credit_fetches, stalls_ring, stalls_heap,
        wakes __attribute__((aligned(CACHE_LINE)));
    _Atomic uint64_t sleeps; /* counted by a thread that holds no lock */
    struct counts counts;
    struct published_end published_end;
    uint32_t trace; /* row of the trace; 0: it is not traced (trace.h) */
    int timeout_ms;
    uint32_t inline_max; /* of rmalloc: min(configured, alloc_size) */
    uint32_t slots;
    int peer;
    int event_fd;  /* reader: what rpipe_fd returns; or -1 */
    int signal_fd; /* makes it readable; the writer has a duplicate; or -1 */
    int64_t died;  /* when the peer was first seen dead; 0: not */
    const _Atomic uint32_t *liveness;
    _Atomic uint32_t own_wake; /* sleeps of this end before it is joined */
    _Atomic uint32_t users;    /* threads inside a slow path of an end with thread_sync */
    pthread_mutex_t mutex;     /* thread_sync */

    struct growth *growth;      /* grow.c; NULL: the heap does not grow */
    struct cells *cells;        /* cells.h; NULL: a pipe of messages */
    struct remote_path *remote; /* path_remote.h; NULL: the other side's memory is mapped */

    struct rendezvous_end end;
    struct control_message *
        close_message; /* which must not be kept back by want of memory: it tells that ours is not used any more */
    uint64_t peer_final; /* the peer's bye: how many messages it has written, or read */
    int failure;         /* STATE_FAILED: the code */
    char *
        reason; /* STATE_FAILED: the sentence; written before the notice, by the service thread too */
    char *why;            /* this backend, and not another one; NULL: no memory for it */
    char *error_text;     /* the last failure, for rpipe_error */
    bool no_error_memory; /* there was no memory for it */
    bool late;            /* opened after the peer's bye: touches nothing, says nothing */
    bool checked;         /* RMALLOC_DEBUG=1 */
    rmalloc_config_t cfg; /* settled: no defaults left */
    const struct btl_ops *ops;
    struct btl *btl;
    struct btl_memory ring_memory, credit_memory, heap_memory, reverse_memory;
    struct btl_remote ring_remote, credit_remote, heap_remote, reverse_remote;
    struct rch *next_free;
    struct link
        deferred; /* deferred_close.c, with its deadline, and the number that bye will carry */
    int64_t deferred_deadline;
    uint64_t own_final;
};
static_assert(offsetof(struct rch, w) == CACHE_LINE, "what every call reads is one line");

/* ---- open.c ---- */
int end_close(struct rch *ch,
              bool force); /* force: also where transfers from the program's memory are not over */

/* ---- end_pool.c: memory of ends ---- */
struct rch *end_pool_take(void);           /* zero, STATE_CLOSED */
void end_pool_put(struct rch *ch);         /* released: may be taken again */
struct rch *end_pool_next(size_t *cursor); /* every end there ever was */
void end_pool_publish(void);               /* shows those of an earlier job */
void end_pool_forked(void); /* in the child of a fork, before anything is stored into an end */

/* ---- job.c ---- */
uint64_t job_first(void);  /* where numbers of messages, laps and so on begin (RPIPE_FIRST) */
bool job_is_open(void);    /* between rinit and rexit, in this process */
bool job_was_opened(void); /* since rinit, for ever: the settings are what rinit has found */
int job_refuses(const char *call); /* 0, or -ENOTCONN and the sentence why `call` cannot be made */

/* ---- observe.c ---- */
/* rpipe_observe of an open file; why: a sentence, where it cannot be used */
int observe_missing(int pid, int rc); /* what the search has said: the code, and a sentence */
int observe_file(int fd, int (*row)(const rpipe_observed_t *row, void *argument), void *argument,
                 const char **why);

/* ---- config.c ---- */
int config_resolve(const rmalloc_config_t *cfg, rmalloc_config_t *resolved, int ranks,
                   struct error *err);
enum side config_side(const rmalloc_config_t *cfg);
const char *config_op_name(int op);
const char *config_sync_name(int sync);
const char *config_algorithm_name(int algorithm);

/* ---- error.c ---- */
void last_error_set(const char *format, ...)
    __attribute__((format(printf, 1, 2))); /* for calls without a channel */
const char *last_error_get(void);
int end_error(struct rch *ch, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4))) NOINLINE; /* = code */
/* "rpipe 0→1 ctx 3", in a buffer of the calling thread */
const char *end_name(const struct rch *ch);

/* ---- join.c: halves, byes ---- */
int join_open(struct rch *ch); /* registers, joins if the other half is there, posts the own half */
bool join_make_close(struct rch *ch); /* false: no memory */
void join_set_closed_locked(struct rch *ch);
void join_post_close_locked(struct rch *ch, uint64_t final);
void join_close(struct rch *ch,
                uint64_t final); /* after CLOSED: posts bye, releases what can be released */
void join_message(int from, uint32_t type, const void *body, size_t bytes, const int *fds,
                  int nfds);
void join_peer_gone(int rank, bool died);
void join_tick(void);  /* ends in event mode: has the peer died? */
void join_leave(void); /* rexit: every open end is LEAVING, and who waits at it looks */
int join_ask_events(struct rch *ch);                 /* passes ch->signal_fd to the writer */
int join_complete(struct rch *ch, int64_t deadline); /* writer, MET → JOINED; R_PENDING */
void join_fail(struct rch *ch, int code,
               const char *reason);                /* FAILED here, and told to the peer */
void join_signal(struct rch *ch, uint64_t number); /* writer over a network, event mode */
void end_state_set(struct rch *ch,
                   uint32_t bits); /* ors them in, and wakes who waits at this end */
/* What the peer has pending with us, for a deadline's sentence: never NULL. Buffer of the calling thread. */
const char *join_pending(const struct rch *ch);
void join_release_if_done(struct rch *ch); /* takes the store's lock */
/* The same with the store's lock held. The end may be gone after join_release_locked. */
void join_fail_locked(struct rch *ch, int code, const char *reason);
void join_release_locked(struct rch *ch);

/* ---- event.c ---- */
void event_watch(
    int change); /* +1, -1: ends in event mode; while there are any, the service thread ticks */
bool event_drain(struct rch *ch, bool joined);

/* ---- message types ---- */
enum message {
    MESSAGE_HANDSHAKE = 64,
    MESSAGE_CLOSE,
    MESSAGE_FAIL,
    MESSAGE_EVENT_ON,
    MESSAGE_EVENT_ACK,
    MESSAGE_BTL,
    MESSAGE_GROW,
    MESSAGE_GROWN,
    MESSAGE_SIGNAL,
    MESSAGE_ATOMIC,
    MESSAGE_ATOMIC_DONE,
    MESSAGE_CLOCK, /* trace_clock.c */
    MESSAGE_CLOCK_TOLD
};

/* ---- call.c: what every slow path needs ---- */
int end_check_call(struct rch *ch, const char *call,
                   enum side side); /* NULL, closed, forked, wrong end: the code */
int end_check_peer(struct rch *ch, const char *call,
                   uint32_t state); /* joined end: peer gone, failed: code or 0 */
bool end_peer_died(const struct rch *ch, uint32_t state);
const char *end_death_reason(
    const struct rch *ch); /* ": its host ...", or "" where nothing is known; for sentences */
int end_no_descriptor(struct rch *ch, const char *call, uint64_t held);
void end_signal(struct rch *ch); /* makes the reader's descriptor readable */

typedef int (*attempt)(struct rch *ch,
                       void *arguments); /* 0, R_PENDING: wait and try again, or an error */
/* What a call waits for; the attempt may change it. */
struct awaited {
    const char *what; /* for the sentence of the deadline: "no WHAT within 100 ms" */
    int64_t slice;    /* ns to sleep at most before the next attempt; 0: WAIT_SLICE_MS */
};
/* Tries until something other than R_PENDING, or the deadline. Takes the lock around each attempt where there is one. */
int call_wait(struct rch *ch, const char *call, const struct awaited *awaited, attempt try,
              void *arguments);
int call_once(struct rch *ch, attempt try, void *arguments);

static inline _Atomic uint32_t *end_wake_word(struct rch *ch, uint32_t state)
{
    if ((state & STATE_JOINED) == 0 || ch->ring == NULL)
        return &ch->own_wake;
    return (state & STATE_WRITER) != 0 ? &ch->ring->control.writer_wake
                                       : &ch->ring->control.reader_wake;
}

/*
 * The heap of a writer, if it may be used. `notice` has been loaded with acquire: on a PUT channel the service thread
 * makes the heap, and only MET, or JOINED, which is never there without having been MET, says that it is complete.
 */
static inline struct heap *writer_heap(const struct rch *ch, uint32_t state)
{
    bool made = ch->cfg.allocator.op == RDMA_GET || (state & (STATE_ATTACHED | STATE_JOINED)) != 0;

    return made ? ch->w.heap : NULL;
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

/* ---- credit.c: the writer's view of the credit line ---- */
int credit_open(struct rch *ch); /* the books of blocks that are out; 0 or -ENOMEM */
void credit_close(struct rch *ch);
void credit_rescale(struct rch *ch); /* the heap has grown */
enum credit_need {
    NEED_SLOT,   /* what stands in the way is the ring */
    NEED_SOON,   /* nothing yet (watermark) */
    NEED_MEMORY, /* the heap, or the bound on messages outstanding (sync_queue) */
};
int credit_fetch(struct rch *ch,
                 enum credit_need need); /* 0, or -EPROTO: what the reader says cannot be */
int credit_apply(
    struct rch *ch); /* over a network: all that the mirror says; not while it is being fetched */
int credit_take_named(
    struct rch *ch); /* over a network: blocks that the reader has named in this end's own memory */

/* ---- read.c ---- */
bool reader_message_before_join(
    struct rch *ch); /* the writer is joined and has written, this end is not joined yet */
bool reader_message_ready(struct rch *ch);       /* rread would not wait for one. Joined */
uint64_t reader_delivered(const struct rch *ch); /* messages that rread has returned */
/* Takes the message of a slot that is complete, and that nobody changes, out of the ring. */
int read_take(struct rch *ch, const char *call, const struct slot *s, raddr_t *d);

/* ---- write.c ---- */
/* A block has been handed over: one more is out. */
static FORCE_INLINE void writer_count_block(struct writer *w, struct rdesc *d)
{
    d->state = DESC_SENT;
    if (w->table.entry == NULL) {
        d->link = NULL;
        if (w->newest != NULL)
            w->newest->link = d;
        else
            w->oldest = d;
        w->newest = d;
    }
    w->heap_sent++;
    w->units_out += d->units;
    if (UNLIKELY(w->units_out >= w->units_look))
        w->look_at = 0; /* behind this message */
}
int write_unalloc(struct rch *ch, struct rdesc *d); /* rfree of the writer */

/* ---- debug_check.c: RMALLOC_DEBUG ---- */
int debug_check_open(struct rch *ch); /* reader: 0 or -ENOMEM */
int debug_check_read(struct rch *ch,
                     struct rdesc *d); /* overlap with a message that is held: -EPROTO */
void debug_check_freed(struct rch *ch, struct rdesc *d);
void debug_check_grow(struct rch *ch, uint64_t bytes);
void debug_check_release(struct rch *ch);
void debug_check_heap(struct rch *ch); /* aborts with a sentence: our own books are broken */
/*
 * For tests that have both ends in one process: what the writer's shadow holds free must be free in the reader's instance;
 * at rest, when everything written has been read, both must be the same. 0, or -EUCLEAN and a sentence.
 */
int debug_check_compare(struct rch *writer, struct rch *reader, bool at_rest, struct error *err);

#endif
