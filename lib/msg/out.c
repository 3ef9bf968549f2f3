/* SPDX-License-Identifier: BSD-3-Clause */
/* out.c: see out.h. */
#include "msg/out.h"

#include "msg/buffer.h"
#include "msg/prepare.h"
#include "msg/request.h"
#include "util/failpoint.h"

#include <errno.h>
#include <rpipe.h>
#include <stdlib.h>

#define OUT_OWED_MOST                                                                              \
    (1u                                                                                            \
     << 20) /* a peer that makes so many answers owed, and reads none, has violated the protocol */
#define OUT_BURST 8          /* parts of one send in a row */
#define OUT_PART (64u << 10) /* of a long payload, */
#define OUT_SHORT_PART                                                                             \
    (8u << 10) /* and of one of up to OUT_SHORT bytes: both processors copy at the same time */
#define OUT_SHORT (128u << 10)
#define OUT_PART_LEAST 4096u /* unless there was no memory for */
#define OUT_STARVED 1000u    /* attempts in a row */
#define OUT_SHARED_LEAST                                                                           \
    4096u /* a payload of more bytes is copied across address spaces, where that is possible */

/* ---- one message of the pipe ---- */

int msg_out_put(struct msg_link *l, uint64_t header, const void *mem, size_t bytes)
{
    raddr_t d;
    int rc;

    if (bytes <= MSG_WIRE_SLOT_BYTES)
        return msg_out_put_slot(l, header, mem, bytes);
    rc = msg_prepare_take(l, bytes, &d) ? 0 : rmalloc_nb(l->out, bytes, &d);
    if (MSG_UNLIKELY(rc != 0)) {
        if (rc != R_PENDING)
            msg_out_broken(l, rc);
        return rc;
    }
    memcpy(rmalloc_ptr(l->out, d), mem, bytes);
    (void)rpipe_set_tag(l->out, d, header);
    rc = rpipe_write_nb(l->out, d);
    if (MSG_LIKELY(rc == 0))
        return 0;
    (void)rmalloc_free(l->out, d);
    if (rc != R_PENDING)
        msg_out_broken(l, rc);
    return rc;
}

int msg_out_room(struct msg_link *l)
{
    int rc = rpipe_room(l->out, 0);

    if (MSG_UNLIKELY(rc != 0 && rc != R_PENDING))
        msg_out_broken(l, rc);
    return rc;
}

/* ---- messages of the link itself ---- */

static bool msg_out_owed_grow(struct msg_link *l)
{
    uint32_t room = l->owed_room == 0 ? 32 : 2 * l->owed_room;
    struct msg_owed *owed;

    if (room > OUT_OWED_MOST)
        return false;
    owed = malloc(room * sizeof(*owed));
    if (owed == NULL)
        return false;
    for (uint32_t i = 0; i < l->owed_count; i++)
        owed[i] = l->owed[(l->owed_first + i) & (l->owed_room - 1)];
    free(l->owed);
    l->owed = owed;
    l->owed_first = 0;
    l->owed_room = room;
    return true;
}

void msg_out_say(struct msg_link *l, enum msg_wire_kind kind, uint32_t space, uint32_t word,
                 const struct msg_wire_fields *f)
{
    uint64_t header = msg_wire_header(kind, space, word);
    struct msg_owed *owed;

    if (l->out_code != 0 || l->state == LINK_ENDED)
        return;
    if (MSG_LIKELY(l->owed_count == 0 && l->state == LINK_OPEN) &&
        msg_out_put(l, header, f, msg_wire_fields_bytes(kind)) != R_PENDING)
        return;
    if (l->owed_count == l->owed_room && !msg_out_owed_grow(l)) {
        msg_out_broken(l, -ENOMEM);
        return;
    }
    owed = &l->owed[(l->owed_first + l->owed_count++) & (l->owed_room - 1)];
    owed->header = header;
    if (f != NULL)
        owed->fields = *f;
    else
        memset(&owed->fields, 0, sizeof(owed->fields));
    msg_out_busy(l);
}

void msg_out_broken(struct msg_link *l, int code)
{
    if (l->out_code != 0)
        return;
    l->out_code = code;
    l->owed_count = 0;
    msg_request_end_sends(l, code);
    list_remove(&l->busy);
}

/* ---- windows of own buffers ---- */

