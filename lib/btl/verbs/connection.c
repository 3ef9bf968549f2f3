/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection.c: opening, addresses and closing of connections.
 *
 * It is connected by connect.c and transfers by post.c. Invariants: a connection is in
 * btl.connections, under its token, until it is closed; the queue pair is destroyed before
 * connection_close returns, so that nothing accesses memory after it.
 */
#include "btl/verbs/connection.h"

#include "btl/verbs/connect.h"
#include "btl/verbs/context.h"
#include "btl/verbs/device.h"
#include "btl/verbs/state.h"
#include "btl/verbs/stream.h"

#include "util/clock.h"
#include "util/log.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/*
 * Least time for connecting, however short RPIPE_TIMEOUT_MS is: the deadline of a call is enforced
 * above.
 */
#define DEADLINE_LEAST_MS 30000
/* Work requests that a connection may have outstanding, unless it requests more. */
#define SEND_DEPTH 256u

/* In struct btl_address. */
struct wire_address {
    uint32_t magic;
    uint8_t iwarp;
    uint8_t family; /* 4 or 6 */
    uint16_t port;
    uint64_t token;
    uint8_t ip[16];
    char device[16]; /* for error messages */
};
#define WIRE_MAGIC 0x76627333u /* "vbs3" */
static_assert(sizeof(struct wire_address) == 48 &&
                  sizeof(struct wire_address) <= BTL_ADDRESS_MAX - 2,
              "on the wire");

static void verbs_connection_pack_address(const struct btl_connection *connection,
                                          struct btl_address *address)
{
    const struct btl *btl = connection->btl;
    struct wire_address w = {
        .magic = WIRE_MAGIC,
        .iwarp = btl->limits.iwarp,
        .family = btl->here.any.sa_family == AF_INET6 ? 6 : 4,
        .port = verbs_address_port(&btl->here),
        .token = connection->token,
    };

    if (w.family == 6)
        memcpy(w.ip, &btl->here.in6.sin6_addr, 16);
    else
        memcpy(w.ip, &btl->here.in.sin_addr, 4);
    memcpy(w.device, btl->device, strnlen(btl->device, sizeof(w.device) - 1));
    memset(address, 0, sizeof(*address));
    address->bytes = sizeof(w);
    memcpy(address->byte, &w, sizeof(w));
}

static int verbs_connection_unpack_address(struct btl_connection *connection,
                                           const struct btl_address *address,
                                           struct wire_address *w, struct error *err)
{
    if (address->bytes == sizeof(*w))
        memcpy(w, address->byte, sizeof(*w));
    if (address->bytes != sizeof(*w) || w->magic != WIRE_MAGIC ||
        (w->family != 4 && w->family != 6) || w->token == 0)
        return error_set(err, -EPROTO, "rank %d sent a malformed address (%u bytes, expected %zu)",
                         connection->peer, address->bytes, sizeof(*w));
    w->device[sizeof(w->device) - 1] = '\0';
    if ((w->iwarp != 0) != connection->btl->limits.iwarp)
        return error_set(err, -ENOTSUP, "%s here is %s, %s of rank %d is not; both must be",
                         connection->btl->device,
                         connection->btl->limits.iwarp ? "iWARP" : "InfiniBand or RoCE", w->device,
                         connection->peer);
    memset(&connection->there, 0, sizeof(connection->there));
    if (w->family == 6) {
        connection->there.in6.sin6_family = AF_INET6;
        connection->there.in6.sin6_port = htons(w->port);
        memcpy(&connection->there.in6.sin6_addr, w->ip, 16);
    } else {
        connection->there.in.sin_family = AF_INET;
        connection->there.in.sin_port = htons(w->port);
        memcpy(&connection->there.in.sin_addr, w->ip, 4);
    }
    return 0;
}

/* ---- opening and closing ---- */

