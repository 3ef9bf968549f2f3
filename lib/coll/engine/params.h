/* SPDX-License-Identifier: BSD-3-Clause */
/* params.h: the parameters of an operation: checked, copied, compared, and as a request to lib/coll. */
#ifndef COLL_ENGINE_PARAMS_H
#define COLL_ENGINE_PARAMS_H

#include "coll/engine/team.h"

/* Checks parameters as far as this member sees them. 0, or -EINVAL or -ENOTSUP and a message. */
int params_check(const struct rteam *t, const rcoll_params_t *p, struct error *err);
/* The buffers alone: whether this member has those that it needs. */
bool params_have_buffers(const struct rteam *t, const rcoll_params_t *p);
/* What lib/coll makes a plan of. Arrays are not copied. */
struct coll_request params_request(const rcoll_params_t *p);
/* What must be the same at all members, but for algorithm and parts. */
uint32_t params_hash(const struct rteam *t, const rcoll_params_t *p);
/*
 * Whether they differ in buffers only, word by word: what is found at once where arrays and texts are NULL. Those of a plan are copies, so
 * with others it is false, and params_equal() compares what they have.
 */
static inline bool params_same(const rcoll_params_t *a, const rcoll_params_t *b)
{
    const size_t before = offsetof(rcoll_params_t, from), behind = offsetof(rcoll_params_t, count);
    uint64_t x, y, differs = 0;

    static_assert(offsetof(rcoll_params_t, from) == 16 && offsetof(rcoll_params_t, count) == 32 &&
                      sizeof(rcoll_params_t) == 112,
                  "words without padding");
    for (size_t i = 0; i < before; i += sizeof(x)) {
        memcpy(&x, (const char *)a + i, sizeof(x));
        memcpy(&y, (const char *)b + i, sizeof(y));
        differs |= x ^ y;
    }
    for (size_t i = behind; i < sizeof(*a); i += sizeof(x)) {
        memcpy(&x, (const char *)a + i, sizeof(x));
        memcpy(&y, (const char *)b + i, sizeof(y));
        differs |= x ^ y;
    }
    return differs == 0;
}

/* Whether two plans differ in buffers only. */
bool params_equal(const struct rteam *t, const rcoll_params_t *a, const rcoll_params_t *b);
/* Copies p, and its arrays into one allocation, *to->counts, offsets, ... point to; released by params_free. 0 or -ENOMEM. */
int params_copy(const struct rteam *t, rcoll_params_t *to, const rcoll_params_t *p,
                struct error *err);
void params_free(rcoll_params_t *p);

#endif
