/* SPDX-License-Identifier: BSD-3-Clause */
/* options.h: what rcoll_sim is to simulate, and what it is to print. */
#ifndef TOOLS_SIM_OPTIONS_H
#define TOOLS_SIM_OPTIONS_H

#include "coll/choose.h"
#include "coll/graph_dump.h"
#include "tools/sim/sim.h"

struct options {
    enum coll_kind kind;
    int members, per_host, cores; /* cores 0: one for each member of a host */
    bool cyclic;                  /* members are on hosts in turn */
    bool fetches;                 /* of struct shape */
    size_t bytes;                 /* lengths: of the longest block */
    bool lengths;                 /* of blocks are drawn, from `least` bytes on */
    size_t least;
    int root;
    enum coll_order order;
    bool in_place;
    const char *algorithm; /* NULL: the one with the lowest cost */
    struct sim_options sim;
    bool explain, compare, scale, json;
    bool dumps;
    enum graph_format format;
};

/* Ends the program where they are wrong. */
void options_parse(struct options *o, int argc, char **argv);

#endif
