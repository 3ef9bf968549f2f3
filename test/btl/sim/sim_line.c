/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim_line.c: lines of the simulated network: how they come up, fall, and are flushed.
 *
 * A line finds its other end by the number in its address. Whether it is up when the other end has not connected yet, and
 * whether it falls when the other end is closed, is drawn: networks differ in both.
 */
#include "sim.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ADDRESS_MAGIC 0x73696d31u /* "sim1" */
#define NO_LINE UINT64_MAX        /* of another process */

struct address {
    uint32_t magic, pid;
    uint64_t id, nonce;
};

static void say(struct btl_connection *connection, struct error *err)
{
    if (err != NULL)
        error_note(err, "%s", connection->why);
}

static void settle_later(struct btl_connection *connection)
{
    struct btl *btl = connection->btl;

    connection->delay = btl->calm ? 0 : (unsigned)sim_draw(btl, 6) * (unsigned)sim_draw(btl, 6);
    if (list_empty(&connection->settling))
        list_append(&btl->settling, &connection->settling);
    sim_arm(btl);
}

int sim_line_open(struct btl *btl, int peer, enum btl_role role, uint32_t depth,
                  struct btl_connection **out, struct btl_address *address, struct error *err)
{
    struct btl_connection *connection = calloc(1, sizeof(*connection));
    struct address a = {.magic = ADDRESS_MAGIC, .pid = (uint32_t)getpid()};
    size_t pad;

    if (!sim_is_peer(btl, peer))
        sim_die("connection_open to rank %d", peer);
    if (connection == NULL)
        return error_set(err, -ENOMEM, "no memory for a line");
    pthread_mutex_lock(&btl->lock);
    connection->btl = btl;
    connection->role = role;
    connection->id = a.id = ++btl->last_id;
    connection->nonce = a.nonce = sim_draw(btl, UINT64_MAX);
    connection->depth =
        (depth != 0 ? depth : SIM_DEPTH) + (btl->calm ? 0 : (uint32_t)sim_draw(btl, 8));
    connection->needs_both = sim_draw(btl, 2) == 0;
    connection->falls = !btl->calm && sim_draw(btl, 2) == 0;
    list_init(&connection->settling);
    list_init(&connection->ops);
    if (hash_put(&btl->lines, connection->id, connection) != 0) {
        pthread_mutex_unlock(&btl->lock);
        free(connection);
        return error_set(err, -ENOMEM, "no memory for the metadata of a connection");
    }
    pad = sim_draw(btl, sizeof(address->byte) - sizeof(a) +
                            1); /* no caller may depend on the length of an address */
    memset(address, (int)sim_draw(btl, 256), sizeof(*address));
    memcpy(address->byte, &a, sizeof(a));
    address->bytes = (uint16_t)(sizeof(a) + pad);
    pthread_mutex_unlock(&btl->lock);
    *out = connection;
    return 0;
}

void sim_line_fail(struct btl_connection *connection, int error, const char *format, ...)
{
    va_list args;

    if (connection->error != 0)
        return;
    va_start(args, format);
    vsnprintf(connection->why, sizeof(connection->why), format, args);
    va_end(args);
    connection->error = error;
    connection->up = false;
    while (!list_empty(&connection->ops))
        sim_op_end(connection->btl, container_of(connection->ops.next, struct sim_op, link), error);
    if (connection->btl->host.connection_failed != NULL)
        connection->btl->host.connection_failed();
}

int sim_line_connect(struct btl_connection *connection, const struct btl_address *address,
                     struct error *err)
{
    struct btl *btl = connection->btl;
    struct btl_connection *peer;
    struct address a;
    int rc = 0;

    pthread_mutex_lock(&btl->lock);
    if (connection->peer != 0)
        sim_die("connection_connect of a line that is connected already");
    memcpy(&a, address->byte, sizeof(a));
    if (btl->down) {
        connection->peer = NO_LINE;
        goto out;
    }
    if (address->bytes < sizeof(a) || address->bytes > sizeof(address->byte) ||
        a.magic != ADDRESS_MAGIC || a.pid != (uint32_t)getpid()) {
        error_note(err, "not the address of a line of this network");
        rc = -EPROTO;
        goto out;
    }
    peer = hash_get(&btl->lines, a.id);
    if (peer == connection ||
        (peer != NULL && (peer->nonce != a.nonce || peer->role == connection->role)))
        sim_die("connection_connect of two lines that are no two ends: %llu and %llu",
                (unsigned long long)connection->id, (unsigned long long)a.id);
    if (peer == NULL && btl->defect != DEFECT_CONNECTS_ALONE &&
        sim_draw(btl, 2) == 0) { /* at once, or later */
        error_note(err, "line %llu, which this one should connect to, is closed",
                   (unsigned long long)a.id);
        rc = -ECONNREFUSED;
        sim_line_fail(connection, rc, "%s", err->text);
        goto out;
    }
    connection->peer = a.id;
    settle_later(connection);
    if (peer != NULL && peer->peer == connection->id && !peer->up && peer->error == 0)
        settle_later(peer); /* it may have waited for this */
out:
    pthread_mutex_unlock(&btl->lock);
    return rc;
}

