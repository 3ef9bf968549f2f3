/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.c: ram_init and ram_exit: a context, its configuration, and what it says of itself.
 */
#include "am/am.h"

#include <errno.h>
#include <rinfo.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define CTX_FIRST                                                                                  \
    0xAD000000u /* channels of context c: this + 2c for requests, and the next for replies */
#define CTX_MOST 4095u
#define CREDITS_DEFAULT 32u
#define REQUEST_DEFAULT (256u << 10)
#define REQUEST_LEAST (16u << 10) /* the greeting of 255 handlers fits */
#define REPLY_DEFAULT 4096u
#define REPLY_LEAST 256u
#define REPLY_MOST (1u << 20) /* a unit of a heap */
#define IDLE_DEFAULT_MS 10000

static _Thread_local char am_context_error_text[AM_SENTENCE_BYTES] =
    "no error"; /* of calls without a context */

int am_fail(struct ram *am, int code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(am != NULL ? am->error_text : am_context_error_text, AM_SENTENCE_BYTES, format,
              arguments);
    va_end(arguments);
    return code;
}

const char *ram_error(ram_t am) { return am != NULL ? am->error_text : am_context_error_text; }

int am_may_not_wait(struct ram *am, const char *call)
{
    if (am == NULL)
        return am_fail(NULL, -EINVAL, "%s: the context is NULL", call);
    return am_fail(am, -EDEADLK,
                   "%s: may not be called in a handler; ram_request_nb, ram_reply and ram_keep may",
                   call);
}

/* ---- configuration ---- */

static int am_context_setting_timeout(void)
{
    const rinfo_setting_t *s;

    for (int i = 0; (s = rinfo_setting(i)) != NULL; i++)
        if (strcmp(s->name, "RPIPE_TIMEOUT_MS") == 0)
            return (int)strtol(s->value, NULL, 10);
    return 60000;
}

static uint32_t am_context_power_of_two(uint32_t least)
{
    uint32_t power = 1;

    while (power < least)
        power *= 2;
    return power;
}

static int am_context_refuse_handlers(const ram_config_t *c)
{
    if (c->nhandlers > RAM_HANDLERS || (c->nhandlers > 0 && c->handlers == NULL))
        return am_fail(NULL, -EINVAL,
                       "ram_init: nhandlers is %u; it must be at most %d, and handlers not NULL",
                       c->nhandlers, RAM_HANDLERS);
    for (uint32_t i = 0; i < c->nhandlers; i++)
        if (c->handlers[i].run == NULL || c->handlers[i].name == NULL ||
            strlen(c->handlers[i].name) >= WIRE_NAME_BYTES)
            return am_fail(NULL, -EINVAL,
                           "ram_init: handler %u needs a function, and a name of at most %d bytes",
                           i, WIRE_NAME_BYTES - 1);
    return 0;
}

/* Defaults in their places; or -EINVAL. */
static int am_context_settle(ram_config_t *c)
{
    if (c->version != RAM_CONFIG_VERSION)
        return am_fail(
            NULL, -EINVAL,
            "ram_init: the configuration has version %u, this library knows %u: start from "
            "RAM_CONFIG_DEFAULT",
            c->version, RAM_CONFIG_VERSION);
    if (c->credits == 0)
        c->credits = CREDITS_DEFAULT;
    if (c->request_bytes == 0)
        c->request_bytes = REQUEST_DEFAULT;
    if (c->reply_bytes == 0)
        c->reply_bytes = REPLY_DEFAULT;
    if (c->idle_ms == 0)
        c->idle_ms = IDLE_DEFAULT_MS;
    if (c->timeout_ms == RPIPE_TIMEOUT_AUTO)
        c->timeout_ms = am_context_setting_timeout();
    if (c->ctx > CTX_MOST)
        return am_fail(NULL, -EINVAL, "ram_init: ctx is %u; it must be at most %u", c->ctx,
                       CTX_MOST);
    if (c->credits > AM_CREDITS_MAX)
        return am_fail(NULL, -EINVAL, "ram_init: credits is %u; it must be at most %d", c->credits,
                       AM_CREDITS_MAX);
    if (c->request_bytes < REQUEST_LEAST)
        return am_fail(NULL, -EINVAL, "ram_init: request_bytes is %llu; it must be at least %u",
                       (unsigned long long)c->request_bytes, REQUEST_LEAST);
    if (c->reply_bytes < REPLY_LEAST || c->reply_bytes > REPLY_MOST)
        return am_fail(NULL, -EINVAL, "ram_init: reply_bytes is %u; it must be from %u to %u",
                       c->reply_bytes, REPLY_LEAST, REPLY_MOST);
    if (c->timeout_ms < -1 || c->idle_ms < -1)
        return am_fail(NULL, -EINVAL,
                       "ram_init: timeout_ms is %d, idle_ms %d; each must be -1 or more",
                       c->timeout_ms, c->idle_ms);
    return am_context_refuse_handlers(c);
}

