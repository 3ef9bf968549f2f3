/* SPDX-License-Identifier: BSD-3-Clause */
/* path_remote_window.h: transfers to and from windows of the peer (path_remote_window.c). */
#ifndef RPIPE_DATA_PATH_REMOTE_WINDOW_H
#define RPIPE_DATA_PATH_REMOTE_WINDOW_H

#include "rpipe/data/path_remote.h"

static inline bool remote_moves_pending(const struct rch *ch)
{
    const struct remote_moves *w = &ch->remote->moves;

    return w->first != w->end && !w->aborted;
}

int remote_move(struct rch *ch, const struct window_move *m); /* path_ops.move */
bool remote_moves_need_flush(const struct rch *ch);           /* the oldest one is a write */
void remote_moves_complete(struct rch *ch); /* slots read, flushes or completions have grown */
void remote_moves_abort(struct rch *ch, int code);
void remote_moves_release(struct rch *ch); /* the connection is closed */

#endif
