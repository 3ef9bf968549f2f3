/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region_memory.c: regions whose memory is the library's: a segment, so that a window of the region can be mapped by its peer
 * (registration.h, doc/windows.md). It belongs to no pipe and no peer: each window passes the descriptor to the one peer that it is
 * open to.
 *
 * Invariant: the segment is sealed against a change of its size, so that neither process can take memory from the other.
 */
#include "rpipe/region/registration.h"

#include "rpipe/end/job_state.h"
#include "util/fork_fds.h"

int region_memory_make(struct rregion *r, size_t bytes, struct error *err)
{
    int rc = segment_make(bytes, true, false, &r->segment, &r->fd, err);

    if (rc != 0) {
        r->segment.base = NULL;
        r->fd = -1;
        return rc;
    }
    fork_fds_add(r->fd);
    r->base = r->segment.base;
    r->bytes = bytes;
    return 0;
}

void region_memory_release(struct rregion *r)
{
    if (r->segment.base == NULL)
        return;
    segment_unmap(&r->segment);
    if (!job_is_forked()) /* the child of a fork has no descriptor of its parent's */
        fork_fds_close(r->fd);
    r->fd = -1;
}
