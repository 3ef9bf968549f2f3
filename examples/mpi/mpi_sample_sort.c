/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_sample_sort.c: examples/sample_sort over MPI, for comparison: MPI_Allgather, MPI_Alltoall and
 * MPI_Alltoallv.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "../app.h"
#include "../sort_keys.h"
#include "laps.h"
#include "memory.h"

static struct sort_options options = SORT_OPTIONS_DEFAULT;
static const struct app_option option_table[] = {SORT_OPTION_TABLE(options), APP_END};

struct part {
    int rank, nranks;
    size_t n, have, room;
    uint64_t *keys, *sample, *received, *other, *sorted;
    size_t *counts, *counts_in;
    int *to, *to_at, *from, *from_at; /* the same as int, and where they begin */
    struct app_laps laps;
};

static void make_room(struct part *p, size_t keys)
{
    if (p->received != NULL && p->room >= keys)
        return;
    free(p->received);
    free(p->other);
    p->room = keys + keys / 8 + 1;
    p->received = memory(p->room, sizeof(uint64_t));
    p->other = memory(p->room, sizeof(uint64_t));
}

/* Returns the seconds beyond computing. */
static double sort(struct part *p)
{
    uint64_t *mine = p->sample + (size_t)p->nranks * (size_t)options.samples;
    double beyond = 0, now;
    int to_at = 0;

    sort_local(p->keys, p->other, p->n);
    sort_sample(p->keys, p->n, mine, options.samples);
    now = app_seconds();
    MPI_Allgather(mine, options.samples, MPI_UINT64_T, p->sample, options.samples, MPI_UINT64_T,
                  MPI_COMM_WORLD);
    beyond += app_seconds() - now;
    sort_cut(p->keys, p->n, p->sample, options.samples, p->nranks, p->counts);

    now = app_seconds();
    MPI_Alltoall(p->counts, 1, MPI_UINT64_T, p->counts_in, 1, MPI_UINT64_T, MPI_COMM_WORLD);
    p->have = 0;
    for (int r = 0; r < p->nranks; r++) {
        p->to[r] = (int)p->counts[r];
        p->to_at[r] = to_at;
        to_at += p->to[r];
        p->from[r] = (int)p->counts_in[r];
        p->from_at[r] = (int)p->have;
        p->have += p->counts_in[r];
    }
    make_room(p, p->have);
    MPI_Alltoallv(p->keys, p->to, p->to_at, MPI_UINT64_T, p->received, p->from, p->from_at,
                  MPI_UINT64_T, MPI_COMM_WORLD);
    beyond += app_seconds() - now;
    p->sorted = sort_merge(p->received, p->other, p->counts_in, p->nranks);
    return beyond;
}

/* The digest of a round, at all processes; the end of the job if something is wrong. */
static uint64_t check(const struct part *p, uint64_t sum_before)
{
    uint64_t count = p->have, position = 0, sums[4], total[4],
             last = p->have > 0 ? p->sorted[p->have - 1] : 0, before = 0;

    MPI_Exscan(&count, &position, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Exscan(&last, &before, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    position = p->rank > 0 ? position : 0;
    before = p->rank > 0 ? before : 0;
    sums[0] = sum_before - sort_sum(p->sorted, p->have);
    sums[1] = sort_digest(p->sorted, p->have, position);
    sums[2] = count;
    sums[3] = !sort_right(p->sorted, p->have) || (p->have > 0 && p->sorted[0] < before);
    MPI_Allreduce(sums, total, 4, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (total[0] != 0 || total[2] != (uint64_t)options.keys || total[3] != 0) {
        fprintf(stderr, "mpi_sample_sort: WRONG: the keys are not sorted, or not the same\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return total[1];
}

/* The keys of the last round, at rank 0, beside those that it sorts by itself; its exit status. */
static int check_alone(const struct part *p)
{
    int have = (int)p->have, at = 0, status = 0;
    uint64_t *all = NULL;

    if (!app_options.check)
        return 0;
    MPI_Gather(&have, 1, MPI_INT, p->from, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int r = 0; r < p->nranks && p->rank == 0; r++) {
        p->from_at[r] = at;
        at += p->from[r];
    }
    if (p->rank == 0)
        all = memory((size_t)options.keys, sizeof(*all));
    MPI_Gatherv(p->sorted, have, MPI_UINT64_T, all, p->from, p->from_at, MPI_UINT64_T, 0,
                MPI_COMM_WORLD);
    if (p->rank == 0)
        status = sort_compare("mpi_sample_sort", &options, all);
    free(all);
    return status;
}

int main(int argc, char **argv)
{
    struct part p = {0};
    struct app_result result = {.app = "sample_sort", .by = "mpi", .unit = "keys"};
    size_t ranks;
    int status;

    app_parse("sample_sort over MPI.", option_table, argc, argv);
    if (app_options.quick)
        options = (struct sort_options)SORT_OPTIONS_QUICK;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p.nranks);
    ranks = (size_t)p.nranks;
    p.n = sort_first(&options, p.rank + 1, p.nranks) - sort_first(&options, p.rank, p.nranks);
    p.keys = memory(p.n, sizeof(uint64_t));
    p.sample = memory((ranks + 1) * (size_t)options.samples, sizeof(uint64_t));
    p.counts = memory(2 * ranks, sizeof(size_t));
    p.counts_in = p.counts + ranks;
    p.to = memory(4 * ranks, sizeof(int));
    p.to_at = p.to + ranks;
    p.from = p.to_at + ranks;
    p.from_at = p.from + ranks;
    laps_begin(&p.laps, (uint64_t)options.rounds);

    for (int round = 0; round < options.rounds; round++) {
        uint64_t sum;
        double began;

        sort_generate(round, sort_first(&options, p.rank, p.nranks), p.keys, p.n);
        sum = sort_sum(p.keys, p.n);
        make_room(&p, p.n);
        MPI_Barrier(MPI_COMM_WORLD);
        began = app_seconds();
        app_laps_add(&p.laps, sort(&p));
        MPI_Barrier(MPI_COMM_WORLD);
        result.seconds += app_seconds() - began;
        result.digest += check(&p, sum);
    }
    laps_end(&p.laps, &result.communication, &result.waiting);
    result.ranks = p.nranks;
    result.work = (double)options.keys * options.rounds;
    if (p.rank == 0) {
        app_result_print(&result);
        fflush(stdout);
    }
    status = check_alone(&p);
    free(p.keys);
    free(p.sample);
    free(p.counts);
    free(p.to);
    free(p.received);
    free(p.other);
    MPI_Finalize();
    return status;
}
