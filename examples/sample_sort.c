/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sample_sort.c: keys that are spread over all processes become sorted: samples by an allgather, keys
 * by an alltoall with counts.
 *
 * Each process sorts its keys and shows samples of them; the sorted samples of all are the borders
 * between processes. Each key goes to the process between whose borders it is: first, every two
 * processes exchange how many, then the keys. These are in memory of the team, from where the others
 * read them. In the end, each process merges what it has received.
 *
 * The check is made of collectives, too: an exclusive scan of the numbers of keys is where those of
 * a process begin. In the end, unless --no-check is given, a gather brings all keys to process 0,
 * which sorts them by itself. The picture has some keys of all processes, by a reduce.
 *
 *     mpirun -n 4 sample_sort --keys 10000000
 */
#include <rcoll.h>
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app_draw.h"
#include "app_pipes.h"
#include "sort_keys.h"

#define WIDE 720
#define DOTS (4 * WIDE) /* keys in the picture */

static struct sort_options options = SORT_OPTIONS_DEFAULT;
static const char *output = "sample_sort.png";

struct part {
    int rank, nranks;
    rteam_t team;
    size_t n;       /* keys at the beginning */
    uint64_t *keys; /* memory of the team */
    uint64_t *sample;
    size_t *counts, *counts_in; /* to each process, and from each */
    uint64_t *received, *other; /* keys in the end, and space to merge them */
    size_t room, have;          /* keys that these can have, and do have */
    uint64_t *sorted;           /* one of the two */
    size_t most;                /* of all processes and rounds */
    size_t *have_all;           /* keys of each process in the end */
    uint64_t dot[2]
                [DOTS]; /* at even distances: keys before and after, those of other processes 0 */
    uint64_t digest;
    double seconds;
    struct app_laps laps;
};

static const struct app_option option_table[] = {
    SORT_OPTION_TABLE(options),
    APP_OUTPUT(&output),
    APP_END,
};

static const char doc[] =
    "Sorts keys that are spread over the processes of a job.\v"
    "Run it as: mpirun -n 4 sample_sort. The exit status is 0 if the same keys are there, in "
    "order. "
    "What a round takes beyond computing is \"communication\" as far as all processes have it, and "
    "else \"waiting\".";

static void part_create(struct part *p)
{
    size_t ranks = (size_t)p->nranks;
    rcoll_team_config_t cfg = {0};

    /* mem_bytes is the same at all members */
    cfg.mem_bytes = ((size_t)options.keys / ranks + 1) * sizeof(*p->keys) + 4096;
    MUST(NULL, rcoll_team(&p->team, &cfg, NULL, p->nranks));
    p->n = sort_first(&options, p->rank + 1, p->nranks) - sort_first(&options, p->rank, p->nranks);
    p->keys = rcoll_alloc(p->team, p->n * sizeof(*p->keys));
    p->sample = calloc((ranks + 1) * (size_t)options.samples, sizeof(*p->sample));
    p->counts = calloc(3 * ranks, sizeof(*p->counts));
    MUST_HOLD(p->keys != NULL && p->sample != NULL && p->counts != NULL);
    p->counts_in = p->counts + ranks;
    p->have_all = p->counts_in + ranks;
    MUST_HOLD(app_laps_begin(&p->laps, (uint64_t)options.rounds) == 0);
}

/* Space for what is received; it is seldom more than the last time. */
static void make_room(struct part *p, size_t keys)
{
    if (p->received != NULL && p->room >= keys)
        return;
    free(p->received);
    free(p->other);
    p->room = keys + keys / 8 + 1;
    p->received = malloc(p->room * sizeof(*p->received));
    p->other = malloc(p->room * sizeof(*p->other));
    MUST_HOLD(p->received != NULL && p->other != NULL);
}

