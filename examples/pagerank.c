/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pagerank.c: the power iteration over a graph: each step needs the vector of all processes, and no
 * process has a copy of it.
 *
 * Each process has two blocks in memory of the team. A step is an allgather with views: it ends with
 * pointers to the blocks of all members, of those on this host where their owners have written
 * them. The step reads them there, writes the next block, and releases the views. rcoll_settled
 * waits until all members have released a block before it is written again.
 *
 *     mpirun -n 4 pagerank --pages 1000000
 */
#include <math.h>
#include <rcoll.h>
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app_draw.h"
#include "app_pipes.h"
#include "pagerank_graph.h"

static struct pagerank_options options = PAGERANK_OPTIONS_DEFAULT;
static const char *output = "pagerank.png";

struct part {
    struct pagerank graph;
    rteam_t team;
    double *block[2]; /* memory of the team: of even steps, of odd steps */
    rplan_t gather[2];
    const double **view; /* blocks of all members */
    uint64_t steps;
    struct app_laps laps;
};

static const struct app_option option_table[] = {
    PAGERANK_OPTION_TABLE(options),
    APP_OUTPUT(&output),
    APP_END,
};

static const char doc[] =
    "Ranks of pages that link to each other, by the processes of a job.\v"
    "Run it as: mpirun -n 4 pagerank. The exit status is 0 if the ranks equal, bit for bit, those "
    "of one process. "
    "What a step takes beyond computing is \"communication\" as far as all processes have it, and "
    "else \"waiting\".";

static void part_create(struct part *p, int rank, int nranks)
{
    size_t *counts = calloc((size_t)nranks, sizeof(*counts)), longest = 0;
    rcoll_params_t params = {
        .kind = RCOLL_ALLGATHER, .flags = RCOLL_VIEWS, .element = sizeof(double), .counts = counts};
    rcoll_team_config_t cfg = {0};

    p->view = calloc((size_t)nranks, sizeof(*p->view));
    MUST_HOLD(counts != NULL && p->view != NULL);
    MUST_HOLD(pagerank_create(&p->graph, &options, rank, nranks) == 0);
    MUST_HOLD(app_laps_begin(&p->laps, (uint64_t)options.steps) == 0);
    for (int r = 0; r < nranks; r++) {
        counts[r] = pagerank_block(&p->graph, r);
        longest = counts[r] > longest ? counts[r] : longest;
    }
    cfg.mem_bytes = 2 * longest * sizeof(double) + 4096; /* the same at all members */
    MUST(NULL, rcoll_team(&p->team, &cfg, NULL, nranks));
    for (int i = 0; i < 2; i++) {
        p->block[i] = rcoll_alloc(p->team, counts[rank] * sizeof(double));
        MUST_HOLD(p->block[i] != NULL);
        params.from = p->block[i];
        MUST(NULL, rcoll_plan(&p->gather[i], p->team, &params));
    }
    free(counts);
}

/* Views of the blocks of step k. */
static void gather(struct part *p, uint64_t k)
{
    rplan_t plan = p->gather[k % 2];

    MUST(NULL, rcoll_start(plan));
    MUST(NULL, rcoll_wait(plan));
    for (int r = 0; r < p->graph.nranks; r++) {
        const void *at;
        size_t bytes;

        MUST(NULL, rcoll_view(plan, r, &at, &bytes));
        MUST_HOLD(bytes == pagerank_block(&p->graph, r) * sizeof(double));
        p->view[r] = at;
    }
}

static double run(struct part *p)
{
    double began, from;
    bool over = false;

    MUST(NULL, rcoll_barrier(p->team));
    began = app_seconds();
    pagerank_start(&p->graph, p->block[0]);
    while (p->steps < (uint64_t)options.steps && !over) {
        uint64_t next = p->steps + 1;

        from = app_seconds();
        gather(p, p->steps);
        over = pagerank_over(&p->graph, p->view);
        if (!over) {
            MUST(NULL, rcoll_settled(p->gather[next % 2], 0));
            app_laps_add(&p->laps, app_seconds() - from);
            pagerank_step(&p->graph, p->view, p->block[next % 2]);
        }
        MUST(NULL, rcoll_release(p->gather[p->steps % 2])); /* views that are kept hold others up */
        p->steps += !over;
        if (p->graph.rank == 0)
            app_progress_show("pagerank", "step", next, (uint64_t)options.steps, began);
    }
    MUST(NULL, rcoll_barrier(p->team));
    return app_seconds() - began;
}