/* Most transfers take two work requests, and a quarter of the queue may wait for its signal. */
static uint32_t verbs_connection_choose_depth(const struct btl *btl, uint32_t depth)
{
    uint32_t wanted = depth > DEPTH_MOST ? DEPTH_MOST : 2 * depth + SIGNAL_EVERY;

    if (wanted < SEND_DEPTH)
        wanted = SEND_DEPTH;
    return wanted < btl->limits.send_depth ? wanted : btl->limits.send_depth;
}

static void verbs_connection_free(struct btl_connection *connection)
{
    if (connection->greets)
        verbs_context_leave(connection->context);
    if (connection->cq != NULL)
        (void)ibv_destroy_cq(connection->cq);
    free(connection->done);
    free(connection->held);
    free(connection);
}

/* A device that takes no longer queue still connects, unless so many peers connect at the same moment. */
static void verbs_connection_enter(struct btl_connection *connection)
{
    static _Atomic unsigned warned;
    struct btl *btl = connection->btl;
    int rc = verbs_context_enter(&btl->process);

    connection->greets = rc == 0;
    if (rc != 0)
        log_few(&warned,
                "verbs: more than %u connections on %s, whose completion queue of greetings cannot "
                "be made longer: %s; connections fail if more than that are made at the same "
                "moment",
                btl->process.entries, btl->device, strerror(-rc));
}

int verbs_connection_open(struct btl *btl, int peer, enum btl_role role, uint32_t depth,
                          struct btl_connection **out, struct btl_address *address,
                          struct error *err)
{
    struct btl_connection *connection;
    uint32_t entries = 1;
    int rc = -ENOMEM;

    if (verbs_check_fork(btl, err) != 0)
        return -ENOTCONN;
    connection = aligned_alloc(_Alignof(struct btl_connection), sizeof(*connection));
    if (connection == NULL)
        goto no_memory;
    memset(connection, 0, sizeof(*connection));
    connection->btl = btl;
    connection->context = &btl->process;
    connection->pd = btl->process.pd;
    connection->index = STREAM_LINES;
    connection->peer = peer;
    connection->role = role;
    connection->depth = verbs_connection_choose_depth(btl, depth);
    while (entries < connection->depth)
        entries *= 2;
    connection->mask = entries - 1;
    connection->done = calloc(entries, sizeof(connection->done[0]));
    if (connection->done == NULL)
        goto no_memory;
    verbs_connection_enter(connection);
    /* every work request has an entry when all of them are flushed */
    connection->cq = ibv_create_cq(btl->process.ibv, (int)connection->depth, NULL, NULL, 0);
    if (connection->cq == NULL) {
        rc = -errno;
        error_note(err, "ibv_create_cq with %u entries on %s: %s", connection->depth, btl->device,
                   strerror(-rc));
        goto fail;
    }
    while (connection->token == 0)
        if (getrandom(&connection->token, sizeof(connection->token), 0) ==
            (ssize_t)sizeof(connection->token))
            connection->token &= ~UINT64_C(0xff); /* in the context of the process */
        else
            connection->token = 0;
    pthread_mutex_lock(&btl->lock);
    rc = hash_put(&btl->connections, connection->token, connection);
    pthread_mutex_unlock(&btl->lock);
    if (rc != 0)
        goto no_memory;
    verbs_connection_pack_address(connection, address);
    *out = connection;
    return 0;
no_memory:
    error_note(err, "there is no memory for another connection");
fail:
    if (connection != NULL)
        verbs_connection_free(connection);
    return rc;
}

/* Its token has the context that it is in. No address of it has been given away yet. */
static void verbs_connection_rename(struct btl_connection *connection, struct btl_address *address)
{
    struct btl *btl = connection->btl;
    int rc;

    pthread_mutex_lock(&btl->lock);
    (void)hash_remove(&btl->connections, connection->token);
    connection->token |= connection->context->index;
    rc = hash_put(&btl->connections, connection->token, connection);
    assert(rc == 0); /* what was removed has left space for it */
    (void)rc;
    pthread_mutex_unlock(&btl->lock);
    verbs_connection_pack_address(connection, address);
}

