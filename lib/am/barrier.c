/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.c: ram_barrier: a barrier in which handlers run (dissemination: log2(n) rounds, log2(n) links for each rank).
 *
 * In round k a rank sends a message to the rank 2^k behind it and waits for one of the rank 2^k before it. Messages are sent,
 * not requested: a rank that has left the barrier may leave its context, and what it has sent is still read. A message has
 * a flag for a failure of which its sender is aware; so the barrier ends at all living ranks, and most report the failure.
 *
 * No message goes to the rank that is waited for, so its death would not be noticed: after AM_PROBE_MS a link to it is opened
 * for this purpose alone.
 *
 * `arrived` is for the barrier that this rank is in, or has left last, and for the next one: no rank can be further.
 */
#include "am/connect.h"
#include "am/fail.h"
#include "am/progress.h"
#include "am/request.h"

#include <errno.h>
#include <string.h>

#define AM_PROBE_MS 50 /* of waiting, before a link is opened to find out whether the peer lives */
#define AM_GRACE_MS                                                                                \
    100 /* after the peer is known to be gone: its earlier messages may still arrive */

static int am_barrier_send(struct ram *am, int peer, uint64_t round)
{
    const struct wire w = {WIRE_BARRIER, 0, 3, 0, 0, 0};
    const uint64_t args[3] = {am->epoch, round, am->arrived_failed[am->epoch & 1]};

    return am_request_wait(am, peer, "ram_barrier", &w, args, NULL, NULL);
}

/* Waits for the message of a peer. 0; -ETIMEDOUT; or the reason why it will send none. */
static int am_barrier_wait(struct ram *am, int peer, int round)
{
    const bool *arrived = &am->arrived[am->epoch & 1][round];
    int64_t begin = 0, gone = 0, now;
    struct am_out *out;
    int rc = 0, code = 0;

    for (;;) {
        (void)am_progress_some(am, INT32_MAX);
        if (*arrived)
            return 0;
        now = am_now_ms();
        if (begin == 0)
            begin = now;
        if (gone != 0 && now - gone >= AM_GRACE_MS)
            return am_fail(
                code, "ram_barrier: rank %d has died or left before it entered the barrier", peer);
        if (am->timeout_ms >= 0 && now - begin >= am->timeout_ms)
            return am_fail(-ETIMEDOUT,
                           "ram_barrier: rank %d has not entered the barrier within %d ms", peer,
                           am->timeout_ms);
        if (gone == 0 && now - begin >= AM_PROBE_MS) {
            rc = am_out_get(am, peer, "ram_barrier", &out);
            if (rc != 0 && rc != R_PENDING) {
                gone = now;
                code = rc == -EPIPE ? -ECONNRESET : rc;
            }
        }
        rc = am_wait_readers(am);
        if (rc != 0)
            return am_fail_named("ram_barrier", rc);
    }
}

static int am_barrier_run(struct ram *am)
{
    int rc, result, round = 0;

    if (!am_may_wait(am, "ram_barrier", &rc))
        return rc;
    rc = am_check_job("ram_barrier");
    if (rc != 0)
        return rc;
    result = ram_flush(am);
    if (result == -ETIMEDOUT)
        return result;
    am->epoch++;
    /* the entries of the last barrier become those of the next */
    memset(am->arrived[(am->epoch + 1) & 1], 0, sizeof(am->arrived[0]));
    am->arrived_failed[(am->epoch + 1) & 1] = false;
    for (int64_t distance = 1; distance < am->ranks; distance *= 2, round++) {
        const int to = (int)((am->rank + distance) % am->ranks),
                  from = (int)((am->rank - distance + am->ranks) % am->ranks);

        if (result != 0)
            am->arrived_failed[am->epoch & 1] = true;
        rc = am_barrier_send(am, to, (uint64_t)round);
        if (rc == 0)
            rc = am_barrier_wait(am, from, round);
        else if (rc != -ETIMEDOUT)
            (void)am_barrier_wait(am, from, round);
        if (rc == -ETIMEDOUT)
            return rc;
        result = result != 0 ? result : rc;
    }
    am_send_all_due(
        am); /* the peers that wait for them may find this context closed from the next call on */
    if (result == 0 && am->arrived_failed[am->epoch & 1])
        result =
            am_fail(-ECONNRESET, "ram_barrier: another rank reports that a rank has died or left");
    return result;
}

int ram_barrier(ram_t am)
{
    int rc = 0;

    if (!am_enter(am, "ram_barrier", &rc))
        return rc;
    return am_leave(am, am_barrier_run(am));
}
