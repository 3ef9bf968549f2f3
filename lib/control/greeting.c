/* SPDX-License-Identifier: BSD-3-Clause */
/* greeting.c: see greeting.h. */
#include "control/greeting.h"

#include "control/endpoint.h"
#include "control/lane.h"
#include "control/liveness.h"
#include "control/peer_card.h"
#include "control/peer_end.h"
#include "control/peer_loss.h"
#include "control/peer_send.h"
#include "control/state.h"
#include "util/clock.h"
#include "util/failpoint.h"
#include "util/log.h"
#include "util/received_fd.h"
#include "util/received_socket.h"

#include <errno.h>
#include <string.h>

#define CARD_MS 500

/* The page goes along without a duplicate of its descriptor: the peer would wait for a frame that
 * could not be sent because no number was left. */
static void greeting_add_page(const struct connection *c, struct message *m)
{
    if (c->is_unix)
        message_lend(m, liveness_fd());
}

bool greeting_send(struct connection *c, uint32_t type, uint32_t to, const uint8_t *cookie)
{
    struct wire_hello hello = {.bytes = sizeof(hello),
                               .versions = control.card.versions,
                               .magic = WIRE_HELLO_MAGIC,
                               .features = control.card.features,
                               .from = (uint32_t)control.rank,
                               .to = to,
                               .flags = control.membarrier ? WIRE_HAS_MEMBARRIER : 0};
    struct message *m;
    int lane;

    if (type == WIRE_HELLO)
        hello.attempt = ++state_peer((int)to)->greetings;
    memcpy(hello.cookie, cookie, COOKIE_BYTES);
    memcpy(hello.process_id, control.card.process_id, PROCESS_ID_BYTES);
    for (lane = 0; lane < WIRE_LANES; lane++)
        hello.window[lane] = LANE_WINDOW_BYTES;
    m = message_new(type, &hello, sizeof(hello), NULL, 0);
    if (m == NULL)
        return false;
    m->posted = false;
    if (type == WIRE_WELCOME)
        greeting_add_page(c, m);
    connection_queue(c, m);
    return true;
}

/* Before every message of this process: a peer that has one has the page. */
static bool greeting_send_page(struct connection *c)
{
    struct message *m = message_new(WIRE_PAGE, NULL, 0, NULL, 0);

    if (m == NULL)
        return false;
    m->posted = false;
    greeting_add_page(c, m);
    connection_queue(c, m);
    return true;
}

static void greeting_done(struct connection *c)
{
    if (c->is_unix)
        received_fd_set_source(c->fd, RECEIVED_OF_RANK(c->peer));
    c->state = CONNECTION_OPEN;
    c->deadline = NO_TIME;
    c->body_max = CONTROL_BODY_MAX;
    list_remove(&c->link);
    control.greetings--;
    list_append(&control.open, &c->link);
}

/* What HELLO and WELCOME have in common; copies the greeting, zero-extended. The version of
 * both, or -errno. */
static int greeting_check(const struct connection *c, const struct wire_frame *frame,
                          const void *body, struct wire_hello *hello, struct error *err)
{
    const unsigned pages = c->is_unix && c->outgoing;
    int version, lane;

    if (layout_read(hello, sizeof(*hello), body, frame->body_bytes, WIRE_HELLO_LEAST) != 0 ||
        hello->magic != WIRE_HELLO_MAGIC)
        return error_set(err, -EPROTO, "it sent no greeting of this library");
    if (hello->to != (uint32_t)control.rank || state_peer((int)hello->from) == NULL ||
        hello->from == (uint32_t)control.rank || !cookie_equal(hello->cookie, control.card.cookie))
        return error_set(err, -EACCES,
                         "its cookie is not that of this rank: it is not a process of this job");
    version = version_agree(control.card.versions, hello->versions, "the control network",
                            control_peer_name((int)hello->from), err);
    if (version < 0)
        return version;
    if (frame->nfds != pages)
        return error_set(err, -EPROTO, "its greeting came with %u descriptors, not %u", frame->nfds,
                         pages);
    for (lane = 0; lane < WIRE_LANES; lane++) {
        if (hello->window[lane] < LANE_WINDOW_LEAST)
            return error_set(err, -EPROTO, "its window of lane %d is %u bytes, less than %u", lane,
                             hello->window[lane], LANE_WINDOW_LEAST);
    }
    return version;
}

/* Whether the greeting is of the process that has published this card. */
static bool greeting_fits_card(const struct wire_hello *hello, const struct card *card)
{
    return memcmp(hello->process_id, card->process_id, PROCESS_ID_BYTES) == 0;
}

/* The first page of a peer that comes, in either direction. */
static int greeting_take_page(struct peer *p, const struct connection *c, struct error *err)
{
    const _Atomic uint32_t *word = NULL;
    int result;

    /* Where no number was left for its descriptor, the end of the peer's sockets reports its
     * death. */
    if (!c->is_unix || c->fds[0] < 0 ||
        atomic_load_explicit(&p->liveness, memory_order_relaxed) != NULL)
        return 0;
    result = liveness_map(c->fds[0], &word, err);
    if (result != 0)
        return result;
    /* release: the mapping, for control_liveness() */
    atomic_store_explicit(&p->liveness, word, memory_order_release);
    list_append(&control.alive, &p->alive);
    return 0;
}

int greeting_page(struct connection *c)
{
    struct error err = {""};
    int rc = greeting_take_page(state_peer(c->peer), c, &err);

    c->paged = rc == 0;
    if (rc != 0 && rc != -ENOMEM)
        control_cut_off(c->peer, err.text);
    return rc == -ENOMEM ? rc : 0;
}

