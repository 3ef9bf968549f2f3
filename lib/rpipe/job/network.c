/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * network.c: the public calls of the control network: small, slow and reliable. lib/control does the work.
 */
#include "rpipe/end/call.h"
#include "rpipe/end/cork.h"
#include "rpipe/end/job_state.h"

#include "bootstrap/job.h"
#include "btl/btl.h"
#include "control/collective.h"
#include "observe/record/publish.h"
#include "observe/record/trace.h"
#include "util/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int64_t network_deadline(void)
{
    return deadline_in_ms((int)setting_number(SET_TIMEOUT_MS));
}

/* A call of the control network: its name, what an observer sees while it waits, and its row of the trace. */
struct network_call {
    struct call call;
    const char *kind; /* for the trace */
    uint32_t row;
};

static int network_begin(struct network_call *c, const char *name)
{
    call_enter(&c->call, name);
    c->kind = NULL;
    return job_check();
}

static void network_waits(struct network_call *c, const char *kind, const char *awaited)
{
    cork_before_wait();
    publish_process_wait(awaited);
    c->kind = kind;
    c->row = trace_begin_row(trace_on ? TRACE_ROW_NETWORK : 0, TRACE_NETWORK);
}

static int network_end(struct network_call *c, int rc, const struct error *err)
{
    if (c->kind != NULL) {
        if (rc != 0)
            (void)call_error(NULL, rc, "%s", err->text);
        publish_process_wait(NULL);
        if (c->row != 0)
            trace_end_text(c->kind, rc);
    }
    return call_end(&c->call, rc);
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
    struct network_call c;
    struct error err = {""};
    int rc = network_begin(&c, "network_barrier");

    if (rc == 0) {
        network_waits(&c, "barrier", "the other ranks in network_barrier");
        rc = collect_barrier(network_deadline(), &err);
    }
    return network_end(&c, rc, &err);
}

int rpipe_network_allgather(const void *mine, size_t bytes, void *all)
{
    struct network_call c;
    struct error err = {""};
    int rc = network_begin(&c, "network_allgather");

    if (rc == 0 && bytes > 0 && (mine == NULL || all == NULL))
        rc = call_error(NULL, -EINVAL, "%s is NULL for %zu bytes of each rank",
                        mine == NULL ? "mine" : "all", bytes);
    if (rc == 0) {
        network_waits(&c, "allgather", "the other ranks in network_allgather");
        rc = collect_allgather(mine, bytes, all, network_deadline(), &err);
    }
    return network_end(&c, rc, &err);
}

static int network_check_rank(int rank, const void *buf, size_t bytes)
{
    if (rank < 0 || rank >= job_ranks())
        return call_error(NULL, -ENOENT, "rank is %d; the ranks of this job are 0 to %d", rank,
                          job_ranks() - 1);
    if (bytes > 0 && buf == NULL)
        return call_error(NULL, -EINVAL, "buf is NULL for %zu bytes", bytes);
    return 0;
}

int rpipe_network_send(int to, const void *buf, size_t bytes)
{
    struct network_call c;
    struct error err = {""};
    int rc = network_begin(&c, "network_send");

    if (rc == 0)
        rc = network_check_rank(to, buf, bytes);
    if (rc == 0) {
        rc = collect_send(to, buf, bytes, network_deadline(), &err);
        if (rc != 0)
            (void)call_error(NULL, rc, "%s", err.text);
    }
    return network_end(&c, rc, &err);
}

int rpipe_network_recv(int from, void *buf, size_t bytes)
{
    struct network_call c;
    struct error err = {""};
    char awaited[64];
    int rc = network_begin(&c, "network_recv");

    if (rc == 0)
        rc = network_check_rank(from, buf, bytes);
    if (rc == 0) {
        snprintf(awaited, sizeof(awaited), "a message of rank %d in network_recv", from);
        network_waits(&c, "recv", awaited);
        rc = collect_recv(from, buf, bytes, network_deadline(), &err);
    }
    return network_end(&c, rc, &err);
}

int rpipe_progress(void)
{
    struct call call;

    call_enter(&call, "rprogress");
    cork_before_wait();
    if (!calls_ended())
        btl_progress(); /* optional: the service thread drives every backend, too */
    return call_end(&call, 0);
}
