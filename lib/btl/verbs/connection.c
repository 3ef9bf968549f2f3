/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection.c: a line from its opening to its end: its completion queue, its address, its state.
 *
 * What connects it is in connect.c, what it transfers in post.c. Invariants: `state` goes DOWN, UP, FAILING, FAILED, and leaves out
 * what it likes, but never goes back; queue pair and limits are written before UP (release), the sentence before FAILED (release).
 * A line is in btl.lines, by its token, until it is closed. The queue pair is destroyed before connection_close returns, so nothing
 * reaches for memory after it.
 */
#include "btl/verbs/verbs.h"

#include "util/clock.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define DEADLINE_LEAST_MS                                                                          \
    30000 /* of connecting, however short RPIPE_TIMEOUT_MS is: that of the calls is looked at above */

/* In struct btl_address. */
struct wire_address {
    uint32_t magic;
    uint8_t iwarp;
    uint8_t family; /* 4 or 6 */
    uint16_t port;
    uint64_t token;
    uint8_t ip[16];
    char device[16]; /* for sentences */
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
        return error_set(err, -EPROTO, "rank %d sends what is no address of a verbs line",
                         connection->peer);
    w->device[sizeof(w->device) - 1] = '\0';
    if ((w->iwarp != 0) != connection->btl->limits.iwarp)
        return error_set(
            err, -ENOTSUP, "%s here is %s, %s of rank %d is not: the two cannot be connected",
            connection->btl->device, connection->btl->limits.iwarp ? "iWARP" : "InfiniBand or RoCE",
            w->device, connection->peer);
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

/* ---- state ---- */

void verbs_connection_up(struct btl_connection *connection)
{
    int down = LINE_DOWN;

    /* release: the queue pair, for whoever transfers; acquire in post.c */
    (void)atomic_compare_exchange_strong_explicit(&connection->state, &down, LINE_UP,
                                                  memory_order_release, memory_order_relaxed);
}

void verbs_connection_fail(struct btl_connection *connection, int error, const char *format, ...)
{
    int state = atomic_load_explicit(&connection->state, memory_order_relaxed);
    va_list args;

    do {
        if (state >= LINE_FAILING)
            return;
    } while (!atomic_compare_exchange_weak_explicit(&connection->state, &state, LINE_FAILING,
                                                    memory_order_relaxed, memory_order_relaxed));
    va_start(args, format);
    vsnprintf(connection->failure, sizeof(connection->failure), format, args);
    va_end(args);
    connection->error = error;
    /* release: the sentence; acquire in verbs_connection_state and post.c */
    atomic_store_explicit(&connection->state, LINE_FAILED, memory_order_release);
    if (connection->btl->host.connection_failed != NULL)
        connection->btl->host.connection_failed();
}

int verbs_connection_state(struct btl_connection *connection, struct error *err)
{
    /* acquire: what was written before it went up, or failed */
    int state = atomic_load_explicit(&connection->state, memory_order_acquire);
    char there[80];

    /* another thread writes the sentence, and waits for nothing meanwhile */
    while (state == LINE_FAILING) {
        (void)sched_yield();
        state = atomic_load_explicit(&connection->state, memory_order_acquire);
    }
    if (state == LINE_UP)
        return 0;
    if (state == LINE_FAILED) {
        error_note(err, "%s", connection->failure);
        return connection->error;
    }
    pthread_mutex_lock(&connection->btl->lock);
    if (connection->role == BTL_ACCEPTS)
        error_note(err, "rank %d has not connected its queue pair yet%s%s", connection->peer,
                   *connection->obstacle != '\0' ? "; the last attempt: " : "",
                   connection->obstacle);
    else if (connection->there.any.sa_family == AF_UNSPEC)
        error_note(err, "the address of the queue pair of rank %d is not known yet",
                   connection->peer);
    else
        error_note(err, "%s is being connected with %s, rank %d%s%s", connection->btl->device,
                   verbs_address_text(&connection->there, there, sizeof(there)), connection->peer,
                   *connection->obstacle != '\0' ? "; the last attempt: " : "",
                   connection->obstacle);
    pthread_mutex_unlock(&connection->btl->lock);
    return -EAGAIN;
}

/* ---- opening and closing ---- */

/* A transfer takes two work requests mostly, and a quarter of the queue may wait for its signal. */
static uint32_t verbs_connection_choose_depth(const struct btl *btl, uint32_t depth)
{
    uint32_t wanted = depth > DEPTH_MOST ? DEPTH_MOST : 2 * depth + SIGNAL_EVERY;

    if (wanted < SEND_DEPTH)
        wanted = SEND_DEPTH;
    return wanted < btl->limits.send_depth ? wanted : btl->limits.send_depth;
}

static void verbs_connection_free(struct btl_connection *connection)
{
    if (connection->cq != NULL)
        (void)ibv_destroy_cq(connection->cq);
    free(connection->done);
    free(connection);
}

int verbs_connection_open(struct btl *btl, int peer, enum btl_role role, uint32_t depth,
                          struct btl_connection **out, struct btl_address *address,
                          struct error *err)
{
    struct btl_connection *connection;
    uint32_t entries = 1;
    int rc = -ENOMEM;

