/* SPDX-License-Identifier: BSD-3-Clause */
/* recv.c: receives, and sends with a receive. Data that is not one block arrives in memory of the request, and is unpacked. */
#include "rmpi.h"

static void recv_no_process(struct rmpi_request *r)
{
    r->over = true;
    rmpi_status_empty(&r->status);
    r->status.MPI_SOURCE = MPI_PROC_NULL;
}

int rmpi_start_recv(struct rmpi_request *r)
{
    size_t bytes = (size_t)r->count * r->type->size;
    void *into = rmpi_block_at(r->type, r->buf);

    r->active = true;
    r->over = false;
    if (r->peer == MPI_PROC_NULL) {
        recv_no_process(r);
        return 0;
    }
    if (!rmpi_is_block(r->type, r->count)) {
        into = r->temp = malloc(bytes > 0 ? bytes : 1);
        if (into == NULL)
            return -ENOMEM;
        r->temp_bytes = bytes;
    }
    return rmsg_irecv(rmpi.msg, rmpi_source(r->comm, r->peer), r->comm->space, rmpi_tag(r->tag),
                      into, bytes, &r->msg, 0);
}

static int recv_begin(const char *call, void *buf, int count, MPI_Datatype type, int source,
                      int tag, MPI_Comm comm, MPI_Request *request)
{
    int rc = rmpi_check_recv(call, buf, count, type, source, tag, comm);
    struct rmpi_request *r;

    if (RMPI_UNLIKELY(rc != MPI_SUCCESS))
        return rc;
    r = rmpi_prepare(RMPI_RECV, buf, count, type, source, tag, comm);
    if (RMPI_UNLIKELY(r == NULL))
        return MPI_ERR_NO_MEM;
    rc = rmpi_start_recv(r);
    if (RMPI_UNLIKELY(rc != 0)) {
        rc = rmpi_fail_rc(comm, rc, call);
        rmpi_request_put(r);
        return rc;
    }
    *request = r;
    return MPI_SUCCESS;
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    return recv_begin("MPI_Irecv", buf, count, type, source, tag, comm, request);
}

static __attribute__((noinline)) int recv_wait(void *buf, int count, MPI_Datatype type, int source,
                                               int tag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Request request;
    int rc = recv_begin("MPI_Recv", buf, count, type, source, tag, comm, &request);

    if (rc != MPI_SUCCESS)
        return rc;
    rmpi_request_wait(request);
    return rmpi_request_finish(&request, status);
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    rmsg_status_t s;
    int rc = rmpi_check_recv("MPI_Recv", buf, count, type, source, tag, comm);

    if (RMPI_UNLIKELY(rc != MPI_SUCCESS))
        return rc;
    if (RMPI_UNLIKELY(source == MPI_PROC_NULL || rmpi.active != NULL ||
                      !rmpi_is_block(type, count)))
        return recv_wait(buf, count, type, source, tag, comm, status);
    rc = rmsg_recv(rmpi.msg, rmpi_source(comm, source), comm->space, rmpi_tag(tag),
                   rmpi_block_at(type, buf), (size_t)count * type->size, &s, 0);
    if (RMPI_LIKELY(rc == 0 || rc == -EMSGSIZE))
        rmpi_status_set(status, comm, &s, rmpi_code(rc));
    return RMPI_LIKELY(rc == 0) ? MPI_SUCCESS : rmpi_fail_rc(comm, rc, "MPI_Recv");
}

int MPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                 void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
                 MPI_Comm comm, MPI_Status *status)
{
    MPI_Request request;
    int rc = recv_begin("MPI_Sendrecv", recvbuf, recvcount, recvtype, source, recvtag, comm,
                        &request),
        sent;

    if (rc != MPI_SUCCESS)
        return rc;
    sent = MPI_Send(sendbuf, sendcount, sendtype, dest, sendtag, comm);
    if (sent != MPI_SUCCESS) {
        (void)MPI_Cancel(&request);
        rmpi_detach(request);
        return sent;
    }
    rmpi_request_wait(request);
    return rmpi_request_finish(&request, status);
}

int MPI_Sendrecv_replace(void *buf, int count, MPI_Datatype type, int dest, int sendtag, int source,
                         int recvtag, MPI_Comm comm, MPI_Status *status)
{
    int rc = rmpi_check_send("MPI_Sendrecv_replace", buf, count, type, dest, sendtag, comm);
    size_t bytes;
    void *copy;

    if (rc != MPI_SUCCESS)
        return rc;
    bytes = (size_t)count * type->size;
    copy = malloc(bytes > 0 ? bytes : 1);
    if (copy == NULL || bytes > INT32_MAX) {
        free(copy);
        return rmpi_fail(comm, MPI_ERR_NO_MEM, "MPI_Sendrecv_replace", "no memory for %zu bytes",
                         bytes);
    }
    (void)rmpi_pack(copy, bytes, buf, (size_t)count, type);
    rc = MPI_Sendrecv(copy, (int)bytes, MPI_BYTE, dest, sendtag, buf, count, type, source, recvtag,
                      comm, status);
    free(copy);
    return rc;
}
