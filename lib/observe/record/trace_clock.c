/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_clock.c: how far the clock of rank 0 is ahead of this one, so that rmalloc_trace(1) can put traces of several hosts together.
 *
 * A process that records a trace asks rank 0 what time it is, QUESTIONS times one after the other, over the control network: at rinit,
 * every AGAIN_MS, because clocks drift, and in rexit, while rank 0 is still there. Its service thread answers, whether it records
 * a trace or not. It has read its clock between question and answer, so the offset is known within half of the shortest round trip,
 * however unequal the two ways are. Who has the same clock as rank 0 (kernel and time namespace) learns that from the first answer.
 *
 * Nobody waits for an answer but rexit, at most LAST_MS. An answer that is not to the last question is dropped, and so is a question of
 * somebody who does not read his answers.
 */
#include "rpipe/end/end.h"

#include "control/control.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define QUESTIONS 16
#define AGAIN_MS 5000
#define LAST_MS 1000
#define UNREAD_MOST 64 /* messages that wait for who asks */
#define TIME_MOST                                                                                  \
    (INT64_C(1) << 61) /* a clock that says more is none; sums of two cannot overflow */

struct clock_note {
    uint64_t question;
    int64_t time;   /* the answer */
    uint64_t clock; /* which one it is; 0: unknown */
};
static_assert(sizeof(struct clock_note) == 24, "on the wire");

static struct {
    pthread_mutex_t lock;  /* taken before that of the control network */
    bool asking, resolved; /* settled: rank 0 has this clock */
    uint64_t question;     /* number of the last */
    int left;              /* that are still to be asked, the last one included */
    int64_t asked;
    struct trace_sample best; /* since `asking`; at 0: none yet */
} trace_clock_state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- which clock is it? ---- */

void trace_clock_name(char *name, size_t bytes)
{
    char boot[40] = "";
    struct stat space;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && read(fd, boot, sizeof(boot) - 1) > 0)
        boot[strcspn(boot, "\n")] = '\0';
    if (fd >= 0)
        close(fd);
    *name = '\0';
    if (*boot == '\0')
        return;
    if (stat("/proc/self/ns/time", &space) != 0)
        space.st_ino = 0; /* this kernel knows no time namespaces */
    snprintf(name, bytes, "%s.%llu", boot, (unsigned long long)space.st_ino);
}

/* FNV-1a; 0: it cannot be told. */
static uint64_t trace_clock_clock_number(void)
{
    uint64_t number = UINT64_C(0xcbf29ce484222325);
    char name[TRACE_CLOCK_BYTES];

    trace_clock_name(name, sizeof(name));
    for (const char *c = name; *c != '\0'; c++)
        number = (number ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    return *name != '\0' ? number : 0;
}

/* ---- asking: with the lock ---- */

static void trace_clock_stop_asking(void)
{
    trace_clock_state.asking = false;
    if (trace_clock_state.best.at != 0)
        trace_sample(&trace_clock_state.best);
    trace_clock_state.best.at = 0;
}

static void trace_clock_ask(void)
{
    struct clock_note n = {.question = ++trace_clock_state.question};

    trace_clock_state.asked = clock_now();
    if (control_post(0, MESSAGE_CLOCK, &n, sizeof(n), NULL, 0) !=
        0) /* it is gone, or there is no memory: another time */
        trace_clock_stop_asking();
}

static void trace_clock_begin_asking(void)
{
    if (trace_clock_state.asking) /* an answer was lost */
        trace_clock_stop_asking();
    trace_clock_state.asking = true;
    trace_clock_state.left = QUESTIONS;
    trace_clock_ask();
}

static void trace_clock_again(void *unused)
{
    pthread_mutex_lock(&trace_clock_state.lock);
    if (!trace_clock_state.resolved) {
        trace_clock_begin_asking();
        (void)control_watch(-1, AGAIN_MS * INT64_C(1000), trace_clock_again, unused);
    }
    pthread_mutex_unlock(&trace_clock_state.lock);
}

void trace_clock_start(int rank)
{
    pthread_mutex_lock(&trace_clock_state.lock);
    trace_clock_state.resolved = rank == 0;
    if (trace_clock_state.resolved)
        trace_sample(&(struct trace_sample){.at = clock_now()});
    pthread_mutex_unlock(&trace_clock_state.lock);
    trace_clock_again(NULL);
}

void trace_clock_end(int64_t deadline)
{
    const struct timespec backoff = {0, NS_PER_MS / 10};
    int64_t most = deadline_in_ms(LAST_MS);
    bool waits;

    control_unwatch(trace_clock_again, NULL);
    pthread_mutex_lock(&trace_clock_state.lock);
    if (!trace_clock_state.resolved && !trace_clock_state.asking)
        trace_clock_begin_asking();
    do {
        waits = trace_clock_state.asking && !trace_clock_state.resolved &&
                control_peer_state(0) == 0 && !deadline_passed(most) && !deadline_passed(deadline);
        pthread_mutex_unlock(&trace_clock_state.lock);
        if (waits)
            nanosleep(&backoff, NULL);
        pthread_mutex_lock(&trace_clock_state.lock);
    } while (waits);
    trace_clock_stop_asking();
    trace_clock_state.resolved = true; /* what comes now is too late */
    pthread_mutex_unlock(&trace_clock_state.lock);
}

/* ---- on the service thread ---- */

static void trace_clock_answer(int to, struct clock_note n)
{
    static uint64_t own;

    if (own == 0)
        own = trace_clock_clock_number();
    if (control_backlog(to) > UNREAD_MOST)
        return;
    n.clock = own;
    n.time = clock_now();
    (void)control_post(to, MESSAGE_CLOCK_TOLD, &n, sizeof(n), NULL, 0);
}

static void trace_clock_on_message(const struct clock_note *n, int64_t now)
{
    int64_t trip = now - trace_clock_state.asked;
    struct trace_sample s = {.at = trace_clock_state.asked + trip / 2, .error = trip - trip / 2};

    if (n->clock != 0 && n->clock == trace_clock_clock_number()) {
        trace_clock_state.resolved = true;
        trace_clock_state.best = (struct trace_sample){.at = now};
        trace_clock_stop_asking();
        return;
    }
    s.ahead = n->time - s.at;
    if (trace_clock_state.best.at == 0 || s.error < trace_clock_state.best.error)
        trace_clock_state.best = s;
    if (--trace_clock_state.left > 0)
        trace_clock_ask();
    else
        trace_clock_stop_asking();
}

void trace_clock_message(int from, uint32_t type, const void *body, size_t bytes)
{
    int64_t now = clock_now();
    struct clock_note n;

    if (bytes != sizeof(n))
        return;
    memcpy(&n, body, sizeof(n));
    if (type == MESSAGE_CLOCK) {
        trace_clock_answer(from, n);
        return;
    }
    pthread_mutex_lock(&trace_clock_state.lock);
    if (from == 0 && trace_clock_state.asking && n.question == trace_clock_state.question &&
        n.time > 0 && n.time < TIME_MOST)
        trace_clock_on_message(&n, now);
    pthread_mutex_unlock(&trace_clock_state.lock);
}
