/* SPDX-License-Identifier: BSD-3-Clause */
/* sender.c: see sender.h. */
#include "cast/nak/sender.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Packets that a member lacks at once because a queue on their way was full; fewer are lost by chance. */
#define SENDER_BURST 4

int nak_sender_open(struct nak_sender *s, const struct nak_out *out, uint64_t key,
                    uint64_t first_packet, uint64_t first_message, uint32_t members)
{
    *s = (struct nak_sender){.out = *out,
                             .key = key,
                             .next = first_packet,
                             .low = first_packet,
                             .message = first_message,
                             .members = members,
                             .by = NAK_BY_GROUP,
                             .window = NAK_WINDOW,
                             .recover = first_packet,
                             .ask_at = NAK_NEVER,
                             .ask_delay = NAK_ASK_LEAST};
    s->packet = calloc(NAK_WINDOW, sizeof(*s->packet));
    s->member = calloc(members, sizeof(*s->member));
    if (s->packet == NULL || s->member == NULL) {
        nak_sender_close(s);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < members; i++)
        s->member[i] = (struct nak_member){.got = first_packet, .freed = first_message};
    return 0;
}

void nak_sender_close(struct nak_sender *s)
{
    free(s->packet);
    free(s->member);
    s->packet = NULL;
    s->member = NULL;
}

static struct nak_retained *sender_packet(const struct nak_sender *s, uint64_t number)
{
    return &s->packet[number % NAK_WINDOW];
}

/* ---- times ---- */

static int64_t sender_ask_least(const struct nak_sender *s)
{
    return 4 * s->rtt > NAK_ASK_LEAST ? 4 * s->rtt : NAK_ASK_LEAST;
}

/* After progress, or a packet that is sent while nothing was outstanding: the delay begins again. */
static void sender_set_timer(struct nak_sender *s, int64_t now)
{
    s->ask_delay = sender_ask_least(s);
    s->ask_at = nak_sender_done(s) && !s->waits ? NAK_NEVER : now + s->ask_delay;
}

static void sender_measure(struct nak_sender *s, const struct nak_head *h, int64_t now)
{
    const int64_t took = now - s->asked_at;

    if (h->serial != 0 && h->serial == s->serial)
        s->rtt = nak_least_time(s->rtt, took);
}

/* ---- sending ---- */

/* low becomes the least `got` of those that count. */
static void sender_advance(struct nak_sender *s)
{
    uint64_t ahead = s->next - s->low; /* of the least one, from low */

    for (uint32_t i = 0; i < s->members; i++)
        if (!s->member[i].gone && s->member[i].got - s->low < ahead)
            ahead = s->member[i].got - s->low;
    s->low += ahead;
    s->gained += (uint32_t)ahead;
    for (; s->gained >= NAK_REPORT_EVERY; s->gained -= NAK_REPORT_EVERY)
        if (s->window < NAK_WINDOW)
            s->window++;
}

/* A burst was lost, from `number` on: half as many packets may be outstanding, once for all that are now. */
static void sender_slow_down(struct nak_sender *s, uint64_t number)
{
    if (number - s->recover >= UINT64_MAX / 2)
        return;
    s->recover = s->next;
    s->gained = 0;
    s->window = s->window / 2 > NAK_WINDOW_LEAST ? s->window / 2 : NAK_WINDOW_LEAST;
}

/* To all: by the group, and directly to each member that has not reported that the group reaches it. */
static void sender_cast(struct nak_sender *s, const struct nak_head *head, const void *payload,
                        bool always)
{
    bool group = always;

    for (uint32_t i = 0; i < s->members; i++) {
        if (s->member[i].gone)
            continue;
        if ((s->member[i].by & s->by) != 0)
            group = true;
        else
            s->out.send(s->out.arg, (int)i, head, payload);
    }
    if (group)
        s->out.send(s->out.arg, NAK_GROUP, head, payload);
}

void nak_sender_send(struct nak_sender *s, const struct nak_head *head, const void *payload,
                     int64_t now)
{
    struct nak_retained *p = sender_packet(s, s->next);
    const bool idle = nak_sender_done(s);

    p->head = *head;
    p->head.version = NAK_VERSION;
    p->head.kind = NAK_DATA;
    p->head.member = 0;
    p->head.zero = 0;
    p->head.key = s->key;
    p->head.number = s->next++;
    s->message = head->message + (head->flags != NAK_END);
    p->head.crc = nak_crc(&p->head, payload);
    p->payload = payload;
    p->sent_at = now;
    p->to = NAK_GROUP;
    sender_cast(s, &p->head, payload, false);
    sender_advance(s); /* no member is left */
    if (idle)
        sender_set_timer(s, now);
}

/* A member lacks this packet, which is retained. */
static void sender_send_again(struct nak_sender *s, uint64_t number, int member, int64_t now)
{
    struct nak_retained *p = sender_packet(s, number);
    const bool recent = now - p->sent_at < (s->rtt > NAK_AGAIN_LEAST ? s->rtt : NAK_AGAIN_LEAST);

    if (recent && (p->to == NAK_GROUP || p->to == member))
        return; /* the two have crossed */
    p->to = recent && s->members > 1 ? NAK_GROUP : member;
    p->sent_at = now;
    s->again++;
    if (p->to == NAK_GROUP)
        sender_cast(s, &p->head, p->payload, false);
    else
        s->out.send(s->out.arg, member, &p->head, p->payload);
}

