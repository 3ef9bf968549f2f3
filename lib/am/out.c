/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * out.c: links to others: opened by the first request, retired when idle, and what comes back on them.
 *
 *     CLOSED → OPENING (both channels opened) → OPEN (the greeting has gone; requests follow it at once)
 *     OPEN → RETIRING → CLOSED, or back to OPEN, as the target says
 *     any → ENDED (dead, closed, refused, nonsense) → CLOSED, when the user holds nothing of it
 */
#include "am/am.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_LOOK_MS 20 /* between two looks at who is idle, at least */

/* ---- calls ---- */

static struct am_call *am_out_find_call(struct ram *am, struct am_out *out, uint32_t token)
{
    struct am_call *call = &out->call[token & 0xff];

    return (token & 0xff) < am->credits && call->token == token && call->state == CALL_OUT ? call
                                                                                           : NULL;
}

static void am_out_call_done(struct ram *am, struct am_out *out, struct am_call *call, int result,
                             bool has_credit)
{
    call->state = CALL_DONE;
    call->result = result;
    call->has_credit = has_credit;
    call->d = ADDR_NULL;
    out->calls_out--;
    am->stats.outstanding--;
}

/* ---- the end of a link ---- */

void am_out_close(struct ram *am, struct am_out *out)
{
    if (out->state == OUT_OPENING)
        am->opening--;
    if (out->state != OUT_CLOSED && out->state != OUT_ENDED)
        am->stats.links_out--;
    if (out->replies != NULL) {
        am_reader_remove(am, out->replies);
        (void)rpipe_close(out->replies);
    }
    if (out->requests != NULL)
        (void)rpipe_close(out->requests);
    out->replies = out->requests = NULL;
    out->state = OUT_CLOSED;
}

void am_out_end(struct ram *am, struct am_out *out, int code, const char *why)
{
    if (out->state == OUT_ENDED || out->state == OUT_CLOSED)
        return;
    am->stats.failed++;
    out->endings++;
    out->code = code;
    snprintf(out->why, sizeof(out->why), "%.*s", (int)sizeof(out->why) - 1, why);
    (void)am_fail(am, code, "the link to rank %d has ended: %s", out->peer, why);
    for (uint32_t i = 0; i < am->credits; i++)
        if (out->call[i].state == CALL_OUT)
            am_out_call_done(am, out, &out->call[i], code, true);
    if (out->unwaited > 0)
        am->lost = code;
    am->stats.outstanding -= out->unwaited;
    out->in_use -= out->unwaited;
    out->unwaited = 0;
    am_reader_remove(am, out->replies);
    if (out->state == OUT_OPENING)
        am->opening--;
    am->stats.links_out--;
    out->state = OUT_ENDED;
    if (out->held == 0)
        am_out_close(am, out);
}

void am_out_release(struct ram *am, struct am_out *out)
{
    out->held--;
    if (out->state == OUT_ENDED && out->held == 0)
        am_out_close(am, out);
}

/* ---- opening ---- */

static struct am_out *am_out_make(struct ram *am, int peer)
{
    struct am_out *out = calloc(1, sizeof(*out) + am->credits * sizeof(struct am_call));

    if (out == NULL)
        return NULL;
    out->peer = peer;
    for (uint32_t i = 0; i < am->credits; i++) {
        out->call[i].token = 0x100 | i;
        out->call[i].next = i + 1;
    }
    am->out[peer] = out;
    return out;
}

static void am_out_retire(struct am_out *out)
{
    raddr_t d;

    if (rmalloc_nb(out->requests, 0, &d) != 0)
        return;
    (void)rpipe_set_tag(out->requests, d, wire_header(WIRE_RETIRE, 0, 0, 0, 0, 0));
    if (rpipe_write_nb(out->requests, d) == 0)
        out->state = OUT_RETIRING;
    else
        (void)rmalloc_free(out->requests, d);
}

static bool am_out_is_idle(const struct am_out *out)
{
    return out != NULL && out->state == OUT_OPEN && out->in_use == 0 && out->held == 0;
}

/* There is one link more than max_links: the one that has been idle for longest goes. */
static void am_out_make_room(struct ram *am)
{
    struct am_out *oldest = NULL;

    for (int i = 0; i < am->ranks; i++)
        if (am_out_is_idle(am->out[i]) && (oldest == NULL || am->out[i]->used < oldest->used))
            oldest = am->out[i];
    if (oldest != NULL)
        am_out_retire(oldest);
}

void am_out_look_idle(struct ram *am, int64_t now)
{
    if (now - am->looked < IDLE_LOOK_MS)
        return;
    am->looked = now;
    for (int i = 0; i < am->ranks; i++) {
        struct am_out *out = am->out[i];

        if (out == NULL || out->state != OUT_OPEN)
            continue;
        if (out->active || !am_out_is_idle(out)) {
            out->active = false;
            out->used = now;
        } else if (am->idle_ms >= 0 && now - out->used >= am->idle_ms) {
            am_out_retire(out);
        }
    }
    if (am->max_links > 0 && am->stats.links_out > am->max_links)
        am_out_make_room(am);
}

