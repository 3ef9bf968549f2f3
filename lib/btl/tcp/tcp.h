/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp.h: the structures of the sockets backend (doc/tcp.md).
 *
 *   backend.c     the table of struct btl_ops: opening, closing, fork, memory of peers
 *   frame.h       the format of what a connection carries
 *   region.c      memory that a peer may access: every frame is checked against it
 *   queue.c       what a connection has to send; sends it
 *   request.c     requests of this end that have not been answered
 *   reply.c       requests of the peer that have not been answered
 *   held.c        reads of a socket that leave short messages in it for a while
 *   receive.c     reads frames, places them
 *   failure.c     the failure of a connection
 *   gather.c      sends writes together
 *   transfer.c    write, get, atomic, flush
 *   greeting.c    how a connection comes up: dialing, cookies
 *   listener.c    the listening socket and unauthenticated connections
 *   stream.c      what the connections of one thread share; stream_gather.c: and send together
 *   progress.c    drives connections, on threads of the user and on the service thread
 *   connection.c  connections as struct btl_ops
 *
 * Each connection is a TCP connection of its own. Lock order: btl.lock, the lock of a connection,
 * that of a region or of gathering; no two of a kind at once. A connection in a stream has the lock of
 * the stream in the place of its own (stream.h). Nothing waits with a lock held: every
 * call of a socket returns at once. Functions of queue.c, request.c, reply.c, held.c, receive.c,
 * failure.c, transfer.c and greeting.c run with the lock of the connection held.
 */
#ifndef BTL_TCP_TCP_H
#define BTL_TCP_TCP_H

#include "btl/btl.h"
#include "btl/slab.h"
#include "btl/tcp/frame.h"

#include "util/biased.h"
#include "util/cpu.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/list.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>

/* Words of struct btl_key. */
enum { KEY_REGION, KEY_OFFSET, KEY_BYTES, KEY_ACCESS };

#define TCP_DEPTH 64u           /* outstanding requests of an end, unless more are requested */
#define TCP_DEPTH_MOST 65536u   /* what a peer may announce */
#define TCP_QUEUE_BYTES 16384u  /* copied bytes that wait for the socket */
#define TCP_QUEUE_EXTENTS 64u   /* payloads by reference among them */
#define TCP_COPIED_MOST 512u    /* longer payloads are sent from where they are */
#define TCP_LARGEST_PART 88u    /* of a frame that is only read as a whole */
#define TCP_ALARM_ID UINT64_MAX /* btl.alarm, as epoll reports it */
/* Sent or read in one call, before other threads get the lock: 1 MiB, with its heads and the slot behind it. */
#define TCP_TURN_BYTES (((uint64_t)1 << 20) + 4096)

union tcp_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

/* ---- what a connection sends (queue.c) ---- */

/* Bytes that are sent from where they are, behind the copied bytes up to `at`. */
struct tcp_extent {
    uint32_t at;
    const char *local; /* memory of a write; or NULL: of a region */
    uint64_t region, offset;
    uint64_t bytes; /* what has not been sent yet */
};

/*
 * Copied bytes and extents, both from `first` to `end`; both start again at 0 when everything has
 * been sent.
 */
struct tcp_queue {
    uint32_t first, end;
    uint32_t first_extent, end_extent;
    uint64_t added, sent; /* all bytes there have been, of copies and extents */
    bool blocked;         /* the socket is full: epoll reports when it is not */
    char *bytes;          /* TCP_QUEUE_BYTES */
    struct tcp_extent extent[TCP_QUEUE_EXTENTS];
};

/* ---- requests ---- */

/* A request of this end that has not been answered. */
struct tcp_pending {
    enum tcp_code answer; /* the expected one */
    char *local;          /* where the data or the old value goes; or NULL */
    uint64_t bytes;       /* DATA */
    struct btl_done *done;
    uint64_t end; /* tcp_queue.added behind its frame: before that is sent, there is no answer */
};

/* A request of the peer that has not been answered. */
struct tcp_reply {
    enum tcp_code code;
    uint64_t region, offset, bytes; /* VALUE: the value is `offset` */
};

/* The bytes of a frame that are still to come. */
struct tcp_body {
    uint64_t rest;
    uint64_t region, offset; /* PUT */
    char *local;             /* DATA */
};

/* Bytes that have been read and processed, and that the socket still has (held.c). */
struct tcp_held {
    bool possible;    /* the kernel can do it */
    uint32_t shorts;  /* reads in a row that found one message */
    uint32_t last;    /* bytes of the last read that found something; 0: it has been counted */
    uint32_t slots;   /* that were among them */
    uint32_t bytes;   /* that are held */
    uint32_t reads;   /* that found them */
    uint32_t pending; /* reads behind these that found nothing */
    uint64_t added;   /* tcp_queue.added at the last read that found something */
};

enum tcp_stage {
    TCP_OPEN,     /* no socket: the address of the other end is not known, or no dial has come */
    TCP_DIALING,  /* connect() has not completed */
    TCP_GREETING, /* the greeting has been sent: its answer is awaited */
    TCP_GREETED,  /* a greeting has been received, but not the address of the other end */
    TCP_UP
};

