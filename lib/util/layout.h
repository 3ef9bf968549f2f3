/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * layout.h: structures that processes with different builds of this library exchange, and how they
 * agree on a version.
 *
 * Every such structure begins with its length in bytes, a uint32_t, as its sender has it. The
 * receiver reads it zero-extended: members that the sender does not have are 0, members that only
 * the sender has are ignored. So a structure grows at its end, and 0 in a new member has to mean
 * "as before".
 *
 * A protocol has a range of versions, from the oldest to the newest that a build can use, and 64
 * feature bits. Two processes use the newest version that both have, and the features that both
 * have set. If the ranges do not overlap, the connection fails with a message that has both ranges.
 *
 * Builds with -DRPIPE_TEST_NEWER stand for a later release (test/mixed): their newest version is
 * one higher, and the structures that have LAYOUT_APPENDED are longer. The environment variable
 * RMALLOC_TEST_DISJOINT names a protocol of which such a build has that newest version alone.
 */
#ifndef UTIL_LAYOUT_H
#define UTIL_LAYOUT_H

#include "util/error.h"

#include <stddef.h>
#include <stdint.h>

struct version_range {
    uint16_t oldest, newest;
};

#ifdef RPIPE_TEST_NEWER
#define LAYOUT_APPENDED uint64_t appended[3];
#define LAYOUT_APPENDED_BYTES 24
#else
#define LAYOUT_APPENDED
#define LAYOUT_APPENDED_BYTES 0
#endif

/* Copies a structure that begins with its length, of which `from_bytes` bytes are there. 0;
 * -EPROTO: it is shorter than `least`, or longer than what is there. `to` is written in either
 * case, and shorter than to_bytes it is extended by zeros. */
int layout_read(void *to, size_t to_bytes, const void *from, size_t from_bytes, size_t least);

/* The range of this build for the protocol `what`. */
struct version_range version_range_of(const char *what, uint16_t oldest, uint16_t newest);
/* The newest version of both; -EPROTO and a message with both ranges. `what`: "the control
 * network"; `other`: "rank 3". */
int version_agree(struct version_range own, struct version_range peer, const char *what,
                  const char *other, struct error *err);

#endif
