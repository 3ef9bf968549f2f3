/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault_job.h: jobs for tests of faults: processes that are killed, stopped, starved or lied to at a chosen moment.
 *
 * The test forks the ranks itself, under the tcp bootstrap, so that it knows every process and no launcher reacts to
 * a death. It never joins a job itself. Ranks and test share a board of atomics: a rank says there how far it is,
 * when a call returned and with what; the test says when it killed. All of them read the same monotonic clock.
 *
 * A rank is a function; what it returns is its exit status. In a rank, MUST() ends it with a sentence; in the test,
 * EXPECT() counts a failure. A job that does not end is ended, by process id, and counts as a failure.
 */
#ifndef TEST_LIB_FAULT_JOB_H
#define TEST_LIB_FAULT_JOB_H

#include "util/clock.h"

#include <errno.h>
#include <rpipe.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define RANKS_MOST 8
#define PATIENCE_MS 80000 /* for anything that should be a matter of milliseconds */

struct board_rank {
    _Atomic int phase;             /* how far it is; the test waits for it */
    _Atomic int64_t returned;      /* when the call under test returned */
    _Atomic int code;              /* and with what */
    _Atomic uint64_t done, number; /* the scenario's */
    _Atomic uint64_t late;         /* calls that ended with their deadline */
    _Atomic int64_t left;          /* when rexit returned */
    char sentence[400];
};

struct board {
    _Atomic int go;         /* the test's word to the ranks */
    _Atomic int64_t killed; /* when the victim was killed */
    struct board_rank rank[RANKS_MOST];
};

struct job {
    int size;
    char port[8], secret[40];
    pid_t pid[RANKS_MOST]; /* 0: has ended and been waited for */
    int status[RANKS_MOST];
    struct board *board;
};

typedef int (*rank_function)(int rank, struct board *board, const void *arguments);

extern int job_failures;

/* In the test. */
void job_prepare(struct job *job, int size); /* board, port, secret; no process yet */
void job_start(struct job *job, rank_function f, const void *arguments);
void job_start_one(struct job *job, int rank, rank_function f, const void *arguments);
bool job_reached(struct job *job, int rank,
                 int phase); /* waits; false, a failure: it ended, or does not get there */
void job_kill(struct job *job, int rank,
              int sig); /* notes the time on the board if it is SIGKILL */
bool job_ended(struct job *job,
               int rank);         /* waits until it ends; false, a failure: it had to be killed */
void job_finish(struct job *job); /* ends and forgets everything */
bool job_status_is(const struct job *job, int rank, int exit_status); /* after job_ended */

/* In a rank. */
void rank_reached(struct board *board, int rank, int phase);
void rank_wait_go(struct board *board, int value);
void rank_returned(struct board *board, int rank, int code, rch_t ch);
void rank_say(const char *file, int line, const char *what, rch_t ch);

/* The time from kill to return, over many rounds. */
struct spread {
    int n;
    double ms[4096];
};
void spread_add(struct spread *s, double ms);
void spread_show(struct spread *s, const char *what);
void spread_print(struct spread *s, const char *what); /* and complains where a return took 2 s */
const char *spread_text(struct spread *s);             /* least, median, most; sorts */

int entries_of(
    const char *directory); /* with "." and ".."; of /proc/self/fd one more, which it is read by */
uint64_t draw(uint64_t *state); /* pseudo random, of a seed that is printed */
uint64_t seed_of(int argc, char **argv);
void backoff_us(long us);
rpipe_config_t channel_config(rpipe_op_t op, int peer, bool writer, uint64_t alloc_size);
void fill(void *mem, size_t bytes, uint64_t key);
bool filled(const void *mem, size_t bytes, uint64_t key);

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            job_failures++;                                                                        \
            printf("FAILED %s:%d: %s: ", __FILE__, __LINE__, #condition);                          \
            printf(__VA_ARGS__);                                                                   \
            printf("\n");                                                                          \
            fflush(stdout);                                                                        \
        }                                                                                          \
    } while (0)

#define MUST(condition, ch)                                                                        \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            rank_say(__FILE__, __LINE__, #condition, ch);                                          \
            _exit(3);                                                                              \
        }                                                                                          \
    } while (0)

#endif
