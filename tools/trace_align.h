/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_align.h: which clock the times of a trace are of, and by how much they are moved so that all are of one.
 */
#ifndef TOOLS_TRACE_ALIGN_H
#define TOOLS_TRACE_ALIGN_H

#include <stdbool.h>
#include <stddef.h>

#define TIME_MOST (1LL << 61) /* ns, either side of 0: sums of two do not overflow */

/* How far rank 0's clock was ahead of that of the process when that one said `at`. */
struct sample {
    long long at, ahead, error;
};

/* What the first line of a file says. */
struct trace_head {
    bool usable;
    int rank;
    char host[64], clock[64];
    long long real; /* CLOCK_REALTIME ahead of the clock of the trace */
    int samples;    /* 0 to 2 */
    struct sample sample[2];
};

enum way { LEFT_ALONE, MEASURED, REAL_TIME };

struct alignment {
    enum way way;
    long long ahead,
        error; /* to be added, when the clock says `at`; within this; -1: nobody knows */
    long long at;
    double slope; /* and so much more with each ns */
};

const char *text_behind(const char *line, const char *key); /* NULL: it is not there */
bool trace_head_parse(const char *line, struct trace_head *head);

/* One for each head. Files of one clock are moved alike. `left`: nothing is. */
void trace_align(const struct trace_head *head, struct alignment *a, int n, bool left);
long long alignment_moves(const struct alignment *a, long long ns);
bool alignment_is_nothing(const struct alignment *a); /* it is that clock */
const char *alignment_way(enum way way);
void alignment_text(const struct alignment *a, char *text, size_t bytes);

#endif
