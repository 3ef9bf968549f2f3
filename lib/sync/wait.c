/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c: see wait.h.
 *
 * Adaptive waiting: where every rank has a core, spinning catches the common case at no cost. Where ranks share cores, every
 * microsecond of spinning is taken from the awaited rank: it is short, and then the core is given away. For a millisecond by yields and
 * not at once by sleep: a sleeper has to be woken by a system call of the other end, is woken for each single message, and stays on
 * the core of its waker while others are idle. With 20 us of yields instead, streams of four ranks on two cores took twice as long,
 * exchanges of neighbours 1.5 times; with 2 us of polls before the first yield instead of a few, exchanges took 1.2 to 1.3 times as long.
 */
#include "sync/wait.h"

#include "sync/futex.h"
#include "sync/patience.h"
#include "util/failpoint.h"
#include "util/membarrier.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#define SPINS_PER_CLOCK 32 /* pauses between readings of the clock */
/*
 * A rank that has been given the core and finds nothing gives it on at once: which of the others can go on is not known. An exchange of
 * four ranks on two cores took 1.25 times as long with 8 polls before the first yield and between two of them.
 */
#define POLLS_PER_YIELD 1
#define ROOMY_POLLS 40
#define CROWDED_POLLS 2
#define ROOMY_SPIN_US                                                                              \
    5 /* no more: two ranks may share a core even here, and then spinning is useless */
#define CROWDED_SPIN_US 0
#define CROWDED_YIELD_US 1000
#define YIELD_EXPENSIVE_US                                                                         \
    500 /* a yield that took longer gave its time slice to another program (yield_policy.h) */
/* Where ranks share cores it may have gone to one of them, which is the purpose of a yield. */
#define CROWDED_EXPENSIVE_US 4000
#define BACKOFF_FIRST_US 50
/* A back-off sleep may last a millisecond, longer than most of what is awaited from a network. */
#define NETWORK_YIELD_US 5000
#define BACKOFF_MOST_US 1000

/* adaptive waiting of this thread */
static _Thread_local struct yield_policy wait_yield_policy;
static _Thread_local struct patience wait_patience; /* where every rank has a core */
static bool wait_roomy = true;                      /* a core for every rank */
_Atomic int wait_first_polls = ROOMY_POLLS;
static int64_t wait_spin_ns = ROOMY_SPIN_US * 1000;
static void (*_Atomic wait_round)(void); /* NULL: rounds do nothing */

void wait_configure(int local_ranks)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN), given = setting_number(SET_SPIN);
    bool crowded = local_ranks > cores;

    wait_roomy = !crowded;
    atomic_store_explicit(&wait_first_polls, crowded ? CROWDED_POLLS : ROOMY_POLLS,
                          memory_order_relaxed);
    wait_spin_ns = (crowded ? CROWDED_SPIN_US : ROOMY_SPIN_US) * 1000;
    if (given >= 0)
        wait_spin_ns = given * 1000;
}

void wait_set_round(void (*round)(void))
{
    /* release: what the caller has prepared for it; pairs with the acquire of wait_make_round */
    atomic_store_explicit(&wait_round, round, memory_order_release);
}

static int64_t wait_yield_ns(void)
{
    return wait_roomy ? patience_ns(&wait_patience) : INT64_C(1000) * CROWDED_YIELD_US;
}

void wait_begin(struct waiter *w, _Atomic uint32_t *word, int64_t deadline, bool fences)
{
    int64_t now = clock_now();

    w->word = word; /* one by one: `many` is large and needs no value */
    w->words = NULL;
    w->sleep = NULL;
    w->many_words = 0;
    w->deadline = deadline;
    w->began = now;
    w->slept = false;
    w->permitted = true;
    w->yields = (struct yield_count){0};
    w->phase = WAIT_SPINNING;
    w->fences = fences;
    w->keep = w->armed = false;
    w->backoff_us = BACKOFF_FIRST_US;
    w->backoff_most_us = BACKOFF_MOST_US;
    w->spins = w->sleeps = 0;
    w->pauses = 1;
    w->slice = WAIT_SLICE_MS * NS_PER_MS;
    w->round_at = now + WAIT_ROUND_NS;
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
        w->yield_from = now + wait_spin_ns;
        w->sleep_from = w->yield_from + wait_yield_ns();
        w->permitted = false;
    }
    if (w->yield_from <= now)
        w->phase = WAIT_YIELDING; /* the first step decides */
}

void wait_remote(struct waiter *w)
{
    if (wait_roomy && setting_number(SET_WAIT) == WAIT_ADAPTIVE && w->sleep_from > w->yield_from)
        w->sleep_from += NETWORK_YIELD_US * 1000;
}

/*
 * The wake word is visible to every processor before the next attempt. Pairs with wake_if_waiting. With many words, the processes that
 * load them may use either fences or membarrier.
 */
static void wait_make_seen(const struct waiter *w)
{
    if (w->fences || !membarrier_all() || w->words != NULL)
        fence_wake_word_before_recheck();
}

/* ns to sleep: a slice, or less where the deadline is nearer */
static int64_t wait_sleep_ns(const struct waiter *w, int64_t now)
{
    int64_t ns = w->slice;

    if (w->deadline != DEADLINE_NEVER && w->deadline - now < ns)
        ns = w->deadline - now;
    return ns > 0 ? ns : 0;
}

