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

struct address {
    uint32_t magic, pid;
    uint64_t id, nonce;
};

static void say(struct btl_line *line, char *why, size_t why_bytes)
{
    if (why != NULL && why_bytes > 0)
        snprintf(why, why_bytes, "%s", line->why);
}

static void settle_later(struct btl_line *line)
{
    struct btl *btl = line->btl;

    line->delay = btl->calm ? 0 : (unsigned)sim_draw(btl, 6) * (unsigned)sim_draw(btl, 6);
    if (list_empty(&line->settling))
        list_append(&btl->settling, &line->settling);
    sim_arm(btl);
}

int sim_line_open(struct btl *btl, int peer, enum btl_role role, uint32_t depth, struct btl_line **out,
                  struct btl_address *address, char *why, size_t why_bytes)
{
    struct btl_line *line = calloc(1, sizeof(*line));
    struct address a = {.magic = ADDRESS_MAGIC, .pid = (uint32_t)getpid()};
    size_t pad;

    if (peer != btl->host.rank)
        sim_die("line_open to rank %d", peer);
    if (line == NULL) {
        snprintf(why, why_bytes, "no memory for a line");
        return -ENOMEM;
    }
    pthread_mutex_lock(&btl->lock);
    line->btl = btl;
    line->role = role;
    line->id = a.id = ++btl->last_id;
    line->nonce = a.nonce = sim_draw(btl, UINT64_MAX);
    line->depth = (depth != 0 ? depth : SIM_DEPTH) + (btl->calm ? 0 : (uint32_t)sim_draw(btl, 8));
    line->needs_both = sim_draw(btl, 2) == 0;
    line->falls = !btl->calm && sim_draw(btl, 2) == 0;
    list_init(&line->settling);
    list_init(&line->ops);
    if (hash_put(&btl->lines, line->id, line) != 0) {
        pthread_mutex_unlock(&btl->lock);
        free(line);
        snprintf(why, why_bytes, "no memory for the books of a line");
        return -ENOMEM;
    }
    pad = sim_draw(btl, sizeof(address->byte) - sizeof(a) + 1); /* nobody may know how long an address is */
    memset(address, (int)sim_draw(btl, 256), sizeof(*address));
    memcpy(address->byte, &a, sizeof(a));
    address->bytes = (uint16_t)(sizeof(a) + pad);
    pthread_mutex_unlock(&btl->lock);
    *out = line;
    return 0;
}

void sim_line_fail(struct btl_line *line, int error, const char *format, ...)
{
    va_list args;

    if (line->error != 0)
        return;
    va_start(args, format);
    vsnprintf(line->why, sizeof(line->why), format, args);
    va_end(args);
    line->error = error;
    line->up = false;
    while (!list_empty(&line->ops))
        sim_op_end(line->btl, container_of(line->ops.next, struct sim_op, link), error);
    if (line->btl->host.line_failed != NULL)
        line->btl->host.line_failed();
}

int sim_line_connect(struct btl_line *line, const struct btl_address *address, char *why, size_t why_bytes)
{
    struct btl *btl = line->btl;
    struct btl_line *peer;
    struct address a;
    int rc = 0;

    pthread_mutex_lock(&btl->lock);
    if (line->peer != 0)
        sim_die("line_connect of a line that is connected already");
    memcpy(&a, address->byte, sizeof(a));
    if (address->bytes < sizeof(a) || address->bytes > sizeof(address->byte) || a.magic != ADDRESS_MAGIC ||
        a.pid != (uint32_t)getpid()) {
        snprintf(why, why_bytes, "not the address of a line of this network");
        rc = -EPROTO;
        goto out;
    }
    peer = hash_get(&btl->lines, a.id);
    if (peer == line || (peer != NULL && (peer->nonce != a.nonce || peer->role == line->role)))
        sim_die("line_connect of two lines that are no two ends: %llu and %llu", (unsigned long long)line->id,
                (unsigned long long)a.id);
    if (peer == NULL && btl->defect != DEFECT_CONNECTS_NOBODY && sim_draw(btl, 2) == 0) { /* at once, or later */
        snprintf(why, why_bytes, "line %llu, which this one should connect to, is closed", (unsigned long long)a.id);
        rc = -ECONNREFUSED;
        sim_line_fail(line, rc, "%s", why);
        goto out;
    }
    line->peer = a.id;
    settle_later(line);
    if (peer != NULL && peer->peer == line->id && !peer->up && peer->error == 0)
        settle_later(peer); /* it may have waited for this */
out:
    pthread_mutex_unlock(&btl->lock);
    return rc;
}

