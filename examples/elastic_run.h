/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elastic_run.h: training that goes on when a process dies: everything but the communication, for
 * elastic.c and its twin over MPI.
 *
 * A step sums the gradients of all members. Weights from before the last step are kept: a member
 * that has completed a step has the sum of all, so that none is more than a step ahead when one of
 * them dies, and taking back one step makes all members equal.
 *
 * Sums have the order of sgd_fold(): the result equals, bit for bit, that of one process which takes
 * the parts of four members up to some step, and those of three from then on.
 */
#ifndef EXAMPLES_ELASTIC_RUN_H
#define EXAMPLES_ELASTIC_RUN_H

#include "sgd_net.h"

#define ELASTIC_ERAS 64 /* deaths that can be survived, and one */

struct elastic {
    const char *app; /* the name of the program in its messages */
    struct sgd_options options;
    const char *output;          /* file of the picture, "" for none */
    const char *kill;            /* ranks of the job that kill themselves, and at which step */
    int began;                   /* processes of the job */
    struct sgd_net net, last;    /* last: before the last step */
    size_t elements[SGD_LAYERS]; /* of a gradient, layer by layer */
    size_t count;                /* of all layers */
    int64_t done;                /* steps */
    struct sgd_era era[ELASTIC_ERAS];
    int eras;
    double *loss;    /* of each step */
    double step;     /* when the step began, or the first one that failed since the last success */
    double recovery; /* the longest time from there to the end of a step, seconds */
    bool failed;     /* the last step failed */
};

/* Parses the command line. With --quick and without --kill, rank 1 dies at step 20. */
void elastic_parse(struct elastic *e, const char *app, const char *doc, int argc, char **argv);
/*
 * 0; -ENOMEM; or 2, in every process, after rank 0 has printed that this job has no such process to
 * kill, or no other one.
 */
int elastic_create(struct elastic *e, int rank, int ranks);
void elastic_destroy(struct elastic *e);

/* At the beginning of a step: ends the process by SIGKILL if --kill demands it. */
void elastic_die(const struct elastic *e, int rank);
/* The gradient of the share of a member in the next step: `count` elements. */
void elastic_gradient(struct elastic *e, int member, int members, double *gradient);
/* Changes the weights by the sum of all gradients; the step is done. */
void elastic_done(struct elastic *e, const double *sum);
/* `members` are left, and `least` is the last step that all of them have done. */
void elastic_go_on(struct elastic *e, int64_t least, int member, int members);

/* By one process: prints the result, compares it with that of one process, draws. An exit status. */
int elastic_report(struct elastic *e, const char *by, int members, double seconds);

#endif
