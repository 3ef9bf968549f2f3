/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region_read.c: rread_into: the next message into a region (region.h, doc/regions.md).
 *
 * On a GET pipe over a network the payload is fetched to where it is requested, unless it has been fetched ahead already; everywhere
 * else it is in the heap and is copied; so it is where the heap or the region is memory of a device. Either way its block goes back to the writer at once. A fetch in flight when the call returns
 * without a message goes on and holds the region; the next read waits for it, and copies the payload if it requests it elsewhere.
 */
#include "rpipe/region/region_read.h"

#include "rpipe/data/attempt.h"
#include "rpipe/end/device.h"
#include "rpipe/end/path.h"
#include "rpipe/data/violation.h"

#include "observe/record/trace.h"
#include "util/failpoint.h"

#include <errno.h>
#include <string.h>

struct into_arguments {
    struct read_arguments read;
    struct placement place;
    size_t size;
    uint64_t tag;
    struct awaited awaited;
};

static int region_read_take(struct rch *ch, struct into_arguments *a)
{
    struct rdesc *d = a->read.d;
    int rc = 0;

    if (d->size > a->place.room) { /* it had another size when it was peeked at */
        size_t size = d->size;

        read_release(ch, d);
        return violation_of_message(ch, "has changed its size while it was received", "bytes", size,
                                    "limit", a->place.room);
    }
    RPIPE_FAILPOINT("rread_into: before the copy");
    if (!ch->path->placed(ch))
        rc =
            device_extract(ch, d, a->place.region->memory, a->place.region->base + a->place.offset);
    a->size = d->size;
    a->tag = d->header;
    RPIPE_FAILPOINT("rread_into: before the message is freed");
    read_release(ch, d);
    return rc;
}

static bool region_read_is_joined(const struct rch *ch)
{
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */

    return (state & (STATE_JOINED | STATE_FAILED)) == STATE_JOINED;
}

static int region_read_into_attempt(struct rch *ch, void *arguments)
{
    struct into_arguments *a = arguments;
    bool was_joined = region_read_is_joined(ch);
    size_t size = 0;
    int rc = 0;

    ch->path->want(ch, a->place.memory != NULL ? &a->place : NULL);
    a->read.extracts = true;
    a->read.peeked = was_joined && ch->path->next_size(ch, &size);
    if (a->read.peeked && size > a->place.room)
        rc = call_error(ch, -EMSGSIZE,
                        "the next message has %zu bytes and the region has %zu; it is still the "
                        "next one: use rread, or a larger part of the region",
                        size, a->place.room);
    if (rc == 0)
        rc = read_attempt(ch, &a->read);
    if (rc == 0)
        rc = region_read_take(ch, a);
    ch->path->want(ch, NULL);
    if (rc == R_PENDING && !was_joined && region_read_is_joined(ch))
        return region_read_into_attempt(ch, arguments); /* a message has waited for the join */
    return rc;
}

/* Registers the region if the path fetches into it. */
static int region_read_begin_attempt(struct rch *ch, void *arguments)
{
    struct into_arguments *a = arguments;
    struct rregion *r = a->place.region;

    return region_is_copied(ch, r) ? device_check_extract(ch, r->memory)
                                   : registration_memory(ch, r, &a->place.memory);
}

static int region_read_message(struct rch *ch, struct into_arguments *a, bool wait)
{
    int rc = call_once(ch, region_read_begin_attempt, a);
    uint32_t row;

    if (rc != 0)
        return rc;
    row = trace_begin(ch, TRACE_READ);
    rc = wait ? call_await(ch, &a->awaited, region_read_into_attempt, a)
              : call_once(ch, region_read_into_attempt, a);
    trace_end(row, a->read.number, a->size, rc);
    return rc;
}

int rpipe_read_into(rch_t ch, rregion_t region, size_t offset, size_t room, size_t *size,
                    uint64_t *tag, int flags)
{
    struct into_arguments a = {.place = {region, NULL, offset, room}, .awaited = {"message", 0}};
    struct call call;
    int rc = call_begin(&call, "rread_into", ch, SIDE_READER);

    if (rc == 0)
        rc = call_check_flags(ch, flags);
    if (rc == 0)
        rc = region_check(ch, region, offset, room);
    if (rc == 0)
        rc = region_read_message(ch, &a, (flags & R_NOWAIT) == 0);
    if (rc == 0 && size != NULL)
        *size = a.size;
    if (rc == 0 && tag != NULL)
        *tag = a.tag;
    return call_end(&call, rc);
}

/* ---- rclose ---- */

int region_settle_placements(struct rch *ch, struct awaited *awaited)
{
    awaited->what = "end of a transfer into the program's memory (the pipe is still open)";
    return ch->path->placements_drain(ch);
}