void verbs_connection_join(struct btl_connection *connection, struct btl_stream *stream,
                           struct btl_address *address)
{
    verbs_stream_join(connection, stream);
    if (connection->context->index != 0)
        verbs_connection_rename(connection, address);
}

static int64_t verbs_connection_connect_deadline(const struct btl *btl)
{
    const char *text = btl->host.setting("RPIPE_TIMEOUT_MS");
    long ms = *text != '\0' ? strtol(text, NULL, 10) : DEADLINE_LEAST_MS;

    if (ms < 0)
        return DEADLINE_NEVER;
    return deadline_in_ms((int)(ms < DEADLINE_LEAST_MS ? DEADLINE_LEAST_MS : ms));
}

int verbs_connection_connect(struct btl_connection *connection, const struct btl_address *address,
                             struct error *err)
{
    struct btl *btl = connection->btl;
    struct wire_address w = {0};
    int rc;

    if (verbs_check_fork(btl, err) != 0)
        return -ENOTCONN;
    pthread_mutex_lock(&btl->lock);
    rc = verbs_connection_unpack_address(connection, address, &w, err);
    if (rc != 0)
        goto out;
    if (connection->peer_token != 0 && connection->peer_token != w.token) {
        /* the queue pair is connected already, but not with this end */
        error_note(err, "the address of rank %d is not that of the connected queue pair",
                   connection->peer);
        rc = -EPROTO;
        goto out;
    }
    connection->peer_token = w.token;
    if (connection->role == BTL_CONNECTS && connection->stage == IDLE) {
        connection->deadline = verbs_connection_connect_deadline(btl);
        verbs_connect_begin(connection);
    }
out:
    pthread_mutex_unlock(&btl->lock);
    return rc;
}

/* Destroys the queue pair, while no other thread uses the completion queue of its stream. */
static struct btl_stream *verbs_connection_drop(struct btl_connection *connection)
{
    struct btl_stream *stream = connection->stream;

    if (stream == NULL) {
        verbs_state_drop(connection);
        return NULL;
    }
    biased_enter_other(&stream->lock, BIASED_NEVER);
    verbs_state_drop(connection);
    (void)verbs_stream_part(connection);
    biased_leave_other(&stream->lock);
    return stream;
}

void verbs_connection_close(struct btl_connection *connection)
{
    struct btl *btl = connection->btl;
    struct btl_stream *stream;

    if (btl->forked) { /* the device's objects are the parent's */
        free(connection->done);
        free(connection->held);
        free(connection);
        return;
    }
    pthread_mutex_lock(&btl->lock);
    (void)hash_remove(&btl->connections, connection->token);
    stream = verbs_connection_drop(connection);
    pthread_mutex_unlock(&btl->lock);
    verbs_connection_free(connection);
    if (stream != NULL)
        verbs_stream_put(stream);
}

/* ---- properties ---- */

void verbs_connection_describe(struct btl_connection *connection, char *text, size_t text_bytes)
{
    struct btl *btl = connection->btl;
    char here[80], there[80] = "an address not received yet";

    pthread_mutex_lock(&btl->lock);
    if (connection->there.any.sa_family != AF_UNSPEC)
        verbs_address_text(&connection->there, there, sizeof(there));
    snprintf(text, text_bytes, "%s port %u, %s, %s to %s, queue of %u, inline up to %u%s",
             btl->device, btl->port, btl->limits.iwarp ? "iWARP" : "RC",
             verbs_address_text(&btl->here, here, sizeof(here)), there, connection->depth,
             btl->limits.inline_most, verbs_stream_lack(connection));
    pthread_mutex_unlock(&btl->lock);
}

void verbs_connection_counts(struct btl_connection *connection, struct btl_counts *counts)
{
    *counts = connection->counts;
}

uint32_t verbs_connection_atomics(struct btl_connection *connection)
{
    return connection->btl->limits.atomics;
}
