/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cells_open.c: rcells_open, rcells_flush, rcells_close: the life of an array of cells.
 *
 * A rcells_t is the end itself: an end whose configuration has OP_CELLS, with a context of its own family, so that cells and
 * pipes of the same context do not meet. It carries no messages; the calls of pipes refuse it (STATE_CELLS).
 */
#include "cells/cells.h"

#include "rpipe/data/attempt.h"

#include "rpipe/connect/close.h"
#include "rpipe/connect/open.h"
#include "rpipe/end/call.h"
#include "rpipe/end/config.h"
#include "rpipe/end/error.h"
#include "rpipe/end/job_state.h"
#include "util/sized.h"

#include <errno.h>

rch_t rcells_pipe(rcells_t cells) { return (rch_t)(void *)cells; }

/* As call_begin, for an end that must have cells. */
static int cells_open_begin(struct call *call, const char *name, struct rch *ch)
{
    int rc = call_begin(call, name, ch, 0);

    if (rc == 0 && ch->cfg.op != OP_CELLS)
        rc = call_error(ch, -EBADF, "this is a pipe of messages; rcells_open opens cells");
    return rc;
}

static int cells_open_check_shared(struct rch *shared)
{
    struct call call;

    return call_end(&call, cells_open_begin(&call, "rcells_open: shared", shared));
}

static int cells_open_end(rcells_t *cells, const rcells_config_t *cfg, size_t size)
{
    struct pipe_config resolved;
    struct error err = {""};
    rcells_config_t known;
    struct rch *shared, *ch;
    int rc = job_check();

    if (rc != 0)
        return rc;
    if (cells == NULL || cfg == NULL)
        return call_error(NULL, -EINVAL, "%s is NULL", cells == NULL ? "cells" : "cfg");
    rc = sized_copy(&known, sizeof(known), cfg, size, &err);
    shared = rc == 0 ? rcells_pipe(known.shared) : NULL;
    if (shared != NULL && (rc = cells_open_check_shared(shared)) != 0)
        return rc;
    if (shared != NULL && known.cells == 0)
        known.cells = shared->cfg.heap_bytes / sizeof(uint64_t);
    if (rc == 0)
        rc = config_resolve_cells(&known, &resolved, job_ranks(), &err);
    if (rc != 0)
        return call_error(NULL, rc, "%s", err.text);
    resolved.cells_of = shared;
    rc = end_open(&ch, &resolved);
    if (rc == 0)
        *cells = (rcells_t)(void *)ch;
    return rc;
}

int(rcells_open)(rcells_t *cells, const rcells_config_t *cfg, size_t size)
{
    struct call call;

    call_enter(&call, "rcells_open");
    return call_end(&call, cells_open_end(cells, cfg, size));
}

int rcells_flush(rcells_t cells)
{
    struct rch *ch = rcells_pipe(cells);
    struct call call;
    int rc = cells_open_begin(&call, "rcells_flush", ch);

    return call_end(&call, rc == 0 ? end_flush(ch, "rcells_flush", 0) : rc);
}

int rcells_close(rcells_t cells)
{
    struct rch *ch = rcells_pipe(cells);
    struct call call;
    int rc = cells_open_begin(&call, "rcells_close", ch);

    return call_end(&call, rc == 0 ? end_close(ch, "rcells_close", false) : rc);
}
