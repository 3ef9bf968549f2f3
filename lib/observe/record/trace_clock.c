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
#define UNREAD_MOST 64               /* messages that wait for who asks */
#define TIME_MOST (INT64_C(1) << 61) /* a clock that says more is none; sums of two cannot overflow */

struct clock_note {
    uint64_t question;
    int64_t time;   /* the answer */
    uint64_t clock; /* which one it is; 0: unknown */
};
static_assert(sizeof(struct clock_note) == 24, "on the wire");

static struct {
    pthread_mutex_t lock; /* taken before that of the control network */
    bool asking, resolved; /* settled: rank 0 has this clock */
    uint64_t question;    /* number of the last */
    int left;             /* that are still to be asked, the last one included */
    int64_t asked;
    struct trace_sample best; /* since `asking`; at 0: none yet */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

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
static uint64_t clock_number(void)
{
    uint64_t number = UINT64_C(0xcbf29ce484222325);
    char name[TRACE_CLOCK_BYTES];

    trace_clock_name(name, sizeof(name));
    for (const char *c = name; *c != '\0'; c++)
        number = (number ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    return *name != '\0' ? number : 0;
}

/* ---- asking: with the lock ---- */

static void stop_asking(void)
{
    state.asking = false;
    if (state.best.at != 0)
        trace_sample(&state.best);
    state.best.at = 0;
}

static void ask(void)
{
    struct clock_note n = {.question = ++state.question};

    state.asked = clock_now();
    if (control_post(0, MESSAGE_CLOCK, &n, sizeof(n), NULL, 0) !=
        0) /* it is gone, or there is no memory: another time */
        stop_asking();
}

static void begin_asking(void)
{
    if (state.asking) /* an answer was lost */
        stop_asking();
    state.asking = true;
    state.left = QUESTIONS;
    ask();
}

static void again(void *unused)
{
    pthread_mutex_lock(&state.lock);
    if (!state.resolved) {
        begin_asking();
        (void)control_watch(-1, AGAIN_MS * INT64_C(1000), again, unused);
    }
    pthread_mutex_unlock(&state.lock);
}

void trace_clock_start(int rank)
{
    pthread_mutex_lock(&state.lock);
    state.resolved = rank == 0;
    if (state.resolved)
        trace_sample(&(struct trace_sample){.at = clock_now()});
    pthread_mutex_unlock(&state.lock);
    again(NULL);
}

void trace_clock_end(int64_t deadline)
{
    const struct timespec backoff = {0, NS_PER_MS / 10};
    int64_t most = deadline_in_ms(LAST_MS);
    bool waits;

    control_unwatch(again, NULL);
    pthread_mutex_lock(&state.lock);
    if (!state.resolved && !state.asking)
        begin_asking();
    do {
        waits = state.asking && !state.resolved && control_peer_state(0) == 0 && !deadline_passed(most) &&
                !deadline_passed(deadline);
        pthread_mutex_unlock(&state.lock);
        if (waits)
            nanosleep(&backoff, NULL);
        pthread_mutex_lock(&state.lock);
    } while (waits);
    stop_asking();
    state.resolved = true; /* what comes now is too late */
    pthread_mutex_unlock(&state.lock);
}

/* ---- on the service thread ---- */

static void answer(int to, struct clock_note n)
{
    static uint64_t own;

    if (own == 0)
        own = clock_number();
    if (control_backlog(to) > UNREAD_MOST)
        return;
    n.clock = own;
    n.time = clock_now();
    (void)control_post(to, MESSAGE_CLOCK_TOLD, &n, sizeof(n), NULL, 0);
}

static void on_message(const struct clock_note *n, int64_t now)
{
    int64_t trip = now - state.asked;
    struct trace_sample s = {.at = state.asked + trip / 2, .error = trip - trip / 2};

    if (n->clock != 0 && n->clock == clock_number()) {
        state.resolved = true;
        state.best = (struct trace_sample){.at = now};
        stop_asking();
        return;
    }
    s.ahead = n->time - s.at;
    if (state.best.at == 0 || s.error < state.best.error)
        state.best = s;
    if (--state.left > 0)
        ask();
    else
        stop_asking();
}

void trace_clock_message(int from, uint32_t type, const void *body, size_t bytes)
{
    int64_t now = clock_now();
    struct clock_note n;

    if (bytes != sizeof(n))
        return;
    memcpy(&n, body, sizeof(n));
    if (type == MESSAGE_CLOCK) {
        answer(from, n);
        return;
    }
    pthread_mutex_lock(&state.lock);
    if (from == 0 && state.asking && n.question == state.question && n.time > 0 && n.time < TIME_MOST)
        on_message(&n, now);
    pthread_mutex_unlock(&state.lock);
}
