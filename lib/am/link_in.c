/* SPDX-License-Identifier: BSD-3-Clause */
/* link_in.c: see link_in.h. */
#include "am/link_in.h"

#include "am/fail.h"
#include "am/readers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AM_ACCEPTS 16 /* links accepted by one call of rpending */

/* ---- the end of a link ---- */

static void am_in_leave(struct ram *am, struct am_in *in)
{
    am_reader_remove(am, in->requests);
    if (in->state == IN_OPENING)
        am->opening--;
    else if (in->state != IN_ENDED)
        am->counts.links_in--;
    am->due -= in->due;
    in->due = 0;
    in->state = IN_ENDED;
}

void am_in_close(struct ram *am, struct am_in *in)
{
    if (in->requests == NULL)
        return;
    am_in_leave(am, in);
    in->unanswered = 0;
    (void)rpipe_close(in->requests);
    if (in->replies != NULL)
        (void)rpipe_close(in->replies);
    in->requests = in->replies = NULL;
}

void am_in_end(struct ram *am, struct am_in *in)
{
    if (in->held == 0)
        am_in_close(am, in);
    else
        am_in_leave(am, in);
}

void am_in_release(struct ram *am, struct am_in *in)
{
    in->held--;
    if (in->state == IN_ENDED && in->held == 0)
        am_in_close(am, in);
}

int am_in_fail(struct ram *am, struct am_in *in, int code, const char *why)
{
    char text[WIRE_TEXT_BYTES];

    snprintf(text, sizeof(text), "%s",
             why); /* `why` may be the message of a pipe that is closed now */
    am->counts.failed++;
    am_in_end(am, in);
    return am_fail(code, "the link from rank %d has ended: %s", in->peer, text);
}

int am_in_violation(struct ram *am, struct am_in *in, const char *format, ...)
{
    char what[96], why[128];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    snprintf(why, sizeof(why), "protocol violation: it has sent %s", what);
    return am_in_fail(am, in, -EPROTO, why);
}

/*
 * An answer could not be sent. A peer that is gone leaves the messages that have arrived already, which are still read. A peer
 * that takes no answers, or has broken the pipe, must not make each further answer wait: its link ends.
 */
static void am_in_unanswerable(struct ram *am, struct am_in *in, int code)
{
    if (code != -EPIPE && code != -ECONNRESET && in->state != IN_ENDED)
        (void)am_in_fail(am, in, code, rpipe_error(in->replies));
}

/* ---- accepting ---- */

static int am_in_open_replies(struct ram *am, struct am_in *in)
{
    int rc;

    am->reply_cfg.peer = in->peer;
    am->reply_cfg.role = RPIPE_WRITER;
    rc = rpipe_open(&in->replies, &am->reply_cfg);
    if (rc == 0)
        return 0;
    in->replies = NULL;
    return am_fail(rc, "the link from rank %d cannot be accepted yet: %s", in->peer,
                   rpipe_error(NULL));
}

/*
 * Pipes are opened in pairs: what could not be opened now is tried again. No request is read before it can be answered: the
 * requester opens its end of the pipe of replies first, and one that has not could make an answer wait.
 */
int am_in_proceed(struct ram *am, struct am_in *in)
{
    int rc = 0;

    if (in->state != IN_OPENING || in->requests == NULL)
        return 0;
    if (in->replies == NULL)
        rc = am_in_open_replies(am, in);
    if (rc == 0 && rpipe_room(in->replies, 0) ==
                       R_PENDING) /* not joined; the first answer meets all other errors */
        rc = R_PENDING;
    if (rc == 0 && am_reader_add(am, in->requests, NULL, in) != 0)
        rc = am_fail(-ENOMEM, "no memory for a link from rank %d", in->peer);
    if (rc != 0)
        return rc;
    in->state = IN_GREETING;
    am->opening--;
    am->counts.accepted++;
    am->counts.links_in++;
    return 0;
}

static int am_in_accept_link(struct ram *am, int peer)
{
    struct am_in *in = am->in[peer];
    int rc;

    if (in == NULL)
        in = am->in[peer] = calloc(1, sizeof(*in));
    if (in == NULL)
        return am_fail(-ENOMEM, "no memory for a link from rank %d", peer);
    if (in->requests != NULL) /* the program still owns memory of the former link */
        return -EBUSY;
    in->peer = peer;
    am->request_cfg.peer = peer;
    am->request_cfg.role = RPIPE_READER;
    rc = rpipe_open(&in->requests, &am->request_cfg);
    if (rc != 0) {
        in->requests = NULL;
        return am_fail(rc, "the link from rank %d cannot be accepted yet: %s", peer,
                       rpipe_error(NULL));
    }
    in->state = IN_OPENING;
    am->opening++;
    (void)am_in_proceed(am, in); /* tried again by the next calls */
    return 0;
}

