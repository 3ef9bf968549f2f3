/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * am.h: a context of active messages, and its links, as everything in lib/am sees them.
 *
 * A link goes one way, from a requester to a target, and is two PUT channels: requests lie in the target's memory, replies
 * in the requester's. Who requests both ways has two links.
 *
 * Why no reply ever waits for a program: a requester has at most `credits` requests unanswered on a link, and a credit
 * comes back only when the reply to it has been freed. So there are never more than `credits` messages in the ring of
 * replies, nor more than `credits` blocks in its heap, each of which is one unit of the heap. Requests may wait, for a
 * credit or for memory, and whoever waits runs handlers meanwhile. Handlers do not nest.
 *
 * Both ends of the two channels of a link are opened, and closed, in pairs: the n-th of one belongs to the n-th of the other.
 * A link that has ended stays as it is, and is not read any more, until the user holds no memory of it.
 */
#ifndef AM_AM_H
#define AM_AM_H

#include "am/wire.h"

#include <ram.h>
#include <rinfo.h>
#include <rpipe.h>
#include <string.h>
#include <time.h>

#define AM_UNLIKELY(x) __builtin_expect((x), 0)
#define AM_LIKELY(x) __builtin_expect((x), 1)
#define AM_INLINE inline __attribute__((always_inline)) /* on the way of every message */
#define AM_SENTENCE_BYTES 512
#define AM_CREDITS_MAX 250
#define AM_ROUNDS 32 /* of a barrier: log2 of the ranks */

struct am_call { /* a request that somebody waits for */
    uint32_t token;
    enum { CALL_FREE, CALL_OUT, CALL_DONE } state;
    int result; /* CALL_DONE */
    bool
        has_credit; /* CALL_DONE: its credit comes back when it is asked for; else with a message that is kept */
    uint32_t next;    /* CALL_FREE: index of the next, or the number of calls */
    raddr_t d;        /* CALL_DONE: the reply in the channel, or ADDR_NULL: an empty one */
    struct wire wire; /* of d */
};

enum am_out_state {
    OUT_CLOSED,
    OUT_OPENING, /* the greeting has not gone yet */
    OUT_OPEN,
    OUT_RETIRING, /* has asked the target to close */
    OUT_ENDED,    /* waits for the user to give back what he holds */
};

struct am_out { /* a link to another; one per peer, made at the first request, and reused */
    int peer;
    enum am_out_state state;
    rch_t requests, replies; /* writer, reader; or NULL */
    uint32_t in_use;         /* credits */
    uint32_t unwaited;       /* requests that nobody waits for and that are unanswered */
    uint32_t calls_out;      /* calls in CALL_OUT */
    uint32_t
        held; /* replies and buffers in memory of the channels that the user, or a call, holds */
    uint32_t free_call;
    uint32_t endings; /* with an error */
    int code;         /* of the last, */
    char why[200];    /* and its sentence */
    bool active;      /* used since the last look at the clock */
    int64_t used;     /* ms; when it was found active last */
    struct am_call call[];
};

enum am_in_state {
    IN_OPENING,  /* the channel of replies could not be opened yet */
    IN_GREETING, /* nothing has come */
    IN_OPEN,
    IN_ENDED,
};

struct am_in { /* a link from another */
    int peer;
    enum am_in_state state;
    rch_t requests, replies; /* reader, writer */
    uint32_t unanswered;     /* requests, those that are due included */
    uint32_t due;            /* acknowledgements that have not gone */
    uint32_t held;
};

struct am_reader { /* whose channel it is: one of the two */
    struct am_out *out;
    struct am_in *in;
};

