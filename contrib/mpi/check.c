/* SPDX-License-Identifier: BSD-3-Clause */
/* check.c: checks of the arguments that many calls have. Each failure is reported here, with the value. */
#include "rmpi.h"

int rmpi_check_comm(const char *call, MPI_Comm comm)
{
    rmpi_check_running(call);
    if (RMPI_LIKELY(comm != NULL && comm->size > 0))
        return MPI_SUCCESS;
    return rmpi_fail(NULL, MPI_ERR_COMM, call, "the communicator is %s",
                     comm == NULL ? "null" : "freed");
}

int rmpi_check_data(const char *call, const void *buf, int count, MPI_Datatype type, MPI_Comm comm)
{
    int rc = rmpi_check_comm(call, comm);

    if (RMPI_UNLIKELY(rc != MPI_SUCCESS))
        return rc;
    if (RMPI_UNLIKELY(count < 0))
        return rmpi_fail(comm, MPI_ERR_COUNT, call, "count is %d", count);
    if (RMPI_UNLIKELY(type == NULL || !type->committed))
        return rmpi_fail(comm, MPI_ERR_TYPE, call, "the type is %s",
                         type == NULL ? "null" : "not committed");
    if (RMPI_UNLIKELY(rmpi_span(type, (size_t)count) < 0))
        return rmpi_fail(comm, MPI_ERR_COUNT, call,
                         "%d elements of %td bytes are more than an address space", count,
                         type->extent);
    if (RMPI_UNLIKELY(buf == NULL && count > 0 && type->size > 0 && type->true_lb == 0))
        return rmpi_fail(comm, MPI_ERR_BUFFER, call, "the buffer is NULL for %d elements", count);
    return MPI_SUCCESS;
}

int rmpi_check_send(const char *call, const void *buf, int count, MPI_Datatype type, int dest,
                    int tag, MPI_Comm comm)
{
    int rc = rmpi_check_data(call, buf, count, type, comm);

    if (RMPI_UNLIKELY(rc != MPI_SUCCESS))
        return rc;
    if (RMPI_UNLIKELY((dest < 0 && dest != MPI_PROC_NULL) || dest >= comm->size))
        return rmpi_fail(comm, MPI_ERR_RANK, call, "dest is %d; the ranks are 0 to %d", dest,
                         comm->size - 1);
    if (RMPI_UNLIKELY(tag < 0))
        return rmpi_fail(comm, MPI_ERR_TAG, call, "tag is %d", tag);
    return MPI_SUCCESS;
}

int rmpi_check_source(const char *call, int source, int tag, MPI_Comm comm)
{
    if (RMPI_UNLIKELY((source < 0 && source != MPI_PROC_NULL && source != MPI_ANY_SOURCE) ||
                      source >= comm->size))
        return rmpi_fail(comm, MPI_ERR_RANK, call, "source is %d; the ranks are 0 to %d", source,
                         comm->size - 1);
    if (RMPI_UNLIKELY(tag < 0 && tag != MPI_ANY_TAG))
        return rmpi_fail(comm, MPI_ERR_TAG, call, "tag is %d", tag);
    return MPI_SUCCESS;
}

int rmpi_check_recv(const char *call, const void *buf, int count, MPI_Datatype type, int source,
                    int tag, MPI_Comm comm)
{
    int rc = rmpi_check_data(call, buf, count, type, comm);

    return RMPI_UNLIKELY(rc != MPI_SUCCESS) ? rc : rmpi_check_source(call, source, tag, comm);
}

int rmpi_check_root(const char *call, int root, MPI_Comm comm)
{
    int rc = rmpi_check_comm(call, comm);

    if (RMPI_UNLIKELY(rc == MPI_SUCCESS && (root < 0 || root >= comm->size)))
        return rmpi_fail(comm, MPI_ERR_ROOT, call, "root is %d; the ranks are 0 to %d", root,
                         comm->size - 1);
    return rc;
}
