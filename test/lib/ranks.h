/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ranks.h: jobs of several processes inside one test program: forked, before anything is started, and brought together by
 * the tcp bootstrap over loopback. A rank that fails a CHECK says where and ends with 1, and the test fails.
 */
#ifndef TEST_LIB_RANKS_H
#define TEST_LIB_RANKS_H

#include "control/control.h"
#include "bootstrap/job.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS_MAX 8
#define LIMIT_MS 60000 /* of every wait in a test: reached only by what hangs */

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "[rank %d] %s:%d: not true: %s\n", job_rank(), __FILE__, __LINE__,     \
                    #condition);                                                                   \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* Until the condition holds. */
#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        int64_t limit_ = deadline_in_ms(LIMIT_MS);                                                 \
        while (!(condition)) {                                                                     \
            CHECK(!deadline_passed(limit_) && #condition);                                         \
            usleep(500);                                                                           \
        }                                                                                          \
    } while (0)

typedef void (*rank_main)(int rank, int size);

static inline int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_return_code(bind(fd, (struct sockaddr *)&a, bytes), errno);
    assert_return_code(getsockname(fd, (struct sockaddr *)&a, &bytes), errno);
    close(fd);
    return ntohs(a.sin_port);
}

static inline void set_number(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

/* Starts `size` ranks in the environment of the caller. */
static inline void ranks_start(int size, rank_main body, pid_t *pids)
{
    char text[64];
    int rank;

    snprintf(text, sizeof(text), "127.0.0.1:%d", free_port());
    setenv("RPIPE_ROOT", text, 1);
    snprintf(text, sizeof(text), "secret-%d-%lld", (int)getpid(), (long long)clock_now());
    setenv("RPIPE_SECRET", text, 1);
    setenv("RPIPE_BOOTSTRAP", "tcp", 1);
    fflush(NULL);
    for (rank = 0; rank < size; rank++) {
        pids[rank] = fork();
        assert_return_code(pids[rank], errno);
        if (pids[rank] == 0) {
            alarm(120);
            set_number("RPIPE_RANK", rank);
            set_number("RPIPE_SIZE", size);
            log_set_rank(rank);
            body(rank, size);
            _exit(0);
        }
    }
}

/* Each rank has to end with 0, but for the one that has to end by `signal_` (rank -1: none). */
static inline void ranks_wait(int size, const pid_t *pids, int killed, int signal_)
{
    int rank, status, bad = 0;

    for (rank = 0; rank < size; rank++) {
        assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
        if (rank == killed ? !(WIFSIGNALED(status) && WTERMSIG(status) == signal_)
                           : !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
            fprintf(stderr, "rank %d ended with status 0x%x\n", rank, status);
            bad++;
        }
    }
    assert_int_equal(bad, 0);
}

static inline void run_ranks(int size, rank_main body)
{
    pid_t pids[RANKS_MAX];

    ranks_start(size, body, pids);
    ranks_wait(size, pids, -1, 0);
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
    control_stop(deadline_in_ms(LIMIT_MS));
    job_close();
}

#endif
