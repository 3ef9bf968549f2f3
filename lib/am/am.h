/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * am.h: the structures of active messages: a context, its links, and their calls.
 *
 * A link goes one way, from a requester to a target, and consists of two PUT pipes: requests are in memory of the target,
 * replies in memory of the requester. Two processes that both send requests have two links.
 *
 * A reply never waits for a program: a requester has at most `credits` unanswered requests on a link, and a credit returns
 * only when the reply has been freed. So at most `credits` messages are in the ring of replies, and at most `credits` blocks
 * in its heap, each of which is one unit of the heap. A request may wait for a credit or for memory; the call that waits
 * runs handlers meanwhile. Handlers do not nest.
 *
 * The two pipes of a link are opened and closed in pairs at both ends: the n-th incarnation of one belongs to the n-th of the
 * other. A link that has ended stays open, and is not read any more, until the program owns no memory of it.
 *
 * Modules, from the bottom: wire; fail, readers; link_out, link_in; message; receive_in, receive_out; connect; progress;
 * request, reply; buffer, wait, barrier; context.
 */
#ifndef AM_AM_H
#define AM_AM_H

#include "am/wire.h"
#include "util/one_thread.h"

#include <ram.h>
#include <rpipe.h>
#include <stdbool.h>
#include <time.h>

#define AM_UNLIKELY(x) __builtin_expect((x), 0)
#define AM_LIKELY(x) __builtin_expect((x), 1)
#define AM_INLINE inline __attribute__((always_inline)) /* on the path of every message */
#define AM_CREDITS_MAX 250
#define AM_ROUNDS 32 /* of a barrier: log2 of the ranks */

/* A request that ram_wait waits for. Its place in the array is the low byte of the token. */
struct am_call {
    uint32_t token;
    enum { CALL_FREE, CALL_OUT, CALL_DONE } state;
    int result; /* CALL_DONE */
    bool
        has_credit; /* CALL_DONE: the credit returns with this call, not with a message that is kept */
    uint32_t next;    /* CALL_FREE: index of the next free call, or the number of calls */
    raddr_t d;        /* CALL_DONE: the reply, in memory of the pipe; ADDR_NULL: an empty reply */
    struct wire wire; /* of d */
};

enum am_out_state {
    OUT_CLOSED,
    OUT_OPENING,  /* the greeting has not been sent */
    OUT_OPEN,     /* the greeting has been sent; requests follow */
    OUT_RETIRING, /* the target has been requested to close */
    OUT_ENDED,    /* closed as soon as the program owns no memory of it */
};

/* A link to a peer. One for each peer, allocated at the first request and reused. */
struct am_out {
    int peer;
    enum am_out_state state;
    rch_t requests, replies; /* writer, reader; or NULL */
    uint32_t in_use;         /* credits */
    uint32_t unwaited;       /* unanswered requests without a call */
    uint32_t calls_out;      /* calls in CALL_OUT */
    uint32_t held; /* replies and buffers in memory of the pipes, owned by the program or a call */
    uint32_t free_call; /* index of the first free call */
    uint32_t endings;   /* how often this link has ended by an error */
    int code;           /* code of the last such end */
    char why[200];      /* its message */
    bool active;        /* used since the last check for idle links */
    int64_t used;       /* time of the last check that found it active, ms */
    struct am_call call[];
};

enum am_in_state {
    IN_OPENING,  /* the pipe of replies is not open or not joined */
    IN_GREETING, /* no message has arrived */
    IN_OPEN,     /* the greeting has been accepted */
    IN_ENDED,    /* closed as soon as the program owns no memory of it */
};

/* A link from a peer. */
struct am_in {
    int peer;
    enum am_in_state state;
    rch_t requests, replies;     /* reader, writer; or NULL */
    uint32_t unanswered;         /* requests, those of `due` included */
    uint32_t due;                /* acknowledgements that have not been sent */
    uint32_t held;               /* messages and buffers owned by the program */
    struct wire_numbers numbers; /* of handlers, here and at the requester */
};

struct am_reader { /* owner of a pipe that is read: one of the two */
    struct am_out *out;
    struct am_in *in;
};

/* Counters, by the names that rinfo_counter() lists with scope "ram". */
struct am_counts {
    uint64_t requests, replies, handled, answered, bytes_out, bytes_in, stalls_credit,
        stalls_memory;
    uint64_t opened, accepted, retired, failed;
    uint64_t links_out, links_in, outstanding, kept; /* now */
};

struct ram {
    struct am_out **out; /* by peer; NULL: no request was sent yet */
    struct am_in **in;   /* by peer */
    int rank, ranks;
    uint32_t credits;
    bool in_handler;
    bool debug;                /* RMALLOC_DEBUG=1 */
    struct one_thread threads; /* debug */
    /* pipes that are read: parallel arrays, in no order */
    rch_t *reading;
    struct am_reader *reader;
    int *ready;
    int readers, readers_room, cursor;
    uint32_t polls;
    uint32_t due;     /* acknowledgements of all links */
    uint32_t opening; /* links in OUT_OPENING or IN_OPENING */
    uint64_t seen;    /* of rpending */
    int64_t checked;  /* time of the last check for idle links, ms */
    ram_handler_t *handler;
    uint32_t nhandlers;
    struct wire_hello *hello;
    /* barrier; arrays by epoch & 1 */
    uint64_t epoch;             /* of the barrier that this rank is in, or has left last */
    bool arrived[2][AM_ROUNDS]; /* the message of this round has arrived */
    bool arrived_failed[2];     /* a rank reports a failure */
    int lost; /* code of the last loss of requests without a call since ram_flush */
    rpipe_config_t request_cfg, reply_cfg;
    uint64_t reply_max; /* bytes of a reply, arguments included */
    int timeout_ms;     /* -1: none */
    uint32_t max_links; /* 0: no limit */
    int idle_ms;        /* -1: never */
    struct am_counts counts;
};

enum am_flag {                  /* of ram_message_t.internal.flags */
               AM_REQUEST = 1,  /* the link is a struct am_in; else a struct am_out */
               AM_ANSWERED = 2, /* answered, or its reply has been allocated */
               AM_KEPT = 4,     /* owned by the program */
               AM_MOVED =
                   8, /* the message of a handler that was kept: the program has a copy that owns it */
               AM_BUFFER = 16, /* allocated and not sent; bytes allocated: reserved[0] */
};

static inline void am_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

static inline int64_t am_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

#endif