    if (btl->forked)
        return error_set(err, -ENOTCONN,
                         "the RDMA device belongs to the process that this one was forked from");
    connection = calloc(1, sizeof(*connection));
    if (connection == NULL)
        goto no_memory;
    connection->btl = btl;
    connection->peer = peer;
    connection->role = role;
    connection->depth = verbs_connection_choose_depth(btl, depth);
    while (entries < connection->depth)
        entries *= 2;
    connection->mask = entries - 1;
    connection->done = calloc(entries, sizeof(connection->done[0]));
    if (connection->done == NULL)
        goto no_memory;
    /* every work request has an entry when all of them are flushed */
    connection->cq = ibv_create_cq(btl->context, (int)connection->depth, NULL, NULL, 0);
    if (connection->cq == NULL) {
        rc = -errno;
        error_note(err, "ibv_create_cq with %u entries on %s: %s", connection->depth, btl->device,
                   strerror(-rc));
        goto fail;
    }
    while (connection->token == 0)
        if (getrandom(&connection->token, sizeof(connection->token), 0) !=
            (ssize_t)sizeof(connection->token))
            connection->token = 0;
    pthread_mutex_lock(&btl->lock);
    rc = hash_put(&btl->lines, connection->token, connection);
    pthread_mutex_unlock(&btl->lock);
    if (rc != 0)
        goto no_memory;
    verbs_connection_pack_address(connection, address);
    *out = connection;
    return 0;
no_memory:
    error_note(err, "no memory for the books of a line");
fail:
    if (connection != NULL)
        verbs_connection_free(connection);
    return rc;
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
    struct wire_address w;
    int rc;

    if (btl->forked)
        return error_set(err, -ENOTCONN,
                         "the RDMA device belongs to the process that this one was forked from");
    pthread_mutex_lock(&btl->lock);
    rc = verbs_connection_unpack_address(connection, address, &w, err);
    if (rc != 0)
        goto out;
    if (connection->peer_token != 0 && connection->peer_token != w.token) {
        /* the other end has dialed already, and it was somebody else */
        error_note(err, "rank %d names another line than the one that was connected",
                   connection->peer);
        rc = -EPROTO;
        goto out;
    }
    connection->peer_token = w.token;
    if (connection->role == BTL_CONNECTS && connection->stage == IDLE) {
        connection->deadline = verbs_connection_connect_deadline(btl);
        verbs_connect_dial(connection);
    }
out:
    pthread_mutex_unlock(&btl->lock);
    return rc;
}

void verbs_connection_close(struct btl_connection *connection)
{
    struct btl *btl = connection->btl;

    if (btl->forked) { /* the device's objects are the parent's */
        free(connection->done);
        free(connection);
        return;
    }
    pthread_mutex_lock(&btl->lock);
    (void)hash_remove(&btl->lines, connection->token);
    verbs_connect_drop(connection);
    pthread_mutex_unlock(&btl->lock);
    verbs_connection_free(connection);
}

/* ---- about it ---- */

void verbs_connection_describe(struct btl_connection *connection, char *text, size_t text_bytes)
{
    struct btl *btl = connection->btl;
    char here[80], there[80] = "nobody yet";

    pthread_mutex_lock(&btl->lock);
    if (connection->there.any.sa_family != AF_UNSPEC)
        verbs_address_text(&connection->there, there, sizeof(there));
    snprintf(text, text_bytes, "%s port %u, %s, %s to %s, queue of %u, inline up to %u",
             btl->device, btl->port, btl->limits.iwarp ? "iWARP" : "RC",
             verbs_address_text(&btl->here, here, sizeof(here)), there, connection->depth,
             btl->limits.inline_most);
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
