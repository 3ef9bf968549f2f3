/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.c: see stream.h.
 */
#include "rpipe/end/stream.h"

#include "rpipe/end/call_context.h"
#include "rpipe/end/error.h"
#include "rpipe/end/stream_holder.h"

#include "util/list.h"
#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_BACKENDS 4

/* What a stream has of one backend. */
struct stream_part {
    const struct btl_ops *ops; /* NULL: not used yet */
    struct btl_stream *stream; /* NULL: the backend separates nothing */
    char why[256];
};

struct rstream {
    struct link link; /* stream_all */
    enum btl_share share;
    struct link ends; /* rch.in_stream */
    size_t count;     /* of them */
    struct stream_holders holders;
    struct stream_part part[STREAM_BACKENDS];
    /* RMALLOC_DEBUG=1 */
    _Atomic(const char *) inside; /* stands for the thread that is */
    _Atomic(const char *) inside_call;
};

static_assert((int)BTL_SHARE_DYNAMIC == (int)RSTREAM_DYNAMIC &&
                  (int)BTL_SHARE_THREADS == (int)RSTREAM_THREADS,
              "the same values");

static const char stream_mapped_got[] = "everywhere; on mapped memory pipes share nothing";
static pthread_mutex_t stream_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct link stream_all = {&stream_all, &stream_all};
static _Atomic unsigned stream_warned;

static const char *const stream_shares[] = {
    [BTL_SHARE_DYNAMIC] = "dynamic",     [BTL_SHARE_EVERYWHERE] = "everywhere",
    [BTL_SHARE_2XDYNAMIC] = "2xdynamic", [BTL_SHARE_SHARED_DYNAMIC] = "shared dynamic",
    [BTL_SHARE_STATIC] = "static",       [BTL_SHARE_THREADS] = "threads"};

/* The handle of the program: any value. Mutex held. */
static bool stream_is_open(const struct rstream *stream)
{
    struct link *at, *after;

    list_for_each (at, after, &stream_all)
        if (container_of(at, struct rstream, link) == stream)
            return true;
    return false;
}

/* Mutex held. 0, or -EINVAL and the message. */
static int stream_check(const struct rstream *stream, struct error *err)
{
    if (stream_is_open(stream))
        return 0;
    return error_set(err, -EINVAL, "stream is %p, which is not open; rstream_open opens one",
                     (const void *)stream);
}

/* ---- ends ---- */

int stream_add(rstream_t stream, struct rch *ch, struct error *err)
{
    int rc;

    pthread_mutex_lock(&stream_mutex);
    rc = stream_check(stream, err);
    if (rc == 0 && ch->cfg.threads) {
        rc = error_set(
            err, -EINVAL,
            "stream is given and flags has RPIPE_THREADS; the pipes of a stream belong to one "
            "thread at a time");
    } else if (rc == 0) {
        ch->stream = stream;
        list_append(&stream->ends, &ch->in_stream);
        stream->count++;
    }
    pthread_mutex_unlock(&stream_mutex);
    return rc;
}

void stream_remove(struct rch *ch)
{
    if (ch->stream == NULL)
        return;
    pthread_mutex_lock(&stream_mutex);
    if (!list_empty(&ch->in_stream)) {
        list_remove(&ch->in_stream);
        ch->stream->count--;
        if (ch->stream_entered) /* by rclose: the stream may be gone when that returns */
            atomic_store(&ch->stream->inside, NULL);
        ch->stream_entered = false;
    }
    pthread_mutex_unlock(&stream_mutex);
}

static void stream_explain(struct rch *ch, const char *got)
{
    char *none = NULL, *text = strdup(got); /* without memory the description lacks it */

    /* release: the text; pairs with the acquire of rinfo_describe, which may be in progress */
    if (text != NULL &&
        !atomic_compare_exchange_strong_explicit(&ch->stream_got, &none, text, memory_order_release,
                                                 memory_order_relaxed))
        free(text);
}

