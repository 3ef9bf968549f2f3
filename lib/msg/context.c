/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.c: rmsg_open, rmsg_close, rmsg_set_timeout, rmsg_count: a context, its configuration, and its counters.
 *
 * A context in a stream holds it (rstream_hold) until rmsg_close, since it opens pipes in it at any time: at the first send or receive, and when a
 * peer has opened a link.
 */
#include "msg/fail.h"
#include "msg/link.h"
#include "msg/move.h"
#include "msg/request.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/settings.h"
#include "util/sized.h"

#include <errno.h>
#include <rinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * The pipes of a link have a context that follows from that of the program, with one of the bits that rpipe() reserves for the
 * library; the mapping is one to one. MSG_LIBRARY is the flag of rpipe_config_t that allows these bits (rpipe/end/config.h).
 */
#define MSG_CONTEXT_BITS (UINT64_C(1) << 61)
#define MSG_CONTEXT_LIBRARY (UINT64_C(3) << 61)
#define MSG_CONTEXT_NAMED (UINT64_C(1) << 63) /* of rcontext */
#define MSG_CONTEXT_FACTOR UINT64_C(0x9e3779b97f4a7c15)
#define MSG_LIBRARY (1u << 31)

#define MSG_HEAP_DEFAULT (UINT64_C(1) << 20)
#define MSG_HEAP_LEAST (UINT64_C(64) << 10)
#define MSG_SLOTS_LEAST 16u
#define MSG_EAGER_DEFAULT (16u << 10)
#define MSG_ADVERTISE_DEFAULT (8u << 10)
#define MSG_TIMEOUT_DEFAULT_MS 60000

static int context_timeout(int timeout_ms)
{
    const rinfo_setting_t *s;

    if (timeout_ms != 0)
        return timeout_ms == R_AT_ONCE ? 0 : timeout_ms;
    for (int i = 0; (s = rinfo_setting(i)) != NULL; i++)
        if (strcmp(s->name, "RPIPE_TIMEOUT_MS") == 0)
            return (int)strtol(s->value, NULL, 10);
    return MSG_TIMEOUT_DEFAULT_MS;
}

/* Replaces 0 by the defaults; or -EINVAL. */
static int context_resolve(rmsg_config_t *c)
{
    if (c->heap_bytes == 0)
        c->heap_bytes = MSG_HEAP_DEFAULT;
    if (c->eager_most == 0)
        c->eager_most = MSG_EAGER_DEFAULT;
    if (c->advertise_least == 0)
        c->advertise_least = MSG_ADVERTISE_DEFAULT;
    if ((c->context & MSG_CONTEXT_LIBRARY) != 0)
        return msg_fail(-EINVAL,
                        "rmsg_open: context is 0x%llx; it must be below 2^61 or come from rcontext",
                        (unsigned long long)c->context);
    if (c->heap_bytes < MSG_HEAP_LEAST || c->heap_bytes > UINT32_MAX)
        return msg_fail(-EINVAL,
                        "rmsg_open: heap_bytes is %llu; it must be 0 (the default) or from %llu to "
                        "4 GiB",
                        (unsigned long long)c->heap_bytes, (unsigned long long)MSG_HEAP_LEAST);
    if (c->slots != 0 && c->slots < MSG_SLOTS_LEAST)
        return msg_fail(-EINVAL,
                        "rmsg_open: slots is %u; it must be 0 (the default) or at least %u",
                        c->slots, MSG_SLOTS_LEAST);
    if (c->timeout_ms < R_AT_ONCE)
        return msg_fail(-EINVAL,
                        "rmsg_open: timeout_ms is %d; it may be R_FOREVER, R_AT_ONCE, 0 or ms",
                        c->timeout_ms);
    return 0;
}

