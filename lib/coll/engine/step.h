/* SPDX-License-Identifier: BSD-3-Clause */
/* step.h: one step of an operation: executed, or found to wait. */
#ifndef COLL_ENGINE_STEP_H
#define COLL_ENGINE_STEP_H

#include "coll/engine/operation.h"

/* Tries step i of the part of the plan that runs. What it has done of it stays done. */
int step_try(struct rteam *t, struct rplan *plan, uint32_t i);

/* A SEND of at most what a cell has, which is there. STEP_DONE, or STEP_WAITS: the cell is not free. */
int step_send_cell(struct rteam *t, const struct operation *o, const struct step *s);

/* A word that changes when step i, which waits, can go on. False: no word in memory of this host does. */
bool step_word(const struct rteam *t, const struct rplan *plan, uint32_t i, rboard_word_t *word);

#endif
