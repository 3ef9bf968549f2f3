/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.c: sending requests, and waiting for what becomes of them.
 *
 * A request takes a credit of its link, memory in the target's heap, and a call, if somebody will wait for it. Whoever has
 * to wait for one of these runs handlers meanwhile, so that two who wait for each other both go on.
 */
#include "am/am.h"

#include <errno.h>
#include <string.h>

#define LOOKS 40       /* as in progress.c */
#define OTHERS_EVERY 4 /* looks for an answer, there is one for what others want, */
#define REST_EVERY 16  /* and one for all else */

static int64_t am_request_deadline_of(const struct ram *am)
{
    return am->timeout_ms < 0 ? INT64_MAX : am_now_ms() + am->timeout_ms;
}

/* The channel has said no: to this request, or to all. */
static int am_request_broken(struct ram *am, struct am_out *out, const char *call, int code)
{
    if (code == -EMSGSIZE || code == -EINVAL)
        return am_fail(am, code, "%s: %s", call, rpipe_error(out->requests));
    if (code == -ENOBUFS) /* whatever the target does: the link is as good as before */
        return am_fail(am, code,
                       "%s: the buffers for rank %d that are kept here leave no memory: send them, "
                       "or free them",
                       call, out->peer);
    return am_out_broken(am, out, code);
}

static inline struct am_call *am_request_take_call(struct ram *am, struct am_out *out)
{
    struct am_call *call;

    if (out->free_call >= am->credits)
        return NULL;
    call = &out->call[out->free_call];
    out->free_call = call->next;
    call->state = CALL_OUT;
    return call;
}

static int am_request_no_credit(struct ram *am, struct am_out *out)
{
    am->stats.stalls_credit++;
    return am_fail(am, R_PENDING,
                   "all %u credits of rank %d are in use: requests that it has not answered, or "
                   "replies that are kept "
                   "or not waited for here",
                   am->credits, out->peer);
}

static AM_INLINE int am_request_send_request(struct ram *am, struct am_out *out,
                                             const struct wire *w, const uint64_t *args,
                                             const void *data, raddr_t d, ram_request_t *r)
{
    size_t size = wire_size(w->bytes, w->nargs);
    struct am_call *call = NULL;
    bool own = d == ADDR_NULL;
    uint32_t token = 0;
    int rc;

    if (AM_UNLIKELY(out->in_use == am->credits || (r != NULL && out->free_call >= am->credits)))
        return am_request_no_credit(am, out);
    if (own) {
        rc = rmalloc_nb(out->requests, size, &d);
        if (AM_UNLIKELY(rc == R_PENDING)) {
            am->stats.stalls_memory++;
            return am_fail(am, rc, "rank %d has not given back the memory for %zu bytes", out->peer,
                           size);
        }
        if (AM_UNLIKELY(rc != 0))
            return am_request_broken(am, out, "a request", rc);
    }
    am_payload_put(rmalloc_ptr(out->requests, d), data, w->bytes, args, w->nargs);
    if (r != NULL) {
        call = am_request_take_call(am, out);
        token = call->token;
    }
    (void)rpipe_set_tag(out->requests, d,
                        wire_header(w->kind, w->bytes, w->handler, w->nargs, 0, token));
    rc = own ? rpipe_write_nb(out->requests, d) : rpipe_write_n(out->requests, d, size);
    if (AM_UNLIKELY(rc != 0)) {
        if (call != NULL) {
            call->has_credit = false;
            am_call_free(out, call);
        }
        if (own)
            (void)rmalloc_free(out->requests, d);
        return rc == R_PENDING ? am_fail(am, rc, "the channel to rank %d takes no more", out->peer)
                               : am_request_broken(am, out, "a request", rc);
    }
    out->in_use++;
    out->active = true;
    am->stats.requests++;
    am->stats.outstanding++;
    am->stats.bytes_out += w->bytes;
    if (call != NULL) {
        out->calls_out++;
        *r = (uint64_t)(uint32_t)out->peer << 32 | token;
    } else {
        out->unwaited++;
    }
    return 0;
}

int am_request(struct ram *am, struct am_out *out, const struct wire *w, const uint64_t *args,
               const void *data, raddr_t d, ram_request_t *r)
{
    return am_request_send_request(am, out, w, args, data, d, r);
}

static inline int am_request_try_request(struct ram *am, int peer, const char *name,
                                         const struct wire *w, const uint64_t *args,
                                         const void *data, ram_request_t *r)
{
    struct am_out *out = (unsigned)peer < (unsigned)am->ranks ? am->out[peer] : NULL;
    int rc;

    if (AM_UNLIKELY(out == NULL || out->state != OUT_OPEN)) {
        rc = am_out_get(am, peer, name, &out);
        if (rc != 0)
            return rc;
    }
    return am_request(am, out, w, args, data, ADDR_NULL, r);
}

