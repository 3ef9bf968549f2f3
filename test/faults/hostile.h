/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostile.h: a rank of a job that is out to do harm, and the rank that it does it to.
 *
 *   hostile.c          the frame: rounds, each a job of three: the victim, the hostile one, and a friend
 *   hostile_victim.c   the victim: a good pipe with the friend all the time, and ends of all kinds to the hostile one
 *   hostile_memory.c   what the hostile one stores into shared memory; over a network, into mirrors that it then posts
 *   hostile_message.c  what it says: control messages, shared memory that is passed
 *   hostile_wire.c     below that: frames, pieces, greetings
 *
 * Victim and hostile rank open the same sequence of channels; what the k-th is follows from the seed. The hostile rank opens each in
 * order, uses it now and then as it should, and otherwise does what it likes, with the library's own headers. What must hold: the
 * victim's calls return what they may, a message can be read everywhere, -EPROTO has its sentence; the good pipe loses nothing
 * and goes on; memory and descriptors stay within bounds; and all end.
 */
#ifndef TEST_FAULTS_HOSTILE_H
#define TEST_FAULTS_HOSTILE_H

#include "job.h"

enum { VICTIM, HOSTILE, FRIEND, RANKS };
enum { GO_ON, GO_STOP, GO_LEAVE }; /* board->go: the round; nothing more for the hostile rank; the job */

struct round {
    uint64_t seed;
    int log;      /* where the victim's standard error goes: shown if something is wrong */
    bool checked; /* the victim runs with RMALLOC_DEBUG=1 */
    bool breach;  /* the hostile rank ends with what cuts it off */
};

/* What became of the victim's ends, in board->rank[].number of ranks that have none of their own. */
#define BOARD_JOINED(board) (&(board)->rank[RANKS].number)
#define BOARD_READ(board) (&(board)->rank[RANKS + 1].number)
#define BOARD_REFUSED(board) (&(board)->rank[RANKS + 2].number) /* calls that gave -EPROTO */

struct plan {
    rmalloc_config_t cfg; /* of the victim */
    bool victim_writes;
};

struct plan plan_of(const struct round *round, uint64_t k);
rmalloc_config_t plan_mirror(const struct plan *plan); /* of the hostile rank */

int victim_main(struct board *board, const struct round *round);
int friend_main(struct board *board, const struct round *round);
int hostile_main(struct board *board, const struct round *round);

/* ---- what the hostile rank does ---- */

uint64_t draw_number(uint64_t *random); /* small, large, near a power of two, near the largest */

void memory_attack(rch_t ch, uint64_t *random); /* one store, or some */
void message_attack(rch_t ch, uint64_t *random);
void message_flood(rch_t ch, uint64_t *random); /* one of them, a thousand times */
int nonsense_memory(uint64_t *random);          /* a descriptor; -1 */
void wire_breach(uint64_t *random);             /* ends the connection, and so this rank */
void wire_impostor(uint64_t *random);           /* calls the victim in the name of the friend, and with nonsense */

#endif
