/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job_state.h: is this process in a job? Set by rinit, rexit and fork (job.c), read by every call.
 */
#ifndef RPIPE_END_JOB_STATE_H
#define RPIPE_END_JOB_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The states only advance. */
enum job_state { JOB_NEW, JOB_OPEN, JOB_LEAVING, JOB_LEFT, JOB_FORKED };

extern _Atomic int job_state_now; /* enum job_state; job_state_set stores it */

void job_state_set(enum job_state state);
/* acquire: pairs with job_state_set; what rinit has set up is visible */
static inline enum job_state job_state_get(void)
{
    return (enum job_state)atomic_load_explicit(&job_state_now, memory_order_acquire);
}

/* Between rinit and the end of rexit, in this process. */
static inline bool job_is_open(void)
{
    enum job_state now = job_state_get();

    return now == JOB_OPEN || now == JOB_LEAVING;
}

bool job_is_forked(void);  /* this is the child of a fork: the job belongs to the parent */
bool job_was_opened(void); /* rinit was called: the settings are those that it has read */
/* Of this process, and their number; 0 outside of a job. Set before JOB_OPEN. */
void job_state_set_ranks(int own, int ranks);
int job_own_rank(void);
int job_ranks(void);
/* Where numbers of messages, laps and incarnations begin (RPIPE_FIRST). */
uint64_t job_first(void);
/* 0, or -ENOTCONN and the message why the current call cannot be made. */
int job_check(void);

#endif
