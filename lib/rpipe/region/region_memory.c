/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region_memory.c: regions whose memory is the library's: a segment, or what the table of a device allocates, so that a window of the
 * region can be mapped or imported by its peer (registration.h, doc/windows.md). It belongs to no pipe and no peer: each window passes
 * the descriptor to the one peer that it is open to.
 *
 * Invariant: a segment is sealed against a change of its size, so that neither process can take memory from the other.
 */
#include "rpipe/region/registration.h"

#include "rpipe/end/device.h"
#include "rpipe/end/job_state.h"
#include "util/fork_fds.h"

int region_memory_make(struct rregion *r, size_t bytes, struct error *err)
{
    int rc = r->memory != NULL ? device_make(r->memory, bytes, &r->base, &r->fd, err)
                               : segment_make(bytes, true, false, &r->segment, &r->fd, err);

    if (rc != 0) {
        r->segment.base = NULL;
        r->fd = -1;
        return rc;
    }
    fork_fds_add(r->fd);
    r->made = r->memory != NULL;
    if (!r->made)
        r->base = r->segment.base;
    r->bytes = bytes;
    return 0;
}

void region_memory_release(struct rregion *r)
{
    const rmemory_ops_t *m = r->memory;

    if (r->segment.base == NULL && !r->made)
        return;
    if (!job_is_forked()) { /* its child has no descriptor, and no device, of its parent's */
        fork_fds_close(r->fd);
        if (r->made)
            m->free(m->argument, r->base, r->bytes);
    }
    if (!r->made)
        segment_unmap(&r->segment);
    r->made = false;
    r->fd = -1;
}
