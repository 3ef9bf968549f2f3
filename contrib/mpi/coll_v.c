/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_v.c: collective operations that move blocks of different lengths.
 *
 * MPI_Allgatherv and MPI_Alltoallv are operations of rcoll. The lengths of a gatherv and a scatterv are known to the root alone,
 * and an operation of rcoll has them at all members; so these two are messages between the root and each other member, in the
 * second space of the communicator. All members call them in the same order, so the order of messages is enough.
 */
#include "rmpi.h"

/* ---- blocks in memory ---- */

struct blocks {
    char *base; /* one block of memory, in which block i begins at offset[i] */
    void *temp; /* the same, where it is memory of this call */
    size_t *bytes, *offset;
};

static void blocks_free(struct blocks *b)
{
    free(b->temp);
    free(b->bytes);
}

/* Sizes and places of n blocks. packed: one after the other, in memory of this call. */
static bool blocks_make(struct blocks *b, const void *buf, int n, const int *counts,
                        const int *disps, MPI_Datatype type, bool packed)
{
    size_t total = 0;

    *b = (struct blocks){.bytes = malloc(2 * (size_t)n * sizeof(*b->bytes))};
    if (b->bytes == NULL)
        return false;
    b->offset = b->bytes + n;
    for (int i = 0; i < n; i++) {
        b->bytes[i] = (size_t)counts[i] * type->size;
        b->offset[i] = packed ? total : (size_t)(disps[i] * type->extent);
        total += b->bytes[i];
    }
    if (packed)
        b->temp = malloc(total > 0 ? total : 1);
    b->base = packed ? b->temp : (char *)(uintptr_t)buf;
    return b->base != NULL || total == 0;
}

static void blocks_pack(struct blocks *b, const void *buf, int n, const int *counts,
                        const int *disps, MPI_Datatype type)
{
    for (int i = 0; i < n && b->temp != NULL; i++)
        (void)rmpi_pack(b->base + b->offset[i], b->bytes[i],
                        (const char *)buf + disps[i] * type->extent, (size_t)counts[i], type);
}

static void blocks_unpack(const struct blocks *b, int i, void *buf, const int *counts,
                          const int *disps, MPI_Datatype type)
{
    if (b->temp != NULL)
        (void)rmpi_unpack(b->base + b->offset[i], b->bytes[i],
                          (char *)buf + disps[i] * type->extent, (size_t)counts[i], type);
}

static int v_check(const char *call, const int *counts, MPI_Datatype type, MPI_Comm comm)
{
    int rc = rmpi_check_data(call, NULL, 0, type, comm);

    for (int i = 0; rc == MPI_SUCCESS && i < comm->size; i++)
        if (counts[i] < 0)
            rc = rmpi_fail(comm, MPI_ERR_COUNT, call, "count %d is %d", i, counts[i]);
    return rc;
}

/* One own block: where it is, or packed into *temp. NULL: no memory. */
static void *v_own(const void *buf, int count, MPI_Datatype type, bool pack, void **temp)
{
    size_t bytes = (size_t)count * type->size;

    *temp = NULL;
    if (rmpi_is_block(type, count) || count == 0)
        return buf == NULL && bytes == 0 ? (void *)&rmpi_in_place : rmpi_block_at(type, buf);
    *temp = malloc(bytes);
    if (*temp != NULL && pack)
        (void)rmpi_pack(*temp, bytes, buf, (size_t)count, type);
    return *temp;
}

/* ---- messages between the root and the others ---- */

/* Waits for n messages, with progress of everything else. */
static int v_wait(rmsg_request_t *requests, int n)
{
    struct rmpi_turns t = {0};
    int first = 0;

    for (int i = 0; i < n; i++) {
        int rc;

        while ((rc = rmsg_wait(rmpi.msg, &requests[i], NULL, rmpi.active != NULL ? R_NOWAIT : 0)) ==
               R_PENDING) {
            rmpi_progress();
            rmpi_pause(&t);
        }
        first = first == 0 ? rc : first;
    }
    return first;
}

/* At the root: block i to or from member i, but for the own one. */
static int v_exchange(MPI_Comm comm, const struct blocks *b, bool send)
{
    rmsg_request_t *requests = calloc((size_t)comm->size, sizeof(*requests));
    int rc = requests == NULL ? -ENOMEM : 0, waited;

    for (int i = 0; rc == 0 && i < comm->size; i++) {
        char *at = b->base + b->offset[i];

        if (i == comm->rank)
            continue;
        rc = send ? rmsg_isend(rmpi.msg, rmpi_peer(comm, i), comm->space + 1, 0, at, b->bytes[i],
                               &requests[i], 0)
                  : rmsg_irecv(rmpi.msg, rmpi_peer(comm, i), comm->space + 1, 0, at, b->bytes[i],
                               &requests[i], 0);
    }
    waited = requests == NULL ? 0 : v_wait(requests, comm->size);
    free(requests);
    return rc != 0 ? rc : waited;
}