/* Returns the seconds beyond computing. */
static double sort(struct part *p)
{
    size_t sample_bytes = (size_t)options.samples * sizeof(*p->sample);
    uint64_t *mine = p->sample + (size_t)p->nranks * (size_t)options.samples;
    rcoll_params_t exchange = {.kind = RCOLL_ALLTOALL,
                               .from = p->keys,
                               .element = sizeof(*p->keys),
                               .counts = p->counts,
                               .counts_in = p->counts_in};
    double beyond = 0, now;

    sort_local(p->keys, p->other, p->n);
    sort_sample(p->keys, p->n, mine, options.samples);
    now = app_seconds();
    MUST(NULL, rcoll_allgather(p->team, mine, p->sample, sample_bytes));
    beyond += app_seconds() - now;
    sort_cut(p->keys, p->n, p->sample, options.samples, p->nranks, p->counts);

    now = app_seconds();
    MUST(NULL, rcoll_alltoall(p->team, p->counts, p->counts_in, sizeof(*p->counts)));
    p->have = 0;
    for (int r = 0; r < p->nranks; r++)
        p->have += p->counts_in[r];
    make_room(p, p->have);
    exchange.into = p->received;
    MUST(NULL, rcoll_run(p->team, &exchange));
    beyond += app_seconds() - now;
    p->sorted = sort_merge(p->received, p->other, p->counts_in, p->nranks);
    return beyond;
}

/* ---- the picture ---- */

/* What the picture needs of n keys, which are in place `first` of all and behind it. */
static void take_dots(uint64_t dot[DOTS], const uint64_t *keys, size_t n, size_t first)
{
    for (size_t i = 0; i < DOTS; i++) {
        size_t at = (size_t)options.keys * i / DOTS;

        dot[i] = at >= first && at - first < n ? keys[at - first] : 0;
    }
}

static void draw_dots(struct picture *picture, const uint64_t dot[DOTS], uint64_t largest, int high,
                      uint32_t colour)
{
    for (int i = 0; i < DOTS; i++) {
        int y = (int)((1 - (double)dot[i] / (double)largest) * (high - 2));

        for (int k = 0; k < 4; k++)
            picture_mix(picture, i * WIDE / DOTS + k % 2, y + k / 2, colour, 0.6);
    }
}

/* Keys by their places: before, blue, and after, yellow; dotted lines are the borders between processes. */
static void draw(const struct part *p, struct picture *picture)
{
    const int high = 360;
    uint64_t largest = 1;
    size_t end = 0;

    MUST_HOLD(picture_create(picture, WIDE, high, 0x10131a) == 0);
    for (int i = 0; i < 2 * DOTS; i++)
        largest = p->dot[i / DOTS][i % DOTS] > largest ? p->dot[i / DOTS][i % DOTS] : largest;
    draw_dots(picture, p->dot[0], largest, high, 0x4aa3fb);
    draw_dots(picture, p->dot[1], largest, high, 0xfbc84a);
    for (int r = 0; r + 1 < p->nranks; r++) {
        end += p->have_all[r];
        for (int y = 0; y < high; y += 4)
            picture_mix(picture, (int)(end * WIDE / (size_t)options.keys), y, 0xffffff, 0.7);
    }
}

/* Of the last round, at rank 0; its exit status. */
static int make_picture(struct part *p)
{
    static uint64_t all[2][DOTS];
    struct picture picture;

    if (*output == '\0')
        return 0;
    MUST(NULL, rcoll_reduce(p->team, p->dot, all, sizeof(all) / sizeof(all[0][0]), RGROUP_UINT64,
                            RGROUP_SUM, 0));
    if (p->rank != 0)
        return 0;
    memcpy(p->dot, all, sizeof(all));
    draw(p, &picture);
    return app_write_picture("sample_sort", &picture, output);
}

/* ---- the check ---- */

