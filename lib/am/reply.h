/* SPDX-License-Identifier: BSD-3-Clause */
/* reply.h: requests that can be answered. */
#ifndef AM_REPLY_H
#define AM_REPLY_H

#include "am/am.h"

/* The link of a request that can still be answered; NULL: *rc is the code. */
struct am_in *am_reply_link(const char *call, const ram_message_t *to, int *rc);
int am_reply_too_long(const struct ram *am, const char *call, size_t bytes,
                      uint32_t nargs); /* 0 or -EMSGSIZE */
/* The number of a handler of the requester. */
static inline uint32_t am_reply_handler(const struct am_in *in, uint32_t handler)
{
    return handler == WIRE_RESULT ? handler : in->numbers.there[handler];
}

#endif
