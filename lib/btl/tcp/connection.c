/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection.c: see connection.h.
 *
 * A connection is in btl.all and btl.connections from tcp_connection_open() to
 * tcp_connection_close(), and in btl.rising from tcp_connection_connect() until the timer finds it
 * up.
 */
#include "btl/tcp/connection.h"

#include "btl/tcp/failure.h"
#include "btl/tcp/gather.h"
#include "btl/tcp/greeting.h"
#include "btl/tcp/progress.h"
#include "btl/tcp/stream.h"
#include "btl/tcp/transfer.h"

#include "util/clock.h"
#include "util/cpu.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define UP_MS_LEAST 30000 /* an end may be late: the other one may still be starting */

/* ---- opening ---- */

static uint32_t tcp_connection_depth(uint32_t wanted)
{
    uint32_t depth = TCP_DEPTH;

    while (depth < wanted && depth < TCP_DEPTH_MOST)
        depth *= 2;
    return depth;
}

static void tcp_connection_free(struct btl_connection *c)
{
    pthread_mutex_destroy(&c->lock);
    free(c->queue.bytes);
    free(c->pending);
    free(c->reply);
    free(c);
}

static struct btl_connection *tcp_connection_new(struct btl *btl, uint32_t depth)
{
    struct btl_connection *c = aligned_alloc(_Alignof(struct btl_connection), sizeof(*c));

    if (c == NULL)
        return NULL;
    memset(c, 0, sizeof(*c));
    pthread_mutex_init(&c->lock, NULL);
    c->btl = btl;
    c->fd = -1;
    c->depth = depth;
    list_init(&c->rising);
    list_init(&c->waiting);
    c->queue.bytes = malloc(TCP_QUEUE_BYTES);
    c->pending = calloc(depth, sizeof(c->pending[0]));
    if (c->queue.bytes != NULL && c->pending != NULL)
        return c;
    tcp_connection_free(c);
    return NULL;
}

static void tcp_connection_address(const struct btl_connection *c, struct btl_address *address)
{
    struct tcp_name name = c->btl->name;

    name.version = TCP_VERSION;
    name.id = c->id;
    name.depth = c->depth;
    memcpy(name.cookie, c->cookie, sizeof(name.cookie));
    address->bytes = sizeof(name);
    memcpy(address->byte, &name, sizeof(name));
}

int tcp_connection_open(struct btl *btl, int peer, enum btl_role role, uint32_t depth,
                        struct btl_connection **out, struct btl_address *address, struct error *err)
{
    struct btl_connection *c;
    int rc = tcp_check_fork(btl, err);

    if (rc != 0)
        return rc;
    c = tcp_connection_new(btl, tcp_connection_depth(depth));
    if (c == NULL)
        return error_set(err, -ENOMEM, "there is no memory for another connection");
    c->peer = peer;
    c->role = role;
    if (getrandom(c->cookie, sizeof(c->cookie), 0) != (ssize_t)sizeof(c->cookie)) {
        rc = error_set(err, -EIO, "getrandom(2) for the cookie of a connection: %s",
                       strerror(errno));
        tcp_connection_free(c);
        return rc;
    }
    pthread_mutex_lock(&btl->lock);
    c->id = btl->last_id + 1;
    rc = hash_put(&btl->connections, c->id, c);
    if (rc == 0) {
        btl->last_id++;
        list_append(&btl->all, &c->link);
    }
    pthread_mutex_unlock(&btl->lock);
    if (rc != 0) {
        tcp_connection_free(c);
        return error_set(err, rc, "there is no memory for another connection");
    }
    RPIPE_FAILPOINT("tcp: connection open");
    tcp_connection_address(c, address);
    *out = c;
    return 0;
}

/* ---- connecting ---- */