/* Replies first: when the target notices the other channel, this half is there already. */
static int am_out_open_channels(struct ram *am, struct am_out *out)
{
    int rc = 0;

    if (out->replies == NULL) {
        am->reply_cfg.peer = out->peer;
        am->reply_cfg.role = RPIPE_READER;
        rc = rpipe_open(&out->replies, &am->reply_cfg);
        if (rc != 0)
            out->replies = NULL;
    }
    if (rc == 0) {
        am->request_cfg.peer = out->peer;
        am->request_cfg.role = RPIPE_WRITER;
        rc =
            rpipe_open(&out->requests,
                       &am->request_cfg); /* if not: replies stay, so that the two remain in step */
        if (rc != 0)
            out->requests = NULL;
    }
    if (rc != 0)
        return am_fail(am, rc, "no link to rank %d can be opened: %s", out->peer,
                       rpipe_error(NULL));
    rc = am_reader_add(am, out->replies, out, NULL);
    out->state = OUT_OPENING;
    am->opening++;
    am->stats.links_out++;
    am->stats.opened++;
    out->active = true;
    if (rc != 0)
        am_out_end(am, out, rc, "no memory to read its replies");
    else if (am->max_links > 0 && am->stats.links_out > am->max_links)
        am_out_make_room(am);
    return rc;
}

/* The greeting. The heap of requests lies in the target's memory: there is none before it has opened its ends. */
int am_out_tend(struct ram *am, struct am_out *out)
{
    size_t bytes = wire_hello_bytes(am->nhandlers);
    raddr_t d;
    int rc;

    if (out->state != OUT_OPENING)
        return 0;
    rc = rmalloc_nb(out->requests, bytes, &d);
    if (rc == 0) {
        memcpy(rmalloc_ptr(out->requests, d), am->hello, bytes);
        (void)rpipe_set_tag(out->requests, d, wire_header(WIRE_HELLO, bytes, 0, 0, 0, 0));
        rc = rpipe_write_nb(out->requests, d);
        if (rc != 0)
            (void)rmalloc_free(out->requests, d);
    }
    if (rc == 0) {
        out->state = OUT_OPEN;
        am->opening--;
    } else if (rc != R_PENDING) {
        rc = am_out_broken(am, out, rc);
    }
    return rc;
}

int am_out_get(struct ram *am, int peer, const char *call, struct am_out **found)
{
    struct am_out *out;
    int rc = 0;

    if (peer < 0 || peer >= am->ranks)
        return am_fail(am, -EINVAL, "%s: rank %d; the ranks of this job are 0 to %d", call, peer,
                       am->ranks - 1);
    out = am->out[peer];
    if (out == NULL)
        out = am_out_make(am, peer);
    if (out == NULL)
        return am_fail(am, -ENOMEM, "%s: no memory for a link to rank %d", call, peer);
    switch (out->state) {
    case OUT_CLOSED:
        rc = am_out_open_channels(am, out);
        break;
    case OUT_OPENING:
    case OUT_OPEN:
        break;
    case OUT_RETIRING:
        return am_fail(am, R_PENDING,
                       "%s: the link to rank %d is being closed, and will be opened again", call,
                       peer);
    case OUT_ENDED:
        return am_fail(am, R_PENDING,
                       "%s: the link to rank %d has ended, and no other can be opened before the "
                       "messages and buffers "
                       "of it that are kept here are given back",
                       call, peer);
    }
    if (rc == 0)
        rc = am_out_tend(am, out);
    if (rc == R_PENDING)
        (void)am_fail(am, rc,
                      "%s: rank %d has not opened its side of the link: does it call ram_poll?",
                      call, peer);
    if (rc == 0)
        *found = out;
    return rc;
}

/* ---- reading ---- */

static int am_out_violation(struct ram *am, struct am_out *out, const char *what)
{
    char why[128];

    snprintf(why, sizeof(why), "rank %d sends %s", out->peer, what);
    am_out_end(am, out, -EPROTO, why);
    return -EPROTO;
}

/* Requests that nobody waits for have been handled. */
static bool am_out_take_acks(struct ram *am, struct am_out *out, uint32_t acks)
{
    if (acks > out->unwaited)
        return false;
    out->unwaited -= acks;
    out->in_use -= acks;
    am->stats.outstanding -= acks;
    return true;
}

/* Runs the handler that the target has named. It may send a request that ends this link, whose memory it looks at. */
static int am_out_run_handler(struct ram *am, struct am_out *out, struct am_call *call,
                              const struct wire *w, raddr_t d)
{
    ram_message_t m;
    bool moved;

    out->held++;
    am_message_make(&m, out->peer, w, rmalloc_ptr(out->replies, d), out, d, 0);
    am_message_run(am, &m);
    moved = (m.internal.flags & AM_MOVED) != 0;
    /* the credit comes back with the message, or with the call, whichever lasts longer */
    if (call != NULL && call->state == CALL_OUT) {
        am_out_call_done(am, out, call, 0, !moved);
    } else if (call != NULL &&
               call->state == CALL_DONE) { /* by the end of the link; but it has been answered */
        call->result = 0;
        call->has_credit = !moved;
    }
    if (!moved && call != NULL)
        (void)rmalloc_free(out->replies, d);
    else if (!moved)
        am_message_finish(am, &m);
    am_out_release(am, out);
    return 1;
}

