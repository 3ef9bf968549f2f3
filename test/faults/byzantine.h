/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine.h: a rank of a job that is out to do harm, and the rank that it does it to.
 *
 *   byzantine.c          the frame: rounds, each a job of three: the victim, the byzantine rank, and a friend
 *   byzantine_victim.c   the victim: a good pipe with the friend all the time, and ends of all kinds to the byzantine rank,
 *   byzantine_use.c      with which it does this: plain and composed pipes, cells, its own memory
 *   byzantine_am.c       active messages among the three
 *   byzantine_memory.c   what the byzantine rank stores into shared memory; over a network, into mirrors that it then posts
 *   byzantine_remote.c   over a network: transfers to and from memory that is not for it, with keys that it was given and others
 *   byzantine_message.c  what it sends: control messages, shared memory that is passed
 *   byzantine_wire.c     below that: frames, chunks, greetings
 *
 * Victim and byzantine rank open the same sequence of channels; what the k-th is follows from the seed. The byzantine rank opens each in
 * order, uses it now and then as it should, and otherwise does what it likes, with the library's own headers. What must hold: the
 * victim's calls return what they may, a message can be read everywhere, -EPROTO has its error message; the good pipe loses nothing
 * and goes on; memory and descriptors stay within bounds; and all end.
 */
#ifndef TEST_FAULTS_BYZANTINE_H
#define TEST_FAULTS_BYZANTINE_H

#include "test/lib/job.h"

enum { VICTIM, BYZANTINE, HONEST, RANKS };
enum {
    GO_ON,
    GO_STOP,
    GO_LEAVE
}; /* board->go: the round; nothing more for the byzantine rank; the job */

struct round {
    uint64_t seed;
    int log;      /* where the victim's standard error goes: shown if something is wrong */
    bool checked; /* the victim runs with RMALLOC_DEBUG=1 */
    bool breach;  /* the byzantine rank ends with what cuts it off */
    bool network; /* no rank is killed over libfabric: that can crash its peers (doc/ofi.md) */
    bool
        wild; /* the byzantine rank tries keys that it was not given: the connection may not survive that */
};

/* What became of the victim's ends, in board->rank[].number of ranks that have none of their own. */
#define BOARD_JOINED(board) (&(board)->rank[RANKS].number)
#define BOARD_READ(board) (&(board)->rank[RANKS + 1].number)
#define BOARD_REFUSED(board) (&(board)->rank[RANKS + 2].number) /* calls that gave -EPROTO */
#define BOARD_ENDED(board)                                                                         \
    (&(board)->rank[RANKS + 3].number) /* links of active messages that ended with an error */

enum shape { PLAIN, REDUX, SCATTER, DUPLEX };
#define SHAPE_ENDS 3 /* of the byzantine rank, at most */

struct plan {
    rpipe_config_t cfg; /* of the victim */
    enum shape shape;
    bool victim_writes;
    bool cells; /* an array of cells, and not a pipe */
};

struct plan plan_of(const struct round *round, uint64_t k);
int plan_ends(const struct plan *plan);
rpipe_config_t plan_mirror(const struct plan *plan, int i); /* of the byzantine rank's i-th end */

/* ---- the victim's ---- */

uint64_t victim_sum(void); /* of what it has read, so that it is read */
void victim_counts(struct board *board);
void victim_regions_end(void); /* after rexit */
void victim_use(const struct plan *plan, uint64_t *random);
bool victim_may_get(int rc);
void victim_am_open(void);
void victim_am_serve(uint64_t *random);
void victim_am_close(struct board *board);
void friend_am_open(void);
void friend_am_ask(uint64_t *random);
void friend_am_close(void);

int victim_main(struct board *board, const struct round *round);
int friend_main(struct board *board, const struct round *round);
int byzantine_main(struct board *board, const struct round *round);

/* ---- what the byzantine rank does ---- */

uint64_t draw_number(uint64_t *random); /* small, large, near a power of two, near the largest */

void memory_attack(rch_t ch, uint64_t *random); /* one store, or some */
void message_attack(rch_t ch, uint64_t *random);
void message_flood(rch_t ch, uint64_t *random);            /* one of them, a thousand times */
int invalid_memory(uint64_t *random);                      /* a descriptor; -1 */
void remote_attack(rch_t ch, bool wild, uint64_t *random); /* over a network */
void byzantine_am_open(void);
void byzantine_am_attack(uint64_t *random);
void wire_breach(uint64_t *random); /* ends the connection, and so this rank */
void wire_impostor(
    uint64_t *random); /* calls the victim in the name of the friend, and with invalid data */

#endif
