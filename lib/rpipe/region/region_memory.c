/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region_memory.c: memory of regions that is the library's (registration.h, doc/windows.md).
 *
 * A region of its own: a segment, or what the table of a device allocates, so that a window of the region can be mapped or imported by its
 * peer. It belongs to no pipe and no peer: each window passes the descriptor to the one peer that it is open to.
 *
 * Beside memory of a device: staging memory, a segment of the same size in memory of the host, which networks move that do not reach the
 * device. A region has one for all its windows, so that these show one memory, as they do without a copy.
 *
 * Invariants
 * 1. A segment is sealed against a change of its size, so that neither process can take memory from the other.
 * 2. Staging memory is made by the first window that needs it and ends with the region, behind all registrations of it.
 */
#include "rpipe/region/registration.h"

#include "rpipe/end/device.h"
#include "rpipe/end/job_state.h"
#include "util/fork_fds.h"

#include <unistd.h>

/* Of the segments of regions of devices: two windows of a region may be opened at the same time. */
static pthread_mutex_t region_memory_lock = PTHREAD_MUTEX_INITIALIZER;

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

int region_memory_stage(struct rregion *r, char **staging, struct error *err)
{
    int fd, rc = 0;

    pthread_mutex_lock(&region_memory_lock);
    if (r->segment.base == NULL) {
        rc = segment_make(r->bytes, true, false, &r->segment, &fd, err);
        if (rc == 0)
            close(fd); /* no process maps it */
        else
            r->segment.base = NULL;
    }
    if (rc == 0)
        *staging = r->segment.base;
    pthread_mutex_unlock(&region_memory_lock);
    return rc;
}

void region_memory_release(struct rregion *r)
{
    const rmemory_ops_t *m = r->memory;

    if (!job_is_forked()) { /* its child has no descriptor, and no device, of its parent's */
        fork_fds_close(r->fd);
        if (r->made)
            m->free(m->argument, r->base, r->bytes);
    }
    if (r->segment.base != NULL)
        segment_unmap(&r->segment);
    r->made = false;
    r->fd = -1;
}
