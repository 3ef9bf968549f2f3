/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limits.h: what a plan takes of the board of a member, at most: the same at all members, unlike the graphs of some of them.
 */
#ifndef COLL_LIMITS_H
#define COLL_LIMITS_H

#include "coll/coll.h"

struct coll_limits {
    uint64_t slots;
    uint64_t bytes; /* of all messages that a member sends; saturates */
};

struct coll_limits coll_limits(const struct shape *shape, const struct coll_request *request,
                               const struct coll_choice *choice);

/* What coll_needs() finds, or more messages than the board of a member has slots; NULL: nothing. */
const char *coll_needs_here(const struct shape *shape, const struct coll_request *request,
                            const struct coll_choice *choice);

#endif
