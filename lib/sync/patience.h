/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * patience.h: how long an adaptive wait yields before it sleeps, where every rank has a core.
 *
 * A sleep is expensive at both ends: the peer wakes the thread by a system call, and the thread runs again some 50 us later where a
 * hypervisor has to start its processor. Yields cost others little: they get the core. So a thread learns how long its waits are:
 *
 *   1. A thread yields for PATIENCE_LEAST at first.
 *   2. A wait that slept, and ended within PATIENCE_MOST of its beginning, slept too early: the next ones yield for PATIENCE_MOST.
 *   3. A wait that slept for longer shows that yields were useless: the time comes an eighth nearer to PATIENCE_LEAST. A single one
 *      changes little: a peer that has lost its core for a time slice comes back.
 *   4. A wait that ended by its deadline, or that did not sleep, changes nothing.
 *
 * So a long wait spends at most PATIENCE_MOST on yields, and a row of long waits some 80 ms more than PATIENCE_LEAST each.
 *
 * PATIENCE_MOST is longer than what the steps of most programs differ by. Molecular dynamics whose steps take 12 ms waits 1.3 ms on average, at times
 * more than 2 ms; with that limit it slept in some steps, and communicated for nearly twice as long.
 *
 * The structure belongs to one thread. The time is that of the caller: a test gives its own.
 */
#ifndef SYNC_PATIENCE_H
#define SYNC_PATIENCE_H

#include <stdint.h>

#define PATIENCE_LEAST INT64_C(200000) /* ns */
#define PATIENCE_MOST INT64_C(10000000)

/* Of a thread. All 0 in the beginning. */
struct patience {
    int64_t more; /* ns of yields beyond PATIENCE_LEAST */
};

static inline int64_t patience_ns(const struct patience *p) { return PATIENCE_LEAST + p->more; }

/* A wait has ended that slept on a wake word, `took` ns after its beginning. */
static inline void patience_slept(struct patience *p, int64_t took)
{
    if (took <= PATIENCE_MOST)
        p->more = PATIENCE_MOST - PATIENCE_LEAST;
    else
        p->more -= (p->more + 7) / 8;
}

#endif
