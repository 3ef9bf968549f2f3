/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * msg.h: the structures of messages by tag: a context, its links, requests, and messages that no receive has matched.
 *
 * A link to a peer consists of two PUT pipes, one in each direction. What this end sends goes through `out`, in order: its own
 * messages, and what it has to report about its receives. What a full ring cannot take is owed and goes first, later; messages that
 * cannot leave wait in the order of their sends.
 *
 * Memory. A message that no receive has matched stays in the memory of the pipe where it arrived. The greeting has a share of that
 * memory, counted in units; a sender that has used it up offers its messages (RTS) instead of sending them, until receives have
 * matched enough of the earlier ones (CREDIT). So at least half of the memory is free for parts of payloads, which are copied as
 * they arrive, and parts of 40 bytes need no memory at all: a receiver that does not receive makes senders wait, and no ring is ever
 * left unread.
 *
 * Modules, from the bottom: wire, match, places, pool, cell; fail; buffer, prepare; out; request; advertise, kept, serve; window; link; move,
 * direct; arrive; progress; send, receive; wait, probe, cancel; context.
 */
#ifndef MSG_MSG_H
#define MSG_MSG_H

#include "msg/cell.h"
#include "msg/match.h"
#include "msg/places.h"
#include "msg/pool.h"
#include "msg/wire.h"
#include "util/list.h"
#include "util/one_thread.h"

#include <rmsg.h>
#include <rpipe.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#define MSG_UNLIKELY(x) __builtin_expect((x), 0)
#define MSG_LIKELY(x) __builtin_expect((x), 1)
#define MSG_INLINE inline __attribute__((always_inline)) /* the way of a small message */

/* A send is QUEUED, then DONE; or QUEUED, OFFERED, MOVING, DONE; or QUEUED, MOVING, DONE. A receive is POSTED, then DONE; or POSTED, PROMISED, ARRIVING, DONE; or POSTED, ARRIVING, DONE. */
enum msg_state {
    MSG_INACTIVE, /* persistent, not started */
    MSG_QUEUED,   /* send: in link->waiting */
    MSG_OFFERED,  /* send: its RTS has left */
    MSG_MOVING,   /* send: in link->moving, or (with a cell or a window) in msg->sharing */
    MSG_POSTED,   /* receive: in msg->posted */
    MSG_PROMISED, /* receive: its message has come; the sender moves the payload when it has the RTR */
    MSG_ARRIVING, /* receive: parts or WRITTEN come, or (with a cell, or fetched from a window) in msg->sharing */
    MSG_DONE
};

/* A small message touches the first three lines alone. A request that is free is DONE or INACTIVE, is in no list and has no cell. */
struct msg_request {
    struct pool_item item;
    enum msg_state state;
    bool send, sync, persistent;
    bool abandoned;  /* the program does not wait for it any more: freed when it is done */
    bool advertised; /* receive: an RTR has left or is owed, and was not refused */
    bool wishing;    /* receive: in link->wishing, to be advertised */
    bool undoing;    /* receive: in link->undoing: complete with its message, or with UNDONE */
    bool
        blocking; /* of a call that may end before it: nothing is written into buf unless that call waits, nor fetched */
    int peer;     /* as the program gave it: may be RMSG_ANY_SOURCE */
    uint32_t space, tag;
    struct msg_link *link; /* of the message; receive: NULL until it is known */
    char *buf;             /* NULL: abandoned */
    size_t bytes;          /* of buf */
    /* line */
    struct match_node node; /* POSTED */
    /* line */
    rmsg_status_t status; /* DONE */
    size_t total, moved;  /* payload that moves as parts */
    struct msg_cell
        *cell; /* the payload moves in chunks that both ends copy (cell.h); NULL: as parts */
    struct msg_buffer
        *lent;      /* buf, as the network has it registered (buffer.h); NULL: it has not */
    uint32_t rtr;   /* advertised: number of the RTR */
    uint32_t other; /* MOVING: receive of the peer; PROMISED, or it was requested: its send */
    /* line */
    struct link queue;      /* waiting, moving, wishing, sharing */
    struct link undo_queue; /* undoing */
    uint64_t number;        /* OFFERED: of the message */
    uint64_t
        where; /* cell: address at the peer, or offset in `window`; send: 0 until it is known */
    uint64_t chunks; /* cell: of total */
    uint64_t held;   /* cell: chunk + 1 that was taken, and could not be copied yet; 0: none */
    /* line */
    uint64_t transfer,
        earlier;     /* numbers of the last two groups of fragments (direct.h); 0: none */
    uint32_t window; /* of the peer, written to or fetched from by the network; 0: none */
    uint32_t undo;   /* undoing: number in the UNDO */
    uint32_t cell_number;
    uint32_t unused[9];
};
static_assert(offsetof(struct msg_request, node) == POOL_LINE &&
                  offsetof(struct msg_request, status) == 2 * POOL_LINE &&
                  offsetof(struct msg_request, queue) == 3 * POOL_LINE &&
                  offsetof(struct msg_request, transfer) == 4 * POOL_LINE &&
                  sizeof(struct msg_request) == 5 * POOL_LINE,
              "lines of a request");

/* A message that no receive has matched, or that rmsg_mprobe has taken. */
struct msg_message {
    struct pool_item item;
    struct match_message match;
    struct msg_link *link;
    bool taken;     /* by rmsg_mprobe: not in msg->waiting */
    bool offered;   /* the payload is at the sender */
    bool consumed;  /* taken: its units were reported */
    uint32_t send;  /* offered: id there; 0: the link has ended */
    uint32_t cell;  /* offered: number + 1, or window; 0: as parts */
    uint64_t where; /* cell: address of the payload; window: offset in it + 1 */
    size_t bytes;   /* of the payload */
    raddr_t d;      /* in memory of the pipe, or ADDR_NULL */
    char slot[MSG_WIRE_SLOT_BYTES] __attribute__((aligned(8))); /* payload that came in a slot */
};

