/* SPDX-License-Identifier: BSD-3-Clause */
/* arrive.c: see arrive.h: messages, and payloads of receives. */
#include "msg/arrive.h"

#include "msg/advertise.h"
#include "msg/buffer.h"
#include "msg/direct.h"
#include "msg/kept.h"
#include "msg/link.h"
#include "msg/move.h"
#include "msg/out.h"
#include "msg/request.h"
#include "msg/serve.h"
#include "msg/window.h"
#include "util/failpoint.h"

#include <errno.h>

/* ---- messages that have waited ---- */

/*
 * The payload of r is at the sender, and the receiver has it moved. With a cell (number + 1) it begins to do so itself; from a window over
 * a network it fetches the payload, and sends FIN.
 */
static void arrive_fetch(struct msg_link *l, struct msg_request *r, uint32_t send, uint32_t cell,
                         uint64_t where)
{
    struct msg_wire_fields f = {.id = pool_id(&r->item), .bytes = r->total};

    r->state = MSG_ARRIVING;
    r->other = send;
    if (r->total > 0 && l->direct != NULL && cell != 0 && msg_buffer_aim(l, r, cell, where)) {
        (void)msg_direct_turn(r);
        return;
    }
    if (r->total > 0) {
        if (l->direct != NULL) {
            msg_out_name(l, r, r->total, &f.extra, &f.where);
            cell = 0;
        }
        if (cell != 0)
            f.where = (uintptr_t)r->buf;
        msg_out_say(l, MSG_WIRE_CTS, 0, send, &f);
        RPIPE_FAILPOINT("rmsg receive: CTS written");
        if (cell != 0)
            msg_move_receive(l, r, cell - 1, where);
        return;
    }
    msg_out_say(l, MSG_WIRE_FIN, 0, send, NULL);
    msg_request_received(l->msg, r, 0);
}

void msg_arrive_take(struct rmsg *msg, struct msg_message *m, struct msg_request *r)
{
    struct match_key key = m->match.node[MATCH_EXACT].key;
    struct msg_link *l = m->link;
    const uint32_t send = m->send, cell = m->cell;
    const uint64_t where = m->where;

    msg->counts.received_waiting++;
    msg_request_matched(r, l, key.space, key.tag, m->bytes);
    if (m->offered) {
        msg_kept_free(msg, m);
        if (send != 0)
            arrive_fetch(l, r, send, cell, where);
        else
            msg_request_received(msg, r, l->code);
        return;
    }
    if (r->total > 0)
        memcpy(r->buf, msg_kept_payload(m), r->total);
    msg_kept_free(msg, m);
    msg_request_received(msg, r, 0);
}

/* ---- messages ---- */

static inline struct msg_request *arrive_match_key(struct msg_link *l, uint32_t space, uint32_t tag)
{
    struct match_node *n =
        match_posted_find(&l->msg->posted, (struct match_key){tag, l->peer, space});

    return n == NULL ? NULL : container_of(n, struct msg_request, node);
}

static inline struct msg_request *arrive_match(struct msg_link *l, const struct msg_wire *w)
{
    return arrive_match_key(l, w->space, w->word);
}

/*
 * The receive r, which is next for a message, was abandoned at its deadline, and its UNDO is not answered yet: the next one takes its
 * place. None behind it is advertised, since a call that waits posts no other receive, and an UNDO holds back all RTRs of the link: so
 * the sender has addressed no later message to one of them.
 */
static __attribute__((cold, noinline)) struct msg_request *
arrive_abandoned(struct msg_link *l, const struct msg_wire *w, struct msg_request *r)
{
    while (r != NULL && r->abandoned) {
        msg_unpost(l->msg, r);
        msg_request_received(l->msg, r, -ECANCELED);
        r = arrive_match(l, w);
    }
    return r;
}

