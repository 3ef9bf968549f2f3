/* SPDX-License-Identifier: BSD-3-Clause */
/* graph_dump.c: see graph_dump.h. */
#include "coll/graph_dump.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static const char *const dump_kind_names[GRAPH_KINDS] = {"send", "recv", "fold", "copy", "call"};

bool graph_format_of(const char *name, enum graph_format *format)
{
    static const char *const names[GRAPH_FORMATS] = {"text", "json", "dot", "goal"};

    for (int i = 0; i < GRAPH_FORMATS; i++)
        if (strcmp(name, names[i]) == 0) {
            *format = (enum graph_format)i;
            return true;
        }
    return false;
}

static void dump_reference(FILE *to, int32_t base, size_t at)
{
    static const char *const space[GRAPH_SPACES] = {"FROM", "INTO", "SCRATCH"};

    if (base >= 0)
        fprintf(to, "view %" PRId32 "+%zu", base, at);
    else
        fprintf(to, "%s+%zu", space[-1 - base], at);
}

static void dump_list(FILE *to, const struct graph *g, const struct graph_node *node)
{
    for (uint32_t i = 0; i < node->npeers; i++)
        fprintf(to, "%s%" PRId32, i > 0 ? ", " : "", g->peers[node->peer + i]);
}

/* The operations that node i waits for; separated by `between`. */
static void dump_waits(FILE *to, const struct graph *g, uint32_t i, const char *before,
                       const char *between)
{
    const char *separator = before;

    for (uint32_t k = 0; k < g->nedges; k++)
        if (g->edges[k].node == i) {
            fprintf(to, "%s%" PRIu32, separator, g->edges[k].of);
            separator = between;
        }
}

/* ---- text ---- */

/* Of a SEND or RECV. */
static const char *dump_mark(const struct graph_node *node)
{
    return node->op == GRAPH_BY_CAST ? ", by cast" : node->op == GRAPH_MARKED ? ", marked" : "";
}

static void dump_operation(FILE *to, const struct graph *g, const struct graph_node *node)
{
    fprintf(to, "%s", dump_kind_names[node->kind]);
    if (node->kind == GRAPH_CALL) {
        fprintf(to, "%s", g->calls[node->peer].function == NULL ? " nothing" : "");
        return;
    }
    fprintf(to, " %zu bytes", node->bytes);
    if (node->kind == GRAPH_RECV) {
        fprintf(to, " of member %" PRIu32 ", slot %" PRIu32 "%s%s", node->peer, node->slot,
                node->lent ? ", lent" : "", dump_mark(node));
        return;
    }
    fprintf(to, " of ");
    dump_reference(to, node->from, node->from_at);
    if (node->kind == GRAPH_SEND) {
        fprintf(to, " to ");
        dump_list(to, g, node);
        fprintf(to, ", slot %" PRIu32 "%s%s", node->slot, node->lent ? ", lent" : "",
                dump_mark(node));
        return;
    }
    fprintf(to, " into ");
    dump_reference(to, node->into, node->into_at);
    fprintf(to, "%s", node->reversed ? ", reversed" : "");
}

static void dump_text(FILE *to, const struct graph *g)
{
    fprintf(to, "member %d of %d: %zu bytes FROM, %zu INTO, %zu SCRATCH\n", g->me, g->size,
            g->space[0], g->space[1], g->space[2]);
    for (uint32_t i = 0; i < g->count; i++) {
        fprintf(to, "  %" PRIu32 ": ", i);
        dump_operation(to, g, &g->nodes[i]);
        dump_waits(to, g, i, "; after ", ", ");
        fprintf(to, "\n");
    }
}

/* ---- JSON ---- */

static void dump_json_node(FILE *to, const struct graph *g, uint32_t i)
{
    const struct graph_node *node = &g->nodes[i];

    fprintf(to, "    {\"id\": %" PRIu32 ", \"kind\": \"%s\"", i, dump_kind_names[node->kind]);
    if (node->kind != GRAPH_CALL)
        fprintf(to, ", \"bytes\": %zu", node->bytes);
    if (node->kind == GRAPH_SEND || node->kind == GRAPH_RECV)
        fprintf(to, ", \"slot\": %" PRIu32, node->slot);
    if (node->kind == GRAPH_RECV)
        fprintf(to, ", \"source\": %" PRIu32, node->peer);
    if (node->kind == GRAPH_SEND) {
        fprintf(to, ", \"to\": [");
        dump_list(to, g, node);
        fprintf(to, "]");
    }
    if (node->kind != GRAPH_RECV && node->kind != GRAPH_CALL) {
        fprintf(to, ", \"from\": \"");
        dump_reference(to, node->from, node->from_at);
        fprintf(to, "\"");
    }
    if (node->kind == GRAPH_FOLD || node->kind == GRAPH_COPY) {
        fprintf(to, ", \"into\": \"");
        dump_reference(to, node->into, node->into_at);
        fprintf(to, "\"");
    }
    if (node->kind == GRAPH_FOLD)
        fprintf(to, ", \"reversed\": %s", node->reversed ? "true" : "false");
    fprintf(to, ", \"after\": [");
    dump_waits(to, g, i, "", ", ");
    fprintf(to, "]}%s\n", i + 1 < g->count ? "," : "");
}