/* At another member: its block to or from the root. */
static int v_with_root(MPI_Comm comm, int root, void *data, size_t bytes, bool send)
{
    rmsg_request_t request = 0;
    int rc = send ? rmsg_isend(rmpi.msg, rmpi_peer(comm, root), comm->space + 1, 0, data, bytes,
                               &request, 0)
                  : rmsg_irecv(rmpi.msg, rmpi_peer(comm, root), comm->space + 1, 0, data, bytes,
                               &request, 0);

    return rc != 0 ? rc : v_wait(&request, 1);
}

static int v_gather_root(const void *in, int incount, MPI_Datatype intype, void *out,
                         const int *outcounts, const int *disps, MPI_Datatype outtype,
                         MPI_Comm comm)
{
    int me = comm->rank, rc;
    struct blocks b;
    void *own, *temp = NULL;

    if (!blocks_make(&b, out, comm->size, outcounts, disps, outtype, !outtype->dense)) {
        blocks_free(&b);
        return -ENOMEM;
    }
    rc = v_exchange(comm, &b, false);
    for (int i = 0; rc == 0 && i < comm->size; i++)
        if (i != me)
            blocks_unpack(&b, i, out, outcounts, disps, outtype);
    if (rc == 0 && in != MPI_IN_PLACE) {
        own = v_own(in, incount, intype, true, &temp);
        if (own == NULL)
            rc = -ENOMEM;
        else
            (void)rmpi_unpack(own, b.bytes[me], (char *)out + disps[me] * outtype->extent,
                              (size_t)outcounts[me], outtype);
        free(temp);
    }
    blocks_free(&b);
    return rc;
}

int MPI_Gatherv(const void *in, int incount, MPI_Datatype intype, void *out, const int *outcounts,
                const int *disps, MPI_Datatype outtype, int root, MPI_Comm comm)
{
    int rc = rmpi_check_root("MPI_Gatherv", root, comm);
    void *own, *temp = NULL;

    if (rc == MPI_SUCCESS && in != MPI_IN_PLACE)
        rc = rmpi_check_data("MPI_Gatherv", in, incount, intype, comm);
    if (rc == MPI_SUCCESS && comm->rank == root)
        rc = v_check("MPI_Gatherv", outcounts, outtype, comm);
    if (rc != MPI_SUCCESS)
        return rc;
    if (comm->rank == root) {
        rc = v_gather_root(in, incount, intype, out, outcounts, disps, outtype, comm);
    } else {
        own = v_own(in, incount, intype, true, &temp);
        rc = own == NULL ? -ENOMEM
                         : v_with_root(comm, root, own, (size_t)incount * intype->size, true);
        free(temp);
    }
    return rc == 0 ? MPI_SUCCESS : rmpi_fail_rc(comm, rc, "MPI_Gatherv");
}

static int v_scatter_root(const void *in, const int *incounts, const int *disps,
                          MPI_Datatype intype, void *out, int outcount, MPI_Datatype outtype,
                          MPI_Comm comm)
{
    int me = comm->rank, rc;
    struct blocks b;

    if (!blocks_make(&b, in, comm->size, incounts, disps, intype, !intype->dense)) {
        blocks_free(&b);
        return -ENOMEM;
    }
    blocks_pack(&b, in, comm->size, incounts, disps, intype);
    rc = v_exchange(comm, &b, true);
    if (rc == 0 && out != MPI_IN_PLACE)
        (void)rmpi_unpack(b.base + b.offset[me], b.bytes[me], out, (size_t)outcount, outtype);
    blocks_free(&b);
    return rc;
}

int MPI_Scatterv(const void *in, const int *incounts, const int *disps, MPI_Datatype intype,
                 void *out, int outcount, MPI_Datatype outtype, int root, MPI_Comm comm)
{
    int rc = rmpi_check_root("MPI_Scatterv", root, comm);
    void *own, *temp = NULL;
    size_t bytes;

    if (rc == MPI_SUCCESS && out != MPI_IN_PLACE)
        rc = rmpi_check_data("MPI_Scatterv", out, outcount, outtype, comm);
    if (rc == MPI_SUCCESS && comm->rank == root)
        rc = v_check("MPI_Scatterv", incounts, intype, comm);
    if (rc != MPI_SUCCESS)
        return rc;
    if (comm->rank == root) {
        rc = v_scatter_root(in, incounts, disps, intype, out, outcount, outtype, comm);
    } else {
        bytes = (size_t)outcount * outtype->size;
        own = v_own(out, outcount, outtype, false, &temp);
        rc = own == NULL ? -ENOMEM : v_with_root(comm, root, own, bytes, false);
        if (rc == 0 && temp != NULL)
            (void)rmpi_unpack(temp, bytes, out, (size_t)outcount, outtype);
        free(temp);
    }
    return rc == 0 ? MPI_SUCCESS : rmpi_fail_rc(comm, rc, "MPI_Scatterv");
}

