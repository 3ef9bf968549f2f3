/* SPDX-License-Identifier: BSD-3-Clause */
/* serve.c: see serve.h. */
#include "msg/serve.h"

#include "msg/buffer.h"
#include "msg/out.h"
#include "msg/request.h"
#include "util/failpoint.h"

/* The send of this link with an id, whose RTS has left; or NULL. */
static struct msg_request *serve_offered(struct msg_link *l, uint32_t id)
{
    struct msg_request *r = pool_by_id(&l->msg->requests, id);

    return r != NULL && r->send && r->link == l && r->state == MSG_OFFERED ? r : NULL;
}

static const char *serve_rtr(struct msg_link *l, const struct msg_wire *w,
                             const struct msg_wire_fields *f)
{
    const struct places_rtr rtr = {.receive = f->id,
                                   .number = f->number,
                                   .room = f->bytes,
                                   .where = f->where,
                                   .open = f->open};
    struct rmsg *msg = l->msg;
    struct msg_request *r;
    uint32_t offered = 0;
    bool corked;

    if (l->direct != NULL ? !msg_buffer_valid(l, f->open, f->where, f->bytes) : f->open > 1)
        return "an RTR for a buffer that is not in a window";
    switch (places_rtr(&l->places, w->space, w->word, f->seen, f->extra, &rtr, &offered)) {
    case PLACES_SENT:
        msg->counts.rtr_dropped++;
        return NULL;
    case PLACES_KEPT:
        msg->counts.rtr_stored++;
        return NULL;
    case PLACES_REFUSED:
        msg->counts.rtr_refused++;
        msg_out_say(l, MSG_WIRE_REFUSED, 0, f->id, &(struct msg_wire_fields){.id = f->number});
        return NULL;
    case PLACES_INVALID:
        return "an RTR that no message can be for";
    case PLACES_OFFERED:
        break;
    }
    r = serve_offered(l, offered);
    if (r == NULL)
        return "an RTR for a message that has been matched";
    if (r->cell != NULL && f->where == 0)
        return "an RTR without an address";
    if (r->lent != NULL &&
        r->lent->access != 0) { /* its RTS names a window: FIN or CTS will come */
        msg->counts.rtr_dropped++;
        return NULL;
    }
    places_matched(&l->places, r->number);
    msg->counts.moved_for_rtr++;
    corked = msg_out_cork(l, r, &rtr);
    if (r->cell == NULL)
        msg_out_say(l, MSG_WIRE_DATA, 0, f->id, &(struct msg_wire_fields){.id = offered});
    RPIPE_FAILPOINT("rmsg send: offered, and its RTR found");
    if (l->out_code == 0)
        msg_out_move(r, &rtr);
    if (corked)
        msg_out_uncork(l, r);
    return NULL;
}

static const char *serve_cts(struct msg_link *l, uint32_t send, const struct msg_wire_fields *f)
{
    struct msg_request *r = serve_offered(l, send);

    if (r == NULL || f->bytes == 0 || (r->cell != NULL && f->where == 0))
        return "a CTS for a message that does not wait";
    if (l->direct != NULL
            ? !msg_buffer_valid(l, f->extra, f->where, f->bytes) || f->bytes > r->bytes
            : f->extra != 0)
        return "a CTS for a buffer that is not in a window";
    places_matched(&l->places, r->number);
    l->msg->counts.moved_for_cts++;
    msg_out_move(r, &(struct places_rtr){
                        .receive = f->id, .room = f->bytes, .where = f->where, .open = f->extra});
    return NULL;
}

static const char *serve_fin(struct msg_link *l, uint32_t send)
{
    struct msg_request *r = serve_offered(l, send);

    if (r == NULL)
        return "a FIN for a message that does not wait";
    places_matched(&l->places, r->number);
    if (r->cell != NULL)
        msg_out_free_cell(l, r->cell_number);
    msg_request_sent(r, 0);
    return NULL;
}

static const char *serve_moved(struct msg_link *l, uint32_t cell)
{
    struct msg_request *r;

    if (cell >= MSG_CELLS || (l->cells_used >> cell & 1) == 0)
        return "a MOVED for a cell that is not used";
    r = l->cell_of[cell];
    if (r != NULL && r->state == MSG_OFFERED)
        places_matched(&l->places, r->number);
    if (r != NULL)
        msg_request_sent(r, 0);
    msg_out_free_cell(l, cell);
    return NULL;
}

static const char *serve_credit(struct msg_link *l, uint64_t units)
{
    if (units > l->out_units || units < l->out_consumed)
        return "a CREDIT for messages that were not sent";
    l->out_consumed = units;
    return NULL;
}

const char *msg_serve(struct msg_link *l, const struct msg_wire *w, const struct msg_wire_fields *f)
{
    if (l->out_code != 0)
        return NULL; /* all sends have completed */
    switch (w->kind) {
    case MSG_WIRE_RTR:
        return serve_rtr(l, w, f);
    case MSG_WIRE_CTS:
        return serve_cts(l, w->word, f);
    case MSG_WIRE_FIN:
        return serve_fin(l, w->word);
    case MSG_WIRE_MOVED:
        return serve_moved(l, w->word);
    case MSG_WIRE_UNDO:
        places_undo(&l->places, w->space, w->word, f->id);
        RPIPE_FAILPOINT("rmsg cancel: RTRs forgotten, before UNDONE");
        msg_out_say(l, MSG_WIRE_UNDONE, 0, f->id, NULL);
        return NULL;
    case MSG_WIRE_CREDIT:
        return serve_credit(l, f->bytes);
    default:
        return "a message of an unknown kind";
    }
}
