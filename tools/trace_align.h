/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_align.h: converts the times of several traces to one clock.
 */
#ifndef TOOLS_TRACE_ALIGN_H
#define TOOLS_TRACE_ALIGN_H

#include <stdbool.h>
#include <stddef.h>

#define TIME_MOST (1LL << 61) /* ns, either side of 0: sums of two do not overflow */

/* At time `at` of this clock, the clock of rank 0 was `ahead` of it, within `error`; all in ns. */
struct sample {
    long long at, ahead, error;
};

/* The first line of a file. */
struct trace_head {
    bool usable;
    int rank;
    char host[64], clock[64];
    long long real; /* CLOCK_REALTIME minus the clock of the trace, ns */
    int samples;    /* 0 to 2 */
    struct sample sample[2];
};

enum way { UNALIGNED, MEASURED, REAL_TIME };

struct alignment {
    enum way way;
    long long ahead; /* ns to add at time `at` */
    long long error; /* of `ahead`, ns; -1: unknown */
    long long at;
    double slope; /* ns to add for each further ns: drift */
};

const char *text_after(const char *line, const char *key); /* NULL: the key is not in the line */
bool trace_head_parse(const char *line, struct trace_head *head);

/*
 * One alignment for each head. Files with the same clock
 * get the same. unaligned: no time is converted.
 */
void trace_align(const struct trace_head *head, struct alignment *a, int n, bool unaligned);
long long alignment_moves(const struct alignment *a, long long ns);
bool alignment_is_identity(const struct alignment *a); /* the clock is the common one */
const char *alignment_way(enum way way);
void alignment_text(const struct alignment *a, char *text, size_t bytes);

#endif