/* ---- operations of rcoll ---- */

/* rcoll requires the same offsets at all members, and MPI does not: blocks that do not follow each other here go through a copy. */
static bool v_follow(const int *counts, const int *disps, int n, MPI_Datatype type)
{
    int at = 0;

    for (int i = 0; i < n; at += counts[i], i++)
        if (disps[i] != at)
            return false;
    return type->dense;
}

static int v_allgather(const void *in, int incount, MPI_Datatype intype, void *out,
                       const int *outcounts, const int *disps, MPI_Datatype outtype, MPI_Comm comm,
                       const struct blocks *b)
{
    bool in_place = in == MPI_IN_PLACE;
    size_t bytes = b->bytes[comm->rank], total = 0;
    rcoll_params_t p = {.kind = RCOLL_ALLGATHER, .counts = b->bytes, .into = b->base};
    void *own, *temp = NULL;
    int rc;

    for (int i = 0; i < comm->size; i++)
        total += b->bytes[i];
    if (total == 0)
        return 0;
    if (in_place) {
        in = (char *)out + disps[comm->rank] * outtype->extent;
        incount = outcounts[comm->rank];
        intype = outtype;
    }
    own = v_own(in, incount, intype, true, &temp);
    if (own != NULL && temp == NULL && in_place) { /* it must not be a part of the result */
        temp = malloc(bytes > 0 ? bytes : 1);
        own = temp == NULL ? NULL : memcpy(temp, own, bytes);
    }
    p.from = own;
    rc = own == NULL ? -ENOMEM : rmpi_run(comm, &p, bytes, total);
    free(temp);
    for (int i = 0; rc == 0 && i < comm->size; i++)
        blocks_unpack(b, i, out, outcounts, disps, outtype);
    return rc;
}

int MPI_Allgatherv(const void *in, int incount, MPI_Datatype intype, void *out,
                   const int *outcounts, const int *disps, MPI_Datatype outtype, MPI_Comm comm)
{
    int rc = v_check("MPI_Allgatherv", outcounts, outtype, comm);
    struct blocks b;

    if (rc == MPI_SUCCESS && in != MPI_IN_PLACE)
        rc = rmpi_check_data("MPI_Allgatherv", in, incount, intype, comm);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = blocks_make(&b, out, comm->size, outcounts, disps, outtype,
                     !v_follow(outcounts, disps, comm->size, outtype))
             ? v_allgather(in, incount, intype, out, outcounts, disps, outtype, comm, &b)
             : -ENOMEM;
    blocks_free(&b);
    return rc == 0 ? MPI_SUCCESS : rmpi_fail_rc(comm, rc, "MPI_Allgatherv");
}

int MPI_Alltoallv(const void *in, const int *incounts, const int *indisps, MPI_Datatype intype,
                  void *out, const int *outcounts, const int *outdisps, MPI_Datatype outtype,
                  MPI_Comm comm)
{
    bool in_place = in == MPI_IN_PLACE;
    int rc = v_check("MPI_Alltoallv", outcounts, outtype, comm);
    rcoll_params_t p = {.kind = RCOLL_ALLTOALL};
    struct blocks from = {0}, into = {0};

    if (rc == MPI_SUCCESS && !in_place)
        rc = v_check("MPI_Alltoallv", incounts, intype, comm);
    if (rc != MPI_SUCCESS)
        return rc;
    if (in_place) {
        in = out;
        incounts = outcounts;
        indisps = outdisps;
        intype = outtype;
    }
    if (!blocks_make(&from, in, comm->size, incounts, indisps, intype,
                     in_place || !intype->dense) ||
        !blocks_make(&into, out, comm->size, outcounts, outdisps, outtype, !outtype->dense)) {
        rc = -ENOMEM;
    } else {
        blocks_pack(&from, in, comm->size, incounts, indisps, intype);
        p.from = from.base != NULL ? from.base : &rmpi_in_place;
        p.into = into.base != NULL ? into.base : &rmpi_in_place;
        p.counts = from.bytes;
        p.offsets = from.offset;
        p.counts_in = into.bytes;
        p.offsets_in = into.offset;
        rc = rmpi_run(comm, &p, 0, 0);
    }
    for (int i = 0; rc == 0 && i < comm->size; i++)
        blocks_unpack(&into, i, out, outcounts, outdisps, outtype);
    blocks_free(&from);
    blocks_free(&into);
    return rc == 0 ? MPI_SUCCESS : rmpi_fail_rc(comm, rc, "MPI_Alltoallv");
}
