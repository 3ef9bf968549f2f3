/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c: sends. One block of memory is sent from where it is; other data is packed into memory of the request first.
 *
 * MPI_Rsend is MPI_Send. MPI_Bsend copies the data into memory of the subset, and counts it against the size of the buffer
 * that was attached, whose memory is not used.
 */
#include "rmpi.h"

/* Of MPI_Buffer_attach */
static struct {
    void *buf;
    size_t bytes;
} attached;

/* ---- the start of one ---- */

static int send_message(struct rmpi_request *r, const void *data, size_t bytes)
{
    int flags = r->sync ? RMSG_SYNC : 0;

    return rmsg_isend(rmpi.msg, rmpi_peer(r->comm, r->peer), r->comm->space, rmpi_tag(r->tag), data,
                      bytes, &r->msg, flags);
}

int rmpi_start_send(struct rmpi_request *r)
{
    size_t bytes = (size_t)r->count * r->type->size;

    r->active = true;
    r->over = false;
    if (r->peer == MPI_PROC_NULL) {
        r->over = true;
        return 0;
    }
    if (rmpi_is_block(r->type, r->count) && !r->buffered)
        return send_message(r, rmpi_block_at(r->type, r->buf), bytes);
    r->temp = malloc(bytes > 0 ? bytes : 1);
    if (r->temp == NULL)
        return -ENOMEM;
    r->temp_bytes = bytes;
    (void)rmpi_pack(r->temp, bytes, r->buf, (size_t)r->count, r->type);
    return send_message(r, r->temp, bytes);
}

struct rmpi_request *rmpi_prepare(enum rmpi_kind kind, const void *buf, int count,
                                  MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    struct rmpi_request *r = rmpi_request_make(kind, comm);

    if (RMPI_UNLIKELY(r == NULL))
        return NULL;
    r->buf = (void *)(uintptr_t)buf;
    r->count = count;
    r->type = type;
    r->peer = peer;
    r->tag = tag;
    rmpi_type_keep(type);
    return r;
}

/* A send that is started at once. */
static int send_begin(const char *call, const void *buf, int count, MPI_Datatype type, int dest,
                      int tag, MPI_Comm comm, bool sync, MPI_Request *request)
{
    int rc = rmpi_check_send(call, buf, count, type, dest, tag, comm);
    struct rmpi_request *r;

    if (RMPI_UNLIKELY(rc != MPI_SUCCESS))
        return rc;
    if (RMPI_UNLIKELY(rmpi.detached != NULL))
        rmpi_reap(false);
    r = rmpi_prepare(RMPI_SEND, buf, count, type, dest, tag, comm);
    if (RMPI_UNLIKELY(r == NULL))
        return MPI_ERR_NO_MEM;
    r->sync = sync;
    rc = rmpi_start_send(r);
    if (RMPI_UNLIKELY(rc != 0)) {
        rc = rmpi_fail_rc(comm, rc, call);
        rmpi_request_put(r);
        return rc;
    }
    *request = r;
    return MPI_SUCCESS;
}

/* ---- blocking ---- */

static int send_wait(const char *call, const void *buf, int count, MPI_Datatype type, int dest,
                     int tag, MPI_Comm comm, bool sync)
{
    MPI_Request request;
    int rc = send_begin(call, buf, count, type, dest, tag, comm, sync, &request);

    if (RMPI_UNLIKELY(rc != MPI_SUCCESS))
        return rc;
    rmpi_request_wait(request);
    return rmpi_request_finish(&request, MPI_STATUS_IGNORE);
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    int rc = rmpi_check_send("MPI_Send", buf, count, type, dest, tag, comm);

    if (RMPI_UNLIKELY(rc != MPI_SUCCESS))
        return rc;
    if (RMPI_UNLIKELY(dest == MPI_PROC_NULL || rmpi.active != NULL || !rmpi_is_block(type, count)))
        return send_wait("MPI_Send", buf, count, type, dest, tag, comm, false);
    rc = rmsg_send(rmpi.msg, rmpi_peer(comm, dest), comm->space, (uint32_t)tag,
                   rmpi_block_at(type, buf), (size_t)count * type->size, 0);
    return RMPI_LIKELY(rc == 0) ? MPI_SUCCESS : rmpi_fail_rc(comm, rc, "MPI_Send");
}