/* The ranks of all pages at rank 0; NULL at the others. */
static double *result_at_0(const struct part *p)
{
    size_t ranks = (size_t)p->graph.nranks, *counts = calloc(ranks, sizeof(*counts));
    double *all = p->graph.rank == 0 ? malloc(p->graph.first[ranks] * sizeof(*all)) : NULL;
    rcoll_params_t params = {.kind = RCOLL_GATHER,
                             .from = p->graph.value,
                             .into = all,
                             .element = sizeof(double),
                             .counts = counts};

    MUST_HOLD(counts != NULL && (p->graph.rank != 0 || all != NULL));
    for (size_t r = 0; r < ranks; r++)
        counts[r] = p->graph.first[r + 1] - p->graph.first[r];
    MUST(NULL, rcoll_run(p->team, &params));
    free(counts);
    return all;
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x < y) - (x > y);
}

/*
 * The ranks of all pages, the largest first, both axes logarithmic: few pages have most of the visitors. Horizontal lines are powers of ten of
 * the mean, the red one the mean itself.
 */
static void draw(const double *all, struct picture *picture)
{
    const int wide = 720, high = 360;
    const size_t pages = (size_t)options.pages;
    double *sorted = malloc(pages * sizeof(*sorted)), top, decades;

    MUST_HOLD(sorted != NULL && picture_create(picture, wide, high, 0x10131a) == 0);
    memcpy(sorted, all, pages * sizeof(*sorted));
    qsort(sorted, pages, sizeof(*sorted), descending);
    top = ceil(log10(sorted[0] * (double)pages));
    decades = top - floor(log10(sorted[pages - 1] * (double)pages));
    for (int k = 0; k <= (int)decades; k++)
        for (int x = 0; x < wide; x++)
            picture_mix(picture, x, (int)(k * high / decades), k == (int)top ? 0xe5355a : 0xffffff,
                        k == (int)top ? 0.8 : 0.2);
    for (int i = 0; i < 4 * wide; i++) {
        size_t page = (size_t)pow((double)pages, i / (4.0 * wide)) - 1;
        int y = (int)((top - log10(sorted[page] * (double)pages)) * high / decades);

        for (int k = 0; k < 4; k++)
            picture_mix(picture, i / 4 + k % 2, y + k / 2, 0xfbc84a, 0.5);
    }
    free(sorted);
}

static int report(const struct part *p, const double *all, struct app_result *result)
{
    struct picture picture;
    int status = 0;

    result->digest = app_digest(0, all, (size_t)options.pages);
    app_result_print(result);
    if (!app_options.json)
        printf("pagerank: page 0 has %.3f %% of all visitors, the page in the middle %.6f %%\n",
               all[0] * 100, all[options.pages / 2] * 100);
    if (app_options.check)
        status = pagerank_compare("pagerank", &p->graph, all);
    if (*output != '\0') {
        draw(all, &picture);
        status |= app_write_picture("pagerank", &picture, output);
    }
    fflush(stdout);
    return status;
}

int main(int argc, char **argv)
{
    const char *const usual = output;
    struct part p = {0};
    struct app_result result = {.app = "pagerank", .by = "rcoll", .unit = "steps"};
    double *all;
    int rank, nranks, status = 0;

    app_parse(doc, option_table, argc, argv);
    if (app_options.quick) {
        options = (struct pagerank_options)PAGERANK_OPTIONS_QUICK;
        output = output == usual ? "" : output;
    }
    MUST(NULL, rinit(&rank, &nranks));
    if (rank == 0)
        app_must_be_writable("pagerank", output);
    part_create(&p, rank, nranks);
    result.ranks = nranks;
    result.seconds = run(&p);
    result.work = (double)p.steps;
    result.communication = app_least(&p.laps);
    result.waiting = app_mean(p.laps.sum) - result.communication;
    all = result_at_0(&p);
    if (rank == 0)
        status = report(&p, all, &result);
    MUST(NULL, rcoll_close(p.team));
    MUST(NULL, rexit());
    pagerank_destroy(&p.graph);
    free(p.laps.beyond);
    free((void *)p.view);
    free(all);
    return status;
}
