/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.c: ram_init, ram_exit, ram_count: a context, its configuration, and its counters.
 *
 * A context in a stream holds it (rstream_hold) until ram_exit, since it opens pipes in it at any time: at the first request to a peer, when a
 * peer has opened a link, and again after an idle link was closed.
 */
#include "am/fail.h"
#include "am/link_in.h"
#include "am/link_out.h"

#include "util/settings.h"
#include "util/sized.h"

#include <errno.h>
#include <rinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The pipes of a link have the context of the program, and one or both of the bits that rpipe() reserves for the library, so they
 * meet no pipe and no cells of the program. AM_LIBRARY is the flag of rpipe_config_t that allows these bits (rpipe/end/config.h).
 */
#define AM_CONTEXT_REQUESTS (UINT64_C(3) << 61)
#define AM_CONTEXT_REPLIES (UINT64_C(1) << 61)
#define AM_LIBRARY (1u << 31)

#define AM_CREDITS_DEFAULT 32u
#define AM_REQUEST_DEFAULT (256u << 10)
#define AM_REQUEST_LEAST (16u << 10) /* the greeting with 255 handlers fits */
#define AM_REPLY_DEFAULT 4096u
#define AM_REPLY_LEAST 256u
#define AM_REPLY_MOST (1u << 20) /* largest unit of a heap */
#define AM_IDLE_DEFAULT_MS 10000
#define AM_TIMEOUT_DEFAULT_MS 60000

/* ---- configuration ---- */

static int am_context_default_timeout(void)
{
    const rinfo_setting_t *s;

    for (int i = 0; (s = rinfo_setting(i)) != NULL; i++)
        if (strcmp(s->name, "RPIPE_TIMEOUT_MS") == 0)
            return (int)strtol(s->value, NULL, 10);
    return AM_TIMEOUT_DEFAULT_MS;
}

static uint32_t am_context_power_of_two(uint32_t least)
{
    uint32_t power = 1;

    while (power < least)
        power *= 2;
    return power;
}

static int am_context_check_handlers(const ram_config_t *c)
{
    if (c->nhandlers > RAM_HANDLERS || (c->nhandlers > 0 && c->handlers == NULL))
        return am_fail(-EINVAL,
                       "ram_init: nhandlers is %u and handlers is %s; at most %d handlers are "
                       "possible, and handlers must be given for them",
                       c->nhandlers, c->handlers == NULL ? "NULL" : "given", RAM_HANDLERS);
    for (uint32_t i = 0; i < c->nhandlers; i++)
        if (c->handlers[i].run == NULL || c->handlers[i].name == NULL ||
            strlen(c->handlers[i].name) >= WIRE_NAME_BYTES)
            return am_fail(-EINVAL,
                           "ram_init: handler %u needs a function, and a name of at most %d bytes",
                           i, WIRE_NAME_BYTES - 1);
    return 0;
}

/* Replaces 0 by the defaults; or -EINVAL. */
static int am_context_resolve(ram_config_t *c)
{
    if (c->credits == 0)
        c->credits = AM_CREDITS_DEFAULT;
    if (c->request_bytes == 0)
        c->request_bytes = AM_REQUEST_DEFAULT;
    if (c->reply_bytes == 0)
        c->reply_bytes = AM_REPLY_DEFAULT;
    if (c->idle_ms == 0)
        c->idle_ms = AM_IDLE_DEFAULT_MS;
    if ((c->context & AM_CONTEXT_REQUESTS) != 0)
        return am_fail(-EINVAL,
                       "ram_init: context is 0x%llx; it must be below 2^61 or come from rcontext",
                       (unsigned long long)c->context);
    if (c->credits > AM_CREDITS_MAX)
        return am_fail(-EINVAL, "ram_init: credits is %u; it must be 0 (the default) or 1 to %d",
                       c->credits, AM_CREDITS_MAX);
    if (c->request_bytes < AM_REQUEST_LEAST)
        return am_fail(-EINVAL,
                       "ram_init: request_bytes is %llu; it must be 0 (the default) or at least %u",
                       (unsigned long long)c->request_bytes, AM_REQUEST_LEAST);
    if (c->reply_bytes < AM_REPLY_LEAST || c->reply_bytes > AM_REPLY_MOST)
        return am_fail(-EINVAL,
                       "ram_init: reply_bytes is %u; it must be 0 (the default) or from %u to %u",
                       c->reply_bytes, AM_REPLY_LEAST, AM_REPLY_MOST);
    if (c->timeout_ms < R_AT_ONCE || c->idle_ms < R_FOREVER)
        return am_fail(-EINVAL,
                       "ram_init: timeout_ms is %d, idle_ms is %d; they may be R_FOREVER, 0 or ms, "
                       "timeout_ms also "
                       "R_AT_ONCE",
                       c->timeout_ms, c->idle_ms);
    return am_context_check_handlers(c);
}

