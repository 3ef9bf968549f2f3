/* SPDX-License-Identifier: BSD-3-Clause */
/* receive_out.c: see receive_out.h. */
#include "am/receive_out.h"

#include "am/fail.h"
#include "am/link_out.h"
#include "am/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int am_out_violation(struct ram *am, struct am_out *out, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
static int am_out_violation(struct ram *am, struct am_out *out, const char *format, ...)
{
    char what[80], why[128];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    snprintf(why, sizeof(why), "protocol violation: rank %d has sent %s", out->peer, what);
    am_out_end(am, out, -EPROTO, why);
    return -EPROTO;
}

/* Requests without a call have been handled. */
static bool am_out_take_acks(struct ram *am, struct am_out *out, uint32_t acks)
{
    if (acks > out->unwaited)
        return false;
    out->unwaited -= acks;
    out->in_use -= acks;
    am->counts.outstanding -= acks;
    return true;
}

/* Runs the handler that the target has named. It may send a request that ends this link, in whose memory the message is. */
static int am_out_run_handler(struct ram *am, struct am_out *out, struct am_call *call,
                              const struct wire *w, raddr_t d)
{
    ram_message_t m;
    bool moved;

    out->held++;
    am_message_make(&m, out->peer, w, rmalloc_ptr(out->replies, d), out, d, 0);
    am_message_run(am, &m);
    moved = (m.internal.flags & AM_MOVED) != 0;
    /* the credit returns with the message or with the call, whichever is freed last */
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

static int am_out_receive_reply(struct ram *am, struct am_out *out, const struct wire *w,
                                size_t size, raddr_t d)
{
    struct am_call *call = NULL;

    if (w->token != 0) {
        call = am_out_find_call(am, out, w->token);
        if (call == NULL)
            return am_out_violation(am, out, "a reply to request 0x%x, which is not outstanding",
                                    w->token);
    } else if (out->unwaited == 0) {
        return am_out_violation(am, out, "more replies than there are requests");
    }
    if (w->handler != WIRE_RESULT && w->handler >= am->nhandlers)
        return am_out_violation(am, out, "a reply for handler %u; this context has %u handlers",
                                w->handler, am->nhandlers);
    am->counts.replies++;
    am->counts.bytes_in += w->bytes;
    if (call == NULL) {
        out->unwaited--;
        am->counts.outstanding--;
    }
    if (w->handler != WIRE_RESULT)
        return am_out_run_handler(am, out, call, w, d);
    if (call == NULL) { /* the program does not wait for it */
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

/* A message of the link itself. */
static int am_out_receive_link(struct ram *am, struct am_out *out, const struct wire *w, raddr_t d)
{
    char why[WIRE_TEXT_BYTES];
    size_t bytes = w->bytes < sizeof(why) - 1 ? w->bytes : sizeof(why) - 1;

    memcpy(why, rmalloc_ptr(out->replies, d), bytes);
    why[bytes] = '\0';
    wire_make_printable(why);
    (void)rmalloc_free(out->replies, d);
    switch (w->kind) {
    case WIRE_ACK: /* an empty one could be sent without end, and calls read until no message is left */
        return w->acks > 0 ? 0 : am_out_violation(am, out, "an empty acknowledgement");
    case WIRE_REFUSED:
        am_out_end(am, out, -EPROTO, why);
        return -EPROTO;
    case WIRE_RETIRED:
        if (out->state != OUT_RETIRING)
            break;
        am_out_close(am, out);
        am->counts.retired++;
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
    return am_out_violation(am, out, "a message of the unexpected kind %u", (unsigned)w->kind);
}

int am_out_receive(struct ram *am, struct am_out *out, int rc, raddr_t d, size_t size)
{
    struct wire w;

    if (AM_UNLIKELY(rc == R_EOF)) {
        am_out_end(am, out, -EPIPE, "the peer has called ram_exit or has left the job");
        return -EPIPE;
    }
    if (AM_UNLIKELY(rc != 0)) {
        am_out_end(am, out, rc, rpipe_error(out->replies));
        return rc;
    }
    if (AM_UNLIKELY(!wire_parse(rpipe_tag(out->replies, d), size, &w)))
        return am_out_violation(am, out, "a malformed message of %zu bytes", size);
    if (w.acks > 0 && !am_out_take_acks(am, out, w.acks))
        return am_out_violation(am, out, "%u acknowledgements for %u requests", (unsigned)w.acks,
                                out->unwaited);
    return w.kind == WIRE_REPLY ? am_out_receive_reply(am, out, &w, size, d)
                                : am_out_receive_link(am, out, &w, d);
}

/*
 * The target may have sent a reason: replies, and the message of a refusal, arrive before the end of their pipe. Until that
 * is read, which may take a while after a death, the link stays, and only this request has failed.
 */
int am_out_broken(struct ram *am, struct am_out *out, int code)
{
    char why[WIRE_TEXT_BYTES];
    raddr_t d = ADDR_NULL;
    size_t size = 0;
    int rc;

    snprintf(why, sizeof(why), "%.200s", rpipe_error(out->requests));
    while (!am->in_handler && out->replies != NULL &&
           (rc = rpipe_read_nb(out->replies, &d, &size)) != R_PENDING)
        if (am_out_receive(am, out, rc, d, size) < 0)
            break;
    if (out->state == OUT_ENDED || out->state == OUT_CLOSED)
        return out->code;
    if (code != -EPIPE)
        am_out_end(am, out, code, why);
    return am_fail(code, "rank %d: %s", out->peer, why);
}
