/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link_out.h: links to peers: opening and closing of their pipes, their calls, their end.
 *
 *     CLOSED -> OPENING (both pipes are open) -> OPEN (the greeting has been sent)
 *     OPEN -> RETIRING -> CLOSED, or back to OPEN, as the target decides
 *     any -> ENDED (dead, closed, refused, violation) -> CLOSED, when the program owns no memory of it
 */
#ifndef AM_LINK_OUT_H
#define AM_LINK_OUT_H

#include "am/am.h"

/* The link to a peer; allocates it. NULL: no memory. */
struct am_out *am_out_make(struct ram *am, int peer);
int am_out_open(struct ram *am,
                struct am_out *out); /* CLOSED: opens both pipes. 0, or the code and its message */
void am_out_close(struct ram *am, struct am_out *out);
/* Ends a link with an error: its calls are done with this code. */
void am_out_end(struct ram *am, struct am_out *out, int code, const char *why);
void am_out_release(struct ram *am,
                    struct am_out *out); /* the program owns one message or buffer less */
void am_out_retire_idle(struct ram *am, int64_t now);

/* The call with this token, or NULL: no such call waits. */
struct am_call *am_out_find_call(const struct ram *am, struct am_out *out, uint32_t token);
void am_out_call_done(struct ram *am, struct am_out *out, struct am_call *call, int result,
                      bool has_credit);

/* Frees a call: another request can take it. */
static inline void am_call_free(struct am_out *out, struct am_call *call)
{
    uint32_t index = call->token & 0xff;

    if (call->has_credit)
        out->in_use--;
    call->state = CALL_FREE;
    call->token = (call->token + 0x100) | index; /* the next generation */
    if (AM_UNLIKELY(call->token < 0x100))
        call->token += 0x100; /* 0 is not a token */
    call->next = out->free_call;
    out->free_call = index;
}

#endif
