/* SPDX-License-Identifier: BSD-3-Clause */
/* move.h: payloads that are copied across address spaces, in chunks, by both ends of a link (cell.h). */
#ifndef MSG_MOVE_H
#define MSG_MOVE_H

#include "msg/msg.h"

/* The message of a receive is known, and its payload moves by a cell. */
void msg_move_receive(struct msg_link *l, struct msg_request *r, uint32_t cell, uint64_t where);
/* Copies a chunk, or posts a fragment, of each request in msg->sharing, and completes what has been moved. True: it has done something. */
bool msg_move_turn(struct rmsg *msg);
/* The program gives up a request with a cell: after that neither end accesses its buffer, except for what window.h names. */
void msg_move_give_up(struct rmsg *msg, struct msg_request *r);
/* The same for all of a context, which ends. */
void msg_move_end(struct rmsg *msg);

#endif
