/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * buffer.c: ram_request_alloc, ram_reply_alloc, ram_send: payload without a copy; ram_free.
 *
 * A reply that has been allocated is the answer to its request: the request is complete when the reply is sent, or freed
 * without being sent.
 */
#include "am/connect.h"
#include "am/fail.h"
#include "am/link_in.h"
#include "am/link_out.h"
#include "am/message.h"
#include "am/progress.h"
#include "am/reply.h"
#include "am/request.h"

#include <errno.h>

static void am_buffer_make(struct ram *am, ram_message_t *message, int peer, void *mem,
                           size_t bytes, struct ram_internal internal)
{
    *message = (ram_message_t){.peer = peer, .data = mem, .bytes = bytes, .internal = internal};
    message->internal.reserved[0] = bytes;
    am->counts.kept++;
}

/* One attempt to allocate a request. */
static int am_buffer_try(struct ram *am, int peer, size_t room, struct am_out **out, raddr_t *d)
{
    int rc = am_out_get(am, peer, "ram_request_alloc", out);

    if (rc != 0)
        return rc;
    rc = rmalloc_nb((*out)->requests, room, d);
    if (rc == R_PENDING)
        return am_fail(
            rc,
            "ram_request_alloc: rank %d has not freed memory for %zu bytes of %llu (request_bytes)",
            peer, room, (unsigned long long)am->request_cfg.heap_bytes);
    return rc == 0 ? 0 : am_request_broken(am, *out, "ram_request_alloc", rc);
}

static int am_buffer_request_alloc(struct ram *am, int peer, size_t bytes, ram_message_t *message,
                                   int flags)
{
    const size_t room = wire_size(bytes, WIRE_ARGS_MAX);
    struct am_out *out = NULL;
    int64_t deadline = 0;
    raddr_t d = ADDR_NULL;
    uint32_t before;
    int rc = am_check_flags("ram_request_alloc", flags);

    if (rc != 0)
        return rc;
    if (am == NULL || message == NULL)
        return am_fail(-EINVAL, "ram_request_alloc: %s is NULL", am == NULL ? "am" : "message");
    if ((flags & R_NOWAIT) == 0 && !am_may_wait(am, "ram_request_alloc", &rc))
        return rc;
    if (bytes > am->request_cfg.heap_bytes || room > am->request_cfg.heap_bytes)
        return am_fail(-EMSGSIZE,
                       "ram_request_alloc: bytes is %zu; all requests to one peer have %llu bytes "
                       "with their arguments: increase request_bytes",
                       bytes, (unsigned long long)am->request_cfg.heap_bytes);
    before = am_request_endings(am, peer);
    do
        rc = am_buffer_try(am, peer, room, &out, &d);
    while (rc == R_PENDING && (flags & R_NOWAIT) == 0 &&
           am_progress_until(am, "ram_request_alloc", &deadline, &rc) &&
           am_request_has_link(am, peer, before, "ram_request_alloc", &rc));
    if (rc != 0)
        return am_fail_named("ram_request_alloc", rc);
    out->held++;
    am_buffer_make(am, message, peer, rmalloc_ptr(out->requests, d), bytes,
                   (struct ram_internal){.link = out, .d = d, .flags = AM_BUFFER});
    return 0;
}

int ram_request_alloc(ram_t am, int peer, size_t bytes, ram_message_t *message, int flags)
{
    int rc = 0;

    if (!am_enter(am, "ram_request_alloc", &rc))
        return rc;
    return am_leave(am, am_buffer_request_alloc(am, peer, bytes, message, flags));
}

static int am_buffer_reply_alloc(struct ram *am, ram_message_t *to, size_t bytes,
                                 ram_message_t *message)
{
    struct am_in *in;
    raddr_t d;
    void *mem;
    int rc = 0;

    if (am == NULL || message == NULL)
        return am_fail(-EINVAL, "ram_reply_alloc: %s is NULL", am == NULL ? "am" : "message");
    rc = am_reply_too_long(am, "ram_reply_alloc", bytes, 0);
    if (rc != 0)
        return rc;
    in = am_reply_link("ram_reply_alloc", to, &rc);
    if (in == NULL)
        return rc;
    mem = am_in_reply_memory(in, am->reply_max,
                             &d); /* includes space for arguments, where they fit */
    if (mem == NULL)
        return am_fail_named("ram_reply_alloc", -errno);
    to->internal.flags |= AM_ANSWERED;
    in->held++;
    am_buffer_make(
        am, message, to->peer, mem, bytes,
        (struct ram_internal){
            .link = in, .d = d, .token = to->internal.token, .flags = AM_REQUEST | AM_BUFFER});
    message->handler = RAM_RESULT;
    return 0;
}

int ram_reply_alloc(ram_t am, ram_message_t *to, size_t bytes, ram_message_t *message)
{
    int rc = 0;

    if (!am_enter(am, "ram_reply_alloc", &rc))
        return rc;
    return am_leave(am, am_buffer_reply_alloc(am, to, bytes, message));
}

/* ---- sending ---- */

