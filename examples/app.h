/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * app.h: what the applications and their MPI twins have in common: options, progress, a digest, and the line of results.
 *
 * A twin is the same program over MPI. So that the two can be laid side by side, each ends with one line of JSON (--json):
 * how long it took, how much of that was communication, and a digest of the result, which must be the same. Nothing here
 * knows of pipes or of MPI.
 */
#ifndef EXAMPLES_APP_H
#define EXAMPLES_APP_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum app_progress { APP_AUTO, APP_LIVE, APP_LINES, APP_NONE };

/* Options that every application takes: --quick, --json, --progress, --no-check; filled by app_argp, a child of its own parser. */
struct app_options {
    bool quick, json, check;
    enum app_progress progress;
};
extern struct app_options app_options;
extern const struct argp app_argp;

/* argp_parse() for all of them; -quick is as good as --quick. */
void app_parse(const struct argp *argp, int argc, char **argv);

/* A number of the command line, or a sentence and the end. */
long app_number(const char *text, long least, long most, const char *what, struct argp_state *state);
/* Which of the words, which a NULL ends; or a sentence and the end. */
int app_word(const char *text, const char *const *words, const char *what, struct argp_state *state);

double app_seconds(void);

/* Called by one process, at every step or now and then. AUTO: a line that changes on a terminal, else five lines. */
void app_progress_show(const char *app, const char *unit, uint64_t done, uint64_t all, double began);

/* A digest of 64-bit words, in order: begins with 0. */
uint64_t app_digest(uint64_t digest, const void *words, size_t count);
/* A bijection that spreads its argument over all bits; sums of it are a digest for which order does not matter. */
uint64_t app_mix(uint64_t x);

/* What a run was: `by` is the transport and how it was used ("rpipe put", "mpi send"). */
struct app_result {
    const char *app, *by;
    int ranks;
    double seconds;       /* of the whole, between two barriers */
    double communication; /* of it, the mean of all ranks; negative: not told apart */
    double work;          /* how much was done, in `unit` */
    const char *unit;
    uint64_t digest;
};
/* One line of JSON if that was asked for, else a sentence. */
void app_result_print(const struct app_result *r);

#endif
