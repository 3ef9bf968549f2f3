/* SPDX-License-Identifier: BSD-3-Clause */
/* pagerank_graph.c: see pagerank_graph.h. */
#include "pagerank_graph.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the graph ---- */

/* Links that lead away from a page: one at least. */
static uint32_t links_of(const struct pagerank_options *o, size_t page)
{
    return 1 + (uint32_t)(app_mix(2 * page + 1) % (uint64_t)(2 * o->links - 1));
}

/* The page that link i of a page leads to: mostly one with a low number. */
static size_t target_of(const struct pagerank_options *o, size_t page, uint32_t i)
{
    double r = (double)(app_mix(app_mix(page + 1) + i + 1) >> 11) * 0x1p-53;

    return (size_t)(r * r * r * (double)o->pages);
}

/* Calls `each` for all links, ordered by the page that they are from. */
static void each_link(const struct pagerank_options *o,
                      void (*each)(void *argument, size_t from, size_t to), void *argument)
{
    for (size_t page = 0; page < (size_t)o->pages; page++)
        for (uint32_t i = 0; i < links_of(o, page); i++)
            each(argument, page, target_of(o, page, i));
}

static void count_incoming(void *incoming, size_t from, size_t to)
{
    (void)from;
    ((uint32_t *)incoming)[to]++;
}

/* Cuts the pages so that each process has about as many incoming links. */
static int cut(struct pagerank *p)
{
    size_t n = (size_t)p->options.pages, ranks = (size_t)p->nranks, next = 1;
    uint32_t *incoming = calloc(n, sizeof(*incoming));
    uint64_t all = 0, sum = 0;

    if (incoming == NULL)
        return -ENOMEM;
    each_link(&p->options, count_incoming, incoming);
    for (size_t i = 0; i < n; i++)
        all += incoming[i] + 1; /* a page without links is work, too */
    for (size_t i = 0; i < n && next < ranks; i++) {
        sum += incoming[i] + 1;
        while (next < ranks && sum * ranks >= all * next)
            p->first[next++] = i + 1;
    }
    p->first[ranks] = n;
    free(incoming);
    return 0;
}

static int owner_of(const struct pagerank *p, size_t page)
{
    int owner = 0;

    while (page >= p->first[owner + 1])
        owner++;
    return owner;
}

static void count_link(void *of, size_t from, size_t to)
{
    struct pagerank *p = of;

    if (to >= p->first[p->rank] && to < p->first[p->rank + 1])
        p->begin[owner_of(p, from)][to - p->first[p->rank] + 1]++;
}

/* begin[page + 1] is where the next link of the page goes; it is where the links of page + 1 begin, in the end. */
static void store_link(void *of, size_t from, size_t to)
{
    struct pagerank *p = of;
    int owner = owner_of(p, from);

    if (to >= p->first[p->rank] && to < p->first[p->rank + 1])
        p->source[owner][p->begin[owner][to - p->first[p->rank] + 1]++] =
            (uint32_t)(from - p->first[owner]);
}

static int sort_links(struct pagerank *p)
{
    each_link(&p->options, count_link, p);
    for (int r = 0; r < p->nranks; r++) {
        uint32_t sum = 0, *begin = p->begin[r];

        for (size_t i = 1; i <= p->pages; i++) {
            uint32_t count = begin[i];

            begin[i] = sum;
            sum += count;
        }
        p->source[r] = malloc(((size_t)sum + 1) * sizeof(uint32_t));
        if (p->source[r] == NULL)
            return -ENOMEM;
    }
    each_link(&p->options, store_link, p);
    return 0;
}

