/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ranks.h: jobs of job.h for the tests of the control network: each rank runs a function, below the pipes. All have to end with
 * status 0, but for one that is to be killed.
 */
#ifndef TEST_LIB_RANKS_H
#define TEST_LIB_RANKS_H

#include "test/lib/job.h"

#include "bootstrap/job.h"
#include "control/control.h"
#include "util/log.h"
#include "util/received_fd.h"
#include "util/settings.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

#include <cmocka.h>

#define LIMIT_MS 60000 /* of every wait in a test: reached only if something hangs */

/* Until the condition holds. */
#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        int64_t limit_ = deadline_in_ms(LIMIT_MS);                                                 \
        while (!(condition)) {                                                                     \
            REQUIRE(!deadline_passed(limit_) && #condition);                                       \
            usleep(500);                                                                           \
        }                                                                                          \
    } while (0)

typedef void (*rank_main)(int rank, int size);

struct ranks {
    int size;
    rank_main body;
};

static inline int ranks_body(int rank, struct board *board, const void *arguments)
{
    const struct ranks *r = arguments;

    (void)board;
    alarm(120);
    log_set_rank(rank);
    r->body(rank, r->size);
    _exit(0);
}

/* The rank `killed` has to end by the signal (-1: none), all others with status 0. */
static inline void run_ranks_but(int killed, int signal_, int size, rank_main body)
{
    struct ranks r = {size, body};
    struct job job;

    job_prepare(&job, size);
    job_start(&job, ranks_body, &r);
    for (int rank = 0; rank < size; rank++) {
        int status;

        (void)job_ended(&job, rank);
        status = job.status[rank];
        EXPECT(killed == rank ? WIFSIGNALED(status) && WTERMSIG(status) == signal_ : status == 0,
               "rank %d ended with status 0x%x", rank, status);
    }
    job_finish(&job);
    assert_int_equal(atomic_exchange(&check_failures, 0), 0);
}

static inline void run_ranks(int size, rank_main body) { run_ranks_but(-1, 0, size, body); }

/* A test whose ranks run one function, over this control network; NULL: as the environment has it. */
struct ranks_test {
    int size;
    rank_main body;
    const char *control;
};

static inline void ranks_test_run(void **state)
{
    const struct ranks_test *test = *state;

    if (test->control != NULL)
        setenv("RPIPE_CONTROL", test->control, 1);
    run_ranks(test->size, test->body);
}

/* Rows of a table of tests in main. */
#define RANKS_ROW(name, over, n, function)                                                         \
    {                                                                                              \
        name, ranks_test_run, NULL, NULL, &(struct ranks_test) { n, function, over }               \
    }
#define RANKS(n, function) RANKS_ROW(#function, NULL, n, function)
#define RANKS_OVER(over, n, function) RANKS_ROW(#function " (" over ")", over, n, function)
#define RANKS_BOTH(n, function) RANKS_OVER("unix", n, function), RANKS_OVER("tcp", n, function)
/* A test whose state is the name of the control network: over each. */
#define BOTH(test)                                                                                 \
    {#test " (unix)", test, NULL, NULL, (char[]){"unix"}},                                         \
    {                                                                                              \
#test " (tcp)", test, NULL, NULL, (char[]) { "tcp" }                                       \
    }

/* In a rank: opens the job and starts the control network. */
static inline void rank_start(const struct control_hooks *hooks)
{
    struct error err = {""};
    int rank, size;

    if (settings_load(&err) != 0 || job_open(&rank, &size, deadline_in_ms(LIMIT_MS), &err) != 0 ||
        control_start(hooks, deadline_in_ms(LIMIT_MS), &err) != 0) {
        fprintf(stderr, "rank_start: %s\n", err.text);
        _exit(1);
    }
}

static inline void rank_stop(void)
{
    struct error err = {""};

    if (control_stop(deadline_in_ms(LIMIT_MS), deadline_in_ms(LIMIT_MS), &err) != 0 ||
        received_fds_stop(deadline_in_ms(LIMIT_MS)) != 0) {
        fprintf(stderr, "rank_stop: %s\n", err.text);
        _exit(1);
    }
    job_close();
}

#endif
