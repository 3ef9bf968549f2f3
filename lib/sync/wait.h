/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.h: how a thread waits: it spins, yields, sleeps, or does one after the other (doc/protocol.md "Waiting", model/sleep.pml).
 *
 *     struct waiter w;
 *     wait_begin(&w, word, deadline, fences);
 *     rc = wait_until(&w, attempt, &arguments);
 *
 * The attempt includes the death of the peer. Between attempts wait_step() either passes a little time or prepares to sleep: it sets
 * the wake word, makes that visible (membarrier or fence), and returns, so that one more attempt is made; only the next step sleeps,
 * in slices, on a word that is still set. So no store that is followed by a load of the wake word (wake_if_waiting) is missed, and
 * the end of a process that wakes nothing is noticed within a slice.
 *
 * A wait of which all attempts have found nothing for WAIT_ROUND_NS, some 64 polls of a socket, makes a round, and another one after each further
 * WAIT_ROUND_NS: it calls what the layers above have set by wait_set_round (doc/threads.md "Progress").
 */
#ifndef SYNC_WAIT_H
#define SYNC_WAIT_H

#include "sync/yield_policy.h"
#include "util/clock.h"
#include "util/cpu.h"
#include "util/settings.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WAIT_SLICE_MS 50
#define WAIT_ROUND_NS 50000

/*
 * Polls of a flag, with a pause between two, before anything else: some 2 us (a pause takes up to 140 cycles, Intel since Skylake),
 * in which most answers of a ping-pong arrive. Without pauses the polls delay the store that they wait for: 5 to 10 ns per message
 * were measured. Where ranks share cores they are few: the awaited process may need this core.
 */
extern _Atomic int wait_first_polls;

#define WAIT_WORDS 64 /* that a thread can sleep on at once; the kernel allows 128 */

/* Finds the wake words of all that is awaited, before each sleep. Returns how many; 0: there are none, and the thread backs off. */
typedef uint32_t (*wait_words)(void *of, _Atomic uint32_t *word[WAIT_WORDS]);

enum wait_phase { WAIT_SPINNING, WAIT_YIELDING, WAIT_ARMED };

struct waiter {
    _Atomic uint32_t *word; /* NULL: `words`, or back-off sleeps */
    wait_words words;       /* NULL: there is one word or none. Set after wait_begin */
    /* Not NULL: how this thread sleeps, for at most so many ns, where no wake word can be set. Set after wait_begin */
    void (*sleep)(void *of, int64_t ns);
    void *of;                           /* of `words`, of `sleep` */
    _Atomic uint32_t *many[WAIT_WORDS]; /* the result of `words` */
    uint32_t many_words;
    int64_t deadline, yield_from, sleep_from;
    int64_t began;
    bool slept; /* for the statistics */
    enum wait_phase phase;
    bool permitted; /* to yield until sleep_from: yield_policy.h has been asked, or is not to be */
    struct yield_count yields;
    bool fences;              /* no membarrier between the two processes: both sides fence */
    bool keep;                /* other threads may sleep on the word: do not clear it */
    bool armed;               /* the word was set by this waiter */
    uint32_t backoff_us;      /* the next back-off sleep */
    uint32_t backoff_most_us; /* the longest one; longer where attempts are expensive */
    uint32_t spins;
    uint32_t pauses; /* between two polls while spinning; more where a poll delays the other end */
    uint32_t sleeps; /* for the statistics */
    /* ns to sleep at most before the next attempt; WAIT_SLICE_MS unless it is changed */
    int64_t slice;
    int64_t round_at; /* the next round, not before */
};

/* In rinit: how many ranks share this host. */
void wait_configure(int local_ranks);

/* Called by waiting threads, between two attempts, from now on. It does not wait, and takes no lock that a caller of wait_step has. */
void wait_set_round(void (*round)(void));

void wait_begin(struct waiter *w, _Atomic uint32_t *word, int64_t deadline, bool fences);
/* What is awaited crosses a network: adaptive waiting yields longer where there are enough cores. */
void wait_remote(struct waiter *w);
int wait_step(struct waiter *w); /* 0, or -ETIMEDOUT */
void wait_end(struct waiter *w);
/* Attempts, with wait_step in between, until the result is not -EAGAIN; then wait_end. The result, or -ETIMEDOUT. */
int wait_until(struct waiter *w, int (*attempt)(void *of), void *of);
/* The same, for what no thread signals and takes long: the first attempt, then one after each back-off sleep. */
int wait_by_sleeps(int64_t deadline, int (*attempt)(void *of), void *of);

void wake_up(_Atomic uint32_t *word) NOINLINE; /* clears the word, then wakes every sleeper */

/*
 * After a store that may end the other side's wait: does it sleep? Pairs with the membarrier, or fence, in wait_step between the store
 * of the wake word and the next attempt. True if a thread was woken.
 */
static inline bool wake_if_waiting(_Atomic uint32_t *word, bool fences)
{
    if (UNLIKELY(fences))
        fence_store_before_wake_look();
    else
        compiler_store_before_wake_look();
    if (LIKELY(atomic_load_explicit(word, memory_order_relaxed) == 0))
        return false;
    wake_up(word);
    return true;
}

#endif