struct ram {
    struct am_out **out; /* by rank; NULL: never talked to */
    struct am_in **in;   /* by rank */
    int rank, ranks;
    uint32_t credits;
    bool in_handler;
    /* what is read: parallel arrays, in no order */
    rch_t *reading;
    struct am_reader *reader;
    int *ready;
    int readers, readers_room, cursor;
    uint32_t polls;
    uint32_t due;     /* acknowledgements, of all links */
    uint32_t opening; /* links that are not open yet, of both kinds */
    uint64_t seen;    /* of rpipe_pending */
    int64_t looked;   /* ms; at the clock, for links that are idle */
    ram_handler_t *handler;
    uint32_t nhandlers;
    struct wire_hello *hello;
    /* barrier */
    uint64_t epoch; /* of the barrier that this rank is in, or has left last */
    bool heard[2][AM_ROUNDS], heard_failed[2]; /* by epoch & 1 */
    int lost; /* the code with which requests that nobody waits for have been lost since ram_flush */
    rpipe_config_t request_cfg, reply_cfg;
    uint64_t reply_max;
    int timeout_ms;
    uint32_t max_links;
    int idle_ms; /* -1: never */
    ram_stats_t stats;
    char error_text[AM_SENTENCE_BYTES];
};

enum am_flag {                 /* of a message, in ram_internal */
               AM_REQUEST = 1, /* of a struct am_in; else a reply, of a struct am_out */
               AM_ANSWERED = 2,
               AM_KEPT = 4,
               AM_MOVED = 8, /* was kept: no longer the handler's */
               AM_BUFFER = 16,
};

/* Whoever waited has what he waited for: another request may have the call. */
static inline void am_call_free(struct am_out *out, struct am_call *call)
{
    uint32_t index = call->token & 0xff;

    if (call->has_credit)
        out->in_use--;
    call->state = CALL_FREE;
    call->token = (call->token + 0x100) | index; /* the next generation */
    if (AM_UNLIKELY(call->token < 0x100))
        call->token += 0x100; /* 0 is no token */
    call->next = out->free_call;
    out->free_call = index;
}

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

/* ---- context.c ---- */
int am_fail(struct ram *am, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));             /* = code */
int am_may_not_wait(struct ram *am, const char *call); /* the code: in a handler, or no context */
static inline bool am_may_wait(struct ram *am, const char *call, int *rc)
{
    if (AM_LIKELY(am != NULL && !am->in_handler))
        return true;
    *rc = am_may_not_wait(am, call);
    return false;
}

/* ---- out.c: links to others ---- */
/* The link, if requests can go now. R_PENDING, or an error. */
int am_out_get(struct ram *am, int peer, const char *call, struct am_out **found);
int am_out_tend(struct ram *am, struct am_out *out); /* goes on with opening */
/* One message: 1: a handler has run; 0; R_PENDING; or it has ended. */
int am_out_read(struct ram *am, struct am_out *out);
/* The same for what rpipe_read_nb has said, other than R_PENDING. */
int am_out_on_message(struct ram *am, struct am_out *out, int rc, raddr_t d, size_t size);
void am_out_end(struct ram *am, struct am_out *out, int code, const char *why);
int am_out_broken(struct ram *am, struct am_out *out,
                  int code); /* a call on its writer has failed: ends it; the code */
void am_out_release(struct ram *am, struct am_out *out); /* one thing less that is held */
void am_out_look_idle(struct ram *am, int64_t now);
void am_out_close(struct ram *am, struct am_out *out); /* channels only */

/* ---- in.c: links from others ---- */
void am_in_look(struct ram *am); /* accepts who has opened a link to us */
int am_in_tend(struct ram *am, struct am_in *in);
int am_in_on_message(struct ram *am, struct am_in *in, int rc, raddr_t d,
                     size_t size); /* as am_out_on_message */
void am_in_release(struct ram *am, struct am_in *in);
void am_in_close(struct ram *am, struct am_in *in);
void am_in_send_due(struct ram *am, struct am_in *in);
/* d: memory of the channel with the payload in it, or ADDR_NULL. Waits for the network, not for a program */
int am_in_answer(struct ram *am, struct am_in *in, const struct wire *w, const uint64_t *args,
                 const void *data, raddr_t d);

