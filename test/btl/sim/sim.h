/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim.h: a network inside one process that does to the layers above all that btl.h allows, and more of it than a real one.
 *
 * What is accepted is queued, and carried out later, step by step: each step reads or stores a part of a payload or a word of a
 * slot, and which one is next is drawn. Steps are taken by any caller of progress or flush, and by the service thread. So the words
 * of a slot arrive in any order, slots of different writes overtake each other, sources are read late, and so are fetched
 * words. What a program must not do ends it with an error message: near memory that changes too early, memory that is
 * given back while it is in use, transfers beyond a region. Memory that has been given back cannot be touched.
 *
 *   RPIPE_SIM_SEED=N       what is drawn
 *   RPIPE_SIM_MODE=words   calm: nothing waits, and nothing is refused without need; order: one operation of a line after the other;
 *                          lazy: progress does nothing, only the service thread; target: sets BTL_TARGET_PROGRESS; scribble:
 *                          what a get will overwrite is spoiled at once; incoherent: atomics are not atomic with the processor's;
 *                          byzantine: near memory may change early, since a peer that reports what is not so makes this side do it;
 *                          down: no connection ever comes up, and so other processes are peers too: nothing is transferred
 *   RPIPE_SIM_ATOMICS=all|cas|none
 *   RPIPE_SIM_FAIL=N       the N-th operation of a connection breaks it
 *   RPIPE_SIM_BREAK=N      the same, after it has been accepted; -N: of connections that accept, those of readers
 *   RPIPE_SIM_ERROR=N      with this errno (EIO)
 *   RPIPE_SIM_DEFECT=N     a defect of enum sim_defect, for tests of tests
 *
 * Invariant: everything below is under btl.lock. It is no branch of the layers above: they see the capabilities of sim.c.
 */
#ifndef TEST_BTL_SIM_SIM_H
#define TEST_BTL_SIM_SIM_H

#include "btl/btl.h"

#include "util/hash.h"
#include "util/list.h"
#include "util/error.h"

#include <pthread.h>

#define SIM_CHUNKS 16 /* parts of a payload, or of what is fetched */
#define SIM_SLOT_BYTES 64
#define SIM_DEPTH 64

enum sim_defect {
    DEFECT_NONE,
    DEFECT_FLAG_FIRST,     /* the flag does not wait for the payload */
    DEFECT_TAIL,           /* the bytes beyond the last whole word stay behind */
    DEFECT_SLOT_WORD,      /* now and then a word of a slot is forgotten */
    DEFECT_DONE_EARLY,     /* complete before it has arrived */
    DEFECT_FLUSH_EARLY,    /* flush checks what is queued first, not all */
    DEFECT_IDLE,           /* no progress while the program does not call */
    DEFECT_REFUSED_DONE,   /* -EAGAIN, and yet it is carried out */
    DEFECT_STALE_GET,      /* what is fetched was read when the region was attached */
    DEFECT_ATOMIC_TORN,    /* two atomics at once lose one */
    DEFECT_ATOMIC_NEW,     /* the new value comes back, not the old one */
    DEFECT_CLOSE_TOUCHES,  /* a btl_done is touched after connection_close */
    DEFECT_CONNECTS_ALONE, /* up, though the other end is gone */
    DEFECT_SLOT_PASSES     /* a slot does not wait for payloads that were written before it */
};

struct sim_piece {
    uint64_t id;
    uint8_t *base;
    size_t bytes;
    uint32_t access;
    void *map; /* NULL: memory of the caller */
    size_t map_bytes;
    unsigned near, far,
        attached;     /* outstanding operations from or to it here; by the peer; attachments */
    uint8_t *stale;   /* DEFECT_STALE_GET */
    struct link link; /* quarantine */
};

struct sim_draw {
    uint64_t state;
};

struct btl {
    pthread_mutex_t lock;
    struct btl_host host;
    struct sim_draw draw;
    bool calm, order, lazy, scribble, incoherent, byzantine, down;
    uint32_t atomics;
    uint64_t fail_at, break_at;
    bool break_accepting; /* not those that connect */
    int error;            /* of both */
    enum sim_defect defect;
    bool armed, closing; /* the service thread will call; must not be asked to any more */
    uint64_t last_id;
    struct hash pieces, lines; /* by id */
    struct link
        quarantine; /* regions that were given back: their addresses are not used again soon */
    unsigned quarantined;
    struct link settling;  /* lines with something to come besides operations */
    struct sim_op **under; /* all outstanding operations, in no order */
    size_t unders, room;
};

