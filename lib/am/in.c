/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * in.c: links from others: noticed, greeted, read, answered, closed.
 *
 * Who wants to talk to us opens the two channels of a link; rpipe_pending tells. The first message must be the greeting.
 * A link that ends is closed at once, unless the user still holds memory of it.
 */
#include "am/am.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ACCEPTS 16 /* at one look */

/* ---- the end of a link ---- */

void am_in_close(struct ram *am, struct am_in *in)
{
    if (in->requests == NULL)
        return;
    am_reader_remove(am, in->requests);
    if (in->state == IN_OPENING)
        am->opening--;
    else if (in->state != IN_ENDED)
        am->stats.links_in--;
    am->due -= in->due;
    in->due = in->unanswered = 0;
    (void)rpipe_close(in->requests);
    if (in->replies != NULL)
        (void)rpipe_close(in->replies);
    in->requests = in->replies = NULL;
    in->state = IN_ENDED;
}

static void am_in_end(struct ram *am, struct am_in *in)
{
    if (in->held == 0) {
        am_in_close(am, in);
        return;
    }
    am_reader_remove(am, in->requests);
    am->due -= in->due;
    in->due = 0;
    if (in->state == IN_OPENING)
        am->opening--;
    else
        am->stats.links_in--;
    in->state = IN_ENDED;
}

void am_in_release(struct ram *am, struct am_in *in)
{
    in->held--;
    if (in->state == IN_ENDED && in->held == 0)
        am_in_close(am, in);
}

static int am_in_failed(struct ram *am, struct am_in *in, int code, const char *why)
{
    am->stats.failed++;
    am_fail(am, code, "the link from rank %d has ended: %s", in->peer, why);
    am_in_end(am, in);
    return code;
}

/* The peer has written what cannot be. */
static int am_in_violation(struct ram *am, struct am_in *in, const char *what)
{
    char why[128];

    snprintf(why, sizeof(why), "it sends %s", what);
    return am_in_failed(am, in, -EPROTO, why);
}

/*
 * An answer could not be sent. Who is gone has nothing to say but what lies here already; who takes no answers, or has broken the
 * channel, must not make each of them wait anew.
 */
static void am_in_unanswerable(struct ram *am, struct am_in *in, int code)
{
    if (code != -EPIPE && code != -ECONNRESET && in->state != IN_ENDED)
        (void)am_in_failed(am, in, code, rpipe_error(in->replies));
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
    return am_fail(am, rc, "a link from rank %d cannot be accepted yet: %s", in->peer,
                   rpipe_error(NULL));
}

/*
 * Channels are opened in pairs: what could not be opened now is tried again. Nothing is read before it can be answered: the requester
 * has opened its end of the channel of replies first, and who has not could make whoever answers wait.
 */
int am_in_tend(struct ram *am, struct am_in *in)
{
    int rc = 0;

    if (in->state != IN_OPENING || in->requests == NULL)
        return 0;
    if (in->replies == NULL)
        rc = am_in_open_replies(am, in);
    if (rc == 0 && rpipe_room(in->replies, 0) ==
                       R_PENDING) /* not joined; what else is wrong, an answer will meet */
        rc = R_PENDING;
    if (rc == 0 && am_reader_add(am, in->requests, NULL, in) != 0)
        rc = am_fail(am, -ENOMEM, "no memory for a link from rank %d", in->peer);
    if (rc != 0)
        return rc;
    in->state = IN_GREETING;
    am->opening--;
    am->stats.accepted++;
    am->stats.links_in++;
    return 0;
}

static int am_in_accept_link(struct ram *am, int peer)
{
    struct am_in *in = am->in[peer];
    int rc;

    if (in == NULL)
        in = am->in[peer] = calloc(1, sizeof(*in));
    if (in == NULL)
        return am_fail(am, -ENOMEM, "no memory for a link from rank %d", peer);
    if (in->requests != NULL) /* what it holds of the former link has not been given back */
        return -EBUSY;
    in->peer = peer;
    am->request_cfg.peer = peer;
    am->request_cfg.role = RPIPE_READER;
    rc = rpipe_open(&in->requests, &am->request_cfg);
    if (rc != 0) {
        in->requests = NULL;
        return am_fail(am, rc, "a link from rank %d cannot be accepted yet: %s", peer,
                       rpipe_error(NULL));
    }
    in->state = IN_OPENING;
    am->opening++;
    (void)am_in_tend(am, in); /* what could not be done now is tried again */
    return 0;
}

