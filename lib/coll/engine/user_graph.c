/* SPDX-License-Identifier: BSD-3-Clause */
/* user_graph.c: rcoll_graph and what adds to it, rcoll_graph_plan. */
#include "coll/engine/fail.h"
#include "coll/engine/plan.h"
#include "coll/engine/wait.h"
#include "coll/engine/create.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define USER_OPERATORS 64

struct rgraph {
    struct rteam *team;
    struct graph g;
    struct coll_operator operator[USER_OPERATORS];
    struct {
        rgroup_type_t type;
        rgroup_op_t op;
    } key[USER_OPERATORS];
    uint32_t noperators;
};

static struct graph_ref user_ref(rcoll_ref_t ref) { return graph_at(ref.base, ref.at); }

/* A failure of an addition is kept, and explained. */
static int user_added(struct rgraph *graph, const char *call, int node)
{
    (void)graph;
    return node >= 0
               ? node
               : coll_fail(node, "%s: the operation could not be added: %s", call, strerror(-node));
}

int rcoll_graph(rgraph_t *graph, rteam_t team, size_t scratch)
{
    int rc;

    if (graph == NULL || team == NULL)
        return coll_fail(-EINVAL, "rcoll_graph: graph is %s, team is %s",
                         graph == NULL ? "NULL" : "given", team == NULL ? "NULL" : "given");
    rc = coll_check_job("rcoll_graph");
    if (rc != 0)
        return rc;
    *graph = calloc(1, sizeof(**graph));
    if (*graph == NULL)
        return coll_fail(-ENOMEM, "rcoll_graph: no memory");
    (*graph)->team = team;
    graph_init(&(*graph)->g, team->size, team->me, SIZE_MAX / 2, SIZE_MAX / 2);
    (void)graph_scratch(&(*graph)->g, scratch);
    return 0;
}

int rcoll_graph_send(rgraph_t graph, const int *to, int n, uint32_t slot, rcoll_ref_t from,
                     size_t bytes)
{
    if (graph == NULL || to == NULL || n < 1)
        return coll_fail(-EINVAL, "rcoll_graph_send: graph or to is NULL, or n is %d", n);
    return user_added(graph, "rcoll_graph_send",
                      graph_send(&graph->g, to, n, slot, user_ref(from), bytes));
}

int rcoll_graph_recv(rgraph_t graph, int from, uint32_t slot, size_t bytes)
{
    if (graph == NULL)
        return coll_fail(-EINVAL, "rcoll_graph_recv: graph is NULL");
    return user_added(graph, "rcoll_graph_recv", graph_recv(&graph->g, from, slot, bytes));
}

/* The number of an operator in the graph, or a code. */
static int user_operator(struct rgraph *graph, rgroup_type_t type, rgroup_op_t op)
{
    struct error err = {""};
    uint32_t i = 0;
    int rc;

    while (i < graph->noperators && (graph->key[i].type != type || graph->key[i].op != op))
        i++;
    if (i < graph->noperators)
        return (int)i;
    if (i == USER_OPERATORS)
        return coll_fail(-ENOBUFS, "rcoll_graph_fold: more than %d operators in a graph",
                         USER_OPERATORS);
    rc = coll_operator_init(&graph->operator[i], type, op, &err);
    if (rc != 0)
        return coll_fail(rc, "rcoll_graph_fold: %s", err.text);
    graph->key[i].type = type;
    graph->key[i].op = op;
    return (int)graph->noperators++;
}

int rcoll_graph_fold(rgraph_t graph, rcoll_ref_t into, rcoll_ref_t from, size_t count,
                     rgroup_type_t type, rgroup_op_t op)
{
    int operator, node;

    if (graph == NULL)
        return coll_fail(-EINVAL, "rcoll_graph_fold: graph is NULL");
    operator= user_operator(graph, type, op);
    if (operator<0)
        return graph_fail(&graph->g, operator);
    if (count > SIZE_MAX / 4 / graph->operator[operator].element)
        return graph_fail(&graph->g, coll_fail(-EINVAL, "rcoll_graph_fold: count is %zu", count));
    node = graph_fold(&graph->g, user_ref(into), user_ref(from),
                      count * graph->operator[operator].element, false);
    if (node >= 0)
        graph->g.nodes[node].op = (uint16_t) operator;
    return user_added(graph, "rcoll_graph_fold", node);
}

int rcoll_graph_copy(rgraph_t graph, rcoll_ref_t into, rcoll_ref_t from, size_t bytes)
{
    if (graph == NULL)
        return coll_fail(-EINVAL, "rcoll_graph_copy: graph is NULL");
    return user_added(graph, "rcoll_graph_copy",
                      graph_copy(&graph->g, user_ref(into), user_ref(from), bytes));
}

int rcoll_graph_call(rgraph_t graph, int (*function)(void *argument), void *argument)
{
    if (graph == NULL)
        return coll_fail(-EINVAL, "rcoll_graph_call: graph is NULL");
    return user_added(graph, "rcoll_graph_call", graph_call(&graph->g, function, argument));
}

int rcoll_graph_after(rgraph_t graph, int node, int of)
{
    if (graph == NULL || node < 0 || of < 0 || (uint32_t)node >= graph->g.count ||
        (uint32_t)of >= graph->g.count)
        return coll_fail(-EINVAL, "rcoll_graph_after: operation %d after %d; the graph has %u",
                         node, of, graph != NULL ? graph->g.count : 0);
    graph_after(&graph->g, node, of);
    return 0;
}

/* The graph as a plan: checked for what waits for itself, and for memory that is accessed unordered. */
static int user_plan(struct rplan **plan, struct rgraph *graph, struct error *err)
{
    int rc = graph_finish(&graph->g, err);

    if (rc == 0)
        rc = graph_find_race(&graph->g, err);
    if (rc == 0)
        rc = plan_create_of_graph(plan, graph->team, &graph->g, graph->operator, graph->noperators,
                                  err);
    else
        graph_free(&graph->g);
    return rc;
}

int rcoll_graph_plan(rplan_t *plan, rgraph_t graph, const void *from, size_t from_bytes, void *into,
                     size_t into_bytes)
{
    struct error err = {""};
    struct rteam *t;
    int rc;

    if (plan == NULL || graph == NULL)
        return coll_fail(-EINVAL, "rcoll_graph_plan: plan is %s, graph is %s",
                         plan == NULL ? "NULL" : "given", graph == NULL ? "NULL" : "given");
    rc = coll_check_job("rcoll_graph_plan");
    if (rc != 0) {
        graph_free(&graph->g);
        free(graph);
        return rc;
    }
    t = graph->team;
    graph->g.space[0] = from != NULL ? from_bytes : 0;
    graph->g.space[1] = into != NULL ? into_bytes : 0;
    team_lock(t);
    rc = user_plan(plan, graph, &err);
    team_unlock(t);
    free(graph);
    if (rc != 0)
        return coll_fail(rc, "rcoll_graph_plan: %s", err.text);
    (*plan)->from = from;
    (*plan)->into = into;
    return 0;
}