struct btl_connection {
    struct btl *btl;
    uint64_t id, nonce, peer; /* peer: id; 0: not connected */
    enum btl_role role;
    uint32_t depth, outstanding;
    uint32_t alone; /* outstanding writes without a slot: no flag of a later slot passes them */
    bool needs_both,
        falls; /* up only when the other end has connected too; fails when the other end is closed */
    bool up, peer_closed;
    unsigned delay; /* turns until the next change */
    int error;
    char why[160];
    struct link settling;
    struct link ops;               /* in the order of acceptance */
    uint64_t accepted, flush_mark; /* numbers of operations */
    bool flushing;
    unsigned flush_delay;
    struct btl_counts counts;
};

enum sim_kind { SIM_WRITE, SIM_GET, SIM_ATOMIC };

/*
 * Steps of a write: [0, chunks): parts of the payload; 16 to 22: words of the slot; 23, 24: its flag, low and high half. Of a
 * get: [0, chunks): a part is read, [16, 16 + chunks): it is stored. Of an atomic: 0: the cell, 1: the second half of that where it
 * is incoherent; 16: the old value is stored.
 */
struct sim_op {
    enum sim_kind kind;
    struct btl_connection *connection; /* NULL: given up, a straggler */
    uint64_t peer_line, number;
    struct link link; /* line->ops */
    size_t at;        /* in btl.under */
    unsigned delay;   /* draws that pass it by */
    uint32_t todo;    /* bit mask of steps */
    unsigned chunks;
    size_t cut[SIM_CHUNKS + 1];
    struct sim_piece *near, *far, *slot_near, *slot_far; /* NULL: none */
    uint8_t *near_at, *far_at, *slot_near_at, *slot_far_at;
    size_t bytes;
    uint8_t *copy; /* of the payload as it was accepted; of a get: what was read */
    uint64_t slot[8];
    struct btl_done *done;
    int atomic;
    uint64_t operand, compare, old;
};

/* There is but one process, and so one peer; in the mode `down` any. */
static inline bool sim_is_peer(const struct btl *btl, int peer)
{
    return btl->down || peer == btl->host.rank;
}

/* sim.c */
void sim_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
uint64_t sim_draw(struct btl *btl, uint64_t below); /* 0 to below - 1 */
void sim_arm(struct btl *btl); /* there is something to do: the service thread is asked to call */

/* sim_memory.c */
void sim_copy_from(void *copy, const void *memory,
                   size_t bytes); /* memory that others store to; aligned words whole */
void sim_copy_to(void *memory, const void *copy, size_t bytes); /* memory that others load from */
int sim_alloc(struct btl *btl, int peer, size_t bytes, uint32_t access, bool huge,
              struct btl_memory *piece, struct error *err);
void sim_free(struct btl *btl, struct btl_memory *piece);
int sim_share(struct btl *btl, int peer, const struct btl_memory *piece, struct btl_key *key,
              struct error *err);
int sim_adopt(struct btl *btl, int peer, void *base, size_t bytes, uint32_t access,
              struct btl_memory *piece, struct error *err);
int sim_attach(struct btl *btl, int peer, const struct btl_key *key, size_t bytes, uint32_t access,
               struct btl_remote *remote, struct error *err);
void sim_detach(struct btl *btl, struct btl_remote *remote);
void sim_memory_end(struct btl *btl);

/* sim_line.c */
int sim_line_open(struct btl *btl, int peer, enum btl_role role, uint32_t depth,
                  struct btl_connection **out, struct btl_address *address, struct error *err);
int sim_line_connect(struct btl_connection *connection, const struct btl_address *address,
                     struct error *err);
int sim_line_state(struct btl_connection *connection, struct error *err);
void sim_line_close(struct btl_connection *connection);
void sim_line_describe(struct btl_connection *connection, char *text, size_t text_bytes);
void sim_line_counts(struct btl_connection *connection, struct btl_counts *counts);
uint32_t sim_line_atomics(struct btl_connection *connection);
void sim_line_fail(struct btl_connection *connection, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sim_lines_settle(struct btl *btl);
int sim_flush(struct btl_connection *connection);

/* sim_transfer.c */
int sim_write(struct btl_connection *connection, const struct btl_transfer *payload,
              const struct btl_transfer *slot);
int sim_get(struct btl_connection *connection, const struct btl_transfer *transfer,
            struct btl_done *done);
int sim_atomic(struct btl_connection *connection, int kind, const struct btl_transfer *at,
               uint64_t operand, uint64_t compare, struct btl_done *done);

/* sim_step.c */
void sim_op_begin(struct btl_connection *connection, struct sim_op *op); /* accepted */
void sim_op_end(struct btl *btl, struct sim_op *op, int error);          /* completes it; gone */
void sim_op_give_up(struct btl *btl, struct sim_op *op);                 /* its line is closed */
void sim_stragglers_end(struct btl *btl, uint64_t connection,
                        struct sim_piece *piece); /* to this connection, or to this region */
void sim_turn(struct btl *btl, unsigned steps);

#endif