/* A block for the next message of a link (prepare.h). */
struct msg_prepared {
    raddr_t d;
    char *mem;
    size_t bytes;   /* 0: there is none */
    size_t fetched; /* bytes of it whose lines were fetched */
    size_t last;    /* of the last message that left through memory of the pipe */
};

struct msg_owed {
    uint64_t header;
    struct msg_wire_fields fields;
};

enum msg_link_state {
    LINK_CLOSED,
    LINK_OPENING, /* both pipes are open; a greeting is missing in a direction */
    LINK_OPEN,    /* messages may be sent */
    LINK_ENDED    /* for ever; the pipes stay open for what arrived before */
};

struct msg_link {
    struct rmsg *msg;
    int peer;
    enum msg_link_state state;
    bool greeted; /* the own greeting has left */
    int out_code; /* 0, or the code with which the pipe `out` has failed */
    int code;     /* ENDED */
    rch_t out, in;
    bool mapped; /* `out` is memory of this host */
    struct msg_prepared prepared;
    struct places places; /* of the peer's receives */
    uint64_t seen;        /* messages that have arrived */
    uint64_t out_units, out_consumed,
        out_share; /* messages sent; reported by the peer; its share */
    uint64_t in_units, in_consumed, in_reported; /* the other direction */
    uint64_t features;                           /* of the peer's greeting */
    struct msg_direct *direct;                   /* over a network (buffer.h); NULL: no windows */
    uint32_t part_bytes;                         /* largest part that the peer takes */
    uint32_t starved;    /* attempts in a row to send a part for which there was no memory */
    uint32_t advertised; /* own receives with an RTR at the peer */
    uint32_t rtr;        /* number of the last RTR */
    uint32_t offered;    /* messages of the peer that wait here, and whose payload is there */
    struct link waiting, moving;  /* sends */
    struct link wishing, undoing; /* receives */
    struct msg_owed *owed;        /* a ring */
    uint32_t owed_first, owed_count, owed_room;
    struct link busy; /* in msg->busy: something is owed, waits or moves */
    /* memory of the process of the peer (window.h) */
    rwindow_t window; /* to this process; NULL: none */
    rremote_t remote; /* of the peer; NULL: none */
    uint64_t probe;   /* an address there that can be read while its context is open */
    bool ready;       /* cells may be used for sends */
    bool unreachable; /* the peer has ended its link, or is gone; `in` does not report it yet */
    int64_t unreachable_until;             /* ns: if it is not reported until then, the link ends */
    struct msg_cell *out_cells, *in_cells; /* for sends of this end; of the peer */
    uint32_t cells_used;                   /* bits */
    struct msg_request *cell_of[MSG_CELLS]; /* NULL: its send has completed */
    char why[200];                          /* ENDED */
};

/* What rtake has handed over is not needed any more. */
static inline void msg_taken_free(const struct msg_link *l, const rtaken_t *m)
{
    if (MSG_UNLIKELY(m->d != ADDR_NULL))
        (void)rmalloc_free(l->in, m->d);
}

/* Counters, by the names that rmsg(7) lists. */
struct msg_counts {
    uint64_t sent_slot, sent_heap, sent_placed, sent_offered, moved_for_rtr, moved_for_cts;
    uint64_t received_posted, received_waiting, received_placed, received_offered;
    uint64_t rtr_sent, rtr_stored, rtr_dropped, rtr_refused, undone, parts, bytes_out, bytes_in;
    uint64_t sent_shared, chunks_written, chunks_fetched;
    uint64_t written, fetched, received_written, registered, windows, prepared;
    uint64_t links, failed, posted, waiting; /* now; failed: since rmsg_open */
};

struct rmsg {
    int rank, ranks;
    bool debug;             /* RMALLOC_DEBUG=1 */
    pid_t process;          /* that has opened it */
    uint64_t context;       /* number of the program */
    struct msg_link **link; /* by peer; NULL: nothing was sent or received yet */
    struct match_posted posted;
    struct match_waiting waiting;
    struct pool requests, messages;
    struct link busy;           /* links with something to send */
    struct msg_link *preparing; /* (prepare.h); NULL: none */
    struct link
        sharing;      /* requests whose payload is moved by a cell, or by windows over a network */
    rregion_t memory; /* of this process; NULL: none */
    /* pipes that are read: parallel arrays, in no order */
    rch_t *reading;
    struct msg_link **reader;
    int *ready;
    int readers, readers_room, cursor;
    uint32_t turns, opening;
    uint64_t pending; /* of rpending */
    uint32_t eager_most, advertise_least;
    uint64_t share;
    uint32_t wishing; /* receives that are to be advertised, of all links */
    int lost; /* code of the death of a peer that no receive from any source has reported yet */
    int lost_peer;
    int timeout_ms; /* -1: none */
    struct msg_wire_hello hello;
    rpipe_config_t in_cfg, out_cfg;
    struct msg_counts counts;
    struct one_thread threads; /* debug */
};

/* Its call returns at a deadline, and the buffer is the program's again. */
static inline bool msg_request_may_end(const struct rmsg *msg, const struct msg_request *r)
{
    return r->blocking && msg->timeout_ms >= 0;
}

static inline int64_t msg_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline void msg_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

#endif
