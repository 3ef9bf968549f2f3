/* SPDX-License-Identifier: BSD-3-Clause */
/* path_remote_drain.h: before a connection is closed (path_remote_drain.c). */
#ifndef RPIPE_DATA_PATH_REMOTE_DRAIN_H
#define RPIPE_DATA_PATH_REMOTE_DRAIN_H

#include "rpipe/data/path_remote.h"

int remote_drain(struct rch *ch, uint64_t *since);
int remote_drained(struct rch *ch);

#endif