/* ---- message.c ---- */
static AM_INLINE void am_message_make(ram_message_t *m, int peer, const struct wire *w,
                                      const void *mem, void *link, raddr_t d, uint32_t flags)
{
    const char *args = (const char *)mem + w->bytes + wire_pad(w->bytes);

    m->peer = peer;
    m->handler = w->handler;
    m->nargs = w->nargs;
    m->zero = 0;
    m->data = (void *)(uintptr_t)mem;
    m->bytes = w->bytes;
    for (uint32_t i = 0; i < w->nargs; i++, args += sizeof(uint64_t))
        memcpy(&m->args[i], args, sizeof(uint64_t));
    m->internal = (struct ram_internal){link, d, w->token, flags, 0};
}
static AM_INLINE void am_message_run(struct ram *am, ram_message_t *m)
{
    const ram_handler_t *h = &am->handler[m->handler];

    am->in_handler = true;
    am->stats.handled++;
    h->run(am, m, h->arg);
    am->in_handler = false;
}
void am_message_finish(struct ram *am, ram_message_t *m); /* answers what has not been, and frees */
int am_message_unfit(struct ram *am, const char *call, size_t bytes, uint32_t handler,
                     const uint64_t *args, uint32_t nargs); /* the code, and the sentence */
static AM_INLINE bool am_message_fits(struct ram *am, const char *call, size_t bytes,
                                      uint32_t handler, const uint64_t *args, uint32_t nargs,
                                      const void *data, int *rc)
{
    if (AM_LIKELY(am != NULL && (handler < am->nhandlers || handler == WIRE_RESULT) &&
                  nargs <= WIRE_ARGS_MAX && (nargs == 0 || args != NULL) &&
                  (bytes == 0 || data != NULL)))
        return true;
    *rc = am_message_unfit(am, call, bytes, handler, args, nargs);
    return false;
}

/* Payload and arguments to their places. Most are a few words, for which a call of memcpy is long. */
static AM_INLINE void am_payload_put(void *mem, const void *data, size_t bytes,
                                     const uint64_t *args, uint32_t nargs)
{
    char *at = (char *)mem + bytes + wire_pad(bytes);

    if (bytes == sizeof(uint64_t) && data != NULL)
        memcpy(mem, data, sizeof(uint64_t));
    else if (bytes > 0 && data != NULL)
        memcpy(mem, data, bytes);
    for (uint32_t i = 0; i < nargs; i++, at += sizeof(uint64_t))
        memcpy(at, &args[i], sizeof(uint64_t));
}

/* ---- progress.c ---- */
int am_reader_add(struct ram *am, rch_t ch, struct am_out *out,
                  struct am_in *in); /* 0 or -ENOMEM */
void am_reader_remove(struct ram *am, rch_t ch);
int am_progress(struct ram *am, int most); /* handlers run */
void am_progress_others(struct ram *am,
                        bool all); /* in a call that waits: what others want; and all else */
void am_send_all_due(struct ram *am);
int am_progress_some(struct ram *am,
                     int most); /* the same, looking for some moments until a handler has run */
int am_pass_time(
    struct ram *am); /* until something may have come, or a millisecond; 0, or an error */

/* ---- request.c ---- */
int am_request(struct ram *am, struct am_out *out, const struct wire *w, const uint64_t *args,
               const void *data, raddr_t d,
               ram_request_t *r); /* the link is open; d: memory with the payload in it */
int am_request_wait(struct ram *am, int peer, const char *call, const struct wire *w,
                    const uint64_t *args, const void *data,
                    ram_request_t *r); /* waits until it can go; runs handlers meanwhile */

/* ---- barrier.c ---- */
int am_barrier_on_message(struct ram *am, uint64_t epoch, uint64_t round,
                          uint64_t failed); /* 0, or nonsense */

#endif
