/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.c: see stream.h.
 *
 * What a category means here (doc/threads.md has the table):
 *   EVERYWHERE   an endpoint in a domain of its own. Also where less was asked for: an endpoint in the domain of the process would need a lock
 *                in the provider, and a domain that is opened for it in advance
 *   STATIC       where a stream cannot have a domain, since the provider chooses the keys of memory: an endpoint in the domain of the process, if
 *                the provider lets several threads into that
 *   THREADS      the endpoint of the process and its lock
 */
#include "btl/ofi/stream.h"

#include "btl/ofi/fabric.h"
#include "btl/ofi/memory.h"
#include "btl/ofi/operation.h"
#include "btl/ofi/progress.h"
#include "btl/share.h"

#include "util/log.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(offsetof(struct btl_stream, endpoint) % CACHE_LINE == 0 &&
                  offsetof(struct btl_stream, link) % CACHE_LINE == 0 &&
                  sizeof(struct btl_stream) % CACHE_LINE == 0,
              "what its thread changes, what other threads change, and two streams are apart");

/* ---- endpoints ---- */

/* btl.lock held. Relaxed: the lock orders it; threads without the lock take it for a hint (progress_is_late). */
static void stream_count_users(struct btl_stream *s, uint32_t change)
{
    atomic_fetch_add_explicit(&s->users, change, memory_order_relaxed);
}

static uint32_t stream_users(const struct btl_stream *s)
{
    return atomic_load_explicit(&s->users, memory_order_relaxed);
}

/* Opens its endpoint; the stream is one of the backend then. 0, or -errno and the reason. */
static int ofi_stream_try(struct btl *btl, struct btl_stream *s, bool own_domain, struct error *err)
{
    struct ofi_endpoint *e = &s->endpoint;
    int rc;

    memset(e, 0, sizeof(*e));
    ofi_endpoint_init(e, btl, s);
    rc = fabric_open_beside(&btl->rma, own_domain, e, err);
    if (rc != 0)
        return rc;
    ofi_lock(btl);
    rc = operation_reserve(e, err);
    if (rc == 0 && own_domain)
        rc = memory_open_domain(e, err);
    if (rc == 0 && (rc = progress_start(e)) != 0) {
        error_note(err, "the service thread cannot watch it: %s", strerror(-rc));
        memory_close_domain(e);
    }
    if (rc == 0) {
        list_append(&btl->streams, &s->link);
        s->number = ++btl->stream_count;
        s->before = atomic_load_explicit(&btl->last_stream, memory_order_relaxed);
        /* release: the stream; pairs with the acquire of progress_any_is_late */
        atomic_store_explicit(&btl->last_stream, s, memory_order_release);
        btl->in_domain += !own_domain;
    }
    ofi_unlock(btl);
    if (rc == 0)
        return 0;
    operation_release_all(e);
    fabric_close(e);
    fabric_close_domain(e);
    return rc;
}

/* A new one; NULL, the reason, and -errno in *rc. */
static struct btl_stream *stream_new(struct btl *btl, int *rc, struct error *why)
{
    struct error own = {""}, shared = {""};
    struct btl_stream *s = aligned_alloc(_Alignof(struct btl_stream), sizeof(*s));
    int rc_shared;

    *rc = -ENOMEM;
    if (s == NULL) {
        error_note(why, "there is no memory for another stream");
        return NULL;
    }
    memset(s, 0, sizeof(*s));
    biased_init(&s->lock);
    stream_count_users(s, 1); /* no other thread has it yet */
    *rc = ofi_stream_try(btl, s, true, &own);
    if (*rc == 0)
        return s;
    snprintf(s->no_domain, sizeof(s->no_domain), "%.159s", own.text);
    rc_shared = ofi_stream_try(btl, s, false, &shared);
    if (rc_shared == 0)
        return s;
    *rc = *rc == -ENOTSUP ? rc_shared : *rc;
    error_note(why, "%.200s; and %.200s", own.text, shared.text);
    biased_fini(&s->lock);
    free(s);
    return NULL;
}

/* One that is closed; NULL: there is none. */
static struct btl_stream *stream_take(struct btl *btl)
{
    struct btl_stream *taken = NULL;
    struct link *at, *after;