/* One turn of a line that is coming up, or falling. True: it is settled. */
static bool settle(struct btl_line *line)
{
    struct btl *btl = line->btl;
    struct btl_line *peer = hash_get(&btl->lines, line->peer);

    if (line->delay > 0) {
        line->delay--;
        return false;
    }
    if (line->error != 0)
        return true;
    if (line->peer_closed) {
        sim_line_fail(line, -ECONNRESET, "line %llu: the other end is closed", (unsigned long long)line->id);
        return true;
    }
    if (peer == NULL && btl->defect != DEFECT_CONNECTS_NOBODY) {
        sim_line_fail(line, -ECONNREFUSED, "line %llu: the other end, line %llu, is closed",
                      (unsigned long long)line->id, (unsigned long long)line->peer);
        return true;
    }
    line->up = !line->needs_both || peer == NULL || peer->peer == line->id;
    return true;
}

void sim_lines_settle(struct btl *btl)
{
    struct link *at, *after;

    list_for_each (at, after, &btl->settling) {
        struct btl_line *line = container_of(at, struct btl_line, settling);

        if (settle(line))
            list_remove(&line->settling);
    }
}

int sim_line_state(struct btl_line *line, char *why, size_t why_bytes)
{
    int rc;

    pthread_mutex_lock(&line->btl->lock);
    rc = line->error != 0 ? line->error : line->up ? 0 : -EAGAIN;
    if (rc == -EAGAIN && why_bytes > 0)
        snprintf(why, why_bytes, "line %llu is not up yet", (unsigned long long)line->id);
    else if (rc != 0)
        say(line, why, why_bytes);
    pthread_mutex_unlock(&line->btl->lock);
    return rc;
}

void sim_line_close(struct btl_line *line)
{
    struct btl *btl = line->btl;
    struct btl_line *peer;

    pthread_mutex_lock(&btl->lock);
    if (hash_remove(&btl->lines, line->id) != line)
        sim_die("line_close of a line that is not, or is no longer, open");
    while (!list_empty(&line->ops))
        sim_op_give_up(btl, container_of(line->ops.next, struct sim_op, link));
    sim_stragglers_end(btl, line->id, NULL);
    list_remove(&line->settling);
    peer = hash_get(&btl->lines, line->peer);
    if (peer != NULL && peer->peer == line->id && peer->falls) {
        peer->peer_closed = true;
        settle_later(peer);
    }
    pthread_mutex_unlock(&btl->lock);
    free(line);
}

void sim_line_describe(struct btl_line *line, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "simulated line %llu to %llu", (unsigned long long)line->id,
             (unsigned long long)line->peer);
}

void sim_line_counts(struct btl_line *line, struct btl_counts *counts)
{
    pthread_mutex_lock(&line->btl->lock);
    *counts = line->counts;
    pthread_mutex_unlock(&line->btl->lock);
}

uint32_t sim_line_atomics(struct btl_line *line) { return line->btl->atomics; }

/* Writes and atomics up to the mark that have not been placed. */
static bool unplaced(const struct btl_line *line)
{
    struct link *at, *after;

    list_for_each (at, after, &line->ops) {
        const struct sim_op *op = container_of(at, struct sim_op, link);

        if (op->number <= line->flush_mark && op->kind != SIM_GET)
            return true;
    }
    return false;
}

int sim_flush(struct btl_line *line)
{
    struct btl *btl = line->btl;
    int rc = -EAGAIN;

    pthread_mutex_lock(&btl->lock);
    if (line->error != 0 || !line->up) {
        rc = line->error != 0 ? line->error : -EAGAIN;
        goto out;
    }
    if (!line->flushing) {
        line->counts.flushes++;
        line->flushing = true;
        line->flush_mark = line->accepted;
        line->flush_delay = btl->calm ? 0 : (unsigned)sim_draw(btl, 5);
    }
    if (line->flush_delay > 0)
        line->flush_delay--;
    else if (!unplaced(line) || btl->defect == DEFECT_FLUSH_EARLY)
        rc = 0;
    if (rc == 0)
        line->flushing = false;
    else if (!btl->lazy && sim_draw(btl, 2) == 0)
        sim_turn(btl, 4);
    if (line->error != 0)
        rc = line->error;
out:
    pthread_mutex_unlock(&btl->lock);
    return rc;
}