static void greeting_accept(struct peer *p, const struct wire_hello *hello, int version)
{
    int lane;

    atomic_store_explicit(&p->membarrier, (hello->flags & WIRE_HAS_MEMBARRIER) != 0,
                          memory_order_relaxed);
    p->version = version;
    p->features = hello->features & control.card.features;
    log_debug("%s: version %d of the control network (it has %u to %u)",
              control_peer_name(peer_number(p)), version, hello->versions.oldest,
              hello->versions.newest);
    for (lane = 0; lane < WIRE_LANES; lane++)
        atomic_store_explicit(&p->window[lane], hello->window[lane], memory_order_relaxed);
    control.lanes.peer_changed(peer_number(p));
}

/*
 * All ranks have the cookies of all, so a cookie shows that a process is in the job, and not which
 * rank it is. On this host the kernel shows it: no rank can connect in the name of another. Over
 * TCP a rank could (doc/security.md).
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
    if (p->in != NULL) { /* it closed an earlier one, the end of which has not been read yet */
        state_drop(p->in);
        state_in_lost(p);
    }
    p->in = c;
    c->peer = peer_number(p);
    if (c->is_unix)
        (void)received_refuse(c->fd, false); /* before the WELCOME, which the first one follows */
    RPIPE_FAILPOINT("connect: hello received");
    greeting_done(c);
    if (control.fins_sent && p->out == NULL) {
        struct message *m = message_new(WIRE_FIN, NULL, 0, NULL, 0);

        if (m != NULL)
            connection_queue(c, m);
    }
    peer_write(c);
    if (control.exiting_sent && !control.fins_sent)
        peer_send_exiting(p);
    RPIPE_FAILPOINT("connect: welcome sent");
}

/* The peer in whose name a HELLO came, if it is that process. NULL, and a message in *err;
 * *memory: only memory is missing. */
static struct peer *greeting_identify(const struct connection *c, const struct wire_hello *hello,
                                      const struct card **card, bool *memory, struct error *err)
{
    struct peer *p = state_peer((int)hello->from);

    *memory = false;
    *card = peer_card((int)hello->from, deadline_in_ms(CARD_MS), err);
    if (*card == NULL) {
        *memory = errno == ENOMEM;
        return NULL;
    }
    if (!greeting_is_process_of(c, *card) || !greeting_fits_card(hello, *card)) {
        error_note(err, "it greeted as %s, which is another process",
                   control_peer_name((int)hello->from));
        return NULL;
    }
    if (atomic_load_explicit(&p->state, memory_order_relaxed) != 0 ||
        (p->in != NULL && p->in->used)) {
        error_note(err, "%s %s", control_peer_name((int)hello->from),
                   p->in != NULL ? "is connected already" : "was lost, or had left, before");
        return NULL;
    }
    if (hello->attempt < p->greeted) { /* it had given this one up, and its greeting comes late */
        error_note(err, "%s has made another connection since",
                   control_peer_name((int)hello->from));
        return NULL;
    }
    return p;
}

int greeting_hello(struct connection *c, const struct wire_frame *frame, const void *body)
{
    struct error err = {""};
    struct wire_hello hello;
    const struct card *card;
    struct peer *p;
    int version;
    bool memory;

    if (frame->type != WIRE_HELLO)
        return greeting_refuse(c, "its first frame was no greeting");
    version = greeting_check(c, frame, body, &hello, &err);
    if (version < 0)
        return greeting_refuse(c, err.text);
    p = greeting_identify(c, &hello, &card, &memory, &err);
    if (p == NULL)
        return memory ? -ENOMEM : greeting_refuse(c, err.text);
    if (!greeting_send(c, WIRE_WELCOME, hello.from, card->cookie))
        return -ENOMEM;
    greeting_accept(p, &hello, version);
    p->greeted = hello.attempt;
    greeting_welcome_peer(c, p);
    return 0;
}

/* The process at the other end is not the peer, or cannot be used. */
static void greeting_reject(struct connection *c, const char *reason)
{
    state_warn("%s: %s", control_peer_name(c->peer), reason);
    peer_lost(c, reason);
}

int greeting_welcome(struct connection *c, const struct wire_frame *frame, const void *body)
{
    struct peer *p = state_peer(c->peer);
    struct error err = {""};
    struct wire_hello hello = {0};
    int version = -EPROTO, rc;

    if (frame->type == WIRE_WELCOME)
        version = greeting_check(c, frame, body, &hello, &err);
    else
        error_note(&err, "its first frame was of type %u", frame->type);
    if (version < 0 || hello.from != (uint32_t)c->peer || !greeting_fits_card(&hello, p->card)) {
        struct error reason = {""};

        error_note(&reason, "another process answers at its address%s%s", version < 0 ? ": " : "",
                   err.text);
        p->refusals = PEER_REFUSALS_MAX;
        greeting_reject(c, reason.text);
        return 0;
    }
    rc = greeting_take_page(p, c, &err);
    if (rc == 0 && c->is_unix && !greeting_send_page(c))
        rc = -ENOMEM;
    if (rc == -ENOMEM)
        return rc;
    if (rc != 0) {
        greeting_reject(c, err.text);
        return 0;
    }
    greeting_accept(p, &hello, version);
    RPIPE_FAILPOINT("connect: welcome received");
    greeting_done(c);
    if (control.exiting_sent)
        peer_send_exiting(p);
    if (!c->is_unix)
        peer_check_host(c);
    peer_write(c);
    return 0;
}

uint32_t greeting_window(int peer, unsigned lane)
{
    struct peer *p = state_peer(peer);

    return p != NULL ? atomic_load_explicit(&p->window[lane], memory_order_relaxed) : 0;
}
