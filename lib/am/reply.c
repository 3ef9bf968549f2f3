/* SPDX-License-Identifier: BSD-3-Clause */
/* reply.c: see reply.h; and ram_reply, ram_keep: what a handler does with its message. */
#include "am/reply.h"

#include "am/fail.h"
#include "am/link_in.h"

#include <errno.h>

static struct am_in *am_reply_impossible(const char *call, const ram_message_t *to, int *rc)
{
    if (to == NULL || to->internal.link == NULL ||
        (to->internal.flags & (AM_REQUEST | AM_BUFFER)) != AM_REQUEST)
        *rc = am_fail(-EINVAL, "%s: the message is %s; only a request can be answered", call,
                      to == NULL ? "NULL" : "not a request");
    else if ((to->internal.flags & (AM_ANSWERED | AM_MOVED)) != 0)
        *rc = am_fail(-EALREADY, "%s: %s", call,
                      (to->internal.flags & AM_MOVED) != 0
                          ? "the message was kept; answer the copy that ram_keep has made"
                          : "the request has been answered, or its reply has been allocated; each "
                            "has one answer");
    else
        *rc = am_fail(-EPIPE, "%s: the link from rank %d has ended; it does not wait for an answer",
                      call, to->peer);
    return NULL;
}

struct am_in *am_reply_link(const char *call, const ram_message_t *to, int *rc)
{
    struct am_in *in = to != NULL ? to->internal.link : NULL;

    if (AM_LIKELY(in != NULL &&
                  (to->internal.flags & (AM_REQUEST | AM_ANSWERED | AM_MOVED | AM_BUFFER)) ==
                      AM_REQUEST &&
                  in->state != IN_ENDED))
        return in;
    return am_reply_impossible(call, to, rc);
}

int am_reply_too_long(const struct ram *am, const char *call, size_t bytes, uint32_t nargs)
{
    if (AM_LIKELY(bytes <= am->reply_max && wire_size(bytes, nargs) <= am->reply_max))
        return 0;
    return am_fail(-EMSGSIZE,
                   "%s: bytes is %zu, nargs is %u; a reply has at most %llu bytes with its "
                   "arguments: increase reply_bytes",
                   call, bytes, nargs, (unsigned long long)am->reply_max);
}

static int am_reply_send(struct ram *am, ram_message_t *to, uint32_t handler, const uint64_t *args,
                         uint32_t nargs, const void *data, size_t bytes)
{
    struct wire w = {WIRE_REPLY, handler, nargs, 0, 0, bytes};
    struct am_in *in;
    int rc = 0;

    if (!am_message_fits(am, "ram_reply", bytes, handler, args, nargs, data, &rc))
        return rc;
    rc = am_reply_too_long(am, "ram_reply", bytes, nargs);
    if (AM_UNLIKELY(rc != 0))
        return rc;
    in = am_reply_link("ram_reply", to, &rc);
    if (AM_UNLIKELY(in == NULL))
        return rc;
    w.token = to->internal.token;
    w.handler = am_reply_handler(in, handler);
    rc = am_in_answer(am, in, &w, args, data, ADDR_NULL);
    if (rc == 0)
        to->internal.flags |= AM_ANSWERED;
    return am_fail_named("ram_reply", rc);
}

int ram_reply(ram_t am, ram_message_t *to, uint32_t handler, const uint64_t *args, uint32_t nargs,
              const void *data, size_t bytes)
{
    int rc = 0;

    if (!am_enter(am, "ram_reply", &rc))
        return rc;
    return am_leave(am, am_reply_send(am, to, handler, args, nargs, data, bytes));
}

static int am_reply_keep(struct ram *am, ram_message_t *message, ram_message_t *kept)
{
    if (am == NULL || message == NULL || kept == NULL || message == kept)
        return am_fail(-EINVAL, "ram_keep: %s",
                       am == NULL        ? "am is NULL"
                       : message == NULL ? "message is NULL"
                       : kept == NULL
                           ? "kept is NULL"
                           : "message and kept are the same; kept must be another structure");
    if (!am->in_handler || message->internal.link == NULL ||
        (message->internal.flags & (AM_KEPT | AM_MOVED)) != 0)
        return am_fail(-EINVAL,
                       "ram_keep: the message is %s; a handler can keep its own message, once",
                       am->in_handler ? "kept already" : "not that of a handler");
    message->internal.flags |= AM_KEPT;
    *kept = *message;
    message->internal.flags |= AM_MOVED;
    if ((message->internal.flags & AM_REQUEST) != 0)
        ((struct am_in *)message->internal.link)->held++;
    else
        ((struct am_out *)message->internal.link)->held++;
    am->counts.kept++;
    return 0;
}

int ram_keep(ram_t am, ram_message_t *message, ram_message_t *kept)
{
    int rc = 0;

    if (!am_enter(am, "ram_keep", &rc))
        return rc;
    return am_leave(am, am_reply_keep(am, message, kept));
}