void am_in_look(struct ram *am)
{
    rpipe_config_t list[ACCEPTS];
    uint64_t before = am->seen;
    int n = rpipe_pending(am->request_cfg.context, &am->seen, list, ACCEPTS);

    for (int i = 0; i < n; i++) {
        if (list[i].role != RPIPE_READER)
            continue;
        if (am_in_accept_link(am, list[i].peer) != 0)
            am->seen = before; /* looked for again */
    }
}

/* ---- answering ---- */

static inline int am_in_write_answer(struct ram *am, struct am_in *in, uint64_t header, raddr_t d,
                                     size_t size)
{
    int rc;

    (void)rpipe_set_tag(in->replies, d, header);
    rc = rpipe_write_n(in->replies, d, size);
    if (AM_LIKELY(rc == 0))
        return 0;
    (void)am_fail(am, rc, "a reply to rank %d: %s", in->peer, rpipe_error(in->replies));
    return rc;
}

/* Acknowledgements that are due ride along. */
static void am_in_take_due(struct ram *am, struct am_in *in)
{
    am->due -= in->due;
    in->unanswered -= in->due;
    in->due = 0;
}

/* Memory for `size` bytes of reply. It is there, or will be without anybody's help, but not before the channel is joined. */
static inline void *am_in_reply_memory(struct ram *am, struct am_in *in, size_t size, raddr_t *d)
{
    *d = rmalloc_alloc(in->replies, size);
    if (AM_LIKELY(*d != ADDR_NULL))
        return rmalloc_ptr(in->replies, *d);
    (void)am_fail(am, -errno, "a reply to rank %d: %s", in->peer, rpipe_error(in->replies));
    return NULL;
}

int am_in_answer(struct ram *am, struct am_in *in, const struct wire *w, const uint64_t *args,
                 const void *data, raddr_t d)
{
    size_t size = wire_size(w->bytes, w->nargs);
    bool own = d == ADDR_NULL;
    void *mem = own ? am_in_reply_memory(am, in, size, &d) : rmalloc_ptr(in->replies, d);
    int rc;

    if (AM_UNLIKELY(mem == NULL)) {
        rc = -errno;
        am_in_unanswerable(am, in, rc);
        return rc;
    }
    am_payload_put(mem, data, w->bytes, args, w->nargs);
    rc = am_in_write_answer(
        am, in, wire_header(w->kind, w->bytes, w->handler, w->nargs, in->due, w->token), d, size);
    if (AM_UNLIKELY(rc != 0)) {
        if (own)
            (void)rmalloc_free(in->replies, d);
        am_in_unanswerable(am, in, rc);
        return rc;
    }
    if (in->due > 0)
        am_in_take_due(am, in);
    in->unanswered--;
    am->stats.answered++;
    am->stats.bytes_out += w->bytes;
    return 0;
}

/* A word of the link itself; it has no credit. 0, or why nobody has listened. */
static int am_in_append_text(struct ram *am, struct am_in *in, enum wire_kind kind,
                             const char *text)
{
    size_t bytes = text != NULL ? strlen(text) : 0;
    raddr_t d;
    void *mem = am_in_reply_memory(am, in, bytes, &d);
    int rc;

    if (mem == NULL)
        return -errno;
    if (bytes > 0)
        memcpy(mem, text, bytes);
    rc = am_in_write_answer(am, in, wire_header(kind, bytes, 0, 0, in->due, 0), d, bytes);
    if (rc == 0)
        am_in_take_due(am, in);
    else
        (void)rmalloc_free(in->replies, d);
    return rc;
}

void am_in_send_due(struct ram *am, struct am_in *in)
{
    int rc = in->due > 0 && in->replies != NULL ? am_in_append_text(am, in, WIRE_ACK, NULL) : 0;

    if (AM_UNLIKELY(rc != 0))
        am_in_unanswerable(am, in, rc);
}

