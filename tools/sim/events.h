/* SPDX-License-Identifier: BSD-3-Clause */
/* events.h: what is going to happen in a simulation, in the order of time; of equal times, as it was added. */
#ifndef TOOLS_SIM_EVENTS_H
#define TOOLS_SIM_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct event {
    uint64_t time; /* in picoseconds */
    uint32_t sequence;
    uint32_t kind;     /* a number of the simulation */
    uint32_t at, what; /* so are these */
};

struct events {
    struct event *event; /* a binary heap */
    uint32_t count, allocated, sequence;
};

/* 0 or -ENOMEM. */
int events_add(struct events *e, uint64_t time, uint32_t kind, uint32_t at, uint32_t what);
/* The next one, which is removed. False: there is none. */
bool events_next(struct events *e, struct event *next);
void events_free(struct events *e);

#endif
