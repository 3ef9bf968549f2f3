/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slot_credit.h: how many messages the writer may still send before it has to read the reader's credit line again.
 *
 * `slots_read` of the credit line only grows, up to the messages sent. Messages are counted; a count may begin anywhere and wraps
 * modulo 2^64, so that all comparisons of what the peer stores are of differences.
 *
 * Invariant: read <= sent <= limit, where read = limit - slots; and look_at <= limit.
 */
#ifndef SYNC_SLOT_CREDIT_H
#define SYNC_SLOT_CREDIT_H

#include "sync/slot.h"
#include "sync/violation.h"
#include "util/failpoint.h"

struct slot_credit {
    uint64_t limit; /* highest allowed value of `sent`: slots known to be read + slots */
    uint64_t
        refresh_at;     /* refresh credits when `sent` reaches this; UINT64_MAX: only when needed */
    uint64_t look_at;   /* the lower of the two, as of the last schedule */
    uint64_t slots;     /* of the ring */
    uint64_t watermark; /* slots in use at which credits are refreshed; 0: after every message */
};

static inline void slot_credit_init(struct slot_credit *c, uint64_t first, uint32_t slots,
                                    double watermark)
{
    *c = (struct slot_credit){
        .limit = first + slots, .slots = slots, .watermark = (uint64_t)(watermark * slots)};
    c->refresh_at = first + c->watermark;
    c->look_at = c->refresh_at < c->limit ? c->refresh_at : c->limit;
}

/* Slots known to be read. */
static inline uint64_t slot_credit_read(const struct slot_credit *c) { return c->limit - c->slots; }

/*
 * The next refresh is at the watermark. Once the watermark is passed, it is when no slot is left: each read of the credit line
 * takes that cache line from the reader, which stores to it with every message.
 */
static inline void slot_credit_schedule(struct slot_credit *c, uint64_t sent)
{
    uint64_t read = slot_credit_read(c);

    if (c->watermark == 0)
        c->refresh_at = 0;
    else
        c->refresh_at = sent - read < c->watermark ? read + c->watermark : UINT64_MAX;
    c->look_at = c->refresh_at < c->limit ? c->refresh_at : c->limit;
}

/* Reads the count of slots read. 0, or -EPROTO and the violation. */
static inline int slot_credit_refresh(struct slot_credit *c, const struct credit_line *line,
                                      uint64_t sent, struct violation *v)
{
    uint64_t known = slot_credit_read(c);
    /* acquire: pairs with the release of the reader, which copies a slot before the writer overwrites it */
    uint64_t read = atomic_load_explicit(&line->slots_read, memory_order_acquire);

    if (read - known > sent - known)
        return violation_set(v, "the count of slots read", read, known, sent);
    RPIPE_FAILPOINT("credit: slots read");
    c->limit = read + c->slots;
    return 0;
}

/*
 * GET over a network: reads the count of payloads that the reader has fetched; the writer may change the memory of those. *fetched
 * is the last known count. 0, or -EPROTO and the violation.
 */
static inline int fetch_credit_refresh(uint64_t *fetched, const struct credit_line *line,
                                       uint64_t sent, struct violation *v)
{
    /* acquire: pairs with the release of the reader, whose fetch is complete before the writer changes the payload */
    uint64_t now = atomic_load_explicit(&line->fetched, memory_order_acquire);

    if (now - *fetched > sent - *fetched)
        return violation_set(v, "the count of payloads fetched", now, *fetched, sent);
    *fetched = now;
    return 0;
}

#endif
