/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handshake.h: the half of a channel: what one end tells the other so that it can join, and what an end holds until release.
 */
#ifndef RPIPE_CONNECT_HANDSHAKE_H
#define RPIPE_CONNECT_HANDSHAKE_H

#include "rpipe/end/end.h"
#include "util/error.h"

#define HANDSHAKE_BYTES 304

struct handshake_id {
    enum side side; /* of the sender */
    int op;
    uint32_t ctx, incarnation;
};

/* Bytes of the pieces: the same at both ends, and in mirrors. */
size_t handshake_heap_bytes(const struct pipe_config *cfg);
size_t handshake_credit_bytes(const struct pipe_config *cfg);
size_t handshake_reverse_bytes(const struct pipe_config *cfg);

int handshake_allocate(struct rch *ch, struct error *err); /* the pieces that the peer will need */
void handshake_make(const struct rch *ch, unsigned char blob[HANDSHAKE_BYTES]);
bool handshake_identify(const void *blob, size_t bytes,
                        struct handshake_id *id); /* false: nonsense */
/* Compares, attaches, makes the shadow. -EPROTO and both values where the ends differ. */
int handshake_attach(struct rch *ch, const void *blob, size_t bytes, struct error *err);
void handshake_release(
    struct rch *
        ch); /* everything that handshake_allocate and handshake_attach have taken, and descriptors */

#endif
