/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes become packets of a cast between hosts (lib/cast/nak), as a member or a process with the key could send them, to a root and to a
 * member, between packets that they send by themselves. See README.md.
 *
 * A packet that is accepted is one that would be encoded so, its payload is within its message, and what the root and the member
 * have stays consistent: windows, counts, timers. A root sends nothing that it does not retain.
 */
#include "cast/nak/receiver.h"
#include "cast/nak/sender.h"

#include "input.h"

#include <errno.h>
#include <string.h>

#define KEY UINT64_C(0x1122334455667788)
#define PAYLOAD 32u
#define MEMBERS 3u

struct pair {
    struct nak_sender s;
    struct nak_receiver r;
    int64_t now;
    uint64_t message; /* next one of the root */
    bool honest;      /* the member got packets of the root alone */
    struct nak_head last_report;
    bool reported;
};

static _Alignas(8) unsigned char payload_of_all[PAYLOAD];

static void from_root(void *arg, int to, const struct nak_head *h, const void *payload)
{
    struct pair *p = arg;
    _Alignas(8) unsigned char packet[sizeof(*h) + PAYLOAD];
    struct nak_head head;

    REQUIRE(to == NAK_GROUP || (to >= 0 && to < (int)MEMBERS));
    memcpy(packet, h, sizeof(*h));
    if (h->bytes > 0)
        memcpy(packet + sizeof(*h), payload, h->bytes);
    REQUIRE(nak_decode(&head, packet, sizeof(*h) + h->bytes, KEY) == 0);
    REQUIRE(h->kind == NAK_ASK ? h->number == p->s.next : p->s.next - h->number - 1 < NAK_WINDOW);
}

static void from_member(void *arg, int to, const struct nak_head *h, const void *payload)
{
    struct pair *p = arg;
    struct nak_head head;

    (void)payload;
    REQUIRE(to == NAK_ROOT && nak_decode(&head, h, sizeof(*h), KEY) == 0);
    REQUIRE(h->kind == NAK_REPORT && h->number == p->r.got && (h->word & p->r.have) == 0);
    p->last_report = *h;
    p->reported = true;
}

static uint64_t draw_number(struct input *in, uint64_t near)
{
    const uint32_t how = input_byte(in);

    switch (how & 3) {
    case 0:
        return near + (how >> 2);
    case 1:
        return near - (how >> 2);
    case 2:
        return (uint64_t)input_word(in) << (how >> 2) % 48;
    default:
        return UINT64_MAX - (how >> 2);
    }
}

static void check(const struct pair *p)
{
    const struct nak_receiver *r = &p->r;
    const uint64_t known = r->top - r->got;
    bool living = false;

    REQUIRE(p->s.next - p->s.low <= NAK_WINDOW);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (p->s.member[i].gone)
            continue;
        living = true;
        REQUIRE(p->s.member[i].got - p->s.low <= p->s.next - p->s.low);
    }
    REQUIRE(living || nak_sender_done(&p->s));
    REQUIRE((p->s.ask_at == NAK_NEVER) == (nak_sender_done(&p->s) && !p->s.waits));
    REQUIRE(known <= NAK_WINDOW && (r->have & 1) == 0);
    REQUIRE(known == 64 || r->have >> known == 0);
    REQUIRE(!p->honest || r->complete - p->r.freed <= p->message - p->r.freed);
}

/* A head that the root, or any other process, might have sent; its checksum fits. */
static struct nak_head draw_head(struct pair *p, struct input *in)
{
    const uint32_t what = input_byte(in);
    struct nak_head h = {.version = NAK_VERSION, .kind = (uint8_t)(1 + what % 3), .key = KEY};

    h.flags = (what & 0x10) != 0 ? (uint8_t)input_byte(in) : 0;
    h.number = draw_number(in, h.kind == NAK_REPORT ? p->s.low : p->r.got);
    h.member = h.kind == NAK_REPORT ? (uint16_t)(input_byte(in) % (MEMBERS + 1)) : 0;
    h.serial = (uint32_t)draw_number(in, h.kind == NAK_REPORT ? p->s.serial : p->r.next.index);
    h.word = draw_number(in, PAYLOAD);
    h.message = draw_number(in, p->r.complete);
    h.offset = draw_number(in, 0);
    h.bytes = h.kind == NAK_DATA ? (uint16_t)(input_byte(in) % (PAYLOAD + 1)) : 0;
    if (h.kind == NAK_ASK)
        h.word = h.message = h.offset = 0;
    if (h.kind == NAK_REPORT)
        h.offset = 0;
    h.crc = nak_crc(&h, payload_of_all);
    return h;
}

