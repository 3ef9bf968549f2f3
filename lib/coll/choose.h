/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * choose.h: the algorithm of a request: the fastest of all candidates by the cost model, or what a rule names.
 *
 * A choice depends on shape, request, model and rules alone. Where these are the same at all members, so
 * is the choice. Of the request it takes what is the same at all members: so not the counts of an alltoall,
 * which is chosen as if each block had 4096 bytes.
 */
#ifndef COLL_CHOOSE_H
#define COLL_CHOOSE_H

#include "coll/coll.h"
#include "coll/model.h"
#include "coll/rules.h"

#include <stdio.h>

/* An algorithm that awaits more messages at once, or has more steps, is chosen only where no other one exists. */
#define COLL_MESSAGES_AT_ONCE 64
#define COLL_STEPS_MOST 1024

struct coll_candidate {
    struct coll_choice choice;
    uint64_t time;     /* in picoseconds, by coll_cost() */
    const char *needs; /* of coll_needs(): it cannot be chosen; NULL: it can */
    bool large;        /* beyond the limits above */
};
#define COLL_CANDIDATES 48

/* All candidates, the best first. Returns their number. */
int coll_candidates(const struct shape *shape, const struct coll_request *request,
                    const struct coll_model *model, struct coll_candidate list[COLL_CANDIDATES]);

/* ---- the choice ---- */

/*
 * What the rules name, if it can be chosen, or else the best candidate; err then has the reason. rules
 * may be NULL. 0; -ENOTSUP: there is none; -EINVAL.
 */
int coll_choose(const struct shape *shape, const struct coll_request *request,
                const struct coll_model *model, const struct coll_rules *rules,
                struct coll_choice *choice, struct error *err);

/* "tree:4", "chain:8192", "ring". Returns its length, as snprintf does. */
int coll_choice_print(char *text, size_t bytes, const struct shape *shape,
                      const struct coll_request *request, const struct coll_choice *choice);
/* What is chosen, and a row for each candidate with its time, or with what it needs. 0 or -EIO. */
int coll_explain(FILE *to, const struct shape *shape, const struct coll_request *request,
                 const struct coll_model *model, const struct coll_rules *rules);

#endif
