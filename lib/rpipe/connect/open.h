/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.h: opening of ends, as other parts of the library use it (open.c).
 */
#ifndef RPIPE_CONNECT_OPEN_H
#define RPIPE_CONNECT_OPEN_H

#include <stdbool.h>

struct pipe_config;
struct rch;

/* rpipe, and the same for cells: a resolved configuration. */
int end_open(struct rch **ch, const char *call, const struct pipe_config *resolved);

#endif
