/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer.c: one peer, as the service thread sees it: dialling, greeting, sending, and how it ends.
 *
 * A peer has ended when something is known that leaves it nothing to say: its goodbye, the hang-up of the connection that
 * carries its messages, or its life word. All that it said before is delivered first. The loss of our own connection to it
 * is less: what it said travels on the other one, which is given a moment to bring its end too. A peer that has been
 * stopped is not dead: nothing here gives up on somebody whose kernel still takes the call.
 */
#include "control/service.h"

#include "control/collective.h"
#include "control/endpoint.h"
#include "control/liveness.h"
#include "util/fork_fds.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CARD_MS 20 /* one look at the job's store from the service thread */
#define CARD_PATIENCE_MS                                                                           \
    10000 /* that a rank may have no card: all have published before anybody could post */
#define CONNECT_MS 5000 /* connect(2) over TCP to one address; not longer than the keep-alive */
#define WELCOME_MS 5000 /* then the next address is tried; doubled in every round, to a minute */
#define REFUSALS_MAX 3  /* greetings that end early, before that means something */
#define SUSPECT_UNIX_MS 50
#define SUSPECT_TCP_MS 2000
#define DRAIN_BYTES (64u << 20) /* more than any socket buffer: nobody keeps us reading for ever */
#define WHY 320

/* ---- timers ---- */

static void peer_retry_in(struct peer *p, int ms)
{
    p->retry_at = deadline_in_ms(ms);
    service_timer(p->retry_at);
    if (list_empty(&p->timed))
        list_append(&control.timed, &p->timed);
}

static void peer_count_gone(struct peer *p, uint64_t gone)
{
    if (gone == 0)
        return;
    pthread_mutex_lock(&control.lock);
    p->gone += gone;
    control.unsent -= gone;
    if (control.flushers > 0)
        pthread_cond_broadcast(&control.moved);
    pthread_mutex_unlock(&control.lock);
}

/* ---- how a peer ends ---- */

static void peer_drop_queue(struct peer *p, int state)
{
    struct link dropped, *at, *after;

    list_init(&dropped);
    pthread_mutex_lock(&control.lock);
    atomic_store_explicit(&p->state, state,
                          memory_order_release); /* from here on nothing is posted */
    list_for_each (at, after, &p->queue) {
        list_remove(at);
        list_append(&dropped, at);
    }
    control.unsent -= p->posted - p->gone;
    p->gone = p->posted;
    list_remove(&p->ready);
    if (control.flushers > 0)
        pthread_cond_broadcast(&control.moved);
    pthread_mutex_unlock(&control.lock);
    list_for_each (at, after, &dropped)
        message_free(container_of(at, struct message, link));
}

void peer_end(struct peer *p, enum control_end end, const char *why)
{
    int rank = peer_rank(p);
    char error_text[WHY + 64];

    if (atomic_load_explicit(&p->state, memory_order_relaxed) != 0)
        return;
    /* Whoever hears our goodbye hangs up: that is no death. */
    if (control.goodbyes_sent &&
        !liveness_died(atomic_load_explicit(&p->liveness, memory_order_relaxed)))
        end = PEER_LEFT;
    if (end == PEER_LEFT)
        snprintf(error_text, sizeof(error_text), "rank %d has left the job", rank);
    else
        snprintf(error_text, sizeof(error_text), "rank %d is lost: %s", rank, why);
    if (end == PEER_DIED)
        atomic_store_explicit(&p->ended, strdup(why),
                              memory_order_release); /* pairs with control_peer_why */
    peer_drop_queue(p, end == PEER_LEFT ? -EPIPE : -ECONNRESET);
    if (p->out != NULL)
        service_drop(p->out);
    if (p->in != NULL)
        service_drop(p->in);
    p->out = p->in = NULL;
    list_remove(&p->alive);
    list_remove(&p->timed);
    p->retry_at = p->suspect_at = NO_TIME;
    free(p->reason);
    p->reason = NULL;
    log_line(end == PEER_LEFT ? LOG_DEBUG : LOG_INFO, "%s", error_text);
    collect_peer_gone(rank);
    if (control.hooks.peer_gone != NULL)
        control.hooks.peer_gone(rank, end, error_text);
}

