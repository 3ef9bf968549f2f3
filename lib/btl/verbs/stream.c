/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.c: see stream.h.
 *
 * What a category means here (doc/threads.md has the table):
 *   EVERYWHERE      a context of its own, in it a thread domain if the device has one (context.h)
 *   2XDYNAMIC       two thread domains, each with a queue pair; the second one is not used
 *   DYNAMIC         a thread domain
 *   SHARED_DYNAMIC  a thread domain for two streams: not through libibverbs, in whose domains a device may leave out its locks
 *   STATIC          the domain of the process
 *   THREADS         one queue pair for all: not here, where a queue pair belongs to one pipe
 * What the device does not have becomes the next one of the list; THREADS becomes STATIC.
 */
#include "btl/verbs/stream.h"

#include "btl/share.h"
#include "btl/verbs/context.h"
#include "btl/verbs/state.h"

#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_ENTRIES 1024u /* of a completion queue at first */
#define GENERATIONS ((UINT64_C(1) << (64 - WR_NUMBER_BITS)) / STREAM_LINES)

/* ---- domains ---- */

static void stream_free_domains(struct btl_stream *s)
{
    int i;

    if (s->unused != NULL)
        (void)ibv_destroy_qp(s->unused);
    s->unused = NULL;
    for (i = 0; i < 2; i++) {
        if (s->domain[i] != NULL)
            (void)ibv_dealloc_pd(s->domain[i]);
        if (s->td[i] != NULL)
            (void)ibv_dealloc_td(s->td[i]);
        s->domain[i] = NULL;
        s->td[i] = NULL;
    }
}

/* 0 or -errno. */
static int stream_add_domain(struct btl_stream *s, int i)
{
    struct ibv_td_init_attr attr = {.comp_mask = 0};
    struct ibv_parent_domain_init_attr parent = {.pd = s->context->pd};

    errno = 0;
    s->td[i] = ibv_alloc_td(s->context->ibv, &attr);
    if (s->td[i] == NULL)
        return errno != 0 ? -errno : -EOPNOTSUPP;
    parent.td = s->td[i];
    s->domain[i] = ibv_alloc_parent_domain(s->context->ibv, &parent);
    if (s->domain[i] != NULL)
        return 0;
    return errno != 0 ? -errno : -EOPNOTSUPP;
}

