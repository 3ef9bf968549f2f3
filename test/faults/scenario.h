/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenario.h: what the ranks of a job do while one of them is killed or stopped (failpoint_kill.c, failpoint_stop.c, kill_anywhere.c).
 *
 * Ranks 0 and 1 are the two ends of one or more pipes; one of them is the victim. Rank 2 is the bystander, to which
 * the survivor opens new pipes afterwards. Every message is checked. The survivor finds out that all its descriptors,
 * mappings and threads are gone after rexit.
 *
 * A team of members on several hosts has all three ranks, and its operations no messages that are counted (scenario_hosts.c).
 *
 * On the board: `done` messages were written and complete, `number` were read, in phase 1 the rank has joined, in phase 2 its part
 * is played, in phase 3 it has left; `code` is 0 or the error that ended its part.
 */
#ifndef TEST_FAULTS_SCENARIO_H
#define TEST_FAULTS_SCENARIO_H

#include "test/lib/job.h"

#define SCENARIO_RANKS 3
#define BYSTANDER 2

struct scenario;
struct step_table;

struct player {
    const struct scenario *s;
    int rank, peer;
    int victim; /* the rank that may be killed or stopped; -1: none */
    struct board *board;
    int timeout_ms;
    bool again;   /* calls whose deadline passes are made again */
    rch_t end[4]; /* open ends */
    int ends;
    rregion_t region[3]; /* to give back when those are closed */
    int regions;
};

/* Which ranks share a host: casts between hosts go through sockets. */
enum scenario_hosts {
    HOSTS_ONE,
    HOSTS_TWO, /* rank 1 is on one of its own */
    HOSTS_EACH
};

/* Pipes go through a network. */
struct scenario_network {
    const char *backend; /* RPIPE_BTL */
    const char *order;   /* RPIPE_OFI_ORDER */
    enum scenario_hosts hosts;
    bool team; /* steps of teams between hosts; deadlines name the rank that is stopped */
    bool slow; /* played for steps that occur in no other one */
};

struct scenario {
    const char *name;
    int (*play)(struct player *p); /* 0, or the error that ended it */
    rpipe_op_t op;
    rpipe_sync_t sync;
    const char *wait;    /* RPIPE_WAIT */
    const char *atomics; /* RPIPE_ATOMICS */
    bool all;            /* the bystander plays too */
    bool patient; /* its calls cannot be made again after their deadline: it is not counted */
    const struct scenario_network *network; /* NULL: shared memory */
    bool device; /* heaps and regions are memory of a simulated device (test/lib/on_device.h) */
};

extern const struct scenario scenarios[];
extern const int scenario_count;

struct plan {
    const struct scenario *s;
    int victim;
    struct step_table *table; /* NULL: the ranks count no steps */
    unsigned step;            /* of the victim */
    uint32_t nth;             /* 0: nothing happens */
    int sig;
    bool early;      /* it may happen in rinit, which the others need not survive */
    int timeout_ms;  /* of calls */
    bool again;      /* a call is made again when its deadline has passed */
    int stopped_ms;  /* a stopped rank is stopped for so long at least */
    int64_t kill_ns; /* the victim is killed so long after it has joined; 0: not */
    void (*arm)(const struct plan *plan, struct board *board,
                int rank); /* before rinit; NULL: nothing */
};

int scenario_rank(int rank, struct board *board,
                  const void *arguments); /* a rank_function; a struct plan */

/* Plays it until every rank has ended. True: the victim was killed, and not through before. */
bool scenario_kill(const struct plan *plan, const char *what, struct spread *calls,
                   struct spread *exits);

/* The same for one that is stopped at its step, until a deadline of the other end has expired, which is counted, or PATIENT_MS. */
bool scenario_stop(const struct plan *plan, const char *what, int *reported);

#endif
