/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.c: see request.h; and ram_request.
 *
 * A request takes a credit of its link, memory in the heap of the target, and a call if the program will wait for it. A call
 * that has to wait for one of these runs handlers meanwhile, so two processes that wait for each other both make progress.
 */
#include "am/request.h"

#include "am/connect.h"
#include "am/fail.h"
#include "am/link_out.h"
#include "am/progress.h"
#include "am/receive_out.h"

#include <errno.h>

int am_request_broken(struct ram *am, struct am_out *out, const char *call, int code)
{
    if (code == -EMSGSIZE || code == -EINVAL)
        return am_fail(code, "%s: %s", call, rpipe_error(out->requests));
    if (code == -ENOBUFS) /* whatever the target does; the link is usable */
        return am_fail(
            code,
            "%s: %u buffers for rank %d that are kept here leave no memory; send or free them",
            call, out->held, out->peer);
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
    am->counts.stalls_credit++;
    return am_fail(R_PENDING,
                   "all %u credits for rank %d are in use: by requests that it has not answered, "
                   "or by replies that "
                   "are kept or not waited for here",
                   am->credits, out->peer);
}

static int am_request_no_memory(struct ram *am, struct am_out *out, size_t bytes)
{
    am->counts.stalls_memory++;
    return am_fail(R_PENDING, "rank %d has not freed memory for %zu bytes of %llu (request_bytes)",
                   out->peer, bytes, (unsigned long long)am->request_cfg.heap_bytes);
}

static AM_INLINE int am_request_send_inline(struct ram *am, struct am_out *out,
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
        if (AM_UNLIKELY(rc == R_PENDING))
            return am_request_no_memory(am, out, size);
        if (AM_UNLIKELY(rc != 0))
            return am_request_broken(am, out, "a request", rc);
    }
    wire_put(rmalloc_ptr(out->requests, d), data, w->bytes, args, w->nargs);
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
        return rc == R_PENDING ? am_fail(rc, "the pipe to rank %d has no free slot", out->peer)
                               : am_request_broken(am, out, "a request", rc);
    }
    out->in_use++;
    out->active = true;
    am->counts.requests++;
    am->counts.outstanding++;
    am->counts.bytes_out += w->bytes;
    if (call != NULL) {
        out->calls_out++;
        *r = (uint64_t)(uint32_t)out->peer << 32 | token;
    } else {
        out->unwaited++;
    }
    return 0;
}

int am_request_send(struct ram *am, struct am_out *out, const struct wire *w, const uint64_t *args,
                    const void *data, raddr_t d, ram_request_t *r)
{
    return am_request_send_inline(am, out, w, args, data, d, r);
}

static inline int am_request_try(struct ram *am, int peer, const char *call, const struct wire *w,
                                 const uint64_t *args, const void *data, ram_request_t *r)
{
    struct am_out *out = (unsigned)peer < (unsigned)am->ranks ? am->out[peer] : NULL;
    int rc;

    if (AM_UNLIKELY(out == NULL || out->state != OUT_OPEN)) {
        rc = am_out_get(am, peer, call, &out);
        if (rc != 0)
            return rc;
    }
    return am_request_send(am, out, w, args, data, ADDR_NULL, r);
}

bool am_request_fits(struct ram *am, const char *call, size_t bytes, uint32_t handler,
                     const uint64_t *args, uint32_t nargs, const void *data, int *rc)
{
    if (!am_message_fits(am, call, bytes, handler, args, nargs, data, rc))
        return false;
    if (AM_UNLIKELY(handler == WIRE_RESULT))
        *rc = am_fail(-EINVAL,
                      "%s: handler is RAM_RESULT, which is for replies; a request needs a handler",
                      call);
    else if (AM_UNLIKELY(bytes > am->request_cfg.heap_bytes ||
                         wire_size(bytes, nargs) > am->request_cfg.heap_bytes))
        *rc = am_fail(-EMSGSIZE,
                      "%s: bytes is %zu, nargs is %u; all requests to one peer have %llu bytes "
                      "with their arguments: increase request_bytes",
                      call, bytes, nargs, (unsigned long long)am->request_cfg.heap_bytes);
    else
        return true;
    return false;
}

uint32_t am_request_endings(const struct ram *am, int peer)
{
    return (unsigned)peer < (unsigned)am->ranks && am->out[peer] != NULL ? am->out[peer]->endings
                                                                         : 0;
}

bool am_request_has_link(struct ram *am, int peer, uint32_t before, const char *call, int *rc)
{
    if (am_request_endings(am, peer) == before)
        return true;
    *rc = am_fail(am->out[peer]->code, "%s: the link to rank %d has ended: %s", call, peer,
                  am->out[peer]->why);
    return false;
}

int am_request_wait(struct ram *am, int peer, const char *call, const struct wire *w,
                    const uint64_t *args, const void *data, ram_request_t *r)
{
    const uint32_t before = am_request_endings(am, peer);
    int64_t deadline = 0;
    int rc;

    do
        rc = am_request_try(am, peer, call, w, args, data, r);
    while (AM_UNLIKELY(rc == R_PENDING) && am_progress_until(am, call, &deadline, &rc) &&
           am_request_has_link(am, peer, before, call, &rc));
    return AM_LIKELY(rc == 0) ? 0 : am_fail_named(call, rc);
}

/* A valid request on an open link, as most are. am_request_fits finds what is wrong with the others. */
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

static int am_request_call(struct ram *am, int peer, uint32_t handler, const uint64_t *args,
                           uint32_t nargs, const void *data, size_t bytes, ram_request_t *r,
                           int flags)
{
    const struct wire w = {WIRE_REQUEST, handler, nargs, 0, 0, bytes};
    int rc = R_PENDING;

    if (am_request_is_plain(am, peer, handler, args, nargs, data, bytes) && !am->in_handler &&
        flags == 0)
        rc = am_request_send_inline(am, am->out[peer], &w, args, data, ADDR_NULL, r);
    if (rc != R_PENDING)
        return AM_LIKELY(rc == 0) ? 0 : am_fail_named("ram_request", rc);
    if (AM_UNLIKELY(!am_request_fits(am, "ram_request", bytes, handler, args, nargs, data, &rc)))
        return rc;
    rc = am_check_flags("ram_request", flags);
    if (rc != 0)
        return rc;
    if ((flags & R_NOWAIT) != 0)
        return am_fail_named("ram_request",
                             am_request_try(am, peer, "ram_request", &w, args, data, r));
    if (AM_UNLIKELY(!am_may_wait(am, "ram_request", &rc)))
        return rc;
    return am_request_wait(am, peer, "ram_request", &w, args, data, r);
}

int ram_request(ram_t am, int peer, uint32_t handler, const uint64_t *args, uint32_t nargs,
                const void *data, size_t bytes, ram_request_t *r, int flags)
{
    int rc = 0;

    if (!am_enter(am, "ram_request", &rc))
        return rc;
    return am_leave(am, am_request_call(am, peer, handler, args, nargs, data, bytes, r, flags));
}
