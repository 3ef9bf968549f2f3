/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region_read.c: rread_into: the next message into a region (region.h, doc/regions.md).
 *
 * On a GET pipe over a network it is fetched to where it is wanted, unless it has been fetched ahead already; everywhere else it lies in
 * the heap, and is copied. Either way its block goes back to the writer at once. A fetch that is under way when the call returns
 * without a message goes on, and holds the region; whatever reads next waits for it, and copies where it wants it elsewhere.
 */
#include "rpipe/data/attempt.h"
#include "rpipe/data/path_remote.h"

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

static int region_read_too_large(struct rch *ch, const struct into_arguments *a, size_t size)
{
    return end_error(ch, -EMSGSIZE,
                     "%s: the next message has %zu bytes, and there is room for %zu: read it with "
                     "rread, or with more room",
                     a->read.call, size, a->place.room);
}

static int region_read_take(struct rch *ch, struct into_arguments *a)
{
    struct rdesc *d = a->read.d;

    if (d->size > a->place.room) { /* it had another size a moment ago */
        size_t size = d->size;

        read_release(ch, d);
        return read_violation(ch, "has changed its size (bytes, room)", size, a->place.room);
    }
    RPIPE_FAILPOINT("rread_into: before the copy");
    if (d->size > 0 && (ch->remote == NULL || !ch->remote->placed))
        memcpy(a->place.region->base + a->place.offset, d->mem, d->size);
    a->size = d->size;
    a->tag = d->header;
    RPIPE_FAILPOINT("rread_into: before the message is freed");
    read_release(ch, d);
    return 0;
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

    if (ch->remote != NULL) {
        ch->remote->placed = false;
        if (a->place.memory != NULL)
            ch->remote->want = a->place;
    }
    a->read.unseen = !was_joined || !read_next_size(ch, &size);
    if (!a->read.unseen && size > a->place.room)
        rc = region_read_too_large(ch, a, size);
    if (rc == 0)
        rc = read_attempt(ch, &a->read);
    if (ch->remote != NULL)
        ch->remote->want.region = NULL;
    if (rc == R_PENDING && !was_joined && region_read_is_joined(ch))
        return region_read_into_attempt(ch, arguments); /* a message has waited for that */
    return rc == 0 ? region_read_take(ch, a) : rc;
}

/* What the place needs of the network. */
static int region_read_begin_attempt(struct rch *ch, void *arguments)
{
    struct into_arguments *a = arguments;

    if (ch->remote == NULL || ch->cfg.op != OP_GET)
        return 0;
    return region_memory(ch, a->read.call, a->place.region, &a->place.memory);
}

static int region_read_read_into(rch_t ch, const char *call, rregion_t region, size_t offset,
                                 size_t room, size_t *size, uint64_t *tag, bool wait)
{
    struct into_arguments a = {.read = {call, NULL, 0, false, false, 0},
                               .place = {region, NULL, offset, room},
                               .awaited = {"message", 0}};
    int rc = end_check_call(ch, call, SIDE_READER);
    uint32_t row;

    if (rc == 0)
        rc = region_check(ch, call, region, offset, room);
    if (rc == 0)
        rc = call_once(ch, region_read_begin_attempt, &a);
    if (rc != 0)
        return rc;
    row = trace_begin(ch, TRACE_READ);
    rc = wait ? call_wait(ch, call, &a.awaited, region_read_into_attempt, &a)
              : call_once(ch, region_read_into_attempt, &a);
    trace_end(row, a.read.number, a.size, rc);
    if (rc == 0 && size != NULL)
        *size = a.size;
    if (rc == 0 && tag != NULL)
        *tag = a.tag;
    return rc;
}

int rpipe_read_into(rch_t ch, rregion_t region, size_t offset, size_t room, size_t *size,
                    uint64_t *tag, int flags)
{
    struct call call;
    int rc = call_begin(&call, "rread_into", ch, SIDE_READER);

    if (rc == 0)
        rc = call_check_flags(ch, flags);
    if (rc == 0)
        rc = region_read_read_into(ch, "rread_into", region, offset, room, size, tag,
                                   (flags & R_NOWAIT) == 0);
    return call_end(&call, rc);
}

/* ---- rclose ---- */

static int region_read_placements_attempt(struct rch *ch, void *arguments)
{
    (void)arguments;
    return remote_placements_drain(ch);
}

int region_wait_placements(struct rch *ch, const char *call)
{
    static const struct awaited awaited = {
        "end of a transfer into the program's memory (the channel is still open)", 0};

    return call_wait(ch, call, &awaited, region_read_placements_attempt, NULL);
}
