/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path.h: how messages travel between the two ends of a pipe: one interface for mapped memory and for a connection.
 *
 * An end has one path from opening to release (path_open). On the mapped path the backend maps the other end's memory into this
 * process; the fast paths of rmalloc, rwrite, rread and rfree store and load it directly and do not come here. On the remote path a
 * connection carries the same words between mirrors (doc/protocol.md); such an end has STATE_REMOTE, so that its calls take the slow
 * path, but for a rmalloc that finds memory at once, and for rfree. The slow paths call these functions and do not distinguish the
 * paths.
 *
 * Functions that return int return 0, R_PENDING (try again later) or an error whose message is set (call_error).
 */
#ifndef RPIPE_END_PATH_H
#define RPIPE_END_PATH_H

#include "rpipe/end/rch.h"
#include "util/error.h"

struct placement;
struct write_arguments;

/* Why a writer needs credits. */
enum credit_need {
    NEED_SLOT,   /* no slot of the ring is left */
    NEED_SOON,   /* a watermark is reached */
    NEED_MEMORY, /* the heap has no block, or sync_queue messages are in flight */
};

/* Bytes that travel between memory here and a window of the other end's process, without a message (doc/windows.md). */
struct window_move {
    const struct btl_remote *remote;
    const rmemory_ops_t *there; /* the device that the window is memory of, imported; NULL: none */
    uint64_t at;
    char *near; /* memory here */
    size_t bytes;
    bool fetch; /* from the window; else into it */
    int *done;
    struct rregion *region;          /* that `near` is in; NULL: none, on mapped memory alone */
    const struct btl_memory *memory; /* where the path is remote: the registration of the region */
};

struct path_ops {
    uint32_t state; /* bits that every end on this path has: enum state */
    /* Stores of the other end wake this one. If not, waits back off, and signals of rfd are messages. */
    bool wakes;

    /* ---- opening and closing ---- */

    /* A connection and mirrors, or nothing. 0, or -errno and the reason. */
    int (*open)(struct rch *ch, struct error *err);
    const struct btl_address *(*address)(const struct rch *ch); /* for the handshake; NULL: none */
    int (*connect)(struct rch *ch, const struct btl_address *address, struct error *err);
    int (*connected)(struct rch *ch); /* can messages be sent? */
    /* Where memory of the other end is used by this one: its mapping, or a mirror, which is allocated if it is not yet. */
    int (*reach)(struct rch *ch, const struct btl_remote *remote, size_t bytes,
                 struct btl_memory *mirror, void **base, struct error *err);
    /*
     * GET over a network: the key of this end's memory into which the writer may write payloads of up to *most bytes; NULL: none, and
     * *most is left. The same of the other end, for a writer: attaches it.
     */
    const struct btl_key *(*eager_key)(const struct rch *ch, uint64_t *most);
    int (*eager_attach)(struct rch *ch, const struct btl_key *key, uint64_t most,
                        struct error *err);
    /* The key of memory here for the other end: 0, or -errno and an error message. NULL: memory->key. Any thread. */
    int (*key)(const struct rch *ch, const struct btl_memory *memory, struct btl_key *key,
               struct error *err);
    /* The other end's memory is attached: sets ring, credit line and reverse ring; *heap is where the other end's heap is. */
    void (*attached)(struct rch *ch, void **heap);
    /* The reader finds the number of messages where it polls for the next one. Before the close message. */
    void (*announce_final)(struct rch *ch, uint64_t final);
    /* Everything that this end has requested is complete. *since: 0 at the first attempt of a call. */
    int (*drain)(struct rch *ch, uint64_t *since);
    int (*drained)(struct rch *ch); /* the same for a closed end: without messages */
    /* The reason for a result of `drained`: returns the code. */
    int (*failure)(struct rch *ch, int code, struct error *err);
    void (*close)(
        struct rch *ch); /* nothing accesses memory of this end any more. May be called twice */
    void (*release)(struct rch *ch); /* after the other end's memory has been detached */

    /* ---- both sides ---- */

    int (*progress)(struct rch *ch);
    /* Has the path failed? As progress, but only where a failure has been noticed already. */
    int (*check)(struct rch *ch);
    void (*count)(struct rch *ch); /* refreshes ch->counts */
    void (*describe)(struct rch *ch, char *text, size_t bytes);
    /* The payload of a message in registered memory travels without a copy. */
    bool (*places)(const struct rch *ch);

    /* ---- writer ---- */

    /* Hands the message over: there is a free slot, and the descriptor is the user's. */
    int (*publish)(struct rch *ch, struct write_arguments *a, size_t bytes, uint64_t sent);
    /* Takes up what the reader has given back, or requests it. 0 also if nothing was given back. */
    int (*fetch_credits)(struct rch *ch, enum credit_need need);
    void (*signal)(struct rch *ch); /* event mode: makes the reader's descriptor readable */
    /* Posts the messages that are held. `more`: later ones may be held. */
    void (*hold)(struct rch *ch, bool more);
    /* Transfers from registered memory: are some in flight? Drives them. Gives them up: their words get `code`. */
    bool (*transfers_pending)(const struct rch *ch);
    int (*transfers_drive)(struct rch *ch);
    void (*transfers_abort)(struct rch *ch, int code);
    /* Moves the bytes, or posts their transfer: one of those above. Joined. R_PENDING: nothing has been done. */
    int (*move)(struct rch *ch, const struct window_move *m);

    /* ---- reader ---- */

    bool (*message_ready)(struct rch *ch); /* rread would not wait for a message. Joined */
    /* The writer is joined and has written, this end is not joined yet; its ring exists. */
    bool (*message_before_join)(struct rch *ch);
    bool (*next_size)(struct rch *ch,
                      size_t *size); /* of the next message; not validated. Joined */
    int (*take)(struct rch *ch, struct rdesc **d, size_t *size);
    uint64_t (*delivered)(const struct rch *ch); /* messages that rread has returned */
    /* The peer has closed: 1: every message has been read; 0: not yet, or it has not closed. Joined */
    int (*at_end)(struct rch *ch, uint32_t state);
    void (*release_block)(struct rch *ch, uint32_t block); /* channel mode: names a freed block */
    /* Where the next message is requested, until it is called with NULL; placed: the last one taken is there. */
    void (*want)(struct rch *ch, const struct placement *place);
    bool (*placed)(const struct rch *ch);
    int (*placements_drain)(struct rch *ch); /* no fetch into registered memory is in flight */
};

extern const struct path_ops path_mapped, path_remote;

/* Chooses the path by the backend's capabilities and opens it. 0, or -errno and the reason. */
int path_open(struct rch *ch, struct error *err);
/* For an end whose path is opened later: one that holds nothing. */
void path_none(struct rch *ch);

/* The writer is joined and has written, this end is not joined. An end that was opened to a peer that is gone has no ring. */
static inline bool path_message_before_join(struct rch *ch)
{
    return !ch->late && !ch->adopts && ch->ring != NULL && ch->path->message_before_join(ch);
}

#endif
