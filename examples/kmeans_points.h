/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kmeans_points.h: points in groups, and k-means over a part of them: everything but the
 * communication.
 *
 * The points follow from a seed, and are dealt out by number. Coordinates are multiples of 2^-20
 * below 1. Therefore sums of them are exact in double precision, in any order, and the result does
 * not depend on the number of processes.
 */
#ifndef EXAMPLES_KMEANS_POINTS_H
#define EXAMPLES_KMEANS_POINTS_H

#include <stdbool.h>
#include <stddef.h>

#include "app.h"
#include "picture.h"

struct kmeans_options {
    int points, clusters, dimensions, starts, steps;
};
#define KMEANS_OPTIONS_DEFAULT                                                                     \
    {                                                                                              \
        200000, 12, 2, 4, 100                                                                      \
    }
#define KMEANS_OPTIONS_QUICK                                                                       \
    {                                                                                              \
        3000, 5, 2, 3, 20                                                                          \
    }
#define KMEANS_OPTION_TABLE(o)                                                                     \
    APP_INT("points", 'n', &(o).points, 1, 1000000000, "Points"),                                  \
        APP_INT("clusters", 'k', &(o).clusters, 1, 4096, "Clusters"),                              \
        APP_INT("dimensions", 'd', &(o).dimensions, 2, 64, "Coordinates of a point"),              \
        APP_INT("starts", 's', &(o).starts, 1, 100000, "Starts, of which the best counts"),        \
        APP_INT("steps", 't', &(o).steps, 1, 100000, "Steps of a start at most")

struct kmeans {
    struct kmeans_options options;
    size_t first, n;      /* the points of this process */
    double *point;        /* their coordinates */
    int *nearest;         /* and clusters */
    double *center, *sum; /* sum: what this process contributes to a step */
    double *best, score;  /* centers of the best start, and the sum of squares: less is better */
};
int kmeans_create(struct kmeans *k, const struct kmeans_options *o, int rank, int nranks);
void kmeans_destroy(struct kmeans *k);

size_t kmeans_coordinates(const struct kmeans_options *o); /* of all centers */
/* Of a step: for each cluster, coordinates and number of points; and how many points have moved. */
size_t kmeans_sums(const struct kmeans_options *o);

/* The centers with which a start begins: points far from each other (k-means++). */
void kmeans_choose(const struct kmeans_options *o, int start, double *center);
/* Assigns each point to the nearest center, and fills in k->sum. */
void kmeans_assign(struct kmeans *k, const double *center);
/* New centers from the sums of all processes; false: no point has moved, and the start is over. */
bool kmeans_move(struct kmeans *k, const double *center, const double *all);
/* At the end of a start: keeps the centers if they are the best. */
void kmeans_keep(struct kmeans *k, int start, const double *all);

/* 0; or 1, after printing that the centers are not those of one process. */
int kmeans_compare(const char *app, const struct kmeans *k);
uint64_t kmeans_digest(const struct kmeans *k);
int kmeans_draw(const struct kmeans *k, struct picture *p); /* the first two coordinates */

#endif
