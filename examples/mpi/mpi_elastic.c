/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_elastic.c: examples/elastic over MPI, for comparison: the same net, and the same death.
 *
 * MPI_Allreduce promises no order of its sums. So that the bits are those of one process here too,
 * all gradients go to all members (MPI_Iallgather), and each adds them in the order of sgd_fold().
 * What happens when a process dies is in survive.h.
 *
 *     mpiexec.mpich -disable-auto-cleanup -n 4 mpich_elastic --kill 2@500
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "../app.h"
#include "../elastic_run.h"
#include "memory.h"
#include "survive.h"

/* What operations of a team write; each team has its own, since those of the last one are not over. */
struct buffers {
    int64_t done, least;
    double *mine, **all;
};

struct part {
    struct survive job;
    struct elastic run;
    struct buffers *b;
    int member, members; /* of the team */
};

static const char doc[] =
    "elastic over MPI.\v"
    "Run it as: mpiexec.mpich -disable-auto-cleanup -n 4 mpich_elastic --kill 2@500";

static void join(struct part *p)
{
    MPI_Comm_rank(p->job.team, &p->member);
    MPI_Comm_size(p->job.team, &p->members);
    p->b = memory(1, sizeof(*p->b));
    p->b->mine = memory(p->run.count, sizeof(double));
    p->b->all = memory((size_t)p->members, sizeof(double *));
    p->b->all[0] = memory((size_t)p->members * p->run.count, sizeof(double));
    for (int i = 1; i < p->members; i++)
        p->b->all[i] = p->b->all[0] + (size_t)i * p->run.count;
}

/* Whether the step is done; false: a process was lost. */
static bool train(struct part *p)
{
    struct buffers *b = p->b;
    int count = (int)p->run.count;
    MPI_Request request;

    elastic_gradient(&p->run, p->member, p->members, b->mine);
    MPI_Iallgather(b->mine, count, MPI_DOUBLE, b->all[0], count, MPI_DOUBLE, p->job.team, &request);
    if (!survive_complete(&p->job, 1, &request))
        return false;
    sgd_fold(b->all, p->members, p->run.count);
    elastic_done(&p->run, b->all[0]);
    return true;
}

static void recover(struct part *p)
{
    MPI_Request request;

    do { /* again, if another one dies meanwhile */
        survive_shrink(&p->job);
        join(p);
        p->b->done = p->run.done;
        MPI_Iallreduce(&p->b->done, &p->b->least, 1, MPI_INT64_T, MPI_MIN, p->job.team, &request);
    } while (!survive_complete(&p->job, 1, &request));
    if ((p->run.done != p->b->least && p->run.done != p->b->least + 1) ||
        p->run.eras == ELASTIC_ERAS) {
        fprintf(stderr, "mpi_elastic: step %lld here, step %lld elsewhere, after %d deaths\n",
                (long long)p->run.done, (long long)p->b->least, p->job.lost);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    elastic_go_on(&p->run, p->b->least, p->member, p->members);
}

/* Returns seconds. */
static double run(struct part *p)
{
    double began = app_seconds();

    while (p->run.done < p->run.options.steps) {
        elastic_die(&p->run, p->job.rank);
        if (!train(p))
            recover(p);
    }
    return app_seconds() - began;
}

int main(int argc, char **argv)
{
    struct part p = {0};
    char why[4400];
    double seconds;
    int status;

    elastic_parse(&p.run, "mpi_elastic", doc, argc, argv);
    survive_start();
    MPI_Init(&argc, &argv);
    survive_begin(&p.job);
    status = elastic_create(&p.run, p.job.rank, p.job.ranks);
    if (status > 0) { /* everywhere */
        MPI_Finalize();
        return status;
    }
    if (status < 0 || (p.job.rank == 0 && picture_can_write(p.run.output, why, sizeof(why)) != 0)) {
        fprintf(stderr, "mpi_elastic: %s\n", status < 0 ? "no memory" : why);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    join(&p);
    seconds = run(&p);
    if (p.member == 0)
        status = elastic_report(&p.run, "mpich", p.members, seconds);
    survive_end(&p.job, status);
}
