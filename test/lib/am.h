/* SPDX-License-Identifier: BSD-3-Clause */
/* am.h: assertions of active messages, and configurations. */
#ifndef TEST_LIB_AM_H
#define TEST_LIB_AM_H

#include "test/lib/check.h"

#include <ram.h>

#define AM_RC(expected, call) check_code(__FILE__, __LINE__, #call, (expected), (call), NULL)
#define AM_OK(call) AM_RC(0, call)

static inline ram_config_t am_config(const ram_handler_t *handlers, uint32_t n, uint32_t credits,
                                     uint32_t request_bytes, uint32_t reply_bytes)
{
    ram_config_t cfg = {0};

    cfg.handlers = handlers;
    cfg.nhandlers = n;
    cfg.credits = credits;
    cfg.request_bytes = request_bytes;
    cfg.reply_bytes = reply_bytes;
    return cfg;
}

static inline uint64_t am_count(ram_t am, const char *name)
{
    uint64_t value = UINT64_MAX;

    AM_OK(ram_count(am, name, &value));
    return value;
}

/* A handler: replies with the sum of the arguments and of *arg. */
static inline void am_on_sum(ram_t am, ram_message_t *m, void *arg)
{
    uint64_t sum = *(const uint64_t *)arg;

    for (uint32_t i = 0; i < m->nargs; i++)
        sum += m->args[i];
    AM_OK(ram_reply(am, m, RAM_RESULT, &sum, 1, NULL, 0));
}

#endif
