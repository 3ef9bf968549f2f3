/* SPDX-License-Identifier: BSD-3-Clause */
/* events.c: see events.h. */
#include "tools/sim/events.h"

#include <errno.h>
#include <stdlib.h>

static bool events_before(const struct event *a, const struct event *b)
{
    return a->time != b->time ? a->time < b->time : a->sequence < b->sequence;
}

int events_add(struct events *e, uint64_t time, uint32_t kind, uint32_t at, uint32_t what)
{
    struct event added = {
        .time = time, .sequence = e->sequence++, .kind = kind, .at = at, .what = what};
    uint32_t i = e->count;

    if (e->count == e->allocated) {
        uint32_t next = e->allocated == 0 ? 1024 : e->allocated * 2;
        struct event *larger = realloc(e->event, next * sizeof(*larger));

        if (larger == NULL)
            return -ENOMEM;
        e->event = larger;
        e->allocated = next;
    }
    for (e->count++; i > 0 && events_before(&added, &e->event[(i - 1) / 2]); i = (i - 1) / 2)
        e->event[i] = e->event[(i - 1) / 2];
    e->event[i] = added;
    return 0;
}

bool events_next(struct events *e, struct event *next)
{
    struct event moved;
    uint32_t i = 0;

    if (e->count == 0)
        return false;
    *next = e->event[0];
    moved = e->event[--e->count];
    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child >= e->count)
            break;
        if (child + 1 < e->count && events_before(&e->event[child + 1], &e->event[child]))
            child++;
        if (!events_before(&e->event[child], &moved))
            break;
        e->event[i] = e->event[child];
        i = child;
    }
    e->event[i] = moved;
    return true;
}

void events_free(struct events *e)
{
    free(e->event);
    *e = (struct events){0};
}