/* Whether this, which the peer has sent, is the address of an end of this backend. */
static bool tcp_connection_check(const struct btl_address *address, struct tcp_name *name,
                                 struct error *err)
{
    if (address->bytes != sizeof(*name)) {
        error_note(err, "the address of the other end has %u bytes, not %zu", address->bytes,
                   sizeof(*name));
        return false;
    }
    memcpy(name, address->byte, sizeof(*name));
    if (name->version != TCP_VERSION) {
        error_note(err,
                   "the other end has version %u of the protocol, this one %u; install the same "
                   "version at both",
                   name->version, TCP_VERSION);
        return false;
    }
    if ((name->family != 4 && name->family != 6) || name->port == 0 || name->depth == 0 ||
        name->depth > TCP_DEPTH_MOST || (name->depth & (name->depth - 1)) != 0) {
        error_note(err, "the address of the other end is malformed");
        return false;
    }
    return true;
}

/* Lock held. */
static int tcp_connection_name(struct btl_connection *c, const struct tcp_name *name,
                               struct error *err)
{
    if (c->named)
        return memcmp(&c->name, name, sizeof(*name)) == 0
                   ? 0
                   : error_set(err, -EPROTO, "the other end has sent two different addresses");
    c->reply = calloc(name->depth, sizeof(c->reply[0]));
    if (c->reply == NULL)
        return error_set(err, -ENOMEM, "there is no memory for the requests of the other end");
    c->peer_depth = name->depth;
    c->name = *name;
    c->named = true;
    if (c->role == BTL_CONNECTS)
        return greeting_dial(c, err);
    greeting_named(c);
    return 0;
}

static int64_t tcp_connection_deadline(const struct btl *btl)
{
    const long ms = strtol(btl->host.setting("RPIPE_TIMEOUT_MS"), NULL, 10);

    if (ms < 0)
        return DEADLINE_NEVER;
    return clock_now() + (ms > UP_MS_LEAST ? ms : UP_MS_LEAST) * NS_PER_MS;
}

int tcp_connection_connect(struct btl_connection *c, const struct btl_address *address,
                           struct error *err)
{
    struct btl *btl = c->btl;
    struct tcp_name name;
    bool as_owner;
    int rc = tcp_check_fork(btl, err);

    if (rc != 0)
        return rc;
    if (!tcp_connection_check(address, &name, err))
        return -EPROTO;
    pthread_mutex_lock(&btl->lock);
    as_owner = tcp_enter(c, BIASED_NEVER);
    rc = tcp_error_of(c);
    if (rc != 0)
        error_note(err, "%s", c->failure);
    else
        rc = tcp_connection_name(c, &name, err);
    if (rc == 0 && c->stage != TCP_UP && list_empty(&c->rising)) {
        c->deadline = tcp_connection_deadline(btl);
        list_append(&btl->rising, &c->rising);
        progress_need_timer(btl);
    }
    tcp_leave(c, as_owner);
    pthread_mutex_unlock(&btl->lock);
    RPIPE_FAILPOINT("tcp: address of the other end received");
    return rc;
}

int tcp_connection_state(struct btl_connection *c, struct error *err)
{
    /* acquire: the message; pairs with the release in tcp_fail */
    int rc = atomic_load_explicit(&c->error, memory_order_acquire);

    if (rc != 0)
        error_note(err, "%s", c->failure);
    else if (!atomic_load_explicit(&c->up, memory_order_relaxed))
        rc = -EAGAIN;
    return rc;
}

void tcp_connection_close(struct btl_connection *c)
{
    struct btl *btl = c->btl;
    struct btl_stream *stream = c->stream;
    bool as_owner;

    if (btl->forked)
        return;
    RPIPE_FAILPOINT("tcp: before a connection is closed");
    pthread_mutex_lock(&btl->lock);
    (void)hash_remove(&btl->connections, c->id);
    list_remove(&c->link);
    list_remove(&c->rising);
    pthread_mutex_unlock(&btl->lock);
    as_owner =
        tcp_enter(c, BIASED_NEVER); /* a thread that has found it before may still drive it */
    gather_forget(c);
    tcp_disconnect(c);
    tcp_leave(c, as_owner);
    tcp_connection_free(c);
    if (stream != NULL)
        stream_put(stream);
}

/* ---- properties: also in the child of a fork, where a thread that is gone may have the lock ---- */

