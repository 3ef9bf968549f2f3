/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce.c: reductions, blocking or not.
 *
 * MPI_IN_PLACE of a call that need not have it at all members, and types with gaps, go through copies: rcoll sees two arrays
 * of elements that are as far apart as the extent of the type.
 */
#include "rmpi.h"

struct reduction {
    const char *call;
    const void *in;
    void *out;
    int given;        /* the count of the call */
    size_t count;     /* elements that this member contributes */
    size_t out_count; /* and that it gets; 0: none */
    MPI_Datatype type;
    MPI_Op op;
    MPI_Comm comm;
    rcoll_params_t p;
    struct rmpi_apply apply;
    void *temp_in, *temp_out;
};

/* ---- copies ---- */

/* An array of elements without what is between them; zeros there. */
static void *reduce_copy(const struct reduction *r, const void *from, size_t count)
{
    size_t bytes = count * (size_t)r->type->extent, packed = count * r->type->size;
    char *copy = calloc(bytes > 0 ? bytes : 1, 1), *block;

    if (copy == NULL || from == NULL)
        return copy;
    if (r->type->dense) {
        memcpy(copy, from, bytes);
        return copy;
    }
    block = malloc(packed > 0 ? packed : 1);
    if (block != NULL) {
        (void)rmpi_pack(block, packed, from, count, r->type);
        (void)rmpi_unpack(block, packed, copy, count, r->type);
    } else {
        free(copy);
        copy = NULL;
    }
    free(block);
    return copy;
}

/* The elements of the result come to their places. */
static int reduce_deliver(const struct reduction *r)
{
    size_t packed = r->out_count * r->type->size;
    void *block;

    if (r->temp_out == NULL)
        return 0;
    block = malloc(packed > 0 ? packed : 1);
    if (block == NULL)
        return -ENOMEM;
    (void)rmpi_pack(block, packed, r->temp_out, r->out_count, r->type);
    (void)rmpi_unpack(block, packed, r->out, r->out_count, r->type);
    free(block);
    return 0;
}

/* ---- preparation ---- */

static int reduce_check(struct reduction *r)
{
    int rc = rmpi_check_data(r->call, r->in == MPI_IN_PLACE ? r->out : r->in, r->given, r->type,
                             r->comm);

    if (rc != MPI_SUCCESS)
        return rc;
    if (rmpi_span(r->type, r->count) < 0) /* of all members */
        return rmpi_fail(r->comm, MPI_ERR_COUNT, r->call,
                         "%zu elements of %td bytes are more than an address space", r->count,
                         r->type->extent);
    if (r->op == MPI_OP_NULL)
        return rmpi_fail(r->comm, MPI_ERR_OP, r->call, "the operator is null");
    if (r->out_count > 0 && r->out == NULL)
        return rmpi_fail(r->comm, MPI_ERR_BUFFER, r->call, "the buffer of the result is NULL");
    if (r->type->lb != 0 || r->type->true_lb < 0 || r->type->extent <= 0 ||
        r->type->extent < r->type->true_lb + r->type->true_extent)
        return rmpi_fail(r->comm, MPI_ERR_UNSUPPORTED_OPERATION, r->call,
                         "this subset reduces no elements that overlap or begin before their "
                         "address");
    if (rmpi_op_is_native(r->op, r->type)) {
        r->p.type = (rgroup_type_t)r->type->combine;
        r->p.op = (rgroup_op_t)r->op->combine;
        return MPI_SUCCESS;
    }
    if (!rmpi_op_apply(&r->apply, r->op, r->type))
        return rmpi_fail(r->comm, MPI_ERR_OP, r->call, "the operator is not defined for the type");
    r->p.function = rmpi_op_call;
    r->p.argument = &r->apply;
    r->p.element = r->apply.element;
    r->p.flags |= r->op->commutes ? RCOLL_COMMUTES : 0;
    return MPI_SUCCESS;
}

/* Sets the buffers of the parameters; all: MPI_IN_PLACE is given by all members or by none. */
static int reduce_buffers(struct reduction *r, bool all)
{
    bool in_place = r->in == MPI_IN_PLACE, gaps = !r->type->dense;
    bool small = r->count * (size_t)r->type->extent <= 4096;

    r->p.from = in_place ? r->out : r->in;
    r->p.into = r->out;
    if (in_place && all && !gaps && !small) {
        r->p.flags |= RCOLL_IN_PLACE;
        return 0;
    }
    if (in_place || gaps) {
        r->p.from = r->temp_in = reduce_copy(r, r->p.from, r->count);
        if (r->temp_in == NULL)
            return -ENOMEM;
    }
    if (gaps && r->out_count > 0) {
        r->p.into = r->temp_out = reduce_copy(r, NULL, r->out_count);
        if (r->temp_out == NULL)
            return -ENOMEM;
    }
    return 0;
}

static int reduce_run(struct reduction *r, bool all)
{
    int rc = reduce_check(r);
    bool in_place;

    if (rc != MPI_SUCCESS || r->count == 0)
        return rc;
    rc = reduce_buffers(r, all);
    in_place = (r->p.flags & RCOLL_IN_PLACE) != 0;
    if (rc == 0)
        rc = rmpi_run(r->comm, &r->p, in_place ? 0 : r->count * (size_t)r->type->extent,
                      (in_place ? r->count : r->out_count) * (size_t)r->type->extent);
    if (rc == 0)
        rc = reduce_deliver(r);
    free(r->temp_in);
    free(r->temp_out);
    return rc == 0 ? MPI_SUCCESS : rmpi_fail_rc(r->comm, rc, r->call);
}

