/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counters.c: the table of counters: names, units, meanings, and their offsets within an end.
 *
 * A new counter is a word that its owner stores, and a row. A name is never changed nor used for something else. The manual
 * has the same names in the same order (test/observe).
 */
#include "rpipe/end/counters.h"

#include "rpipe/end/end_pool.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/rch.h"
#include "rpipe/end/path.h"

#include <string.h>

#define AT(member) ((uint32_t)offsetof(struct rch, member))
#define FIRST AT(published_end.first)
#define WORD(member)                                                                               \
    {                                                                                              \
        AT(member), PUBLISHED_NONE, PUBLISHED_NONE, PUBLISHED_NONE                                 \
    }
#define NUMBER(member)                                                                             \
    {                                                                                              \
        AT(member), PUBLISHED_NONE, FIRST, PUBLISHED_NONE                                          \
    }
#define LESS(member, other)                                                                        \
    {                                                                                              \
        AT(member), AT(other), PUBLISHED_NONE, PUBLISHED_NONE                                      \
    }
#define NUMBER_LESS(member, other)                                                                 \
    {                                                                                              \
        AT(member), AT(other), FIRST, PUBLISHED_NONE                                               \
    }
#define TIMES(member, factor)                                                                      \
    {                                                                                              \
        AT(member), PUBLISHED_NONE, PUBLISHED_NONE, AT(factor)                                     \
    }
#define ABSENT                                                                                     \
    {                                                                                              \
        PUBLISHED_NONE, PUBLISHED_NONE, PUBLISHED_NONE, PUBLISHED_NONE                             \
    }
#define BOTH(member) WORD(member), WORD(member)
#define SUM false
#define NOW true

/* clang-format off */
static const struct counter_row counter_table[] = {
    {"messages", "messages", "written, or received by the reader from the ring", SUM,
     NUMBER(w.sent), NUMBER(r.nread)},
    {"bytes", "bytes", "of payload of these messages", SUM, BOTH(bytes)},
    {"inline_messages", "messages", "whose payload was in their slot", SUM,
     NUMBER_LESS(w.sent, w.blocks.sent), NUMBER_LESS(r.nread, r.blocks.taken)},
    {"heap_messages", "messages", "whose payload was in the heap", SUM,
     WORD(w.blocks.sent), WORD(r.blocks.taken)},
    {"returned", "messages", "of the heap whose memory has returned to the writer, or was freed by the reader", SUM,
     WORD(w.blocks.returned), WORD(r.blocks.freed)},
    {"outstanding", "messages", "of the heap whose memory has not returned: now", NOW,
     LESS(w.blocks.sent, w.blocks.returned), LESS(r.blocks.taken, r.blocks.freed)},
    {"outstanding_bytes", "bytes", "of the heap in these messages, in whole units: now", NOW,
     TIMES(w.blocks.units, published_end.unit_bytes), TIMES(r.units_held, published_end.unit_bytes)},
    {"held", "messages", "owned by the program: allocated and not sent, or read and not freed: now", NOW,
     WORD(w.allocated), WORD(r.held)},
    {"credit_fetches", "operations", "credit refreshes: polls for memory that the reader has freed", SUM,
     WORD(credit_fetches), ABSENT},
    {"stalls_ring", "calls", "that found the ring full (writer) or empty (reader)", SUM, BOTH(stalls_ring)},
    {"stalls_heap", "calls", "that found no memory", SUM, WORD(stalls_heap), ABSENT},
    {"stalls_queue", "calls", "that found sync_queue messages outstanding", SUM, WORD(stalls_queue), ABSENT},
    {"waits_spin", "waits", "that ended while the call was spinning", SUM, BOTH(counts.waits_spin)},
    {"waits_yield", "waits", "that ended after the call had yielded its processor", SUM, BOTH(counts.waits_yield)},
    {"waits_sleep", "waits", "that ended after the call had slept", SUM, BOTH(counts.waits_sleep)},
    {"sleeps", "sleeps", "in the kernel; several in one wait are possible", SUM, BOTH(sleeps)},
    {"waited", "ns", "spent in waits that were longer than spinning", SUM, BOTH(counts.waited_ns)},
    {"wakes", "wakes", "of the other end", SUM, BOTH(wakes)},
    {"timeouts", "calls", "that ended at their deadline", SUM, BOTH(counts.timeouts)},
    {"errors", "errors", "with an error message, timeouts included", SUM, BOTH(counts.errors)},
    {"grows", "segments", "by which the heap has grown", SUM, BOTH(counts.grows)},
    {"grow_refused", "times", "that there was no memory to grow", SUM, WORD(counts.grow_refused), ABSENT},
    {"work_requests", "requests", "posted to the network: payloads, slots, reads", SUM,
     BOTH(counts.remote.work_requests)},
    {"doorbells", "calls", "that posted one or more work requests", SUM, BOTH(counts.remote.doorbells)},
    {"completions", "requests", "that were signaled", SUM, BOTH(counts.remote.signaled)},
    {"inlined", "requests", "whose data was copied when they were posted", SUM, BOTH(counts.remote.inlined)},
    {"reads", "requests", "that read memory of the other end: credits, payloads (GET)", SUM,
     BOTH(counts.remote.gets)},
    {"credit_reads", "requests", "of these for credits", SUM, WORD(counts.credit_reads), ABSENT},
    {"atomics", "requests", "that were atomic operations", SUM, BOTH(counts.remote.atomics)},
    {"flushes", "operations", "that waited until all data was placed", SUM, BOTH(counts.remote.flushes)},
    {"retries", "calls", "that the network rejected because its queues were full", SUM,
     BOTH(counts.remote.refused)},
    {"polls", "calls", "that polled a completion queue", SUM, BOTH(counts.remote.polls)},
    {"direct", "messages", "whose payload was sent from, or placed in, a region without a copy", SUM,
     BOTH(counts.direct)},
    {"staged", "messages", "whose payload was copied between memory of a device and of the host, for the network", SUM,
     BOTH(counts.staged)},
    {"heap_bytes", "bytes", "of the heap, all segments: now", NOW,
     TIMES(units, published_end.unit_bytes), TIMES(units, published_end.unit_bytes)},
};
/* clang-format on */
#define COUNTERS ((int)(sizeof(counter_table) / sizeof(*counter_table)))
static_assert(sizeof(counter_table) / sizeof(*counter_table) <= PUBLISHED_COUNTERS,
              "the published header has an entry for each");
