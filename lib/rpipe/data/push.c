/* SPDX-License-Identifier: BSD-3-Clause */
/* push.c: when payloads are pushed, and how. */
#include "rpipe/data/push.h"

enum {
    PUSH_ROW = 8,   /* waits that are judged together, by the shortest of them */
    PUSH_GAP = 2,   /* messages from one wait to the next; more of them are a stream */
    PUSH_SHORT = 4, /* polls of some 50 ns that prove nothing */
    PUSH_POLL_BYTES =
        256 /* of payload for each poll above these: a message that is pushed takes 0.17 ns for a byte in a stream */
};

static void push_announce(struct ring_control *control, struct push_waits *waits, uint32_t below)
{
    waits->row = 0;
    if (waits->announced == below)
        return;
    waits->announced = below;
    atomic_store_explicit(&control->push_below, below, memory_order_relaxed); /* a hint */
}

void push_judge(struct ring_control *control, struct push_waits *waits, uint64_t number,
                uint64_t taken)
{
    uint32_t below;

    if (number - waits->number > PUSH_GAP || waits->polls < PUSH_SHORT) {
        push_announce(control, waits, 0);
    } else {
        if (waits->row == 0 || waits->polls < waits->least)
            waits->least = waits->polls < PUSH_WHOLE_WAIT ? waits->polls : PUSH_WHOLE_WAIT;
        if (++waits->row == PUSH_ROW) {
            below = (waits->least - PUSH_SHORT + 1) * PUSH_POLL_BYTES + 1;
            push_announce(control, waits, below < PUSH_MOST ? below : PUSH_MOST + 1);
        }
    }
    waits->number = number;
    waits->taken = taken;
    waits->polls = 0;
}

void push_lines(const char *payload, size_t bytes)
{
    const char *end = payload + (bytes < PUSH_MOST ? bytes : PUSH_MOST);

    for (; payload < end; payload += CACHE_LINE)
        cpu_push_line(payload);
}