static void wait_sleep_on_many(const struct waiter *w, int64_t now)
{
    struct futex_word words[WAIT_WORDS];

    for (uint32_t i = 0; i < w->many_words; i++)
        words[i] = (struct futex_word){w->many[i], 1};
    futex_wait_many(words, w->many_words, now + wait_sleep_ns(w, now));
}

/* False: there is no word to sleep on. */
static bool wait_find_words(struct waiter *w)
{
    if (w->word != NULL)
        return true;
    if (w->words == NULL || !futex_many_works())
        return false;
    w->many_words = w->words(w->of, w->many);
    return w->many_words > 0;
}

static void wait_set_words(const struct waiter *w, uint32_t value)
{
    if (w->word != NULL)
        atomic_store_explicit(w->word, value, memory_order_relaxed);
    else
        for (uint32_t i = 0; i < w->many_words; i++)
            atomic_store_explicit(w->many[i], value, memory_order_relaxed);
}

/* Before the first yield of an adaptive wait, and not where it ends earlier: is this one of those that sleep at once? */
static bool wait_may_yield(struct waiter *w)
{
    if (!w->permitted) {
        w->permitted = true;
        if (!yield_policy_permits(&wait_yield_policy))
            w->sleep_from = w->yield_from;
    }
    return w->sleep_from > w->yield_from;
}

static void wait_yield(struct waiter *w, int64_t now)
{
    w->phase = WAIT_SPINNING;
    w->spins = wait_roomy ? 0 : SPINS_PER_CLOCK - POLLS_PER_YIELD;
    sched_yield();
    yield_count_add(&w->yields, now, clock_now(),
                    (wait_roomy ? YIELD_EXPENSIVE_US : CROWDED_EXPENSIVE_US) * INT64_C(1000));
}

static NOINLINE void wait_make_round(struct waiter *w, int64_t now)
{
    /* acquire: pairs with the release of wait_set_round */
    void (*round)(void) = atomic_load_explicit(&wait_round, memory_order_acquire);

    w->round_at = now + WAIT_ROUND_NS;
    if (round != NULL)
        round();
}

int wait_step(struct waiter *w)
{
    int64_t now;

    if (w->phase == WAIT_SPINNING && ++w->spins % SPINS_PER_CLOCK != 0) {
        for (uint32_t i = 0; i < w->pauses; i++)
            cpu_pause();
        return 0;
    }
    now = clock_now();
    if (w->deadline != DEADLINE_NEVER && now >= w->deadline)
        return -ETIMEDOUT;
    if (UNLIKELY(now >= w->round_at))
        wait_make_round(w, now);
    if (w->phase == WAIT_ARMED) {
        if (w->word != NULL)
            futex_wait(w->word, 1, wait_sleep_ns(w, now));
        else
            wait_sleep_on_many(w, now);
        w->slept = true;
        w->sleeps++;
        w->phase = WAIT_YIELDING; /* to be armed again: the waker has cleared the word */
        return 0;
    }
    if (now < w->yield_from) {
        cpu_pause();
    } else if (now < w->sleep_from && wait_may_yield(w)) {
        wait_yield(w, now);
    } else if (w->sleep != NULL) {
        w->sleep(w->of, wait_sleep_ns(w, now));
        w->phase = WAIT_YIELDING; /* one attempt, then the next sleep */
        w->slept = true;
        w->sleeps++;
    } else if (!wait_find_words(w)) {
        clock_sleep((int64_t)w->backoff_us * 1000);
        w->phase = WAIT_YIELDING; /* no more spinning: one attempt, then the next back-off */
        w->slept = true;
        w->sleeps++;
        w->backoff_us =
            w->backoff_us * 2 > w->backoff_most_us ? w->backoff_most_us : w->backoff_us * 2;
    } else {
        wait_set_words(w, 1); /* made seen by the next line */
        RPIPE_FAILPOINT("wait: wake word set");
        wait_make_seen(w);
        w->armed = true;
        w->phase = WAIT_ARMED;
    }
    return 0;
}

/* A wait that yields and then sleeps on a word has slept. */
static void wait_learn(const struct waiter *w)
{
    int64_t now = clock_now();

    if (w->deadline == DEADLINE_NEVER || now < w->deadline)
        patience_slept(&wait_patience, now - w->began);
}

void wait_end(struct waiter *w)
{
    yield_policy_wait_ended(&wait_yield_policy, &w->yields);
    if (w->slept && w->armed && wait_roomy && setting_number(SET_WAIT) == WAIT_ADAPTIVE)
        wait_learn(w);
    if (w->armed && !w->keep)
        wait_set_words(w, 0); /* a stale 1 would only cost a needless wake-up */
}

int wait_until(struct waiter *w, int (*attempt)(void *of), void *of)
{
    int rc;

    while ((rc = attempt(of)) == -EAGAIN)
        if (wait_step(w) != 0) {
            rc = -ETIMEDOUT;
            break;
        }
    wait_end(w);
    return rc;
}

int wait_by_sleeps(int64_t deadline, int (*attempt)(void *of), void *of)
{
    struct waiter w;

    wait_begin(&w, NULL, deadline, false);
    w.yield_from = w.sleep_from = w.began;
    w.phase = WAIT_YIELDING;
    return wait_until(&w, attempt, of);
}

void wake_up(_Atomic uint32_t *word)
{
    /* first the word, then the wake-up: a thread that sets it in between is woken; one that sets it later sees the awaited store */
    atomic_store_explicit(word, 0, memory_order_seq_cst);
    RPIPE_FAILPOINT("wake: word cleared");
    futex_wake(word);
}
