/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boards.h: what the job does to all boards of this process (doc/boards.md).
 */
#ifndef RPIPE_BOARD_BOARDS_H
#define RPIPE_BOARD_BOARDS_H

#include <stdbool.h>

/* In rinit, before the service thread starts. */
void boards_start(void);
/* A rank has ended, or is in rexit. Service thread. */
void boards_peer_gone(int rank, bool died);
void boards_peer_exiting(int rank);
struct rboard;
/* Members that had ended before the board was in the table. The lock of the boards is held. */
void boards_check_members(struct rboard *b);
/* In rexit: wakes every thread that waits in a call of a board, */
void boards_leave(void);
/* and, when no thread is in one, releases the memory of all boards. */
void boards_close_all(void);

#endif
