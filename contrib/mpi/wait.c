/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c: MPI_Wait, MPI_Test and their forms for several requests.
 *
 * A request that is null or inactive counts as none. Where all requests are messages, one call of rmsg waits for all of them.
 */
#include "rmpi.h"

#define WAIT_HANDLES 64 /* requests, of which the handles are gathered on the stack */

static inline bool wait_is_none(const struct rmpi_request *r) { return r == NULL || !r->active; }

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    rmpi_check_running("MPI_Wait");
    if (wait_is_none(*request)) {
        rmpi_status_empty(status);
        return MPI_SUCCESS;
    }
    rmpi_request_wait(*request);
    return rmpi_request_finish(request, status);
}

static __attribute__((noinline)) int wait_test_any_kind(MPI_Request *request, int *flag,
                                                        MPI_Status *status)
{
    *flag = 1;
    if (wait_is_none(*request)) {
        rmpi_status_empty(status);
        return MPI_SUCCESS;
    }
    if (RMPI_UNLIKELY(rmpi.active != NULL))
        rmpi_progress();
    *flag = rmpi_request_test(*request);
    return *flag ? rmpi_request_finish(request, status) : MPI_SUCCESS;
}

/* Programs test in their innermost loops: nearly always the request is that of a message which has not come. */
static inline int wait_test(MPI_Request *request, int *flag, MPI_Status *status)
{
    struct rmpi_request *r = *request;
    rmsg_status_t s;
    int rc;

    if (RMPI_UNLIKELY(rmpi.active != NULL || wait_is_none(r) || r->over))
        return wait_test_any_kind(request, flag, status);
    rc = rmsg_wait(rmpi.msg, &r->msg, &s,
                   R_NOWAIT); /* a collective operation would be in rmpi.active */
    *flag = rc != R_PENDING;
    if (RMPI_LIKELY(rc == R_PENDING))
        return MPI_SUCCESS;
    if (r->msg != 0) /* it has failed, and has set no status */
        s = (rmsg_status_t){0};
    rmpi_request_message_over(r, &s, rc);
    return rmpi_request_finish(request, status);
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    rmpi_check_running("MPI_Test");
    return wait_test(request, flag, status);
}

int MPI_Waitall(int n, MPI_Request *requests, MPI_Status *statuses)
{
    bool failed = false;

    rmpi_check_running("MPI_Waitall");
    for (int i = 0; i < n; i++) {
        MPI_Status *s = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];

        if (wait_is_none(requests[i])) {
            rmpi_status_empty(s);
            continue;
        }
        rmpi_request_wait(requests[i]);
        if (rmpi_request_finish(&requests[i], s) != MPI_SUCCESS)
            failed = true;
    }
    return failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

int MPI_Testall(int n, MPI_Request *requests, int *flag, MPI_Status *statuses)
{
    rmpi_check_running("MPI_Testall");
    if (rmpi.active != NULL)
        rmpi_progress();
    *flag = 1;
    for (int i = 0; i < n; i++)
        if (!wait_is_none(requests[i]) && !rmpi_request_test(requests[i]))
            *flag = 0;
    return *flag ? MPI_Waitall(n, requests, statuses) : MPI_SUCCESS;
}

/* ---- the first of several ---- */

/* The index of a request that is over already; n: none. *some: any is active. *messages: all that are active are messages. */
static int wait_find(int n, MPI_Request *requests, bool *some, bool *messages)
{
    *some = false;
    *messages = rmpi.active == NULL;
    for (int i = 0; i < n; i++) {
        if (wait_is_none(requests[i]))
            continue;
        if (requests[i]->over)
            return i;
        *some = true;
        if (requests[i]->kind == RMPI_COLL)
            *messages = false;
    }
    return n;
}

/* The request that a failure of a wait for all is about: a receive from any source, else the first. */
static int wait_blamed(int n, MPI_Request *requests)
{
    int first = n;

    for (int i = 0; i < n; i++) {
        if (wait_is_none(requests[i]))
            continue;
        if (requests[i]->kind == RMPI_RECV && requests[i]->peer == MPI_ANY_SOURCE)
            return i;
        first = first == n ? i : first;
    }
    return first;
}

/* One call of rmsg for all: the index of the one that is over; n: none yet. A failure is that of the request, in its status. */
static int wait_messages(int n, MPI_Request *requests, int flags)
{
    rmsg_request_t handle[WAIT_HANDLES];
    rmsg_status_t s = {0};
    int which = n, rc;

    for (int i = 0; i < n; i++)
        handle[i] = wait_is_none(requests[i]) ? 0 : requests[i]->msg;
    rc = rmsg_wait_any(rmpi.msg, handle, n, &which, &s, flags);
    if (rc == R_PENDING)
        return n;
    if (which < n)
        requests[which]->msg = handle[which];
    else if (rc != 0)
        which = wait_blamed(n, requests);
    if (which >= n)
        return n;
    rmpi_request_message_over(requests[which], &s, rc);
    return which;
}

/* Tests each. */
static int wait_look(int n, MPI_Request *requests)
{
    rmpi_progress();
    for (int i = 0; i < n; i++)
        if (!wait_is_none(requests[i]) && rmpi_request_test(requests[i]))
            return i;
    return n;
}