/* ---- reports ---- */

/* A call may have ended at its deadline: nothing is left to wait for. */
static void sender_end_wait(struct nak_sender *s)
{
    for (uint32_t i = 0; i < s->members; i++)
        if (!s->member[i].gone && s->member[i].freed != s->message)
            return;
    s->waits = false;
}

int nak_sender_receive(struct nak_sender *s, const struct nak_head *head, int64_t now)
{
    struct nak_member *m = head->member < s->members ? &s->member[head->member] : NULL;
    uint64_t missing = head->word;
    bool progress;

    if (head->kind != NAK_REPORT || m == NULL || m->gone) {
        s->wrong++;
        return -EPROTO;
    }
    sender_measure(s, head, now);
    m->by |= head->flags;
    progress = head->message != m->freed && head->message - m->freed < UINT64_MAX / 2;
    if (progress) /* the caller compares it with what it has sent */
        m->freed = head->message;
    if (head->number - m->got > s->next - m->got) {
        s->stale++;
        return m->got - head->number < UINT64_MAX / 2 ? -ESTALE : -EPROTO;
    }
    progress = progress || head->number != m->got;
    m->got = head->number;
    sender_advance(s);
    if (__builtin_popcountll(missing) >= SENDER_BURST)
        sender_slow_down(s, head->number);
    for (uint64_t n = head->number; missing != 0 && n != s->next; n++, missing >>= 1)
        if ((missing & 1) != 0)
            sender_send_again(s, n, head->member, now);
    if (progress) {
        sender_end_wait(s);
        sender_set_timer(s, now);
    }
    return 0;
}

void nak_sender_gone(struct nak_sender *s, uint32_t member, int64_t now)
{
    if (s->member[member].gone)
        return;
    s->member[member].gone = true;
    sender_advance(s);
    sender_end_wait(s);
    sender_set_timer(s, now);
}

void nak_sender_wait(struct nak_sender *s, bool waits, int64_t now)
{
    if (s->waits == waits)
        return;
    s->waits = waits;
    if (nak_sender_done(s))
        sender_set_timer(s, now);
}

/* ---- questions ---- */

void nak_sender_ask_soon(struct nak_sender *s, int64_t now)
{
    if (s->ask_at == NAK_NEVER)
        return;
    s->ask_delay = sender_ask_least(s);
    s->ask_at = now;
}

/* The only member that lacks something, or NAK_GROUP. */
static int sender_behind(const struct nak_sender *s)
{
    int behind = NAK_GROUP;

    for (uint32_t i = 0; i < s->members; i++) {
        if (s->member[i].gone || s->member[i].got == s->next)
            continue;
        if (behind != NAK_GROUP)
            return NAK_GROUP;
        behind = (int)i;
    }
    return behind;
}

static struct nak_head sender_question(struct nak_sender *s, int64_t now)
{
    struct nak_head ask = {.version = NAK_VERSION, .kind = NAK_ASK, .key = s->key};

    if (++s->serial == 0)
        s->serial = 1;
    ask.serial = s->serial;
    ask.number = s->next;
    ask.crc = nak_crc(&ask, NULL);
    s->asked_at = now;
    return ask;
}

void nak_sender_probe(struct nak_sender *s, int64_t now)
{
    const struct nak_head ask = sender_question(s, now);

    s->out.send(s->out.arg, NAK_PROBE, &ask, NULL);
}

bool nak_sender_all_by(const struct nak_sender *s, uint8_t by)
{
    bool one = false;

    for (uint32_t i = 0; i < s->members; i++) {
        if (!s->member[i].gone && (s->member[i].by & by) == 0)
            return false;
        one = one || !s->member[i].gone;
    }
    return one;
}

void nak_sender_tick(struct nak_sender *s, int64_t now)
{
    struct nak_head ask;
    int to;

    if (now < s->ask_at)
        return;
    ask = sender_question(s, now);
    s->ask_delay = 2 * s->ask_delay < NAK_DELAY_MOST ? 2 * s->ask_delay : NAK_DELAY_MOST;
    s->ask_at = now + s->ask_delay;
    s->asks++;
    to = sender_behind(s);
    if (to == NAK_GROUP || (s->member[to].by & s->by) == 0)
        sender_cast(s, &ask, NULL, true);
    else
        s->out.send(s->out.arg, to, &ask, NULL);
    if (to != NAK_GROUP || s->ask_delay != NAK_DELAY_MOST)
        return;
    for (uint32_t i = 0; i < s->members; i++) /* the group may not reach them any more */
        if (!s->member[i].gone && s->member[i].got != s->next && (s->member[i].by & s->by) != 0)
            s->out.send(s->out.arg, (int)i, &ask, NULL);
}