/* The buffer stays the library's until the peer does not use it any more; or the window of a receive can be taken back. */
static bool out_may_name(const struct msg_link *l, const struct msg_request *r, size_t bytes)
{
    return l->direct != NULL && l->out_code == 0 && l->state == LINK_OPEN && !r->abandoned &&
           (!msg_request_may_end(l->msg, r) || (!r->send && l->direct->by_address)) &&
           bytes >= (l->direct->by_address || r->persistent ? BUFFER_LEAST : BUFFER_PINNED);
}

/*
 * False: the peer has no memory for the message now; or an RTR or CTS is owed, which may have this number, of the buffer that had it before,
 * and must be in front.
 */
static bool out_announce(struct msg_link *l, const struct msg_buffer *b,
                         const rwindow_handle_t *handle)
{
    struct msg_wire_window w = {.probe = 0};

    static_assert(sizeof(*handle) == sizeof(w.handle), "a handle in a message");
    memcpy(w.handle, handle, sizeof(w.handle));
    RPIPE_FAILPOINT("net: rmsg window of a buffer open, before WINDOW");
    if (l->owed_count > 0 ||
        msg_out_put(l, msg_wire_header(MSG_WIRE_WINDOW, 0, msg_buffer_number(b)), &w, sizeof(w)) !=
            0)
        return false;
    l->msg->counts.windows++;
    return true;
}

void msg_out_name(struct msg_link *l, struct msg_request *r, size_t bytes, uint32_t *number,
                  uint64_t *where)
{
    rwindow_handle_t handle;
    bool opened;

    if (r->lent == NULL && out_may_name(l, r, bytes)) {
        struct msg_buffer *b =
            msg_buffer_take(l, r, bytes, r->send ? RWINDOW_READ : RWINDOW_WRITE, &handle, &opened);

        if (b != NULL && opened && !out_announce(l, b, &handle)) {
            msg_buffer_close_window(b);
            msg_buffer_put(b);
            b = NULL;
        }
        r->lent = b;
    }
    if (r->lent == NULL || r->lent->access == 0 || r->abandoned) /* abandoned: it has no buffer */
        return;
    *number = msg_buffer_number(r->lent);
    *where = (uint64_t)(r->buf - r->lent->base) + 1;
}

/* ---- messages ---- */

/* Both ends copy chunks. An abandoned send waits for MOVED, and copies nothing. */
static void out_share(struct msg_request *r, const struct places_rtr *to)
{
    r->where = to->where;
    r->chunks = cell_chunks(r->total);
    r->held = 0;
    if (r->abandoned)
        return;
    if (to->open)
        cell_open(r->cell);
    list_append(&r->link->msg->sharing, &r->queue);
}

/* Bytes of the payload that the receive takes. */
static inline size_t out_total(const struct msg_request *r, const struct places_rtr *to)
{
    return r->bytes < to->room ? r->bytes : (size_t)to->room;
}

bool msg_out_cork(struct msg_link *l, const struct msg_request *r, const struct places_rtr *to)
{
    return r->cell == NULL && !r->abandoned &&
           msg_buffer_suits(l, to->open, to->where, out_total(r, to)) && rpipe_cork(l->out, 1) == 0;
}

void msg_out_uncork(struct msg_link *l, const struct msg_request *r)
{
    if (r->window == 0 && l->out_code == 0)
        (void)rpipe_cork(l->out, 0);
}

void msg_out_move(struct msg_request *r, const struct places_rtr *to)
{
    struct msg_link *l = r->link;
    const uint32_t receive = to->receive;
    bool give_up;

    r->other = receive;
    r->total = out_total(r, to);
    r->moved = 0;
    r->state = MSG_MOVING;
    if (r->cell != NULL) {
        out_share(r, to);
        return;
    }
    if (r->total == 0 || r->abandoned) {
        give_up = r->total > 0;
        msg_request_sent(r, 0); /* before what may end all sends of the link */
        if (give_up)
            msg_out_say(l, MSG_WIRE_ABORT, 0, receive, NULL);
        return;
    }
    if (to->open != 0 && msg_buffer_aim(l, r, to->open, to->where))
        return;
    list_append(&l->moving, &r->queue);
    msg_out_busy(l);
}

