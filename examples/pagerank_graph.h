/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pagerank_graph.h: a graph of pages and links, and a step of the power iteration over a part of it:
 * everything but the communication.
 *
 * Few pages have most of the incoming links. The graph follows from a seed, and each process keeps
 * the links to its own pages, of which it has about as many as the others; so the numbers of pages
 * differ.
 *
 * What a process shows the others is its block: for each page its rank divided by its outgoing
 * links, and, behind these, the largest change of a rank. A step adds up values of all blocks, in
 * the order of pages: the result does not depend on the number of processes.
 */
#ifndef EXAMPLES_PAGERANK_GRAPH_H
#define EXAMPLES_PAGERANK_GRAPH_H

#include <stdbool.h>
#include <stddef.h>

#include "app.h"

struct pagerank_options {
    int pages, links, damping, digits, steps;
};
#define PAGERANK_OPTIONS_DEFAULT                                                                   \
    {                                                                                              \
        100000, 8, 85, 10, 1000                                                                    \
    }
#define PAGERANK_OPTIONS_QUICK                                                                     \
    {                                                                                              \
        2000, 5, 85, 8, 1000                                                                       \
    }
#define PAGERANK_OPTION_TABLE(o)                                                                   \
    APP_INT("pages", 'n', &(o).pages, 64, 100000000, "Pages"),                                     \
        APP_INT("links", 'l', &(o).links, 1, 1000, "Links of a page, on average"),                 \
        APP_INT("damping", 'd', &(o).damping, 1, 99, "Of 100 visitors, how many follow a link"),   \
        APP_INT("digits", 'g', &(o).digits, 1, 14, "Until no rank changes by 10^-N of the mean"),  \
        APP_INT("steps", 's', &(o).steps, 1, 1000000, "Steps at most")

struct pagerank {
    struct pagerank_options options;
    int rank, nranks;
    size_t *first;     /* of each process, the first page; nranks + 1 elements */
    size_t pages;      /* of this process */
    uint32_t **begin;  /* by process: of each own page, the first link from its pages */
    uint32_t **source; /* by process: pages that these links are from, as places in its block */
    double *value, *outward; /* ranks, and links that lead away; of own pages */
};
int pagerank_create(struct pagerank *p, const struct pagerank_options *o, int rank, int nranks);
void pagerank_destroy(struct pagerank *p);

/* Elements of the block of a process. */
static inline size_t pagerank_block(const struct pagerank *p, int process)
{
    return p->first[process + 1] - p->first[process] + 1;
}
/* The block of this process before the first step: all ranks are equal. */
void pagerank_start(struct pagerank *p, double *block);
/* The next block of this process, from the blocks of all. */
void pagerank_step(struct pagerank *p, const double *const *blocks, double *block);
/* The largest change of all blocks is small enough. */
bool pagerank_over(const struct pagerank *p, const double *const *blocks);

/* 0; or 1, after printing that the ranks of all pages are not those of one process. */
int pagerank_compare(const char *app, const struct pagerank *p, const double *all);

#endif