/* We can no longer talk to it; perhaps it still has something to say. */
static void peer_suspect(struct peer *p, const char *why)
{
    if (atomic_load_explicit(&p->state, memory_order_relaxed) != 0 || p->suspect_at != NO_TIME)
        return;
    if (p->in == NULL) {
        peer_end(p, p->goodbye_received ? PEER_LEFT : PEER_DIED, why);
        return;
    }
    p->reason = strdup(why);
    p->suspect_at = deadline_in_ms(p->in->is_unix ? SUSPECT_UNIX_MS : SUSPECT_TCP_MS);
    service_timer(p->suspect_at);
    if (list_empty(&p->timed))
        list_append(&control.timed, &p->timed);
}

/* Reads what has come from it, and then it has ended. */
static void peer_conclude(struct peer *p, const char *why)
{
    char copy[WHY];

    snprintf(copy, sizeof(copy), "%s", why); /* `why` may be p->reason, which reading may free */
    if (p->in != NULL)
        service_read(p->in, DRAIN_BYTES);
    peer_end(p, p->goodbye_received ? PEER_LEFT : PEER_DIED, copy);
}

void peer_check_liveness(void)
{
    struct link *at = control.alive.next;

    while (at != &control.alive) {
        struct peer *p = container_of(at, struct peer, alive);

        at = at->next;
        if (liveness_died(atomic_load_explicit(&p->liveness, memory_order_relaxed))) {
            peer_conclude(p, "its process has died");
            at = control.alive.next; /* a hook may have ended others too: from the beginning */
        }
    }
}

void control_cut_off(int rank, const char *why)
{
    service_warn("rank %d is cut off: %s", rank, why);
    peer_end(&control.peers[rank], PEER_DIED, why);
}

/* ---- dialling ---- */

static void peer_wants_write(struct connection *c, bool wants)
{
    if (c->wants_write == wants)
        return;
    c->wants_write = wants;
    service_watch(c->fd, c, true, wants, true);
}

static bool peer_address_is_loopback(const struct card_address *a)
{
    static const uint8_t six[16] = {[15] = 1};

    return a->family == 4 ? a->bytes[0] == 127 : memcmp(a->bytes, six, 16) == 0;
}

/* Is address i of a card worth a try? Not what leads back to this very host, if the peer is on another. */
static bool peer_address_leads_there(const struct card *card, unsigned i)
{
    unsigned k;

    if (card_same_host(card, &control.card))
        return true;
    if (peer_address_is_loopback(&card->address[i]))
        return false;
    for (k = 0; k < control.card.addresses; k++) {
        if (memcmp(&card->address[i], &control.card.address[k], sizeof(card->address[i])) == 0)
            return false;
    }
    return true;
}

static void peer_dial_failed(struct peer *p, bool is_unix, const char *why)
{
    if (is_unix) {
        peer_suspect(p, why);
        return;
    }
    p->address++;
    if (p->address < p->card->addresses) {
        peer_retry_in(p, 1);
        return;
    }
    p->address = 0;
    if (!p->soft) {
        peer_suspect(p, why);
        return;
    }
    p->soft = false;
    p->rounds++;
    peer_retry_in(p, 100);
}

/* The life page goes along as it is: where no number is left for a duplicate, a greeting that was not sent would be waited for. */
static bool peer_send_hello(struct connection *c, uint32_t type, uint32_t to, const uint8_t *cookie)
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