static inline bool am_request_fits(struct ram *am, const char *name, size_t bytes, uint32_t handler,
                                   const uint64_t *args, uint32_t nargs, const void *data, int *rc)
{
    if (!am_message_fits(am, name, bytes, handler, args, nargs, data, rc))
        return false;
    if (AM_UNLIKELY(handler == WIRE_RESULT))
        *rc =
            am_fail(am, -EINVAL, "%s: RAM_RESULT is for replies; a request needs a handler", name);
    else if (AM_UNLIKELY(bytes > am->request_cfg.heap_bytes ||
                         wire_size(bytes, nargs) > am->request_cfg.heap_bytes))
        *rc = am_fail(am, -EMSGSIZE,
                      "%s: %zu bytes; all requests to one peer have %llu (request_bytes)", name,
                      bytes, (unsigned long long)am->request_cfg.heap_bytes);
    else
        return true;
    return false;
}

int ram_request_nb(ram_t am, int peer, uint32_t handler, const uint64_t *args, uint32_t nargs,
                   const void *data, size_t bytes, ram_request_t *r)
{
    const struct wire w = {WIRE_REQUEST, handler, nargs, 0, 0, bytes};
    int rc;

    if (AM_UNLIKELY(!am_request_fits(am, "ram_request_nb", bytes, handler, args, nargs, data, &rc)))
        return rc;
    return am_request_try_request(am, peer, "ram_request_nb", &w, args, data, r);
}

/* Between two attempts: whether there is time for another. The sentence of the last attempt says what is missing. */
static bool am_request_go_on(struct ram *am, const char *name, int64_t *deadline, int *rc)
{
    *rc = 0;
    if (*deadline == 0)
        *deadline = am_request_deadline_of(am);
    else if (am_now_ms() >= *deadline) {
        char why[AM_SENTENCE_BYTES / 2];

        snprintf(why, sizeof(why), "%.200s", am->error_text);
        *rc = am_fail(am, -ETIMEDOUT, "%s: %d ms have passed: %s", name, am->timeout_ms, why);
        return false;
    }
    if (am_progress_some(am, INT32_MAX) == 0)
        *rc = am_pass_time(am);
    return *rc == 0;
}

/* A link that ends while a call waits for it ends the call: another one would have the same end. */
static uint32_t am_request_endings(const struct ram *am, int peer)
{
    return (unsigned)peer < (unsigned)am->ranks && am->out[peer] != NULL ? am->out[peer]->endings
                                                                         : 0;
}

static bool am_request_still_there(struct ram *am, int peer, uint32_t before, const char *call,
                                   int *rc)
{
    if (am_request_endings(am, peer) == before)
        return true;
    *rc = am_fail(am, am->out[peer]->code, "%s: the link to rank %d has ended: %s", call, peer,
                  am->out[peer]->why);
    return false;
}

/* Nothing is wrong with it, and the link is open: what most requests are. The other ones are told by fits() what they lack. */
static inline bool am_request_is_plain(const struct ram *am, int peer, uint32_t handler,
                                       const uint64_t *args, uint32_t nargs, const void *data,
                                       size_t bytes)
{
    return am != NULL && handler < am->nhandlers && nargs <= WIRE_ARGS_MAX &&
           (nargs == 0 || args != NULL) && (bytes == 0 || data != NULL) &&
           bytes <= am->request_cfg.heap_bytes - 8 * WIRE_ARGS_MAX - 8 &&
           (unsigned)peer < (unsigned)am->ranks && am->out[peer] != NULL &&
           am->out[peer]->state == OUT_OPEN;
}

int am_request_wait(struct ram *am, int peer, const char *call, const struct wire *w,
                    const uint64_t *args, const void *data, ram_request_t *r)
{
    const uint32_t before = am_request_endings(am, peer);
    int64_t deadline = 0;
    int rc;

    do
        rc = am_request_try_request(am, peer, call, w, args, data, r);
    while (AM_UNLIKELY(rc == R_PENDING) && am_request_go_on(am, call, &deadline, &rc) &&
           am_request_still_there(am, peer, before, call, &rc));
    return rc;
}

int ram_request(ram_t am, int peer, uint32_t handler, const uint64_t *args, uint32_t nargs,
                const void *data, size_t bytes, ram_request_t *r)
{
    const struct wire w = {WIRE_REQUEST, handler, nargs, 0, 0, bytes};
    int rc = R_PENDING;

    if (am_request_is_plain(am, peer, handler, args, nargs, data, bytes) && !am->in_handler)
        rc = am_request_send_request(am, am->out[peer], &w, args, data, ADDR_NULL, r);
    if (rc != R_PENDING)
        return rc;
    if (AM_UNLIKELY(!am_request_fits(am, "ram_request", bytes, handler, args, nargs, data, &rc) ||
                    !am_may_wait(am, "ram_request", &rc)))
        return rc;
    return am_request_wait(am, peer, "ram_request", &w, args, data, r);
}

