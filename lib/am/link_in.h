/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link_in.h: links from peers: accepted, answered, closed.
 *
 * A peer that sends requests opens the two pipes of a link; rpending lists them. A link that ends is closed at once, unless
 * the program still owns memory of it.
 */
#ifndef AM_LINK_IN_H
#define AM_LINK_IN_H

#include "am/am.h"

void am_in_accept(struct ram *am); /* opens the links that peers have opened */
int am_in_proceed(struct ram *am,
                  struct am_in *in); /* continues with opening; 0, R_PENDING or an error */
void am_in_end(struct ram *am, struct am_in *in);
void am_in_close(struct ram *am, struct am_in *in);
void am_in_release(struct ram *am,
                   struct am_in *in); /* the program owns one message or buffer less */

/* Ends the link with an error; returns the code. */
int am_in_fail(struct ram *am, struct am_in *in, int code, const char *why);
/* The peer has violated the protocol: -EPROTO. what: "a malformed message". */
int am_in_violation(struct ram *am, struct am_in *in, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/*
 * Sends the answer to a request. d: memory of the pipe with the payload in it; ADDR_NULL: copies data. May wait for the
 * network, never for a program. 0, or the code and its message; then the link may have ended.
 */
int am_in_answer(struct ram *am, struct am_in *in, const struct wire *w, const uint64_t *args,
                 const void *data, raddr_t d);
/* The empty answer; for a request without a call (token 0) an acknowledgement, which may be sent later. */
void am_in_answer_empty(struct ram *am, struct am_in *in, uint32_t token);
/* Sends a message of the link itself, which takes no credit. 0 or an error. */
int am_in_send_text(struct ram *am, struct am_in *in, enum wire_kind kind, const char *text);
void am_in_send_due(struct ram *am, struct am_in *in); /* acknowledgements */
/* Memory of the pipe for a reply; NULL: errno is the code, the message is set. */
void *am_in_reply_memory(struct am_in *in, size_t size, raddr_t *d);

#endif