/* The connection stands: shows the cookie of the rank that we want to talk to. */
static void peer_greet(struct connection *c)
{
    struct peer *p = &control.peers[c->peer];
    unsigned rounds = p->rounds < 4 ? p->rounds : 4;

    c->state = CONNECTION_GREETING;
    c->deadline = NO_TIME;
    if (!c->is_unix) {
        endpoint_tune_tcp(c->fd, setting_number(SET_KEEPALIVE_MS));
        c->deadline = deadline_in_ms(WELCOME_MS << rounds);
        service_timer(c->deadline);
    }
    RPIPE_FAILPOINT("connect: before hello");
    if (!peer_send_hello(c, WIRE_HELLO, (uint32_t)c->peer, p->card->cookie)) {
        service_warn("no memory to greet rank %d; trying again", c->peer);
        p->out = NULL;
        service_drop(c);
        peer_retry_in(p, 50);
        return;
    }
    peer_write(c);
    RPIPE_FAILPOINT("connect: hello sent");
}

void peer_connected(struct connection *c)
{
    struct peer *p = &control.peers[c->peer];
    char where[64], why[WHY];
    socklen_t bytes = sizeof(int);
    int error = 0;

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    if (error == 0) {
        peer_greet(c);
        return;
    }
    endpoint_print(p->card, p->address, where, sizeof(where));
    snprintf(why, sizeof(why), "it cannot be reached at %s: %s", where, strerror(error));
    peer_lost(c, why);
}

/* A socket could not be had, or not be connected at once. */
static void peer_dial_trouble(struct peer *p, int error, bool is_unix)
{
    char where[64] = "its Unix socket", why[WHY];

    if (error == EAGAIN) { /* its backlog is full: it is stopped, or busy with many */
        peer_retry_in(p, 2);
    } else if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
        service_warn("no socket for rank %d yet: %s; trying again", peer_rank(p), strerror(error));
        peer_retry_in(p, 50);
    } else {
        if (!is_unix)
            endpoint_print(p->card, p->address, where, sizeof(where));
        snprintf(why, sizeof(why), "it cannot be reached at %s: %s; it has died, or left", where,
                 strerror(error));
        peer_dial_failed(p, is_unix, why);
    }
}

static void peer_dial(struct peer *p)
{
    int rank = peer_rank(p), path, fd;
    struct error err = {""};
    const struct card *card = peer_card(rank, deadline_in_ms(CARD_MS), &err);
    struct connection *c;
    pid_t pid;
    bool done;

    if (card == NULL) {
        if (p->card_patience == NO_TIME)
            p->card_patience = deadline_in_ms(CARD_PATIENCE_MS);
        if (deadline_passed(p->card_patience))
            peer_suspect(p, err.text);
        else
            peer_retry_in(p, 20);
        return;
    }
    path = peer_path(card, &err);
    if (path < 0) {
        peer_suspect(p, err.text);
        return;
    }
    if (path == CONTROL_TCP && !peer_address_leads_there(card, p->address)) {
        peer_dial_failed(p, false, "none of its addresses leads to another host");
        return;
    }
    fd = path == CONTROL_UNIX ? endpoint_dial_unix(card, &done)
                              : endpoint_dial_tcp(card, p->address, &done);
    if (fd < 0) {
        peer_dial_trouble(p, -fd, path == CONTROL_UNIX);
        return;
    }
    if (path == CONTROL_UNIX && !endpoint_same_user(fd, &pid)) { /* before the cookie is shown */
        fork_fds_close(fd);
        peer_dial_failed(p, true, "at its Unix socket somebody of another user listens");
        return;
    }
    RPIPE_FAILPOINT("connect: socket made");
    c = connection_new(fd, path == CONTROL_UNIX, true);
    if (c == NULL || service_watch(fd, c, done, !done, false) != 0) {
        fork_fds_close(fd);
        if (c != NULL)
            connection_free(c);
        peer_retry_in(p, 50);
        return;
    }
    c->watch = WATCH_CONNECTION;
    c->peer = rank;
    c->wants_write = !done;
    c->state = CONNECTION_DIALING;
    c->deadline = deadline_in_ms(setting_number(SET_KEEPALIVE_MS) < CONNECT_MS
                                     ? (int)setting_number(SET_KEEPALIVE_MS)
                                     : CONNECT_MS);
    service_timer(c->deadline);
    list_append(&control.greeting, &c->link);
    control.greetings++;
    p->out = c;
    if (done)
        peer_greet(c);
}

