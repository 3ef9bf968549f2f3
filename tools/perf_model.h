/* SPDX-License-Identifier: BSD-3-Clause */
/* perf_model.h: what the parts of -t model share: on a host (perf_model.c), and between hosts (perf_model_network.c). */
#ifndef TOOLS_PERF_MODEL_H
#define TOOLS_PERF_MODEL_H

#include "perf.h"

#define PERF_MODEL_ROUNDS 99 /* most rounds of which the median is taken */

#define PERF_MODEL_BLOCK 65536 /* bytes that are copied and folded, and of a long message */

/* The middle one of n samples, which it sorts. */
double perf_model_middle(double *sample, int n);
double perf_model_median(int rounds, double (*round)(void));
/* A block, of doubles: copied, or added. */
void perf_model_move(double *into, const double *from, bool fold);
/* The parameters between hosts, appended to a text. Returns their length, as snprintf does. */
int perf_model_network(const struct perf_options *o, int rank, int rounds, char *text,
                       size_t bytes);

#endif
