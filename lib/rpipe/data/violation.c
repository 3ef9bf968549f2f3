/* SPDX-License-Identifier: BSD-3-Clause */
/* violation.c: see violation.h. */
#include "rpipe/data/violation.h"

#include "rpipe/end/state.h"

#include <errno.h>

int violation_of_message(struct rch *ch, const char *what, const char *first, uint64_t a,
                         const char *second, uint64_t b)
{
    return end_fail(ch, -EPROTO, "message %llu of rank %d %s: %s %llu, %s %llu",
                    (unsigned long long)ch->r.nread + 1, ch->peer, what, first,
                    (unsigned long long)a, second, (unsigned long long)b);
}

int violation_of_credits(struct rch *ch, const struct violation *v)
{
    return end_fail(ch, -EPROTO, "rank %d reports %llu as %s; valid are %llu to %llu", ch->peer,
                    (unsigned long long)v->value, v->what, (unsigned long long)v->least,
                    (unsigned long long)v->most);
}
