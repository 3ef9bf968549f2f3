/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_clock.c: see trace_clock.h.
 *
 * A process that records a trace queries the time of rank 0 over the control network, CLOCK_QUERIES times in a row: at rinit,
 * every CLOCK_AGAIN_MS, because clocks drift, and in rexit. The service thread of rank 0 replies, whether rank 0 records a
 * trace or not. It reads its clock between query and reply, so the offset is known within half of the shortest round trip,
 * however asymmetric the two ways are. The first reply shows whether both processes have the same clock (kernel and time
 * namespace).
 *
 * Only rexit waits for a reply, at most CLOCK_LAST_MS. A reply that does not match the last query is dropped, and so is a
 * query of a process that does not read its replies.
 */
#include "observe/record/trace_clock.h"

#include "control/control.h"
#include "observe/record/trace.h"
#include "sync/wait.h"
#include "util/clock.h"
#include "util/hash.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define CLOCK_QUERIES 16
#define CLOCK_AGAIN_MS 5000
#define CLOCK_LAST_MS 1000
#define CLOCK_UNREAD_MOST 64 /* replies queued to a peer, above which its queries are dropped */
#define CLOCK_TIME_MOST                                                                            \
    (INT64_C(1) << 61) /* larger times are invalid; the sum of two does not overflow */

static struct {
    pthread_mutex_t lock; /* taken before that of the control network */
    bool querying;
    bool same;                /* rank 0 has this clock: no more queries */
    uint64_t query;           /* number of the last */
    int left;                 /* queries left, the last one included */
    int64_t sent;             /* when the last query was sent */
    struct trace_sample best; /* since `querying`; at 0: none yet */
} trace_clock_state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Hash of the name of the own clock; 0: unknown. */
static uint64_t trace_clock_hash(void)
{
    char name[TRACE_CLOCK_BYTES];

    trace_clock_name(name, sizeof(name));
    return *name != '\0' ? hash_bytes(HASH_BASIS, name, strlen(name)) : 0;
}

/* ---- querying: with the lock ---- */

static void trace_clock_finish(void)
{
    trace_clock_state.querying = false;
    if (trace_clock_state.best.at != 0)
        trace_sample(&trace_clock_state.best);
    trace_clock_state.best.at = 0;
}

static void trace_clock_send(void)
{
    struct clock_note n = {.query = ++trace_clock_state.query};

    trace_clock_state.sent = clock_now();
    if (control_post(0, MESSAGE_CLOCK, &n, sizeof(n), NULL, 0) !=
        0) /* rank 0 is gone, or no memory: the next turn tries again */
        trace_clock_finish();
}

static void trace_clock_begin(void)
{
    if (trace_clock_state.querying) /* a reply was lost */
        trace_clock_finish();
    trace_clock_state.querying = true;
    trace_clock_state.left = CLOCK_QUERIES;
    trace_clock_send();
}

static void trace_clock_again(void *unused)
{
    pthread_mutex_lock(&trace_clock_state.lock);
    if (!trace_clock_state.same) {
        trace_clock_begin();
        (void)control_watch(-1, CLOCK_AGAIN_MS * INT64_C(1000), trace_clock_again, unused);
    }
    pthread_mutex_unlock(&trace_clock_state.lock);
}

void trace_clock_start(int rank)
{
    pthread_mutex_lock(&trace_clock_state.lock);
    trace_clock_state.same = rank == 0;
    if (trace_clock_state.same)
        trace_sample(&(struct trace_sample){.at = clock_now()});
    pthread_mutex_unlock(&trace_clock_state.lock);
    trace_clock_again(NULL);
}

static int trace_clock_end_attempt(void *unused)
{
    bool waits;

    (void)unused;
    pthread_mutex_lock(&trace_clock_state.lock);
    waits = trace_clock_state.querying && !trace_clock_state.same && control_peer_state(0) == 0;
    pthread_mutex_unlock(&trace_clock_state.lock);
    return waits ? -EAGAIN : 0;
}

void trace_clock_end(int64_t deadline)
{
    int64_t most = deadline_in_ms(CLOCK_LAST_MS);

    control_unwatch(trace_clock_again, NULL);
    pthread_mutex_lock(&trace_clock_state.lock);
    if (!trace_clock_state.same && !trace_clock_state.querying)
        trace_clock_begin();
    pthread_mutex_unlock(&trace_clock_state.lock);
    (void)wait_by_sleeps(most < deadline ? most : deadline, trace_clock_end_attempt, NULL);
    pthread_mutex_lock(&trace_clock_state.lock);
    trace_clock_finish();
    trace_clock_state.same = true; /* later replies are ignored */
    pthread_mutex_unlock(&trace_clock_state.lock);
}

/* ---- on the service thread ---- */

static void trace_clock_reply(int to, struct clock_note n)
{
    static uint64_t own;

    if (own == 0)
        own = trace_clock_hash();
    if (control_backlog(to) > CLOCK_UNREAD_MOST)
        return;
    n.clock = own;
    n.time = clock_now();
    (void)control_post(to, MESSAGE_CLOCK_REPLY, &n, sizeof(n), NULL, 0);
}

static void trace_clock_on_reply(const struct clock_note *n, int64_t now)
{
    int64_t trip = now - trace_clock_state.sent;
    struct trace_sample s = {.at = trace_clock_state.sent + trip / 2, .error = trip - trip / 2};

    if (n->clock != 0 && n->clock == trace_clock_hash()) {
        trace_clock_state.same = true;
        trace_clock_state.best = (struct trace_sample){.at = now};
        trace_clock_finish();
        return;
    }
    s.ahead = n->time - s.at;
    if (trace_clock_state.best.at == 0 || s.error < trace_clock_state.best.error)
        trace_clock_state.best = s;
    if (--trace_clock_state.left > 0)
        trace_clock_send();
    else
        trace_clock_finish();
}

void trace_clock_message(int from, uint32_t type, const void *body, size_t bytes)
{
    int64_t now = clock_now();
    struct clock_note n;

    if (bytes < sizeof(n)) /* a longer message is of a later version */
        return;
    memcpy(&n, body, sizeof(n));
    if (type == MESSAGE_CLOCK) {
        trace_clock_reply(from, n);
        return;
    }
    pthread_mutex_lock(&trace_clock_state.lock);
    if (from == 0 && trace_clock_state.querying && n.query == trace_clock_state.query &&
        n.time > 0 && n.time < CLOCK_TIME_MOST)
        trace_clock_on_reply(&n, now);
    pthread_mutex_unlock(&trace_clock_state.lock);
}
