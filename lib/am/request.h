/* SPDX-License-Identifier: BSD-3-Clause */
/* request.h: sending requests. */
#ifndef AM_REQUEST_H
#define AM_REQUEST_H

#include "am/am.h"

/* Sends a request on an open link. d: memory of the pipe with the payload in it; ADDR_NULL: copies data. */
int am_request_send(struct ram *am, struct am_out *out, const struct wire *w, const uint64_t *args,
                    const void *data, raddr_t d, ram_request_t *r);
/* Opens the link if necessary, and waits until the request can be sent; runs handlers meanwhile. */
int am_request_wait(struct ram *am, int peer, const char *call, const struct wire *w,
                    const uint64_t *args, const void *data, ram_request_t *r);
/* Is the request valid? If not, *rc is the code. */
bool am_request_fits(struct ram *am, const char *call, size_t bytes, uint32_t handler,
                     const uint64_t *args, uint32_t nargs, const void *data, int *rc);
/* A call on the writer of the link has failed: concerns this request only, or ends the link. Returns the code. */
int am_request_broken(struct ram *am, struct am_out *out, const char *call, int code);

/* How often the link to a peer has ended. A link that ends while a call waits for it ends the call. */
uint32_t am_request_endings(const struct ram *am, int peer);
bool am_request_has_link(struct ram *am, int peer, uint32_t before, const char *call, int *rc);

#endif
