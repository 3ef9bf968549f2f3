/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connector.h: what the connection code (rpipe/connect) does for the layers below it. It sets the table at rinit; nothing
 * below calls it by name.
 */
#ifndef RPIPE_END_CONNECTOR_H
#define RPIPE_END_CONNECTOR_H

#include "rpipe/end/rch.h"

struct connector {
    /* The last thread has left a call on a closed end. The end may be gone afterwards. */
    void (*release_if_done)(struct rch *ch);
    void (*release_locked)(struct rch *ch); /* the same with the rendezvous lock held */
    /* What the peer has opened and this process has not, for the message of a deadline. Never NULL. */
    const char *(*pending)(const struct rch *ch);
    /* Writer, ATTACHED -> JOINED: 0, R_PENDING, or the error. */
    int (*complete)(struct rch *ch, int64_t deadline);
};

extern const struct connector *end_connector;

static inline int end_join_complete(struct rch *ch, int64_t deadline)
{
    return end_connector->complete(ch, deadline);
}

#endif
