/* SPDX-License-Identifier: BSD-3-Clause */
/* dump.c: rcoll_dump. */
#include "coll/graph_dump.h"

#include "coll/engine/fail.h"
#include "coll/engine/plan.h"
#include "coll/engine/params.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The graphs of all members: builders communicate nothing, so that any member can make all of them. */
static int dump_all(const struct rplan *plan, enum graph_format format, FILE *to)
{
    const struct rteam *t = plan->team;
    struct coll_request r = params_request(&plan->params);
    struct graph *graphs = calloc((size_t)t->size, sizeof(*graphs));
    struct error err = {""};
    int rc = 0;

    if (graphs == NULL)
        return coll_fail(-ENOMEM, "rcoll_dump: no memory for %d graphs", t->size);
    for (int i = 0; i < t->size && rc == 0; i++)
        rc = coll_build(&graphs[i], &t->shape, i, &r, &plan->choice, &err);
    if (rc == 0)
        rc = graph_dump(to, format, graphs, t->size);
    for (int i = 0; i < t->size; i++)
        graph_free(&graphs[i]);
    free(graphs);
    return rc == 0
               ? 0
               : coll_fail(rc, "rcoll_dump: %s", err.text[0] != '\0' ? err.text : strerror(-rc));
}

int rcoll_dump(rplan_t plan, rcoll_format_t format, FILE *to)
{
    int rc;

    if (plan == NULL || to == NULL || (unsigned)format >= GRAPH_FORMATS)
        return coll_fail(-EINVAL,
                         "rcoll_dump: plan or to is NULL, or format is %d; there are %d formats",
                         (int)format, GRAPH_FORMATS);
    if (format == RCOLL_DOT || format == RCOLL_GOAL) {
        if (plan->of_graph || plan->parts.counted)
            return coll_fail(
                -ENOTSUP,
                "rcoll_dump: this format is of all members, and this member has the graph "
                "of itself alone");
        return dump_all(plan, (enum graph_format)format, to);
    }
    rc = graph_dump(to, (enum graph_format)format, &plan->graph, 1);
    return rc == 0 ? 0 : coll_fail(rc, "rcoll_dump: %s", strerror(-rc));
}
