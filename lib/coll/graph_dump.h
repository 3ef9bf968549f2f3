/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graph_dump.h: graphs as text: for people, for programs, as a picture, and as a schedule of LogGOPSim.
 *
 *     text  one row for each operation, with what it waits for
 *     JSON  an array of graphs
 *     dot   one box for each member; messages are arrows between boxes
 *     GOAL  as LogGOPSim's txt2bin reads it. Folds and copies are computation of 1 ns for 8 bytes,
 *           a message has at least 1 byte, and its slot is its tag
 *
 * dot and GOAL are of all members: n is the size of the team.
 */
#ifndef COLL_GRAPH_DUMP_H
#define COLL_GRAPH_DUMP_H

#include "coll/graph.h"

#include <stdio.h>

enum graph_format { GRAPH_TEXT, GRAPH_JSON, GRAPH_DOT, GRAPH_GOAL };
#define GRAPH_FORMATS 4

/* The graphs of n members, in the order of members, to a stream. 0; -EINVAL; -EIO. */
int graph_dump(FILE *to, enum graph_format format, const struct graph *graphs, int n);
/* The format of a name: "text", "json", "dot", "goal". False: there is none. */
bool graph_format_of(const char *name, enum graph_format *format);

#endif
