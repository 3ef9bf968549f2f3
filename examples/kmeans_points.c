/* SPDX-License-Identifier: BSD-3-Clause */
/* kmeans_points.c: see kmeans_points.h. */
#include "kmeans_points.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- points ---- */

static double chance(uint64_t what, uint64_t i)
{
    return (double)(app_mix(app_mix(what + 1) + i) >> 11) * 0x1p-53;
}

/* Point i of all: near the middle of its group, which is larger the higher its number is. */
static void point_of(const struct kmeans_options *o, uint64_t i, double *point)
{
    uint64_t group = app_mix(i + 1) % (uint64_t)o->clusters;
    double wide = 0.12 + 0.16 * chance(0, group);

    for (int d = 0; d < o->dimensions; d++) {
        uint64_t axis = (uint64_t)d + 1;
        double middle = 0.1 + 0.8 * chance(axis, group), at = middle;

        for (uint64_t k = 0; k < 4; k++) /* the sum of some is nearly normally distributed */
            at += wide * (chance(100 * axis + k, i) - 0.5) / 2;
        at = at < 0 ? 0 : at > 1 - 0x1p-20 ? 1 - 0x1p-20 : at;
        point[d] = (double)(uint64_t)(at * 0x1p20) * 0x1p-20;
    }
}

int kmeans_create(struct kmeans *k, const struct kmeans_options *o, int rank, int nranks)
{
    size_t dimensions = (size_t)o->dimensions;

    *k = (struct kmeans){.options = *o};
    k->first = (size_t)o->points * (size_t)rank / (size_t)nranks;
    k->n = (size_t)o->points * ((size_t)rank + 1) / (size_t)nranks - k->first;
    k->point = malloc((k->n + 1) * dimensions * sizeof(double));
    k->nearest = malloc((k->n + 1) * sizeof(int));
    k->center = calloc(kmeans_coordinates(o), sizeof(double));
    k->best = calloc(kmeans_coordinates(o), sizeof(double));
    k->sum = calloc(kmeans_sums(o), sizeof(double));
    if (k->point == NULL || k->nearest == NULL || k->center == NULL || k->best == NULL ||
        k->sum == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < k->n; i++) {
        point_of(o, k->first + i, k->point + i * dimensions);
        k->nearest[i] = -1;
    }
    return 0;
}

void kmeans_destroy(struct kmeans *k)
{
    free(k->point);
    free(k->nearest);
    free(k->center);
    free(k->best);
    free(k->sum);
}

/* ---- a start ---- */

size_t kmeans_coordinates(const struct kmeans_options *o)
{
    return (size_t)o->clusters * (size_t)o->dimensions;
}

size_t kmeans_sums(const struct kmeans_options *o)
{
    return kmeans_coordinates(o) + (size_t)o->clusters + 1;
}

static double distance(const double *a, const double *b, int dimensions)
{
    double sum = 0;

    for (int d = 0; d < dimensions; d++)
        sum += (a[d] - b[d]) * (a[d] - b[d]);
    return sum;
}

void kmeans_choose(const struct kmeans_options *o, int start, double *center)
{
    enum { AMONG = 512 };
    uint64_t first = app_mix((uint64_t)start + 1);
    double point[64];

    for (int c = 0; c < o->clusters; c++) {
        double most = -1, *to = center + (size_t)c * (size_t)o->dimensions;
        uint64_t best = 0;

        for (uint64_t i = 0; i < (c == 0 ? 1 : AMONG); i++) {
            uint64_t number = (first + (uint64_t)c * AMONG + i) % (uint64_t)o->points;
            double nearest = 1e9, far;

            point_of(o, number, point);
            for (int b = 0; b < c; b++) {
                double to_b =
                    distance(point, center + (size_t)b * (size_t)o->dimensions, o->dimensions);

                nearest = to_b < nearest ? to_b : nearest;
            }
            far = nearest * chance(1000 + (uint64_t)start, number);
            if (far > most) {
                most = far;
                best = number;
            }
        }
        point_of(o, best, to);
    }
}

