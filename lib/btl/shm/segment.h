/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segment.h: one piece of shared memory without a name: made, sealed and passed on here; or received, checked, mapped.
 *
 * Made: memfd_create, fallocate (after a look at how much memory there is, so that too little is an error now and not a
 * SIGBUS later), mapped, sealed: F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_SEAL always, F_SEAL_FUTURE_WRITE where the peer only reads.
 * Nothing has a name in any file system, so kill -9 leaves nothing behind.
 */
#ifndef BTL_SHM_SEGMENT_H
#define BTL_SHM_SEGMENT_H

#include "util/error.h"

#include <stdbool.h>
#include <stddef.h>

struct segment {
    void *base;
    size_t bytes;
};

/* bytes: rounded up to whole pages. *fd is the caller's to pass on and close. */
int segment_make(size_t bytes, bool peer_writes, bool huge, struct segment *s, int *fd,
                 struct error *err);
/* Checks seals and size, maps; the descriptor stays the caller's. */
int segment_map(int fd, size_t bytes, bool writable, struct segment *s, struct error *err);
void segment_unmap(struct segment *s);
/* Are memfd and seals to be had here? */
int segment_query(struct error *err);

#endif