void stream_mapped(struct rch *ch)
{
    if (ch->stream != NULL)
        stream_explain(ch, stream_mapped_got);
}

static void stream_open_part(struct rstream *s, struct stream_part *p, struct rch *ch)
{
    enum btl_share got = s->share;
    struct error why = {""};
    int rc = -ENOTSUP;

    p->ops = ch->ops;
    if (ch->ops->stream_open == NULL)
        error_note(&why, "%s separates nothing: its connections are as without a stream",
                   ch->ops->name);
    else
        rc = ch->ops->stream_open(ch->btl, s->share, &p->stream, &got, &why);
    if (rc != 0 && rc != -ENOTSUP)
        log_warn("%s: the stream has nothing of its own: %s", end_name(ch), why.text);
    snprintf(p->why, sizeof(p->why), "%.255s", why.text);
}

/* Mutex held. NULL: more backends than there are. */
static struct stream_part *stream_part_of(struct rstream *s, struct rch *ch)
{
    int i;

    for (i = 0; i < STREAM_BACKENDS; i++) {
        if (s->part[i].ops == NULL)
            stream_open_part(s, &s->part[i], ch);
        if (s->part[i].ops == ch->ops)
            return &s->part[i];
    }
    return NULL;
}

void stream_join(struct rch *ch, struct btl_connection *connection, struct btl_address *address)
{
    struct stream_part *part;

    if (ch->stream == NULL)
        return;
    pthread_mutex_lock(&stream_mutex);
    if (!list_empty(&ch->in_stream)) { /* else it was closed before the other end was here */
        part = stream_part_of(ch->stream, ch);
        if (part != NULL && part->stream != NULL)
            ch->ops->connection_join(connection, part->stream, address);
        if (part != NULL)
            stream_explain(ch, part->why);
    }
    pthread_mutex_unlock(&stream_mutex);
}

/* ---- RMALLOC_DEBUG=1 ---- */

int stream_debug_enter(struct rch *ch, const char *thread)
{
    struct rstream *s = ch->stream;
    const char *inside = NULL, *name;

    if (s == NULL)
        return 0;
    if (atomic_compare_exchange_strong(&s->inside, &inside, thread)) {
        atomic_store_explicit(&s->inside_call, call_name(), memory_order_relaxed);
        ch->stream_entered = true;
        return 0;
    }
    if (inside == thread)
        return 0;
    name = atomic_load_explicit(&s->inside_call, memory_order_relaxed);
    log_few(&stream_warned,
            "%s: two threads are inside its stream at the same time, in %s and in %s", end_name(ch),
            name != NULL ? name : "a call", call_name());
    return call_error(
        ch, -EBUSY,
        "another thread is inside %s of another pipe of the same stream; all pipes of a "
        "stream belong to one thread at a time",
        name != NULL ? name : "a call");
}

void stream_debug_leave(struct rch *ch, const char *thread)
{
    const char *own = thread;

    if (!ch->stream_entered)
        return;
    ch->stream_entered = false;
    (void)atomic_compare_exchange_strong(&ch->stream->inside, &own, NULL);
}

/* ---- opening and closing ---- */

/* Mutex held. */
static void stream_free(struct rstream *s)
{
    int i;

    list_remove(&s->link);
    for (i = 0; i < STREAM_BACKENDS; i++)
        if (s->part[i].stream != NULL)
            s->part[i].ops->stream_close(s->part[i].stream);
    stream_holders_free(&s->holders);
    free(s);
}

void streams_leave(void)
{
    pthread_mutex_lock(&stream_mutex);
    while (!list_empty(&stream_all))
        stream_free(container_of(stream_all.next, struct rstream, link));
    pthread_mutex_unlock(&stream_mutex);
}

/* A thread that waits drives all streams, not only its own (doc/threads.md "Progress"). */
static void stream_round(void)
{
    if (!calls_ended())
        btl_progress_round();
}

