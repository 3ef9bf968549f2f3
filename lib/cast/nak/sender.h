/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sender.h: the root of a cast: what it sends, retains, sends again and asks (doc/multicast.md "The root").
 *
 * Pure code: time is passed in, packets leave by struct nak_out. The payload of a packet is memory of the caller, which stays as it is
 * until low > number of the packet.
 *
 * Invariants: low <= got of each member that is not gone; next - low <= NAK_WINDOW; NAK_WINDOW_LEAST <= window <= NAK_WINDOW; packets [low, next) are retained, the one
 * with number n in packet[n % NAK_WINDOW]; ask_at is NAK_NEVER exactly if all have everything and no call waits.
 */
#ifndef CAST_NAK_SENDER_H
#define CAST_NAK_SENDER_H

#include "cast/nak/out.h"

#include <stdbool.h>

struct nak_retained {
    struct nak_head head;
    const void *payload;
    int64_t sent_at;
    int to; /* where it was sent last: NAK_GROUP, or a member */
};

/* A member as the root has it. */
struct nak_member {
    uint64_t got;   /* it has every packet below */
    uint64_t freed; /* and has freed every message below */
    bool gone;
    uint8_t
        by; /* NAK_BY_...: packets to the group arrive there; until then it gets each packet directly */
};

struct nak_sender {
    struct nak_out out;
    uint64_t key;
    uint64_t next, low;
    uint32_t
        window; /* packets that may be outstanding: halved by the loss of a burst, one more for NAK_REPORT_EVERY that all have */
    uint32_t gained;  /* packets that all have, since it has grown */
    uint64_t recover; /* losses of packets below it were the reason for `window` already */
    uint64_t message; /* all messages of which a packet was sent are below it */
    struct nak_retained *packet; /* NAK_WINDOW */
    struct nak_member *member;
    uint32_t members;
    uint8_t by; /* what carries packets to the group: NAK_BY_GROUP, NAK_BY_DEVICE */
    bool waits; /* a call waits for a member to free messages, and not all are freed */
    uint32_t serial;
    int64_t ask_at, ask_delay, asked_at;
    int64_t rtt; /* from a question to its answer, the least of late; 0: not measured */
    uint64_t again, asks, stale, wrong; /* counters: sent again, questions, reports dropped */
};

/* Numbers of packets begin with first_packet, of messages with first_message. 0 or -ENOMEM. */
int nak_sender_open(struct nak_sender *s, const struct nak_out *out, uint64_t key,
                    uint64_t first_packet, uint64_t first_message, uint32_t members);
void nak_sender_close(struct nak_sender *s);

/* Packets that may be sent now. */
static inline uint32_t nak_sender_room(const struct nak_sender *s)
{
    const uint32_t outstanding = (uint32_t)(s->next - s->low);

    return outstanding < s->window ? s->window - outstanding : 0;
}
/* Every member has all that was sent. */
static inline bool nak_sender_done(const struct nak_sender *s) { return s->low == s->next; }

/* Sends the next packet; nak_sender_room is not 0. Of `head` flags, bytes, serial, word, message and offset count. */
void nak_sender_send(struct nak_sender *s, const struct nak_head *head, const void *payload,
                     int64_t now);
/* A REPORT that nak_decode has accepted. 0; -ESTALE: an older one than is known; -EPROTO: it cannot be true. */
int nak_sender_receive(struct nak_sender *s, const struct nak_head *head, int64_t now);
/* This member is dead or has left: it does not count. */
void nak_sender_gone(struct nak_sender *s, uint32_t member, int64_t now);
/* A call waits until more messages are freed; or no longer. */
void nak_sender_wait(struct nak_sender *s, bool waits, int64_t now);
/* The address of a member has become known: a question is due, if anything is outstanding. */
void nak_sender_ask_soon(struct nak_sender *s, int64_t now);
/* A question to the group by the carrier that is measured. */
void nak_sender_probe(struct nak_sender *s, int64_t now);
/* All that are not gone have reported that packets to the group arrive by this carrier, and one has. */
bool nak_sender_all_by(const struct nak_sender *s, uint8_t by);
/* From now on packets to the group go by it. */
static inline void nak_sender_use(struct nak_sender *s, uint8_t by) { s->by = by; }
/* When nak_sender_tick is due. */
static inline int64_t nak_sender_due(const struct nak_sender *s) { return s->ask_at; }
void nak_sender_tick(struct nak_sender *s, int64_t now);

#endif
