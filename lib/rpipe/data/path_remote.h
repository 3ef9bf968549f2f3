/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net.h: an end of a channel whose backend cannot map the other side's memory (doc/network.md).
 *
 * Such an end carries NOTICE_NET, so that every call takes the slow path, and a struct net. The code that stores into the other
 * side's memory, or loads from it, works on mirrors; here is what carries them.
 *
 *   net.c        the line and the mirrors: opening, connecting, driving, failing, releasing
 *   net_write.c  the writer: a message goes out, credits come in
 *   net_read.c   the reader: a message comes in, is fetched (GET), blocks are named (channel mode)
 *   net_watch.c  lines that fail while nobody calls
 */
#ifndef RPIPE_NET_H
#define RPIPE_NET_H

#include "rpipe/end/end.h"
#include "rpipe/region/region.h"

#define FETCH_AHEAD_DEFAULT 8
#define FETCH_AHEAD_MOST 256

/* A message that the reader of a GET pipe has taken from its slot; its payload is here when nothing is pending. */
struct fetch {
    struct rdesc *d;
    struct btl_done done;
    bool posted;                /* or there is nothing to fetch */
    bool asked;                 /* for the note about the writer's region */
    uint64_t region, at;        /* number of that, or 0; where in it the payload is */
    struct region_known *known; /* posted: what is fetched from; NULL: the heap */
    struct landing into;        /* posted: where it lands, if not in the mirror */
};

struct net {
    struct btl_line *line;
    struct btl_address address; /* own, for the half */
    /* of pieces of the other end: same size, same offsets */
    struct btl_piece ring, credit, heap, reverse;
    _Atomic int64_t failed_at; /* when the line was first seen to have failed; 0: it has not */
    bool woken;                /* reader: its descriptor has been made readable since; service thread */

    /* writer: the one look at the credits that is under way */
    struct btl_done credit_done;
    bool credit_under_way;
    int64_t credit_not_before;        /* how soon another one is worth it */
    int64_t credit_nap;               /* and how long that was, ns */
    int64_t credit_at, credit_before; /* when the last one was posted, and the one before it */
    uint64_t credit_reads;            /* operations, for the statistics */

    /* writer: transfers from regions that are not known to be over, oldest first (region_write.c) */
    struct flight *flight;
    uint64_t flight_first, flight_end; /* counted; place: modulo flight_room */
    uint32_t flight_room;              /* a power of two; 0: never used */
    bool given_up;                     /* their words are written */
    uint64_t flushed;                  /* messages that a flush has proved to be placed, */
    uint64_t flush_mark;               /* and those that one under way will */
    uint64_t flush_begun, flush_ended; /* flushes; equal: none is under way */
    uint64_t flush_last;               /* of net_settled: the one that a closed end waits for */
    uint64_t fetched;                  /* GET: as far as the reader is known to have fetched payloads */
    uint64_t direct;                   /* payloads from, or into, the program's memory without a copy */

    /* reader, GET: messages between slot and rread, oldest first */
    struct fetch *fetch;
    uint32_t fetch_most, fetch_first, fetch_count;
    struct landing want; /* of the next message, as long as a call of rread_into lasts */
    bool landed;         /* the last message taken lies where it was wanted */
    struct known *known; /* regions of the writer */
    uint64_t kicked;     /* reader, event mode: the highest number that the writer has kicked with; service thread */
};

/* ---- net.c ---- */
int net_open(struct rch *ch, char *why, size_t why_bytes); /* line and mirrors; nothing where memory is mapped */
void net_close_line(struct rch *ch);                       /* before any memory is given back */
void net_free_mirrors(struct rch *ch);                     /* after what they mirror has been detached */
int net_up(struct rch *ch);                                /* 0, R_PENDING, or it has failed */
int net_drive(struct rch *ch, const char *call);           /* progress; 0, R_PENDING (it fails), or the error */
int net_failed(struct rch *ch, const char *call); /* the line has: R_PENDING as long as the peer may be the reason */
/* The line has failed with this error: for how long, in ns, the control network may still say that the peer is the reason. */
int64_t net_news_ns(struct rch *ch, int error);
int net_reason(struct rch *ch, char *reason,
               size_t bytes); /* the line's error, -EIO where it has none, and the sentence */
/* Where [offset, offset + bytes) of the heap lies: fills remote, remote_offset, piece, offset. False: in no segment. */
bool net_locate(struct rch *ch, uint64_t offset, uint64_t bytes, struct btl_transfer *t);
/*
 * Everything that this end has asked for is done: 0, R_PENDING, or an error and its sentence. Before bye. since: the call's, 0 at
 * its first attempt. net_settled: of an end that is closed, without words, for the thread that the line belongs to.
 */
int net_settle(struct rch *ch, const char *call, uint64_t *since);
int net_settled(struct rch *ch);
int net_flush(struct rch *ch); /* as btl flush: 0, -EAGAIN, or an error */

/* ---- linger.c ---- */
void linger_begin(struct rch *ch, uint64_t final); /* closes it; bye follows */
void linger_end(int64_t deadline);                 /* rexit: waits for all */

/* ---- net_watch.c ---- */
void net_line_failed(void); /* some line has: any thread */
void net_watch_end(void);   /* rexit */

/* ---- net_write.c ---- */
int net_publish(struct rch *ch, const char *call, struct rdesc *d, size_t bytes, uint64_t sent,
                const struct region_source *from);
int net_credit_fetch(struct rch *ch, enum credit_need need);

/* ---- net_read.c ---- */
/* Drives the line. The next message is here, and what it needs has been fetched. */
bool net_message_there(struct rch *ch);
/* Takes it: 0, R_PENDING, or an error. */
int net_take(struct rch *ch, const char *call, raddr_t *d, size_t *size);
bool net_next_size(struct rch *ch, size_t *size);    /* of the next message, if its slot is here */
void net_name_block(struct rch *ch, uint32_t block); /* channel mode: heap_freed has been counted */
/* Nothing lands in the program's memory any more: 0, or R_PENDING. What has broken is not waited for: its region stays busy. */
int net_landings_end(struct rch *ch);

#endif