/* The second domain of 2XDYNAMIC with a queue pair: only so does a device give it registers. */
static int stream_add_unused(struct btl_stream *s)
{
    struct ibv_qp_init_attr init = {
        .send_cq = s->context->greetings,
        .recv_cq = s->context->greetings,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    int rc = stream_add_domain(s, 1);

    if (rc != 0)
        return rc;
    s->unused = ibv_create_qp(s->domain[1], &init);
    return s->unused != NULL ? 0 : errno != 0 ? -errno : -ENOMEM;
}

/* Tries `share`. 0, or -errno and the reason. */
static int stream_try(struct btl_stream *s, enum btl_share share, struct error *err)
{
    int rc;

    switch (share) {
    case BTL_SHARE_EVERYWHERE:
        rc = verbs_context_open(s->btl, &s->context, err);
        if (rc == 0 && stream_add_domain(s, 0) != 0)
            stream_free_domains(s); /* its queues have locks, which no other thread takes */
        return rc;
    case BTL_SHARE_SHARED_DYNAMIC:
        return error_set(err, -ENOTSUP,
                         "libibverbs has no thread domains that two threads may share");
    case BTL_SHARE_THREADS:
        return error_set(err, -ENOTSUP, "a queue pair belongs to one pipe");
    case BTL_SHARE_STATIC:
        return 0;
    default:
        break;
    }
    rc = stream_add_domain(s, 0);
    if (rc == 0 && share == BTL_SHARE_2XDYNAMIC)
        rc = stream_add_unused(s);
    if (rc == 0)
        return 0;
    stream_free_domains(s);
    return error_set(err, rc, "%s has %s thread domain: %s", s->btl->device,
                     share == BTL_SHARE_2XDYNAMIC ? "no second" : "no", strerror(-rc));
}

/* The category behind `share`. */
static enum btl_share stream_next(enum btl_share share)
{
    static const enum btl_share next[] = {[BTL_SHARE_EVERYWHERE] = BTL_SHARE_2XDYNAMIC,
                                          [BTL_SHARE_2XDYNAMIC] = BTL_SHARE_DYNAMIC,
                                          [BTL_SHARE_DYNAMIC] = BTL_SHARE_SHARED_DYNAMIC,
                                          [BTL_SHARE_SHARED_DYNAMIC] = BTL_SHARE_STATIC,
                                          [BTL_SHARE_THREADS] = BTL_SHARE_STATIC,
                                          [BTL_SHARE_STATIC] = BTL_SHARE_STATIC};

    return next[share];
}

/* ---- completion queue ---- */

static struct ibv_cq *stream_create_queue(struct btl_stream *s, uint32_t entries)
{
    struct ibv_cq_init_attr_ex attr = {
        .cqe = entries,
        .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
        .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
    };
    struct ibv_cq_ex *single;

    if (s->domain[0] != NULL) {
        attr.comp_mask |= IBV_CQ_INIT_ATTR_MASK_PD;
        attr.parent_domain = s->domain[0];
    }
    single = ibv_create_cq_ex(s->context->ibv, &attr);
    if (single != NULL)
        return ibv_cq_ex_to_cq(single);
    return ibv_create_cq(s->context->ibv, (int)entries, NULL, NULL, 0); /* with its own locks */
}

/* Entries for so many further work requests. Inside. 0 or -errno. */
static int stream_reserve(struct btl_stream *s, uint32_t requests)
{
    uint32_t entries = s->entries;
    int rc;

    while (entries < s->reserved + requests && entries < s->btl->limits.cq_most)
        entries = entries * 2 < s->btl->limits.cq_most ? entries * 2 : s->btl->limits.cq_most;
    if (entries < s->reserved + requests)
        return -ENOMEM;
    if (entries > s->entries && (rc = ibv_resize_cq(s->cq, (int)entries)) != 0)
        return rc > 0 ? -rc : rc;
    s->entries = entries;
    s->reserved += requests;
    return 0;
}

/* ---- opening and closing ---- */

int verbs_stream_open(struct btl *btl, enum btl_share wanted, struct btl_stream **out,
                      enum btl_share *got, struct error *why)
{
    struct error reason = {""}, other = {""};
    struct btl_stream *s;

    if (verbs_check_fork(btl, why) != 0)
        return -ENOTCONN;
    if (posix_memalign((void **)&s, _Alignof(struct btl_stream), sizeof(*s)) != 0)
        return error_set(why, -ENOMEM, "there is no memory for another stream");
    memset(s, 0, sizeof(*s));
    biased_init(&s->lock);
    s->btl = btl;
    s->context = &btl->process;
    s->connections = 1;
    s->got = wanted;
    while (stream_try(s, s->got, s->got == wanted ? &reason : &other) != 0)
        s->got = stream_next(s->got);
    s->entries = STREAM_ENTRIES < btl->limits.cq_most ? STREAM_ENTRIES : btl->limits.cq_most;
    s->cq = stream_create_queue(s, s->entries);
    error_note(why, "%s%s%s%s%s%s", btl_share_name(s->got), s->got != wanted ? " for " : "",
               s->got != wanted ? btl_share_name(wanted) : "", s->got != wanted ? ", since " : "",
               s->got != wanted ? reason.text : "",
               s->cq == NULL ? "; a completion queue for each pipe, since there is none for all"
                             : "; one completion queue for all pipes");
    if (s->got != wanted)
        log_info("verbs: a stream is %s", why->text);
    *got = s->got;
    *out = s;
    return 0;
}

void verbs_stream_put(struct btl_stream *s)
{
    struct btl *btl = s->btl;
    bool last;

    biased_enter_other(&s->lock, BIASED_NEVER);
    last = --s->connections == 0;
    biased_leave_other(&s->lock);
    if (!last)
        return;
    if (!btl->forked) {
        if (s->cq != NULL)
            (void)ibv_destroy_cq(s->cq);
        stream_free_domains(s);
    }
    if (s->context->index != 0)
        verbs_context_close(s->context);
    biased_fini(&s->lock);
    free(s);
}

void verbs_stream_close(struct btl_stream *stream) { verbs_stream_put(stream); }

/* ---- connections ---- */

void verbs_connect_drop(struct btl_connection *connection)
{
    struct btl_stream *s = connection->stream;

    if (s != NULL)
        biased_enter_other(&s->lock, BIASED_NEVER);
    verbs_state_drop(connection);
    if (s != NULL)
        biased_leave_other(&s->lock);
}

void verbs_stream_renew(struct btl_connection *connection)
{
    struct btl_stream *s = connection->stream;

    if (verbs_stream_has_queue(connection))
        connection->tag = ++s->generation % GENERATIONS * STREAM_LINES + connection->index;
}

static uint32_t stream_free_index(const struct btl_stream *s)
{
    uint32_t i;

    for (i = 0; i < STREAM_LINES && s->line[i] != NULL; i++)
        ;
    return i;
}

/*
 * The completion queue of the connection from here on: that of the stream, or, in a context of the stream, one of its own there. Inside. Returns the one
 * that it had, or NULL: it keeps that.
 */
static struct ibv_cq *stream_give_queue(struct btl_connection *connection, struct btl_stream *s)
{
    struct ibv_cq *had = connection->cq, *further;

    if (connection->index < STREAM_LINES) {
        connection->cq = s->cq;
        s->line[connection->index] = connection;
        verbs_stream_renew(connection);
        return had;
    }
    if (s->context->index == 0)
        return NULL;
    further = ibv_create_cq(s->context->ibv, (int)connection->depth, NULL, NULL, 0);
    if (further == NULL)
        return NULL;
    connection->cq = further;
    return had;
}

/* Inside. The queue of the stream, if that has entries for it; that, or a queue of its own in the context of the stream, returns the one that it had. */
static struct ibv_cq *stream_take_in(struct btl_connection *connection, struct btl_stream *s)
{
    struct ibv_cq *had;
    int rc = -ENOSPC;

    connection->index = s->cq != NULL ? stream_free_index(s) : STREAM_LINES;
    if (connection->index < STREAM_LINES && (rc = stream_reserve(s, connection->depth)) != 0)
        connection->index = STREAM_LINES;
    had = stream_give_queue(connection, s);
    if (connection->index == STREAM_LINES && s->cq != NULL)
        log_info(
            "verbs: a pipe of a stream has a completion queue of its own: that of the stream has "
            "%u entries and cannot have %u more: %s",
            s->entries, connection->depth, strerror(-rc));
    return had;
}

/* Inside. Of a stream with a context of its own: moves the connection there; NULL: it stays in the context of the process. */
static struct ibv_cq *stream_move_in(struct btl_connection *connection, struct btl_stream *s)
{
    struct ibv_cq *had = NULL;
    int rc = verbs_context_enter(s->context);

    if (rc != 0) {
        log_info("verbs: a pipe of a stream is in the context of the process: the completion queue "
                 "of greetings in that of the stream has %u entries and cannot have more: %s",
                 s->context->entries, strerror(-rc));
        return NULL;
    }
    had = stream_take_in(connection, s);
    if (had == NULL) {
        verbs_context_leave(s->context);
        return NULL;
    }
    if (connection->greets)
        verbs_context_leave(connection->context);
    connection->greets = true;
    return had;
}

void verbs_stream_join(struct btl_connection *connection, struct btl_stream *s)
{
    const bool moves = s->context->index != 0;
    struct ibv_cq *had;

    biased_enter_other(&s->lock, BIASED_NEVER);
    connection->stream = s;
    had = moves ? stream_move_in(connection, s) : stream_take_in(connection, s);
    if (had != NULL || !moves) {
        connection->context = s->context;
        connection->pd = s->domain[0] != NULL ? s->domain[0] : s->context->pd;
    }
    s->connections++;
    biased_leave_other(&s->lock);
    if (had != NULL)
        (void)ibv_destroy_cq(had);
}

const char *verbs_stream_lack(const struct btl_connection *connection)
{
    const struct btl_stream *s = connection->stream;

    if (s != NULL && connection->context != s->context)
        return "; in the context of the process, since that of its stream has no more queues";
    if (s != NULL && s->domain[0] != NULL && connection->pd != s->domain[0])
        return s->context->index != 0 ? "; with locks, since its thread domain is full"
                                      : "; static, since its thread domain is full";
    if (s != NULL && s->cq != NULL && !verbs_stream_has_queue(connection))
        return "; own completion queue, since its stream's is full";
    return "";
}

struct btl_stream *verbs_stream_part(struct btl_connection *connection)
{
    struct btl_stream *s = connection->stream;

    if (verbs_stream_has_queue(connection)) {
        s->line[connection->index] = NULL;
        s->reserved -= connection->depth;
        connection->cq = NULL;
    }
    connection->stream = NULL;
    return s;
}
