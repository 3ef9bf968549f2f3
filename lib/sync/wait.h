/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.h: how a call waits: spin, yield, sleep, or one after the other (DESIGN §5 "Waiting", model/sleep.pml).
 *
 *     struct waiter w;
 *     wait_begin(&w, word, deadline, fences);
 *     while (!condition()) {
 *         if (wait_step(&w) != 0) → -ETIMEDOUT
 *     }
 *     wait_end(&w);
 *
 * The condition includes the death word. wait_step() either passes a little time, or prepares to sleep: it sets the wake
 * word, makes sure that it is seen (membarrier or fence), and returns so that the condition is looked at once more; only
 * the next step sleeps, in slices, on a word that is still set. So no store that is followed by a look at the wake word
 * (wake_if_waiting) can be missed, and the dead, who wake nobody, are noticed within a slice.
 */
#ifndef SYNC_WAIT_H
#define SYNC_WAIT_H

#include "util/clock.h"
#include "util/cpu.h"
#include "util/settings.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WAIT_SLICE_MS 50

/*
 * Looks at a flag, a pause between two, before anything else: some 2 us (a pause takes up to 140 cycles, Intel since
 * Skylake), in which most answers of a ping-pong arrive. Without pauses the looks disturb the store that they wait for:
 * 5 to 10 ns per message were measured. Where ranks share cores it is a few: what is waited for may need this core.
 */
extern _Atomic int wait_first_polls;

#define WAIT_WORDS 64 /* that a thread can sleep on at once; the kernel allows 128 */

/* Where the words are that who waits for many things sleeps on, found anew each time: how many, 0: it cannot; it naps. */
typedef uint32_t (*wait_words)(void *of, _Atomic uint32_t *word[WAIT_WORDS]);

enum wait_phase { WAIT_SPINNING, WAIT_YIELDING, WAIT_ARMED };

struct waiter {
    _Atomic uint32_t *word; /* NULL: `words`, or naps instead of sleep */
    wait_words words;       /* NULL: there is one, or none. Set after wait_begin */
    void *of;
    _Atomic uint32_t *many[WAIT_WORDS]; /* what `words` has found last */
    uint32_t many_words;
    int64_t deadline, yield_from, sleep_from;
    int64_t began;
    bool slept; /* for the statistics */
    enum wait_phase phase;
    bool fences; /* no membarrier between the two processes: both sides fence */
    bool keep;   /* other threads may sleep on the word: do not clear it */
    bool armed;  /* the word was set by this waiter */
    uint32_t backoff_us,
        backoff_most_us; /* the next nap, and the longest; where a look is dear, naps are longer */
    uint32_t spins;
    uint32_t
        pauses; /* between two looks while spinning; more where each look disturbs the one who is waited for */
    uint32_t sleeps; /* for the statistics */
    int64_t
        slice; /* ns to sleep at most, then the condition is looked at again; WAIT_SLICE_MS unless it is changed */
};

/* Once, in rinit, and again when more is known: how many ranks share this host. */
void wait_configure(int local_ranks);

void wait_begin(struct waiter *w, _Atomic uint32_t *word, int64_t deadline, bool fences);
void wait_remote(
    struct waiter
        *w); /* adaptive, where there are cores enough: what is waited for crosses a network */
int wait_step(struct waiter *w); /* 0, or -ETIMEDOUT */
void wait_end(struct waiter *w);

void wake_up(_Atomic uint32_t *word) NOINLINE; /* clears the word, then wakes every sleeper */

/*
 * After a store that may end the other side's wait: is he asleep? Pairs with the membarrier, or fence, in wait_step between
 * setting the word and looking at the condition again. True if somebody was woken.
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