void am_in_accept(struct ram *am)
{
    rpipe_config_t list[AM_ACCEPTS];
    uint64_t before = am->seen;
    int n = rpipe_pending(am->request_cfg.context, &am->seen, list, AM_ACCEPTS);

    for (int i = 0; i < n; i++) {
        if (list[i].role != RPIPE_READER)
            continue;
        if (am_in_accept_link(am, list[i].peer) != 0)
            am->seen = before; /* listed again */
    }
}

/* ---- answering ---- */

static inline int am_in_write_answer(struct am_in *in, uint64_t header, raddr_t d, size_t size)
{
    int rc;

    (void)rpipe_set_tag(in->replies, d, header);
    rc = rpipe_write_n(in->replies, d, size);
    if (AM_LIKELY(rc == 0))
        return 0;
    return am_fail(rc, "a reply to rank %d: %s", in->peer, rpipe_error(in->replies));
}

/* The acknowledgements that are due travel with a reply. */
static void am_in_sent_due(struct ram *am, struct am_in *in)
{
    am->due -= in->due;
    in->unanswered -= in->due;
    in->due = 0;
}

/* There is memory, or will be without the help of a program; but not before the pipe is joined. */
void *am_in_reply_memory(struct am_in *in, size_t size, raddr_t *d)
{
    *d = rmalloc_alloc(in->replies, size);
    if (AM_LIKELY(*d != ADDR_NULL))
        return rmalloc_ptr(in->replies, *d);
    errno = -am_fail(-errno, "a reply to rank %d: %s", in->peer, rpipe_error(in->replies));
    return NULL;
}

int am_in_answer(struct ram *am, struct am_in *in, const struct wire *w, const uint64_t *args,
                 const void *data, raddr_t d)
{
    size_t size = wire_size(w->bytes, w->nargs);
    bool own = d == ADDR_NULL;
    void *mem = own ? am_in_reply_memory(in, size, &d) : rmalloc_ptr(in->replies, d);
    int rc;

    if (AM_UNLIKELY(mem == NULL)) {
        rc = -errno;
        am_in_unanswerable(am, in, rc);
        return rc;
    }
    wire_put(mem, data, w->bytes, args, w->nargs);
    rc = am_in_write_answer(
        in, wire_header(w->kind, w->bytes, w->handler, w->nargs, in->due, w->token), d, size);
    if (AM_UNLIKELY(rc != 0)) {
        if (own)
            (void)rmalloc_free(in->replies, d);
        am_in_unanswerable(am, in, rc);
        return rc;
    }
    if (in->due > 0)
        am_in_sent_due(am, in);
    in->unanswered--;
    am->counts.answered++;
    am->counts.bytes_out += w->bytes;
    return 0;
}

void am_in_answer_empty(struct ram *am, struct am_in *in, uint32_t token)
{
    const struct wire w = {.kind = WIRE_REPLY, .handler = WIRE_RESULT, .token = token};

    if (in->state == IN_ENDED)
        return;
    if (token != 0) {
        (void)am_in_answer(am, in, &w, NULL, NULL, ADDR_NULL); /* fails if the peer is gone */
        return;
    }
    in->due++;
    am->due++;
    if (in->due >= am->credits / 2)
        am_in_send_due(am, in);
}

int am_in_send_text(struct ram *am, struct am_in *in, enum wire_kind kind, const char *text)
{
    size_t bytes = text != NULL ? strlen(text) : 0;
    raddr_t d;
    void *mem = am_in_reply_memory(in, bytes, &d);
    int rc;

    if (mem == NULL)
        return -errno;
    if (bytes > 0)
        memcpy(mem, text, bytes);
    rc = am_in_write_answer(in, wire_header(kind, bytes, 0, 0, in->due, 0), d, bytes);
    if (rc == 0)
        am_in_sent_due(am, in);
    else
        (void)rmalloc_free(in->replies, d);
    return rc;
}

void am_in_send_due(struct ram *am, struct am_in *in)
{
    int rc = in->due > 0 && in->replies != NULL ? am_in_send_text(am, in, WIRE_ACK, NULL) : 0;

    if (AM_UNLIKELY(rc != 0))
        am_in_unanswerable(am, in, rc);
}
