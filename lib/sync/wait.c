/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c: see wait.h.
 *
 * Adaptive waiting: where every rank has a core, spinning catches the common case and costs nobody anything; where ranks
 * share cores, every microsecond of spinning is taken from the rank that is waited for, so it is short, and sleep is near.
 */
#include "sync/wait.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPINS_PER_LOOK 32 /* pauses between looks at the clock */
#define ROOMY_SPIN_US 5   /* not more: nothing forbids two ranks on one core, and then all of it is in vain */
#define ROOMY_YIELD_US 200
#define CROWDED_SPIN_US 1
#define CROWDED_YIELD_US 20
#define YIELD_DEAR_US 500    /* a yield that took so long gave its time slice to somebody else's work */
#define YIELD_NOT_FOR_MS 100 /* after one such: who sleeps is woken before that work, who yields waits behind it */
#define NAP_FIRST_US 50
#define NAP_MOST_US 1000

static _Atomic int64_t no_yield_before; /* adaptive waiting of this process sleeps at once until then */
static int64_t spin_ns = ROOMY_SPIN_US * 1000, yield_ns = ROOMY_YIELD_US * 1000;

void wait_configure(int local_ranks)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN), given = setting_number(SET_SPIN);
    bool crowded = local_ranks > cores;

    spin_ns = (crowded ? CROWDED_SPIN_US : ROOMY_SPIN_US) * 1000;
    yield_ns = (crowded ? CROWDED_YIELD_US : ROOMY_YIELD_US) * 1000;
    if (given >= 0)
        spin_ns = given * 1000;
}

void wait_begin(struct waiter *w, _Atomic uint32_t *word, int64_t deadline, bool fences)
{
    int64_t now = clock_now();

    *w = (struct waiter){.word = word, .deadline = deadline, .fences = fences, .pauses = 1};
    w->nap_us = NAP_FIRST_US;
    w->nap_most_us = NAP_MOST_US;
    w->slice = WAIT_SLICE_MS * NS_PER_MS;
    switch (setting_number(SET_WAIT)) {
    case WAIT_SPIN:
        w->yield_from = w->sleep_from = DEADLINE_NEVER;
        break;
    case WAIT_YIELD:
        w->yield_from = now;
        w->sleep_from = DEADLINE_NEVER;
        break;
    case WAIT_SLEEP:
        w->yield_from = w->sleep_from = now;
        break;
    default:
        w->yield_from = now + spin_ns;
        w->sleep_from = w->yield_from;
        if (now >= atomic_load_explicit(&no_yield_before, memory_order_relaxed))
            w->sleep_from += yield_ns;
    }
    if (w->sleep_from <= now)
        w->phase = WAIT_YIELDING; /* the first step decides */
}

/* The wake word is visible to every processor before the condition is looked at again. Pairs with wake_look. */
static void make_seen(const struct waiter *w)
{
    if (w->fences || syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) != 0)
        fence_wake_word_before_recheck();
}

static void nap(uint32_t us)
{
    struct timespec t = {0, (long)us * 1000};

    nanosleep(&t, NULL);
}

static void sleep_on(const struct waiter *w, int64_t now)
{
    int64_t ns = w->slice;
    struct timespec t;

    if (w->deadline != DEADLINE_NEVER && w->deadline - now < ns)
        ns = w->deadline - now;
    t = (struct timespec){0, ns > 0 ? (long)ns : 0};
    syscall(SYS_futex, w->word, FUTEX_WAIT, 1, &t, NULL, 0);
}

int wait_step(struct waiter *w)
{
    int64_t now;

    if (w->phase == WAIT_SPINNING && ++w->spins % SPINS_PER_LOOK != 0) {
        for (uint32_t i = 0; i < w->pauses; i++)
            cpu_pause();
        return 0;
    }
    now = clock_now();
    if (w->deadline != DEADLINE_NEVER && now >= w->deadline)
        return -ETIMEDOUT;
    if (w->phase == WAIT_ARMED) {
        sleep_on(w, now);
        w->sleeps++;
        w->phase = WAIT_YIELDING; /* arm again: the waker has cleared the word */
        return 0;
    }
    if (now < w->yield_from) {
        cpu_pause();
    } else if (now < w->sleep_from) {
        w->phase = WAIT_YIELDING;
        sched_yield();
        if (clock_now() - now > YIELD_DEAR_US * 1000)
            atomic_store_explicit(&no_yield_before, now + YIELD_NOT_FOR_MS * NS_PER_MS, memory_order_relaxed);
    } else if (w->word == NULL) {
        nap(w->nap_us);
        w->phase = WAIT_YIELDING; /* no more spinning: one look, then the next nap */
        w->sleeps++;
        w->nap_us = w->nap_us * 2 > w->nap_most_us ? w->nap_most_us : w->nap_us * 2;
    } else {
        atomic_store_explicit(w->word, 1, memory_order_relaxed); /* made seen by the next line */
        make_seen(w);
        w->armed = true;
        w->phase = WAIT_ARMED;
    }
    return 0;
}

void wait_end(struct waiter *w)
{
    if (w->armed && !w->keep && w->word != NULL)
        atomic_store_explicit(w->word, 0, memory_order_relaxed); /* a stale 1 would only cost a needless wake-up */
}

void wake_up(_Atomic uint32_t *word)
{
    /* first the word, then the wake-up: a sleeper that sets it in between is woken at once, one that sets it later sees why */
    atomic_store_explicit(word, 0, memory_order_seq_cst);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
