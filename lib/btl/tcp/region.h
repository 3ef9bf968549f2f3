/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.h: memory of this process that a peer may access: the check of every frame.
 *
 * A region is a range of a slab, or registered memory. A peer names it by its number, which
 * contains a generation: the number of a region that was freed is never valid again. No value of a
 * frame is used before region_enter() has accepted it, and no pointer into a region outlives
 * region_leave(). In a stream, memory of one peer is accessed without a lock: it is unmapped after
 * every thread has left its stream.
 */
#ifndef BTL_TCP_REGION_H
#define BTL_TCP_REGION_H

#include "btl/tcp/tcp.h"

struct tcp_region;

/* The source of slabs: their registrations are struct tcp_region, or NULL for BTL_LOCAL. */
extern const struct slab_source region_source;

int regions_create(struct tcp_regions **out); /* 0 or -ENOMEM */
void regions_destroy(struct tcp_regions *regions);
/* In the child of a fork: makes the lock usable. */
void regions_forked(struct tcp_regions *regions);

/*
 * When it returns 0, nothing is placed any more in the memory that the region was registered with, and what the peer writes is lost. No lock
 * of a connection held. -EINVAL: the peer may do more than write; -ENOMEM.
 */
int region_revoke(struct btl *btl, struct tcp_region *r);
/* One more rank may access the region. 0 or -ENOMEM. */
int region_share(struct tcp_region *r, int peer);
/* A rank has ended: no region is shared with it any more. */
void regions_peer_gone(struct tcp_regions *regions, int peer);

/* What a frame does with a region. */
enum region_use { REGION_READ, REGION_WRITE, REGION_ATOMIC };

/*
 * Checks that the peer of a connection may use `bytes` at `offset` of region `id`, and locks the region, if it
 * needs a lock. Returns its memory there; NULL: refused, and nothing is locked. *entered is what region_leave needs, or NULL.
 */
char *region_enter(const struct btl_connection *c, uint64_t id, enum region_use use,
                   uint64_t offset, uint64_t bytes, struct tcp_region **entered);
void region_leave(struct tcp_region *r); /* NULL is ignored */

#endif
