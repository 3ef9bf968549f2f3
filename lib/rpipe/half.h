/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * half.h: the half of a channel: what one end tells the other so that it can join, and what an end holds until release.
 */
#ifndef RPIPE_HALF_H
#define RPIPE_HALF_H

#include "rpipe/channel.h"

#define HALF_BYTES 192

struct half_id {
    enum side side; /* of the sender */
    int op;
    uint32_t ctx, incarnation;
};

int half_allocate(struct rch *ch, char *why, size_t why_bytes); /* the pieces that the peer will need */
void half_make(const struct rch *ch, unsigned char blob[HALF_BYTES]);
bool half_identify(const void *blob, size_t bytes, struct half_id *id); /* false: nonsense */
/* Compares, attaches, makes the shadow. -EPROTO and both values where the ends differ. */
int half_attach(struct rch *ch, const void *blob, size_t bytes, char *why, size_t why_bytes);
void half_release(struct rch *ch); /* everything that half_allocate and half_attach have taken, and descriptors */

#endif