struct btl_connection {
    _Alignas(CACHE_LINE) struct btl *btl; /* so no two of them share a line */
    struct btl_stream *stream;            /* NULL: none */
    pthread_mutex_t lock;                 /* without a stream: see stream.h */
    uint64_t id;                          /* in btl.connections */
    struct link link;                     /* btl.all */
    struct link rising;                   /* btl.rising, until the timer finds it up or failed */
    struct link waiting;                  /* btl.gathered or stream.gathered, if `gathered` */
    bool gathered;
    int peer;
    enum btl_role role;
    int fd;
    uint32_t events; /* those that epoll reports */
    enum tcp_stage stage;
    _Atomic bool up;
    _Atomic int error; /* 0 or -errno; set after the message */
    char failure[256];
    int64_t deadline; /* of coming up */
    int64_t dial_at;  /* TCP_OPEN, the connecting end: when it dials again */
    uint32_t dialed;  /* times that it has dialed */
    uint8_t cookie[TCP_COOKIE_BYTES];
    bool named; /* `name` is the address of the other end */
    struct tcp_name name;

    struct tcp_queue queue;
    uint8_t part[TCP_LARGEST_PART]; /* the beginning of a frame that has come in part */
    uint32_t part_bytes;
    struct tcp_body body;
    struct tcp_held held;

    uint32_t depth, peer_depth;  /* powers of two */
    struct tcp_pending *pending; /* [depth] */
    struct tcp_reply *reply;     /* [peer_depth] */
    uint64_t asked, answered;    /* requests of this end; modulo depth */
    uint32_t requested, replied; /* requests of the peer; modulo peer_depth */
    uint64_t placing;            /* `asked` behind the last flush or atomic */
    uint64_t flushing;           /* what the flush that goes on waits for; 0: none goes on */
    bool unflushed;              /* something was written behind the last flush */
    bool written;                /* the last call was a write: see progress_one() */
    uint32_t slots;              /* that have been placed, and that the user may not have seen */
    int64_t written_at;          /* end of the last write */
    uint32_t burst;              /* writes that followed each other closely */
    uint32_t unposted;           /* requests that no sendmsg has included yet */
    uint32_t hold_most;          /* writes that may stay in the queue (btl_ops.hold); 0: none */
    uint32_t holds;              /* writes since the last sendmsg, while that is not 0 */
    struct btl_counts counts;
};

/* An unauthenticated connection. */
struct tcp_arrival {
    struct link link; /* btl.arrivals: oldest first */
    uint64_t id;
    int fd;
    int64_t deadline;
    uint32_t bytes; /* of the greeting */
    struct tcp_greeting greeting;
};

/*
 * What threads that are not inside find of a stream without a lock. One that is not used any more stays, for the next stream: so all of them are
 * found without a lock, too. What is decided by it is checked with btl.lock.
 */
struct stream_hint {
    _Alignas(64) _Atomic int64_t driven_at; /* when its thread last made progress */
    _Atomic uintptr_t thread;               /* that one */
    _Atomic uint32_t gathered;              /* the length of btl_stream.gathered */
    _Atomic uint64_t id;                    /* of the stream; 0: none */
    struct stream_hint *next;               /* in btl.hints; does not change */
};

/* What the connections of one thread share (stream.h). */
struct btl_stream {
    struct biased lock; /* in the place of the locks of its connections */

    /* ---- inside ---- */
    _Alignas(64) int64_t passed_at; /* when its thread last asked epoll */
    int64_t read_at;                /* when it last read a short message */
    struct link gathered;           /* connections with writes that stay in their queues */
    struct stream_hint *hint;       /* its own */
    int epoll;

    /* ---- opening and closing: btl.lock ---- */
    _Alignas(64) struct btl *btl;
    uint64_t id;          /* in btl.stream_of, and as epoll reports its set */
    struct link link;     /* btl.streams */
    uint32_t connections; /* open ones, and 1 until the stream is closed */
};

struct tcp_regions; /* region.c */

struct btl {
    pthread_mutex_t lock;
    struct btl_host host;
    bool forked; /* in a child, where nothing may be accessed */
    int epoll, listener;
    bool listening;       /* epoll has the listener */
    struct tcp_name name; /* address and port of the listener */
    struct tcp_regions *regions;
    struct slab_pool *slabs;
    struct link all;         /* connections */
    struct hash connections; /* id → connection */
    struct link rising;      /* connections that are not up yet */
    struct link arrivals;
    struct hash arrival_of; /* id → arrival */
    size_t arrival_count, arrivals_most;
    uint64_t last_id; /* of connections, arrivals and streams */
    bool timer;       /* the timer of deadlines runs */
    struct link streams;
    struct hash stream_of;             /* id → stream */
    struct stream_hint *_Atomic hints; /* of streams: as many as there were at once */
    int alarm;                         /* wakes the service thread: see stream_gather.h */
    _Atomic bool sleeps;               /* until epoll has an event */
    _Atomic uintptr_t service_thread;  /* known before any connection is up */
    pthread_mutex_t gather_lock; /* of the four that follow; within the lock of a connection */
    struct link gathered;        /* connections with writes that stay in their queues */
    _Atomic uint32_t gathered_count;
    bool gather_timer;         /* the service thread sends them */
    bool gather_again;         /* not only the next time */
    _Atomic int64_t passed_at; /* when a thread of the user last asked epoll */
    _Atomic int64_t read_at;   /* when one last read a short message */
    _Atomic int64_t driven_at; /* when a thread of the user last made progress */
};

static inline int tcp_error_of(const struct btl_connection *c)
{
    return atomic_load_explicit(&c->error, memory_order_relaxed);
}

/* In the child of a fork: -ENOTCONN and an error message. */
static inline int tcp_check_fork(const struct btl *btl, struct error *err)
{
    if (!btl->forked)
        return 0;
    return error_set(err, -ENOTCONN,
                     "this process is the child of a fork; the sockets are its parent's");
}

#endif