static int am_buffer_send_request(struct ram *am, ram_message_t *message, ram_request_t *r,
                                  int flags)
{
    const struct wire w = {WIRE_REQUEST, message->handler, message->nargs, 0, 0, message->bytes};
    struct am_out *out = message->internal.link;
    int64_t deadline = 0;
    int rc = 0;

    if (!am_request_fits(am, "ram_send", message->bytes, message->handler, message->args,
                         message->nargs, message->data, &rc))
        return rc;
    if ((flags & R_NOWAIT) == 0 && !am_may_wait(am, "ram_send", &rc))
        return rc;
    do {
        if (out->state != OUT_OPEN) /* a link does not retire while a buffer is allocated */
            rc = am_fail(
                -EPIPE,
                "ram_send: the link to rank %d has ended since the request was allocated; free it",
                out->peer);
        else
            rc = am_request_send(am, out, &w, message->args, NULL, message->internal.d, r);
    } while (rc == R_PENDING && (flags & R_NOWAIT) == 0 &&
             am_progress_until(am, "ram_send", &deadline, &rc));
    if (rc == 0)
        am_out_release(am, out);
    return rc;
}

static int am_buffer_send_reply(struct ram *am, ram_message_t *message, const ram_request_t *r)
{
    struct wire w = {WIRE_REPLY, message->handler,        message->nargs,
                     0,          message->internal.token, message->bytes};
    struct am_in *in = message->internal.link;
    int rc = 0;

    if (r != NULL)
        return am_fail(-EINVAL,
                       "ram_send: r is given for a reply, which is not answered; it must be NULL");
    if (!am_message_fits(am, "ram_send", message->bytes, message->handler, message->args,
                         message->nargs, message->data, &rc))
        return rc;
    rc = am_reply_too_long(am, "ram_send", message->bytes, message->nargs);
    if (rc != 0)
        return rc;
    if (in->state == IN_ENDED)
        return am_fail(-EPIPE,
                       "ram_send: the link from rank %d has ended; it does not wait for an answer; "
                       "free the reply",
                       message->peer);
    w.handler = am_reply_handler(in, message->handler);
    rc = am_in_answer(am, in, &w, message->args, NULL, message->internal.d);
    if (rc == 0)
        am_in_release(am, in);
    return rc;
}

static int am_buffer_send(struct ram *am, ram_message_t *message, ram_request_t *r, int flags)
{
    int rc = am_check_flags("ram_send", flags);

    if (rc != 0)
        return rc;
    if (am == NULL || message == NULL || (message->internal.flags & AM_BUFFER) == 0)
        return am_fail(-EINVAL, "ram_send: %s",
                       am == NULL ? "am is NULL"
                       : message == NULL
                           ? "message is NULL"
                           : "the message was not allocated, or has been sent or freed");
    if (message->bytes > message->internal.reserved[0])
        return am_fail(-EINVAL, "ram_send: bytes is %zu; it must be at most %llu, as allocated",
                       message->bytes, (unsigned long long)message->internal.reserved[0]);
    rc = (message->internal.flags & AM_REQUEST) != 0
             ? am_buffer_send_reply(am, message, r)
             : am_buffer_send_request(am, message, r, flags);
    if (rc != 0)
        return am_fail_named("ram_send", rc);
    am->counts.kept--;
    *message = (ram_message_t){0};
    return 0;
}

int ram_send(ram_t am, ram_message_t *message, ram_request_t *r, int flags)
{
    int rc = 0;

    if (!am_enter(am, "ram_send", &rc))
        return rc;
    return am_leave(am, am_buffer_send(am, message, r, flags));
}

/* ---- freeing ---- */

static void am_buffer_free(struct ram *am, const ram_message_t *message)
{
    if ((message->internal.flags & AM_REQUEST) != 0) {
        struct am_in *in = message->internal.link;

        (void)rmalloc_free(in->replies, message->internal.d);
        am_in_answer_empty(am, in, message->internal.token);
        am_in_release(am, in);
    } else {
        struct am_out *out = message->internal.link;

        (void)rmalloc_free(out->requests, message->internal.d);
        am_out_release(am, out);
    }
}

static void am_buffer_free_kept(struct ram *am, ram_message_t *kept)
{
    am_message_finish(am, kept);
    if ((kept->internal.flags & AM_REQUEST) != 0)
        am_in_release(am, kept->internal.link);
    else
        am_out_release(am, kept->internal.link);
}

static int am_buffer_free_message(struct ram *am, ram_message_t *message)
{
    uint32_t flags;

    if (am == NULL || message == NULL)
        return am_fail(-EINVAL, "ram_free: %s is NULL", am == NULL ? "am" : "message");
    flags = message->internal.flags;
    if ((flags & AM_MOVED) != 0 || (flags & (AM_KEPT | AM_BUFFER)) == 0)
        return am_fail(-EINVAL, "ram_free: the message %s",
                       (flags & AM_MOVED) != 0
                           ? "was kept; free the copy that ram_keep has made"
                           : "is not owned by the program: not kept, or freed already");
    if (message->internal.link != NULL) { /* an empty reply of ram_wait has no memory */
        if ((flags & AM_BUFFER) != 0)
            am_buffer_free(am, message);
        else
            am_buffer_free_kept(am, message);
        am->counts.kept--;
    }
    *message = (ram_message_t){0};
    return 0;
}

int ram_free(ram_t am, ram_message_t *message)
{
    int rc = 0;

    if (!am_enter(am, "ram_free", &rc))
        return rc;
    return am_leave(am, am_buffer_free_message(am, message));
}