int MPI_Rsend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    return MPI_Send(buf, count, type, dest, tag, comm);
}

int MPI_Ssend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    return send_wait("MPI_Ssend", buf, count, type, dest, tag, comm, true);
}

/* ---- not blocking ---- */

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    return send_begin("MPI_Isend", buf, count, type, dest, tag, comm, false, request);
}

int MPI_Irsend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    return send_begin("MPI_Irsend", buf, count, type, dest, tag, comm, false, request);
}

int MPI_Issend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    return send_begin("MPI_Issend", buf, count, type, dest, tag, comm, true, request);
}

/* ---- buffered ---- */

static size_t send_buffered_bytes(void)
{
    size_t bytes = 0;

    for (const struct rmpi_request *r = rmpi.detached; r != NULL; r = r->next)
        if (r->buffered)
            bytes += r->temp_bytes + MPI_BSEND_OVERHEAD;
    return bytes;
}

/* The data of r leaves with a detached request; r itself is over. */
int rmpi_start_bsend(struct rmpi_request *r, const char *call)
{
    size_t bytes = (size_t)r->count * r->type->size, used;
    struct rmpi_request *sent;
    int rc;

    r->active = r->over = true;
    if (r->peer == MPI_PROC_NULL)
        return MPI_SUCCESS;
    rmpi_reap(false);
    used = send_buffered_bytes();
    if (used + bytes + MPI_BSEND_OVERHEAD > attached.bytes)
        return rmpi_fail(r->comm, MPI_ERR_BUFFER, call,
                         "%zu bytes and MPI_BSEND_OVERHEAD do not fit: %zu bytes are attached, of "
                         "which %zu are in use",
                         bytes, attached.bytes, used);
    sent = rmpi_prepare(RMPI_SEND, r->buf, r->count, r->type, r->peer, r->tag, r->comm);
    if (sent == NULL)
        return MPI_ERR_NO_MEM;
    sent->buffered = true;
    rc = rmpi_start_send(sent);
    if (rc != 0) {
        rc = rmpi_fail_rc(r->comm, rc, call);
        rmpi_request_put(sent);
        return rc;
    }
    rmpi_detach(sent);
    return MPI_SUCCESS;
}

int MPI_Ibsend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    int rc = rmpi_check_send("MPI_Ibsend", buf, count, type, dest, tag, comm);
    struct rmpi_request *r;

    if (rc != MPI_SUCCESS)
        return rc;
    r = rmpi_prepare(RMPI_SEND, buf, count, type, dest, tag, comm);
    if (r == NULL)
        return MPI_ERR_NO_MEM;
    rc = rmpi_start_bsend(r, "MPI_Ibsend");
    if (rc == MPI_SUCCESS)
        *request = r;
    else
        rmpi_request_put(r);
    return rc;
}

int MPI_Bsend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    MPI_Request request;
    int rc = MPI_Ibsend(buf, count, type, dest, tag, comm, &request);

    return rc == MPI_SUCCESS ? rmpi_request_finish(&request, MPI_STATUS_IGNORE) : rc;
}

int MPI_Buffer_attach(void *buf, int bytes)
{
    rmpi_check_running("MPI_Buffer_attach");
    if (attached.buf != NULL || bytes < 0)
        return rmpi_fail(NULL, MPI_ERR_BUFFER, "MPI_Buffer_attach", "%s",
                         bytes < 0 ? "the size is negative" : "a buffer is attached");
    attached.buf = buf;
    attached.bytes = (size_t)bytes;
    return MPI_SUCCESS;
}

int MPI_Buffer_detach(void *buf, int *bytes)
{
    struct rmpi_turns t = {0};

    rmpi_check_running("MPI_Buffer_detach");
    for (rmpi_reap(false); send_buffered_bytes() > 0; rmpi_reap(false)) {
        rmpi_progress();
        rmpi_pause(&t);
    }
    memcpy(buf, &attached.buf, sizeof(attached.buf));
    *bytes = (int)attached.bytes;
    attached.buf = NULL;
    attached.bytes = 0;
    return MPI_SUCCESS;
}
