/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counter.c: the table of counters: names, units, meanings, and where in an end they are.
 *
 * To add one: a word that its owner stores, and a row. Names are never changed, nor used for something else; man/man3/rpipe_counter.3
 * has the same names in the same order (test/counters).
 */
#include "observe/record/counter.h"

#include "rpipe/end/end.h"
#include "rpipe/data/path_remote.h"
#include "observe/report/report.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define AT(member) ((uint32_t)offsetof(struct rch, member))
#define WORD(member)                                                                               \
    {                                                                                              \
        AT(member), PUBLISHED_NONE, PUBLISHED_NONE                                                 \
    }
#define LESS(member, other)                                                                        \
    {                                                                                              \
        AT(member), AT(other), PUBLISHED_NONE                                                      \
    }
#define TIMES(member, factor)                                                                      \
    {                                                                                              \
        AT(member), PUBLISHED_NONE, AT(factor)                                                     \
    }
#define NOWHERE                                                                                    \
    {                                                                                              \
        PUBLISHED_NONE, PUBLISHED_NONE, PUBLISHED_NONE                                             \
    }
#define BOTH(member) WORD(member), WORD(member)

static const struct row {
    const char *name, *unit;
    enum {
        EVER,
        NOW
    } kind; /* NOW: how it is, not how often it was: what is closed does not add to it */
    const char *meaning;
    struct published_word writer, reader;
} counter_table[] = {
    {"messages", "messages", EVER, "written, or taken from the ring by the reader", WORD(w.sent),
     WORD(r.nread)},
    {"bytes", "bytes", EVER, "of payload of those messages", BOTH(bytes)},
    {"inline_messages", "messages", EVER, "that rode in their slot", LESS(w.sent, w.heap_sent),
     LESS(r.nread, r.heap_read)},
    {"heap_messages", "messages", EVER, "whose payload lay in the heap", WORD(w.heap_sent),
     WORD(r.heap_read)},
    {"returned", "messages", EVER,
     "of the heap that have come back (writer), or were given back (reader)", WORD(w.heap_applied),
     WORD(r.heap_freed)},
    {"outstanding", "messages", NOW, "of the heap that have not: now",
     LESS(w.heap_sent, w.heap_applied), LESS(r.heap_read, r.heap_freed)},
    {"outstanding_bytes", "bytes", NOW, "of the heap in them, in whole units: now",
     TIMES(w.units_out, published_end.unit_size), TIMES(r.units_held, published_end.unit_size)},
    {"held", "messages", NOW,
     "that the program owns: allocated and not sent, or read and not freed: now", WORD(w.allocated),
     WORD(r.held)},
    {"credit_fetches", "operations", EVER,
     "synchronizations: looks at what the reader has given back", WORD(credit_fetches), NOWHERE},
    {"stalls_ring", "calls", EVER, "that found the ring full (writer) or empty (reader)",
     BOTH(stalls_ring)},
    {"stalls_heap", "calls", EVER, "that found no memory", WORD(stalls_heap), NOWHERE},
    {"stalls_queue", "calls", EVER, "that found sync_queue messages outstanding",
     WORD(stalls_queue), NOWHERE},
    {"waits_spin", "waits", EVER, "that ended while the call was spinning",
     BOTH(counts.waits_spin)},
    {"waits_yield", "waits", EVER, "that ended after it had yielded its processor",
     BOTH(counts.waits_yield)},
    {"waits_sleep", "waits", EVER, "that ended after it had slept", BOTH(counts.waits_sleep)},
    {"sleeps", "sleeps", EVER, "in the kernel, some of them several in one wait", BOTH(sleeps)},
    {"waited", "ns", EVER, "spent in waits that were longer than spinning", BOTH(counts.waited_ns)},
    {"wakes", "wakes", EVER, "of the other end", BOTH(wakes)},
    {"timeouts", "calls", EVER, "that ended at their deadline", BOTH(counts.timeouts)},
    {"errors", "errors", EVER, "told to the program by a sentence, deadlines among them",
     BOTH(counts.errors)},
    {"grows", "segments", EVER, "that the heap has grown by", BOTH(counts.grows)},
    {"grow_refused", "times", EVER, "that there was no memory to grow", WORD(counts.grow_refused),
     NOWHERE},
    {"work_requests", "requests", EVER, "handed to the network: payloads, slots, reads",
     BOTH(counts.remote.work_requests)},
    {"doorbells", "calls", EVER, "that handed over one or more of them",
     BOTH(counts.remote.doorbells)},
    {"completions", "requests", EVER, "of them that were signaled", BOTH(counts.remote.signaled)},
    {"inlined", "requests", EVER, "of them that were copied at once", BOTH(counts.remote.inlined)},
    {"reads", "requests", EVER,
     "of them that read the other side's memory: credits, payloads (GET)",
     BOTH(counts.remote.gets)},
    {"credit_reads", "requests", EVER, "of these for credits", WORD(counts.credit_reads), NOWHERE},
    {"atomics", "requests", EVER, "that were atomic operations", BOTH(counts.remote.atomics)},
    {"flushes", "operations", EVER, "that made sure that all has been placed",
     BOTH(counts.remote.flushes)},
    {"retries", "calls", EVER, "that the network refused because its queues were full",
     BOTH(counts.remote.refused)},
};
#define COUNTERS ((int)(sizeof(counter_table) / sizeof(*counter_table)))
static_assert(sizeof(counter_table) / sizeof(*counter_table) <= PUBLISHED_COUNTERS,
              "there is room for all in the header");

