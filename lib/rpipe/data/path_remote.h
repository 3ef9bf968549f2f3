/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_remote.h: the path of an end whose backend does not map the other end's memory (doc/protocol.md).
 *
 * Such an end has a connection, and a mirror of every memory region of the other end that it uses: the same bytes at the same offsets.
 *
 *   path_remote.c           the connection: its state, its failure, progress
 *   path_remote_ops.c       opening, connecting, releasing; the table of operations
 *   path_remote_write.c     the writer: one `write` for each message
 *   path_remote_credit.c    the writer: one `get` for many credits
 *   path_remote_transfer.c  the writer: transfers from registered memory, and flushes, which prove that payloads are placed
 *   path_remote_window.c    the writer: bytes to and from windows of the peer, without a message
 *   path_remote_read.c      the reader: messages, and blocks that are given back (channel mode)
 *   path_remote_eager.c     GET: small payloads that are written with their slot
 *   path_remote_fetch.c     the reader of a GET pipe: payloads that are fetched ahead
 *   path_remote_drain.c     before closing: everything that this end has requested is complete
 *   path_monitor.c          connections that fail while no call is made
 *
 * A message on its way: write.c, path_remote_write.c, path_remote_credit.c where slots or memory are missing, the backend.
 * Each part of struct remote_path belongs to the file of its name.
 */
#ifndef RPIPE_DATA_PATH_REMOTE_H
#define RPIPE_DATA_PATH_REMOTE_H

#include "rpipe/end/path.h"
#include "rpipe/region/registration.h"

#include "util/cpu.h"

struct fetch;
struct region_transfer;
struct window_transfer;

/* Writer: the one refresh of credits that may be in flight. */
struct remote_credits {
    struct btl_done done;
    bool in_flight;           /* from the `get` until its result has been applied */
    int64_t not_before;       /* when the next refresh is worth a READ */
    int64_t backoff;          /* ns; the length of that pause */
    int64_t posted, previous; /* when the last refresh was posted, and the one before it */
    uint64_t reads;           /* operations, for the statistics */
    uint64_t fetched;         /* GET: payloads that the reader is known to have fetched */
};

/* Writer: messages whose payload is in registered memory, until the reader has it; oldest first. */
struct remote_transfers {
    struct region_transfer *entry; /* a ring; entry of number i: i modulo capacity */
    uint64_t first, end;           /* numbers of the oldest, and of the next one */
    uint32_t capacity;             /* a power of two; 0: not used yet */
    bool aborted;                  /* their words have been written */
};

/* Writer: transfers to and from windows of the peer, oldest first. */
struct remote_moves {
    struct window_transfer *entry; /* a ring, as above */
    uint64_t first, end;
    bool aborted; /* their words have been written */
};

/* Flushes prove that what was posted before them is placed in the peer's memory. */
struct remote_flushes {
    uint64_t placed;       /* messages that a flush has proved to be placed, */
    uint64_t mark;         /* and those that the one in flight will prove */
    uint64_t begun, ended; /* flushes; equal: none is in flight */
    uint64_t succeeded;    /* the last flush that has not failed */
    uint64_t last;         /* of a closed end: the flush that its close waits for */
};

/* Reader, GET: messages between their slot and rread, oldest first. */
struct remote_fetches {
    struct fetch *entry;
    uint32_t most, first, count; /* entries; the oldest one; in use */
    struct placement want;       /* where the next message is requested, while rread_into lasts */
    bool placed;                 /* the last message taken is where it was requested */
    struct key_cache *keys;      /* regions of the writer */
};

/* GET: payloads that are written into the reader's mirror of the heap with their slot, and not fetched. */
struct remote_eager {
    uint64_t
        most; /* bytes of such a payload; 0: none. Reader: what it permits; writer: within that */
    struct btl_remote mirror; /* writer: the reader's mirror */
};

/* Reader, channel mode: freed blocks that are named in the mirror of the reverse ring and not accepted by the backend yet. */
struct remote_releases {
    struct ring_cursor next; /* the oldest of them */
    uint64_t pending;
    bool watched; /* the service thread sends them if no call does */
};

/* An end of a thread changes it with each message: it has its lines alone, as the end itself. */
struct remote_path {
    _Alignas(CACHE_LINE) struct btl_connection *connection;
    struct btl_address address;                    /* own, for the handshake */
    struct btl_memory ring, credit, heap, reverse; /* mirrors */
    _Atomic int64_t
        failed_at;   /* when the connection was first seen to have failed; 0: it has not */
    bool woken;      /* reader: its descriptor has been made readable since; service thread */
    bool holding;    /* writer: the backend may hold writes (rcork) */
    uint64_t direct; /* payloads from or to registered memory without a copy */
    struct remote_credits credits;
    struct remote_transfers transfers;
    struct remote_moves moves;
    struct remote_flushes flushes;
    struct remote_fetches fetches;
    struct remote_eager eager;
    struct remote_releases releases;
};

/* Messages that rread has returned. */
static inline uint64_t remote_delivered(const struct rch *ch)
{
    return ch->r.nread - ch->remote->fetches.count;
}

/* For cells: the connection, and 8 bytes of local memory for a result. */
static inline struct btl_connection *remote_connection(const struct rch *ch)
{
    return ch->remote->connection;
}

static inline const struct btl_memory *remote_result(const struct rch *ch)
{
    return &ch->remote->credit;
}

int remote_progress(struct rch *ch); /* 0, R_PENDING (the connection is failing), or the error */
/* The connection has failed. R_PENDING while the end of the peer may still explain it; else the pipe fails. */
int remote_failed(struct rch *ch);
/* The connection has failed with this error: remaining time, in ns, in which a report of the peer's end may still explain it. */
int64_t remote_grace_ns(struct rch *ch, int error);
/* The error of the pipe whose connection has failed, -EIO unless it is of this process alone, and the message. */
int remote_reason(struct rch *ch, struct error *err);
/* Where [offset, offset + bytes) of the heap is: fills all of `t`. False: in no segment. */
bool remote_locate(struct rch *ch, uint64_t offset, uint64_t bytes, struct btl_transfer *t);
/* Channel mode: posts blocks that are still to be given back. True: all are with the backend. */
bool remote_releases_post(struct rch *ch);

/* ---- path_monitor.c ---- */
int path_monitor_start(void);   /* rinit: 0 or -ENOMEM */
void path_monitor_failed(void); /* a connection has failed; any thread */
void path_monitor_stop(void);   /* rexit */

#endif
