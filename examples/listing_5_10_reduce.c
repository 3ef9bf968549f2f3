/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * listing_5_10_reduce.c: a reduction as a schedule that is executed again and again (thesis listing
 * 5.10).
 *
 * rcoll_init of the thesis makes a schedule: it is rcoll_plan. rcoll_nb asks whether it is over:
 * rcoll_test. rcoll_reset prepares the next iteration: rcoll_start. An input function wrote the
 * contribution into memory of a pipe; here it is a variable that the plan reads.
 *
 * With 5 processes the schedule is that of figure 5.4, a binomial tree. It is printed as a graph in
 * the language of Graphviz, and as text for member 0.
 *
 *     mpirun -n 5 listing_5_10_reduce
 */
#include <rcoll.h>
#include <rpipe.h>
#include <stdio.h>

#include "must.h"

#define ITERS 1000

/* What a member contributes to an iteration. */
static int some_val(int rank, int iteration) { return 10 * rank + iteration; }

int main(int argc, char **argv)
{
    rteam_t team;
    rplan_t coll_handle;
    int rank, nprocs, in = 0, out = 0;

    must_be_alone(argc, argv, "A reduction is made once, printed as a graph, and executed often.",
                  "mpirun -n 5 listing_5_10_reduce");
    MUST(NULL, rinit(&rank, &nprocs));
    MUST(NULL, rcoll_team(&team, NULL, NULL, nprocs));

    rcoll_params_t p = {.kind = RCOLL_REDUCE,
                        .from = &in,
                        .into = &out,
                        .count = 1,
                        .type = RGROUP_INT32,
                        .op = RGROUP_SUM,
                        .root = 0,
                        .algorithm = "binomial"};
    MUST(NULL, rcoll_plan(&coll_handle, team, &p));
    if (rank == 0) {
        MUST(NULL, rcoll_dump(coll_handle, RCOLL_DOT, stdout));
        MUST(NULL, rcoll_dump(coll_handle, RCOLL_TEXT, stdout));
    }

    for (int i = 0; i < ITERS; ++i) {
        int flag;

        in = some_val(rank, i);
        MUST(NULL, rcoll_start(coll_handle));
        while ((flag = rcoll_test(coll_handle)) == R_PENDING)
            continue; /* a program computes here */
        MUST(NULL, flag);
        for (int r = 0; r < nprocs; r++)
            out -= some_val(r, i);
        MUST_HOLD(rank != 0 || out == 0);
    }

    MUST(NULL, rcoll_free(coll_handle));
    MUST(NULL, rcoll_close(team));
    if (rank == 0)
        printf("listing 5.10: %d reductions of %d processes, every sum right\n", ITERS, nprocs);
    MUST(NULL, rexit());
    return 0;
}