/* Only types without gaps: the result is not copied later. What the operator needs lives as long as the request. */
static int reduce_start(struct reduction *r, bool all, MPI_Request *request)
{
    struct rmpi_request *made;
    int rc = reduce_check(r);

    if (rc != MPI_SUCCESS)
        return rc;
    if (!r->type->dense)
        return rmpi_fail(r->comm, MPI_ERR_UNSUPPORTED_OPERATION, r->call,
                         "this subset has non-blocking reductions of types without gaps alone");
    made = rmpi_request_make(RMPI_COLL, r->comm);
    if (made == NULL)
        return MPI_ERR_NO_MEM;
    if (r->count == 0) {
        made->active = made->over = true;
        *request = made;
        return MPI_SUCCESS;
    }
    rc = reduce_buffers(r, all);
    made->temp = r->temp_in;
    if (rc == 0 && r->p.function != NULL) {
        struct rmpi_apply *apply = malloc(sizeof(*apply));

        if (apply != NULL)
            *apply = r->apply;
        rc = apply == NULL ? -ENOMEM : 0;
        rmpi_type_keep(r->type);
        made->type = r->type;
        r->p.argument = made->argument = apply;
    }
    if (rc == 0)
        rc = rmpi_run_start(made, &r->p);
    if (rc != 0) {
        rc = rmpi_fail_rc(r->comm, rc, r->call);
        rmpi_request_put(made);
        return rc;
    }
    *request = made;
    return MPI_SUCCESS;
}

/* ---- one result, at one or at all ---- */

static struct reduction reduce_of(const char *call, rcoll_kind_t kind, const void *in, void *out,
                                  int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct reduction r = {.call = call,
                          .in = in,
                          .out = out,
                          .type = type,
                          .op = op,
                          .comm = comm,
                          .given = count,
                          .count = (size_t)count,
                          .out_count = (size_t)count};

    r.p.kind = kind;
    r.p.count = r.count;
    return r;
}

static int reduce_to_root(struct reduction *r, int root)
{
    int rc = rmpi_check_root(r->call, root, r->comm);

    if (rc != MPI_SUCCESS)
        return rc;
    r->p.root = root;
    if (r->comm->rank != root)
        r->out_count = 0;
    return MPI_SUCCESS;
}

int MPI_Reduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm)
{
    struct reduction r = reduce_of("MPI_Reduce", RCOLL_REDUCE, in, out, count, type, op, comm);
    int rc = reduce_to_root(&r, root);

    return rc == MPI_SUCCESS ? reduce_run(&r, false) : rc;
}

int MPI_Ireduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm comm, MPI_Request *request)
{
    struct reduction r = reduce_of("MPI_Ireduce", RCOLL_REDUCE, in, out, count, type, op, comm);
    int rc = reduce_to_root(&r, root);

    return rc == MPI_SUCCESS ? reduce_start(&r, false, request) : rc;
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct reduction r =
        reduce_of("MPI_Allreduce", RCOLL_ALLREDUCE, in, out, count, type, op, comm);

    return reduce_run(&r, true);
}

int MPI_Iallreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    struct reduction r =
        reduce_of("MPI_Iallreduce", RCOLL_ALLREDUCE, in, out, count, type, op, comm);

    return reduce_start(&r, true, request);
}

/* ---- prefixes ---- */

int MPI_Scan(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct reduction r = reduce_of("MPI_Scan", RCOLL_SCAN, in, out, count, type, op, comm);

    return reduce_run(&r, false);
}

int MPI_Exscan(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct reduction r = reduce_of("MPI_Exscan", RCOLL_EXSCAN, in, out, count, type, op, comm);
    int rc = rmpi_check_comm("MPI_Exscan", comm);

    if (rc != MPI_SUCCESS)
        return rc;
    if (comm->rank == 0)
        r.out_count = 0;
    return reduce_run(&r, false);
}

/* ---- a result in blocks ---- */

int MPI_Reduce_scatter_block(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm)
{
    struct reduction r =
        reduce_of("MPI_Reduce_scatter_block", RCOLL_REDUCE_SCATTER, in, out, count, type, op, comm);
    int rc = rmpi_check_comm(r.call, comm);

    if (rc != MPI_SUCCESS)
        return rc;
    r.count *= (size_t)comm->size;
    return count < 0 ? rmpi_fail(comm, MPI_ERR_COUNT, r.call, "count is %d", count)
                     : reduce_run(&r, true);
}

int MPI_Reduce_scatter(const void *in, void *out, const int *counts, MPI_Datatype type, MPI_Op op,
                       MPI_Comm comm)
{
    struct reduction r =
        reduce_of("MPI_Reduce_scatter", RCOLL_REDUCE_SCATTER, in, out, 0, type, op, comm);
    int rc = rmpi_check_comm(r.call, comm);
    size_t *sizes;

    if (rc != MPI_SUCCESS)
        return rc;
    sizes = malloc((size_t)comm->size * sizeof(*sizes));
    if (sizes == NULL)
        return rmpi_fail(comm, MPI_ERR_NO_MEM, r.call, "no memory");
    for (int i = 0; i < comm->size && rc == MPI_SUCCESS; i++) {
        if (counts[i] < 0)
            rc = rmpi_fail(comm, MPI_ERR_COUNT, r.call, "count %d is %d", i, counts[i]);
        sizes[i] = (size_t)counts[i];
        r.count += sizes[i];
    }
    r.p.counts = sizes;
    r.out_count = sizes[comm->rank];
    if (rc == MPI_SUCCESS)
        rc = reduce_run(&r, true);
    free(sizes);
    return rc;
}