static void dump_json(FILE *to, const struct graph *g, bool last)
{
    fprintf(to,
            "  {\"member\": %d, \"size\": %d, \"from\": %zu, \"into\": %zu, \"scratch\": %zu, "
            "\"operations\": [\n",
            g->me, g->size, g->space[0], g->space[1], g->space[2]);
    for (uint32_t i = 0; i < g->count; i++)
        dump_json_node(to, g, i);
    fprintf(to, "  ]}%s\n", last ? "" : ",");
}

/* ---- dot ---- */

/* The RECV of member `to` for a slot of member `from`; -1: none. */
static int64_t dump_find_recv(const struct graph *to, int from, uint32_t slot)
{
    for (uint32_t i = 0; i < to->count; i++)
        if (to->nodes[i].kind == GRAPH_RECV && (int)to->nodes[i].peer == from &&
            to->nodes[i].slot == slot)
            return i;
    return -1;
}

static void dump_dot_messages(FILE *to, const struct graph *graphs, const struct graph *g,
                              uint32_t i)
{
    const struct graph_node *node = &g->nodes[i];

    for (uint32_t k = 0; k < node->npeers && node->kind == GRAPH_SEND; k++) {
        int peer = g->peers[node->peer + k];
        int64_t recv = dump_find_recv(&graphs[peer], g->me, node->slot);

        if (recv >= 0)
            fprintf(to, "  m%do%" PRIu32 " -> m%do%" PRId64 " [color=blue];\n", g->me, i, peer,
                    recv);
    }
}

static void dump_dot(FILE *to, const struct graph *graphs, int n)
{
    fprintf(to, "digraph plan {\n  node [shape=box, fontname=\"sans\"];\n");
    for (int m = 0; m < n; m++) {
        const struct graph *g = &graphs[m];

        fprintf(to, "  subgraph cluster%d {\n    label=\"member %d\";\n", m, m);
        for (uint32_t i = 0; i < g->count; i++) {
            fprintf(to, "    m%do%" PRIu32 " [label=\"", m, i);
            dump_operation(to, g, &g->nodes[i]);
            fprintf(to, "\"];\n");
        }
        fprintf(to, "  }\n");
        for (uint32_t i = 0; i < g->nedges; i++)
            fprintf(to, "  m%do%" PRIu32 " -> m%do%" PRIu32 ";\n", m, g->edges[i].of, m,
                    g->edges[i].node);
    }
    for (int m = 0; m < n; m++)
        for (uint32_t i = 0; i < graphs[m].count; i++)
            dump_dot_messages(to, graphs, &graphs[m], i);
    fprintf(to, "}\n");
}

/* ---- GOAL ---- */

#define DUMP_BYTES_PER_NS 8

/* A SEND to several members is a row for each: node i is the labels l<i>r0 to l<i>r<rows - 1>. */
static uint32_t dump_goal_rows(const struct graph_node *node)
{
    return node->kind == GRAPH_SEND ? node->npeers : 1;
}

static void dump_goal_node(FILE *to, const struct graph *g, uint32_t i, uint32_t row)
{
    const struct graph_node *node = &g->nodes[i];
    size_t bytes = node->bytes > 0 ? node->bytes : 1;

    fprintf(to, "l%" PRIu32 "r%" PRIu32 ": ", i, row);
    if (node->kind == GRAPH_SEND)
        fprintf(to, "send %zub to %" PRId32 " tag %" PRIu32 "\n", bytes, g->peers[node->peer + row],
                node->slot);
    else if (node->kind == GRAPH_RECV)
        fprintf(to, "recv %zub from %" PRIu32 " tag %" PRIu32 "\n", bytes, node->peer, node->slot);
    else
        fprintf(to, "calc %zu\n",
                node->kind == GRAPH_CALL
                    ? (size_t)0
                    : (node->bytes + DUMP_BYTES_PER_NS - 1) / DUMP_BYTES_PER_NS);
}

static void dump_goal(FILE *to, const struct graph *g)
{
    fprintf(to, "rank %d {\n", g->me);
    for (uint32_t i = 0; i < g->count; i++)
        for (uint32_t row = 0; row < dump_goal_rows(&g->nodes[i]); row++)
            dump_goal_node(to, g, i, row);
    for (uint32_t i = 0; i < g->nedges; i++)
        for (uint32_t a = 0; a < dump_goal_rows(&g->nodes[g->edges[i].node]); a++)
            for (uint32_t b = 0; b < dump_goal_rows(&g->nodes[g->edges[i].of]); b++)
                fprintf(to, "l%" PRIu32 "r%" PRIu32 " requires l%" PRIu32 "r%" PRIu32 "\n",
                        g->edges[i].node, a, g->edges[i].of, b);
    fprintf(to, "}\n");
}

int graph_dump(FILE *to, enum graph_format format, const struct graph *graphs, int n)
{
    if ((unsigned)format >= GRAPH_FORMATS || n < 1)
        return -EINVAL;
    if (format >= GRAPH_DOT && n != graphs[0].size)
        return -EINVAL;
    if (format == GRAPH_DOT)
        dump_dot(to, graphs, n);
    if (format == GRAPH_JSON)
        fprintf(to, "[\n");
    if (format == GRAPH_GOAL)
        fprintf(to, "num_ranks %d\n", n);
    for (int i = 0; i < n; i++) {
        if (format == GRAPH_TEXT)
            dump_text(to, &graphs[i]);
        if (format == GRAPH_JSON)
            dump_json(to, &graphs[i], i == n - 1);
        if (format == GRAPH_GOAL)
            dump_goal(to, &graphs[i]);
    }
    if (format == GRAPH_JSON)
        fprintf(to, "]\n");
    return ferror(to) ? -EIO : 0;
}