/* One turn of a connection that is coming up, or failing. True: it is in a final state. */
static bool settle(struct btl_connection *connection)
{
    struct btl *btl = connection->btl;
    struct btl_connection *peer = hash_get(&btl->lines, connection->peer);

    if (connection->delay > 0) {
        connection->delay--;
        return false;
    }
    if (connection->error != 0)
        return true;
    if (connection->peer_closed) {
        sim_line_fail(connection, -ECONNRESET, "line %llu: the other end is closed",
                      (unsigned long long)connection->id);
        return true;
    }
    if (peer == NULL && btl->defect != DEFECT_CONNECTS_ALONE) {
        sim_line_fail(connection, -ECONNREFUSED, "line %llu: the other end, line %llu, is closed",
                      (unsigned long long)connection->id, (unsigned long long)connection->peer);
        return true;
    }
    connection->up = !connection->needs_both || peer == NULL || peer->peer == connection->id;
    return true;
}

void sim_lines_settle(struct btl *btl)
{
    struct link *at, *after;

    list_for_each (at, after, &btl->settling) {
        struct btl_connection *connection = container_of(at, struct btl_connection, settling);

        if (settle(connection))
            list_remove(&connection->settling);
    }
}

int sim_line_state(struct btl_connection *connection, struct error *err)
{
    int rc;

    pthread_mutex_lock(&connection->btl->lock);
    rc = connection->error != 0 ? connection->error : connection->up ? 0 : -EAGAIN;
    if (rc == -EAGAIN)
        error_note(err, "line %llu is not up yet", (unsigned long long)connection->id);
    else if (rc != 0)
        say(connection, err);
    pthread_mutex_unlock(&connection->btl->lock);
    return rc;
}

void sim_line_close(struct btl_connection *connection)
{
    struct btl *btl = connection->btl;
    struct btl_connection *peer;

    pthread_mutex_lock(&btl->lock);
    if (hash_remove(&btl->lines, connection->id) != connection)
        sim_die("connection_close of a line that is not, or is no longer, open");
    while (!list_empty(&connection->ops))
        sim_op_give_up(btl, container_of(connection->ops.next, struct sim_op, link));
    sim_stragglers_end(btl, connection->id, NULL);
    list_remove(&connection->settling);
    peer = hash_get(&btl->lines, connection->peer);
    if (peer != NULL && peer->peer == connection->id && peer->falls) {
        peer->peer_closed = true;
        settle_later(peer);
    }
    pthread_mutex_unlock(&btl->lock);
    free(connection);
}

void sim_line_describe(struct btl_connection *connection, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "simulated line %llu to %llu", (unsigned long long)connection->id,
             (unsigned long long)connection->peer);
}

void sim_line_counts(struct btl_connection *connection, struct btl_counts *counts)
{
    pthread_mutex_lock(&connection->btl->lock);
    *counts = connection->counts;
    pthread_mutex_unlock(&connection->btl->lock);
}

uint32_t sim_line_atomics(struct btl_connection *connection) { return connection->btl->atomics; }

/* Writes and atomics up to the mark that have not been placed. */
static bool unplaced(const struct btl_connection *connection)
{
    struct link *at, *after;

    list_for_each (at, after, &connection->ops) {
        const struct sim_op *op = container_of(at, struct sim_op, link);

        if (op->number <= connection->flush_mark && op->kind != SIM_GET)
            return true;
    }
    return false;
}

int sim_flush(struct btl_connection *connection)
{
    struct btl *btl = connection->btl;
    int rc = -EAGAIN;

    pthread_mutex_lock(&btl->lock);
    if (connection->error != 0 || !connection->up) {
        rc = connection->error != 0 ? connection->error : -EAGAIN;
        goto out;
    }
    if (!connection->flushing) {
        connection->counts.flushes++;
        connection->flushing = true;
        connection->flush_mark = connection->accepted;
        connection->flush_delay = btl->calm ? 0 : (unsigned)sim_draw(btl, 5);
    }
    if (connection->flush_delay > 0)
        connection->flush_delay--;
    else if (!unplaced(connection) || btl->defect == DEFECT_FLUSH_EARLY)
        rc = 0;
    if (rc == 0)
        connection->flushing = false;
    else if (!btl->lazy && sim_draw(btl, 2) == 0)
        sim_turn(btl, 4);
    if (connection->error != 0)
        rc = connection->error;
out:
    pthread_mutex_unlock(&btl->lock);
    return rc;
}