/* The pipes of a link. Each ring has at most `credits` messages, a greeting, and a message about retiring. */
static void am_context_configure_pipes(struct ram *am, const ram_config_t *c)
{
    am->request_cfg = (rpipe_config_t){
        .context = AM_CONTEXT_REQUESTS | c->context,
        .flags = AM_LIBRARY,
        .timeout_ms = c->timeout_ms,
        .backend = c->backend,
        .stream = c->stream,
        .slots = am_context_power_of_two(c->credits + 4),
        .heuristic = RMALLOC_BEST_FIT, /* requests are freed in any order */
        .mode = RPIPE_SYNC_TAGS,
        .heap_bytes = c->request_bytes,
        .heap_bytes_at_most = c->request_bytes,
    };
    am->reply_cfg = am->request_cfg;
    am->reply_cfg.context = AM_CONTEXT_REPLIES | c->context;
    am->reply_cfg.unit_bytes = am_context_power_of_two(c->reply_bytes);
    am->reply_cfg.heap_bytes = (uint64_t)am->reply_cfg.unit_bytes * c->credits;
    am->reply_cfg.heap_bytes_at_most = am->reply_cfg.heap_bytes;
}

static bool am_context_make_hello(struct ram *am, const ram_config_t *c)
{
    am->hello = calloc(1, wire_hello_bytes(c->nhandlers));
    if (am->hello == NULL)
        return false;
    wire_hello_init(am->hello, c->credits, c->request_bytes, c->reply_bytes, c->nhandlers);
    for (uint32_t i = 0; i < c->nhandlers; i++) {
        char *name = wire_hello_name(am->hello, i);

        memcpy(name, c->handlers[i].name, strlen(c->handlers[i].name));
        am->handler[i] = c->handlers[i];
        am->handler[i].name = name; /* a copy that exists as long as the context */
    }
    return true;
}

/* ---- its stream ---- */

static void am_context_name(const struct ram *am, char *text, size_t bytes)
{
    snprintf(text, bytes, "ram context %llu",
             (unsigned long long)(am->request_cfg.context & ~AM_CONTEXT_REQUESTS));
}

static int am_context_hold_stream(const struct ram *am)
{
    char name[64];
    int rc;

    if (am->request_cfg.stream == NULL)
        return 0;
    am_context_name(am, name, sizeof(name));
    rc = rstream_hold(am->request_cfg.stream, name);
    return rc == 0 ? 0 : am_fail(rc, "ram_init: the stream cannot be used: %s", rpipe_error(NULL));
}

/* After rexit, and in the child of a fork, there is no stream any more. */
static void am_context_release_stream(const struct ram *am)
{
    char name[64];

    if (am->request_cfg.stream == NULL || rpipe_initialized() != 1)
        return;
    am_context_name(am, name, sizeof(name));
    (void)rstream_release(am->request_cfg.stream, name);
}

/* ---- a context ---- */

static void am_context_destroy(struct ram *am)
{
    for (int i = 0; i < am->ranks && am->out != NULL; i++)
        free(am->out[i]);
    for (int i = 0; i < am->ranks && am->in != NULL; i++)
        free(am->in[i]);
    free(am->out);
    free(am->in);
    free(am->reading);
    free(am->reader);
    free(am->ready);
    free(am->handler);
    free(am->hello);
    free(am);
}

static struct ram *am_context_make(const ram_config_t *c)
{
    struct ram *am = calloc(1, sizeof(*am));

