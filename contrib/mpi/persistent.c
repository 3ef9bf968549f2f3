/* SPDX-License-Identifier: BSD-3-Clause */
/* persistent.c: requests that are made once, and started again and again. Each start begins a new transfer of rmsg. */
#include "rmpi.h"

static int persistent_make(const char *call, enum rmpi_kind kind, const void *buf, int count,
                           MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                           MPI_Request *request)
{
    int rc = kind == RMPI_SEND ? rmpi_check_send(call, buf, count, type, peer, tag, comm)
                               : rmpi_check_recv(call, buf, count, type, peer, tag, comm);
    struct rmpi_request *r;

    if (rc != MPI_SUCCESS)
        return rc;
    r = rmpi_prepare(kind, buf, count, type, peer, tag, comm);
    if (r == NULL)
        return MPI_ERR_NO_MEM;
    r->persistent = true;
    *request = r;
    return MPI_SUCCESS;
}

int MPI_Send_init(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                  MPI_Request *request)
{
    return persistent_make("MPI_Send_init", RMPI_SEND, buf, count, type, dest, tag, comm, request);
}

int MPI_Rsend_init(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                   MPI_Request *request)
{
    return persistent_make("MPI_Rsend_init", RMPI_SEND, buf, count, type, dest, tag, comm, request);
}

int MPI_Ssend_init(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                   MPI_Request *request)
{
    int rc =
        persistent_make("MPI_Ssend_init", RMPI_SEND, buf, count, type, dest, tag, comm, request);

    if (rc == MPI_SUCCESS)
        (*request)->sync = true;
    return rc;
}

int MPI_Bsend_init(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                   MPI_Request *request)
{
    int rc =
        persistent_make("MPI_Bsend_init", RMPI_SEND, buf, count, type, dest, tag, comm, request);

    if (rc == MPI_SUCCESS)
        (*request)->buffered = true;
    return rc;
}

int MPI_Recv_init(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Request *request)
{
    return persistent_make("MPI_Recv_init", RMPI_RECV, buf, count, type, source, tag, comm,
                           request);
}

int MPI_Start(MPI_Request *request)
{
    struct rmpi_request *r = *request;
    int rc;

    rmpi_check_running("MPI_Start");
    if (r == NULL || !r->persistent || r->active)
        return rmpi_fail(r == NULL ? NULL : r->comm, MPI_ERR_REQUEST, "MPI_Start",
                         "the request is %s",
                         r == NULL        ? "null"
                         : !r->persistent ? "not persistent"
                                          : "active");
    if (r->kind == RMPI_SEND && r->buffered) {
        rc = rmpi_start_bsend(r, "MPI_Start");
        if (rc != MPI_SUCCESS)
            r->active = r->over = false;
        return rc;
    }
    rc = r->kind == RMPI_SEND ? rmpi_start_send(r) : rmpi_start_recv(r);
    if (rc == 0)
        return MPI_SUCCESS;
    r->active = false;
    free(r->temp);
    r->temp = NULL;
    return rmpi_fail_rc(r->comm, rc, "MPI_Start");
}

int MPI_Startall(int n, MPI_Request *requests)
{
    int rc = MPI_SUCCESS;

    for (int i = 0; i < n && rc == MPI_SUCCESS; i++)
        rc = MPI_Start(&requests[i]);
    return rc;
}
