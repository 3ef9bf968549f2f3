/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * yield_policy.h: does an adaptive wait yield before it sleeps?
 *
 * A yield gives the core to the rank that is awaited, which takes microseconds. If another program gets the core it keeps it for a time
 * slice, and the thread that has yielded waits behind it; a thread that sleeps is woken before it. One such yield is chance: the
 * scheduler balances, a daemon runs. Several in a row are a core that another program uses all the time. The rule:
 *
 *   1. A yield that took longer than a limit is expensive.
 *   2. Expensive yields are in a row until a wait has yielded and none of its yields was expensive.
 *   3. After YIELD_ROW of them the next wait that comes to a yield does not yield: it sleeps at once. The one after it yields.
 *   4. If that one has an expensive yield too, the next 2 waits sleep at once, then 4, and so on, at most YIELD_PAUSE_MOST.
 *   5. A wait that has yielded without an expensive yield ends the row: all is as in the beginning.
 *
 * A wait that ends before its first yield changes nothing: it shows nothing about the core.
 *
 * The structures belong to one thread. The time is that of the caller: a test gives its own.
 */
#ifndef SYNC_YIELD_POLICY_H
#define SYNC_YIELD_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#define YIELD_ROW 3u
/* One yield in so many waits, which last 50 us at least where each sleeps, costs a time slice of some ms: at most 10 %. */
#define YIELD_PAUSE_MOST 1024u

/* Of a thread. All 0 in the beginning. */
struct yield_policy {
    uint32_t row; /* expensive yields in a row, at most YIELD_ROW */
    uint32_t
        pause; /* waits that slept at once after the last expensive yield; 0: the row is not complete */
    uint32_t left; /* and how many of them are still to come */
};

/* Of a wait. All 0 at its beginning. */
struct yield_count {
    uint32_t all, expensive;
};

/* A wait comes to its first yield. False: it sleeps at once. Once in each wait. */
bool yield_policy_permits(struct yield_policy *policy);
/* A wait has ended that had these yields. */
void yield_policy_wait_ended(struct yield_policy *policy, const struct yield_count *count);

/* A yield from `before` to `after`, ns; expensive if it took longer than `limit`. */
static inline void yield_count_add(struct yield_count *count, int64_t before, int64_t after,
                                   int64_t limit)
{
    count->all++;
    count->expensive += after - before > limit;
}

#endif