static void context_configure_pipes(struct rmsg *msg, const rmsg_config_t *c)
{
    msg->in_cfg = (rpipe_config_t){
        .context = MSG_CONTEXT_BITS | (c->context & MSG_CONTEXT_NAMED) |
                   ((c->context * MSG_CONTEXT_FACTOR + MSG_WIRE_MAGIC) & (MSG_CONTEXT_BITS - 1)),
        .flags = MSG_LIBRARY,
        .backend = c->backend,
        .stream = c->stream,
    };
    msg->out_cfg = msg->in_cfg;
    msg->in_cfg.heuristic = RMALLOC_BEST_FIT; /* messages are freed in any order, and stay long */
    msg->in_cfg.mode = RPIPE_SYNC_TAGS;
    msg->in_cfg.heap_bytes = c->heap_bytes;
    msg->in_cfg.slots = c->slots;
}

/* hold: rstream_hold or rstream_release. 0, or its code. */
static int context_with_stream(const struct rmsg *msg,
                               int (*hold)(rstream_t stream, const char *name))
{
    char name[64];

    if (msg->in_cfg.stream == NULL)
        return 0;
    snprintf(name, sizeof(name), "rmsg context %llu", (unsigned long long)msg->context);
    return hold(msg->in_cfg.stream, name);
}

static void context_destroy(struct rmsg *msg)
{
    for (int i = 0; i < msg->ranks && msg->link != NULL; i++)
        if (msg->link[i] != NULL)
            msg_link_close(msg->link[i]);
    if (msg->memory != NULL)
        (void)rregion_close(msg->memory);
    match_table_free(&msg->posted.table);
    match_table_free(&msg->waiting.table);
    pool_destroy(&msg->requests);
    pool_destroy(&msg->messages);
    free(msg->link);
    free(msg->reading);
    free(msg->reader);
    free(msg->ready);
    free(msg);
}

static struct rmsg *context_make(const rmsg_config_t *c)
{
    struct rmsg *msg = calloc(1, sizeof(*msg));
    int64_t now = clock_now();
    uint64_t secret = hash_secret_bytes(&now, sizeof(now));

    if (msg == NULL)
        return NULL;
    msg->process = getpid();
    msg->debug = setting_number(SET_DEBUG) != 0;
    msg->context = c->context;
    msg->rank = rpipe_network_rank();
    msg->ranks = rpipe_network_ranks();
    msg->timeout_ms = context_timeout(c->timeout_ms);
    msg->share = c->heap_bytes / 2 / MSG_WIRE_UNIT;
    msg->advertise_least = c->advertise_least;
    msg->eager_most = c->eager_most;
    if (msg->eager_most > c->heap_bytes / 8)
        msg->eager_most = (uint32_t)(c->heap_bytes / 8);
    list_init(&msg->busy);
    list_init(&msg->sharing);
    pool_init(&msg->requests, sizeof(struct msg_request), RMSG_REQUESTS, msg_request_made);
    pool_init(&msg->messages, sizeof(struct msg_message), POOL_MOST, NULL);
    msg_wire_hello_init(&msg->hello, msg->share, (uint32_t)(c->heap_bytes / 8));
    context_configure_pipes(msg, c);
    msg->link = calloc((size_t)msg->ranks, sizeof(struct msg_link *));
    if (msg->link == NULL || match_posted_init(&msg->posted, secret) != 0 ||
        match_waiting_init(&msg->waiting, secret) != 0) {
        context_destroy(msg);
        return NULL;
    }
    return msg;
}

int(rmsg_open)(rmsg_t *msg, const rmsg_config_t *cfg, size_t size)
{
    static const rmsg_config_t defaults;
    struct error err = {""};
    struct rmsg *made;
    rmsg_config_t c;
    int rc;

    if (msg == NULL)
        return msg_fail(-EINVAL, "rmsg_open: msg is NULL");
    rc = cfg == NULL ? sized_copy(&c, sizeof(c), &defaults, sizeof(defaults), &err)
                     : sized_copy(&c, sizeof(c), cfg, size, &err);
    if (rc != 0)
        return msg_fail(rc, "rmsg_open: %s", err.text);
    rc = context_resolve(&c);
    if (rc == 0)
        rc = msg_check_job("rmsg_open");
    if (rc != 0)
        return rc;
    made = context_make(&c);
    if (made == NULL)
        return msg_fail(-ENOMEM, "rmsg_open: no memory for a context of %d ranks",
                        (int)rpipe_network_ranks());
    rc = context_with_stream(made, rstream_hold);
    if (rc != 0) {
        context_destroy(made);
        return msg_fail(rc, "rmsg_open: the stream cannot be used: %s", rpipe_error(NULL));
    }
    *msg = made;
    return 0;
}

