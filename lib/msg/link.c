/* SPDX-License-Identifier: BSD-3-Clause */
/* link.c: see link.h. */
#include "msg/link.h"

#include "msg/advertise.h"
#include "msg/buffer.h"
#include "msg/fail.h"
#include "msg/kept.h"
#include "msg/out.h"
#include "msg/prepare.h"
#include "msg/request.h"
#include "msg/window.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define LINK_ACCEPTS 16 /* links accepted by one call of rpending */

/* ---- pipes that are read ---- */

static bool link_readers_grow(struct rmsg *msg)
{
    int room = msg->readers_room == 0 ? 16 : msg->readers_room * 2;
    rch_t *reading = realloc(msg->reading, (size_t)room * sizeof(rch_t));
    struct msg_link **reader;
    int *ready;

    if (reading != NULL)
        msg->reading = reading;
    reader = realloc(msg->reader, (size_t)room * sizeof(struct msg_link *));
    if (reader != NULL)
        msg->reader = reader;
    ready = realloc(msg->ready, (size_t)room * sizeof(*ready));
    if (ready != NULL)
        msg->ready = ready;
    if (reading == NULL || reader == NULL || ready == NULL)
        return false;
    msg->readers_room = room;
    return true;
}

static void link_reader_add(struct msg_link *l)
{
    struct rmsg *msg = l->msg;

    msg->reading[msg->readers] = l->in;
    msg->reader[msg->readers] = l;
    msg->ready[msg->readers++] = 0;
}

static void link_reader_remove(struct msg_link *l)
{
    struct rmsg *msg = l->msg;

    for (int i = 0; i < msg->readers; i++) {
        if (msg->reader[i] != l)
            continue;
        msg->readers--;
        msg->reading[i] = msg->reading[msg->readers];
        msg->reader[i] = msg->reader[msg->readers];
        return;
    }
}

/* ---- the end of a link ---- */

int msg_link_end(struct msg_link *l, int code, const char *why)
{
    struct rmsg *msg = l->msg;

    if (l->state == LINK_ENDED)
        return l->code;
    snprintf(l->why, sizeof(l->why), "%s", why);
    link_reader_remove(l);
    msg_prepare_end(l);
    if (l->state == LINK_OPENING)
        msg->opening--;
    l->state = LINK_ENDED;
    l->code = code;
    msg->counts.links--;
    if (code != -EPIPE) { /* it has not closed its context */
        msg->counts.failed++;
        msg->lost = code;
        msg->lost_peer = l->peer;
    }
    msg_window_close(l); /* before buffers are the program's again */
    msg_buffer_stop(l);
    RPIPE_FAILPOINT("rmsg link: ended, its requests not yet");
    msg_out_broken(l, code);
    msg_kept_end(l);
    msg_advertise_end(l, code);
    return msg_fail(code, "the link to rank %d has ended: %s", l->peer, l->why);
}

/*
 * The window is closed first: nothing is written into buffers after their requests have completed. A ring that is full cannot take
 * END; the end of the pipe is all that the peer gets then.
 */
static int link_abort(struct msg_link *l, enum msg_wire_reason reason, int code, const char *why)
{
    msg_window_close(l);
    if (l->state == LINK_OPEN && l->out_code == 0)
        (void)msg_out_put(l, msg_wire_header(MSG_WIRE_END, 0, reason), NULL, 0);
    code = msg_link_end(l, code, why);
    msg_buffer_close_pipe(l);
    l->remote = NULL;
    return code;
}

int msg_link_abort(struct msg_link *l, enum msg_wire_reason reason, const char *why)
{
    static const int code[MSG_WIRE_REASONS_END] = {
        [MSG_WIRE_VIOLATION] = -EPROTO, [MSG_WIRE_FAULT] = -EFAULT, [MSG_WIRE_LATE] = -ETIMEDOUT};

    return link_abort(l, reason, code[reason], why);
}

int msg_link_violation(struct msg_link *l, const char *what)
{
    char why[128];

    snprintf(why, sizeof(why), "protocol violation: it has sent %s", what);
    return msg_link_abort(l, MSG_WIRE_VIOLATION, why);
}

const char *msg_link_ended(struct msg_link *l, enum msg_wire_reason reason)
{
    static const char *const why[MSG_WIRE_REASONS_END] = {
        [MSG_WIRE_VIOLATION] = "it has ended it, because this process has violated the protocol",
        [MSG_WIRE_FAULT] = "it has ended it, because the memory of a message is not accessible",
        [MSG_WIRE_LATE] = "it has ended it, because this process was late in moving a payload"};

    (void)msg_link_end(l, -ECONNRESET, why[reason]);
    return NULL;
}

int msg_link_failed(const struct msg_link *l, const char *call)
{
    if (l->state == LINK_ENDED)
        return msg_fail(l->code, "%s: the link to rank %d has ended: %s", call, l->peer, l->why);
    return msg_fail(l->out_code, "%s: rank %d takes no more messages: %s", call, l->peer,
                    rpipe_error(l->out));
}

void msg_link_stop(struct msg_link *l)
{
    for (uint32_t i = 0; i < MSG_CELLS; i++)
        if (l->cell_of[i] != NULL)
            msg_request_stop(l->cell_of[i]);
}