static MSG_INLINE const char *arrive_deliver(struct msg_link *l, struct msg_request *r,
                                             uint32_t space, uint32_t tag, const rtaken_t *m)
{
    msg_unpost(l->msg, r);
    msg_request_matched(r, l, space, tag, m->bytes);
    msg_arrive_copy(l, m, r->buf, r->total);
    msg_request_received(l->msg, r, 0);
    return NULL;
}

/* No receive waits for a message, or r, which was abandoned. */
static __attribute__((noinline)) const char *arrive_unexpected(struct msg_link *l,
                                                               struct msg_request *r,
                                                               uint32_t space, uint32_t tag,
                                                               const rtaken_t *m)
{
    const struct msg_wire w = {MSG_WIRE_MSG, space, tag, m->bytes};

    r = arrive_abandoned(l, &w, r);
    return r != NULL ? arrive_deliver(l, r, space, tag, m) : msg_kept_add(l, &w, m, NULL);
}

static MSG_INLINE const char *arrive_msg(struct msg_link *l, uint32_t space, uint32_t tag,
                                         const rtaken_t *m)
{
    struct msg_request *r;

    if (MSG_UNLIKELY(!msg_arrive_allows(l, tag, m->bytes)))
        return "a message that its share of the memory here does not allow";
    msg_arrive_count(l, m->bytes);
    r = arrive_match_key(l, space, tag);
    return MSG_LIKELY(r != NULL && !r->abandoned) ? arrive_deliver(l, r, space, tag, m)
                                                  : arrive_unexpected(l, r, space, tag, m);
}

/* A cell that is named can be used, or none is named; an offer over a network may name a window. */
static inline bool arrive_has_cell(const struct msg_link *l, const struct msg_wire *w,
                                   const struct msg_wire_fields *f)
{
    if (l->direct != NULL)
        return (w->kind == MSG_WIRE_RTS || f->extra == 0) &&
               msg_buffer_valid(l, f->extra, f->where, f->bytes);
    return f->extra == 0 ||
           (f->extra <= MSG_CELLS && f->where != 0 && l->in_cells != NULL && l->remote != NULL);
}

static const char *arrive_rts(struct msg_link *l, const struct msg_wire *w,
                              const struct msg_wire_fields *f)
{
    const bool fetches = l->direct != NULL && f->extra != 0; /* the sender ignores an RTR for it */
    struct msg_request *r;
    bool advertised;

    if (f->id == 0 || f->bytes > SIZE_MAX / 2 || !arrive_has_cell(l, w, f))
        return "an RTS without a send, or with an impossible length or cell";
    l->seen++;
    r = arrive_match(l, w);
    if (MSG_UNLIKELY(r != NULL && r->abandoned &&
                     (!r->advertised || fetches))) /* else DATA will come */
        r = arrive_abandoned(l, w, r);
    if (r == NULL)
        return msg_kept_add(l, w, NULL, f);
    l->msg->counts.received_offered++;
    advertised = r->advertised;
    msg_unpost(l->msg, r);
    msg_request_matched(r, l, w->space, w->word, f->bytes);
    if (!advertised || fetches) {
        arrive_fetch(l, r, f->id, f->extra, f->where);
    } else if (f->extra != 0 && l->direct == NULL) { /* the sender begins when it finds the RTR */
        r->other = f->id;
        msg_move_receive(l, r, f->extra - 1, f->where);
    } else {
        r->state = MSG_PROMISED;
        r->other = f->id;
    }
    return NULL;
}

static const char *arrive_placed(struct msg_link *l, const struct msg_wire *w,
                                 const struct msg_wire_fields *f)
{
    struct msg_request *r;

    l->seen++;
    r = arrive_match(l, w);
    if (r == NULL || !r->advertised || pool_id(&r->item) != f->id || f->bytes > SIZE_MAX / 2 ||
        !arrive_has_cell(l, w, f))
        return "a message for a receive that is not the next one";
    l->msg->counts.received_placed++;
    msg_unpost(l->msg, r);
    msg_request_matched(r, l, w->space, w->word, f->bytes);
    r->state = MSG_ARRIVING;
    if (r->total == 0)
        msg_request_received(l->msg, r, 0);
    else if (f->extra != 0)
        msg_move_receive(l, r, f->extra - 1, f->where);
    return NULL;
}

