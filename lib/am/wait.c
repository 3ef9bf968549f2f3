/* SPDX-License-Identifier: BSD-3-Clause */
/* wait.c: ram_wait, ram_flush: waiting for answers; handlers run meanwhile. */
#include "am/fail.h"
#include "am/link_out.h"
#include "am/message.h"
#include "am/progress.h"
#include "am/receive_out.h"

#include <errno.h>

#define AM_WAIT_POLLS 40     /* for the answer, before the thread waits; as in progress.c */
#define AM_OTHERS_EVERY 4    /* polls for the answer, one for requests of peers, */
#define AM_THOROUGH_EVERY 16 /* and one for links */

static inline struct am_call *am_wait_call(struct ram *am, ram_request_t r, struct am_out **out,
                                           int *rc)
{
    uint64_t peer = r >> 32;
    struct am_call *call;

    *out = peer < (uint64_t)am->ranks ? am->out[peer] : NULL;
    if (*out != NULL && (r & 0xff) < am->credits) {
        call = &(*out)->call[r & 0xff];
        if (call->token == (uint32_t)r && call->state != CALL_FREE)
            return call;
    }
    *rc =
        am_fail(-EINVAL, "ram_wait: there is no request 0x%llx, or it has been waited for already",
                (unsigned long long)r);
    return NULL;
}

/* The call is done: gives the reply to the program, or frees it. */
static int am_wait_collect(struct ram *am, struct am_out *out, struct am_call *call,
                           ram_message_t *reply)
{
    int result = call->result;

    if (result != 0)
        (void)am_fail(result, "ram_wait: rank %d will not answer: %s", out->peer, out->why);
    if (reply != NULL && result == 0) {
        if (call->d != ADDR_NULL) {
            am_message_make(reply, out->peer, &call->wire, rmalloc_ptr(out->replies, call->d), out,
                            call->d, AM_KEPT);
            call->has_credit = false; /* returns with the reply */
            am->counts.kept++;
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

/*
 * The answer that the call waits for, with nothing else in it, as most are: given to the program as it arrives, by what
 * remains of am_out_receive_reply, am_out_call_done and am_wait_collect then.
 */
static inline bool am_wait_take_answer(struct ram *am, struct am_out *out, struct am_call *call,
                                       raddr_t d, size_t size, ram_message_t *reply)
{
    struct wire w;

    if (AM_UNLIKELY(reply == NULL || size == 0 ||
                    !wire_parse(rpipe_tag(out->replies, d), size, &w) || w.kind != WIRE_REPLY ||
                    w.token != call->token || w.handler != WIRE_RESULT || w.acks != 0))
        return false;
    am->counts.replies++;
    am->counts.bytes_in += w.bytes;
    am->counts.outstanding--;
    am->counts.kept++;
    out->calls_out--;
    out->held++;
    call->has_credit = false; /* returns with the reply */
    am_message_make(reply, out->peer, &w, rmalloc_ptr(out->replies, d), out, d, AM_KEPT);
    am_call_free(out, call);
    return true;
}

/* Polls for the answer. 1: the program has it; 0: it, or another message, has been received; R_PENDING; or an error. */
static inline int am_wait_poll(struct ram *am, struct am_out *out, struct am_call *call,
                               ram_message_t *reply)
{
    raddr_t d = ADDR_NULL;
    size_t size = 0;
    int rc = rpipe_read_nb(out->replies, &d, &size);

    if (rc == R_PENDING)
        return rc;
    if (AM_LIKELY(rc == 0 && am_wait_take_answer(am, out, call, d, size, reply)))
        return 1;
    rc = am_out_receive(am, out, rc, d, size);
    return rc > 0 ? 0 : rc;
}

/* Polls for some microseconds. R_PENDING: no answer yet; else the result of the call. */
static int am_wait_spin(struct ram *am, struct am_out *out, struct am_call *call,
                        ram_message_t *reply)
{
    int rc;

    for (int polls = 1; polls <= AM_WAIT_POLLS; polls++) {
        /* first the link of the answer; a link that has ended has no call that is not done */
        while (call->state != CALL_DONE && (rc = am_wait_poll(am, out, call, reply)) >= 0)
            if (AM_LIKELY(rc > 0))
                return 0;
        if (AM_UNLIKELY(call->state == CALL_DONE))
            return am_wait_collect(am, out, call, reply);
        am_pause();
        if (polls % AM_THOROUGH_EVERY == 0 || (polls % AM_OTHERS_EVERY == 0 && am->readers > 1))
            am_progress_others(am, polls % AM_THOROUGH_EVERY == 0);
    }
    return R_PENDING;
}

/* R_NOWAIT: only what has been received already. */
static int am_wait_test(struct ram *am, ram_request_t r, ram_message_t *reply)
{
    struct am_call *call;
    struct am_out *out;
    int rc = 0;

    call = am_wait_call(am, r, &out, &rc);
    if (call == NULL)
        return rc;
    return call->state == CALL_DONE ? am_wait_collect(am, out, call, reply) : R_PENDING;
}

static int am_wait_reply(struct ram *am, ram_request_t r, ram_message_t *reply, int flags)
{
    struct am_call *call;
    struct am_out *out;
    int64_t deadline = 0;
    int rc = 0;

    if (AM_UNLIKELY(flags != 0)) {
        rc = am_check_flags("ram_wait", flags);
        if (rc == 0 && am != NULL)
            return am_wait_test(am, r, reply);
    }
    if (AM_UNLIKELY(rc != 0 || !am_may_wait(am, "ram_wait", &rc)))
        return rc;
    call = am_wait_call(am, r, &out, &rc);
    if (AM_UNLIKELY(call == NULL))
        return rc;
    for (;;) {
        int done = am_wait_spin(am, out, call, reply);

        if (done != R_PENDING)
            return done;
        if (deadline == 0)
            deadline = am_deadline(am);
        else if (am_now_ms() >= deadline)
            return am_fail(-ETIMEDOUT,
                           "ram_wait: rank %d has not answered within %d ms; it must call "
                           "ram_serve, and its handler "
                           "must reply; the request stays valid and can be waited for again",
                           out->peer, am->timeout_ms);
        rc = am_wait_readers(am);
        if (rc != 0)
            return am_fail_named("ram_wait", rc);
    }
}

int ram_wait(ram_t am, ram_request_t r, ram_message_t *reply, int flags)
{
    int rc = 0;

    if (!am_enter(am, "ram_wait", &rc))
        return rc;
    return am_leave(am, am_wait_reply(am, r, reply, flags));
}

static int am_wait_flush(struct ram *am)
{
    int64_t deadline = 0;
    int rc = 0;

    if (!am_may_wait(am, "ram_flush", &rc))
        return rc;
    rc = am_check_job("ram_flush");
    if (rc != 0)
        return rc;
    while (am->counts.outstanding > 0) {
        (void)am_fail(R_PENDING, "%llu requests are not answered",
                      (unsigned long long)am->counts.outstanding);
        if (!am_progress_until(am, "ram_flush", &deadline, &rc))
            return am_fail_named("ram_flush", rc);
    }
    rc = am->lost;
    am->lost = 0;
    return rc == 0
               ? 0
               : am_fail(rc, "ram_flush: requests without r were lost: their peer %s",
                         rc == -ECONNRESET ? "has died" : "has left, or has violated the protocol");
}

int ram_flush(ram_t am)
{
    int rc = 0;

    if (!am_enter(am, "ram_flush", &rc))
        return rc;
    return am_leave(am, am_wait_flush(am));
}