static bool to_member(struct pair *p, const struct nak_head *h)
{
    int rc;

    if (h->kind == NAK_ASK) {
        nak_receiver_asked(&p->r, h, NAK_BY_GROUP, p->now);
        return true;
    }
    rc = nak_receiver_check(&p->r, h);
    if (rc == 0) {
        REQUIRE(h->number - p->r.got < NAK_WINDOW);
        REQUIRE((uint64_t)h->serial * PAYLOAD + h->bytes <= h->word || h->flags == NAK_END);
        rc = nak_receiver_stored(&p->r, h, (h->number & 1) != 0 ? NAK_BY_GROUP : NAK_BY_DEVICE,
                                 p->now);
    }
    REQUIRE(rc == 0 || rc == -EALREADY || rc == -EPROTO);
    REQUIRE(rc != -EPROTO || !p->honest);
    return rc != -EPROTO; /* else the cast is lost */
}

/* False: the member has found a violation. */
static bool any_packet(struct pair *p, struct input *in)
{
    const struct nak_head h = draw_head(p, in);
    _Alignas(8) unsigned char packet[sizeof(h) + PAYLOAD];
    struct nak_head head;

    memcpy(packet, &h, sizeof(h));
    memcpy(packet + sizeof(h), payload_of_all, PAYLOAD);
    if (nak_decode(&head, packet, sizeof(h) + h.bytes, KEY) != 0)
        return true;
    REQUIRE(memcmp(&head, &h, sizeof(h)) == 0);
    if (h.kind != NAK_REPORT) {
        p->honest = false;
        return to_member(p, &h);
    }
    (void)nak_sender_receive(&p->s, &h, p->now);
    return true;
}

/* The next packet of the root; with `arrives` the member gets it. */
static bool send(struct pair *p, uint32_t whole, bool arrives)
{
    bool good = true;

    if (nak_sender_room(&p->s) == 0)
        return true;
    for (uint32_t from = 0, i = 0; nak_sender_room(&p->s) > 0; from += PAYLOAD, i++) {
        struct nak_head h = {.serial = i, .word = whole, .message = p->message};

        h.bytes = (uint16_t)(whole - from < PAYLOAD ? whole - from : PAYLOAD);
        nak_sender_send(&p->s, &h, payload_of_all, p->now);
        h = p->s.packet[(p->s.next - 1) % NAK_WINDOW].head;
        if (arrives && good)
            good = to_member(p, &h);
        if (from + h.bytes == whole)
            break;
        if (nak_sender_room(&p->s) == 0)
            p->honest = false; /* the rest of the message is never sent */
    }
    p->message++;
    return good;
}

static void any_bytes(struct input *in)
{
    _Alignas(8) unsigned char packet[sizeof(struct nak_head) + PAYLOAD] = {0};
    struct nak_head h;
    size_t n = 0;

    while (n < sizeof(packet) && !input_is_empty(in))
        packet[n++] = (unsigned char)input_byte(in);
    if (nak_decode(&h, packet, n, KEY) == 0)
        REQUIRE(n == sizeof(h) + h.bytes && h.crc == nak_crc(&h, packet + sizeof(h)));
}

static bool step(struct pair *p, struct input *in)
{
    const uint32_t op = input_byte(in);

    switch (op & 7) {
    case 0:
    case 1:
        return any_packet(p, in);
    case 2:
    case 3:
        return send(p, op >> 2, (op & 1) == 0);
    case 4:
        p->now += (int64_t)1 << (op >> 3);
        nak_sender_tick(&p->s, p->now);
        nak_receiver_tick(&p->r, p->now);
        return true;
    case 5:
        if (p->reported && !p->s.member[0].gone)
            (void)nak_sender_receive(&p->s, &p->last_report, p->now);
        return true;
    case 6:
        if ((op & 0x80) != 0)
            nak_sender_gone(&p->s, (op >> 3) % MEMBERS, p->now);
        else
            nak_sender_wait(&p->s, (op & 8) != 0, p->now);
        return true;
    default:
        if (p->r.freed != p->r.complete)
            nak_receiver_freed(&p->r, p->r.freed + 1, (op & 8) != 0);
        return true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct pair p = {.now = 1, .honest = true};
    const struct nak_out root = {from_root, &p}, member = {from_member, &p};
    const uint64_t first = draw_number(&in, 0);
    bool good = true;

    if ((first & 15) == 15) {
        any_bytes(&in);
        return 0;
    }
    p.message = first;
    REQUIRE(nak_sender_open(&p.s, &root, KEY, first, first, MEMBERS) == 0);
    nak_receiver_open(&p.r, &member, KEY, first, first, 0, PAYLOAD);
    while (good && !input_is_empty(&in)) {
        good = step(&p, &in);
        if (good)
            check(&p);
    }
    nak_sender_close(&p.s);
    return 0;
}
