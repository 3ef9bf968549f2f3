/* SPDX-License-Identifier: BSD-3-Clause */
/* out.h: what leaves through the pipe `out` of a link: messages of the link itself, messages that wait, and parts of payloads. */
#ifndef MSG_OUT_H
#define MSG_OUT_H

#include "msg/msg.h"
#include "util/failpoint.h"

/*
 * Sends one message of a pipe. 0; R_PENDING: no slot, or no memory for more than 40 bytes; or an error, after which the link sends no
 * more (msg_out_broken has been called).
 */
int msg_out_put(struct msg_link *l, uint64_t header, const void *mem, size_t bytes);

/* 0: msg_out_put of up to 40 bytes succeeds; R_PENDING, or an error as there. */
int msg_out_room(struct msg_link *l);

/* The pipe has failed: all sends of the link complete with this code. */
void msg_out_broken(struct msg_link *l, int code);

/* msg_out_put of up to 40 bytes. */
static inline int msg_out_put_slot(struct msg_link *l, uint64_t header, const void *mem,
                                   size_t bytes)
{
    /* any address but NULL, which rpost would have to examine */
    int rc = rpipe_post(l->out, mem != NULL ? mem : l, bytes, header);

    if (MSG_UNLIKELY(rc != 0 && rc != R_PENDING))
        msg_out_broken(l, rc);
    return rc;
}

/* A message of the link itself; owed if the ring is full. Nothing is sent on a link that has failed. */
void msg_out_say(struct msg_link *l, enum msg_wire_kind kind, uint32_t space, uint32_t word,
                 const struct msg_wire_fields *f);

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

/*
 * What names the payload of r leaves together with it, if it will be written into the buffer of its receive: the pipe is corked until the
 * first fragment is posted (direct.c). False: it is not.
 */
bool msg_out_cork(struct msg_link *l, const struct msg_request *r, const struct places_rtr *to);
/* After msg_out_move of a corked payload, or in place of it: uncorks the pipe, unless a fragment will be posted. */
void msg_out_uncork(struct msg_link *l, const struct msg_request *r);

/* Begins to move the payload of a send to an advertised receive, or one that has requested it. */
void msg_out_move(struct msg_request *r, const struct places_rtr *to);

/* Names a window of the buffer of r, for so many bytes, in an RTR, CTS or RTS. Without one *number and *where are left. */
void msg_out_name(struct msg_link *l, struct msg_request *r, size_t bytes, uint32_t *number,
                  uint64_t *where);

/* Messages are sent at once: nothing is owed, and none waits. */
static inline bool msg_out_clear(const struct msg_link *l)
{
    return l->state == LINK_OPEN && l->owed_count == 0 && l->waiting.next == &l->waiting;
}

/* The share of the receiver allows another message. */
static inline bool msg_out_share(const struct msg_link *l, size_t bytes)
{
    return l->out_units + msg_wire_units(bytes) - l->out_consumed <= l->out_share;
}

/* A message has left with its payload. */
static inline void msg_out_sent(struct msg_link *l, uint32_t space, uint32_t tag, size_t bytes)
{
    struct places_rtr dropped;

    if (places_take(&l->places, space, tag, &dropped))
        l->msg->counts.rtr_dropped++; /* this message completes its receive */
    (void)places_sent(&l->places, space, tag, 0);
    l->out_units += msg_wire_units(bytes);
    l->msg->counts.bytes_out += bytes;
}

/* A message of up to 40 bytes, which its share allows: as msg_out_send without a request. */
static inline int msg_out_send_slot(struct msg_link *l, uint32_t space, uint32_t tag,
                                    const void *buf, size_t bytes)
{
    int rc = msg_out_put_slot(l, msg_wire_header(MSG_WIRE_MSG, space, tag), buf, bytes);

    if (MSG_UNLIKELY(rc != 0))
        return rc;
    RPIPE_FAILPOINT("rmsg send: MSG written");
    l->msg->counts.sent_slot++;
    msg_out_sent(l, space, tag, bytes);
    return 0;
}

/*
 * Sends a message. 0: it has left, and r is DONE, OFFERED or MOVING; r may be NULL for a message that is neither synchronous nor
 * longer than a slot. R_PENDING: it cannot leave now; or an error.
 */
int msg_out_send(struct msg_link *l, uint32_t space, uint32_t tag, const void *buf, size_t bytes,
                 struct msg_request *r);

#endif
