/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * line.c: a line from its opening to its end: its completion queue, its address, its state.
 *
 * What connects it is in connect.c, what it transfers in post.c. Invariants: `state` goes DOWN, UP, FAILING, FAILED, and leaves out
 * what it likes, but never goes back; queue pair and limits are written before UP (release), the sentence before FAILED (release).
 * A line is in btl.lines, by its token, until it is closed. The queue pair is destroyed before line_close returns, so nothing
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

#define DEADLINE_LEAST_MS                                                                                              \
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
static_assert(sizeof(struct wire_address) == 48 && sizeof(struct wire_address) <= BTL_ADDRESS_MAX - 2, "on the wire");

static void pack_address(const struct btl_line *line, struct btl_address *address)
{
    const struct btl *btl = line->btl;
    struct wire_address w = {
        .magic = WIRE_MAGIC,
        .iwarp = btl->limits.iwarp,
        .family = btl->here.any.sa_family == AF_INET6 ? 6 : 4,
        .port = verbs_address_port(&btl->here),
        .token = line->token,
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

static int unpack_address(struct btl_line *line, const struct btl_address *address, struct wire_address *w, char *why,
                          size_t why_bytes)
{
    if (address->bytes == sizeof(*w))
        memcpy(w, address->byte, sizeof(*w));
    if (address->bytes != sizeof(*w) || w->magic != WIRE_MAGIC || (w->family != 4 && w->family != 6) || w->token == 0) {
        snprintf(why, why_bytes, "rank %d sends what is no address of a verbs line", line->peer);
        return -EPROTO;
    }
    w->device[sizeof(w->device) - 1] = '\0';
    if ((w->iwarp != 0) != line->btl->limits.iwarp) {
        snprintf(why, why_bytes, "%s here is %s, %s of rank %d is not: the two cannot be connected", line->btl->device,
                 line->btl->limits.iwarp ? "iWARP" : "InfiniBand or RoCE", w->device, line->peer);
        return -ENOTSUP;
    }
    memset(&line->there, 0, sizeof(line->there));
    if (w->family == 6) {
        line->there.in6.sin6_family = AF_INET6;
        line->there.in6.sin6_port = htons(w->port);
        memcpy(&line->there.in6.sin6_addr, w->ip, 16);
    } else {
        line->there.in.sin_family = AF_INET;
        line->there.in.sin_port = htons(w->port);
        memcpy(&line->there.in.sin_addr, w->ip, 4);
    }
    return 0;
}

/* ---- state ---- */

void verbs_line_up(struct btl_line *line)
{
    int down = LINE_DOWN;

    /* release: the queue pair, for whoever transfers; acquire in post.c */
    (void)atomic_compare_exchange_strong_explicit(&line->state, &down, LINE_UP, memory_order_release,
                                                  memory_order_relaxed);
}

void verbs_line_fail(struct btl_line *line, int error, const char *format, ...)
{
    int state = atomic_load_explicit(&line->state, memory_order_relaxed);
    va_list args;

    do {
        if (state >= LINE_FAILING)
            return;
    } while (!atomic_compare_exchange_weak_explicit(&line->state, &state, LINE_FAILING, memory_order_relaxed,
                                                    memory_order_relaxed));
    va_start(args, format);
    vsnprintf(line->failure, sizeof(line->failure), format, args);
    va_end(args);
    line->error = error;
    /* release: the sentence; acquire in verbs_line_state and post.c */
    atomic_store_explicit(&line->state, LINE_FAILED, memory_order_release);
    if (line->btl->host.line_failed != NULL)
        line->btl->host.line_failed();
}

int verbs_line_state(struct btl_line *line, char *why, size_t why_bytes)
{
    /* acquire: what was written before it went up, or failed */
    int state = atomic_load_explicit(&line->state, memory_order_acquire);
    char there[80];

    /* another thread writes the sentence, and waits for nothing meanwhile */
    while (state == LINE_FAILING) {
        (void)sched_yield();
        state = atomic_load_explicit(&line->state, memory_order_acquire);
    }
    if (state == LINE_UP)
        return 0;
    if (state == LINE_FAILED) {
        snprintf(why, why_bytes, "%s", line->failure);
        return line->error;
    }
    pthread_mutex_lock(&line->btl->lock);
    if (line->role == BTL_ACCEPTS)
        snprintf(why, why_bytes, "rank %d has not connected its queue pair yet%s%s", line->peer,
                 *line->obstacle != '\0' ? "; the last attempt: " : "", line->obstacle);
    else if (line->there.any.sa_family == AF_UNSPEC)
        snprintf(why, why_bytes, "the address of the queue pair of rank %d is not known yet", line->peer);
    else
        snprintf(why, why_bytes, "%s is being connected with %s, rank %d%s%s", line->btl->device,
                 verbs_address_text(&line->there, there, sizeof(there)), line->peer,
                 *line->obstacle != '\0' ? "; the last attempt: " : "", line->obstacle);
    pthread_mutex_unlock(&line->btl->lock);
    return -EAGAIN;
}

/* ---- opening and closing ---- */

/* A transfer takes two work requests mostly, and a quarter of the queue may wait for its signal. */
static uint32_t choose_depth(const struct btl *btl, uint32_t depth)
{
    uint32_t wanted = depth > DEPTH_MOST ? DEPTH_MOST : 2 * depth + SIGNAL_EVERY;

    if (wanted < SEND_DEPTH)
        wanted = SEND_DEPTH;
    return wanted < btl->limits.send_depth ? wanted : btl->limits.send_depth;
}

static void line_free(struct btl_line *line)
{
    if (line->cq != NULL)
        (void)ibv_destroy_cq(line->cq);
    free(line->done);
    free(line);
}

int verbs_line_open(struct btl *btl, int peer, enum btl_role role, uint32_t depth, struct btl_line **out,
                    struct btl_address *address, char *why, size_t why_bytes)
{
    struct btl_line *line;
    uint32_t entries = 1;
    int rc = -ENOMEM;

    if (btl->forked) {
        snprintf(why, why_bytes, "the RDMA device belongs to the process that this one was forked from");
        return -ENOTCONN;
    }
    line = calloc(1, sizeof(*line));
    if (line == NULL)
        goto no_memory;
    line->btl = btl;
    line->peer = peer;
    line->role = role;
    line->depth = choose_depth(btl, depth);
    while (entries < line->depth)
        entries *= 2;
    line->mask = entries - 1;
    line->done = calloc(entries, sizeof(line->done[0]));
    if (line->done == NULL)
        goto no_memory;
    /* every work request has an entry when all of them are flushed */
    line->cq = ibv_create_cq(btl->context, (int)line->depth, NULL, NULL, 0);
    if (line->cq == NULL) {
        rc = -errno;
        snprintf(why, why_bytes, "ibv_create_cq with %u entries on %s: %s", line->depth, btl->device, strerror(-rc));
        goto fail;
    }
    while (line->token == 0)
        if (getrandom(&line->token, sizeof(line->token), 0) != (ssize_t)sizeof(line->token))
            line->token = 0;
    pthread_mutex_lock(&btl->lock);
    rc = hash_put(&btl->lines, line->token, line);
    pthread_mutex_unlock(&btl->lock);
    if (rc != 0)
        goto no_memory;
    pack_address(line, address);
    *out = line;
    return 0;
no_memory:
    snprintf(why, why_bytes, "no memory for the books of a line");
fail:
    if (line != NULL)
        line_free(line);
    return rc;
}

static int64_t connect_deadline(const struct btl *btl)
{
    const char *text = btl->host.setting("RPIPE_TIMEOUT_MS");
    long ms = *text != '\0' ? strtol(text, NULL, 10) : DEADLINE_LEAST_MS;

    if (ms < 0)
        return DEADLINE_NEVER;
    return deadline_in_ms((int)(ms < DEADLINE_LEAST_MS ? DEADLINE_LEAST_MS : ms));
}

int verbs_line_connect(struct btl_line *line, const struct btl_address *address, char *why, size_t why_bytes)
{
    struct btl *btl = line->btl;
    struct wire_address w;
    int rc;

    if (btl->forked) {
        snprintf(why, why_bytes, "the RDMA device belongs to the process that this one was forked from");
        return -ENOTCONN;
    }
    pthread_mutex_lock(&btl->lock);
    rc = unpack_address(line, address, &w, why, why_bytes);
    if (rc != 0)
        goto out;
    if (line->peer_token != 0 && line->peer_token != w.token) {
        /* the other end has dialed already, and it was somebody else */
        snprintf(why, why_bytes, "rank %d names another line than the one that was connected", line->peer);
        rc = -EPROTO;
        goto out;
    }
    line->peer_token = w.token;
    if (line->role == BTL_DIALS && line->stage == IDLE) {
        line->deadline = connect_deadline(btl);
        verbs_connect_dial(line);
    }
out:
    pthread_mutex_unlock(&btl->lock);
    return rc;
}

void verbs_line_close(struct btl_line *line)
{
    struct btl *btl = line->btl;

    if (btl->forked) { /* the device's objects are the parent's */
        free(line->done);
        free(line);
        return;
    }
    pthread_mutex_lock(&btl->lock);
    (void)hash_remove(&btl->lines, line->token);
    verbs_connect_drop(line);
    pthread_mutex_unlock(&btl->lock);
    line_free(line);
}

/* ---- about it ---- */

void verbs_line_describe(struct btl_line *line, char *text, size_t text_bytes)
{
    struct btl *btl = line->btl;
    char here[80], there[80] = "nobody yet";

    pthread_mutex_lock(&btl->lock);
    if (line->there.any.sa_family != AF_UNSPEC)
        verbs_address_text(&line->there, there, sizeof(there));
    snprintf(text, text_bytes, "%s port %u, %s, %s to %s, queue of %u, inline up to %u", btl->device, btl->port,
             btl->limits.iwarp ? "iWARP" : "RC", verbs_address_text(&btl->here, here, sizeof(here)), there, line->depth,
             btl->limits.inline_most);
    pthread_mutex_unlock(&btl->lock);
}

void verbs_line_counts(struct btl_line *line, struct btl_counts *counts) { *counts = line->counts; }

uint32_t verbs_line_atomics(struct btl_line *line) { return line->btl->limits.atomics; }
