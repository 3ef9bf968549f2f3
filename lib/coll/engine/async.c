/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * async.c: see async.h.
 *
 * The thread holds the lock of the team in each pass, and none while it sleeps. Without operations it sleeps on a board of this process alone: a
 * thread that sleeps on the board of the team costs the other members a system call for each message.
 *
 * A pass reads boards, and rexit unmaps them: so the thread is in a counted call (rpipe/end/call_context.h) for as long as it lives. rexit ends its
 * sleeps, as calls of a thread of the program; the thread checks for it before each pass, and ends; rexit waits for that.
 *
 *     starts       incremented by calls, lock held; the thread loads it before its pass: what it has not seen ends its sleep
 *     readable     the descriptor has been written and not read since; lock held
 */
#include "coll/engine/async.h"

#include "coll/engine/compare.h"
#include "coll/engine/engine.h"
#include "coll/engine/fail.h"
#include "coll/engine/wait.h"
#include "rpipe/end/call_context.h"
#include "util/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ASYNC_SLICE_MS 50
#define ASYNC_STEP_NS 50000 /* pipes are polled, in steps that become longer while nothing comes */
#define ASYNC_STEP_MOST_NS 1000000

struct async {
    rboard_t idle; /* of this process alone */
    _Atomic uint32_t starts;
    bool stops, has_ended;
    pthread_cond_t ended;
    int fd; /* -1: rcoll_fd has not been called */
    bool readable;
};

/* ---- the descriptor ---- */

/* An operation is over, or all of them are. */
static void async_ended(struct rteam *t)
{
    const uint64_t one = 1;
    struct async *a = t->async;

    if (a->fd < 0 || a->readable)
        return;
    a->readable = write(a->fd, &one, sizeof(one)) == sizeof(one);
}

/* ---- the thread ---- */

static bool async_has_work(const struct rteam *t)
{
    for (const struct link *link = t->queue.next; link != &t->queue; link = link->next)
        if (container_of(link, struct rplan, in_queue)->state != PLAN_HELD)
            return true;
    return false;
}

/* Until something may have changed. *step: of the last sleep without a word, in ns. Lock held, and released meanwhile. */
static void async_sleep(struct rteam *t, uint32_t starts, int64_t *step)
{
    struct async *a = t->async;
    rboard_word_t word[WAIT_WORDS + 1];
    bool works = async_has_work(t);
    int n = works ? team_awaited_words(t, word) : 0;

    word[n] = (rboard_word_t){&a->starts, starts};
    team_unlock(t);
    if (!works) {
        (void)rboard_sleep(a->idle, word, 1, R_FOREVER);
    } else if (n > 0) {
        (void)rboard_sleep(t->board, word, n + 1, ASYNC_SLICE_MS);
    } else {
        (void)rpipe_progress();
        clock_sleep(*step);
        *step = *step < ASYNC_STEP_MOST_NS ? 2 * *step : *step;
    }
    team_lock(t);
}

/* One pass. False: nothing is left to do for this team, ever. */
static bool async_pass(struct rteam *t, int64_t *step)
{
    /* acquire: pairs with the release of async_leave_it */
    uint32_t starts = atomic_load_explicit(&t->async->starts, memory_order_acquire);

    if (engine_advance(t)) {
        *step = ASYNC_STEP_NS;
        team_unlock(t); /* a call that waits for the lock comes first */
        team_lock(t);
        return true;
    }
    team_compare_operations(t);
    if (team_is_lost(t)) {
        engine_end_all(t);
        async_ended(t);
        return false;
    }
    async_sleep(t, starts, step);
    return true;
}

static void *async_body(void *of)
{
    struct rteam *t = of;
    int64_t step = ASYNC_STEP_NS;
    struct call call;

    call_enter(&call, "RCOLL_ASYNC");
    team_lock(t);
    while (!t->async->stops && rpipe_initialized() == 1 && async_pass(t, &step))
        continue;
    t->async->has_ended = true;
    pthread_cond_broadcast(&t->async->ended);
    team_unlock(t);
    call_leave(&call);
    return NULL;
}

/* All signals are the program's. */
static int async_start(struct rteam *t)
{
    pthread_attr_t attr;
    sigset_t all, before;
    pthread_t thread;
    int rc;

    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, &attr, async_body, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return -rc;
}

/* ---- opening and closing ---- */

static void async_free(struct rteam *t)
{
    struct async *a = t->async;

    if (a->idle != NULL)
        (void)rboard_close(a->idle);
    if (a->fd >= 0)
        close(a->fd);
    pthread_cond_destroy(&a->ended);
    free(a);
    t->async = NULL;
    t->ended = NULL;
}

int async_open(struct rteam *t, struct error *err)
{
    struct async *a = calloc(1, sizeof(*a));
    uint64_t key[] = {t->name, 0x6173796e63};
    rboard_config_t cfg = {.context = hash_words(HASH_BASIS, key, sizeof(key) / sizeof(*key)) >> 4};
    int rc;

    if (a == NULL)
        return error_set(err, -ENOMEM, "no memory for the thread of a team");
    a->fd = -1;
    pthread_cond_init(&a->ended, NULL);
    t->async = a;
    t->ended = async_ended;
    rc = rboard_open(&a->idle, &cfg, &t->rank[t->me], 1);
    if (rc == 0) {
        rc = async_start(t);
        if (rc != 0)
            error_set(err, rc, "a thread cannot be created: %s", strerror(-rc));
    } else
        error_set(err, rc, "%s", rpipe_error(NULL));
    if (rc != 0)
        async_free(t);
    return rc;
}

void async_close(struct rteam *t)
{
    if (t->async == NULL)
        return;
    team_lock(t);
    t->async->stops = true;
    async_leave_it(t);
    while (!t->async->has_ended)
        pthread_cond_wait(&t->async->ended, &t->lock);
    team_unlock(t);
    async_free(t);
}

/* ---- for calls ---- */

void async_leave_it(struct rteam *t)
{
    struct async *a = t->async;

    /* release: pairs with the acquire of async_pass */
    atomic_fetch_add_explicit(&a->starts, 1, memory_order_release);
    rboard_wake(a->idle, &a->starts);
    rboard_wake(t->board, &a->starts);
}

void async_drain(struct rteam *t)
{
    struct async *a = t->async;
    uint64_t count;

    if (a->readable && read(a->fd, &count, sizeof(count)) == sizeof(count))
        a->readable = false;
}

int rcoll_fd(rteam_t team)
{
    struct async *a;
    int rc = coll_check_job("rcoll_fd");

    if (team == NULL)
        return coll_fail(-EINVAL, "rcoll_fd: the team is NULL");
    if (rc != 0)
        return rc;
    if (team->async == NULL)
        return coll_fail(-ENOTSUP, "rcoll_fd: the team was opened without RCOLL_ASYNC");
    team_lock(team);
    a = team->async;
    if (a->fd < 0)
        a->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    rc = a->fd >= 0 ? a->fd : -errno;
    async_ended(team); /* what was over before may not have been tested */
    team_unlock(team);
    return rc >= 0 ? rc : coll_fail(rc, "rcoll_fd: no descriptor: %s", strerror(-rc));
}