/* ---- reading ---- */

static int am_in_on_hello(struct ram *am, struct am_in *in, const void *mem, size_t bytes,
                          raddr_t d)
{
    char why[AM_SENTENCE_BYTES / 2];
    bool agrees = wire_hello_agrees(am->hello, mem, bytes, in->peer, why, sizeof(why));

    (void)rmalloc_free(in->requests, d);
    if (agrees) {
        in->state = IN_OPEN;
        return 0;
    }
    if (strlen(why) > am->reply_max)
        why[am->reply_max] = '\0';
    (void)am_in_append_text(am, in, WIRE_REFUSED, why);
    return am_in_failed(am, in, -EPROTO, why);
}

static int am_in_on_retire(struct ram *am, struct am_in *in)
{
    if (in->held > 0) {
        int rc = am_in_append_text(am, in, WIRE_NOT_NOW, NULL);

        if (rc != 0)
            am_in_unanswerable(am, in, rc);
        return rc;
    }
    (void)am_in_append_text(am, in, WIRE_RETIRED, NULL);
    am_in_end(am, in);
    return -EPIPE;
}

static inline int am_in_take_request(struct ram *am, struct am_in *in, const struct wire *w,
                                     const void *mem, raddr_t d)
{
    ram_message_t m;

    in->unanswered++;
    am->stats.bytes_in += w->bytes;
    am_message_make(&m, in->peer, w, mem, in, d, AM_REQUEST);
    in->held++; /* an answer that cannot be sent ends the link, in whose memory the message lies */
    am_message_run(am, &m);
    if ((m.internal.flags & AM_MOVED) == 0)
        am_message_finish(am, &m);
    am_in_release(am, in);
    return 1;
}

static int am_in_take_barrier(struct ram *am, struct am_in *in, const struct wire *w,
                              const void *mem, raddr_t d)
{
    uint64_t args[3];

    if (w->nargs != 3 || w->bytes != 0 || w->token != 0)
        return am_in_violation(am, in, "a barrier that cannot be");
    memcpy(args, mem, sizeof(args));
    (void)rmalloc_free(in->requests, d);
    in->unanswered++;
    in->due++;
    am->due++;
    if (am_barrier_on_message(am, args[0], args[1], args[2]) != 0)
        return am_in_violation(am, in, "a barrier that cannot be");
    return 0;
}

int am_in_on_message(struct ram *am, struct am_in *in, int rc, raddr_t d, size_t size)
{
    struct wire w;
    const void *mem;

    if (AM_UNLIKELY(rc == R_EOF)) {
        am_in_end(am, in);
        return rc;
    }
    if (AM_UNLIKELY(rc != 0))
        return am_in_failed(am, in, rc, rpipe_error(in->requests));
    mem = rmalloc_ptr(in->requests, d);
    if (AM_UNLIKELY(!wire_parse(rpipe_tag(in->requests, d), size, &w)))
        return am_in_violation(am, in, "a message that cannot be understood");
    if (AM_UNLIKELY(in->state != IN_OPEN)) {
        if (in->state == IN_GREETING && w.kind == WIRE_HELLO)
            return am_in_on_hello(am, in, mem, w.bytes, d);
        return am_in_violation(am, in, "something else than a greeting first");
    }
    if (AM_UNLIKELY(w.kind != WIRE_REQUEST && w.kind != WIRE_BARRIER)) {
        (void)rmalloc_free(in->requests, d);
        return w.kind == WIRE_RETIRE
                   ? am_in_on_retire(am, in)
                   : am_in_violation(am, in, "a message of a kind that it may not");
    }
    if (AM_UNLIKELY(in->unanswered >= am->credits))
        return am_in_violation(am, in, "more requests than it has credits");
    if (AM_UNLIKELY(w.kind == WIRE_BARRIER))
        return am_in_take_barrier(am, in, &w, mem, d);
    if (AM_UNLIKELY(w.handler >= am->nhandlers))
        return am_in_violation(am, in, "a request for a handler that does not exist");
    return am_in_take_request(am, in, &w, mem, d);
}
