/* SPDX-License-Identifier: BSD-3-Clause */
/* names.h: a number for each team of a process, the same at all its members, without communication. */
#ifndef COLL_ENGINE_NAMES_H
#define COLL_ENGINE_NAMES_H

#include "util/error.h"

#include <stdint.h>

/*
 * The context of the board and the pipes of a team: a hash of its context, its ranks, and how many teams of these this process has
 * opened before. Members open them in the same order. 0 or -ENOMEM.
 */
int name_take(uint64_t *name, uint64_t context, const int *ranks, int n, struct error *err);
/* By which it counts: different for teams that differ in their context or ranks. */
uint64_t name_key(uint64_t context, const int *ranks, int n);

#endif
