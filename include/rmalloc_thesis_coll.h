/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rmalloc_thesis_coll.h: collective operations of §5.3 of the thesis (listing 5.10), over rcoll.h; included by rmalloc_thesis.h.
 *
 * A handle is a plan of a team of all ranks. An operation begins with the first rcoll_nb after rcoll_init or rcoll_reset, which
 * calls the input function for the contribution.
 *
 * What the thesis leaves open is decided here: the result is at rthesis_coll_result(); rcoll_reset() sets the flag of the last
 * rcoll_nb() to 0, since the listing tests it again; .rdma_op and .steps (the size of the channels) are ignored. MPI_INT, MPI_DOUBLE and
 * MPI_SUM, MPI_MIN and MPI_MAX are defined where <mpi.h> has not been included before.
 */
#ifndef RMALLOC_THESIS_COLL_H
#define RMALLOC_THESIS_COLL_H

#include <rcoll.h>
#include <rmalloc_thesis_config.h>
#include <stdlib.h>

#ifndef MPI_VERSION
enum { MPI_INT = RGROUP_INT32, MPI_DOUBLE = RGROUP_DOUBLE };
enum { MPI_SUM = RGROUP_SUM, MPI_MIN = RGROUP_MIN, MPI_MAX = RGROUP_MAX };
typedef rgroup_type_t rthesis_datatype_t;
typedef rgroup_op_t rthesis_reduction_t;
static inline rgroup_type_t rthesis_type_of(rthesis_datatype_t type) { return type; }
static inline rgroup_op_t rthesis_op_of(rthesis_reduction_t op) { return op; }
#else
typedef MPI_Datatype rthesis_datatype_t;
typedef MPI_Op rthesis_reduction_t;
static inline rgroup_type_t rthesis_type_of(rthesis_datatype_t type)
{
    return type == MPI_DOUBLE ? RGROUP_DOUBLE : RGROUP_INT32;
}
static inline rgroup_op_t rthesis_op_of(rthesis_reduction_t op)
{
    return op == MPI_MIN ? RGROUP_MIN : op == MPI_MAX ? RGROUP_MAX : RGROUP_SUM;
}
#endif

typedef enum {
    BCAST = RCOLL_BCAST,
    REDUCE = RCOLL_REDUCE,
    ALLREDUCE = RCOLL_ALLREDUCE,
    SCAN = RCOLL_SCAN,
    GATHER = RCOLL_GATHER,
    ALLGATHER = RCOLL_ALLGATHER,
    SCATTER = RCOLL_SCATTER,
    ALLTOALL = RCOLL_ALLTOALL
} rthesis_coll_type_t;

/* rcoll_params_t of the thesis */
typedef struct rthesis_coll_params {
    rthesis_coll_type_t type;
    int count; /* elements of a contribution, or of each block of it */
    rthesis_datatype_t datatype;
    rthesis_reduction_t op;
    int root;
    rdma_op_t rdma_op; /* ignored */
    int steps;         /* ignored */
} rthesis_coll_params_t;

/* Stores the contribution of this process, sz bytes, at input; offset is 0. Other than 0 fails the operation. */
typedef int (*rcoll_input_cb)(void *input, size_t sz, int offset, void *args);

typedef struct rthesis_coll {
    rteam_t team;
    rplan_t plan;
    rcoll_input_cb input;
    void *args;
    int *flag; /* of the last rcoll_nb */
    size_t bytes;
    bool started;
    char *from, *into;
} * rcoll_handle_t;

static inline int rthesis_coll_free(rcoll_handle_t h)
{
    int rc = R_SUCCESS;

    if (h->plan != NULL)
        rc = rcoll_free(h->plan);
    if (h->team != NULL && rc == R_SUCCESS)
        rc = rcoll_close(h->team);
    free(h->from);
    free(h->into);
    free(h);
    return rc;
}

/* Blocks of the contribution, and of the result. */
static inline size_t rthesis_coll_blocks(rthesis_coll_type_t type, int ranks, bool result)
{
    bool one = result ? type != GATHER && type != ALLGATHER && type != ALLTOALL
                      : type != SCATTER && type != ALLTOALL;

    return one ? 1 : (size_t)ranks;
}

static inline int rthesis_coll_plan(rcoll_handle_t h, const rthesis_coll_params_t *p, int ranks)
{
    size_t element = rthesis_type_of(p->datatype) == RGROUP_DOUBLE ? sizeof(double) : sizeof(int);
    size_t block = (size_t)p->count * element;
    rcoll_params_t q = {.kind = (rcoll_kind_t)p->type};

    h->bytes = block * rthesis_coll_blocks(p->type, ranks, false);
    h->from = (char *)calloc(1, h->bytes + 1);
    h->into = (char *)calloc(1, block * rthesis_coll_blocks(p->type, ranks, true) + 1);
    if (h->from == NULL || h->into == NULL)
        return -ENOMEM;
    q.from = h->from;
    q.into = h->into;
    q.count = (size_t)p->count;
    q.root = p->root;
    q.type = rthesis_type_of(p->datatype);
    q.op = rthesis_op_of(p->op);
    q.element = p->type == REDUCE || p->type == ALLREDUCE || p->type == SCAN ? 0 : element;
    return rcoll_plan(&h->plan, h->team, &q);
}

/* Collective. Teams of the thesis interface have contexts of their own, in the order of the calls. */
static inline int rcoll_init(rcoll_handle_t *handle, rthesis_coll_params_t p, rcoll_input_cb input,
                             void *args)
{
    static uint64_t teams;
    rcoll_team_config_t cfg = {.context = rcontext("rmalloc_thesis") + teams++};
    rcoll_handle_t h = (rcoll_handle_t)calloc(1, sizeof(*h));
    int rc = h != NULL ? rcoll_team(&h->team, &cfg, NULL, network_ranks()) : -ENOMEM;

    if (rc == R_SUCCESS)
        rc = rthesis_coll_plan(h, &p, network_ranks());
    if (rc != R_SUCCESS) {
        if (h != NULL)
            (void)rthesis_coll_free(h);
        return rc;
    }
    h->input = input;
    h->args = args;
    *handle = h;
    return R_SUCCESS;
}

/* Begins the operation, or advances it; sets *flag to 1 when it is over. */
static inline int rcoll_nb(rcoll_handle_t h, int *flag)
{
    int rc = R_SUCCESS;

    h->flag = flag;
    if (!h->started && h->input != NULL)
        rc = h->input(h->from, h->bytes, 0, h->args);
    if (!h->started && rc == R_SUCCESS)
        rc = rcoll_start(h->plan);
    if (rc == R_SUCCESS) {
        h->started = true;
        rc = rcoll_test(h->plan);
    }
    *flag = rc != R_PENDING;
    return rc == R_PENDING ? R_SUCCESS : rc;
}

/* The next rcoll_nb begins the operation again. */
static inline int rcoll_reset(rcoll_handle_t h)
{
    h->started = false;
    if (h->flag != NULL)
        *h->flag = 0;
    return R_SUCCESS;
}

static inline void *rthesis_coll_result(rcoll_handle_t h) { return h->into; }

#endif
