/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.h: a message that has arrived, as the program sees it; its handler; its end.
 *
 * A request is answered exactly once: by ram_reply or ram_send, or without contents when its handler returns or when the
 * message that was kept is freed.
 */
#ifndef AM_MESSAGE_H
#define AM_MESSAGE_H

#include "am/am.h"

#include <string.h>

/* Fills in *m from a message in memory of a pipe. */
static AM_INLINE void am_message_make(ram_message_t *m, int peer, const struct wire *w,
                                      const void *mem, void *link, raddr_t d, uint32_t flags)
{
    const char *args = (const char *)mem + w->bytes + wire_pad(w->bytes);

    m->peer = peer;
    m->handler = w->handler;
    m->nargs = w->nargs;
    m->zero = 0;
    m->data = (void *)(uintptr_t)mem;
    m->bytes = w->bytes;
    for (uint32_t i = 0; i < w->nargs; i++, args += sizeof(uint64_t))
        memcpy(&m->args[i], args, sizeof(uint64_t));
    m->internal.link = link;
    m->internal.d = d;
    m->internal.token = w->token;
    m->internal.flags = flags;
}

static AM_INLINE void am_message_run(struct ram *am, ram_message_t *m)
{
    const ram_handler_t *h = &am->handler[m->handler];

    am->in_handler = true;
    am->counts.handled++;
    h->run(am, m, h->argument);
    am->in_handler = false;
}

/* Frees the memory of a message, and answers a request that has not been answered. */
void am_message_finish(struct ram *am, ram_message_t *m);

#endif
