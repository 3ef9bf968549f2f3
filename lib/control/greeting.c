/* SPDX-License-Identifier: BSD-3-Clause */
/* greeting.c: see greeting.h. */
#include "control/greeting.h"

#include "control/endpoint.h"
#include "control/liveness.h"
#include "control/peer_card.h"
#include "control/peer_loss.h"
#include "control/peer_send.h"
#include "control/state.h"
#include "util/clock.h"
#include "util/failpoint.h"

#include <errno.h>
#include <string.h>

#define CARD_MS 500

/* The liveness page goes along without a duplicate of its descriptor: the peer would wait for a greeting that could not be sent
 * because no number was left. */
bool greeting_send(struct connection *c, uint32_t type, uint32_t to, const uint8_t *cookie)
{
    struct wire_hello hello = {.magic = WIRE_HELLO_MAGIC,
                               .version = WIRE_VERSION,
                               .from = (uint32_t)control.rank,
                               .to = to,
                               .flags = control.membarrier ? WIRE_HAS_MEMBARRIER : 0};
    struct message *m;

    memcpy(hello.cookie, cookie, COOKIE_BYTES);
    m = message_new(type, &hello, sizeof(hello), NULL, 0);
    if (m == NULL)
        return false;
    if (c->is_unix)
        message_lend(m, liveness_fd());
    connection_queue(c, m);
    return true;
}

static void greeting_done(struct connection *c)
{
    c->state = CONNECTION_OPEN;
    c->deadline = NO_TIME;
    c->body_max = CONTROL_BODY_MAX;
    list_remove(&c->link);
    control.greetings--;
    list_append(&control.open, &c->link);
}

/* What HELLO and WELCOME have in common. */
static int greeting_check(const struct connection *c, const struct wire_frame *frame,
                          const struct wire_hello *hello, struct error *err)
{
    if (frame->bytes != sizeof(*hello) || hello->magic != WIRE_HELLO_MAGIC)
        return error_set(err, -EPROTO, "it sent no greeting of this library");
    if (hello->version != WIRE_VERSION)
        return error_set(err, -EPROTO,
                         "it has version %u of the control network, not %u; every rank needs "
                         "the same library",
                         hello->version, WIRE_VERSION);
    if (hello->to != (uint32_t)control.rank || state_peer((int)hello->from) == NULL ||
        hello->from == (uint32_t)control.rank || !cookie_equal(hello->cookie, control.card.cookie))
        return error_set(
            err, -EACCES,
            "it did not show the cookie of this rank: it is not a process of this job");
    if (frame->nfds != (c->is_unix ? 1u : 0u))
        return error_set(err, -EPROTO, "its greeting came with %u descriptors, not %u", frame->nfds,
                         c->is_unix ? 1u : 0u);
    return 0;
}

/* The first greeting of a peer brings its liveness page, in either direction. */
static int greeting_accept(struct peer *p, const struct connection *c,
                           const struct wire_hello *hello, struct error *err)
{
    const _Atomic uint32_t *word;
    int result;

    /* Where no number was left for its descriptor, the end of the peer's sockets reports its death. */
    if (c->is_unix && c->fds[0] >= 0 &&
        atomic_load_explicit(&p->liveness, memory_order_relaxed) == NULL) {
        result = liveness_map(c->fds[0], &word, err);
        if (result != 0)
            return result;
        /* release: the mapping, for control_liveness() */
        atomic_store_explicit(&p->liveness, word, memory_order_release);
        list_append(&control.alive, &p->alive);
    }
    atomic_store_explicit(&p->membarrier, (hello->flags & WIRE_HAS_MEMBARRIER) != 0,
                          memory_order_relaxed);
    return 0;
}

/*
 * All ranks have the cookies of all, so a cookie shows that a process is in the job, and not which rank it is. On this host the
 * kernel shows it: no rank can connect in the name of another. Over TCP a rank could (doc/security.md).
 */
static bool greeting_is_process_of(const struct connection *c, const struct card *card)
{
    pid_t pid;

    return !c->is_unix || !card_same_pids(card, &control.card) ||
           (endpoint_same_user(c->fd, &pid) && (uint32_t)pid == card->pid);
}

static int greeting_refuse(struct connection *c, const char *reason)
{
    state_warn("a connection was refused: %s", reason);
    state_drop(c);
    return 0;
}

static void greeting_welcome_peer(struct connection *c, struct peer *p)
{
    if (p->in != NULL) /* it closed an earlier connection, the end of which has not been read yet */
        state_drop(p->in);
    p->in = c;
    c->peer = peer_number(p);
    RPIPE_FAILPOINT("connect: hello received");
    greeting_done(c);
    if (control.fins_sent && p->out == NULL) {
        struct message *m = message_new(WIRE_FIN, NULL, 0, NULL, 0);

        if (m != NULL)
            connection_queue(c, m);
    }
    peer_write(c);
    RPIPE_FAILPOINT("connect: welcome sent");
}

int greeting_hello(struct connection *c, const struct wire_frame *frame, const void *body)
{
    const struct wire_hello *hello = body;
    const struct card *card;
    struct error err = {""};
    struct peer *p;
    int rc;

    if (frame->type != WIRE_HELLO)
        return greeting_refuse(c, "its first frame was no greeting");
    if (greeting_check(c, frame, hello, &err) != 0)
        return greeting_refuse(c, err.text);
    p = state_peer((int)hello->from);
    card = peer_card((int)hello->from, deadline_in_ms(CARD_MS), &err);
    if (card == NULL)
        return errno == ENOMEM ? -ENOMEM : greeting_refuse(c, err.text);
    if (!greeting_is_process_of(c, card)) {
        error_note(&err, "it greeted as rank %u, which is another process", hello->from);
        return greeting_refuse(c, err.text);
    }
    if (atomic_load_explicit(&p->state, memory_order_relaxed) != 0 ||
        (p->in != NULL && p->in->used)) {
        error_note(&err, "rank %u %s", hello->from,
                   p->in != NULL ? "is connected already" : "was lost, or had left, before");
        return greeting_refuse(c, err.text);
    }
    rc = greeting_accept(p, c, hello, &err);
    if (rc != 0)
        return rc == -ENOMEM ? rc : greeting_refuse(c, err.text);
    if (!greeting_send(c, WIRE_WELCOME, hello->from, card->cookie))
        return -ENOMEM;
    greeting_welcome_peer(c, p);
    return 0;
}

int greeting_welcome(struct connection *c, const struct wire_frame *frame, const void *body)
{
    const struct wire_hello *hello = body;
    struct peer *p = state_peer(c->peer);
    struct error err = {""};
    int rc;

    if (frame->type != WIRE_WELCOME || greeting_check(c, frame, hello, &err) != 0 ||
        hello->from != (uint32_t)c->peer) {
        state_warn("the process that answers at the address of %s is another one",
                   control_peer_name(c->peer));
        p->refusals = PEER_REFUSALS_MAX;
        peer_lost(c, "another process answers at its address");
        return 0;
    }
    rc = greeting_accept(p, c, hello, &err);
    if (rc == -ENOMEM)
        return rc;
    if (rc != 0) {
        state_warn("%s: %s", control_peer_name(c->peer), err.text);
        peer_lost(c, err.text);
        return 0;
    }
    RPIPE_FAILPOINT("connect: welcome received");
    greeting_done(c);
    if (!c->is_unix)
        peer_check_host(c);
    peer_write(c);
    return 0;
}
