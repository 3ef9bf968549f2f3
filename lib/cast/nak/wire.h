/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h: the packets of a cast between hosts (doc/multicast.md "Packets").
 *
 * One head for the three kinds, behind it the payload of DATA. The version is agreed on the control network before the first
 * packet, so a packet of another version is one of another cast. Numbers are in the byte order of the machine; between machines
 * of different orders no key fits.
 */
#ifndef CAST_NAK_WIRE_H
#define CAST_NAK_WIRE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define NAK_VERSION 1
#define NAK_WINDOW 64u /* packets that the root retains; a bit of nak_head.word for each */
#define NAK_REPORT_EVERY (NAK_WINDOW / 4) /* packets after which a member reports */
#define NAK_WINDOW_LEAST                                                                           \
    (2 * NAK_REPORT_EVERY) /* behind a packet that is lost come others, which show that */

enum nak_kind { NAK_DATA = 1, NAK_ASK = 2, NAK_REPORT = 3 };

/* nak_head.flags */
#define NAK_END 1u       /* DATA: no message from `message` on will come; the last packet */
#define NAK_BY_GROUP 2u  /* REPORT: packets that are sent to the group arrive at this member, */
#define NAK_BY_DEVICE 4u /* and those that are sent to the group of an RDMA device */

struct nak_head {
    uint32_t crc; /* CRC-32C of all that follows, its last word extended by zeros */
    uint8_t version;
    uint8_t kind; /* enum nak_kind */
    uint8_t flags;
    uint8_t zero;
    uint64_t key; /* of the cast */
    uint64_t
        number; /* DATA: of this packet. ASK: that of the next one. REPORT: the first that the member lacks */
    uint16_t member; /* REPORT: number of the member that sends it */
    uint16_t bytes;  /* DATA: of payload */
    uint32_t
        serial; /* DATA: index within its message. ASK: of this question. REPORT: of the question that it answers, or 0 */
    uint64_t word;    /* DATA: bytes of the message. REPORT: bit i: packet number + i is missing */
    uint64_t message; /* DATA: number of the message. REPORT: all below are freed */
    uint64_t offset;  /* DATA: of the message in the heap */
};

static_assert(sizeof(struct nak_head) == 56, "fixed on the wire");
static_assert(offsetof(struct nak_head, key) == 8 && offsetof(struct nak_head, member) == 24 &&
                  offsetof(struct nak_head, word) == 32 && offsetof(struct nak_head, offset) == 48,
              "fixed on the wire");

/* Most bytes of payload in packets of so many bytes; a multiple of 16. 0: no payload fits. */
size_t nak_payload(size_t packet_bytes);

/* The checksum that belongs into head->crc. `payload`: head->bytes bytes, aligned to 8. */
uint32_t nak_crc(const struct nak_head *head, const void *payload);

/*
 * Checks a packet of `bytes` bytes, aligned to 8, and copies its head. 0; -EBADMSG: it is malformed, or not what was sent;
 * -EACCES: it has another key; -EPROTONOSUPPORT: another version. What each member of the head may be in a packet of its
 * kind has been checked then, but not against the state of the cast. The payload begins behind the head.
 */
int nak_decode(struct nak_head *head, const void *packet, size_t bytes, uint64_t key);

#endif