/* ---- payloads ---- */

/* The receive of this link with an id, in one of two states, whose payload comes as parts or by WRITTEN; or NULL. */
static inline struct msg_request *arrive_receive(struct msg_link *l, uint32_t id,
                                                 enum msg_state state, enum msg_state or_state)
{
    struct msg_request *r = pool_by_id(&l->msg->requests, id);

    return r != NULL && !r->send && r->link == l && r->cell == NULL && r->window == 0 &&
                   (r->state == state || r->state == or_state)
               ? r
               : NULL;
}

static const char *arrive_part(struct msg_link *l, const struct msg_wire *w, const rtaken_t *m)
{
    struct msg_request *r = arrive_receive(l, w->word, MSG_ARRIVING, MSG_ARRIVING);

    if (r == NULL || w->space != 0 || w->bytes == 0 || w->bytes > r->total - r->moved)
        return "a part that no receive waits for";
    if (r->buf != NULL)
        memcpy(r->buf + r->moved, m->mem, w->bytes);
    msg_taken_free(l, m);
    r->moved += w->bytes;
    RPIPE_FAILPOINT("rmsg receive: part copied");
    if (r->moved == r->total)
        msg_request_received(l->msg, r, 0);
    return NULL;
}

/* The sender has written the payload into the buffer, through the window that this process has named. */
static const char *arrive_written(struct msg_link *l, uint32_t receive)
{
    struct msg_request *r = arrive_receive(l, receive, MSG_ARRIVING, MSG_ARRIVING);

    if (r == NULL || r->lent == NULL || r->lent->access == 0 || r->moved > 0)
        return "a WRITTEN for a receive that has no window";
    l->msg->counts.received_written++;
    RPIPE_FAILPOINT("net: rmsg payload in the buffer, WRITTEN read");
    msg_request_received(l->msg, r, 0);
    return NULL;
}

static const char *arrive_data(struct msg_link *l, const struct msg_wire *w,
                               const struct msg_wire_fields *f)
{
    struct msg_request *r = arrive_receive(l, w->word, MSG_PROMISED, MSG_PROMISED);

    if (r == NULL || r->other != f->id)
        return "the payload of a message that no receive waits for";
    r->state = MSG_ARRIVING;
    if (r->total == 0)
        msg_request_received(l->msg, r, 0);
    return NULL;
}

static const char *arrive_refused(struct msg_link *l, uint32_t receive, uint32_t number)
{
    struct msg_request *r = pool_by_id(&l->msg->requests, receive);

    if (r == NULL || r->send || r->rtr != number)
        return NULL; /* it has been matched by an earlier message, and may be gone, or started again */
    if (r->state == MSG_POSTED && r->advertised && r->peer == l->peer)
        msg_advertise_refused(l, r);
    else if (r->state == MSG_PROMISED && r->link == l)
        arrive_fetch(l, r, r->other, 0, 0);
    else if (r->state == MSG_ARRIVING && r->link == l && r->cell != NULL)
        msg_out_say(l, MSG_WIRE_CTS, 0, r->other,
                    &(struct msg_wire_fields){
                        .id = receive, .bytes = r->total, .where = (uintptr_t)r->buf});
    return NULL;
}

static const char *arrive_abort(struct msg_link *l, uint32_t receive)
{
    struct msg_request *r = arrive_receive(l, receive, MSG_ARRIVING, MSG_PROMISED);

    if (r == NULL)
        return "an ABORT of what no receive waits for";
    msg_request_received(l->msg, r, -ECANCELED);
    return NULL;
}

/* ---- dispatch ---- */

