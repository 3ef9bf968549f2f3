/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.c: the life of a request: made, started, over, finished.
 *
 * A request that is over has its result in itself, and the library has none of it any more; the call that reports it
 * finishes it. One without a handle (MPI_Request_free, MPI_Bsend) is detached, and is freed by any later call finds it over.
 */
#include "rmpi.h"

#define REQUEST_CHUNK 64

static struct rmpi_request *request_free_list;

static bool request_more(void)
{
    struct rmpi_request *chunk = calloc(REQUEST_CHUNK, sizeof(*chunk)); /* never freed */

    for (int i = 0; chunk != NULL && i < REQUEST_CHUNK; i++) {
        chunk[i].next = request_free_list;
        request_free_list = &chunk[i];
    }
    return chunk != NULL;
}

struct rmpi_request *rmpi_request_make(enum rmpi_kind kind, struct rmpi_comm *comm)
{
    struct rmpi_request *r;

    if (RMPI_UNLIKELY(request_free_list == NULL) && !request_more()) {
        (void)rmpi_fail(comm, MPI_ERR_NO_MEM, "a request", "no memory");
        return NULL;
    }
    r = request_free_list;
    request_free_list = r->next;
    memset(r, 0, sizeof(*r));
    r->kind = kind;
    r->comm = comm;
    comm->refs++;
    rmpi_status_empty(&r->status);
    return r;
}

static void request_link(struct rmpi_request **list, struct rmpi_request *r)
{
    r->next = *list;
    r->link = list;
    if (r->next != NULL)
        r->next->link = &r->next;
    *list = r;
}

static void request_unlink(struct rmpi_request *r)
{
    if (r->link == NULL)
        return;
    *r->link = r->next;
    if (r->next != NULL)
        r->next->link = r->link;
    r->link = NULL;
    r->next = NULL;
}

void rmpi_request_put(struct rmpi_request *r)
{
    request_unlink(r);
    free(r->temp);
    free(r->argument);
    rmpi_type_drop(r->type);
    rmpi_comm_drop(r->comm);
    r->next = request_free_list;
    request_free_list = r;
}

/* ---- statuses ---- */

void rmpi_status_empty(MPI_Status *status)
{
    if (status != MPI_STATUS_IGNORE)
        *status = (MPI_Status){.MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG};
}

void rmpi_status_set(MPI_Status *status, const struct rmpi_comm *comm, const rmsg_status_t *s,
                     int code)
{
    if (status == MPI_STATUS_IGNORE)
        return;
    status->MPI_SOURCE = s->from < 0 ? MPI_ANY_SOURCE : rmpi_rank_of(comm, s->from);
    status->MPI_TAG = (int)s->tag;
    status->MPI_ERROR = code;
    status->rmpi_cancelled = 0;
    status->rmpi_bytes = s->bytes;
}

/* ---- completion ---- */

/* Small buffers are packed again at each start; the copy of a persistent request is kept until then. */
static void request_unpack(struct rmpi_request *r)
{
    if (r->temp != NULL && r->kind == RMPI_RECV)
        (void)rmpi_unpack(
            r->temp, r->status.rmpi_bytes < r->temp_bytes ? r->status.rmpi_bytes : r->temp_bytes,
            r->buf, (size_t)r->count, r->type);
    free(r->temp);
    r->temp = NULL;
}

/* A wait has failed, and the library still has the message. A peer may write into the copy, which is not freed. */
static __attribute__((cold, noinline)) void request_leave(struct rmpi_request *r)
{
    if (r->kind == RMPI_RECV)
        (void)rmsg_cancel(rmpi.msg, r->msg);
    (void)rmsg_wait(rmpi.msg, &r->msg, NULL, R_NOWAIT);
    r->msg = 0;
    r->temp = NULL;
}

void rmpi_request_message_over(struct rmpi_request *r, const rmsg_status_t *s, int rc)
{
    r->over = true;
    if (rc == -ECANCELED) {
        rmpi_status_empty(&r->status);
        r->status.rmpi_cancelled = 1;
        free(r->temp);
        r->temp = NULL;
        return;
    }
    rmpi_status_set(&r->status, r->comm, s, rmpi_code(rc));
    if (r->temp != NULL && r->msg == 0)
        request_unpack(r);
    if (RMPI_UNLIKELY(rc != 0))
        (void)rmpi_fail_rc(r->comm, rc, r->kind == RMPI_SEND ? "a send" : "a receive");
    if (RMPI_UNLIKELY(r->msg != 0)) /* after the report, whose text it changes */
        request_leave(r);
}

static void request_plan_over(struct rmpi_request *r, int rc)
{
    request_unlink(r);
    (void)rcoll_free(r->plan);
    r->plan = NULL;
    r->over = true;
    r->status.MPI_ERROR = rmpi_code(rc);
    if (RMPI_UNLIKELY(rc != 0))
        (void)rmpi_fail_rc(r->comm, rc, "a collective operation");
}

bool rmpi_request_test(struct rmpi_request *r)
{
    rmsg_status_t s = {0};
    int rc;

    if (r->over || !r->active)
        return true;
    if (r->kind == RMPI_COLL) {
        rc = rcoll_test(r->plan);
        if (rc != R_PENDING)
            request_plan_over(r, rc);
        return rc != R_PENDING;
    }
    rc = rmsg_wait(rmpi.msg, &r->msg, &s, R_NOWAIT);
    if (rc == R_PENDING)
        return false;
    rmpi_request_message_over(r, &s, rc);
    return true;
}

void rmpi_request_wait(struct rmpi_request *r)
{
    struct rmpi_turns t = {0};
    rmsg_status_t s = {0};

    if (r->over || !r->active)
        return;
    if (RMPI_LIKELY(r->kind != RMPI_COLL && rmpi.active == NULL)) {
        int rc = rmsg_wait(rmpi.msg, &r->msg, &s, 0);

        rmpi_request_message_over(r, &s, rc);
        return;
    }
    while (!rmpi_request_test(r)) {
        rmpi_progress();
        rmpi_pause(&t);
    }
}

int rmpi_request_finish(MPI_Request *request, MPI_Status *status)
{
    struct rmpi_request *r = *request;
    int code = r->status.MPI_ERROR;

    if (status != MPI_STATUS_IGNORE)
        *status = r->status;
    if (r->persistent) {
        r->active = r->over = false;
        rmpi_status_empty(&r->status);
        return code;
    }
    rmpi_request_put(r);
    *request = MPI_REQUEST_NULL;
    return code;
}

/* ---- requests without a handle ---- */

void rmpi_detach(struct rmpi_request *r)
{
    if (r->over || !r->active) {
        rmpi_request_put(r);
        return;
    }
    r->persistent = false;
    request_link(&rmpi.detached, r);
}

void rmpi_reap(bool wait)
{
    struct rmpi_request *r, *next;

    for (r = rmpi.detached; r != NULL; r = next) {
        next = r->next;
        if (wait)
            rmpi_request_wait(r);
        else if (!rmpi_request_test(r))
            continue;
        rmpi_request_put(r);
    }
}

int rmpi_run_start(struct rmpi_request *r, const rcoll_params_t *params)
{
    rcoll_params_t p = *params;
    int rc = rcoll_plan(&r->plan, r->comm->team, &p);

    if (rc == 0)
        rc = rcoll_start(r->plan);
    if (rc != 0)
        return rc;
    r->active = true;
    request_link(&rmpi.active, r);
    return 0;
}
