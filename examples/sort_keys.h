/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sort_keys.h: keys, and what a process does to its own in a sample sort: everything but the
 * communication.
 *
 * Small keys are more frequent than large ones, so that the borders between processes have to be
 * found by samples.
 */
#ifndef EXAMPLES_SORT_KEYS_H
#define EXAMPLES_SORT_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "app.h"

struct sort_options {
    int keys, samples, rounds;
};
#define SORT_OPTIONS_DEFAULT                                                                       \
    {                                                                                              \
        2000000, 64, 3                                                                             \
    }
#define SORT_OPTIONS_QUICK                                                                         \
    {                                                                                              \
        5000, 16, 2                                                                                \
    }
#define SORT_OPTION_TABLE(o)                                                                       \
    APP_INT("keys", 'n', &(o).keys, 1, 1000000000, "Keys of all processes"),                       \
        APP_INT("samples", 's', &(o).samples, 1, 4096, "Samples of each process"),                 \
        APP_INT("rounds", 'r', &(o).rounds, 1, 100000, "How often other keys are sorted")

/* The first key of a process; of `nranks`: behind the last one. */
static inline size_t sort_first(const struct sort_options *o, int rank, int nranks)
{
    return (size_t)o->keys * (size_t)rank / (size_t)nranks;
}
void sort_generate(int round, size_t first, uint64_t *keys, size_t n);
/* Sorts keys; `other` has space for n, too. */
void sort_local(uint64_t *keys, uint64_t *other, size_t n);
/* Samples at even distances of sorted keys; the largest key, where there are no keys. */
void sort_sample(const uint64_t *keys, size_t n, uint64_t *sample, int samples);
/* How many of the sorted keys go to each of nranks processes, by the samples of all, which are sorted here. */
void sort_cut(const uint64_t *keys, size_t n, uint64_t *sample, int samples, int nranks,
              size_t *counts);
/* Merges sorted runs that follow each other; returns which of the two buffers has the result. */
uint64_t *sort_merge(uint64_t *keys, uint64_t *other, const size_t *counts, int runs);

/* A sum that depends on which keys there are; and one that depends on their positions too. */
uint64_t sort_sum(const uint64_t *keys, size_t n);
uint64_t sort_digest(const uint64_t *keys, size_t n, size_t position);
/* Whether keys are in order. */
bool sort_right(const uint64_t *keys, size_t n);
/*
 * Compares the keys of the last round, all of them, with those that one process sorts, by qsort. 0;
 * or 1, after printing that one differs.
 */
int sort_compare(const char *app, const struct sort_options *o, const uint64_t *sorted);

#endif