void kmeans_assign(struct kmeans *k, const double *center)
{
    int dimensions = k->options.dimensions;
    size_t wide = (size_t)dimensions;
    double *count = k->sum + kmeans_coordinates(&k->options), *moved = count + k->options.clusters;

    memset(k->sum, 0, kmeans_sums(&k->options) * sizeof(double));
    for (size_t i = 0; i < k->n; i++) {
        const double *point = k->point + i * wide;
        double least = distance(point, center, dimensions);
        int best = 0;

        for (int c = 1; c < k->options.clusters; c++) {
            double off = distance(point, center + (size_t)c * wide, dimensions);

            if (off < least) {
                least = off;
                best = c;
            }
        }
        *moved += k->nearest[i] != best;
        k->nearest[i] = best;
        count[best]++;
        for (size_t d = 0; d < wide; d++)
            k->sum[(size_t)best * wide + d] += point[d];
    }
}

bool kmeans_move(struct kmeans *k, const double *center, const double *all)
{
    const double *count = all + kmeans_coordinates(&k->options),
                 *moved = count + k->options.clusters;
    size_t wide = (size_t)k->options.dimensions;

    for (size_t i = 0; i < kmeans_coordinates(&k->options); i++)
        k->center[i] = count[i / wide] > 0 ? all[i] / count[i / wide] : center[i];
    return *moved > 0;
}

void kmeans_keep(struct kmeans *k, int start, const double *all)
{
    const double *count = all + kmeans_coordinates(&k->options);
    size_t wide = (size_t)k->options.dimensions;
    double score = 0; /* without the sum of the squares of all coordinates, which never changes */

    for (size_t i = 0; i < kmeans_coordinates(&k->options); i++)
        score -= count[i / wide] > 0 ? all[i] * all[i] / count[i / wide] : 0;
    if (start == 0 || score < k->score) {
        k->score = score;
        memcpy(k->best, k->center, kmeans_coordinates(&k->options) * sizeof(double));
    }
    for (size_t i = 0; i < k->n; i++)
        k->nearest[i] = -1;
}

/* ---- the result ---- */

int kmeans_compare(const char *app, const struct kmeans *k)
{
    struct kmeans alone;
    size_t bytes = kmeans_coordinates(&k->options) * sizeof(double);
    int status = 0, rc = kmeans_create(&alone, &k->options, 0, 1);

    for (int start = 0; start < k->options.starts && rc == 0; start++) {
        bool more = true;

        kmeans_choose(&k->options, start, alone.center);
        for (int step = 0; step < k->options.steps && more; step++) {
            kmeans_assign(&alone, alone.center);
            more = kmeans_move(&alone, alone.center, alone.sum);
        }
        kmeans_keep(&alone, start, alone.sum);
    }
    if (rc != 0 || memcmp(alone.best, k->best, bytes) != 0) {
        fprintf(stderr, "%s: WRONG: the centers are not those of one process\n", app);
        status = 1;
    } else if (!app_options.json) {
        printf("%s: right: all centers equal those of one process bit for bit\n", app);
    }
    kmeans_destroy(&alone);
    return status;
}

uint64_t kmeans_digest(const struct kmeans *k)
{
    return app_digest(0, k->best, kmeans_coordinates(&k->options));
}

static uint32_t colour_of(int cluster)
{
    static const uint32_t colours[] = {0xe55a35, 0x2f6fd0, 0xfbc84a, 0x59b36b, 0xbd3358, 0x3fb8c4,
                                       0xf78f1e, 0x8a63d2, 0xa6c842, 0xd977b5, 0x6f8fa8, 0xb5835a};

    return colours[(size_t)cluster % (sizeof(colours) / sizeof(colours[0]))];
}

int kmeans_draw(const struct kmeans *k, struct picture *p)
{
    const int side = 560, dimensions = k->options.dimensions, most = 100000;
    double point[64];

    if (picture_create(p, side, side, 0x10131a) != 0)
        return -ENOMEM;
    for (int i = 0; i < k->options.points && i < most; i++) {
        int best = 0;

        point_of(&k->options, (uint64_t)i, point);
        for (int c = 1; c < k->options.clusters; c++)
            if (distance(point, k->best + (size_t)c * (size_t)dimensions, dimensions) <
                distance(point, k->best + (size_t)best * (size_t)dimensions, dimensions))
                best = c;
        picture_mix(p, (int)(point[0] * side), (int)(point[1] * side), colour_of(best), 0.6);
    }
    for (int c = 0; c < k->options.clusters; c++) {
        const double *center = k->best + (size_t)c * (size_t)dimensions;

        for (int d = -6; d <= 6; d++) {
            picture_mix(p, (int)(center[0] * side) + d, (int)(center[1] * side), 0xffffff, 1);
            picture_mix(p, (int)(center[0] * side), (int)(center[1] * side) + d, 0xffffff, 1);
        }
    }
    return 0;
}
