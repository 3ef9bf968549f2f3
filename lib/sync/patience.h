/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * patience.h: how long an adaptive wait yields before it sleeps, where every rank has a core.
 *
 * A sleep is expensive at both ends: the peer wakes the thread by a system call, and the thread runs again some 50 us later where a
 * hypervisor has to start its processor. Yields cost others little: they get the core. So a thread learns how long its waits are:
 *
 *   1. A thread yields for PATIENCE_LEAST at first.
 *   2. A wait that slept, and ended within PATIENCE_MOST of its beginning, slept too early: the next ones yield for twice its time.
 *   3. A wait that slept for longer shows that yields were useless: the time is halved.
 *   4. A wait that ended by its deadline, or that did not sleep, changes nothing.
 *
 * So what a long wait spends on yields is at most PATIENCE_MOST, and less with each long wait that follows.
 *
 * The structure belongs to one thread. The time is that of the caller: a test gives its own.
 */
#ifndef SYNC_PATIENCE_H
#define SYNC_PATIENCE_H

#include <stdint.h>

#define PATIENCE_LEAST INT64_C(200000) /* ns */
#define PATIENCE_MOST INT64_C(2000000)

/* Of a thread. All 0 in the beginning. */
struct patience {
    int64_t more; /* ns of yields beyond PATIENCE_LEAST */
};

static inline int64_t patience_ns(const struct patience *p) { return PATIENCE_LEAST + p->more; }

/* A wait has ended that slept on a wake word, `took` ns after its beginning. */
static inline void patience_slept(struct patience *p, int64_t took)
{
    int64_t ns = took <= PATIENCE_MOST ? 2 * took : patience_ns(p) / 2;

    if (took <= PATIENCE_MOST && ns < patience_ns(p))
        return;
    ns = ns < PATIENCE_MOST ? ns : PATIENCE_MOST;
    p->more = ns > PATIENCE_LEAST ? ns - PATIENCE_LEAST : 0;
}

#endif