int counter_count(void) { return COUNTERS; }

void counter_publish(struct published *header)
{
    for (int i = 0; i < COUNTERS; i++) {
        struct published_counter *c = &header->counter[i];

        strncpy(c->name, counter_table[i].name, sizeof(c->name) - 1);
        strncpy(c->unit, counter_table[i].unit, sizeof(c->unit) - 1);
        c->writer = counter_table[i].writer;
        c->reader = counter_table[i].reader;
        c->now = counter_table[i].kind == NOW;
    }
    header->counters = COUNTERS;
}

static uint64_t counter_word_at(const struct rch *ch, uint32_t at)
{
    const uint64_t *word = (const uint64_t *)(const void *)((const char *)ch + at);

    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

uint64_t counter_value(const struct rch *ch, int index)
{
    const struct published_word *w = config_side(&ch->cfg) == SIDE_WRITER
                                         ? &counter_table[index].writer
                                         : &counter_table[index].reader;
    uint64_t value = 0;

    if (w->plus != PUBLISHED_NONE)
        value = counter_word_at(ch, w->plus);
    if (w->minus != PUBLISHED_NONE)
        value -= counter_word_at(ch, w->minus);
    return w->times != PUBLISHED_NONE ? value * counter_word_at(ch, w->times) : value;
}

void counter_opened(struct rch *ch)
{
    struct published *header = publish_header();

    if (header != NULL)
        atomic_fetch_add_explicit(&header->opened, 1, memory_order_relaxed);
    atomic_store_explicit(&ch->published_end.state, PUBLISHED_OPEN,
                          memory_order_release); /* pairs with whoever reads the file */
}

void counter_refresh(struct rch *ch)
{
    if (ch->remote == NULL || ch->remote->connection == NULL)
        return;
    ch->ops->connection_counts(ch->remote->connection, &ch->counts.remote);
    ch->counts.credit_reads = ch->remote->credit_reads;
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

void counter_retire(struct rch *ch)
{
    struct published *header = publish_header();

    if (atomic_load_explicit(&ch->published_end.state, memory_order_relaxed) != PUBLISHED_OPEN)
        return;
    report_keep(ch);
    if (header != NULL) {
        /* release, both times: whoever reads the file finds an odd number, or another one, if it read in between */
        atomic_fetch_add_explicit(&header->retired, 1, memory_order_acq_rel);
        for (int i = 0; i < COUNTERS; i++)
            if (counter_table[i].kind == EVER)
                atomic_fetch_add_explicit(&header->total[i], counter_value(ch, i),
                                          memory_order_relaxed);
        atomic_store_explicit(&ch->published_end.state, PUBLISHED_FREE, memory_order_release);
        atomic_fetch_add_explicit(&header->retired, 1, memory_order_release);
    }
    atomic_store_explicit(&ch->published_end.state, PUBLISHED_FREE, memory_order_relaxed);
}

/* ---- for programs ---- */

int rpipe_counter_describe(int index, rpipe_counter_info_t *counter)
{
    if (index < 0 || counter == NULL)
        return -EINVAL;
    if (index >= COUNTERS)
        return -ENOENT;
    *counter = (rpipe_counter_info_t){.name = counter_table[index].name,
                                      .unit = counter_table[index].unit,
                                      .meaning = counter_table[index].meaning,
                                      .now = counter_table[index].kind == NOW};
    return 0;
}

struct counter_arguments {
    int index;
    uint64_t value;
};

static int counter_attempt(struct rch *ch, void *arguments)
{
    struct counter_arguments *a = arguments;

    counter_refresh(ch);
    a->value = counter_value(ch, a->index);
    return 0;
}

/* The first row is that of the process. Other threads count on while it is read: by way of the file, as others do. */
static int counter_first_row(const rpipe_observed_t *row, void *argument)
{
    struct counter_arguments *a = argument;

    if (a->index < row->counters)
        a->value = row->value[a->index];
    return 1;
}

static int counter_refuse(struct rch *ch, int rc, const char *why)
{
    if (ch != NULL)
        return end_error(ch, rc, "rpipe_counter: %s", why);
    last_error_set("rpipe_counter: %s", why);
    return rc;
}

int rpipe_counter(rch_t ch, const char *name, uint64_t *value)
{
    struct counter_arguments a = {0, 0};
    int rc = ch != NULL ? end_check_call(ch, "rpipe_counter", 0) : job_refuses("rpipe_counter");

    if (rc != 0)
        return rc;
    while (name != NULL && a.index < COUNTERS && strcmp(name, counter_table[a.index].name) != 0)
        a.index++;
    if (name == NULL || value == NULL)
        return counter_refuse(ch, -EINVAL, "needs a name and a place for the value (NULL)");
    if (a.index == COUNTERS)
        return counter_refuse(ch, -ENOENT, "there is no counter of this name");
    rc = ch != NULL ? call_once(ch, counter_attempt, &a)
                    : rpipe_observe(getpid(), counter_first_row, &a);
    if (rc < 0)
        return rc;
    *value = a.value;
    return 0;
}
