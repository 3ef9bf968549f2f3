/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mcast_writer.c: the writer's end of the path to other hosts, see mcast.h.
 *
 * Messages wait in `queue` until the window has room for their packets. The payload of a packet is in memory of the cast, which stays
 * until every live reader has freed the message (cast.h, invariant 1): longer than the packet is retained.
 */
#include "cast/mcast.h"

#include "control/control.h"
#include "util/clock.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- sending ---- */

static void writer_send(void *arg, int to, const struct nak_head *head, const void *payload)
{
    struct mcast *p = arg;
    const struct medium_address *at = to == NAK_GROUP ? &p->group : &p->reader[to].address;

    if (at->family != 0)
        p->ops->send(p->medium, at, head, payload);
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

static void writer_send_all(struct mcast *p, int64_t now)
{
    while (p->cut != p->published && nak_sender_room(&p->sender) > 0)
        writer_send_packet(p, now);
    if (p->ending && !p->end_sent && p->cut == p->published && nak_sender_room(&p->sender) > 0) {
        const struct nak_head head = {.flags = NAK_END, .message = p->published};

        p->end_sent = true;
        nak_sender_send(&p->sender, &head, NULL, now);
    }
}

void mcast_writer_advance(struct mcast *p, int64_t now)
{
    for (uint32_t i = 0; i < p->readers; i++) {
        const struct mcast_reader *r = &p->reader[i];

        if (!p->sender.member[i].gone &&
            (r->closed || r->violation != NULL ||
             control_peer_state(p->path.cast->member[r->member].rank) != 0))
            nak_sender_gone(&p->sender, i, now);
    }
    writer_send_all(p, now);
    nak_sender_tick(&p->sender, now);
}

/* ---- receiving ---- */

static bool writer_address_is(const struct medium_address *a, const struct medium_address *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

void mcast_writer_receive(struct mcast *p, const struct nak_head *head,
                           const struct medium_address *from, int64_t now)
{
    struct mcast_reader *r = head->member < p->readers ? &p->reader[head->member] : NULL;

    if (head->kind != NAK_REPORT || r == NULL || !r->joined || p->sender.member[head->member].gone ||
        !writer_address_is(&r->address, from))
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
    mcast_writer_advance(p, now);
    mcast_set_timer(p, now);
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
    p->payload = (uint32_t)nak_payload(p->ops->mtu(p->medium));
    p->root = p->ops->address(p->medium);
    p->group = p->ops->group(p->medium, p->key);
    if (p->payload == 0)
        return error_set(err, -ENOTSUP, "packets of %zu bytes are too small",
                         p->ops->mtu(p->medium));
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

/* ---- operations of the path ---- */

void mcast_publish(struct cast_path *path, const struct cast_message *m)
{
    struct mcast *p = mcast_of(path);
    int64_t now;

    pthread_mutex_lock(&p->lock);
    p->queue[m->number & (p->slots - 1)] = *m;
    p->published = m->number + 1;
    RPIPE_FAILPOINT("rcast_write: before packets");
    if (nak_sender_room(&p->sender) < NAK_WINDOW / 2) {
        mcast_drive(p); /* reports may have come */
    } else {
        now = clock_now();
        writer_send_all(p, now);
        mcast_set_timer(p, now);
    }
    RPIPE_FAILPOINT("rcast_write: packets sent");
    pthread_mutex_unlock(&p->lock);
}

/* Reports to the cast what has been noted about a reader. */
static void writer_report_reader(struct mcast *p, struct mcast_reader *r)
{
    struct rcast *c = p->path.cast;
    const int state = control_peer_state(c->member[r->member].rank);

    if (r->violation != NULL)
        cast_member_left(c, r->member, CAST_LOST, -EPROTO, "%s", r->violation);
    else if (r->closed)
        cast_member_left(c, r->member, CAST_CLOSED, 0, "closed");
    else if (state == -ECONNRESET)
        cast_member_left(c, r->member, CAST_LOST, -ECONNRESET, "died");
    else if (state != 0)
        cast_member_left(c, r->member, CAST_CLOSED, 0, "left the job");
    r->left = r->violation != NULL || r->closed || state != 0;
}

uint64_t mcast_refresh(struct cast_path *path, uint64_t need)
{
    struct mcast *p = mcast_of(path);
    uint64_t least = UINT64_MAX;
    bool lives = false;

    pthread_mutex_lock(&p->lock);
    mcast_drive(p);
    for (uint32_t i = 0; i < p->readers; i++) {
        const uint64_t freed = p->sender.member[i].freed;

        if (!p->reader[i].left)
            writer_report_reader(p, &p->reader[i]);
        if (p->reader[i].left)
            continue;
        if (!lives || (int64_t)(freed - least) < 0)
            least = freed;
        lives = true;
    }
    nak_sender_wait(&p->sender, lives && (int64_t)(least - need) < 0, clock_now());
    mcast_set_timer(p, clock_now());
    pthread_mutex_unlock(&p->lock);
    return least;
}

void mcast_position(struct cast_path *path, int member, uint64_t *read, uint64_t *freed)
{
    struct mcast *p = mcast_of(path);

    *read = *freed = p->first;
    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < p->readers; i++)
        if (p->reader[i].member == member)
            *read = *freed = p->sender.member[i].freed; /* what it has read is not reported */
    pthread_mutex_unlock(&p->lock);
}

void mcast_end(struct cast_path *path, uint64_t number)
{
    struct mcast *p = mcast_of(path);

    (void)number; /* that of the next message: all were published */
    pthread_mutex_lock(&p->lock);
    p->ending = true;
    mcast_drive(p);
    pthread_mutex_unlock(&p->lock);
    RPIPE_FAILPOINT("rcast_close: END sent");
}

int mcast_drain(struct cast_path *path)
{
    struct mcast *p = mcast_of(path);
    int rc;

    pthread_mutex_lock(&p->lock);
    mcast_drive(p);
    rc = p->end_sent && nak_sender_done(&p->sender) ? 0 : R_PENDING;
    for (uint32_t i = 0; rc != 0 && i < p->readers; i++)
        if (!p->sender.member[i].gone && p->sender.member[i].got != p->sender.next)
            path->cast->last_lost = p->reader[i].member;
    pthread_mutex_unlock(&p->lock);
    return rc;
}