/* A send whose payload the network writes begins at once: what is held for it (out.h) is posted before the next call waits. */
static const char *arrive_for_send(struct msg_link *l, const struct msg_wire *w,
                                   const struct msg_wire_fields *f)
{
    const char *wrong = msg_serve(l, w, f);
    const struct link *sharing = &l->msg->sharing;
    struct msg_request *r;

    if (wrong != NULL || l->direct == NULL || list_empty(sharing))
        return wrong;
    r = container_of(sharing->prev, struct msg_request, queue);
    if (r->link == l && r->send && r->window != 0 && r->moved == 0)
        (void)msg_direct_turn(r);
    return NULL;
}

static const char *arrive_fixed(struct msg_link *l, const struct msg_wire *w, const rtaken_t *m)
{
    struct msg_wire_fields f;
    bool valid;

    if (w->kind == MSG_WIRE_WINDOW || w->kind == MSG_WIRE_CELLS)
        return msg_window_arrived(l, w, m);
    valid = msg_wire_fields(w, m->mem, &f);
    msg_taken_free(l, m);
    if (!valid)
        return "a message whose fields are not valid";
    switch (w->kind) {
    case MSG_WIRE_READY:
        return msg_window_ready(l);
    case MSG_WIRE_END:
        return msg_link_ended(l, (enum msg_wire_reason)w->word);
    case MSG_WIRE_RTS:
        return arrive_rts(l, w, &f);
    case MSG_WIRE_PLACED:
        return arrive_placed(l, w, &f);
    case MSG_WIRE_DATA:
        return arrive_data(l, w, &f);
    case MSG_WIRE_WRITTEN:
        return arrive_written(l, w->word);
    case MSG_WIRE_ABORT:
        return arrive_abort(l, w->word);
    case MSG_WIRE_REFUSED:
        return arrive_refused(l, w->word, f.id);
    case MSG_WIRE_RTR:
    case MSG_WIRE_CTS:
        return arrive_for_send(l, w, &f);
    case MSG_WIRE_UNDONE:
        return msg_advertise_undone(l, w->word) ? NULL : "an UNDONE that nothing asked for";
    default:
        return msg_serve(l, w, &f);
    }
}

/* Whatever is not a message with its payload, of a link that is open. */
static __attribute__((noinline)) int arrive_other(struct msg_link *l, int rc, const rtaken_t *m)
{
    const char *wrong;
    struct msg_wire w;

    if (MSG_UNLIKELY(rc != 0))
        return msg_link_end(l, rc == R_EOF ? -EPIPE : rc,
                            rc == R_EOF ? "it has closed its context" : rpipe_error(l->in));
    if (MSG_UNLIKELY(!msg_wire_parse(m->tag, m->bytes, &w)))
        return msg_link_violation(l, "a header that is not valid");
    if (MSG_UNLIKELY(l->state == LINK_OPENING || w.kind == MSG_WIRE_HELLO))
        return msg_link_greeted(l, &w, m);
    wrong = w.kind == MSG_WIRE_PART ? arrive_part(l, &w, m) : arrive_fixed(l, &w, m);
    return MSG_LIKELY(wrong == NULL) ? 0 : msg_link_violation(l, wrong);
}

static MSG_INLINE int arrive_one(struct msg_link *l, int rc, const rtaken_t *m)
{
    const char *wrong;

    if (MSG_UNLIKELY(rc != 0 || l->state == LINK_OPENING || !msg_wire_is_msg(m->tag)))
        return arrive_other(l, rc, m);
    wrong = arrive_msg(l, msg_wire_space(m->tag), msg_wire_word(m->tag), m);
    return MSG_LIKELY(wrong == NULL) ? 0 : msg_link_violation(l, wrong);
}

int msg_arrive(struct msg_link *l, int rc, const rtaken_t *m) { return arrive_one(l, rc, m); }

void msg_arrive_several(struct msg_link *l, int rc, rtaken_t *m, int most)
{
    do
        (void)arrive_one(l, rc, m);
    while (--most > 0 && l->state != LINK_ENDED && (rc = rpipe_take(l->in, m)) != R_PENDING);
}
