/* SPDX-License-Identifier: BSD-3-Clause */
/* path_remote_write.h: the writer of a pipe over a network: messages (path_remote_write.c). */
#ifndef RPIPE_DATA_PATH_REMOTE_WRITE_H
#define RPIPE_DATA_PATH_REMOTE_WRITE_H

#include "rpipe/data/path_remote.h"

int remote_publish(struct rch *ch, struct write_arguments *a, size_t bytes, uint64_t sent);

/* Drives transfers from registered memory: path_ops.transfers_drive. */
int remote_transfers_drive(struct rch *ch);

/* Posts the writes that the backend holds. `more`: it may hold later ones. */
void remote_hold(struct rch *ch, bool more);

#endif