/* A cell for a send, if both ends can use one; to: the receive that it is for, or NULL. */
static void out_take_cell(struct msg_link *l, struct msg_request *r, const struct places_rtr *to)
{
    const uint32_t i = (uint32_t)__builtin_ctz(~l->cells_used | 1u << (MSG_CELLS - 1));

    if (!l->ready || l->cells_used == UINT32_MAX || r->bytes <= OUT_SHARED_LEAST ||
        (to != NULL && (to->where == 0 || to->room <= OUT_SHARED_LEAST)))
        return;
    l->cells_used |= 1u << i;
    l->cell_of[i] = r;
    r->cell_number = i;
    r->cell = &l->out_cells[i];
    r->chunks = 0; /* not known yet */
    cell_begin(r->cell, to != NULL && to->open);
}

/* A message whose payload does not leave now. There is a slot. */
static int msg_out_offer(struct msg_link *l, uint32_t space, uint32_t tag, struct msg_request *r)
{
    struct msg_wire_fields f = {.bytes = r->bytes};
    struct places_rtr rtr;
    bool placed = places_next(&l->places, space, tag, &rtr), corked = false;
    const enum msg_wire_kind kind = placed ? MSG_WIRE_PLACED : MSG_WIRE_RTS;
    int rc;

    f.id = placed ? rtr.receive : pool_id(&r->item);
    out_take_cell(l, r, placed ? &rtr : NULL);
    if (!placed)
        msg_out_name(l, r, r->bytes, &f.extra, &f.where);
    else
        corked = msg_out_cork(l, r, &rtr);
    if (r->cell != NULL) {
        f.extra = r->cell_number + 1;
        f.where = (uintptr_t)r->buf;
        l->msg->counts.sent_shared++;
    }
    rc = msg_out_put(l, msg_wire_header(kind, space, tag), &f, msg_wire_fields_bytes(kind));
    if (rc != 0) { /* the RTR stays stored */
        if (r->cell != NULL) {
            msg_out_free_cell(l, r->cell_number);
            l->msg->counts.sent_shared--;
        }
        r->cell = NULL;
        if (corked)
            msg_out_uncork(l, r);
        return rc;
    }
    (void)places_take(&l->places, space, tag, &rtr);
    l->msg->counts.bytes_out += r->bytes;
    r->number = places_sent(&l->places, space, tag, placed ? 0 : pool_id(&r->item));
    if (placed) {
        l->msg->counts.sent_placed++;
        RPIPE_FAILPOINT("rmsg send: PLACED written");
        msg_out_move(r, &rtr);
        if (corked)
            msg_out_uncork(l, r);
    } else {
        l->msg->counts.sent_offered++;
        RPIPE_FAILPOINT("rmsg send: RTS written");
        r->state = MSG_OFFERED;
    }
    return 0;
}

/* The next message of this space and tag can be written into the buffer of its receive. */
static inline bool out_has_window(const struct msg_link *l, uint32_t space, uint32_t tag,
                                  size_t bytes, const struct msg_request *r)
{
    struct places_rtr rtr;

    return MSG_UNLIKELY(l->direct != NULL && l->places.stored != 0) && bytes >= BUFFER_LEAST &&
           r != NULL && !r->blocking && places_next(&l->places, space, tag, &rtr) &&
           msg_buffer_suits(l, rtr.open, rtr.where, bytes < rtr.room ? bytes : (size_t)rtr.room);
}

/* A message of more bytes than a slot has, with its payload, which its share allows. */
static int msg_out_send_heap(struct msg_link *l, uint32_t space, uint32_t tag, const void *buf,
                             size_t bytes)
{
    int rc = msg_out_room(l);

    if (rc == 0)
        rc = msg_out_put(l, msg_wire_header(MSG_WIRE_MSG, space, tag), buf, bytes);
    if (rc != 0)
        return rc;
    RPIPE_FAILPOINT("rmsg send: MSG written");
    l->msg->counts.sent_heap++;
    msg_prepare_next(l, bytes);
    msg_out_sent(l, space, tag, bytes);
    return 0;
}

int msg_out_send(struct msg_link *l, uint32_t space, uint32_t tag, const void *buf, size_t bytes,
                 struct msg_request *r)
{
    bool slot = bytes <= MSG_WIRE_SLOT_BYTES;
    int rc;

