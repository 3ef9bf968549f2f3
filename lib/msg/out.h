/* SPDX-License-Identifier: BSD-3-Clause */
/* out.h: what leaves through the pipe `out` of a link: messages of the link itself, messages that wait, and parts of payloads. */
#ifndef MSG_OUT_H
#define MSG_OUT_H

#include "msg/msg.h"

/*
 * Sends one message of a pipe. 0; R_PENDING: no slot, or no memory for more than 40 bytes; or an error, after which the link sends no
 * more (msg_out_broken has been called).
 */
int msg_out_put(struct msg_link *l, uint64_t header, const void *mem, size_t bytes);

/* 0: msg_out_put of up to 40 bytes succeeds; R_PENDING, or an error as there. */
int msg_out_room(struct msg_link *l);

/* A message of the link itself; owed if the ring is full. Nothing is sent on a link that has failed. */
void msg_out_say(struct msg_link *l, enum msg_wire_kind kind, uint32_t space, uint32_t word,
                 const struct msg_wire_fields *f);

/* The pipe has failed: all sends of the link complete with this code. */
void msg_out_broken(struct msg_link *l, int code);

/* Sends what is owed, what waits, and parts. True: something is left. */
bool msg_out_push(struct msg_link *l);

/* The link has something to send. */
static inline void msg_out_busy(struct msg_link *l)
{
    if (list_empty(&l->busy))
        list_append(&l->msg->busy, &l->busy);
}

/* A cell is used by neither end any more. */
static inline void msg_out_free_cell(struct msg_link *l, uint32_t cell)
{
    l->cells_used &= ~(1u << cell);
    l->cell_of[cell] = NULL;
}

/* Begins to move the payload of a send to an advertised receive, or one that has requested it. */
void msg_out_move(struct msg_request *r, const struct places_rtr *to);

/* Messages are sent at once: nothing is owed, and none waits. */
static inline bool msg_out_clear(const struct msg_link *l)
{
    return l->state == LINK_OPEN && l->owed_count == 0 && l->waiting.next == &l->waiting;
}

/*
 * Sends a message. 0: it has left, and r is DONE, OFFERED or MOVING; r may be NULL for a message that is neither synchronous nor
 * longer than a slot. R_PENDING: it cannot leave now; or an error.
 */
int msg_out_send(struct msg_link *l, uint32_t space, uint32_t tag, const void *buf, size_t bytes,
                 struct msg_request *r);

#endif
