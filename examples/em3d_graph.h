/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * em3d_graph.h: electromagnetic waves on an irregular bipartite graph, after the benchmark EM3D.
 *
 * There are as many E nodes as H nodes, and an edge leads from one kind to the other. A step has
 * two phases: every E node is changed by a weighted sum of the H nodes that it has edges from, then
 * every H node by E nodes. Each process owns an equal range of the nodes. A value of another
 * process that is needed here is sent once per phase, however many edges lead from it: it is stored
 * in a *proxy*. An edge holds the process and the index among the values of that process.
 *
 * The graph follows from its seed alone, so each process makes its part, and what others need of
 * it, without a message; and sums are taken in the order of the edges, so the result does not
 * depend on the number of processes, bit for bit.
 */
#ifndef EXAMPLES_EM3D_GRAPH_H
#define EXAMPLES_EM3D_GRAPH_H

#include <stdint.h>

#include "app.h"

enum em3d_kind { EM3D_E, EM3D_H, EM3D_KINDS };

struct em3d_shape {
    uint32_t nodes;  /* of each kind */
    uint32_t degree; /* edges that lead to a node */
    uint32_t far;  /* per cent of the edges that come from anywhere; the others come from nearby */
    uint32_t span; /* how far away nearby is, at most */
    uint32_t steps;
};

struct em3d_edge {
    uint32_t process; /* where the value is computed */
    uint32_t at;      /* which of its values (this process), or which of those that it sends */
    double weight;
};

/* One phase of a step: nodes of one kind are changed by those of the other. */
struct em3d_phase {
    struct em3d_edge *edges; /* degree of them for each node here */
    uint32_t *imports;       /* [process]: values that it sends */
    uint32_t *exports;       /* [process]: values that it needs of this one, */
    uint32_t **export_at;    /* and which they are */
};

struct em3d_graph {
    struct em3d_shape shape;
    int rank, nranks;
    uint32_t first, count; /* nodes of each kind here */
    double *value[EM3D_KINDS];
    struct em3d_phase phase[EM3D_KINDS]; /* index: the kind that changes */
};

#define EM3D_SHAPE_DEFAULT                                                                         \
    {                                                                                              \
        40000, 10, 5, 50, 2000                                                                     \
    }
#define EM3D_SHAPE_QUICK                                                                           \
    {                                                                                              \
        2003, 5, 10, 20, 50                                                                        \
    }
#define EM3D_OPTION_TABLE(s)                                                                       \
    APP_NUMBER("nodes", 'n', &(s).nodes, 1, 100000000, "Nodes of each kind"),                      \
        APP_NUMBER("degree", 'd', &(s).degree, 1, 1000, "Edges that lead to a node"),              \
        APP_NUMBER("far", 'f', &(s).far, 0, 100,                                                   \
                   "Per cent of the edges, which come from anywhere"),                             \
        APP_NUMBER("span", 'w', &(s).span, 0, 1000000,                                             \
                   "The others come from at most so many nodes away"),                             \
        APP_NUMBER("steps", 's', &(s).steps, 0, 1000000000, "Steps, of two phases each")

int em3d_create(struct em3d_graph *g, const struct em3d_shape *shape, int rank,
                int nranks); /* 0 or -ENOMEM */
void em3d_destroy(struct em3d_graph *g);

/* Whether the two exchange values in any direction and phase; both sides get the same result. */
int em3d_neighbours(const struct em3d_graph *g, int other);

/* Copies the values that `to` needs in this phase to out. */
void em3d_collect(const struct em3d_graph *g, int phase, int to, double *out);
/*
 * Changes the nodes of this kind. from[process]: the values
 * that process has sent; from[rank] is ignored.
 */
void em3d_compute(struct em3d_graph *g, int phase, const double *const *from);

/* A digest of both kinds of a graph that one process has whole. */
uint64_t em3d_digest(const struct em3d_graph *g);
/* The digest of all steps by one process; 0 or -ENOMEM. */
int em3d_serial(const struct em3d_shape *shape, uint64_t *digest);

#endif