    if (MSG_LIKELY(
            (slot || (bytes <= l->msg->eager_most && !out_has_window(l, space, tag, bytes, r))) &&
            msg_out_share(l, bytes) && (r == NULL || !r->sync))) {
        rc = slot ? msg_out_send_slot(l, space, tag, buf, bytes)
                  : msg_out_send_heap(l, space, tag, buf, bytes);
        if (rc == 0 && r != NULL)
            msg_request_sent(r, 0);
        if (rc != R_PENDING || slot)
            return rc;
    }
    if (r == NULL)
        return R_PENDING;
    rc = msg_out_room(l);
    return rc != 0 ? rc : msg_out_offer(l, space, tag, r);
}

/* ---- what could not leave at once ---- */

static bool msg_out_push_owed(struct msg_link *l)
{
    while (l->owed_count > 0) {
        const struct msg_owed *owed = &l->owed[l->owed_first & (l->owed_room - 1)];

        if (msg_out_put(l, owed->header, &owed->fields,
                        msg_wire_fields_bytes((enum msg_wire_kind)(owed->header & 255))) != 0)
            return false;
        l->owed_first++;
        l->owed_count--;
    }
    return true;
}

static bool msg_out_push_waiting(struct msg_link *l)
{
    while (!list_empty(&l->waiting)) {
        struct msg_request *r = container_of(l->waiting.next, struct msg_request, queue);

        list_remove(&r->queue);
        if (msg_out_send(l, r->space, r->tag, r->buf, r->bytes, r) == 0)
            continue;
        if (l->out_code == 0)
            list_insert(&l->waiting, &r->queue); /* still the first */
        else if (r->state == MSG_QUEUED)
            msg_request_sent(r, l->out_code);
        return false;
    }
    return true;
}

/*
 * The next part; smaller where the memory of the peer has no block of that size. If even that fails for long, what is kept there
 * has left small gaps alone: parts then travel in slots. 0, R_PENDING or an error.
 */
static int msg_out_part(struct msg_link *l, struct msg_request *r)
{
    size_t most = r->total <= OUT_SHORT ? OUT_SHORT_PART : OUT_PART, left = r->total - r->moved;
    size_t bytes = most < l->part_bytes ? most : l->part_bytes;
    int rc = msg_out_room(l);

    if (rc != 0)
        return rc;
    for (bytes = bytes < left ? bytes : left;;
         bytes = bytes > 2 * MSG_WIRE_SLOT_BYTES ? bytes / 2 : MSG_WIRE_SLOT_BYTES) {
        rc = msg_out_put(l, msg_wire_header(MSG_WIRE_PART, 0, r->other), r->buf + r->moved, bytes);
        if (rc != R_PENDING || bytes <= MSG_WIRE_SLOT_BYTES ||
            (bytes <= OUT_PART_LEAST && ++l->starved < OUT_STARVED))
            break;
    }
    if (rc == 0) {
        RPIPE_FAILPOINT("rmsg send: part written");
        l->starved = 0;
        r->moved += bytes;
        l->msg->counts.parts++;
    }
    return rc;
}

static bool msg_out_push_moving(struct msg_link *l)
{
    while (!list_empty(&l->moving)) {
        struct msg_request *r = container_of(l->moving.next, struct msg_request, queue);
        int rc = 0;

        if (r->abandoned) {
            uint32_t receive = r->other;

            list_remove(&r->queue);
            msg_request_sent(r, 0); /* frees it, before what may end all sends of the link */
            msg_out_say(l, MSG_WIRE_ABORT, 0, receive, NULL);
            continue;
        }
        for (int burst = 0; burst < OUT_BURST && r->moved < r->total && rc == 0; burst++)
            rc = msg_out_part(l, r);
        if (l->out_code != 0 || rc != 0)
            return false;
        list_remove(&r->queue);
        if (r->moved < r->total) {
            list_append(&l->moving, &r->queue); /* in turn with the others */
            return false;
        }
        msg_request_sent(r, 0);
    }
    return true;
}

bool msg_out_push(struct msg_link *l)
{
    if (l->out_code != 0 || l->state == LINK_ENDED) {
        list_remove(&l->busy);
        return false;
    }
    if (l->state != LINK_OPEN)
        return true;
    if (msg_out_push_owed(l) && msg_out_push_waiting(l) && msg_out_push_moving(l) &&
        l->owed_count == 0 && list_empty(&l->waiting)) {
        list_remove(&l->busy);
        return false;
    }
    return l->out_code == 0;
}
