/* SPDX-License-Identifier: BSD-3-Clause */
/* receive_in.c: see receive_in.h. The first message of a link must be the greeting. */
#include "am/receive_in.h"

#include "am/fail.h"
#include "am/link_in.h"
#include "am/message.h"

#include <errno.h>
#include <string.h>

static int am_in_receive_hello(struct ram *am, struct am_in *in, const void *mem, size_t bytes,
                               raddr_t d)
{
    struct error err = {""};
    int rc = wire_hello_match(am->hello, mem, bytes, in->peer, &in->numbers, &err);

    (void)rmalloc_free(in->requests, d);
    if (rc == 0) {
        in->state = IN_OPEN;
        return 0;
    }
    if (strlen(err.text) > am->reply_max)
        err.text[am->reply_max] = '\0';
    (void)am_in_send_text(am, in, WIRE_REFUSED, err.text);
    return am_in_fail(am, in, rc, err.text);
}

static int am_in_receive_retire(struct ram *am, struct am_in *in)
{
    int rc = am_in_send_text(am, in, in->held > 0 ? WIRE_NOT_NOW : WIRE_RETIRED, NULL);

    if (in->held > 0)
        return rc == 0 || rc == -EPIPE || rc == -ECONNRESET
                   ? rc
                   : am_in_fail(am, in, rc, rpipe_error(in->replies));
    am_in_end(am, in);
    return -EPIPE;
}

static inline int am_in_receive_request(struct ram *am, struct am_in *in, const struct wire *w,
                                        const void *mem, raddr_t d)
{
    ram_message_t m;

    in->unanswered++;
    am->counts.bytes_in += w->bytes;
    am_message_make(&m, in->peer, w, mem, in, d, AM_REQUEST);
    m.handler = in->numbers.here[w->handler];
    in->held++; /* an answer that cannot be sent ends the link, in whose memory the message is */
    am_message_run(am, &m);
    if ((m.internal.flags & AM_MOVED) == 0)
        am_message_finish(am, &m);
    am_in_release(am, in);
    return 1;
}

/* False: a message that no rank sends. */
static bool am_in_note_barrier(struct ram *am, uint64_t epoch, uint64_t round, uint64_t failed)
{
    if (round >= AM_ROUNDS || epoch > am->epoch + 1)
        return false;
    if (epoch < am->epoch)
        return true; /* this rank has given up that barrier */
    am->arrived[epoch & 1][round] = true;
    if (failed != 0)
        am->arrived_failed[epoch & 1] = true;
    return true;
}

static int am_in_receive_barrier(struct ram *am, struct am_in *in, const struct wire *w,
                                 const void *mem, raddr_t d)
{
    uint64_t args[3];

    if (w->nargs != 3 || w->bytes != 0 || w->token != 0)
        return am_in_violation(
            am, in, "a barrier message of %u arguments, expected 3 and no payload", w->nargs);
    memcpy(args, mem, sizeof(args));
    (void)rmalloc_free(in->requests, d);
    in->unanswered++;
    in->due++;
    am->due++;
    if (!am_in_note_barrier(am, args[0], args[1], args[2]))
        return am_in_violation(
            am, in, "a barrier message of round %llu of barrier %llu; barrier %llu is open here",
            (unsigned long long)args[1], (unsigned long long)args[0],
            (unsigned long long)am->epoch);
    return 0;
}

int am_in_receive(struct ram *am, struct am_in *in, int rc, raddr_t d, size_t size)
{
    struct wire w;
    const void *mem;

    if (AM_UNLIKELY(rc == R_EOF)) {
        am_in_end(am, in);
        return rc;
    }
    if (AM_UNLIKELY(rc != 0))
        return am_in_fail(am, in, rc, rpipe_error(in->requests));
    mem = rmalloc_ptr(in->requests, d);
    if (AM_UNLIKELY(!wire_parse(rpipe_tag(in->requests, d), size, &w)))
        return am_in_violation(am, in, "a malformed message of %zu bytes", size);
    if (AM_UNLIKELY(in->state != IN_OPEN)) {
        if (in->state == IN_GREETING && w.kind == WIRE_HELLO)
            return am_in_receive_hello(am, in, mem, w.bytes, d);
        return am_in_violation(am, in, "a message of kind %u before the greeting",
                               (unsigned)w.kind);
    }
    if (AM_UNLIKELY(w.kind != WIRE_REQUEST && w.kind != WIRE_BARRIER)) {
        (void)rmalloc_free(in->requests, d);
        return w.kind == WIRE_RETIRE
                   ? am_in_receive_retire(am, in)
                   : am_in_violation(am, in, "a message of the unexpected kind %u",
                                     (unsigned)w.kind);
    }
    if (AM_UNLIKELY(in->unanswered >= am->credits))
        return am_in_violation(am, in, "more unanswered requests than its %u credits", am->credits);
    if (AM_UNLIKELY(w.kind == WIRE_BARRIER))
        return am_in_receive_barrier(am, in, &w, mem, d);
    if (AM_UNLIKELY(w.handler >= am->nhandlers))
        return am_in_violation(am, in, "a request for handler %u; this context has %u handlers",
                               w.handler, am->nhandlers);
    return am_in_receive_request(am, in, &w, mem, d);
}
