/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * app.h: what the applications and their MPI twins have in common: options, progress, a digest, and
 * the line of results.
 *
 * A twin is the same program over MPI. So that the two can be laid side by side, each ends with one
 * line of JSON (--json): how long it took, how much of that was communication, and a digest of the
 * result, which must be the same. Nothing here depends on pipes or on MPI.
 */
#ifndef EXAMPLES_APP_H
#define EXAMPLES_APP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum app_progress { APP_AUTO, APP_LIVE, APP_LINES, APP_NONE };

/* Options of every application: --quick, --json, --progress, --no-check. */
struct app_options {
    bool quick, json, check;
    int progress; /* enum app_progress */
};
extern struct app_options app_options;

/* An option: a number, one of several words, a text, or a flag. *place holds the default before parsing. */
struct app_option {
    const char *name;
    int key; /* short option, a letter */
    const char *argument, *help;
    uint32_t *number;
    uint32_t least, most;
    int *word; /* which of the words, which a NULL ends */
    const char *const *words;
    const char **text;
    bool (*valid)(const char *text); /* NULL: any will do */
    bool *flag;                      /* set if the option is given */
};
#define APP_NUMBER(name, key, place, least, most, help)                                            \
    {                                                                                              \
        name, key, "N", help, place, least, most, NULL, NULL, NULL, NULL, NULL                     \
    }
#define APP_INT(name, key, place, least, most, help) /* an int that is never negative */           \
    APP_NUMBER(name, key, (uint32_t *)(place), least, most, help)
#define APP_WORD(name, key, place, words, help)                                                    \
    {                                                                                              \
        name, key, "WORD", help, NULL, 0, 0, place, words, NULL, NULL, NULL                        \
    }
#define APP_TEXT(name, key, place, valid, argument, help)                                          \
    {                                                                                              \
        name, key, argument, help, NULL, 0, 0, NULL, NULL, place, valid, NULL                      \
    }
#define APP_FLAG(name, key, place, help)                                                           \
    {                                                                                              \
        name, key, NULL, help, NULL, 0, 0, NULL, NULL, NULL, NULL, place                           \
    }
#define APP_END                                                                                    \
    {                                                                                              \
        NULL, 0, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL                              \
    }

/*
 * Parses the command line; prints an error and ends the program
 * if it is wrong. -quick is --quick. `doc` is the text of --help.
 */
void app_parse(const char *doc, const struct app_option *options, int argc, char **argv);

double app_seconds(void);

/*
 * Called by one process, at every step or now and then.
 * AUTO: a line that changes on a terminal, else five lines.
 */
void app_progress_show(const char *app, const char *unit, uint64_t done, uint64_t all,
                       double began);

/* A digest of 64-bit words, in order: begins with 0. */
uint64_t app_digest(uint64_t digest, const void *words, size_t count);
/*
 * A bijection that spreads its argument over all bits; sums
 * of it are a digest for which order does not matter.
 */
uint64_t app_mix(uint64_t x);

/*
 * What a process spends on a step beyond computing, step by step.
 *
 * A process may wait because another one computes longer, or has lost its processor: this is not
 * communication, and on a busy machine it is most of the time. In each step, the last process does
 * not wait for another one. Therefore communication is the least time that any process spent in a
 * step, summed over all steps; the rest is waiting.
 */
#define APP_LAPS_MOST 65536 /* beyond, several steps share a lap */
struct app_laps {
    float *beyond; /* seconds, by step */
    uint64_t room, count;
    double sum;
};
int app_laps_begin(struct app_laps *laps, uint64_t steps); /* 0 or -ENOMEM */
void app_laps_add(struct app_laps *laps,
                  double beyond); /* the next step has taken so long beyond computing, seconds */

/* What a run was: `by` is the transport and how it was used ("rpipe put", "mpi send"). */
struct app_result {
    const char *app, *by;
    int ranks;
    double seconds;       /* of the whole, between two barriers */
    double communication; /* part of seconds; negative: not measured separately */
    double waiting;       /* the rest beyond computing, mean of all ranks */
    double work;          /* how much was done, in `unit` */
    const char *unit;
    uint64_t digest;
};
/* Prints one line: JSON with --json, else text. */
void app_result_print(const struct app_result *r);

#endif
