/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_dial.c: see peer_dial.h. */
#include "control/peer_dial.h"

#include "control/endpoint.h"
#include "control/greeting.h"
#include "control/peer_card.h"
#include "control/peer_end.h"
#include "control/peer_loss.h"
#include "control/peer_send.h"
#include "control/state.h"
#include "util/clock.h"
#include "util/failpoint.h"
#include "util/fork_fds.h"
#include "util/received_socket.h"
#include "util/settings.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define CARD_MS 20 /* one attempt to get a card from the bootstrap */
#define CARD_MISSING_MS                                                                            \
    10000 /* a card may be missing; all ranks have published before any could    \
         post */
#define CONNECT_MS                                                                                 \
    5000 /* connect(2) over TCP to one address; not longer than the keep-alive   \
        */
#define WELCOME_MS                                                                                 \
    5000 /* then the next address is tried; doubled in every round, to a minute  \
        */

static bool peer_dial_is_loopback(const struct card_address *a)
{
    static const uint8_t six[16] = {[15] = 1};

    return a->family == 4 ? a->bytes[0] == 127 : memcmp(a->bytes, six, 16) == 0;
}

/* Whether address i of a card can lead to the peer: if it is on another host, no address of this
 * host does. Where that is not known, all are tried; the cookie in the answer identifies the
 * peer. */
static bool peer_dial_leads_there(const struct card *card, unsigned i)
{
    unsigned k;

    if (card_same_host(card, &control.card) || !card_shows_host(card) ||
        !card_shows_host(&control.card))
        return true;
    if (peer_dial_is_loopback(&card->address[i]))
        return false;
    for (k = 0; k < control.card.addresses; k++) {
        if (memcmp(&card->address[i], &control.card.address[k], sizeof(card->address[i])) == 0)
            return false;
    }
    return true;
}

/* The connection is there: shows the cookie of the rank at its other end. */
static void peer_dial_greet(struct connection *c)
{
    struct peer *p = state_peer(c->peer);
    unsigned rounds = p->rounds < 4 ? p->rounds : 4;

    c->state = CONNECTION_GREETING;
    c->deadline = NO_TIME;
    if (!c->is_unix) {
        endpoint_tune_tcp(c->fd, setting_number(SET_KEEPALIVE_MS));
        c->deadline = deadline_in_ms(WELCOME_MS << rounds);
        state_timer(c->deadline);
    }
    RPIPE_FAILPOINT("connect: before hello");
    if (!greeting_send(c, WIRE_HELLO, (uint32_t)c->peer, p->card->cookie)) {
        state_warn("no memory to greet %s; it is tried again", control_peer_name(c->peer));
        p->out = NULL;
        state_drop(c);
        peer_retry_in(p, 50);
        return;
    }
    peer_write(c);
    RPIPE_FAILPOINT("connect: hello sent");
}

void peer_connected(struct connection *c)
{
    struct peer *p = state_peer(c->peer);
    struct error err = {""};
    socklen_t bytes = sizeof(int);
    char where[64];
    int error = 0;

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    if (error == 0) {
        peer_dial_greet(c);
        return;
    }
    endpoint_print(p->card, p->address, where, sizeof(where));
    error_note(&err, "it cannot be reached at %s: %s", where, strerror(error));
    peer_lost(c, err.text);
}

/* There is no socket, or it could not be connected at once. */
static void peer_dial_failed(struct peer *p, int error, bool is_unix)
{
    char where[64] = "its Unix socket";
    struct error err = {""};

    /* its backlog is full: it is stopped, or has many connections to accept */
    if (error == EAGAIN) {
        peer_retry_in(p, 2);
    } else if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
        state_warn("no socket for %s: %s; it is tried again", control_peer_name(peer_number(p)),
                   strerror(error));
        peer_retry_in(p, 50);
    } else {
        if (!is_unix)
            endpoint_print(p->card, p->address, where, sizeof(where));
        error_note(&err, "it cannot be reached at %s: %s; it has died, or left", where,
                   strerror(error));
        peer_unreachable(p, is_unix, err.text);
    }
}

