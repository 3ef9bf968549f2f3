/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.c: ram_barrier: a barrier in which handlers run (dissemination: log2(n) rounds, log2(n) links per rank).
 *
 * In round k a rank tells the one 2^k behind it that it has come so far, and waits to hear the same from the one 2^k before
 * it. Telling, and not asking: who has left the barrier may leave the context too, and what it has told is still read.
 * What it tells includes whether something has failed that it knows of; so all of the living come to an end, and most know.
 *
 * Nothing is ever sent to the rank that is waited for, so its death would not be noticed: after a while a link to it is
 * opened, for that alone.
 *
 * `heard` is of the barrier that this rank is in, or has left, and of the next one: nobody can be further.
 */
#include "am/am.h"

#include <errno.h>
#include <string.h>

#define PROBE_MS 50 /* of waiting, before a link is opened to see whether the peer lives */
#define GRACE_MS                                                                                   \
    100 /* after the peer is known to be gone: what it told before is still on its way */

int am_barrier_on_message(struct ram *am, uint64_t epoch, uint64_t round, uint64_t failed)
{
    if (round >= AM_ROUNDS || epoch > am->epoch + 1)
        return -EPROTO;
    if (epoch < am->epoch)
        return 0; /* we have given that one up */
    am->heard[epoch & 1][round] = true;
    if (failed != 0)
        am->heard_failed[epoch & 1] = true;
    return 0;
}

static int am_barrier_send_to_peer(struct ram *am, int peer, uint64_t round)
{
    const struct wire w = {WIRE_BARRIER, 0, 3, 0, 0, 0};
    const uint64_t args[3] = {am->epoch, round, am->heard_failed[am->epoch & 1]};

    return am_request_wait(am, peer, "ram_barrier", &w, args, NULL, NULL);
}

/* 0; -ETIMEDOUT; or why this peer will tell nothing. */
static int am_barrier_handle(struct ram *am, int peer, int round)
{
    const bool *heard = &am->heard[am->epoch & 1][round];
    int64_t begin = 0, gone = 0, now;
    struct am_out *out;
    int rc = 0, code = 0;

    for (;;) {
        (void)am_progress_some(am, INT32_MAX);
        if (*heard)
            return 0;
        now = am_now_ms();
        if (begin == 0)
            begin = now;
        if (gone != 0 && now - gone >= GRACE_MS)
            return am_fail(am, code, "ram_barrier: rank %d has died, or left, before it came here",
                           peer);
        if (am->timeout_ms >= 0 && now - begin >= am->timeout_ms)
            return am_fail(am, -ETIMEDOUT, "ram_barrier: rank %d has not come within %d ms", peer,
                           am->timeout_ms);
        if (gone == 0 && now - begin >= PROBE_MS) {
            rc = am_out_get(am, peer, "ram_barrier", &out);
            if (rc != 0 && rc != R_PENDING) {
                gone = now;
                code = rc == -EPIPE ? -ECONNRESET : rc;
            }
        }
        rc = am_pass_time(am);
        if (rc != 0)
            return rc;
    }
}

int ram_barrier(ram_t am)
{
    int rc, result, round = 0;

    if (!am_may_wait(am, "ram_barrier", &rc))
        return rc;
    result = ram_flush(am);
    if (result == -ETIMEDOUT)
        return result;
    am->epoch++;
    memset(am->heard[(am->epoch + 1) & 1], 0,
           sizeof(am->heard[0])); /* of the last; the next one needs the room */
    am->heard_failed[(am->epoch + 1) & 1] = false;
    for (int64_t distance = 1; distance < am->ranks; distance *= 2, round++) {
        if (result != 0)
            am->heard_failed[am->epoch & 1] = true;
        rc = am_barrier_send_to_peer(am, (int)((am->rank + distance) % am->ranks), (uint64_t)round);
        if (rc == 0)
            rc = am_barrier_handle(am, (int)((am->rank - distance + am->ranks) % am->ranks), round);
        else if (rc != -ETIMEDOUT)
            (void)am_barrier_handle(am, (int)((am->rank - distance + am->ranks) % am->ranks),
                                    round);
        if (rc == -ETIMEDOUT)
            return rc;
        result = result != 0 ? result : rc;
    }
    am_send_all_due(am); /* whoever waits for them may find us gone from the next poll on */
    if (result == 0 && am->heard_failed[am->epoch & 1])
        result = am_fail(am, -ECONNRESET,
                         "ram_barrier: another rank has met one that has died, or left");
    return result;
}
