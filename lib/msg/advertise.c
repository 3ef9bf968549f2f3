/* SPDX-License-Identifier: BSD-3-Clause */
/* advertise.c: see advertise.h. */
#include "msg/advertise.h"

#include "msg/buffer.h"
#include "msg/out.h"
#include "msg/request.h"
#include "util/failpoint.h"

#include <errno.h>

static inline struct msg_request *advertise_request(struct match_node *n)
{
    return container_of(n, struct msg_request, node);
}

static inline struct msg_link *advertise_link(const struct rmsg *msg, const struct msg_request *r)
{
    return r->peer == RMSG_ANY_SOURCE ? NULL : msg->link[r->peer];
}

static void advertise_wish(struct msg_link *l, struct msg_request *r)
{
    struct link *at = l->wishing.prev;

    /* the order of posting; nearly always the last one */
    while (at != &l->wishing &&
           container_of(at, struct msg_request, queue)->node.stamp > r->node.stamp)
        at = at->prev;
    list_insert(at, &r->queue);
    r->wishing = true;
    l->msg->wishing++;
}

static void advertise_unwish(struct rmsg *msg, struct msg_request *r)
{
    list_remove(&r->queue);
    r->wishing = false;
    msg->wishing--;
}

static void advertise_all(struct rmsg *msg)
{
    for (int i = 0; i < msg->ranks && msg->wishing > 0; i++)
        if (msg->link[i] != NULL)
            msg_advertise(msg->link[i]);
}

void msg_advertise_posted(struct msg_link *l, struct msg_request *r)
{
    advertise_wish(l, r);
    msg_advertise(l);
}

void msg_advertise_unposted(struct rmsg *msg, struct msg_request *r)
{
    if (r->wishing)
        advertise_unwish(msg, r);
    if (r->advertised) {
        struct msg_link *l = msg->link[r->peer];

        r->advertised = false;
        l->advertised--;
        if (!list_empty(&l->wishing))
            msg_advertise(l);
    }
    if (msg->wishing > 0 && match_kind_of(r->node.key) != MATCH_EXACT)
        advertise_all(msg);
}

void msg_advertise(struct msg_link *l)
{
    struct rmsg *msg = l->msg;
    struct link *at, *after;

    if (l->state != LINK_OPEN || l->out_code != 0 || !list_empty(&l->undoing))
        return;
    list_for_each (at, after, &l->wishing) {
        struct msg_request *r = container_of(at, struct msg_request, queue);
        struct msg_wire_fields f = {.id = pool_id(&r->item), .bytes = r->bytes, .seen = l->seen};

        if (l->advertised >= PLACES_STORED)
            return;
        if (match_held(&msg->posted, &r->node))
            continue;
        f.extra = match_place(&msg->posted, &r->node);
        f.number = r->rtr = ++l->rtr;
        if (l->remote != NULL) {
            f.where = (uintptr_t)r->buf;
            f.open = !r->blocking;
        } else {
            msg_out_name(l, r, r->bytes, &f.open, &f.where);
        }
        r->advertised = true;
        l->advertised++;
        advertise_unwish(msg, r);
        msg->counts.rtr_sent++;
        msg_out_say(l, MSG_WIRE_RTR, r->space, r->tag, &f);
        RPIPE_FAILPOINT("rmsg receive: RTR written");
        if (l->out_code != 0)
            return;
    }
}

void msg_advertise_refused(struct msg_link *l, struct msg_request *r)
{
    r->advertised = false;
    l->advertised--;
}

/* ---- cancelling ---- */

/* The first receive of the triple of r, from r on, that is advertised; or NULL. */
static struct msg_request *advertise_first_from(struct msg_request *r)
{
    for (struct match_node *n = &r->node; n != NULL; n = n->next)
        if (advertise_request(n)->advertised)
            return advertise_request(n);
    return NULL;
}

static void advertise_cancelled(struct rmsg *msg, struct msg_request *r)
{
    msg_unpost(msg, r);
    r->status = (rmsg_status_t){.from = r->peer, .space = r->space, .tag = r->tag};
    msg_request_received(msg, r, -ECANCELED);
}

void msg_advertise_cancel(struct rmsg *msg, struct msg_request *r)
{
    struct msg_request *first =
        match_kind_of(r->node.key) == MATCH_EXACT ? advertise_first_from(r) : NULL;
    struct msg_link *l = advertise_link(msg, r);
    struct msg_wire_fields f = {0};

    if (r->undoing)
        return;
    if (first == NULL) {
        advertise_cancelled(msg, r);
        return;
    }
    f.id = r->undo = first->rtr;
    r->undoing = true;
    list_append(&l->undoing, &r->undo_queue);
    msg->counts.undone++;
    msg_out_say(l, MSG_WIRE_UNDO, r->space, r->tag, &f);
    RPIPE_FAILPOINT("rmsg cancel: UNDO written");
}

/* The sender has forgotten all RTRs of this triple from this number on. */
static void advertise_forgotten(struct msg_link *l, struct match_key key, uint32_t number)
{
    for (struct match_node *n = match_first(&l->msg->posted.table, key); n != NULL; n = n->next) {
        struct msg_request *r = advertise_request(n);

        if (!r->advertised || (int32_t)(r->rtr - number) < 0)
            continue;
        r->advertised = false;
        l->advertised--;
        advertise_wish(l, r);
    }
}

bool msg_advertise_undone(struct msg_link *l, uint32_t number)
{
    struct rmsg *msg = l->msg;
    struct msg_request *r;

    if (list_empty(&l->undoing))
        return false;
    r = container_of(l->undoing.next, struct msg_request, undo_queue);
    if (r->undo != number)
        return false;
    list_remove(&r->undo_queue);
    r->undoing = false;
    advertise_forgotten(l, (struct match_key){r->tag, r->peer, r->space}, number);
    if (r->state == MSG_POSTED)
        advertise_cancelled(msg, r);
    else if (r->state == MSG_DONE && r->abandoned)
        msg_request_free(msg, r);
    msg_advertise(l);
    return true;
}

/* ---- the end of a link ---- */

void msg_advertise_end(struct msg_link *l, int code)
{
    struct rmsg *msg = l->msg;

    for (uint32_t i = 1; i < msg->requests.objects; i++) {
        struct msg_request *r = pool_by_index(&msg->requests, i);

        if (r == NULL || r->send || r->state == MSG_INACTIVE)
            continue;
        if (r->peer == l->peer && r->undoing) {
            list_remove(&r->undo_queue);
            r->undoing = false;
            if (r->state == MSG_DONE && r->abandoned) {
                msg_request_free(msg, r);
                continue;
            }
        }
        if (r->state == MSG_DONE || (r->state == MSG_POSTED ? r->peer : r->link->peer) != l->peer)
            continue;
        if (r->state == MSG_POSTED) {
            msg_unpost(msg, r);
            r->status = (rmsg_status_t){.from = l->peer, .space = r->space, .tag = r->tag};
        }
        msg_request_received(msg, r, msg_request_is_moved(r) || msg_buffer_is_moved(r) ? 0 : code);
    }
}
