/* SPDX-License-Identifier: BSD-3-Clause */
/* resource_limits.h: rlimits, one message under them, and a job of one that may be left out. */
#ifndef TEST_FAULTS_RESOURCE_LIMITS_H
#define TEST_FAULTS_RESOURCE_LIMITS_H

#include "test/lib/job.h"

#include <rpipe.h>
#include <sys/resource.h>

#ifndef __GLIBC__
typedef int __rlimit_resource_t; /* NOLINT(bugprone-reserved-identifier): what glibc calls it */
#endif

static inline void set_limit(__rlimit_resource_t resource, rlim_t value)
{
    struct rlimit l;

    CHECK(NULL, getrlimit(resource, &l) == 0);
    l.rlim_cur = value < l.rlim_max ? value : l.rlim_max;
    CHECK(NULL, setrlimit(resource, &l) == 0);
}

/* One message through a channel to oneself; 0, or how the first call that failed did. */
static inline int one_message(rpipe_op_t op, uint64_t heap, size_t bytes, const char **call,
                              rch_t *of)
{
    static uint32_t ctx;
    rpipe_config_t w = channel_config(op, 0, true, heap), r = channel_config(op, 0, false, heap);
    static rch_t writer, reader;
    raddr_t d;
    int rc;

    w.timeout_ms = r.timeout_ms = 2000;
    w.context = r.context = ctx++;
    *of = NULL;
    *call = "rpipe";
    rc = rpipe(&writer, &w);
    if (rc != 0)
        return rc;
    rc = rpipe(&reader, &r);
    if (rc != 0) {
        CHECK(writer, rclose(writer) == 0);
        return rc;
    }
    *call = "rwait";
    rc = rwait(*of = writer);
    if (rc == 0)
        rc = rwait(*of = reader);
    *call = "rmalloc";
    if (rc == 0 && (d = rmalloc(*of = writer, bytes)) == ADDR_NULL)
        rc = -errno;
    if (rc == 0) {
        pattern_fill(rmem(writer, d), bytes, 7);
        *call = "rwrite";
        rc = rwrite(*of = writer, d);
    }
    *call = "rread";
    if (rc == 0)
        rc = rread(*of = reader, &d, NULL);
    if (rc == 0)
        CHECK(reader, pattern_same(rmem(reader, d), bytes, 7));
    *call = "rfd";
    if (rc == 0) {
        rc = rfd(*of = reader);
        rc = rc >= 0 ? 0 : rc;
    }
    CHECK(writer, rclose(writer) == 0 && rclose(reader) == 0);
    return rc;
}

#define LEFT_OUT 77 /* status of a process that cannot run its test here */

/* Runs a job of one; prints `absent` if it cannot run here. */
static inline void run_alone(int (*rank)(int, struct board *, const void *), const void *arguments,
                             const char *what, const char *absent)
{
    struct job job;

    job_prepare(&job, 1);
    job_start(&job, rank, arguments);
    if (job_ended(&job, 0) && job_status_is(&job, 0, LEFT_OUT))
        printf("%s: left out, %s\n", what, absent);
    else
        EXPECT(job_status_is(&job, 0, 0), "%s: status 0x%x: %s", what, job.status[0],
               job.board->rank[0].error_message);
    if (*job.board->rank[0].error_message != '\0')
        printf("%s\n", job.board->rank[0].error_message);
    job_finish(&job);
}

#endif
