/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.c: a message in the hands of its handler: running, keeping, replying, giving back.
 *
 * A request is answered exactly once: by ram_reply, or without a word when its handler returns, or when a kept one is freed.
 */
#include "am/am.h"

#include <errno.h>
#include <string.h>

static void am_message_finish_request(struct ram *am, ram_message_t *m)
{
    static const struct wire empty = {.kind = WIRE_REPLY, .handler = WIRE_RESULT};
    struct am_in *in = m->internal.link;
    struct wire w = empty;

    (void)rmalloc_free(in->requests, m->internal.d);
    if ((m->internal.flags & AM_ANSWERED) != 0 || in->state == IN_ENDED)
        return;
    w.token = m->internal.token;
    if (w.token != 0) {
        (void)am_in_answer(am, in, &w, NULL, NULL,
                           ADDR_NULL); /* whoever cannot be answered is gone */
        return;
    }
    in->due++;
    am->due++;
    if (in->due >= am->credits / 2)
        am_in_send_due(am, in);
}

static void am_message_finish_reply(struct am_out *out, ram_message_t *m)
{
    (void)rmalloc_free(out->replies, m->internal.d);
    out->in_use--;
}

void am_message_finish(struct ram *am, ram_message_t *m)
{
    if ((m->internal.flags & AM_REQUEST) != 0)
        am_message_finish_request(am, m);
    else
        am_message_finish_reply(m->internal.link, m);
}

/* ---- keeping ---- */

int ram_keep(ram_t am, ram_message_t *m, ram_message_t *kept)
{
    if (am == NULL || m == NULL || kept == NULL || m == kept)
        return am_fail(am, -EINVAL,
                       "ram_keep: needs a context, a message, and a place for it (NULL)");
    if (!am->in_handler || m->internal.link == NULL ||
        (m->internal.flags & (AM_KEPT | AM_MOVED)) != 0)
        return am_fail(am, -EINVAL, "ram_keep: only a handler can keep its message, and once");
    m->internal.flags |= AM_KEPT;
    *kept = *m;
    m->internal.flags |= AM_MOVED;
    if ((m->internal.flags & AM_REQUEST) != 0)
        ((struct am_in *)m->internal.link)->held++;
    else
        ((struct am_out *)m->internal.link)->held++;
    am->stats.kept++;
    return 0;
}

int ram_free(ram_t am, ram_message_t *kept)
{
    void *link;

    if (am == NULL || kept == NULL)
        return am_fail(am, -EINVAL, "ram_free: needs a context and a message (NULL)");
    link = kept->internal.link;
    if (link == NULL || (kept->internal.flags & (AM_KEPT | AM_MOVED)) != AM_KEPT) {
        if (link == NULL &&
            kept->internal.flags == AM_KEPT) { /* an empty reply of ram_wait takes no memory */
            kept->internal.flags = 0;
            return 0;
        }
        return am_fail(am, -EINVAL,
                       "ram_free: this message has not been kept, or was given back already");
    }
    am_message_finish(am, kept);
    kept->internal.flags |= AM_MOVED;
    am->stats.kept--;
    if ((kept->internal.flags & AM_REQUEST) != 0)
        am_in_release(am, link);
    else
        am_out_release(am, link);
    kept->data = NULL;
    return 0;
}

/* ---- replying ---- */

int am_message_unfit(struct ram *am, const char *call, size_t bytes, uint32_t handler,
                     const uint64_t *args, uint32_t nargs)
{
    if (am == NULL)
        return am_fail(NULL, -EINVAL, "%s: the context is NULL", call);
    if (handler >= am->nhandlers && handler != WIRE_RESULT)
        return am_fail(am, -EINVAL, "%s: handler %u; this context has %u", call, handler,
                       am->nhandlers);
    if (nargs > WIRE_ARGS_MAX || (nargs > 0 && args == NULL))
        return am_fail(am, -EINVAL, "%s: %u arguments; at most %d, and not NULL", call, nargs,
                       WIRE_ARGS_MAX);
    return am_fail(am, -EINVAL, "%s: a payload of %zu bytes that is NULL", call, bytes);
}

/* The link of a request that can still be answered; or NULL, and the sentence. */
static struct am_in *am_message_not_answerable(struct ram *am, const char *call,
                                               const ram_message_t *to, int *rc)
{
    if (to == NULL || to->internal.link == NULL || (to->internal.flags & AM_REQUEST) == 0)
        *rc = am_fail(am, -EINVAL, "%s: this is no request, so that there is nobody to reply to",
                      call);
    else if ((to->internal.flags & (AM_ANSWERED | AM_MOVED)) != 0)
        *rc = am_fail(am, -EALREADY, "%s: %s", call,
                      (to->internal.flags & AM_MOVED) != 0
                          ? "the message was kept: reply to the kept one"
                          : "a request is answered once, and this one has been");
    else
        *rc =
            am_fail(am, -EPIPE, "%s: rank %d has died, or has left its context, and waits no more",
                    call, to->peer);
    return NULL;
}

