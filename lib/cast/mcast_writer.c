/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mcast_writer.c: the writer's end of the path to other hosts, see mcast_end.h.
 *
 * Messages wait in `queue` until the window admits their packets. The payload of a packet is in memory of the cast, which stays
 * until every live reader has freed the message (cast.h, invariant 1): longer than the packet is retained.
 */
#include "cast/mcast_writer.h"

#include "cast/mcast_carrier.h"

#include "control/control.h"
#include "util/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- sending ---- */

static void writer_send(void *arg, int to, const struct nak_head *head, const void *payload)
{
    struct mcast *p = arg;
    const bool device = to == NAK_PROBE || (to == NAK_GROUP && p->sender.by == NAK_BY_DEVICE);
    const struct mcast_carrier *by = &p->carrier[device ? MCAST_DEVICE : MCAST_UDP];
    const struct medium_address *at = to < 0 ? &by->group : &p->reader[to].address;

    if (at->family != MEDIUM_NONE)
        by->ops->send(by->medium, at, head, sizeof(*head), payload, head->bytes);
}

/* The next packet of message `cut`. */
static void writer_send_packet(struct mcast *p, int64_t now)
{
    const struct rcast *c = p->path.cast;
    const struct cast_message *m = &p->queue[p->cut & (p->slots - 1)];
    const uint64_t from = (uint64_t)p->index * p->payload, left = m->bytes - from;
    struct nak_head head = {.serial = p->index, .word = m->bytes, .message = m->number};

    head.bytes = (uint16_t)(left < p->payload ? left : p->payload);
    if (m->bytes > CAST_INLINE)
        head.offset = (uint64_t)((const char *)m->mem - c->heap_mem);
    nak_sender_send(&p->sender, &head, (const char *)m->mem + from, now);
    p->index++;
    if (head.bytes == left) {
        p->index = 0;
        p->cut++;
    }
}

void mcast_writer_send(struct mcast *p, int64_t now)
{
    while (p->cut != p->published && nak_sender_room(&p->sender) > 0)
        writer_send_packet(p, now);
    if (p->ending && !p->end_sent && p->cut == p->published && nak_sender_room(&p->sender) > 0) {
        const struct nak_head head = {.flags = NAK_END, .message = p->published};

        p->end_sent = true;
        nak_sender_send(&p->sender, &head, NULL, now);
    }
}

int mcast_writer_peer(const struct mcast *p, const struct mcast_reader *r)
{
    const int rank = p->path.cast->member[r->member].rank, state = control_peer_state(rank);

    return state == 0 && control_peer_exiting(rank) ? -EPIPE : state;
}

void mcast_writer_advance(struct mcast *p, int64_t now)
{
    for (uint32_t i = 0; i < p->readers; i++) {
        const struct mcast_reader *r = &p->reader[i];

        if (!p->sender.member[i].gone &&
            (r->closed || r->violation != NULL || mcast_writer_peer(p, r) != 0))
            nak_sender_gone(&p->sender, i, now);
    }
    mcast_writer_send(p, now);
    nak_sender_tick(&p->sender, now);
    mcast_carriers_tick(p, now);
}

/* ---- receiving ---- */

static bool writer_address_is(const struct medium_address *a, const struct medium_address *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

void mcast_writer_receive(struct mcast *p, const struct nak_head *head,
                          const struct mcast_arrival *a, int64_t now)
{
    struct mcast_reader *r = head->member < p->readers ? &p->reader[head->member] : NULL;

    if (head->kind != NAK_REPORT || r == NULL || !r->joined ||
        p->sender.member[head->member].gone || a->carrier != MCAST_UDP ||
        !writer_address_is(&r->address, &a->from))
        return;
    if (nak_sender_receive(&p->sender, head, now) == -EPROTO)
        r->violation = "it reports packets that were not sent";
    else if (p->sender.member[head->member].freed - p->first > p->published - p->first)
        r->violation = "it frees messages that were not written";
}

void mcast_writer_joined(struct mcast *p, uint32_t reader, const struct medium_address *at,
                         const char *violation)
{
    struct mcast_reader *r = &p->reader[reader];
    const int64_t now = clock_now();

    if (r->joined)
        return;
    r->joined = true;
    r->address = *at;
    r->violation = violation;
    nak_sender_ask_soon(&p->sender, now);
    mcast_carriers_measure(p, now);
    mcast_writer_advance(p, now);
}

/* ---- opening, closing ---- */

int mcast_writer_open(struct mcast *p, struct error *err)
{
    const struct rcast *c = p->path.cast;
    const struct nak_out out = {writer_send, p};

    p->reader = calloc((size_t)c->n, sizeof(*p->reader));
    p->queue = calloc(p->slots, sizeof(*p->queue));
    if (p->reader == NULL || p->queue == NULL)
        return error_set(err, -ENOMEM, "no memory for %d readers and %u messages", c->n, p->slots);
    for (int i = 0; i < c->n; i++)
        if (c->member[i].remote)
            p->reader[p->readers++].member = i;
    if (p->readers > UINT16_MAX)
        return error_set(err, -ENOTSUP, "%u readers are on other hosts; at most %d are possible",
                         p->readers, UINT16_MAX);
    p->cut = p->published = p->first;
    p->payload = (uint32_t)nak_payload(mcast_carriers_mtu(p));
    if (p->payload == 0)
        return error_set(err, -ENOTSUP, "packets of %zu bytes are too small",
                         mcast_carriers_mtu(p));
    if (nak_sender_open(&p->sender, &out, p->key, p->first, p->first, p->readers) != 0)
        return error_set(err, -ENOMEM, "no memory for packets to %u readers", p->readers);
    for (uint32_t i = 0; i < p->readers; i++)
        control_monitor(c->member[p->reader[i].member].rank);
    return 0;
}

void mcast_writer_close(struct mcast *p)
{
    nak_sender_close(&p->sender);
    free(p->reader);
    free(p->queue);
}