int stream_begin(enum btl_share share, rstream_t *stream)
{
    struct rstream *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return call_error(NULL, -ENOMEM, "no memory for another stream");
    s->share = share;
    list_init(&s->ends);
    stream_holders_init(&s->holders);
    wait_set_round(stream_round);
    pthread_mutex_lock(&stream_mutex);
    list_append(&stream_all, &s->link);
    pthread_mutex_unlock(&stream_mutex);
    *stream = s;
    return 0;
}

/* "ram context 3, and 6 pipes, of which the first is pipe 0>1 context 5"; "": nothing is open in it. Mutex held. */
static void stream_print_users(const struct rstream *s, char *text, size_t bytes)
{
    size_t used;

    stream_holders_print(&s->holders, text, bytes);
    used = strlen(text);
    if (s->count > 0)
        snprintf(text + used, bytes - used, "%s%zu pipe%s, of which the first is %s",
                 used > 0 ? ", and " : "", s->count, s->count > 1 ? "s" : "",
                 end_name(container_of(s->ends.next, struct rch, in_stream)));
}

int stream_end(rstream_t stream)
{
    struct error err = {""};
    char users[256];
    int rc;

    pthread_mutex_lock(&stream_mutex);
    rc = stream_check(stream, &err);
    if (rc == 0 && (stream->count > 0 || stream->holders.count > 0)) {
        stream_print_users(stream, users, sizeof(users));
        rc = error_set(&err, -EBUSY, "open in the stream: %s; close them first", users);
    } else if (rc == 0) {
        stream_free(stream);
    }
    pthread_mutex_unlock(&stream_mutex);
    return rc == 0 ? 0 : call_error(NULL, rc, "%s", err.text);
}

/* ---- what opens pipes when it needs them ---- */

int stream_hold(rstream_t stream, const char *name)
{
    struct error err = {""};
    int rc;

    pthread_mutex_lock(&stream_mutex);
    rc = stream_check(stream, &err);
    if (rc == 0)
        rc = stream_holders_add(&stream->holders, name, &err);
    pthread_mutex_unlock(&stream_mutex);
    return rc == 0 ? 0 : call_error(NULL, rc, "%s", err.text);
}

int stream_unhold(rstream_t stream, const char *name)
{
    struct error err = {""};
    int rc;

    pthread_mutex_lock(&stream_mutex);
    rc = stream_check(stream, &err);
    if (rc == 0)
        rc = stream_holders_remove(&stream->holders, name, &err);
    pthread_mutex_unlock(&stream_mutex);
    return rc == 0 ? 0 : call_error(NULL, rc, "%s", err.text);
}

/* ---- description ---- */

/* Mutex held. */
static bool stream_has_mapped(const struct rstream *s)
{
    struct link *at, *after;

    list_for_each (at, after, &s->ends) {
        const struct btl_ops *ops = container_of(at, struct rch, in_stream)->ops;

        if (ops != NULL && ops->connection_open == NULL)
            return true;
    }
    return false;
}

/* Mutex held. */
static void stream_print(const struct rstream *s, char *text, size_t bytes)
{
    char users[256];
    size_t used;

    stream_print_users(s, users, sizeof(users));
    used = (size_t)snprintf(text, bytes, "%s is asked for; open in it: %s", stream_shares[s->share],
                            *users != '\0' ? users : "nothing");
    if (used < bytes && stream_has_mapped(s))
        used += (size_t)snprintf(text + used, bytes - used, "; shm: %s", stream_mapped_got);
    for (int i = 0; i < STREAM_BACKENDS && s->part[i].ops != NULL && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "; %s: %s", s->part[i].ops->name,
                                 s->part[i].why);
}

int stream_describe(rstream_t stream, char *text, size_t bytes)
{
    struct error err = {""};
    int rc;

    pthread_mutex_lock(&stream_mutex);
    rc = stream_check(stream, &err);
    if (rc == 0)
        stream_print(stream, text, bytes);
    pthread_mutex_unlock(&stream_mutex);
    return rc == 0 ? 0 : call_error(NULL, rc, "%s", err.text);
}
