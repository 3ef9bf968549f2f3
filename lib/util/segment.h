/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segment.h: an unnamed shared-memory segment: created, sealed and passed on here; or received,
 * checked and mapped.
 *
 * Created: memfd_create, fallocate (after a check of the available memory, so that a lack of it is
 * an error now and no SIGBUS later), mapped, sealed: F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_SEAL
 * always, F_SEAL_FUTURE_WRITE if the peer only reads. A segment has no name in any file system, so
 * that kill -9 leaves nothing behind.
 */
#ifndef UTIL_SEGMENT_H
#define UTIL_SEGMENT_H

#include "util/error.h"

#include <stdbool.h>
#include <stddef.h>

struct segment {
    void *base;
    size_t bytes;
    bool huge; /* received, in pages of hugetlb */
};

/* Creates a segment of at least `bytes`, in whole pages. The caller passes *fd on and closes it. */
int segment_make(size_t bytes, bool peer_writes, bool huge, struct segment *s, int *fd,
                 struct error *err);
/* The bytes of such a segment for `bytes` that are requested without huge pages. */
size_t segment_bytes(size_t bytes);
/*
 * Checks seals, size and memory of a received descriptor, then maps it. The descriptor stays the
 * caller's.
 */
int segment_map(int fd, size_t bytes, bool writable, struct segment *s, struct error *err);
/* Small segments get their page tables now, so that the first accesses do not fault. A hint: Linux before 5.14 does nothing. */
void segment_populate(const struct segment *s);
void segment_unmap(struct segment *s);
/* Whether this kernel has memfd and seals: 0, or -errno; either way err describes it. */
int segment_query(struct error *err);

#endif
