/* SPDX-License-Identifier: BSD-3-Clause */
/* state.c: see state.h. */
#include "rpipe/end/state.h"

#include "rpipe/end/error.h"
#include "util/error.h"
#include "util/text.h"

#include <pthread.h>
#include <stdarg.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

void end_state_set(struct rch *ch, uint32_t bits)
{
    /* release: what the bits announce is complete. Pairs with the acquire loads of `state` */
    uint32_t before = atomic_fetch_or_explicit(&ch->state, bits, memory_order_acq_rel);
    _Atomic uint32_t *word = end_wake_word(ch, before | bits);

    if ((before & STATE_CLOSED) != 0)
        return;
    wake_if_waiting(&ch->own_wake, true);
    if (word != &ch->own_wake)
        wake_if_waiting(word, true);
    if ((before & STATE_READER) != 0 && ch->signal_fd >= 0)
        end_signal(ch);
}

static int state_handshake_attempt(void *end)
{
    const struct rch *ch = end;
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */

    return (state & (STATE_JOINED | STATE_FAILED | STATE_PEER_DIED)) == 0 ? R_PENDING : 0;
}

uint32_t end_await_handshake(struct rch *ch, int64_t deadline)
{
    struct waiter w;

    wait_begin(&w, &ch->own_wake, deadline, true);
    (void)wait_until(&w, state_handshake_attempt, ch);
    return atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
}

void end_signal(struct rch *ch)
{
    int cancel;

    /* the message is in the ring already: no cancellation between it and its signal */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    /* a full buffer is readable already; any other error is that of a socket that the peer chose. It is a Unix socket
     * (event_request): no lock is awaited that the peer may hold */
    (void)send(ch->signal_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)pthread_setcancelstate(cancel, NULL);
}

/* ---- failures ---- */

bool end_set_failed(struct rch *ch, int code, const char *reason)
{
    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_FAILED) != 0)
        return false;
    ch->failure = code;
    ch->reason = strdup(reason);
    end_state_set(ch, STATE_FAILED);
    return true;
}

static void state_post_failure(struct rch *ch, int code, const char *reason)
{
    struct fail_message m = {.head = message_head(ch, sizeof(m), 0), .reason = ""};

    m.head.code = code;
    snprintf(m.reason, sizeof(m.reason), "%s", reason);
    (void)message_post(ch->peer, MESSAGE_FAIL, &m.head, NULL); /* a peer that is gone needs none */
}

/* Reported once: the peer may repeat its violation as often as it likes. */
static void state_fail(struct rch *ch, int code, const char *reason)
{
    if (end_set_failed(ch, code, reason))
        state_post_failure(ch, code, reason);
}

void end_fail_locked(struct rch *ch, int code, const char *format, ...)
{
    struct error reason;
    va_list arguments;

    va_start(arguments, format);
    error_vnote(&reason, format, arguments);
    va_end(arguments);
    state_fail(ch, code, reason.text);
}

int end_fail(struct rch *ch, int code, const char *format, ...)
{
    struct error reason;
    va_list arguments;

    va_start(arguments, format);
    error_vnote(&reason, format, arguments);
    va_end(arguments);
    rendezvous_lock();
    state_fail(ch, code, reason.text);
    rendezvous_unlock();
    return call_error(ch, code, "%s", reason.text);
}

/* ---- failures of the peer: on the service thread ---- */

/*
 * What the peer sends becomes the result of every further call, so only codes that an end of this library can have: one that means
 * "call again" would be called again for ever, and others would blame the program.
 */
static int state_failure_code(int32_t code)
{
    static const int of_ends[] = {-ENOTSUP, -ENOMEM, -EMFILE,     -ENFILE, -ENOBUFS,
                                  -ENOSPC,  -EIO,    -ECONNRESET, -EPIPE};
    size_t i;

    if (code ==
        -ETIMEDOUT) /* of its connection; here it would mean that the call may be made again */
        return -ECONNRESET;
    if (code == -ECONNREFUSED || code == -EHOSTUNREACH || code == -ENETUNREACH) /* of 0.1 */
        return -EIO;
    for (i = 0; i < sizeof(of_ends) / sizeof(of_ends[0]); i++)
        if (code == of_ends[i])
            return code;
    return -EPROTO;
}

static void state_on_failure(struct rch *ch, const struct message *m)
{
    const struct fail_message *f = (const struct fail_message *)(const void *)m->head;
    char reason[MESSAGE_REASON_BYTES + 64];

    snprintf(reason, sizeof(reason), "rank %d has failed this pipe: %.*s", m->from,
             (int)sizeof(f->reason) - 1, f->reason);
    text_make_printable(reason);
    (void)end_set_failed(ch, state_failure_code(m->head->code), reason);
}

const struct message_handler end_fail_handler = {.known = sizeof(struct fail_message),
                                                 .of_open = state_on_failure};
