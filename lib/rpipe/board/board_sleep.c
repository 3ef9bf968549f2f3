/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * board_sleep.c: rboard_wake and rboard_sleep (doc/boards.md "Sleep and wake", model/board.pml); see board.h.
 *
 * The sleeper counts itself in a word of its own memory, which the waker loads after its store: so no process writes the memory of
 * another one. The kernel compares the awaited words once more before it sleeps.
 */
#include "rpipe/board/board.h"

#include "control/control.h"
#include "observe/record/publish.h"
#include "rpipe/end/call.h"
#include "rpipe/end/cork.h"
#include "rpipe/end/job_state.h"
#include "sync/futex.h"
#include "sync/wait.h"
#include "util/failpoint.h"
#include "util/membarrier.h"

#include <errno.h>

#define SLEEP_WORDS_MOST 64
#define SLICE_NS (WAIT_SLICE_MS * NS_PER_MS)
#define BACKOFF_NS                                                                                 \
    NS_PER_MS /* one of several words changes, and the kernel can sleep on one only */

static_assert(SLEEP_WORDS_MOST + 1 <= FUTEX_WORDS_MOST, "the words of the caller, and `news`");

void rboard_wake(rboard_t board, const void *word)
{
    uint32_t mates = atomic_load_explicit(&board->mates, memory_order_relaxed);

    /* Pairs with the membarrier, or fence, of the sleeper between the store of its `sleepers` and its last load of the words. */
    if (atomic_load_explicit(&board->fences, memory_order_relaxed))
        fence_store_before_wake_look();
    else
        compiler_store_before_wake_look();
    for (uint32_t i = 0; i < mates; i++) {
        /* acquire: pairs with the release of the service thread, after the mapping */
        const _Atomic uint32_t *sleepers =
            atomic_load_explicit(&board->sleepers[i], memory_order_acquire);

        if (UNLIKELY(atomic_load_explicit(sleepers, memory_order_relaxed) != 0)) {
            RPIPE_FAILPOINT("rboard_wake: stored");
            futex_wake(word);
            return;
        }
    }
}

void rboard_wake_one(rboard_t board, const void *word, int member)
{
    const _Atomic uint32_t *sleepers;

    if (member < 0 || member >= board->n || !board->member[member].here ||
        atomic_load_explicit(&board->mates, memory_order_relaxed) == 0)
        return;
    /* as rboard_wake */
    if (atomic_load_explicit(&board->fences, memory_order_relaxed))
        fence_store_before_wake_look();
    else
        compiler_store_before_wake_look();
    sleepers =
        atomic_load_explicit(&board->sleepers[board->member[member].mate], memory_order_acquire);
    if (UNLIKELY(atomic_load_explicit(sleepers, memory_order_relaxed) != 0))
        futex_wake(word);
}

struct board_sleep {
    struct futex_word word[SLEEP_WORDS_MOST + 1]; /* the last one is `news` */
    int n;
    int64_t deadline;
};

static int board_sleep_check(const rboard_word_t *words, int n, int timeout_ms)
{
    if (words == NULL || n < 1 || n > SLEEP_WORDS_MOST || timeout_ms < -1)
        return call_error(
            NULL, -EINVAL,
            "words is %s, n is %d, timeout_ms is %d; n must be 1 to %d, timeout_ms 0, a number "
            "of ms, or R_FOREVER (-1)",
            words == NULL ? "NULL" : "given", n, timeout_ms, SLEEP_WORDS_MOST);
    for (int i = 0; i < n; i++)
        if (words[i].word == NULL || (uintptr_t)words[i].word % sizeof(uint32_t) != 0)
            return call_error(NULL, -EINVAL, "word %d is %p; it must be aligned to 4 bytes", i,
                              words[i].word);
    return 0;
}

static bool board_sleep_changed(const struct board_sleep *s)
{
    for (int i = 0; i < s->n; i++)
        /* acquire: pairs with the release store of the member; what it stored before is visible */
        if (atomic_load_explicit(s->word[i].word, memory_order_acquire) != s->word[i].seen)
            return true;
    return false;
}

/* One slice: the words, and the news of this process where the kernel can sleep on both. */
static void board_sleep_slice(const struct board_sleep *s, int64_t now)
{
    int64_t ns = s->deadline - now < SLICE_NS ? s->deadline - now : SLICE_NS;

    if (futex_many_works())
        futex_wait_many(s->word, (uint32_t)s->n + 1, now + ns);
    else
        futex_wait(s->word[0].word, s->word[0].seen, s->n > 1 && ns > BACKOFF_NS ? BACKOFF_NS : ns);
}

/* A process that is killed wakes no thread: its liveness word is marked before its connection ends. */
static void board_check_liveness(const struct rboard *b)
{
    for (int i = 0; i < b->n; i++)
        if (b->member[i].here && i != b->me)
            control_check_peer(b->member[i].rank);
}

/* With the own `sleepers` counted, and visible. */
static int board_sleep_until_changed(struct rboard *b, struct board_sleep *s)
{
    /* acquire: pairs with board_wake_own, as below */
    const uint32_t news = atomic_load_explicit(&b->news, memory_order_acquire);

    for (;;) {
        int64_t now;
        int rc;

        /* acquire: pairs with board_wake_own; what it reports is checked below */
        s->word[s->n] =
            (struct futex_word){&b->news, atomic_load_explicit(&b->news, memory_order_acquire)};
        if (board_sleep_changed(s))
            return 0;
        if (b->goes_on && s->word[s->n].seen != news)
            return 0; /* the state of a member may have changed */
        rc = calls_ended() ? job_check() : b->goes_on ? 0 : board_lost_error(b);
        if (rc != 0)
            return rc;
        now = clock_now();
        if (now >= s->deadline)
            return -ETIMEDOUT;
        board_sleep_slice(s, now);
        board_check_liveness(b);
    }
}

int rboard_sleep(rboard_t board, const rboard_word_t *words, int n, int timeout_ms)
{
    struct board_sleep s;
    struct call call;
    int rc;

    call_enter(&call, "rboard_sleep");
    rc = board_check(board);
    if (rc == 0)
        rc = board_sleep_check(words, n, timeout_ms);
    if (rc != 0)
        return call_end(&call, rc);
    s.n = n;
    s.deadline = deadline_in_ms(timeout_ms);
    for (int i = 0; i < n; i++)
        s.word[i] = (struct futex_word){words[i].word, words[i].seen};
    cork_before_wait();
    publish_process_wait("a word of another member in rboard_sleep");
    atomic_fetch_add_explicit(board->own_sleepers, 1, memory_order_relaxed);
    RPIPE_FAILPOINT("rboard_sleep: counted");
    /* Pairs with rboard_wake: a waker may rely on either, and which one is its own decision. */
    (void)membarrier_all();
    fence_wake_word_before_recheck();
    rc = board_sleep_until_changed(board, &s);
    atomic_fetch_sub_explicit(board->own_sleepers, 1, memory_order_relaxed);
    publish_process_wait(NULL);
    if (rc == -ETIMEDOUT)
        rc = call_error(NULL, rc, "none of %d words has changed within %d ms", n, timeout_ms);
    return call_end(&call, rc);
}
