/* SPDX-License-Identifier: BSD-3-Clause */
/* probe.c: messages that are there, and have not been received; matched probes. */
#include "rmpi.h"

struct rmpi_message {
    rmsg_message_t message;
    struct rmpi_comm *comm;
};
struct rmpi_message rmpi_message_no_proc;

static int probe_check(const char *call, int source, int tag, MPI_Comm comm)
{
    int rc = rmpi_check_comm(call, comm);

    return rc != MPI_SUCCESS ? rc : rmpi_check_source(call, source, tag, comm);
}

static void probe_no_process(MPI_Status *status)
{
    rmpi_status_empty(status);
    if (status != MPI_STATUS_IGNORE)
        status->MPI_SOURCE = MPI_PROC_NULL;
}

/* One attempt. 0, R_PENDING, or a failure. */
static int probe_look(int source, int tag, MPI_Comm comm, rmsg_message_t *message, rmsg_status_t *s)
{
    int from = rmpi_source(comm, source);

    if (RMPI_UNLIKELY(rmpi.active != NULL))
        rmpi_progress();
    return message == NULL
               ? rmsg_probe(rmpi.msg, from, comm->space, rmpi_tag(tag), s, R_NOWAIT)
               : rmsg_mprobe(rmpi.msg, from, comm->space, rmpi_tag(tag), message, s, R_NOWAIT);
}

static int probe_wait(int source, int tag, MPI_Comm comm, rmsg_message_t *message, rmsg_status_t *s)
{
    int from = rmpi_source(comm, source), rc;
    struct rmpi_turns t = {0};

    if (RMPI_LIKELY(rmpi.active == NULL))
        return message == NULL
                   ? rmsg_probe(rmpi.msg, from, comm->space, rmpi_tag(tag), s, 0)
                   : rmsg_mprobe(rmpi.msg, from, comm->space, rmpi_tag(tag), message, s, 0);
    while ((rc = probe_look(source, tag, comm, message, s)) == R_PENDING)
        rmpi_pause(&t);
    return rc;
}

/* flag NULL: waits for a message. */
static int probe_message(const char *call, int source, int tag, MPI_Comm comm, int *flag,
                         MPI_Status *status)
{
    int rc = probe_check(call, source, tag, comm), ignored = 0;
    bool wait = flag == NULL;
    rmsg_status_t s;

    if (rc != MPI_SUCCESS)
        return rc;
    flag = wait ? &ignored : flag;
    *flag = 1;
    if (source == MPI_PROC_NULL) {
        probe_no_process(status);
        return MPI_SUCCESS;
    }
    rc = wait ? probe_wait(source, tag, comm, NULL, &s) : probe_look(source, tag, comm, NULL, &s);
    *flag = rc == 0;
    if (rc != 0)
        return rc == R_PENDING ? MPI_SUCCESS : rmpi_fail_rc(comm, rc, call);
    rmpi_status_set(status, comm, &s, MPI_SUCCESS);
    return MPI_SUCCESS;
}

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    return probe_message("MPI_Probe", source, tag, comm, NULL, status);
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    return probe_message("MPI_Iprobe", source, tag, comm, flag, status);
}

/* A handle for a message that was taken out of matching. */
static int probe_keep(const char *call, rmsg_message_t found, MPI_Comm comm, MPI_Message *message)
{
    struct rmpi_message *m = malloc(sizeof(*m));

    if (m == NULL) {
        (void)rmsg_free(rmpi.msg, &found);
        return rmpi_fail(comm, MPI_ERR_NO_MEM, call, "no memory; the message is lost");
    }
    *m = (struct rmpi_message){.message = found, .comm = comm};
    comm->refs++;
    *message = m;
    return MPI_SUCCESS;
}

static int probe_matched(const char *call, int source, int tag, MPI_Comm comm, int *flag,
                         MPI_Message *message, MPI_Status *status)
{
    int rc = probe_check(call, source, tag, comm), ignored = 0;
    bool wait = flag == NULL;
    rmsg_message_t found = 0;
    rmsg_status_t s;

    if (wait)
        flag = &ignored;
    if (rc != MPI_SUCCESS)
        return rc;
    *flag = 1;
    if (source == MPI_PROC_NULL) {
        *message = MPI_MESSAGE_NO_PROC;
        probe_no_process(status);
        return MPI_SUCCESS;
    }
    rc = wait ? probe_wait(source, tag, comm, &found, &s)
              : probe_look(source, tag, comm, &found, &s);
    *flag = rc == 0;
    if (rc != 0)
        return rc == R_PENDING ? MPI_SUCCESS : rmpi_fail_rc(comm, rc, call);
    rmpi_status_set(status, comm, &s, MPI_SUCCESS);
    return probe_keep(call, found, comm, message);
}

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    return probe_matched("MPI_Mprobe", source, tag, comm, NULL, message, status);
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status)
{
    return probe_matched("MPI_Improbe", source, tag, comm, flag, message, status);
}

int MPI_Mrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
    struct rmpi_message *m = *message;
    MPI_Comm comm = m == NULL || m == MPI_MESSAGE_NO_PROC ? MPI_COMM_WORLD : m->comm;
    int rc = rmpi_check_data("MPI_Mrecv", buf, count, type, comm);
    rmsg_status_t s = {0};
    void *into, *temp = NULL;
    size_t bytes;

    if (rc != MPI_SUCCESS)
        return rc;
    if (m == NULL)
        return rmpi_fail(comm, MPI_ERR_REQUEST, "MPI_Mrecv", "the message is null");
    *message = MPI_MESSAGE_NULL;
    if (m == MPI_MESSAGE_NO_PROC) {
        probe_no_process(status);
        return MPI_SUCCESS;
    }
    bytes = (size_t)count * type->size;
    into = rmpi_block_at(type, buf);
    if (!rmpi_is_block(type, count))
        into = temp = malloc(bytes > 0 ? bytes : 1);
    rc = into == NULL && bytes > 0 ? -ENOMEM : rmsg_mrecv(rmpi.msg, &m->message, into, bytes, &s);
    if (temp != NULL && (rc == 0 || rc == -EMSGSIZE))
        (void)rmpi_unpack(temp, s.bytes < bytes ? s.bytes : bytes, buf, (size_t)count, type);
    rmpi_status_set(status, comm, &s, rmpi_code(rc));
    free(temp);
    free(m);
    rc = rc == 0 ? MPI_SUCCESS : rmpi_fail_rc(comm, rc, "MPI_Mrecv");
    rmpi_comm_drop(comm);
    return rc;
}
