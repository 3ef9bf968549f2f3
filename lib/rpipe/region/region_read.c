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
    struct landing place;
    size_t size;
    uint64_t tag;
    struct awaited awaited;
};

static int too_large(struct rch *ch, const struct into_arguments *a, size_t size)
{
    return fail(ch, -EMSGSIZE,
                "%s: the next message has %zu bytes, and there is room for %zu: read it with rread, or with more room",
                a->read.call, size, a->place.room);
}

static int take(struct rch *ch, struct into_arguments *a)
{
    struct rdesc *d = a->read.d;

    if (d->size > a->place.room) { /* it had another size a moment ago */
        size_t size = d->size;

        read_release(ch, d);
        return read_nonsense(ch, "has changed its size (bytes, room)", size, a->place.room);
    }
    RPIPE_STEP("rread_into: before the copy");
    if (d->size > 0 && (ch->net == NULL || !ch->net->landed))
        memcpy(a->place.region->base + a->place.offset, d->mem, d->size);
    a->size = d->size;
    a->tag = d->header;
    RPIPE_STEP("rread_into: before the message is freed");
    read_release(ch, d);
    return 0;
}

static bool is_joined(const struct rch *ch)
{
    uint32_t notice = atomic_load_explicit(&ch->notice, memory_order_acquire); /* pairs with notice_set */

    return (notice & (NOTICE_JOINED | NOTICE_FAILED)) == NOTICE_JOINED;
}

static int into_attempt(struct rch *ch, void *arguments)
{
    struct into_arguments *a = arguments;
    bool was_joined = is_joined(ch);
    size_t size = 0;
    int rc = 0;

    if (ch->net != NULL) {
        ch->net->landed = false;
        if (a->place.piece != NULL)
            ch->net->want = a->place;
    }
    a->read.unseen = !was_joined || !read_next_size(ch, &size);
    if (!a->read.unseen && size > a->place.room)
        rc = too_large(ch, a, size);
    if (rc == 0)
        rc = read_attempt(ch, &a->read);
    if (ch->net != NULL)
        ch->net->want.region = NULL;
    if (rc == R_PENDING && !was_joined && is_joined(ch))
        return into_attempt(ch, arguments); /* a message has waited for that */
    return rc == 0 ? take(ch, a) : rc;
}

/* What the place needs of the network. */
static int begin_attempt(struct rch *ch, void *arguments)
{
    struct into_arguments *a = arguments;

    if (ch->net == NULL || ch->cfg.allocator.op != RDMA_GET)
        return 0;
    return region_piece(ch, a->read.call, a->place.region, &a->place.piece);
}

static int read_into(rch_t ch, const char *call, rregion_t region, size_t offset, size_t room, size_t *size,
                     uint64_t *tag, bool wait)
{
    struct into_arguments a = {
        .read = {call, NULL, 0, false, false, 0}, .place = {region, NULL, offset, room}, .awaited = {"message", 0}};
    int rc = channel_refuses(ch, call, SIDE_READER);
    uint32_t row;

    if (rc == 0)
        rc = region_refuses(ch, call, region, offset, room);
    if (rc == 0)
        rc = channel_once(ch, begin_attempt, &a);
    if (rc != 0)
        return rc;
    row = trace_begin(ch, TRACE_READ);
    rc = wait ? channel_wait(ch, call, &a.awaited, into_attempt, &a) : channel_once(ch, into_attempt, &a);
    trace_end(row, a.read.number, a.size, rc);
    if (rc == 0 && size != NULL)
        *size = a.size;
    if (rc == 0 && tag != NULL)
        *tag = a.tag;
    return rc;
}

int rpipe_read_into(rch_t ch, rregion_t region, size_t offset, size_t room, size_t *size)
{
    return read_into(ch, "rread_into", region, offset, room, size, NULL, true);
}

int rpipe_read_into_nb(rch_t ch, rregion_t region, size_t offset, size_t room, size_t *size)
{
    return read_into(ch, "rread_into_nb", region, offset, room, size, NULL, false);
}

int rpipe_read_into_tag(rch_t ch, rregion_t region, size_t offset, size_t room, size_t *size, uint64_t *tag)
{
    return read_into(ch, "rread_into_tag", region, offset, room, size, tag, true);
}

int rpipe_read_into_tag_nb(rch_t ch, rregion_t region, size_t offset, size_t room, size_t *size, uint64_t *tag)
{
    return read_into(ch, "rread_into_tag_nb", region, offset, room, size, tag, false);
}

/* ---- rclose ---- */

static int landings_attempt(struct rch *ch, void *arguments)
{
    (void)arguments;
    return net_landings_end(ch);
}

int region_wait_landings(struct rch *ch, const char *call)
{
    static const struct awaited awaited = {"end of a transfer into the program's memory (the channel is still open)",
                                           0};

    return channel_wait(ch, call, &awaited, landings_attempt, NULL);
}
