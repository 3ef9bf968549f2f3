/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * board.h: one board: its members, what is mapped of them, and what ends its waits (doc/boards.md).
 *
 *   board.c          the table of boards, and what changes the state of one
 *   board_message.c  OPEN, CLOSED, LOST and WORD
 *   boards.c         members that are gone; rexit
 *   board_open.c     rboard_open, rboard_close: names and numbers, hosts, own memory
 *   board_call.c     rboard_wait, rboard_lost, rboard_fail, and where memory is
 *   board_sleep.c    rboard_wake, rboard_sleep
 *   board_fetch.c    rboard_fetch
 *   board_post.c     rboard_post, rboard_take
 *
 * Everything but the atomic words is written under boards_lock. Nothing that a message names is used before it has been compared
 * with what this process has.
 */
#ifndef RPIPE_BOARD_BOARD_H
#define RPIPE_BOARD_BOARD_H

#include "util/cpu.h"
#include "util/error.h"
#include "util/list.h"
#include "util/segment.h"

#include <assert.h>
#include <pthread.h>
#include <rpipe.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The last line of the memory of a member, written by that member. */
struct board_line {
    _Atomic uint32_t sleepers; /* threads that are about to sleep, or do */
    uint32_t zero;
    uint64_t cookie;  /* random, stored once */
    uint64_t address; /* of the cookie, in that process */
    unsigned char unused[40];
};
static_assert(sizeof(struct board_line) == CACHE_LINE, "a line");

struct board_member {
    int rank;
    uint32_t host;
    uint32_t mate; /* here: index into rboard.sleepers */
    bool here;     /* a member of this host; this member itself is one */
    bool awaited;  /* here: neither its memory nor the message that it will not come has arrived */
    bool answered; /* its OPEN has been answered */
    uint64_t
        sent; /* the number of the OPEN that it was sent at first (struct board_peer); 0: none yet, or not counted */
    uint64_t
        got; /* how many of its OPENs had come when this board was registered: those were not for it */
    uint64_t bytes;          /* of its memory, as configured */
    _Atomic int pid;         /* rboard_fetch: as this process sees it; 0: not known yet */
    _Atomic int code;        /* rboard_state: why it takes no part any more; 0: it does */
    const void *_Atomic mem; /* NULL: not mapped, or the member has died */
    struct segment segment;  /* stays mapped until rboard_close */
    struct link posted;      /* in rboard.posted while its word has not been taken */
    uint64_t word;           /* the last one that it has posted */
};

/* How often this process has opened the boards of a name: (context, ranks). Stays until rexit. */
struct board_name {
    uint64_t context, ranks; /* ranks: hash of the list */
    uint64_t opened;
    struct rboard *board; /* the one that is open, or NULL */
};

/* A loss that a rank has reported of a board that this process has not opened yet. */
struct board_early {
    uint64_t context, ranks, number; /* which board */
    uint32_t members, lost;
    int code;
};
#define BOARD_EARLY 64 /* of a rank: of more the oldest is dropped */

struct board_peer {
    /* OPENs of all boards to and from the rank, in the order in which they are sent and received: by FIFO the k-th sent is the k-th received */
    uint64_t sent, got;
    struct board_early *early; /* a ring of BOARD_EARLY; NULL: none has come */
    uint64_t nearly;           /* how many have come */
};

struct rboard {
    /* loaded by each rboard_wake */
    const _Atomic uint32_t *_Atomic *sleepers; /* of the members of this host */
    _Atomic uint32_t mates;                    /* how many; 0 after rexit */
    _Atomic bool fences;   /* some member of this host is not registered for membarrier */
    _Atomic uint64_t lost; /* -code << 32 | member; 0: none. Set once */

    void *_Atomic mem;              /* of this member */
    _Atomic uint32_t *own_sleepers; /* in its last line */
    _Atomic uint32_t news;          /* changes with each event that may end a sleep */
    _Atomic uint32_t wake;          /* wake word of rboard_wait */
    int n, me;
    struct board_member *member;
    uint32_t hosts;
    uint32_t awaited;         /* members of this host whose memory is awaited */
    bool goes_on;             /* RBOARD_GO_ON */
    struct segment_late late; /* of the memory of each member */
    struct link posted;       /* members whose words have not been taken, in the order of arrival */
    _Atomic uint32_t nposted; /* how many */
    int timeout_ms;
    struct segment segment; /* own memory */
    int fd;                 /* of it, until each member of the host has it; or -1 */
    int refused;            /* 0, or why the memory of a member will not be mapped */
    struct error refused_reason;
    struct board_name *name;
    uint64_t number;
    struct link link; /* in boards_all */
};

/* ---- the table ---- */

extern pthread_mutex_t boards_lock;
extern struct link boards_all; /* open boards */
/* The entry of a name. Lock held. Found, or with `make` created; NULL. */
struct board_name *boards_name(uint64_t context, uint64_t ranks, bool make);
void boards_forget_names(void);
/* Lock held. Counts an OPEN from a rank. */
void boards_count_open(int rank);
/* Lock held. The counts of a rank; NULL: there was no memory for it, so its counts are not used any more. */
struct board_peer *boards_peer(int rank);
/* Lock held. Keeps a loss for the board that it is about. One that finds no memory is dropped. */
void boards_keep_early(int rank, const struct board_early *early);
/* Lock held. Whether any loss has been kept since rinit. */
bool boards_have_early(void);

/* ---- changes of the state of a board: lock held ---- */

/* Ends all waits of this process, so that their conditions are loaded again. */
void board_wake_own(struct rboard *b);
/* Stores the loss, unless there is one. True: it is new. */
bool board_set_lost(struct rboard *b, int code, int member);
/* Stores why this member takes no part any more, unless that is known; ends sleeps. */
void board_set_state(struct rboard *b, int member, int code);
/* Size of the segment of a member: its memory, and behind it the line with `sleepers`, which begins at board_line. */
size_t board_line(const struct rboard *b, int member);
size_t board_segment_bytes(const struct rboard *b, int member);
/* The memory of this member will not come. */
void board_refuse(struct rboard *b, int member, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* One member of the host is not awaited any more. */
void board_arrived(struct rboard *b, int member);
/* Keeps the word that a member has posted, in the place of one that has not been taken. */
void board_keep_word(struct rboard *b, int member, uint64_t word);
/* Unmaps and closes; the structure stays. No thread is in a call. */
void board_release(struct rboard *b);
/* What stands for `sleepers` of a member that is not mapped, for which every wake calls the kernel, and of a dead one. */
extern const _Atomic uint32_t board_sleepers_unmapped, board_sleepers_none;

/* ---- calls ---- */

/* Of the job and of the handle: 0, or the code and its message. */
int board_check(const struct rboard *b);
/* The loss, 0: none; and as the result of a call, with its message. */
int board_lost_code(struct rboard *b, int *member);
int board_lost_error(struct rboard *b);

#endif