/* The two channels of a link. In the ring of either lie at most `credits` messages, a greeting, and a word about retiring. */
static void am_context_configure_channels(struct ram *am, const ram_config_t *c)
{
    rpipe_config_t r = {
        .context = CTX_FIRST + 2 * c->ctx,
        .timeout_ms = c->timeout_ms == 0 ? R_AT_ONCE : c->timeout_ms,
        .backend = c->btl,
        .slots = am_context_power_of_two(c->credits + 4),
        .heuristic = RMALLOC_BEST_FIT, /* requests are freed in any order */
        .mode = RPIPE_SYNC_TAGS,
        .heap_bytes = c->request_bytes,
    };

    am->request_cfg = r;
    r.context++;
    r.unit_bytes = am_context_power_of_two(c->reply_bytes);
    r.heap_bytes = (uint64_t)r.unit_bytes * c->credits;
    am->reply_cfg = r;
}

static int am_context_make_hello(struct ram *am, const ram_config_t *c)
{
    am->hello = calloc(1, wire_hello_bytes(c->nhandlers));
    if (am->hello == NULL)
        return -ENOMEM;
    am->hello->magic = WIRE_MAGIC;
    am->hello->version = WIRE_VERSION;
    am->hello->credits = c->credits;
    am->hello->nhandlers = c->nhandlers;
    am->hello->request_bytes = c->request_bytes;
    am->hello->reply_bytes = c->reply_bytes;
    for (uint32_t i = 0; i < c->nhandlers; i++) {
        am->handler[i] = c->handlers[i];
        am->handler[i].name = am->hello->name[i]; /* a copy that lives as long as the context */
        memcpy(am->hello->name[i], c->handlers[i].name, strlen(c->handlers[i].name));
    }
    return 0;
}

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

int ram_init(ram_t *am, const ram_config_t *cfg)
{
    ram_config_t c;
    struct ram *made;
    int rc;

    if (am == NULL || cfg == NULL)
        return am_fail(NULL, -EINVAL,
                       "ram_init: needs a place for the context and a configuration (NULL)");
    c = *cfg;
    rc = am_context_settle(&c);
    if (rc != 0)
        return rc;
    if (rpipe_network_ranks() < 0)
        return am_fail(NULL, -ENOTCONN, "ram_init: this process is not in a job: call rinit first");
    made = calloc(1, sizeof(*made));
    if (made == NULL)
        return am_fail(NULL, -ENOMEM, "ram_init: no memory for a context");
    made->rank = rpipe_network_rank();
    made->ranks = rpipe_network_ranks();
    made->credits = c.credits;
    made->nhandlers = c.nhandlers;
    made->reply_max = c.reply_bytes;
    made->timeout_ms = c.timeout_ms;
    made->max_links = c.max_links;
    made->idle_ms = c.idle_ms;
    made->looked = am_now_ms();
    memcpy(made->error_text, "no error", sizeof("no error"));
    made->out = calloc((size_t)made->ranks, sizeof(struct am_out *));
    made->in = calloc((size_t)made->ranks, sizeof(struct am_in *));
    made->handler = calloc((size_t)c.nhandlers + 1, sizeof(*made->handler));
    if (made->out == NULL || made->in == NULL || made->handler == NULL ||
        am_context_make_hello(made, &c) != 0) {
        am_context_destroy(made);
        return am_fail(NULL, -ENOMEM, "ram_init: no memory for a context of %d ranks",
                       rpipe_network_ranks());
    }
    am_context_configure_channels(made, &c);
    *am = made;
    return 0;
}

int ram_exit(ram_t am)
{
    int rc;

    if (!am_may_wait(am, "ram_exit", &rc))
        return rc;
    for (int i = 0; i < am->ranks; i++) {
        if (am->in[i] != NULL) {
            am_in_send_due(am, am->in[i]);
            am_in_close(am, am->in[i]);
        }
        if (am->out[i] != NULL)
            am_out_close(am, am->out[i]);
    }
    am_context_destroy(am);
    return 0;
}

int ram_stats(ram_t am, ram_stats_t *st)
{
    if (am == NULL || st == NULL)
        return am_fail(am, -EINVAL,
                       "ram_stats: needs a context and a place for the numbers (NULL)");
    *st = am->stats;
    return 0;
}