void peer_greeting_late(struct connection *c)
{
    struct peer *p;
    char where[64], why[WHY];

    if (!c->outgoing) {
        service_warn("a connection was closed: who opened it did not say who it is");
        service_drop(c);
        return;
    }
    p = &control.peers[c->peer];
    p->soft |= c->state == CONNECTION_GREETING; /* its kernel took the call: it may be stopped */
    endpoint_print(p->card, p->address, where, sizeof(where));
    snprintf(why, sizeof(why), "nobody answers at %s", where);
    p->out = NULL;
    service_drop(c);
    peer_dial_failed(p, false, why);
}

/* ---- sending ---- */

void peer_write(struct connection *c)
{
    struct peer *p = c->peer >= 0 ? &control.peers[c->peer] : NULL;
    bool carries = c->outgoing && c->state == CONNECTION_OPEN;
    struct link *at, *after;
    uint64_t gone = 0;
    struct error err = {""};
    int result;

    if (carries) {
        pthread_mutex_lock(&control.lock);
        list_for_each (at, after, &p->queue) {
            list_remove(at);
            list_append(&c->outbox, at);
        }
        pthread_mutex_unlock(&control.lock);
    }
    RPIPE_FAILPOINT("message: before the socket");
    result = connection_send(c, &gone);
    RPIPE_FAILPOINT("message: with the kernel");
    if (carries)
        peer_count_gone(p, gone);
    if (result == 0 || result == -EAGAIN) {
        peer_wants_write(c, result != 0);
    } else if (result == -ENOBUFS && carries) {
        peer_wants_write(c, false);
        peer_retry_in(p, 5);
    } else {
        error_note(&err, "its connection broke: %s", strerror(-result));
        service_read(c, DRAIN_BYTES); /* its goodbye may have come before the end */
        peer_lost(c, err.text);
    }
}

/*
 * A host that has said nothing for a quarter of the keep-alive is asked (its kernel answers, whatever the process does); one that
 * has said nothing for three quarters, though it was asked again and again, is lost. Looked at eight times within the keep-alive,
 * all connections in the same turns.
 */
void peer_pulse(struct connection *c)
{
    const long keepalive = setting_number(SET_KEEPALIVE_MS);
    const int64_t period = keepalive * NS_PER_MS / 8;
    struct endpoint_pulse pulse;
    struct error err = {""};

    endpoint_tcp_pulse(c->fd, &pulse);
    if (!pulse.idle && pulse.quiet_ms > keepalive * 3 / 4 &&
        pulse.tries >= (keepalive < 4000 ? 2 : 3)) {
        error_note(&err, "its host has not answered for %ld ms (RPIPE_KEEPALIVE_MS is %ld)",
                   pulse.quiet_ms, keepalive);
        peer_conclude(&control.peers[c->peer], err.text);
        return;
    }
    if (pulse.idle && pulse.quiet_ms > keepalive / 4)
        control_monitor(c->peer);
    c->deadline = (clock_now() / period + 1) * period;
    service_timer(c->deadline);
}

void peer_serve(struct peer *p)
{
    if (atomic_load_explicit(&p->state, memory_order_relaxed) != 0 || p->suspect_at != NO_TIME)
        return;
    if (p->out == NULL && p->retry_at == NO_TIME)
        peer_dial(p);
    else if (p->out != NULL && p->out->state == CONNECTION_OPEN && !p->out->wants_write)
        peer_write(p->out);
}

/* ---- greeting ---- */

static void peer_opened(struct connection *c)
{
    c->state = CONNECTION_OPEN;
    c->deadline = NO_TIME;
    c->body_max = CONTROL_BODY_MAX;
    list_remove(&c->link);
    control.greetings--;
    list_append(&control.open, &c->link);
}

