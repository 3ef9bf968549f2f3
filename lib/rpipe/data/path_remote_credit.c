/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_remote_credit.c: the writer of a pipe over a network fetches credits: one `get` for many (path_remote.h).
 *
 * One refresh is in flight at a time, into the mirror, which is not read meanwhile. When it has arrived it is applied at once, by
 * the rules of credit.h.
 *
 * When to refresh. At the watermark, once: the answer is there before it is needed. When no slot or no memory is left, at once, and
 * then not before the reader may have come a quarter of the way: each refresh is a READ, and a blocked writer gains nothing from more than one
 * for many messages as long as the reader still has some to read.
 */
#include "rpipe/data/path_remote_credit.h"

#include "rpipe/data/credit.h"
#include "rpipe/data/path_remote_transfer.h"
#include "rpipe/end/area.h"

#include "observe/record/trace.h"
#include "util/clock.h"
#include "util/failpoint.h"

#include <errno.h>

#define WHOLE_AREA_MOST 4096 /* credit line and tags of so many bytes are fetched by one READ */
#define TAGS_MOST 512        /* of a longer queue, by one READ */
/* Refreshes are so much later than the watermark: with what is in flight there is one in half a ring. */
#define SLOTS_PER_SLACK 16
#define BACKOFF_FIRST_NS 1000
#define BACKOFF_MOST_NS (200 * 1000)
/* Large messages: a quarter of what is outstanding takes longer than any back-off sleep. */
#define PACE_MOST_NS NS_PER_MS

static int remote_credit_get(struct rch *ch, size_t from, size_t bytes)
{
    struct btl_transfer t = {&ch->credit_remote, from, &ch->remote->credit, from, bytes};
    int rc = ch->ops->get(ch->remote->connection, &t, &ch->remote->credits.done);

    ch->remote->credits.reads += rc == 0;
    return rc;
}

/* The tags that can have been written: from the next one, one for each block in flight, as far as one READ reaches. */
static int remote_credit_get_tags(struct rch *ch)
{
    const struct ring_cursor *c = &ch->w.blocks.next;
    uint64_t in_flight = ch->w.blocks.sent - ch->w.blocks.returned;
    uint32_t tags = c->size - c->at;

    if (in_flight == 0)
        return 0;
    if (tags > in_flight)
        tags = (uint32_t)in_flight;
    if (tags > TAGS_MOST)
        tags = TAGS_MOST;
    return remote_credit_get(ch, sizeof(struct credit_area) + (size_t)c->at * sizeof(uint64_t),
                             tags * sizeof(uint64_t));
}

static bool remote_credit_is_pending(const struct remote_credits *c)
{
    /* acquire: pairs with the release at the completion of the get */
    return atomic_load_explicit(&c->done.pending, memory_order_acquire) > 0;
}

static int remote_credit_post(struct rch *ch, enum credit_need need)
{
    size_t area = area_credit_bytes(&ch->cfg);
    struct remote_credits *c = &ch->remote->credits;
    bool whole = area <= WHOLE_AREA_MOST;
    int rc = 0;

    if (whole || need != NEED_MEMORY)
        rc = remote_credit_get(ch, 0, whole ? area : sizeof(struct credit_line));
    if (rc == 0 && !whole) {
        rc = remote_credit_get_tags(ch);
        if (rc == -EAGAIN && remote_credit_is_pending(c))
            rc = 0; /* the credit line alone is useful */
    }
    if (rc != 0)
        return rc;
    RPIPE_FAILPOINT("net: credits requested");
    c->in_flight = true;
    c->posted = clock_now();
    ch->credit_fetches++;
    if (need == NEED_SOON) { /* not again before this one has been applied */
        ch->w.slots.refresh_at = UINT64_MAX;
        ch->w.blocks.refresh_units = UINT64_MAX;
    }
    return 0;
}

static uint64_t remote_credit_seen(const struct rch *ch)
{
    return ch->w.slots.limit + ch->w.blocks.returned;
}