    ofi_lock(btl);
    list_for_each (at, after, &btl->streams) {
        struct btl_stream *s = container_of(at, struct btl_stream, link);

        if (taken != NULL || stream_users(s) > 0)
            continue;
        biased_enter_other(&s->lock, BIASED_NEVER);
        if (!s->endpoint.broken) {
            biased_disown(&s->lock); /* see invariant 4 */
            stream_count_users(s, 1);
            taken = s;
        }
        biased_leave_other(&s->lock);
    }
    ofi_unlock(btl);
    return taken;
}

/* ---- opening and closing ---- */

static void stream_describe(const struct btl_stream *s, enum btl_share wanted, enum btl_share got,
                            struct error *why)
{
    error_note(why, "%s%s%s%s%s; an endpoint with its completion queue in %s, number %u",
               btl_share_name(got), got != wanted ? " for " : "",
               got != wanted ? btl_share_name(wanted) : "",
               s->no_domain[0] != '\0' && got != wanted ? ", since " : "",
               got != wanted ? s->no_domain : "",
               s->endpoint.own_domain ? "a domain of its own" : "the domain of the process",
               s->number);
}

int ofi_stream_open(struct btl *btl, enum btl_share wanted, struct btl_stream **out,
                    enum btl_share *got, struct error *why)
{
    struct error reason = {""};
    struct btl_stream *s;
    int rc = ofi_check_fork(btl, why);

    if (rc != 0)
        return rc;
    if (wanted == BTL_SHARE_THREADS)
        return error_set(why, -ENOTSUP,
                         "threads; as without a stream: the endpoint of the process and its lock");
    s = stream_take(btl);
    if (s == NULL)
        s = stream_new(btl, &rc, &reason);
    if (s == NULL) {
        log_info("ofi: a stream is threads, since %s", reason.text);
        return error_set(why, rc, "threads, since %s", reason.text);
    }
    *got = s->endpoint.own_domain ? BTL_SHARE_EVERYWHERE : BTL_SHARE_STATIC;
    stream_describe(s, wanted, *got, why);
    if (!s->endpoint.own_domain && wanted != BTL_SHARE_STATIC)
        log_info("ofi: a stream is %s", why->text);
    *out = s;
    return 0;
}

void stream_put(struct btl_stream *s)
{
    struct btl *btl = s->endpoint.btl;

    ofi_lock(btl);
    stream_count_users(s, UINT32_MAX); /* one less */
    ofi_unlock(btl);
}

void ofi_stream_close(struct btl_stream *s)
{
    if (!s->endpoint.btl->forked)
        stream_put(s);
}

void streams_close_endpoints(struct btl *btl)
{
    struct link *at, *after;

    list_for_each (at, after, &btl->streams)
        fabric_close(&container_of(at, struct btl_stream, link)->endpoint);
}

void streams_free(struct btl *btl)
{
    while (!list_empty(&btl->streams)) {
        struct btl_stream *s = container_of(btl->streams.next, struct btl_stream, link);

        list_remove(&s->link);
        operation_release_all(&s->endpoint);
        fabric_close_domain(&s->endpoint);
        biased_fini(&s->lock);
        free(s);
    }
}

/* ---- connections ---- */

/* btl.lock held, inside. 0, or -errno and the reason. */
static int stream_add(struct btl_stream *s, struct btl_connection *connection, struct error *err)
{
    struct ofi_endpoint *e = &s->endpoint;
    int rc;

    e->connection_count++;
    rc = operation_reserve(e, err);
    if (rc != 0) {
        e->connection_count--;
        return rc;
    }
    list_remove(&connection->link);
    connection->endpoint->connection_count--;
    connection->endpoint = e;
    connection->id = ++e->last_id;
    connection->looked = e->polls;
    list_append(&e->connections, &connection->link);
    stream_count_users(s, 1);
    return 0;
}

void ofi_connection_join(struct btl_connection *connection, struct btl_stream *s,
                         struct btl_address *address)
{
    struct btl *btl = connection->btl;
    struct error err = {""};
    bool as_owner;
    int rc;

    if (btl->forked)
        return;
    ofi_lock(btl);
    as_owner = ofi_enter(&s->endpoint, BIASED_NEVER);
    rc = stream_add(s, connection, &err);
    ofi_leave(&s->endpoint, as_owner);
    ofi_unlock(btl);
    if (rc == 0)
        *address = s->endpoint.address;
    else
        log_info("ofi: a pipe of a stream has the endpoint of the process: %s", err.text);
}