int pagerank_create(struct pagerank *p, const struct pagerank_options *o, int rank, int nranks)
{
    size_t ranks = (size_t)nranks;

    *p = (struct pagerank){.options = *o, .rank = rank, .nranks = nranks};
    p->first = calloc(ranks + 1, sizeof(*p->first));
    p->begin = calloc(ranks, sizeof(*p->begin));
    p->source = calloc(ranks, sizeof(*p->source));
    if (p->first == NULL || p->begin == NULL || p->source == NULL || cut(p) != 0)
        return -ENOMEM;
    p->pages = p->first[rank + 1] - p->first[rank];
    p->value = calloc(p->pages + 1, sizeof(double));
    p->outward = calloc(p->pages + 1, sizeof(double));
    if (p->value == NULL || p->outward == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < p->pages; i++)
        p->outward[i] = links_of(o, p->first[rank] + i);
    for (size_t r = 0; r < ranks; r++) {
        p->begin[r] = calloc(p->pages + 1, sizeof(uint32_t));
        if (p->begin[r] == NULL)
            return -ENOMEM;
    }
    return sort_links(p);
}

void pagerank_destroy(struct pagerank *p)
{
    for (int r = 0; r < p->nranks; r++) {
        if (p->begin != NULL)
            free(p->begin[r]);
        if (p->source != NULL)
            free(p->source[r]);
    }
    free(p->first);
    free(p->begin);
    free(p->source);
    free(p->value);
    free(p->outward);
}

/* ---- the iteration ---- */

void pagerank_start(struct pagerank *p, double *block)
{
    for (size_t i = 0; i < p->pages; i++) {
        p->value[i] = 1.0 / p->options.pages;
        block[i] = p->value[i] / p->outward[i];
    }
    block[p->pages] = 1;
}

void pagerank_step(struct pagerank *p, const double *const *blocks, double *block)
{
    double damping = p->options.damping / 100.0, most = 0;

    memset(block, 0, p->pages * sizeof(*block));
    for (int r = 0; r < p->nranks; r++) {
        const uint32_t *begin = p->begin[r], *source = p->source[r];

        for (size_t i = 0; i < p->pages; i++)
            for (uint32_t k = begin[i]; k < begin[i + 1]; k++)
                block[i] += blocks[r][source[k]];
    }
    for (size_t i = 0; i < p->pages; i++) {
        double value = (1 - damping) / p->options.pages + damping * block[i];

        most = fmax(most, fabs(value - p->value[i]));
        p->value[i] = value;
        block[i] = value / p->outward[i];
    }
    block[p->pages] = most;
}

bool pagerank_over(const struct pagerank *p, const double *const *blocks)
{
    double most = 0;

    for (int r = 0; r < p->nranks; r++)
        most = fmax(most, blocks[r][pagerank_block(p, r) - 1]);
    return most < pow(10, -p->options.digits) / p->options.pages;
}

int pagerank_compare(const char *app, const struct pagerank *p, const double *all)
{
    size_t n = (size_t)p->options.pages;
    double *block[2] = {malloc((n + 1) * sizeof(double)), malloc((n + 1) * sizeof(double))};
    struct pagerank alone = {0};
    int status = 0, steps = 0;

    if (block[0] == NULL || block[1] == NULL || pagerank_create(&alone, &p->options, 0, 1) != 0) {
        fprintf(stderr, "%s: no memory to compare the ranks\n", app);
        status = 1;
    } else {
        const double *from = block[0];
        size_t i = 0;

        pagerank_start(&alone, block[0]);
        while (steps < p->options.steps && !pagerank_over(&alone, &from)) {
            pagerank_step(&alone, &from, block[++steps % 2]);
            from = block[steps % 2];
        }
        while (i < n && memcmp(&all[i], &alone.value[i], sizeof(double)) == 0)
            i++;
        if (i < n) {
            fprintf(stderr, "%s: WRONG: the rank of page %zu is %.17g; one process gets %.17g\n",
                    app, i, all[i], alone.value[i]);
            status = 1;
        } else if (!app_options.json) {
            printf("%s: right: the ranks of all %zu pages equal those of one process bit for bit\n",
                   app, n);
        }
    }
    pagerank_destroy(&alone);
    free(block[0]);
    free(block[1]);
    return status;
}