static int am_out_take_reply(struct ram *am, struct am_out *out, const struct wire *w, size_t size,
                             raddr_t d)
{
    struct am_call *call = NULL;

    if (w->token != 0) {
        call = am_out_find_call(am, out, w->token);
        if (call == NULL)
            return am_out_violation(am, out, "a reply to a request that there is not");
    } else if (out->unwaited == 0) {
        return am_out_violation(am, out, "more replies than there are requests");
    }
    if (w->handler != WIRE_RESULT && w->handler >= am->nhandlers)
        return am_out_violation(am, out, "a reply for a handler that does not exist");
    am->stats.replies++;
    am->stats.bytes_in += w->bytes;
    if (call == NULL) {
        out->unwaited--;
        am->stats.outstanding--;
    }
    if (w->handler != WIRE_RESULT)
        return am_out_run_handler(am, out, call, w, d);
    if (call == NULL) { /* nobody wants it */
        (void)rmalloc_free(out->replies, d);
        out->in_use--;
        return 0;
    }
    am_out_call_done(am, out, call, 0, true);
    if (size == 0) {
        (void)rmalloc_free(out->replies, d);
        return 0;
    }
    call->d = d;
    call->wire = *w;
    out->held++;
    return 0;
}

static int am_out_take_word(struct ram *am, struct am_out *out, const struct wire *w, raddr_t d)
{
    char why[AM_SENTENCE_BYTES / 2];
    size_t bytes = w->bytes < sizeof(why) - 1 ? w->bytes : sizeof(why) - 1;

    memcpy(why, rmalloc_ptr(out->replies, d), bytes);
    why[bytes] = '\0';
    wire_make_printable(why);
    (void)rmalloc_free(out->replies, d);
    switch (w->kind) {
    case WIRE_ACK: /* one that says nothing could be sent for ever, and calls here read until nothing comes */
        return w->acks > 0 ? 0 : am_out_violation(am, out, "an acknowledgement of nothing");
    case WIRE_REFUSED:
        am_out_end(am, out, -EPROTO, why);
        return -EPROTO;
    case WIRE_RETIRED:
        if (out->state != OUT_RETIRING)
            break;
        am_out_close(am, out);
        am->stats.retired++;
        return R_EOF;
    case WIRE_NOT_NOW:
        if (out->state != OUT_RETIRING)
            break;
        out->state = OUT_OPEN;
        out->active = true;
        return 0;
    default:
        break;
    }
    return am_out_violation(am, out, "a message of a kind that it may not");
}

/* The target has closed: its context has ended, unless it said more. */
static int am_out_closed(struct ram *am, struct am_out *out)
{
    am_out_end(am, out, -EPIPE, "it has left its context (ram_exit), or the job");
    return -EPIPE;
}

int am_out_on_message(struct ram *am, struct am_out *out, int rc, raddr_t d, size_t size)
{
    struct wire w;

    if (AM_UNLIKELY(rc == R_EOF))
        return am_out_closed(am, out);
    if (AM_UNLIKELY(rc != 0)) {
        am_out_end(am, out, rc, rpipe_error(out->replies));
        return rc;
    }
    if (AM_UNLIKELY(!wire_parse(rpipe_tag(out->replies, d), size, &w)))
        return am_out_violation(am, out, "a message that cannot be understood");
    if (w.acks > 0 && !am_out_take_acks(am, out, w.acks))
        return am_out_violation(am, out, "more acknowledgements than there are requests");
    return w.kind == WIRE_REPLY ? am_out_take_reply(am, out, &w, size, d)
                                : am_out_take_word(am, out, &w, d);
}

int am_out_read(struct ram *am, struct am_out *out)
{
    size_t size = 0;
    raddr_t d = ADDR_NULL;
    int rc = rpipe_read_nb(out->replies, &d, &size);

    return rc == R_PENDING ? rc : am_out_on_message(am, out, rc, d, size);
}

/*
 * The target may have said why: replies, and the sentence of a refusal, come before the end of their channel. Until that is
 * there, which may take some moments after a death, the link stays, and this request alone has failed.
 */
int am_out_broken(struct ram *am, struct am_out *out, int code)
{
    char why[AM_SENTENCE_BYTES / 2];

    snprintf(why, sizeof(why), "%.200s", rpipe_error(out->requests));
    if (!am->in_handler)
        while (out->replies != NULL && am_out_read(am, out) >= 0)
            ;
    if (out->state == OUT_ENDED || out->state == OUT_CLOSED)
        return out->code;
    if (code != -EPIPE)
        am_out_end(am, out, code, why);
    return am_fail(am, code, "rank %d: %s", out->peer, why);
}