/* ---- memory first, then the request ---- */

int ram_request_alloc(ram_t am, int peer, size_t bytes, ram_buffer_t *b)
{
    const size_t room = wire_size(bytes, WIRE_ARGS_MAX);
    struct am_out *out = NULL;
    int64_t deadline = 0;
    raddr_t d = ADDR_NULL;
    uint32_t before;
    int rc;

    if (!am_may_wait(am, "ram_request_alloc", &rc))
        return rc;
    before = am_request_endings(am, peer);
    if (b == NULL)
        return am_fail(am, -EINVAL, "ram_request_alloc: no place for the buffer (NULL)");
    if (bytes > am->request_cfg.heap_bytes || room > am->request_cfg.heap_bytes)
        return am_fail(
            am, -EMSGSIZE,
            "ram_request_alloc: %zu bytes; all requests to one peer have %llu (request_bytes)",
            bytes, (unsigned long long)am->request_cfg.heap_bytes);
    do {
        rc = am_out_get(am, peer, "ram_request_alloc", &out);
        if (rc == 0) {
            rc = rmalloc_nb(out->requests, room, &d);
            if (rc == R_PENDING)
                (void)am_fail(am, rc, "rank %d has not given back the memory for %zu bytes", peer,
                              room);
            else if (rc != 0)
                return am_request_broken(am, out, "ram_request_alloc", rc);
        }
    } while (rc == R_PENDING && am_request_go_on(am, "ram_request_alloc", &deadline, &rc) &&
             am_request_still_there(am, peer, before, "ram_request_alloc", &rc));
    if (rc != 0)
        return rc;
    *b = (ram_buffer_t){rmalloc_ptr(out->requests, d), bytes, {out, d, 0, AM_BUFFER, 0}};
    out->held++;
    am->stats.kept++;
    return 0;
}

int ram_request_send(ram_t am, ram_buffer_t *b, size_t bytes, uint32_t handler,
                     const uint64_t *args, uint32_t nargs, ram_request_t *r)
{
    const struct wire w = {WIRE_REQUEST, handler, nargs, 0, 0, bytes};
    struct am_out *out;
    int64_t deadline = 0;
    int rc;

    if (!am_request_fits(am, "ram_request_send", bytes, handler, args, nargs,
                         b != NULL ? b->data : NULL, &rc) ||
        !am_may_wait(am, "ram_request_send", &rc))
        return rc;
    if (b == NULL || b->internal.flags != AM_BUFFER || bytes > b->bytes)
        return am_fail(
            am, -EINVAL,
            "ram_request_send: this is no buffer of ram_request_alloc, or has fewer bytes");
    out = b->internal.link;
    do {
        if (out->state != OUT_OPEN) /* it does not retire while a buffer is out */
            rc = am_fail(
                am, -EPIPE,
                "ram_request_send: the link to rank %d has ended since the buffer was allocated",
                out->peer);
        else
            rc = am_request(am, out, &w, args, NULL, b->internal.d, r);
    } while (rc == R_PENDING && am_request_go_on(am, "ram_request_send", &deadline, &rc));
    if (rc != 0)
        return rc;
    b->internal.flags = 0;
    am->stats.kept--;
    am_out_release(am, out);
    return 0;
}

/* ---- waiting for the answer ---- */

static inline struct am_call *am_request_call_of(struct ram *am, const char *name, ram_request_t r,
                                                 struct am_out **out, int *rc)
{
    uint64_t peer = r >> 32;
    struct am_call *call;

    *out = peer < (uint64_t)am->ranks ? am->out[peer] : NULL;
    if (*out != NULL && (r & 0xff) < am->credits) {
        call = &(*out)->call[r & 0xff];
        if (call->token == (uint32_t)r && call->state != CALL_FREE)
            return call;
    }
    *rc = am_fail(am, -EINVAL, "%s: there is no such request, or it has been waited for already",
                  name);
    return NULL;
}

/* The call is done: gives the reply to the user, or back. */
static int am_request_collect(struct ram *am, struct am_out *out, struct am_call *call,
                              const char *name, ram_message_t *reply)
{
    int result = call->result;

    if (result != 0)
        (void)am_fail(am, result, "%s: rank %d has not answered, and will not: %s", name, out->peer,
                      out->why);
    if (reply != NULL && result == 0) {
        if (call->d != ADDR_NULL) {
            am_message_make(reply, out->peer, &call->wire, rmalloc_ptr(out->replies, call->d), out,
                            call->d, AM_KEPT);
            call->has_credit = false; /* comes back with the reply */
            am->stats.kept++;
        } else {
            *reply = (ram_message_t){
                .peer = out->peer, .handler = WIRE_RESULT, .internal = {.flags = AM_KEPT}};
        }
    } else if (call->d != ADDR_NULL) {
        (void)rmalloc_free(out->replies, call->d);
        am_out_release(am, out);
    }
    am_call_free(out, call);
    return result;
}

