/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.c: collective operations that move blocks of equal length.
 *
 * rcoll moves bytes. A contribution or a result that is not one block is packed into, or unpacked from, memory of the call;
 * so is a block that MPI_IN_PLACE leaves among the results.
 */
#include "rmpi.h"

/* One side of an operation: `blocks` blocks of count elements, one after the other. */
struct side {
    void *data; /* one block of `bytes` */
    void *temp; /* the same, where it is memory of this call */
    size_t bytes;
};

/* SIZE_MAX, of which there is no memory, where it overflows. */
static size_t side_bytes(size_t blocks, int count, MPI_Datatype type)
{
    size_t bytes;

    return __builtin_mul_overflow(blocks, (size_t)count * type->size, &bytes) ? SIZE_MAX : bytes;
}

static bool side_make(struct side *s, void *buf, size_t blocks, int count, MPI_Datatype type,
                      bool copy)
{
    *s = (struct side){.bytes = side_bytes(blocks, count, type)};
    if (!copy && (type->dense || (type->solid && blocks * (size_t)count == 1))) {
        s->data = rmpi_block_at(type, buf);
        return true;
    }
    s->data = s->temp = malloc(s->bytes > 0 ? s->bytes : 1);
    return s->temp != NULL;
}

/* What is contributed. copy: also if it is one block. */
static bool side_from(struct side *s, const void *buf, size_t blocks, int count, MPI_Datatype type,
                      bool copy)
{
    if (!side_make(s, (void *)(uintptr_t)buf, blocks, count, type, copy))
        return false;
    if (s->temp != NULL)
        (void)rmpi_pack(s->temp, s->bytes, buf, blocks * (size_t)count, type);
    return true;
}

static void side_deliver(const struct side *s, void *buf, size_t blocks, int count,
                         MPI_Datatype type)
{
    if (s->temp != NULL)
        (void)rmpi_unpack(s->temp, s->bytes, buf, blocks * (size_t)count, type);
}

static int coll_end(const char *call, MPI_Comm comm, int rc, struct side *from, struct side *into)
{
    free(from->temp);
    free(into->temp);
    return RMPI_LIKELY(rc == 0) ? MPI_SUCCESS : rmpi_fail_rc(comm, rc, call);
}

static char *coll_block(const void *buf, int i, int count, MPI_Datatype type)
{
    return (char *)(uintptr_t)buf + (MPI_Aint)i * count * type->extent;
}

/* ---- barrier, broadcast ---- */

int MPI_Barrier(MPI_Comm comm)
{
    rcoll_params_t p = {.kind = RCOLL_BARRIER};
    int rc = rmpi_check_comm("MPI_Barrier", comm);

    if (RMPI_UNLIKELY(rc != MPI_SUCCESS))
        return rc;
    rc = rmpi_run(comm, &p, 0, 0);
    return RMPI_LIKELY(rc == 0) ? MPI_SUCCESS : rmpi_fail_rc(comm, rc, "MPI_Barrier");
}

int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    int rc = rmpi_check_root("MPI_Bcast", root, comm);
    bool sends = rc == MPI_SUCCESS && comm->rank == root;
    struct side none = {0}, s = {0};
    rcoll_params_t p = {.kind = RCOLL_BCAST, .root = root};

    if (RMPI_LIKELY(rc == MPI_SUCCESS))
        rc = rmpi_check_data("MPI_Bcast", buf, count, type, comm);
    if (RMPI_UNLIKELY(rc != MPI_SUCCESS))
        return rc;
    if (!(sends ? side_from(&s, buf, 1, count, type, false)
                : side_make(&s, buf, 1, count, type, false)))
        return coll_end("MPI_Bcast", comm, -ENOMEM, &s, &none);
    p.count = s.bytes;
    p.from = p.into = s.data;
    if (s.bytes > 0)
        rc = rmpi_run(comm, &p, sends ? s.bytes : 0, sends ? 0 : s.bytes);
    if (rc == 0 && !sends)
        side_deliver(&s, buf, 1, count, type);
    return coll_end("MPI_Bcast", comm, rc, &s, &none);
}

/* ---- gather, scatter ---- */