    if (am == NULL)
        return NULL;
    am->rank = rpipe_network_rank();
    am->ranks = rpipe_network_ranks();
    am->debug = setting_number(SET_DEBUG) != 0;
    am->credits = c->credits;
    am->nhandlers = c->nhandlers;
    am->reply_max = c->reply_bytes;
    am->timeout_ms = c->timeout_ms == 0           ? am_context_default_timeout()
                     : c->timeout_ms == R_AT_ONCE ? 0
                                                  : c->timeout_ms;
    am->max_links = c->max_links;
    am->idle_ms = c->idle_ms;
    am->checked = am_now_ms();
    am->out = calloc((size_t)am->ranks, sizeof(struct am_out *));
    am->in = calloc((size_t)am->ranks, sizeof(struct am_in *));
    am->handler = calloc((size_t)c->nhandlers + 1, sizeof(*am->handler));
    if (am->out == NULL || am->in == NULL || am->handler == NULL || !am_context_make_hello(am, c)) {
        am_context_destroy(am);
        return NULL;
    }
    am_context_configure_pipes(am, c);
    return am;
}

int(ram_init)(ram_t *am, const ram_config_t *cfg, size_t size)
{
    struct error err = {""};
    ram_config_t c;
    struct ram *made;
    int rc;

    if (am == NULL || cfg == NULL)
        return am_fail(-EINVAL, "ram_init: %s is NULL", am == NULL ? "am" : "cfg");
    rc = sized_copy(&c, sizeof(c), cfg, size, &err);
    if (rc != 0)
        return am_fail(rc, "ram_init: %s", err.text);
    rc = am_context_resolve(&c);
    if (rc != 0)
        return rc;
    rc = am_check_job("ram_init");
    if (rc != 0)
        return rc;
    made = am_context_make(&c);
    if (made == NULL)
        return am_fail(-ENOMEM, "ram_init: no memory for a context of %d ranks",
                       (int)rpipe_network_ranks());
    rc = am_context_hold_stream(made);
    if (rc != 0) {
        am_context_destroy(made);
        return rc;
    }
    *am = made;
    return 0;
}

int ram_exit(ram_t am)
{
    int rc = 0;

    if (!am_enter(am, "ram_exit", &rc))
        return rc;
    if (!am_may_wait(am, "ram_exit", &rc))
        return am_leave(am, rc);
    for (int i = 0; i < am->ranks; i++) {
        if (am->in[i] != NULL) {
            am_in_send_due(am, am->in[i]);
            am_in_close(am, am->in[i]);
        }
        if (am->out[i] != NULL)
            am_out_close(am, am->out[i]);
    }
    am_context_release_stream(am);
    am_context_destroy(am);
    return 0;
}

/* ---- counters ---- */

static int am_context_count(struct ram *am, const char *name, uint64_t *value)
{
#define COUNT(member)                                                                              \
    {                                                                                              \
#member, offsetof(struct am_counts, member)                                                \
    }
    static const struct {
        const char *name;
        size_t at;
    } table[] = {COUNT(requests),  COUNT(replies),  COUNT(handled),       COUNT(answered),
                 COUNT(bytes_out), COUNT(bytes_in), COUNT(stalls_credit), COUNT(stalls_memory),
                 COUNT(opened),    COUNT(accepted), COUNT(retired),       COUNT(failed),
                 COUNT(links_out), COUNT(links_in), COUNT(outstanding),   COUNT(kept)};
#undef COUNT

    if (am == NULL || name == NULL || value == NULL)
        return am_fail(-EINVAL, "ram_count: %s is NULL",
                       am == NULL     ? "the context"
                       : name == NULL ? "name"
                                      : "value");
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i].name, name) == 0) {
            memcpy(value, (const char *)&am->counts + table[i].at, sizeof(*value));
            return 0;
        }
    }
    return am_fail(
        -ENOENT,
        "ram_count: no counter has the name \"%.40s\"; rinfo_counter lists them with scope \"ram\"",
        name);
}

int ram_count(ram_t am, const char *name, uint64_t *value)
{
    int rc = 0;

    if (!am_enter(am, "ram_count", &rc))
        return rc;
    return am_leave(am, am_context_count(am, name, value));
}