/*
 * The time that the reader takes for a quarter of what is outstanding, estimated from the last two refreshes. The time that the last one
 * took is left out: a fast reader has nothing to read meanwhile, and waits that count it would make each other longer.
 */
static void remote_credit_pace(struct rch *ch, uint64_t moved)
{
    uint64_t sent = atomic_load_explicit(&ch->w.sent, memory_order_relaxed),
             out = sent - credit_slots_read(ch) + (ch->w.blocks.sent - ch->w.blocks.returned);
    struct remote_credits *c = &ch->remote->credits;
    int64_t backoff = 0, most = moved == 0 ? BACKOFF_MOST_NS : PACE_MOST_NS,
            taken = clock_now() - c->posted, interval = c->posted - c->previous;

    if (moved == 0)
        backoff = c->backoff == 0 ? BACKOFF_FIRST_NS : c->backoff * 2;
    else if (c->previous != 0 && interval > taken)
        backoff = (int64_t)((uint64_t)(interval - taken) / moved * (out / 4));
    c->backoff = backoff < most ? backoff : most;
    c->not_before = c->posted + c->backoff;
    c->previous = c->posted;
}

/* All that the mirror holds. */
static int remote_credit_take(struct rch *ch)
{
    int rc = credit_refresh_slots(ch);

    if (rc == 0 && ch->cfg.op == OP_GET)
        rc = credit_refresh_fetched(ch, &ch->remote->credits.fetched);
    if (rc == 0)
        rc = credit_refresh_blocks(ch, true);
    credit_schedule(ch);
    if (ch->w.slots.refresh_at != UINT64_MAX && ch->w.slots.refresh_at != 0)
        ch->w.slots.refresh_at += ch->w.slots.slots / SLOTS_PER_SLACK;
    if (rc == 0)
        remote_transfers_complete(ch);
    return rc;
}

static int remote_credit_apply(struct rch *ch)
{
    uint64_t before = remote_credit_seen(ch);
    uint32_t row;
    int rc;

    ch->remote->credits.in_flight = false;
    if (atomic_load_explicit(&ch->remote->credits.done.error, memory_order_relaxed) != 0)
        return remote_failed(ch);
    row = trace_begin(ch, TRACE_SYNC);
    RPIPE_FAILPOINT("net: credits here");
    rc = remote_credit_take(ch);
    trace_end(row, ch->w.blocks.returned, credit_slots_read(ch), rc);
    remote_credit_pace(ch, remote_credit_seen(ch) - before);
    return rc;
}

static bool remote_credit_has_arrived(const struct remote_credits *c)
{
    return c->in_flight && !remote_credit_is_pending(c);
}

void remote_credits_arrived(struct rch *ch)
{
    if (remote_credit_has_arrived(&ch->remote->credits))
        (void)remote_credit_apply(ch); /* a violation is reported by the next call */
}

int remote_fetch_credits(struct rch *ch, enum credit_need need)
{
    struct remote_credits *c = &ch->remote->credits;
    int rc;

    if (ch->ops->progress(ch->remote->connection) != 0)
        return remote_failed(ch);
    if (ch->w.blocks.reverse != NULL && need == NEED_MEMORY) {
        /* the reader writes them here; the credit mirror may be incomplete */
        ch->credit_fetches++;
        rc = credit_refresh_blocks(ch, true);
        credit_schedule(ch);
        return rc;
    }
    if (remote_credit_has_arrived(c))
        return remote_credit_apply(ch);
    if (c->in_flight || (need != NEED_SOON && clock_now() < c->not_before))
        return 0;
    rc = remote_credit_post(ch, need);
    if (rc != 0)
        return rc == -EAGAIN ? 0 : remote_failed(ch);
    if (ch->ops->progress(ch->remote->connection) == 0 && remote_credit_has_arrived(c))
        return remote_credit_apply(ch);
    return 0;
}