/* The keys of all members are in order, and the same as before. */
static void check(struct part *p, uint64_t sum_before)
{
    struct {
        uint64_t first, last, count;
    } mine = {0}, *all = calloc((size_t)p->nranks, sizeof(*all));
    uint64_t count = p->have, position = 0, last = 0, sums[3], total[3];

    MUST_HOLD(all != NULL);
    if (p->have > 0) {
        mine.first = p->sorted[0];
        mine.last = p->sorted[p->have - 1];
        mine.count = p->have;
    }
    MUST(NULL, rcoll_allgather(p->team, &mine, all, sizeof(mine)));
    for (int r = 0; r < p->nranks; r++) {
        if (all[r].count > 0) {
            MUST_HOLD(all[r].first >= last);
            last = all[r].last;
        }
        p->most = all[r].count > p->most ? all[r].count : p->most;
        p->have_all[r] = all[r].count;
    }
    free(all);

    MUST(NULL, rcoll_exscan(p->team, &count, &position, 1, RGROUP_UINT64, RGROUP_SUM));
    take_dots(p->dot[1], p->sorted, p->have, position);
    sums[0] = sum_before - sort_sum(p->sorted, p->have);
    sums[1] = sort_digest(p->sorted, p->have, position);
    sums[2] = count;
    MUST(NULL, rcoll_allreduce(p->team, sums, total, 3, RGROUP_UINT64, RGROUP_SUM));
    MUST_HOLD(sort_right(p->sorted, p->have));
    MUST_HOLD(total[0] == 0 && total[2] == (uint64_t)options.keys);
    p->digest += total[1];
}

/* The keys of the last round, at rank 0, beside those that it sorts by itself; its exit status. */
static int check_alone(struct part *p)
{
    rcoll_params_t gather = {.kind = RCOLL_GATHER,
                             .from = p->sorted,
                             .element = sizeof(*p->sorted),
                             .counts = p->have_all};
    uint64_t *all = NULL;
    int status = 0;

    if (!app_options.check)
        return 0;
    if (p->rank == 0) {
        all = malloc((size_t)options.keys * sizeof(*all));
        MUST_HOLD(all != NULL);
    }
    gather.into = all;
    MUST(NULL, rcoll_run(p->team, &gather));
    if (p->rank == 0)
        status = sort_compare("sample_sort", &options, all);
    free(all);
    return status;
}

static void run(struct part *p)
{
    double all = app_seconds();

    for (int round = 0; round < options.rounds; round++) {
        uint64_t sum;
        double began;

        sort_generate(round, sort_first(&options, p->rank, p->nranks), p->keys, p->n);
        take_dots(p->dot[0], p->keys, p->n, sort_first(&options, p->rank, p->nranks));
        sum = sort_sum(p->keys, p->n);
        make_room(p, p->n);
        MUST(NULL, rcoll_barrier(p->team));
        began = app_seconds();
        app_laps_add(&p->laps, sort(p));
        MUST(NULL, rcoll_barrier(p->team)); /* all have read the keys: they may be changed */
        p->seconds += app_seconds() - began;
        check(p, sum);
        if (p->rank == 0)
            app_progress_show("sample_sort", "round", (uint64_t)round + 1, (uint64_t)options.rounds,
                              all);
    }
}

int main(int argc, char **argv)
{
    static struct part p;
    const char *const usual = output;
    struct app_result result = {.app = "sample_sort", .by = "rcoll", .unit = "keys"};
    int status;

    app_parse(doc, option_table, argc, argv);
    if (app_options.quick) {
        options = (struct sort_options)SORT_OPTIONS_QUICK;
        output = output == usual ? "" : output;
    }
    MUST(NULL, rinit(&p.rank, &p.nranks));
    if (p.rank == 0)
        app_must_be_writable("sample_sort", output);
    part_create(&p);
    run(&p);
    result.ranks = p.nranks;
    result.seconds = p.seconds;
    result.work = (double)options.keys * options.rounds;
    result.communication = app_least(&p.laps);
    result.waiting = app_mean(p.laps.sum) - result.communication;
    result.digest = p.digest;
    if (p.rank == 0) {
        app_result_print(&result);
        if (!app_options.json)
            printf("sample_sort: right: the same keys are in order; no process has more than %.2f "
                   "times its share\n",
                   (double)p.most * p.nranks / options.keys);
    }
    status = check_alone(&p) | make_picture(&p);
    fflush(stdout);
    MUST(NULL, rcoll_close(p.team));
    MUST(NULL, rexit());
    free(p.sample);
    free(p.counts);
    free(p.received);
    free(p.other);
    free(p.laps.beyond);
    return status;
}
