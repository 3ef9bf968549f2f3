/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.h: opening of ends, as other parts of the library use it (open.c).
 */
#ifndef RPIPE_CONNECT_OPEN_H
#define RPIPE_CONNECT_OPEN_H

#include <stdbool.h>

struct error;
struct pipe_config;
struct rch;

/* Allocates what depends on the sizes of the pipe, which are known now. 0, or the code and the message. */
int end_size(struct rch *ch, struct error *err);
/* rpipe, and the same for cells: a resolved configuration. */
int end_open(struct rch **ch, const struct pipe_config *resolved);

#endif