/* The index of a request that is over; n: none, and *some is set if any is active. */
static int wait_any(int n, MPI_Request *requests, bool wait, bool *some)
{
    struct rmpi_turns t = {0};
    bool messages;
    int i = wait_find(n, requests, some, &messages);

    while (i == n && *some) {
        if (messages && n <= WAIT_HANDLES)
            i = wait_messages(n, requests, wait ? 0 : R_NOWAIT);
        else
            i = wait_look(n, requests);
        if (i < n || !wait)
            break;
        rmpi_pause(&t);
    }
    return i;
}

int MPI_Waitany(int n, MPI_Request *requests, int *index, MPI_Status *status)
{
    bool some;
    int i;

    rmpi_check_running("MPI_Waitany");
    i = wait_any(n, requests, true, &some);
    *index = i < n ? i : MPI_UNDEFINED;
    if (i < n)
        return rmpi_request_finish(&requests[i], status);
    rmpi_status_empty(status);
    return MPI_SUCCESS;
}

static __attribute__((noinline)) int wait_test_several(int n, MPI_Request *requests, int *index,
                                                       int *flag, MPI_Status *status)
{
    bool some;
    int i;

    i = wait_any(n, requests, false, &some);
    *index = i < n ? i : MPI_UNDEFINED;
    *flag = i < n || !some;
    if (i < n)
        return rmpi_request_finish(&requests[i], status);
    if (*flag)
        rmpi_status_empty(status);
    return MPI_SUCCESS;
}

int MPI_Testany(int n, MPI_Request *requests, int *index, int *flag, MPI_Status *status)
{
    bool none;
    int rc;

    rmpi_check_running("MPI_Testany");
    if (n != 1)
        return wait_test_several(n, requests, index, flag, status);
    none = wait_is_none(requests[0]);
    rc = wait_test(requests, flag, status);
    *index = none || !*flag ? MPI_UNDEFINED : 0;
    return rc;
}

static int wait_some(int n, MPI_Request *requests, bool wait, int *done, int *indices,
                     MPI_Status *statuses)
{
    bool some, failed = false;
    int first = wait_any(n, requests, wait, &some), found = 0;

    *done = MPI_UNDEFINED;
    if (first == n && !some)
        return MPI_SUCCESS;
    for (int i = first; i < n; i++) {
        MPI_Status *s = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[found];

        if (wait_is_none(requests[i]) || !rmpi_request_test(requests[i]))
            continue;
        if (rmpi_request_finish(&requests[i], s) != MPI_SUCCESS)
            failed = true;
        indices[found++] = i;
    }
    *done = found;
    return failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

int MPI_Waitsome(int n, MPI_Request *requests, int *done, int *indices, MPI_Status *statuses)
{
    rmpi_check_running("MPI_Waitsome");
    return wait_some(n, requests, true, done, indices, statuses);
}

int MPI_Testsome(int n, MPI_Request *requests, int *done, int *indices, MPI_Status *statuses)
{
    rmpi_check_running("MPI_Testsome");
    return wait_some(n, requests, false, done, indices, statuses);
}

/* ---- other calls for a request ---- */

int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    rmpi_check_running("MPI_Request_get_status");
    *flag = 1;
    if (wait_is_none(request)) {
        rmpi_status_empty(status);
        return MPI_SUCCESS;
    }
    *flag = rmpi_request_test(request);
    if (*flag && status != MPI_STATUS_IGNORE)
        *status = request->status;
    return MPI_SUCCESS;
}

int MPI_Request_free(MPI_Request *request)
{
    rmpi_check_running("MPI_Request_free");
    if (*request == MPI_REQUEST_NULL)
        return rmpi_fail(NULL, MPI_ERR_REQUEST, "MPI_Request_free", "the request is null");
    if ((*request)->kind == RMPI_COLL)
        return rmpi_fail((*request)->comm, MPI_ERR_REQUEST, "MPI_Request_free",
                         "the request is a collective operation");
    rmpi_detach(*request);
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

int MPI_Cancel(MPI_Request *request)
{
    struct rmpi_request *r = *request;
    int rc;

    rmpi_check_running("MPI_Cancel");
    if (r == NULL || r->kind == RMPI_COLL)
        return rmpi_fail(NULL, MPI_ERR_REQUEST, "MPI_Cancel", "the request is %s",
                         r == NULL ? "null" : "a collective operation");
    if (wait_is_none(r) || r->over)
        return MPI_SUCCESS;
    rc = rmsg_cancel(rmpi.msg, r->msg);
    return rc == 0 || rc == -EBUSY ? MPI_SUCCESS : rmpi_fail_rc(r->comm, rc, "MPI_Cancel");
}

int MPI_Test_cancelled(const MPI_Status *status, int *flag)
{
    *flag = status->rmpi_cancelled;
    return MPI_SUCCESS;
}

int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *count)
{
    size_t n;

    if (!rmpi_type_usable(type))
        return rmpi_fail(NULL, MPI_ERR_TYPE, "MPI_Get_count", "the type is null or not committed");
    n = type->size == 0 ? 0 : status->rmpi_bytes / type->size;
    *count = n * type->size != status->rmpi_bytes || n > INT32_MAX ? MPI_UNDEFINED : (int)n;
    return MPI_SUCCESS;
}

int MPI_Get_elements(const MPI_Status *status, MPI_Datatype type, int *count)
{
    size_t n, rest = 0;

    if (!rmpi_type_usable(type))
        return rmpi_fail(NULL, MPI_ERR_TYPE, "MPI_Get_elements",
                         "the type is null or not committed");
    n = rmpi_elements(type, status->rmpi_bytes, &rest);
    *count = rest != 0 || n > INT32_MAX ? MPI_UNDEFINED : (int)n;
    return MPI_SUCCESS;
}
