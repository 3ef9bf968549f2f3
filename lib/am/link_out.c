/* SPDX-License-Identifier: BSD-3-Clause */
/* link_out.c: see link_out.h. */
#include "am/link_out.h"

#include "am/fail.h"
#include "am/readers.h"

#include <stdio.h>
#include <stdlib.h>

#define AM_IDLE_CHECK_MS 20 /* between two checks for idle links, at least */

/* ---- calls ---- */

struct am_call *am_out_find_call(const struct ram *am, struct am_out *out, uint32_t token)
{
    struct am_call *call = &out->call[token & 0xff];

    return (token & 0xff) < am->credits && call->token == token && call->state == CALL_OUT ? call
                                                                                           : NULL;
}

void am_out_call_done(struct ram *am, struct am_out *out, struct am_call *call, int result,
                      bool has_credit)
{
    call->state = CALL_DONE;
    call->result = result;
    call->has_credit = has_credit;
    call->d = ADDR_NULL;
    out->calls_out--;
    am->counts.outstanding--;
}

/* ---- the end of a link ---- */

void am_out_close(struct ram *am, struct am_out *out)
{
    if (out->state == OUT_OPENING)
        am->opening--;
    if (out->state != OUT_CLOSED && out->state != OUT_ENDED)
        am->counts.links_out--;
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
    am->counts.failed++;
    out->endings++;
    out->code = code;
    snprintf(out->why, sizeof(out->why), "%.*s", (int)sizeof(out->why) - 1, why);
    for (uint32_t i = 0; i < am->credits; i++)
        if (out->call[i].state == CALL_OUT)
            am_out_call_done(am, out, &out->call[i], code, true);
    if (out->unwaited > 0)
        am->lost = code;
    am->counts.outstanding -= out->unwaited;
    out->in_use -= out->unwaited;
    out->unwaited = 0;
    am_reader_remove(am, out->replies);
    if (out->state == OUT_OPENING)
        am->opening--;
    am->counts.links_out--;
    out->state = OUT_ENDED;
    if (out->held == 0)
        am_out_close(am, out);
    (void)am_fail(code, "the link to rank %d has ended: %s", out->peer, out->why);
}

void am_out_release(struct ram *am, struct am_out *out)
{
    out->held--;
    if (out->state == OUT_ENDED && out->held == 0)
        am_out_close(am, out);
}

/* ---- idle links ---- */

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

/* More links than max_links: retires the one that has been idle for the longest time. */
static void am_out_retire_oldest(struct ram *am)
{
    struct am_out *oldest = NULL;

    for (int i = 0; i < am->ranks; i++)
        if (am_out_is_idle(am->out[i]) && (oldest == NULL || am->out[i]->used < oldest->used))
            oldest = am->out[i];
    if (oldest != NULL)
        am_out_retire(oldest);
}

static bool am_out_too_many(const struct ram *am)
{
    return am->max_links > 0 && am->counts.links_out > am->max_links;
}

void am_out_retire_idle(struct ram *am, int64_t now)
{
    if (now - am->checked < AM_IDLE_CHECK_MS)
        return;
    am->checked = now;
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
    if (am_out_too_many(am))
        am_out_retire_oldest(am);
}

/* ---- opening ---- */

struct am_out *am_out_make(struct ram *am, int peer)
{
    struct am_out *out = am->out[peer];

    if (out != NULL)
        return out;
    out = calloc(1, sizeof(*out) + am->credits * sizeof(struct am_call));
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

/* Replies first: when the target finds the other pipe, this end is open already. */
static int am_out_open_pipes(struct ram *am, struct am_out *out)
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
        rc = rpipe_open(&out->requests, &am->request_cfg);
        if (rc != 0) /* replies stay open, so that the incarnations of both pipes remain equal */
            out->requests = NULL;
    }
    return rc;
}

int am_out_open(struct ram *am, struct am_out *out)
{
    int rc = am_out_open_pipes(am, out);

    if (rc != 0)
        return am_fail(rc, "no link to rank %d can be opened: %s", out->peer, rpipe_error(NULL));
    rc = am_reader_add(am, out->replies, out, NULL);
    out->state = OUT_OPENING;
    am->opening++;
    am->counts.links_out++;
    am->counts.opened++;
    out->active = true;
    if (rc != 0)
        am_out_end(am, out, rc, "no memory to read its replies");
    else if (am_out_too_many(am))
        am_out_retire_oldest(am);
    return rc;
}