/* Transfers keep the pipe open (rclose), so the peer does not get its end: it gets END, and what it has offered does not wait any more. */
static void link_end_kept(struct msg_link *l)
{
    if (l->direct != NULL && l->direct->kept != NULL && l->state == LINK_OPEN && l->out_code == 0)
        (void)rpipe_post(l->direct->kept, l, 0, msg_wire_header(MSG_WIRE_END, 0, MSG_WIRE_LATE));
}

void msg_link_close(struct msg_link *l)
{
    if (l->in != NULL)
        (void)rpipe_close(l->in);
    msg_prepare_end(l);
    msg_buffer_close_pipe(l);
    link_end_kept(l);
    msg_window_close(l);
    msg_buffer_end(l);
    free(l->owed);
    free(l);
}

/* ---- opening ---- */

static struct msg_link *link_make(struct rmsg *msg, int peer)
{
    struct msg_link *l = calloc(1, sizeof(*l));

    if (l == NULL)
        return NULL;
    l->direct = calloc(1, sizeof(*l->direct)); /* until it is known whether the link uses it */
    if (l->direct == NULL) {
        free(l);
        return NULL;
    }
    l->msg = msg;
    l->peer = peer;
    places_init(&l->places);
    list_init(&l->waiting);
    list_init(&l->moving);
    list_init(&l->wishing);
    list_init(&l->undoing);
    list_init(&l->busy);
    msg->link[peer] = l;
    return l;
}

static int link_open_pipe(struct rmsg *msg, int peer, bool in, rch_t *ch)
{
    rpipe_config_t cfg = in ? msg->in_cfg : msg->out_cfg;
    int rc;

    if (*ch != NULL)
        return 0;
    cfg.peer = peer;
    cfg.role = in ? RPIPE_READER : RPIPE_WRITER;
    rc = rpipe_open(ch, &cfg);
    if (rc != 0)
        *ch = NULL;
    return rc;
}

/* Opens both pipes; one that could not be opened is tried again by the next call. */
static int link_open(struct msg_link *l)
{
    struct rmsg *msg = l->msg;
    int rc = msg->readers < msg->readers_room || link_readers_grow(msg) ? 0 : -ENOMEM;

    if (rc == 0)
        rc = link_open_pipe(msg, l->peer, true, &l->in);
    if (rc == 0)
        rc = link_open_pipe(msg, l->peer, false, &l->out);
    if (rc != 0)
        return rc;
    RPIPE_FAILPOINT("rmsg link: both pipes are open");
    link_reader_add(l);
    l->state = LINK_OPENING;
    msg->opening++;
    msg->counts.links++;
    return 0;
}

struct msg_link *msg_link_open(struct rmsg *msg, int peer, const char *call, int *rc)
{
    struct msg_link *l = msg->link[peer];

    if (l == NULL)
        l = link_make(msg, peer);
    *rc = l == NULL ? -ENOMEM : link_open(l);
    if (*rc == 0)
        return l;
    (void)msg_fail(*rc, "%s: no link to rank %d can be opened: %s", call, peer,
                   l == NULL ? "no memory" : rpipe_error(NULL));
    return NULL;
}

/* ---- greetings ---- */

static void link_opened(struct msg_link *l)
{
    l->state = LINK_OPEN;
    l->msg->opening--;
    msg_window_offer(l);
    msg_buffer_begin(l);
    if (l->owed_count > 0 || !list_empty(&l->waiting))
        msg_out_busy(l);
    msg_advertise(l);
}

/* The pipe takes the greeting when the peer has opened its end. */
static void link_greet(struct msg_link *l)
{
    const struct msg_wire_hello *hello = &l->msg->hello;

    if (l->greeted || l->out_code != 0 ||
        msg_out_put(l, msg_wire_header(MSG_WIRE_HELLO, 0, 0), hello, sizeof(*hello)) != 0)
        return;
    l->greeted = true;
    RPIPE_FAILPOINT("rmsg link: greeting sent");
    if (l->out_share > 0)
        link_opened(l);
}

int msg_link_greeted(struct msg_link *l, const struct msg_wire *w, const rtaken_t *m)
{
    struct msg_wire_hello theirs;
    struct error err = {""};
    int rc;

    if (w->kind != MSG_WIRE_HELLO || l->out_share > 0)
        return msg_link_violation(l, "no greeting, or two of them");
    rc = msg_wire_hello_match(&l->msg->hello, m->mem, w->bytes, l->peer, &theirs, &err);
    msg_taken_free(l, m);
    if (rc != 0)
        return link_abort(l, MSG_WIRE_VIOLATION, rc, err.text);
    l->out_share = theirs.share;
    l->part_bytes = theirs.part_bytes;
    l->features = theirs.features;
    if (l->greeted)
        link_opened(l);
    else
        link_greet(l);
    return 0;
}

void msg_link_accept(struct rmsg *msg)
{
    rpipe_config_t list[LINK_ACCEPTS];
    uint64_t before = msg->pending;
    int n = rpipe_pending(msg->in_cfg.context, &msg->pending, list, LINK_ACCEPTS), rc;

    for (int i = 0; i < n; i++)
        if (msg_link_to(msg, list[i].peer, "rmsg", &rc) == NULL)
            msg->pending = before; /* listed again */
    for (int i = 0; i < msg->ranks && msg->opening > 0; i++)
        if (msg->link[i] != NULL && msg->link[i]->state == LINK_OPENING)
            link_greet(msg->link[i]);
}
