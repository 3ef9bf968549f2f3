/* SPDX-License-Identifier: BSD-3-Clause */
/* path_remote_read.h: the reader of a pipe over a network (path_remote_read.c). */
#ifndef RPIPE_DATA_PATH_REMOTE_READ_H
#define RPIPE_DATA_PATH_REMOTE_READ_H

#include "rpipe/data/path_remote.h"

bool remote_message_ready(struct rch *ch);
bool remote_message_before_join(struct rch *ch);
bool remote_next_size(struct rch *ch, size_t *size);
int remote_take(struct rch *ch, struct rdesc **d, size_t *size);
int remote_at_end(struct rch *ch, uint32_t state);
void remote_release_block(struct rch *ch, uint32_t block);
void remote_releases_open(struct rch *ch);
void remote_releases_close(struct rch *ch);

#endif
