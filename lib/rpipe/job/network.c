/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * network.c: the control network as users see it: small, slow and reliable. The work is done in lib/control.
 */
#include "rpipe/end/end.h"
#include "rpipe/end/call_context.h"

#include "control/collective.h"
#include "bootstrap/job.h"
#include "util/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int64_t network_deadline(void)
{
    return deadline_in_ms((int)setting_number(SET_TIMEOUT_MS));
}

static int network_said(const char *call, int rc, const char *why)
{
    if (rc != 0)
        last_error_set("%s: %s", call, why);
    return rc;
}

int rpipe_network_rank(void) { return job_is_open() ? job_rank() : -ENOTCONN; }
int rpipe_network_ranks(void) { return job_is_open() ? job_size() : -ENOTCONN; }

void rpipe_network_abort(int code)
{
    if (job_is_open())
        job_abort(code);
    _Exit(code);
}

int rpipe_network_barrier(void)
{
    struct active_call in;
    struct error err = {""};
    uint32_t row;
    int rc;

    active_call_enter(&in);
    rc = job_refuses("network_barrier");
    if (rc == 0) {
        publish_process_wait("the other ranks in network_barrier");
        row = trace_begin_row(trace_on ? TRACE_ROW_NETWORK : 0, TRACE_NETWORK);
        rc = network_said("network_barrier", collect_barrier(network_deadline(), &err), err.text);
        publish_process_wait(NULL);
        if (row != 0)
            trace_end_text("barrier", rc);
    }
    active_call_leave(&in);
    return rc;
}

int rpipe_network_allgather(const void *mine, size_t bytes, void *all)
{
    struct active_call in;
    struct error err = {""};
    uint32_t row;
    int rc;

    active_call_enter(&in);
    rc = job_refuses("network_allgather");
    if (rc == 0 && bytes > 0 && (mine == NULL || all == NULL)) {
        last_error_set("network_allgather: a buffer is NULL");
        rc = -EINVAL;
    }
    if (rc == 0) {
        publish_process_wait("the other ranks in network_allgather");
        row = trace_begin_row(trace_on ? TRACE_ROW_NETWORK : 0, TRACE_NETWORK);
        rc = network_said("network_allgather",
                          collect_allgather(mine, bytes, all, network_deadline(), &err), err.text);
        publish_process_wait(NULL);
        if (row != 0)
            trace_end_text("allgather", rc);
    }
    active_call_leave(&in);
    return rc;
}

static int network_refuses_rank(const char *call, int rank, const void *buf, size_t bytes)
{
    int rc = job_refuses(call);

    if (rc != 0)
        return rc;
    if (rank < 0 || rank >= job_size()) {
        last_error_set("%s: rank %d; the ranks of this job are 0 to %d", call, rank,
                       job_size() - 1);
        return -ENOENT;
    }
    if (bytes > 0 && buf == NULL) {
        last_error_set("%s: the buffer is NULL", call);
        return -EINVAL;
    }
    return 0;
}

int rpipe_network_send(int to, const void *buf, size_t bytes)
{
    struct active_call in;
    struct error err = {""};
    int rc;

    active_call_enter(&in);
    rc = network_refuses_rank("network_send", to, buf, bytes);
    if (rc == 0)
        rc = network_said("network_send", collect_send(to, buf, bytes, network_deadline(), &err),
                          err.text);
    active_call_leave(&in);
    return rc;
}

int rpipe_network_recv(int from, void *buf, size_t bytes)
{
    struct active_call in;
    struct error err = {""};
    char what[64];
    uint32_t row;
    int rc;

    active_call_enter(&in);
    rc = network_refuses_rank("network_recv", from, buf, bytes);
    if (rc == 0) {
        snprintf(what, sizeof(what), "a message of rank %d in network_recv", from);
        publish_process_wait(what);
        row = trace_begin_row(trace_on ? TRACE_ROW_NETWORK : 0, TRACE_NETWORK);
        rc = network_said("network_recv", collect_recv(from, buf, bytes, network_deadline(), &err),
                          err.text);
        publish_process_wait(NULL);
        if (row != 0)
            trace_end_text("recv", rc);
    }
    active_call_leave(&in);
    return rc;
}

int rpipe_progress(void)
{
    struct active_call in;

    active_call_enter(&in);
    if (!active_calls_ended())
        btl_progress(); /* a help: whatever has to be driven the service thread drives too */
    active_call_leave(&in);
    return 0;
}
