/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_parts.h: what the files of -t parts hand to each other; doc/model.md has the components.
 *
 *     perf_parts          the paths, and how a component is printed
 *     perf_parts_memory   through shared memory
 *     perf_parts_network  through a network: the calls of a pipe
 *     perf_parts_sockets  the same messages by plain sockets
 *
 * A component is the median of its samples, which are short: what another process does to a few of them does not
 * change it. The time of reading the clock is taken off.
 */
#ifndef TOOLS_PERF_PARTS_H
#define TOOLS_PERF_PARTS_H

#include "perf_message.h"

#define PARTS_SIZES 4
#define PARTS_SAMPLES 495 /* of a component, at most */
#define PARTS_WINDOW (1u << 20)
#define PARTS_SLOT 40u    /* bytes of a message that rides in its slot */
#define PARTS_WHOLE 8192u /* longer messages may arrive in parts through a network */

extern const size_t parts_size[PARTS_SIZES];

struct parts {
    const struct perf_options *o;
    int rank, rounds;
    double clock;
    rpipe_op_t op;
    double sample[PARTS_SAMPLES];
};

/* Rank 0: component `name` of messages of parts_size[size], or of all where size is negative. Sorts the samples. */
void parts_report(const struct parts *p, const char *name, int size, double *sample, int samples);
/* What a call, and a loop, have taken since *before, which becomes now. */
static inline double parts_lap(const struct parts *p, double *before)
{
    const double now = perf_now_ns(), took = now - *before - p->clock;

    *before = now;
    return took;
}

static inline void parts_must(int code, rch_t ch, const char *call)
{
    if (__builtin_expect(code != 0, 0))
        perf_fail(ch, call, code);
}

/* Both ranks. */
void parts_memory(struct parts *p);
void parts_network(struct parts *p);

/* ---- perf_parts_sockets.c: by both ranks, which are on one host ---- */

/* What messages of this many bytes take on plain connections. */
struct parts_bare {
    double post;       /* the call that sends one */
    double completion; /* the call that receives one that is there */
    double
        network; /* what is left of the time one way; negative: it arrives before the call of the sender returns */
    double stream; /* a message of a stream */
};
void parts_sockets_open(const struct parts *p);
void parts_sockets_close(void);
void parts_sockets_measure(const struct parts *p, size_t bytes, struct parts_bare *bare);
/* A request of 24 bytes, and so many back. */
double parts_sockets_fetch(const struct parts *p, size_t bytes);

#endif