void tcp_connection_describe(struct btl_connection *c, char *text, size_t text_bytes)
{
    char here[TCP_ADDRESS_TEXT], there[TCP_ADDRESS_TEXT] = "an address not received yet";
    bool as_owner = false;

    greeting_print(&c->btl->name, here, sizeof(here));
    if (!c->btl->forked)
        as_owner = tcp_enter(c, BIASED_NEVER);
    if (c->named)
        greeting_print(&c->name, there, sizeof(there));
    if (!c->btl->forked)
        tcp_leave(c, as_owner);
    snprintf(text, text_bytes, "tcp %s to %s", here, there);
}

void tcp_connection_counts(struct btl_connection *c, struct btl_counts *counts)
{
    bool as_owner;

    if (c->btl->forked) {
        *counts = (struct btl_counts){0};
        return;
    }
    as_owner = tcp_enter(c, BIASED_NEVER);
    *counts = c->counts;
    tcp_leave(c, as_owner);
}

uint32_t tcp_connection_atomics(struct btl_connection *c)
{
    (void)c;
    return 1u << BTL_ATOMIC_ADD | 1u << BTL_ATOMIC_CAS | 1u << BTL_ATOMIC_SWAP |
           1u << BTL_ATOMIC_AND | 1u << BTL_ATOMIC_OR | 1u << BTL_ATOMIC_XOR;
}

/* ---- transfers: those of transfer.c, inside the connection ---- */

static bool tcp_connection_enter(struct btl_connection *c)
{
    return tcp_enter(c, tcp_may_own(c->btl) ? BIASED_AT_ONCE : BIASED_NEVER);
}

static int tcp_connection_leave(struct btl_connection *c, bool as_owner, int rc)
{
    tcp_leave(c, as_owner);
    return rc;
}

int tcp_connection_write(struct btl_connection *c, const struct btl_transfer *payload,
                         const struct btl_transfer *slot)
{
    bool as_owner;

    if (c->btl->forked)
        return -ENOTCONN;
    as_owner = tcp_connection_enter(c);
    return tcp_connection_leave(c, as_owner, transfer_write(c, payload, slot));
}

int tcp_connection_hold(struct btl_connection *c, uint32_t most)
{
    bool as_owner;

    if (c->btl->forked)
        return -ENOTCONN;
    as_owner = tcp_connection_enter(c);
    return tcp_connection_leave(c, as_owner, transfer_hold(c, most));
}

int tcp_connection_get(struct btl_connection *c, const struct btl_transfer *t,
                       struct btl_done *done)
{
    bool as_owner;

    if (c->btl->forked)
        return -ENOTCONN;
    as_owner = tcp_connection_enter(c);
    return tcp_connection_leave(c, as_owner, transfer_get(c, t, done));
}

int tcp_connection_atomic(struct btl_connection *c, int op, const struct btl_transfer *at,
                          uint64_t operand, uint64_t compare, struct btl_done *done)
{
    bool as_owner;

    if (c->btl->forked)
        return -ENOTCONN;
    as_owner = tcp_connection_enter(c);
    return tcp_connection_leave(c, as_owner, transfer_atomic(c, op, at, operand, compare, done));
}

int tcp_connection_flush(struct btl_connection *c)
{
    bool as_owner;

    if (c->btl->forked)
        return -ENOTCONN;
    as_owner = tcp_connection_enter(c);
    return tcp_connection_leave(c, as_owner, transfer_flush(c));
}

/* What the socket has taken has been copied. A connection that fails drops its queue: what was in it has not left. */
void tcp_connection_position(struct btl_connection *c, uint64_t *accepted, uint64_t *released)
{
    bool as_owner = tcp_connection_enter(c);

    *accepted = c->queue.added;
    *released = tcp_error_of(c) == 0 ? c->queue.sent : 0;
    tcp_leave(c, as_owner);
}

int tcp_connection_progress(struct btl_connection *c)
{
    if (c->btl->forked)
        return -ENOTCONN;
    progress_one(c);
    return tcp_error_of(c);
}
