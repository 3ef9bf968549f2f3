/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * out.h: how the protocol sends: the one function that it calls. A packet that cannot be sent is lost, which the protocol repairs.
 */
#ifndef CAST_NAK_OUT_H
#define CAST_NAK_OUT_H

#include "cast/nak/wire.h"

#include <stdint.h>

#define NAK_GROUP (-1)
#define NAK_ROOT (-2)
#define NAK_PROBE (-3) /* to the group, by the carrier that is measured */

struct nak_out {
    /* Sends a packet, complete but for `payload` (head->bytes), to NAK_GROUP, NAK_ROOT, NAK_PROBE, or this member. */
    void (*send)(void *arg, int to, const struct nak_head *head, const void *payload);
    void *arg;
};

/* A time that never comes. */
#define NAK_NEVER INT64_MAX

/* Times in ns. */
#define NAK_AGAIN_LEAST                                                                            \
    INT64_C(20000) /* no packet is sent to the same member again earlier, or within a round trip */
#define NAK_ASK_LEAST INT64_C(300000)    /* the root asks so long after the last progress, */
#define NAK_REPAIR_LEAST INT64_C(200000) /* a member repeats a NAK so long after it, */
#define NAK_TRIP_MOST INT64_C(2000000)   /* what counts as a round trip */
#define NAK_DELAY_MOST INT64_C(64000000) /* or up to this, as repetitions have no effect */

/*
 * The least of late times: a shorter one counts at once, longer ones by an eighth of it each. 0: none yet. At most NAK_TRIP_MOST: packets
 * pass no router, and what takes longer is a process without a processor, or a network that was interrupted; a root that took that
 * for its round trip would ignore requests for as long.
 */
static inline int64_t nak_least_time(int64_t least, int64_t took)
{
    if (took > NAK_TRIP_MOST)
        took = NAK_TRIP_MOST;
    if (least == 0 || took < least)
        return took > 0 ? took : 1;
    return least + least / 8 < took ? least + least / 8 + 1 : took;
}

#endif
