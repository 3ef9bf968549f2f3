/* SPDX-License-Identifier: BSD-3-Clause */
/* job_state.c: see job_state.h. */
#include "rpipe/end/job_state.h"

#include "rpipe/end/call_context.h"
#include "rpipe/end/error.h"
#include "util/settings.h"

#include <errno.h>
#include <stddef.h>

_Atomic int job_state_now;
static int job_state_own, job_state_ranks;

void job_state_set(enum job_state state)
{
    atomic_store_explicit(&job_state_now, (int)state, memory_order_release);
}

bool job_is_forked(void) { return job_state_get() == JOB_FORKED; }
bool job_was_opened(void) { return job_state_get() != JOB_NEW; }

void job_state_set_ranks(int own, int ranks)
{
    job_state_own = own;
    job_state_ranks = ranks;
}

int job_own_rank(void) { return job_is_open() ? job_state_own : 0; }
int job_ranks(void) { return job_is_open() ? job_state_ranks : 0; }

uint64_t job_first(void) { return (uint64_t)setting_number(SET_FIRST); }

int job_check(void)
{
    switch (job_state_get()) {
    case JOB_OPEN:
        return 0;
    case JOB_LEAVING:
        if (!calls_ended())
            return 0;
        return call_error(NULL, -ENOTCONN, "another thread is leaving the job (rexit)");
    case JOB_LEFT:
        return call_error(NULL, -ENOTCONN, "this process has left the job (rexit)");
    case JOB_FORKED:
        return call_error(NULL, -ENOTCONN, "the job belongs to the parent process of this one");
    default:
        return call_error(NULL, -ENOTCONN, "call rinit first");
    }
}