static_assert(sizeof(struct rch) % CACHE_LINE == 0,
              "rows of the published file, one for each end, share no line");
static_assert((int)PUBLISHED_WRITER == (int)SIDE_WRITER &&
                  (int)PUBLISHED_READER == (int)SIDE_READER,
              "roles have the same values");

const struct published_layout *counter_layout(void)
{
    static const struct published_layout layout = {
        .row = counter_table,
        .rows = COUNTERS,
        .end_bytes = sizeof(struct rch),
        .published_at = AT(published_end),
        .state_at = AT(state),
    };

    return &layout;
}

int counter_start(int rank, int ranks, const char *job)
{
    int rc = publish_start(rank, ranks, job, counter_layout());

    if (rc != 0)
        return rc;
    end_pool_publish(); /* ends of an earlier job */
    publish_complete();
    return 0;
}

void counter_describe(struct rch *ch)
{
    int own = job_own_rank();
    bool writer = config_side(&ch->cfg) == SIDE_WRITER;
    struct published_end *p = &ch->published_end;

    p->role = writer ? PUBLISHED_WRITER : PUBLISHED_READER;
    p->context = ch->cfg.context;
    p->writer = writer ? own : ch->peer;
    p->reader = writer ? ch->peer : own;
    p->first = job_first();
    p->unit_bytes = ch->cfg.unit_bytes;
    strncpy(p->backend, ch->ops->name, sizeof(p->backend) - 1);
}

void counter_opened(struct rch *ch)
{
    ch->published_end.incarnation = ch->end.incarnation;
    trace_describe(ch->trace, &ch->published_end);
    published_open(&ch->published_end);
}

void counter_retire(struct rch *ch)
{
    counter_refresh(ch);
    published_retire(counter_layout(), ch, &ch->published_end);
}

void counter_refresh(struct rch *ch)
{
    if (ch->path != NULL)
        ch->path->count(ch);
}

void counter_waited(struct rch *ch, const struct waiter *w)
{
    struct counts *c = &ch->counts;
    _Atomic uint64_t *kind = &c->waits_spin;

    if (w->slept)
        kind = &c->waits_sleep;
    else if (w->phase != WAIT_SPINNING)
        kind = &c->waits_yield;
    atomic_fetch_add_explicit(kind, 1, memory_order_relaxed);
    if (kind != &c->waits_spin)
        atomic_fetch_add_explicit(&c->waited_ns, (uint64_t)(clock_now() - w->began),
                                  memory_order_relaxed);
}