/* What hello and welcome have in common. */
static int peer_check_greeting(const struct connection *c, const struct wire_frame *frame,
                               const struct wire_hello *hello, struct error *err)
{
    if (frame->bytes != sizeof(*hello) || hello->magic != WIRE_HELLO_MAGIC)
        return error_set(err, -EPROTO, "it is no greeting of this library");
    if (hello->version != WIRE_VERSION)
        return error_set(err, -EPROTO,
                         "it speaks version %u of the control network, not %u; every rank needs "
                         "the same library",
                         hello->version, WIRE_VERSION);
    if (hello->to != (uint32_t)control.rank || hello->from >= (uint32_t)control.size ||
        hello->from == (uint32_t)control.rank || !cookie_equal(hello->cookie, control.card.cookie))
        return error_set(
            err, -EACCES,
            "it does not know the cookie of this rank: it is of another job, or a stranger");
    if (frame->nfds != (c->is_unix ? 1u : 0u))
        return error_set(err, -EPROTO, "its greeting came with %u descriptors", frame->nfds);
    return 0;
}

/* The first greeting brings the life page, whoever called. */
static int peer_learn(struct peer *p, const struct connection *c, const struct wire_hello *hello,
                      struct error *err)
{
    const _Atomic uint32_t *word;
    int result;

    /* Without a number left for its descriptor the hang-up of its sockets has to tell. */
    if (c->is_unix && c->fds[0] >= 0 &&
        atomic_load_explicit(&p->liveness, memory_order_relaxed) == NULL) {
        result = liveness_map(c->fds[0], &word, err);
        if (result != 0)
            return result;
        atomic_store_explicit(&p->liveness, word,
                              memory_order_release); /* the mapping, for control_liveness() */
        list_append(&control.alive, &p->alive);
    }
    atomic_store_explicit(&p->membarrier, (hello->flags & WIRE_HAS_MEMBARRIER) != 0,
                          memory_order_relaxed);
    return 0;
}

/*
 * All ranks know the cookies of all, so a cookie shows that somebody is in the job, and not who he is. On this host the kernel
 * knows: one rank cannot call in the name of another. (Over TCP nobody knows: doc/security.md.)
 */
static bool peer_cookie_is_right(const struct connection *c, const struct card *card)
{
    pid_t pid;

    return !c->is_unix || !card_same_pids(card, &control.card) ||
           (endpoint_same_user(c->fd, &pid) && (uint32_t)pid == card->pid);
}

static int peer_refuse(struct connection *c, const char *why)
{
    service_warn("a connection was refused: %s", why);
    service_drop(c);
    return 0;
}

int peer_hello(struct connection *c, const struct wire_frame *frame, const void *body)
{
    const struct wire_hello *hello = body;
    const struct card *card;
    struct error err = {""};
    struct peer *p;
    int rc;

    if (frame->type != WIRE_HELLO || peer_check_greeting(c, frame, hello, &err) != 0) {
        if (frame->type != WIRE_HELLO)
            error_note(&err, "it does not begin with a greeting");
        return peer_refuse(c, err.text);
    }
    p = &control.peers[hello->from];
    errno = 0;
    card = peer_card((int)hello->from, deadline_in_ms(500), &err);
    if (card == NULL)
        return errno == ENOMEM ? -ENOMEM : peer_refuse(c, err.text);
    if (!peer_cookie_is_right(c, card)) {
        error_note(&err, "it calls itself rank %u, which is another process", hello->from);
        return peer_refuse(c, err.text);
    }
    if (atomic_load_explicit(&p->state, memory_order_relaxed) != 0 ||
        (p->in != NULL && p->in->heard)) {
        error_note(&err, "rank %u %s", hello->from,
                   p->in != NULL ? "is connected already" : "had been lost, or had left, before");
        return peer_refuse(c, err.text);
    }
    rc = peer_learn(p, c, hello, &err);
    if (rc != 0)
        return rc == -ENOMEM ? rc : peer_refuse(c, err.text);
    if (!peer_send_hello(c, WIRE_WELCOME, hello->from, card->cookie))
        return -ENOMEM;
    if (p->in !=
        NULL) /* it gave up on an earlier call, of which it only now hears nothing any more */
        service_drop(p->in);
    p->in = c;
    c->peer = (int)hello->from;
    RPIPE_FAILPOINT("connect: hello heard");
    peer_opened(c);
    if (control.goodbyes_sent && p->out == NULL) {
        struct message *m = message_new(WIRE_GOODBYE, NULL, 0, NULL, 0);

        if (m != NULL)
            connection_queue(c, m);
    }
    peer_write(c);
    RPIPE_FAILPOINT("connect: welcome sent");
    return 0;
}

