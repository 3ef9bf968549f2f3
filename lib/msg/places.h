/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * places.h: advertised receives at the sender: which of its messages each of them is for.
 *
 * A receive of a space and tag that has found no message is advertised by an RTR with `seen`, the number of the last message of this
 * sender that was matched or kept there, and `skip`, how many earlier receives of the same space and tag wait. It is for message
 * skip + 1 of those above `seen` that have its space and tag. The sender has a log of its last messages. If it finds that message
 * there, the message has been sent already; else the RTR is stored with its distance to the stored one before it. Nothing is counted
 * for a tag that has no stored RTR, so a program may use any number of tags.
 *
 * Bounded: PLACES_LOG messages, PLACES_STORED RTRs. Pure: no memory but this, no clock, no pipe. model/tag.pml verifies the rules.
 */
#ifndef MSG_PLACES_H
#define MSG_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLACES_LOG 1024u   /* a power of two */
#define PLACES_STORED 256u /* RTRs; a receiver advertises no more */
#define PLACES_BINS 64u

struct places_rtr {
    uint32_t receive; /* at the peer */
    uint32_t number;  /* of the RTR */
    uint64_t room;
    uint64_t where; /* address of the buffer, or its offset in the window + 1; 0: neither */
    uint32_t open;  /* it may be written before the message has arrived: 1, or by this window */
};

struct places_entry {
    uint32_t tag, space;
    uint32_t offered; /* the send whose payload waits for a receive, or 0 */
};

struct places_stored {
    struct places_rtr rtr;
    uint32_t tag, space;
    uint32_t
        left; /* messages of this space and tag between the stored RTR before this one, and this one */
    struct places_stored *next; /* in the same bin, in the order of numbers; or the next free one */
};

struct places {
    uint64_t sent; /* number of the last message */
    uint32_t stored;
    struct places_stored *bin[PLACES_BINS];
    struct places_stored *free;
    struct places_stored all[PLACES_STORED];
    struct places_entry log[PLACES_LOG];
};

enum places_verdict {
    PLACES_SENT,    /* its message has been sent, with its payload */
    PLACES_OFFERED, /* its message is the send that waits: *offered */
    PLACES_KEPT,    /* stored */
    PLACES_REFUSED, /* the log does not reach back so far */
    PLACES_INVALID  /* no such message has been sent, or too many RTRs */
};

void places_init(struct places *p);

/* True: *rtr is for the next message of this space and tag. */
bool places_next(const struct places *p, uint32_t space, uint32_t tag, struct places_rtr *rtr);

/* A message has been sent. True: *rtr is for it, and is not stored any more. */
bool places_take_stored(struct places *p, uint32_t space, uint32_t tag, struct places_rtr *rtr);
static inline bool places_take(struct places *p, uint32_t space, uint32_t tag,
                               struct places_rtr *rtr)
{
    return __builtin_expect(p->stored != 0, 0) && places_take_stored(p, space, tag, rtr);
}

/* A message is sent. offered: the send whose payload waits, or 0. Returns its number. */
static inline uint64_t places_sent(struct places *p, uint32_t space, uint32_t tag, uint32_t offered)
{
    struct places_entry *e = &p->log[++p->sent & (PLACES_LOG - 1)];

    e->tag = tag;
    e->space = space;
    e->offered = offered;
    return p->sent;
}

/* The payload of this message does not wait any more. */
static inline void places_matched(struct places *p, uint64_t number)
{
    if (p->sent - number < PLACES_LOG)
        p->log[number & (PLACES_LOG - 1)].offered = 0;
}

/* An RTR has arrived. */
enum places_verdict places_rtr(struct places *p, uint32_t space, uint32_t tag, uint64_t seen,
                               uint32_t skip, const struct places_rtr *rtr, uint32_t *offered);

/* Forgets the stored RTRs of a space and tag from this number on. */
void places_undo(struct places *p, uint32_t space, uint32_t tag, uint32_t number);

#endif
