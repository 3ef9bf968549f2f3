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

/* Whole pages of a segment, before its last one, that are not allocated when it is made. */
struct segment_late {
    size_t at, bytes;
};

/* Creates a segment of at least `bytes`, in whole pages. The caller passes *fd on and closes it. */
int segment_make(size_t bytes, bool peer_writes, bool huge, struct segment *s, int *fd,
                 struct error *err);
/* The same, in small pages, without `late`, at any page; the peer does not write. */
int segment_make_late(size_t bytes, struct segment_late late, struct segment *s, int *fd,
                      struct error *err);
/* Whether this kernel has segment_allocate_late(). */
bool segment_has_late(void);
/* Allocates whole pages of an own segment. 0, or -errno: a store there may be a SIGBUS. */
int segment_allocate_late(void *at, size_t bytes);
/* The bytes of such a segment for `bytes` that are requested without huge pages. */
size_t segment_bytes(size_t bytes);
/*
 * Checks seals, size and memory of a received descriptor, then maps it. The descriptor stays the
 * caller's.
 */
int segment_map(int fd, size_t bytes, bool writable, struct segment *s, struct error *err);
/* The same, of one of segment_make_late, for reading: `late` bytes of it need not be allocated. */
int segment_map_late(int fd, size_t bytes, size_t late, struct segment *s, struct error *err);
/* Small segments get their page tables now, so that the first accesses do not fault. A hint: Linux before 5.14 does nothing. */
void segment_populate(const struct segment *s);
void segment_unmap(struct segment *s);
/* Whether this kernel has memfd and seals: 0, or -errno; either way err describes it. */
int segment_query(struct error *err);

#endif
