/* SPDX-License-Identifier: BSD-3-Clause */
/* receiver.c: see receiver.h. */
#include "cast/nak/receiver.h"

#include <errno.h>

void nak_receiver_open(struct nak_receiver *r, const struct nak_out *out, uint64_t key,
                       uint64_t first_packet, uint64_t first_message, uint32_t member,
                       uint32_t payload)
{
    *r = (struct nak_receiver){.out = *out,
                               .key = key,
                               .member = (uint16_t)member,
                               .payload = payload,
                               .got = first_packet,
                               .top = first_packet,
                               .next = {.message = first_message},
                               .complete = first_message,
                               .freed = first_message,
                               .reported = first_packet - member % NAK_REPORT_EVERY,
                               .nak_at = NAK_NEVER,
                               .delay = NAK_REPAIR_LEAST,
                               .random = key ^ (member + 1) * UINT64_C(0x9e3779b97f4a7c15)};
}

/* Bit i: packet got + i exists and is not here. */
static uint64_t receiver_missing(const struct nak_receiver *r)
{
    const uint64_t known = r->top - r->got;

    return ~r->have & (known < 64 ? (UINT64_C(1) << known) - 1 : UINT64_MAX);
}

/* `serial`: of the question that it answers, or 0. */
static void receiver_report(struct nak_receiver *r, uint32_t serial)
{
    struct nak_head h = {.version = NAK_VERSION, .kind = NAK_REPORT, .key = r->key};

    h.flags = r->by;
    h.number = r->got;
    h.member = r->member;
    h.serial = serial;
    h.word = receiver_missing(r);
    h.message = r->freed;
    h.crc = nak_crc(&h, NULL);
    r->reported = r->got;
    r->out.send(r->out.arg, NAK_ROOT, &h, NULL);
}

/* ---- times ---- */

/* 3/4 to 5/4 of it, by chance: so that members do not send at the same moment. */
static int64_t receiver_jitter(struct nak_receiver *r, int64_t ns)
{
    r->random ^= r->random << 13;
    r->random ^= r->random >> 7;
    r->random ^= r->random << 17;
    return ns - ns / 4 + (int64_t)(r->random % (uint64_t)(ns / 2 + 1));
}

static int64_t receiver_delay_least(const struct nak_receiver *r)
{
    return 2 * r->repair > NAK_REPAIR_LEAST ? 2 * r->repair : NAK_REPAIR_LEAST;
}

/* Packets are missing: the first NAK after a quarter of the delay, in which those that were overtaken may arrive. */
static void receiver_noticed(struct nak_receiver *r, int64_t now)
{
    const int64_t at = now + receiver_jitter(r, receiver_delay_least(r) / 4);

    if (at < r->nak_at)
        r->nak_at = at;
}

/* A packet that was missing has arrived. */
static void receiver_repaired(struct nak_receiver *r, int64_t now)
{
    if (r->nak_sent_at != 0) {
        r->repair = nak_least_time(r->repair, now - r->nak_sent_at);
        r->nak_sent_at = 0;
    }
    r->delay = receiver_delay_least(r);
    r->nak_at = receiver_missing(r) != 0 ? now + receiver_jitter(r, r->delay) : NAK_NEVER;
}

void nak_receiver_tick(struct nak_receiver *r, int64_t now)
{
    if (now < r->nak_at)
        return;
    r->naks++;
    r->nak_sent_at = now;
    r->nak_at = now + receiver_jitter(r, r->delay);
    r->delay = 2 * r->delay < NAK_DELAY_MOST ? 2 * r->delay : NAK_DELAY_MOST;
    receiver_report(r, 0);
}

/* ---- packets ---- */

/* The bytes that packet `index` of a message of `whole` bytes has. */
static bool receiver_size_fits(const struct nak_receiver *r, const struct nak_head *h)
{
    const uint64_t from = (uint64_t)h->serial * r->payload;

    if (h->flags == NAK_END || h->word == 0)
        return h->bytes == 0 && h->serial == 0;
    return from < h->word &&
           h->bytes == (h->word - from < r->payload ? h->word - from : r->payload);
}

int nak_receiver_check(struct nak_receiver *r, const struct nak_head *head)
{
    const uint64_t ahead = head->number - r->got;

    if (ahead >= NAK_WINDOW || (r->have >> ahead & 1) != 0) {
        r->duplicates++;
        return -EALREADY;
    }
    return !r->ended && receiver_size_fits(r, head) ? 0 : -EPROTO;
}

/* Packet `got` is here: counts it, and those behind it. */
static int receiver_advance(struct nak_receiver *r)
{
    while ((r->have & 1) != 0) {
        const struct nak_part *p = &r->part[r->got % NAK_WINDOW];

        if (p->message != r->next.message || p->index != r->next.index || r->ended ||
            (p->end && p->index != 0))
            return -EPROTO;
        r->ended = p->end;
        if (p->last && !p->end) {
            r->complete++;
            r->next.message++;
        }
        r->next.index = p->last ? 0 : p->index + 1;
        r->have >>= 1;
        r->got++;
    }
    return 0;
}

int nak_receiver_stored(struct nak_receiver *r, const struct nak_head *head, uint8_t by,
                        int64_t now)
{
    const uint64_t ahead = head->number - r->got;
    const bool missed = ahead < r->top - r->got, was_missing = receiver_missing(r) != 0;
    int rc;

    r->part[head->number % NAK_WINDOW] =
        (struct nak_part){.message = head->message,
                          .index = head->serial,
                          .last = ((uint64_t)head->serial + 1) * r->payload >= head->word,
                          .end = head->flags == NAK_END};
    r->by |= by;
    if (!missed)
        r->top = head->number + 1;
    r->have |= UINT64_C(1) << ahead;
    rc = receiver_advance(r);
    if (rc != 0)
        return rc;
    if (missed && was_missing)
        receiver_repaired(r, now);
    else if (receiver_missing(r) != 0)
        receiver_noticed(r, now);
    if (r->ended || r->got - r->reported >= NAK_REPORT_EVERY)
        receiver_report(r, 0);
    return 0;
}

void nak_receiver_asked(struct nak_receiver *r, const struct nak_head *head, uint8_t by,
                        int64_t now)
{
    const uint64_t ahead = head->number - r->got;

    r->by |= by;
    if (ahead <= NAK_WINDOW && ahead > r->top - r->got) {
        r->top = head->number;
        r->nak_sent_at = now; /* the answer is a NAK as well */
        r->nak_at = now + receiver_jitter(r, r->delay);
    }
    receiver_report(r, head->serial);
}

void nak_receiver_freed(struct nak_receiver *r, uint64_t freed, bool report)
{
    r->freed = freed;
    if (report)
        receiver_report(r, 0);
}
