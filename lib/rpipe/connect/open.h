/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.h: opening and closing of ends, as other parts of the library use it (open.c).
 */
#ifndef RPIPE_CONNECT_OPEN_H
#define RPIPE_CONNECT_OPEN_H

#include <stdbool.h>

struct pipe_config;
struct rch;

/* rpipe, and the same for cells: a resolved configuration. */
int end_open(struct rch **ch, const char *call, const struct pipe_config *resolved);

/* rclose. `force`: also while transfers from the program's memory are in flight. */
int end_close(struct rch *ch, bool force);

#endif
