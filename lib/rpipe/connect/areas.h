/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * areas.h: the memory areas of an end: ring, credit, heap, reverse ring (doc/protocol.md).
 *
 * Ring and credit area belong to the reader, the reverse ring to the writer, the heap to the reader (PUT) or the writer (GET).
 * Each end allocates its own areas before it is open, and attaches those of the peer when it joins. A pipe of cells has none
 * of them.
 */
#ifndef RPIPE_CONNECT_AREAS_H
#define RPIPE_CONNECT_AREAS_H

#include "rpipe/connect/handshake.h"
#include "rpipe/end/rch.h"
#include "util/error.h"

int areas_allocate(struct rch *ch, struct error *err);
/* The keys of the own areas, for the peer. */
void areas_offer(const struct rch *ch, struct handshake *h);
int areas_attach(struct rch *ch, const struct handshake *h, struct error *err);
/* After the connection has been set up: the shadow of the heap, and where everything is. */
int areas_attached(struct rch *ch, struct error *err);
/* Takes back what areas_allocate and areas_attach have done, as far as they got. */
void areas_release(struct rch *ch);

#endif