int rmsg_close(rmsg_t msg)
{
    int rc;

    if (msg == NULL)
        return msg_fail(-EINVAL, "rmsg_close: msg is NULL");
    if (msg->process != getpid())
        return msg_check_job("rmsg_close");
    rc = msg_enter(msg, "rmsg_close");
    if (rc != 0)
        return rc;
    if (rpipe_initialized() == 1) { /* else the memory of cells is not there any more */
        msg_move_end(msg);
        for (int i = 0; i < msg->ranks; i++)
            if (msg->link[i] != NULL)
                msg_link_stop(msg->link[i]);
        (void)context_with_stream(msg, rstream_release);
    }
    context_destroy(msg);
    return 0;
}

static int context_set_timeout(struct rmsg *msg, int timeout_ms)
{
    int rc = msg_check_call(msg, "rmsg_set_timeout", 0, 0);

    if (rc == 0 && timeout_ms < R_AT_ONCE)
        rc = msg_fail(-EINVAL,
                      "rmsg_set_timeout: timeout_ms is %d; it may be R_FOREVER, R_AT_ONCE, 0 or ms",
                      timeout_ms);
    if (rc == 0)
        msg->timeout_ms = context_timeout(timeout_ms);
    return rc;
}

int rmsg_set_timeout(rmsg_t msg, int timeout_ms)
{
    int rc = msg_enter(msg, "rmsg_set_timeout");

    return rc != 0 ? rc : msg_leave(msg, context_set_timeout(msg, timeout_ms));
}

static int context_count(struct rmsg *msg, const char *name, uint64_t *value)
{
#define COUNT(name)                                                                                \
    {                                                                                              \
#name, offsetof(struct msg_counts, name)                                                   \
    }
    static const struct {
        const char *name;
        size_t at;
    } table[] = {COUNT(sent_slot),       COUNT(sent_heap),
                 COUNT(sent_placed),     COUNT(sent_offered),
                 COUNT(moved_for_rtr),   COUNT(moved_for_cts),
                 COUNT(received_posted), COUNT(received_waiting),
                 COUNT(received_placed), COUNT(received_offered),
                 COUNT(rtr_sent),        COUNT(rtr_stored),
                 COUNT(rtr_dropped),     COUNT(rtr_refused),
                 COUNT(undone),          COUNT(parts),
                 COUNT(bytes_out),       COUNT(bytes_in),
                 COUNT(sent_shared),     COUNT(chunks_written),
                 COUNT(chunks_fetched),  COUNT(written),
                 COUNT(fetched),         COUNT(received_written),
                 COUNT(registered),      COUNT(windows),
                 COUNT(prepared),        COUNT(links),
                 COUNT(failed),          COUNT(posted),
                 COUNT(waiting)};
#undef COUNT

    if (msg == NULL || name == NULL || value == NULL)
        return msg_fail(-EINVAL, "rmsg_count: %s is NULL",
                        msg == NULL    ? "msg"
                        : name == NULL ? "name"
                                       : "value");
    msg->counts.posted = msg->posted.table.count;
    msg->counts.waiting = msg->messages.used;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i].name, name) == 0) {
            memcpy(value, (const char *)&msg->counts + table[i].at, sizeof(*value));
            return 0;
        }
    }
    return msg_fail(-ENOENT, "rmsg_count: no counter has the name \"%.40s\"; rmsg(7) lists them",
                    name);
}

int rmsg_count(rmsg_t msg, const char *name, uint64_t *value)
{
    int rc = msg_enter(msg, "rmsg_count");

    return rc != 0 ? rc : msg_leave(msg, context_count(msg, name, value));
}