int peer_welcome(struct connection *c, const struct wire_frame *frame, const void *body)
{
    const struct wire_hello *hello = body;
    struct peer *p = &control.peers[c->peer];
    struct error err = {""};
    int rc;

    if (frame->type != WIRE_WELCOME || peer_check_greeting(c, frame, hello, &err) != 0 ||
        hello->from != (uint32_t)c->peer) {
        service_warn("who answers in the place of rank %d is not that rank", c->peer);
        p->refusals = REFUSALS_MAX;
        peer_lost(c, "somebody else answers in its place");
        return 0;
    }
    rc = peer_learn(p, c, hello, &err);
    if (rc == -ENOMEM)
        return rc;
    if (rc != 0) {
        service_warn("rank %d: %s", c->peer, err.text);
        peer_lost(c, err.text);
        return 0;
    }
    RPIPE_FAILPOINT("connect: welcome heard");
    peer_opened(c);
    if (!c->is_unix)
        peer_pulse(c);
    peer_write(c);
    return 0;
}

/* ---- connections that end ---- */

void peer_goodbye(struct connection *c)
{
    struct peer *p = &control.peers[c->peer];

    p->goodbye_received = true;
    if (!c->outgoing)
        peer_end(p, PEER_LEFT, NULL);
    else
        peer_suspect(p, "it has left");
}

static void peer_greeting_lost(struct connection *c, const char *why)
{
    struct peer *p = &control.peers[c->peer];
    bool is_unix = c->is_unix, was_refused = c->state == CONNECTION_GREETING;

    p->out = NULL;
    service_drop(c);
    if (was_refused && ++p->refusals < REFUSALS_MAX)
        peer_retry_in(p, 20);
    else
        peer_dial_failed(p, is_unix, why);
}

void peer_lost(struct connection *c, const char *why)
{
    struct peer *p = c->peer >= 0 ? &control.peers[c->peer] : NULL;

    switch (c->state) {
    case CONNECTION_CLOSED:
        return;
    case CONNECTION_ACCEPTED:
        service_drop(c);
        return;
    case CONNECTION_DIALING:
    case CONNECTION_GREETING:
        peer_greeting_lost(c, why);
        return;
    case CONNECTION_OPEN:
        break;
    }
    if (c->outgoing) {
        p->out = NULL;
        service_drop(c);
        peer_suspect(p, why);
    } else if (c->heard || p->suspect_at != NO_TIME ||
               liveness_died(atomic_load_explicit(&p->liveness, memory_order_relaxed))) {
        peer_end(p, p->goodbye_received ? PEER_LEFT : PEER_DIED,
                 p->reason != NULL ? p->reason : why);
    } else {
        p->in =
            NULL; /* it called, and hung up before it said anything: it will call again, or be missed elsewhere */
        service_drop(c);
    }
}

void peer_timer(struct peer *p, int64_t now)
{
    if (p->suspect_at <= now) {
        peer_conclude(p, p->reason != NULL ? p->reason : "its connection broke");
        return;
    }
    if (p->retry_at <= now) {
        p->retry_at = NO_TIME;
        if (p->suspect_at == NO_TIME)
            list_remove(&p->timed);
        peer_serve(p);
    }
    service_timer(p->suspect_at);
    service_timer(p->retry_at);
}
