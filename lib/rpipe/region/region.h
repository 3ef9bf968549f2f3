/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.h: calls with registered memory: rregion_open, rwrite_from, rread_into (doc/regions.md).
 *
 *   registration.c      regions and their registrations with backends
 *   remote_key_cache.c  the reader of a GET pipe: keys of the writer's regions
 *   region_memory.c     memory of the library, which windows pass to peers
 *   region.c            rregion_open, rregion_close; regions when their pipe is closed
 *   region_write.c      the writer: messages from a region, and when the region may be changed again
 *   region_read.c       the reader: messages into a region
 *
 * Invariant: the words `*done` of an end are written by calls of that end only, each once: 1, or the error.
 */
#ifndef RPIPE_REGION_REGION_H
#define RPIPE_REGION_REGION_H

#include "rpipe/end/feature.h"

extern const struct end_feature region_feature;

#endif
