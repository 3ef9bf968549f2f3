/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * row.h: short steps that follow each other, executed in one loop.
 *
 * A step is *quick* if it moves at most what a cell has and waits for nothing but the number of its cell: a SEND or RECV of a cell, and a
 * FOLD or COPY of what such a message or this process has. In the order of the program each step follows what it needs, so a quick step
 * that is the first one left needs no check of what is before it. A collective of short messages is one row at most members.
 */
#ifndef COLL_ENGINE_ROW_H
#define COLL_ENGINE_ROW_H

#include "coll/engine/operation.h"

/* Finds the cells of the steps of a program of the plan, and which steps are quick. 0; -ENOMEM. */
int row_bind(const struct rplan *plan, struct program *p, struct error *err);

/*
 * Executes quick steps from op.next on, which it advances. STEP_DONE: the next step is not quick, or there is none. STEP_WAITS: the next
 * one waits. Or a failure. Only while no step behind op.next has been done.
 */
int row_run(struct rteam *t, struct rplan *plan);

#endif
