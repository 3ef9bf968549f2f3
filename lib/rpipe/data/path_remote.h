/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_remote.h: an end of a channel whose backend cannot map the other side's memory (doc/network.md).
 *
 * Such an end carries STATE_REMOTE, so that every call takes the slow path, and a struct net. The code that stores into the other
 * side's memory, or loads from it, works on mirrors; here is what carries them.
 *
 *   path_remote.c        the line and the mirrors: opening, connecting, driving, failing, releasing
 *   path_remote_write.c  the writer: a message goes out, credits come in
 *   path_remote_read.c   the reader: a message comes in, is fetched (GET), blocks are named (channel mode)
 *   path_monitor.c  lines that fail while nobody calls
 */
#ifndef RPIPE_DATA_PATH_REMOTE_H
#define RPIPE_DATA_PATH_REMOTE_H

#include "rpipe/end/end.h"
#include "rpipe/region/region.h"
#include "util/error.h"

#define FETCH_AHEAD_DEFAULT 8
#define FETCH_AHEAD_MOST 256

/* A message that the reader of a GET pipe has taken from its slot; its payload is here when nothing is pending. */
struct fetch {
    struct rdesc *d;
    struct btl_done done;
    bool posted;                  /* or there is nothing to fetch */
    bool asked;                   /* for the note about the writer's region */
    uint64_t region, at;          /* number of that, or 0; where in it the payload is */
    struct cached_key *key_cache; /* posted: what is fetched from; NULL: the heap */
    struct placement into;        /* posted: where it lands, if not in the mirror */
};

struct remote_path {
    struct btl_connection *connection;
    struct btl_address address; /* own, for the half */
    /* of pieces of the other end: same size, same offsets */
    struct btl_memory ring, credit, heap, reverse;
    _Atomic int64_t failed_at; /* when the line was first seen to have failed; 0: it has not */
    bool woken; /* reader: its descriptor has been made readable since; service thread */

    /* writer: the one look at the credits that is under way */
    struct btl_done credit_done;
    bool credit_under_way;
    int64_t credit_not_before;        /* how soon another one is worth it */
    int64_t credit_backoff;           /* and how long that was, ns */
    int64_t credit_at, credit_before; /* when the last one was posted, and the one before it */
    uint64_t credit_reads;            /* operations, for the statistics */

    /* writer: transfers from regions that are not known to be over, oldest first (region_write.c) */
    struct region_transfer *region_transfer;
    uint64_t transfer_first, transfer_end; /* counted; place: modulo transfer_capacity */
    uint32_t transfer_capacity;            /* a power of two; 0: never used */
    bool aborted;                          /* their words are written */
    uint64_t flushed;                      /* messages that a flush has proved to be placed, */
    uint64_t flush_mark;                   /* and those that one under way will */
    uint64_t flush_begun, flush_ended;     /* flushes; equal: none is under way */
    uint64_t flush_last; /* of remote_drained: the one that a closed end waits for */
    uint64_t fetched;    /* GET: as far as the reader is known to have fetched payloads */
    uint64_t direct;     /* payloads from, or into, the program's memory without a copy */

    /* reader, GET: messages between slot and rread, oldest first */
    struct fetch *fetch;
    uint32_t fetch_most, fetch_first, fetch_count;
    struct placement want;       /* of the next message, as long as a call of rread_into lasts */
    bool placed;                 /* the last message taken lies where it was wanted */
    struct key_cache *key_cache; /* regions of the writer */
    uint64_t
        signaled_number; /* reader, event mode: the highest number that the writer has kicked with; service thread */
};

/* ---- path_remote.c ---- */
int remote_open(struct rch *ch,
                struct error *err);       /* line and mirrors; nothing where memory is mapped */
void remote_close(struct rch *ch);        /* before any memory is given back */
void remote_free_mirrors(struct rch *ch); /* after what they mirror has been detached */
int remote_state(struct rch *ch);         /* 0, R_PENDING, or it has failed */
int remote_progress(struct rch *ch,
                    const char *call); /* progress; 0, R_PENDING (it fails), or the error */
int remote_failed(
    struct rch *ch,
    const char *call); /* the line has: R_PENDING as long as the peer may be the reason */
/* The line has failed with this error: for how long, in ns, the control network may still say that the peer is the reason. */
int64_t remote_grace_ns(struct rch *ch, int error);
int remote_reason(
    struct rch *ch,
    struct error *err); /* the line's error, -EIO where it has none, and the sentence */
/* Where [offset, offset + bytes) of the heap lies: fills remote, remote_offset, piece, offset. False: in no segment. */
bool remote_locate(struct rch *ch, uint64_t offset, uint64_t bytes, struct btl_transfer *t);
/*
 * Everything that this end has asked for is done: 0, R_PENDING, or an error and its sentence. Before bye. since: the call's, 0 at
 * its first attempt. remote_drained: of an end that is closed, without words, for the thread that the line belongs to.
 */
int remote_drain(struct rch *ch, const char *call, uint64_t *since);
int remote_drained(struct rch *ch);
int remote_flush(struct rch *ch); /* as btl flush: 0, -EAGAIN, or an error */

/* ---- deferred_close.c ---- */
void deferred_close_begin(struct rch *ch, uint64_t final); /* closes it; bye follows */
void deferred_close_finish(int64_t deadline);              /* rexit: waits for all */

/* ---- path_monitor.c ---- */
void path_monitor_failed(void); /* some line has: any thread */
void path_monitor_stop(void);   /* rexit */

/* ---- path_remote_write.c ---- */
int remote_publish(struct rch *ch, const char *call, struct rdesc *d, size_t bytes, uint64_t sent,
                   const struct region_source *from);
int remote_credit_fetch(struct rch *ch, enum credit_need need);

/* ---- path_remote_read.c ---- */
/* Drives the line. The next message is here, and what it needs has been fetched. */
bool remote_message_ready(struct rch *ch);
/* Takes it: 0, R_PENDING, or an error. */
int remote_take(struct rch *ch, const char *call, raddr_t *d, size_t *size);
bool remote_next_size(struct rch *ch, size_t *size); /* of the next message, if its slot is here */
void remote_release_block(struct rch *ch,
                          uint32_t block); /* channel mode: heap_freed has been counted */
/* Nothing lands in the program's memory any more: 0, or R_PENDING. What has broken is not waited for: its region stays busy. */
int remote_placements_drain(struct rch *ch);

#endif