static inline struct am_in *am_message_answerable(struct ram *am, const char *call,
                                                  const ram_message_t *to, int *rc)
{
    struct am_in *in = to != NULL ? to->internal.link : NULL;

    if (AM_LIKELY(in != NULL &&
                  (to->internal.flags & (AM_REQUEST | AM_ANSWERED | AM_MOVED)) == AM_REQUEST &&
                  in->state != IN_ENDED))
        return in;
    return am_message_not_answerable(am, call, to, rc);
}

static inline int am_message_reply_too_long(struct ram *am, const char *call, size_t bytes,
                                            uint32_t nargs)
{
    if (AM_LIKELY(bytes <= am->reply_max && wire_size(bytes, nargs) <= am->reply_max))
        return 0;
    return am_fail(am, -EMSGSIZE,
                   "%s: %zu bytes and %u arguments; a reply has at most %llu bytes, arguments "
                   "included (reply_bytes)",
                   call, bytes, nargs, (unsigned long long)am->reply_max);
}

int ram_reply(ram_t am, ram_message_t *to, uint32_t handler, const uint64_t *args, uint32_t nargs,
              const void *data, size_t bytes)
{
    struct wire w = {WIRE_REPLY, handler, nargs, 0, 0, bytes};
    struct am_in *in;
    int rc = 0;

    if (!am_message_fits(am, "ram_reply", bytes, handler, args, nargs, data, &rc))
        return rc;
    rc = am_message_reply_too_long(am, "ram_reply", bytes, nargs);
    if (AM_UNLIKELY(rc != 0))
        return rc;
    in = am_message_answerable(am, "ram_reply", to, &rc);
    if (AM_UNLIKELY(in == NULL))
        return rc;
    w.token = to->internal.token;
    rc = am_in_answer(am, in, &w, args, data, ADDR_NULL);
    if (rc == 0)
        to->internal.flags |= AM_ANSWERED;
    return rc;
}

/* ---- memory first, then the reply ---- */

int ram_reply_alloc(ram_t am, ram_message_t *to, size_t bytes, ram_buffer_t *b)
{
    struct am_in *in;
    raddr_t d;
    int rc = 0;

    if (am == NULL || b == NULL)
        return am_fail(am, -EINVAL,
                       "ram_reply_alloc: needs a context and a place for the buffer (NULL)");
    /* room for as many arguments as there may be, where they fit */
    rc = am_message_reply_too_long(am, "ram_reply_alloc", bytes, 0);
    if (rc != 0)
        return rc;
    in = am_message_answerable(am, "ram_reply_alloc", to, &rc);
    if (in == NULL)
        return rc;
    if ((to->internal.flags & AM_BUFFER) !=
        0) /* one unit of the heap is set aside for each request */
        return am_fail(am, -EALREADY, "ram_reply_alloc: this request has a buffer already");
    d = rmalloc_alloc(in->replies, am->reply_max);
    if (d == ADDR_NULL)
        return am_fail(am, -errno, "ram_reply_alloc: %s", rpipe_error(in->replies));
    to->internal.flags |= AM_BUFFER;
    *b = (ram_buffer_t){
        rmalloc_ptr(in->replies, d), bytes, {in, d, to->internal.token, AM_REQUEST | AM_BUFFER, 0}};
    in->held++;
    am->stats.kept++;
    return 0;
}

int ram_reply_send(ram_t am, ram_message_t *to, ram_buffer_t *b, size_t bytes, uint32_t handler,
                   const uint64_t *args, uint32_t nargs)
{
    struct wire w = {WIRE_REPLY, handler, nargs, 0, 0, bytes};
    struct am_in *in;
    int rc = 0;

    if (!am_message_fits(am, "ram_reply_send", bytes, handler, args, nargs,
                         b != NULL ? b->data : NULL, &rc))
        return rc;
    if (b == NULL || b->internal.flags != (AM_REQUEST | AM_BUFFER) || bytes > b->bytes)
        return am_fail(am, -EINVAL,
                       "ram_reply_send: this is no buffer of ram_reply_alloc, or has fewer bytes");
    rc = am_message_reply_too_long(am, "ram_reply_send", bytes, nargs);
    if (rc != 0)
        return rc;
    in = am_message_answerable(am, "ram_reply_send", to, &rc);
    if (in == NULL)
        return rc;
    if (b->internal.link != in || b->internal.token != to->internal.token)
        return am_fail(am, -EINVAL, "ram_reply_send: the buffer belongs to another request");
    w.token = to->internal.token;
    rc = am_in_answer(am, in, &w, args, NULL, b->internal.d);
    if (rc != 0)
        return rc;
    to->internal.flags |= AM_ANSWERED;
    b->internal.flags = 0;
    am->stats.kept--;
    am_in_release(am, in);
    return 0;
}

int ram_buffer_free(ram_t am, ram_buffer_t *b)
{
    if (am == NULL || b == NULL || (b->internal.flags & AM_BUFFER) == 0)
        return am_fail(am, -EINVAL, "ram_buffer_free: this is no buffer that has not been sent");
    if ((b->internal.flags & AM_REQUEST) != 0) {
        struct am_in *in = b->internal.link;

        (void)rmalloc_free(in->replies, b->internal.d);
        am_in_release(am, in);
    } else {
        struct am_out *out = b->internal.link;

        (void)rmalloc_free(out->requests, b->internal.d);
        am_out_release(am, out);
    }
    b->internal.flags = 0;
    am->stats.kept--;
    return 0;
}
