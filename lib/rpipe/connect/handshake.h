/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * half.h: the half of a channel: what one end tells the other so that it can join, and what an end holds until release.
 */
#ifndef RPIPE_HALF_H
#define RPIPE_HALF_H

#include "rpipe/end/end.h"

#define HALF_BYTES 304

struct half_id {
    enum side side; /* of the sender */
    int op;
    uint32_t ctx, incarnation;
};

/* Bytes of the pieces: the same at both ends, and in mirrors. */
size_t half_heap_bytes(const rmalloc_config_t *cfg);
size_t half_credit_bytes(const rmalloc_config_t *cfg);
size_t half_reverse_bytes(const rmalloc_config_t *cfg);

int half_allocate(struct rch *ch, char *why, size_t why_bytes); /* the pieces that the peer will need */
void half_make(const struct rch *ch, unsigned char blob[HALF_BYTES]);
bool half_identify(const void *blob, size_t bytes, struct half_id *id); /* false: nonsense */
/* Compares, attaches, makes the shadow. -EPROTO and both values where the ends differ. */
int half_attach(struct rch *ch, const void *blob, size_t bytes, char *why, size_t why_bytes);
void half_release(struct rch *ch); /* everything that half_allocate and half_attach have taken, and descriptors */

#endif
