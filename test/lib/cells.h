/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cells.h: arrays of cells in tests that treat all ends alike, and so keep the end of an array as a rch_t.
 */
#ifndef TEST_LIB_CELLS_H
#define TEST_LIB_CELLS_H

#include <rpipe.h>
#include <stdbool.h>

/* The array of an end: what rcells_pipe() has returned. */
static inline rcells_t cells_at(rch_t ch) { return (rcells_t)(void *)ch; }

/* Opens one end with a configuration of a pipe: peer, context, deadline, flags; heap_bytes / 8 cells. */
static inline int cells_open(rch_t *ch, const rpipe_config_t *cfg, bool user, rch_t shared)
{
    rcells_config_t c = {.role = user ? RCELLS_USER : RCELLS_OWNER,
                         .peer = cfg->peer,
                         .context = cfg->context,
                         .cells = cfg->heap_bytes / sizeof(uint64_t),
                         .shared = cells_at(shared),
                         .timeout_ms = cfg->timeout_ms,
                         .flags = cfg->flags,
                         .backend = cfg->backend};
    rcells_t cells;
    int rc = rcells_open(&cells, &c);

    if (rc == R_SUCCESS)
        *ch = rcells_pipe(cells);
    return rc;
}

/* Closes an end of either kind. */
static inline int cells_or_pipe_close(rch_t ch)
{
    int rc = rclose(ch);

    return rc == -EBADF ? rcells_close(cells_at(ch)) : rc;
}

#endif
