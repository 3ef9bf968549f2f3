/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * by_hand.h: what a benchmark needs to exchange bytes between the processes of a job by hand, without a library: memory that all have
 * mapped, and lines in it.
 *
 * Each process has DEPTH lines, used in turn, which it writes and all others read: the number of an operation, and 8 bytes. The memory
 * is a file of /dev/shm that is named by the job of mpirun. A process that waits yields where processes share processors.
 */
#ifndef BENCH_BY_HAND_H
#define BENCH_BY_HAND_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define BY_HAND_LINE 64
#define BY_HAND_DEPTH 8

struct by_hand_line {
    alignas(BY_HAND_LINE) _Atomic unsigned long number;
    double value;
};

struct by_hand {
    const char *program;
    int rank, ranks;
    bool crowded; /* more processes than processors */
    unsigned long number;
    struct by_hand_line *lines;
    char *memory; /* of the benchmark, zeros, behind the lines */
    char name[200];
};

/* Finds out which process this is. False: mpirun has not started it, which is printed. */
bool by_hand_begin(struct by_hand *job, const char *program);
/* Maps the lines and so many bytes more; collective. False: the error is printed. */
bool by_hand_map(struct by_hand *job, size_t bytes);
/* Ends this process; mpirun ends the others. */
void by_hand_abort(const struct by_hand *job, int status);

void by_hand_put(const struct by_hand *job, double value);
double by_hand_get(const struct by_hand *job, int rank);
/* The sum of all values, or the largest one: an operation of its own, and a barrier. */
double by_hand_fold(struct by_hand *job, double mine, bool largest);

#endif
