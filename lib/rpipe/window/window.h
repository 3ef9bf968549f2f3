/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window.h: windows: regions that the process at the other end of a pipe writes into and fetches from (doc/windows.md).
 *
 *   handle.c   the 64 bytes that name a window
 *   window.c   the owner: rwindow_open, rwindow_sync, rwindow_revoke, rwindow_close
 *   remote.c   the user: rwindow_attach, rwindow_attach_device, rwindow_detach
 *   move.c     the user: rwindow_write, rwindow_fetch
 *
 * Invariants
 * 1. The structures of windows and remotes are type-stable, and reused in the order in which they were put back: a handle of the
 *    program that was closed is recognized for a while.
 * 2. A remote is in the list of its end (ch->remotes, under the end's lock) from rwindow_attach to rwindow_detach, or to the release
 *    of the end, which follows the close of its connection. One that a table has imported leaves it in rclose: no call of the table is
 *    made later.
 */
#ifndef RPIPE_WINDOW_WINDOW_H
#define RPIPE_WINDOW_WINDOW_H

#include "rpipe/end/call_context.h"
#include "rpipe/end/feature.h"
#include "rpipe/region/registration.h"

struct rwindow {
    _Atomic uint32_t open;
    struct rregion *region;
    bool writes_only; /* the peer may not fetch */
    const struct btl_ops *ops;
    struct btl *btl;
    struct btl_memory memory;
    char *staging; /* of a device: what the network moves in its place; NULL: none */
    struct rwindow *next_free;
};

struct rremote {
    _Atomic uint32_t open;
    struct rch *ch;
    int access; /* RWINDOW_READ, RWINDOW_WRITE */
    uint16_t number;
    rwindow_way_t way;
    uint64_t bytes;
    struct btl_remote memory;
    const rmemory_ops_t *there; /* RWINDOW_DEVICE: the table that has imported it; else NULL */
    struct rremote *next;       /* of the end, or free */
};

extern const struct end_feature window_feature;

/* Is it attached? 0, or -EINVAL and the message. */
int remote_check(const struct rremote *remote);
/* Enters the call `name` on its end, as call_begin does. */
int remote_begin(struct call *call, const char *name, const struct rremote *remote);

#endif
