/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.h: jobs of several processes inside one test program, some of which may be killed, stopped, starved or sent invalid data at
 * a chosen moment.
 *
 * The test forks the ranks itself, under the tcp bootstrap, so that it has the id of every process and no launcher reacts to
 * a death. It never joins a job itself. Ranks and test share a board of atomics: a rank stores there how far it is,
 * when a call returned and with which code; the test stores when it killed. All of them read the same monotonic clock.
 *
 * A rank is a function; what it returns is its exit status. In a rank, CHECK() ends it; in the test, EXPECT() counts a
 * failure. A job that does not end is ended, by process id, and counts as a failure.
 */
#ifndef TEST_LIB_JOB_H
#define TEST_LIB_JOB_H

#include "test/lib/check.h"
#include "test/lib/pattern.h"

#include "util/clock.h"

#include <sys/types.h>

#define RANKS_MOST 8
#define PATIENCE_MS 80000 /* for anything that should be a matter of milliseconds */

struct board_rank {
    _Atomic int phase;             /* how far it is; the test waits for it */
    _Atomic int64_t returned;      /* when the call under test returned */
    _Atomic int code;              /* and with what */
    _Atomic uint64_t done, number; /* the scenario's */
    _Atomic int attached;          /* the scenario's: casts of which it has read a message */
    _Atomic uint64_t late;         /* calls that ended with their deadline */
    _Atomic uint64_t named;        /* of these, the scenario's: the message names the victim */
    _Atomic int patient;           /* the scenario's: it is in a call that no deadline ends */
    _Atomic int64_t left;          /* when rexit returned */
    char error_message[400];
};

struct board {
    _Atomic int go;         /* the test's word to the ranks */
    _Atomic int64_t killed; /* when the victim was killed */
    struct board_rank rank[RANKS_MOST];
};

struct job {
    int size;
    char port[8], secret[40];
    int port_held;         /* the socket that keeps the port for rank 0 */
    pid_t pid[RANKS_MOST]; /* 0: has ended and been waited for */
    int status[RANKS_MOST];
    int sent[RANKS_MOST]; /* the last signal of job_kill */
    struct board *board;
};

typedef int (*rank_function)(int rank, struct board *board, const void *arguments);

/* In the test. */
void job_prepare(struct job *job, int size); /* board, port, secret; no process yet */
void job_start(struct job *job, rank_function f, const void *arguments);
void job_start_one(struct job *job, int rank, rank_function f, const void *arguments);
/* Waits for the phase. False, a failure: the rank ended, or does not reach it. */
bool job_reached(struct job *job, int rank, int phase);
void job_kill(struct job *job, int rank,
              int sig); /* stores the time on the board if it is SIGKILL */
/* Waits until the rank ends. False, a failure: it had to be killed. */
bool job_ended(struct job *job, int rank);
bool job_status_is(const struct job *job, int rank, int exit_status); /* after job_ended */
void job_finish(struct job *job); /* ends and forgets everything */

/* In a rank. */
void rank_reached(struct board *board, int rank, int phase);
void rank_wait_go(struct board *board, int value);
void rank_returned(struct board *board, int rank, int code, rch_t ch);

/* The time from kill to return, over many rounds. */
struct spread {
    int n;
    double ms[4096];
};
void spread_add(struct spread *s, double ms);
void spread_show(struct spread *s, const char *what);
void spread_print(struct spread *s, const char *what); /* and complains where a return took 2 s */
const char *spread_text(struct spread *s);             /* least, median, most; sorts */

/* With "." and ".."; of /proc/self/fd one more, which it is read by. */
int entries_of(const char *directory);
/* FAULTS_SEED, or from the clock. Prints it. */
uint64_t seed_of(int argc, char **argv);
void backoff_us(long us);
rpipe_config_t channel_config(rpipe_op_t op, int peer, bool writer, uint64_t alloc_size);

#endif