/* A new outgoing connection over fd, which it takes. */
static void peer_dial_begin(struct peer *p, int fd, bool is_unix, bool done)
{
    struct connection *c = connection_new(fd, is_unix, true);

    if (c == NULL || state_epoll(fd, c, done, !done, false) != 0) {
        if (is_unix)
            received_socket_close(fd);
        else
            fork_fds_close(fd);
        if (c != NULL)
            connection_free(c);
        peer_retry_in(p, 50);
        return;
    }
    c->watch = WATCH_CONNECTION;
    c->peer = peer_number(p);
    c->wants_write = !done;
    c->state = CONNECTION_DIALING;
    c->deadline = deadline_in_ms(setting_number(SET_KEEPALIVE_MS) < CONNECT_MS
                                     ? (int)setting_number(SET_KEEPALIVE_MS)
                                     : CONNECT_MS);
    state_timer(c->deadline);
    list_append(&control.greeting, &c->link);
    control.greetings++;
    p->out = c;
    if (done)
        peer_dial_greet(c);
}

static void peer_dial_to(struct peer *p, const struct card *card, bool is_unix)
{
    pid_t pid;
    bool done;
    int fd = is_unix ? endpoint_dial_unix(card, &done) : endpoint_dial_tcp(card, p->address, &done);

    if (fd < 0) {
        peer_dial_failed(p, -fd, is_unix);
        return;
    }
    if (is_unix && !endpoint_same_user(fd, &pid)) { /* before the cookie is shown */
        received_socket_close(fd);
        peer_unreachable(p, true, "a process of another user listens at its Unix socket");
        return;
    }
    if (is_unix)
        (void)received_refuse(fd, false); /* the WELCOME brings the liveness page */
    RPIPE_FAILPOINT("connect: socket made");
    peer_dial_begin(p, fd, is_unix, done);
}

/* A card that has not come is awaited; one that cannot be used is not. */
static void peer_dial_no_card(struct peer *p, bool unusable, const char *reason)
{
    if (p->card_deadline == NO_TIME)
        p->card_deadline = deadline_in_ms(CARD_MISSING_MS);
    if (unusable || deadline_passed(p->card_deadline))
        peer_end_soon(p, reason);
    else
        peer_retry_in(p, 20);
}

static void peer_dial(struct peer *p)
{
    struct error err = {""};
    const struct card *card = peer_card(peer_number(p), deadline_in_ms(CARD_MS), &err);
    int path;

    if (card == NULL) {
        peer_dial_no_card(p, errno == EPROTO, err.text);
        return;
    }
    path = peer_card_path(card, &err);
    if (path < 0)
        peer_end_soon(p, err.text);
    else if (path == CONTROL_TCP && !peer_dial_leads_there(card, p->address))
        peer_unreachable(p, false, "none of its addresses leads to another host");
    else
        peer_dial_to(p, card, path == CONTROL_UNIX);
}

void peer_greeting_late(struct connection *c)
{
    struct error err = {""};
    struct peer *p;
    char where[64];

    if (!c->outgoing) {
        state_warn("a connection was closed: no greeting came in time");
        state_drop(c);
        return;
    }
    p = state_peer(c->peer);
    p->accepts |= c->state == CONNECTION_GREETING; /* its kernel accepts: it may be stopped */
    endpoint_print(p->card, p->address, where, sizeof(where));
    error_note(&err, "no process answers at %s", where);
    p->out = NULL;
    state_drop(c);
    peer_unreachable(p, false, err.text);
}

void peer_serve(struct peer *p)
{
    if (atomic_load_explicit(&p->state, memory_order_relaxed) != 0 || p->drain_until != NO_TIME)
        return;
    if (p->out == NULL && p->retry_at == NO_TIME)
        peer_dial(p);
    else if (p->out != NULL && p->out->state == CONNECTION_OPEN && !p->out->wants_write)
        peer_write(p->out);
}

bool peer_timer(struct peer *p, int64_t now)
{
    if (p->drain_until <= now) {
        peer_end_after_drain(p, p->drain_reason != NULL ? p->drain_reason : "its connection broke");
        return false;
    }
    if (p->retry_at > now)
        return false;
    p->retry_at = NO_TIME;
    if (p->drain_until == NO_TIME)
        list_remove(&p->timed);
    return true;
}
