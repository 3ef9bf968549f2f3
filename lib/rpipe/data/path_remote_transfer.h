/* SPDX-License-Identifier: BSD-3-Clause */
/* path_remote_transfer.h: transfers from registered memory, and flushes (path_remote_transfer.c). */
#ifndef RPIPE_DATA_PATH_REMOTE_TRANSFER_H
#define RPIPE_DATA_PATH_REMOTE_TRANSFER_H

#include "rpipe/data/path_remote.h"

int remote_transfers_reserve(
    struct rch *ch); /* one more can be recorded: 0, R_PENDING or -ENOMEM */
void remote_transfer_posted(struct rch *ch, const struct region_source *from, uint64_t sequence);
void remote_transfers_complete(
    struct rch *ch); /* slots read, payloads fetched or placed have grown */
static inline bool remote_transfers_any(const struct rch *ch) /* of messages from regions */
{
    const struct remote_transfers *t = &ch->remote->transfers;

    return t->first != t->end && !t->aborted;
}

bool remote_transfers_pending(const struct rch *ch); /* or to or from windows */
void remote_transfers_abort(struct rch *ch, int code);
void remote_transfers_release(struct rch *ch); /* the connection is closed */
int remote_flush(struct rch *ch);              /* 0, -EAGAIN, or the connection's error */
/* By a flush that was begun within the call whose `since` it is: an earlier one proves nothing about what followed it. */
int remote_flush_since(struct rch *ch, uint64_t *since);

#endif