int MPI_Gather(const void *in, int incount, MPI_Datatype intype, void *out, int outcount,
               MPI_Datatype outtype, int root, MPI_Comm comm)
{
    int rc = rmpi_check_root("MPI_Gather", root, comm);
    bool gathers = rc == MPI_SUCCESS && comm->rank == root, in_place = in == MPI_IN_PLACE;
    rcoll_params_t p = {.kind = RCOLL_GATHER, .root = root};
    struct side from = {0}, into = {0};
    size_t n;

    if (rc == MPI_SUCCESS && gathers)
        rc = rmpi_check_data("MPI_Gather", out, outcount, outtype, comm);
    if (rc == MPI_SUCCESS && !in_place)
        rc = rmpi_check_data("MPI_Gather", in, incount, intype, comm);
    if (rc != MPI_SUCCESS)
        return rc;
    n = gathers ? (size_t)comm->size : 0;
    if (in_place) {
        in = coll_block(out, root, outcount, outtype);
        incount = outcount;
        intype = outtype;
    }
    if (!side_from(&from, in, 1, incount, intype, in_place) ||
        (gathers && !side_make(&into, out, n, outcount, outtype, false)))
        return coll_end("MPI_Gather", comm, -ENOMEM, &from, &into);
    p.count = from.bytes;
    p.from = from.data;
    p.into = into.data;
    if (from.bytes > 0)
        rc = rmpi_run(comm, &p, from.bytes, into.bytes);
    if (rc == 0 && gathers)
        side_deliver(&into, out, n, outcount, outtype);
    return coll_end("MPI_Gather", comm, rc, &from, &into);
}

int MPI_Scatter(const void *in, int incount, MPI_Datatype intype, void *out, int outcount,
                MPI_Datatype outtype, int root, MPI_Comm comm)
{
    int rc = rmpi_check_root("MPI_Scatter", root, comm);
    bool scatters = rc == MPI_SUCCESS && comm->rank == root, in_place = out == MPI_IN_PLACE;
    rcoll_params_t p = {.kind = RCOLL_SCATTER, .root = root};
    struct side from = {0}, into = {0};
    size_t n;

    if (rc == MPI_SUCCESS && scatters)
        rc = rmpi_check_data("MPI_Scatter", in, incount, intype, comm);
    if (rc == MPI_SUCCESS && !in_place)
        rc = rmpi_check_data("MPI_Scatter", out, outcount, outtype, comm);
    if (rc != MPI_SUCCESS)
        return rc;
    n = scatters ? (size_t)comm->size : 0;
    if (in_place) { /* the own block stays where it is: a copy of it goes nowhere */
        outcount = incount;
        outtype = intype;
    }
    if (!side_make(&into, in_place ? NULL : out, 1, outcount, outtype, in_place) ||
        (scatters && !side_from(&from, in, n, incount, intype, false)))
        return coll_end("MPI_Scatter", comm, -ENOMEM, &from, &into);
    p.count = into.bytes;
    p.from = from.data;
    p.into = into.data;
    if (into.bytes > 0)
        rc = rmpi_run(comm, &p, from.bytes, into.bytes);
    if (rc == 0 && !in_place)
        side_deliver(&into, out, 1, outcount, outtype);
    return coll_end("MPI_Scatter", comm, rc, &from, &into);
}

/* ---- all to all ---- */

static int coll_check_all(const char *call, const void *in, int incount, MPI_Datatype intype,
                          const void *out, int outcount, MPI_Datatype outtype, MPI_Comm comm)
{
    int rc = rmpi_check_data(call, out, outcount, outtype, comm);

    return rc != MPI_SUCCESS || in == MPI_IN_PLACE
               ? rc
               : rmpi_check_data(call, in, incount, intype, comm);
}

int MPI_Allgather(const void *in, int incount, MPI_Datatype intype, void *out, int outcount,
                  MPI_Datatype outtype, MPI_Comm comm)
{
    int rc = coll_check_all("MPI_Allgather", in, incount, intype, out, outcount, outtype, comm);
    bool in_place = in == MPI_IN_PLACE;
    rcoll_params_t p = {.kind = RCOLL_ALLGATHER};
    struct side from = {0}, into = {0};

    if (rc != MPI_SUCCESS)
        return rc;
    if (in_place) {
        in = coll_block(out, comm->rank, outcount, outtype);
        incount = outcount;
        intype = outtype;
    }
    if (!side_from(&from, in, 1, incount, intype, in_place) ||
        !side_make(&into, out, (size_t)comm->size, outcount, outtype, false))
        return coll_end("MPI_Allgather", comm, -ENOMEM, &from, &into);
    p.count = from.bytes;
    p.from = from.data;
    p.into = into.data;
    if (from.bytes > 0)
        rc = rmpi_run(comm, &p, from.bytes, into.bytes);
    if (rc == 0)
        side_deliver(&into, out, (size_t)comm->size, outcount, outtype);
    return coll_end("MPI_Allgather", comm, rc, &from, &into);
}