int ram_test(ram_t am, ram_request_t r, ram_message_t *reply)
{
    struct am_call *call;
    struct am_out *out;
    int rc = 0;

    if (am == NULL)
        return am_fail(NULL, -EINVAL, "ram_test: the context is NULL");
    call = am_request_call_of(am, "ram_test", r, &out, &rc);
    if (call == NULL)
        return rc;
    return call->state == CALL_DONE ? am_request_collect(am, out, call, "ram_test", reply)
                                    : R_PENDING;
}

/*
 * The answer that is waited for, with nothing else in it, as most are: given to the user as it comes, with the steps of
 * take_reply, call_done and collect that are left then.
 */
static inline bool am_request_take_answer(struct ram *am, struct am_out *out, struct am_call *call,
                                          raddr_t d, size_t size, ram_message_t *reply)
{
    struct wire w;

    if (AM_UNLIKELY(reply == NULL || size == 0 ||
                    !wire_parse(rpipe_tag(out->replies, d), size, &w) || w.kind != WIRE_REPLY ||
                    w.token != call->token || w.handler != WIRE_RESULT || w.acks != 0))
        return false;
    am->stats.replies++;
    am->stats.bytes_in += w.bytes;
    am->stats.outstanding--;
    am->stats.kept++;
    out->calls_out--;
    out->held++;
    call->has_credit = false; /* comes back with the reply */
    am_message_make(reply, out->peer, &w, rmalloc_ptr(out->replies, d), out, d, AM_KEPT);
    am_call_free(out, call);
    return true;
}

/* Looks for the answer. 1: the user has it; 0: it, or something else, has come, and has been taken; R_PENDING; or an error. */
static inline int am_request_poll(struct ram *am, struct am_out *out, struct am_call *call,
                                  ram_message_t *reply)
{
    raddr_t d = ADDR_NULL;
    size_t size = 0;
    int rc = rpipe_read_nb(out->replies, &d, &size);

    if (rc == R_PENDING)
        return rc;
    if (AM_LIKELY(rc == 0 && am_request_take_answer(am, out, call, d, size, reply)))
        return 1;
    rc = am_out_on_message(am, out, rc, d, size);
    return rc > 0 ? 0 : rc;
}

int ram_wait(ram_t am, ram_request_t r, ram_message_t *reply)
{
    struct am_call *call;
    struct am_out *out;
    int64_t deadline = 0;
    int rc = 0;

    if (AM_UNLIKELY(!am_may_wait(am, "ram_wait", &rc)))
        return rc;
    call = am_request_call_of(am, "ram_wait", r, &out, &rc);
    if (AM_UNLIKELY(call == NULL))
        return rc;
    for (;;) {
        for (int looks = 1; looks <= LOOKS; looks++) {
            /* first where the answer comes from; a link that has ended has no call that is not done */
            while (call->state != CALL_DONE && (rc = am_request_poll(am, out, call, reply)) >= 0)
                if (AM_LIKELY(rc > 0))
                    return 0;
            if (AM_UNLIKELY(call->state == CALL_DONE))
                return am_request_collect(am, out, call, "ram_wait", reply);
            am_pause();
            if (looks % REST_EVERY == 0 || (looks % OTHERS_EVERY == 0 && am->readers > 1))
                (void)am_progress_others(am, looks % REST_EVERY == 0);
        }
        if (deadline == 0) {
            deadline = am_request_deadline_of(am);
        } else if (am_now_ms() >= deadline) {
            return am_fail(am, -ETIMEDOUT,
                           "ram_wait: rank %d has not answered within %d ms: does it call "
                           "ram_poll, and does the handler "
                           "answer? The request goes on, and can be waited for again",
                           out->peer, am->timeout_ms);
        }
        rc = am_pass_time(am);
        if (rc != 0)
            return rc;
    }
}

int ram_flush(ram_t am)
{
    int64_t deadline = 0;
    int rc = 0;

    if (!am_may_wait(am, "ram_flush", &rc))
        return rc;
    while (am->stats.outstanding > 0) {
        (void)am_fail(am, R_PENDING, "%u requests are not answered", am->stats.outstanding);
        if (!am_request_go_on(am, "ram_flush", &deadline, &rc))
            return rc;
    }
    rc = am->lost;
    am->lost = 0;
    return rc == 0 ? 0
                   : am_fail(am, rc,
                             "ram_flush: requests that nobody waits for were lost: their peer %s",
                             rc == -ECONNRESET ? "died" : "left, or could not be understood");
}
