/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receiver.h: a member of a cast: which packets it has, and what it reports (doc/multicast.md "A member").
 *
 * Pure code: time is passed in, packets leave by struct nak_out. It keeps no payload: nak_receiver_check decides whether a DATA packet
 * is new, the caller stores its payload at its place in the memory of the messages, and nak_receiver_stored counts it.
 *
 * Invariants: bit i of `have` is packet got + i, and bit 0 is clear; got <= top <= got + NAK_WINDOW; every message below
 * `complete` is whole; nak_at is NAK_NEVER exactly if no packet below `top` is missing.
 */
#ifndef CAST_NAK_RECEIVER_H
#define CAST_NAK_RECEIVER_H

#include "cast/nak/out.h"

#include <stdbool.h>

/* What a packet is a part of. */
struct nak_part {
    uint64_t message;
    uint32_t index;
    bool last; /* of its message */
    bool end;  /* NAK_END */
};

struct nak_receiver {
    struct nak_out out;
    uint64_t key;
    uint16_t member;
    uint32_t payload; /* bytes of each packet of a message but the last */
    uint64_t got, top, have;
    struct nak_part part
        [NAK_WINDOW]; /* of packet n: part[n % NAK_WINDOW], if it is in the window and received */
    struct nak_part next; /* what packet `got` has to be a part of */
    uint64_t complete;    /* all messages below are here */
    bool ended;           /* no message from `complete` on will come */
    uint64_t freed;       /* all messages below have been freed */
    uint64_t reported;    /* `got`, or so, when the last REPORT was sent */
    uint8_t by;           /* NAK_BY_...: how packets to the group have arrived */
    int64_t nak_at, delay, nak_sent_at;
    int64_t repair; /* time from a NAK to a packet, the least of late; 0: not measured */
    uint64_t random;
    uint64_t naks, duplicates; /* counters */
};

/* Numbers begin as in nak_sender_open; `payload`: that of the root (nak_payload). */
void nak_receiver_open(struct nak_receiver *r, const struct nak_out *out, uint64_t key,
                       uint64_t first_packet, uint64_t first_message, uint32_t member,
                       uint32_t payload);

/*
 * A DATA packet that nak_decode has accepted. 0: it is new, and its payload belongs at byte `serial` * payload of its message;
 * -EALREADY: it is here, or below or beyond the window; -EPROTO: no root that follows the protocol sends it.
 */
int nak_receiver_check(struct nak_receiver *r, const struct nak_head *head);
/* Its payload has been stored; `by`: NAK_BY_..., or 0: it was sent to this member. 0; -EPROTO: the packets of a message do not follow each other. */
int nak_receiver_stored(struct nak_receiver *r, const struct nak_head *head, uint8_t by,
                        int64_t now);
/* An ASK that nak_decode has accepted. */
void nak_receiver_asked(struct nak_receiver *r, const struct nak_head *head, uint8_t by,
                        int64_t now);
/* The program has freed all messages below `freed`; with `report` that is reported now. */
void nak_receiver_freed(struct nak_receiver *r, uint64_t freed, bool report);
/* When nak_receiver_tick is due. */
static inline int64_t nak_receiver_due(const struct nak_receiver *r) { return r->nak_at; }
void nak_receiver_tick(struct nak_receiver *r, int64_t now);

#endif
