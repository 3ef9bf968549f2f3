/* SPDX-License-Identifier: BSD-3-Clause */
/* wire.c: see wire.h. */
#include "cast/nak/wire.h"

#include "util/crc32c.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define PAYLOAD_MOST 65520u /* nak_head.bytes has 16 bits */

size_t nak_payload(size_t packet_bytes)
{
    const size_t room =
        packet_bytes > sizeof(struct nak_head) ? packet_bytes - sizeof(struct nak_head) : 0;

    return (room < PAYLOAD_MOST ? room : PAYLOAD_MOST) & ~(size_t)15;
}

uint32_t nak_crc(const struct nak_head *head, const void *payload)
{
    const size_t whole = head->bytes / 8u, rest = head->bytes % 8u;
    uint64_t word[sizeof(*head) / 8], last = 0;
    uint32_t crc;

    memcpy(word, head, sizeof(*head));
    memset(word, 0, sizeof(head->crc));
    crc = crc32c_words(~0u, word, sizeof(word) / 8);
    crc = crc32c_words(crc, (const uint64_t *)payload, whole);
    if (rest == 0)
        return crc;
    memcpy(&last, (const char *)payload + 8 * whole, rest);
    return crc32c_words(crc, &last, 1);
}

/* What is 0 in packets of this kind is 0. */
static bool wire_members_fit(const struct nak_head *h)
{
    switch (h->kind) {
    case NAK_DATA:
        return h->member == 0 && (h->flags == 0 || (h->flags == NAK_END && h->bytes == 0 &&
                                                    h->serial == 0 && h->word == 0));
    case NAK_ASK:
        return h->flags == 0 && h->member == 0 && h->bytes == 0 && h->word == 0 &&
               h->message == 0 && h->offset == 0 && h->serial != 0;
    case NAK_REPORT:
        return (h->flags & ~(NAK_BY_GROUP | NAK_BY_DEVICE)) == 0 && h->bytes == 0 && h->offset == 0;
    default:
        return false;
    }
}

int nak_decode(struct nak_head *head, const void *packet, size_t bytes, uint64_t key)
{
    if (bytes < sizeof(*head))
        return -EBADMSG;
    memcpy(head, packet, sizeof(*head));
    if (head->key != key)
        return -EACCES;
    if (head->version != NAK_VERSION)
        return -EPROTONOSUPPORT;
    if (head->bytes != bytes - sizeof(*head) || head->zero != 0 || !wire_members_fit(head) ||
        head->crc != nak_crc(head, (const char *)packet + sizeof(*head)))
        return -EBADMSG;
    return 0;
}