int MPI_Alltoall(const void *in, int incount, MPI_Datatype intype, void *out, int outcount,
                 MPI_Datatype outtype, MPI_Comm comm)
{
    int rc = coll_check_all("MPI_Alltoall", in, incount, intype, out, outcount, outtype, comm);
    bool in_place = in == MPI_IN_PLACE;
    rcoll_params_t p = {.kind = RCOLL_ALLTOALL};
    struct side from = {0}, into = {0};
    size_t n;

    if (rc != MPI_SUCCESS)
        return rc;
    n = (size_t)comm->size;
    if (in_place) {
        in = out;
        incount = outcount;
        intype = outtype;
    }
    if (!side_from(&from, in, n, incount, intype, in_place) ||
        !side_make(&into, out, n, outcount, outtype, false))
        return coll_end("MPI_Alltoall", comm, -ENOMEM, &from, &into);
    p.count = from.bytes / n;
    p.from = from.data;
    p.into = into.data;
    if (from.bytes > 0)
        rc = rmpi_run(comm, &p, from.bytes, into.bytes);
    if (rc == 0)
        side_deliver(&into, out, n, outcount, outtype);
    return coll_end("MPI_Alltoall", comm, rc, &from, &into);
}

/* ---- non-blocking: of types without gaps ---- */

static int coll_start(const char *call, MPI_Comm comm, const rcoll_params_t *p, bool nothing,
                      MPI_Request *request)
{
    struct rmpi_request *r = rmpi_request_make(RMPI_COLL, comm);
    int rc = 0;

    if (r == NULL)
        return MPI_ERR_NO_MEM;
    if (nothing)
        r->active = r->over = true;
    else
        rc = rmpi_run_start(r, p);
    if (rc != 0) {
        rc = rmpi_fail_rc(comm, rc, call); /* before the request is freed, which may fail too */
        rmpi_request_put(r);
        return rc;
    }
    *request = r;
    return MPI_SUCCESS;
}

static int coll_check_dense(const char *call, const void *in, MPI_Datatype a, MPI_Datatype b,
                            MPI_Comm comm)
{
    if (in != MPI_IN_PLACE && a->dense && b->dense)
        return MPI_SUCCESS;
    return rmpi_fail(comm, MPI_ERR_UNSUPPORTED_OPERATION, call,
                     "this subset has it for types without gaps, "
                     "and not for MPI_IN_PLACE");
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    rcoll_params_t p = {.kind = RCOLL_BARRIER};
    int rc = rmpi_check_comm("MPI_Ibarrier", comm);

    return rc == MPI_SUCCESS ? coll_start("MPI_Ibarrier", comm, &p, false, request) : rc;
}

int MPI_Ibcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm,
               MPI_Request *request)
{
    rcoll_params_t p = {.kind = RCOLL_BCAST, .root = root, .from = buf, .into = buf};
    int rc = rmpi_check_root("MPI_Ibcast", root, comm);

    if (rc == MPI_SUCCESS)
        rc = rmpi_check_data("MPI_Ibcast", buf, count, type, comm);
    if (rc == MPI_SUCCESS)
        rc = coll_check_dense("MPI_Ibcast", buf, type, type, comm);
    if (rc != MPI_SUCCESS)
        return rc;
    p.count = (size_t)count * type->size;
    return coll_start("MPI_Ibcast", comm, &p, p.count == 0, request);
}

static int coll_start_all(const char *call, rcoll_kind_t kind, const void *in, int incount,
                          MPI_Datatype intype, void *out, int outcount, MPI_Datatype outtype,
                          MPI_Comm comm, MPI_Request *request)
{
    rcoll_params_t p = {.kind = kind, .from = in, .into = out};
    int rc = coll_check_all(call, in, incount, intype, out, outcount, outtype, comm);

    if (rc == MPI_SUCCESS)
        rc = coll_check_dense(call, in, in == MPI_IN_PLACE ? outtype : intype, outtype, comm);
    if (rc != MPI_SUCCESS)
        return rc;
    p.count = (size_t)incount * intype->size;
    return coll_start(call, comm, &p, p.count == 0, request);
}

int MPI_Iallgather(const void *in, int incount, MPI_Datatype intype, void *out, int outcount,
                   MPI_Datatype outtype, MPI_Comm comm, MPI_Request *request)
{
    return coll_start_all("MPI_Iallgather", RCOLL_ALLGATHER, in, incount, intype, out, outcount,
                          outtype, comm, request);
}

int MPI_Ialltoall(const void *in, int incount, MPI_Datatype intype, void *out, int outcount,
                  MPI_Datatype outtype, MPI_Comm comm, MPI_Request *request)
{
    return coll_start_all("MPI_Ialltoall", RCOLL_ALLTOALL, in, incount, intype, out, outcount,
                          outtype, comm, request);
}
