/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Boards of all ranks and of some, in any order; opened late, again, with sizes that differ, and not at all; barriers that only sleep;
 * a failure that one member reports; words for single members. -apart: each rank is a host of its own, as far as boards are concerned.
 */
#include "test/lib/mp_check.h"

#include <stdatomic.h>

static bool apart;

static int board_open(rboard_t *b, const int *ranks, int n, uint64_t context, uint64_t bytes)
{
    rboard_config_t cfg = {.context = context, .bytes = bytes, .timeout_ms = R_FOREVER};

    return rboard_open(b, &cfg, ranks, n);
}

static rboard_t board_of(const int *ranks, int n, uint64_t context, uint64_t bytes)
{
    rboard_t b;

    CHECK_OK(NULL, board_open(&b, ranks, n, context, bytes));
    CHECK_OK(NULL, rboard_wait(b));
    return b;
}

static uint32_t word_of(rboard_t b, int member)
{
    const _Atomic uint32_t *word = rboard_mem_of(b, member);

    CHECK(NULL, word != NULL);
    return atomic_load_explicit(word, memory_order_acquire);
}

static void store_own(rboard_t b, uint32_t value)
{
    _Atomic uint32_t *word = rboard_mem(b);

    atomic_store_explicit(word, value, memory_order_release);
    rboard_wake(b, word);
}

/* Sleeps, and does nothing else, until the words of all members are `value` or beyond it. */
static void await_all(rboard_t b, int n, uint32_t value)
{
    rboard_word_t words[64];
    int missing;

    if (apart)
        return;
    do {
        missing = 0;
        for (int i = 0; i < n; i++) {
            uint32_t seen = word_of(b, i);

            if ((int32_t)(seen - value) < 0)
                words[missing++] = (rboard_word_t){rboard_mem_of(b, i), seen};
        }
        if (missing > 0)
            CHECK_OK(NULL, rboard_sleep(b, words, missing, R_FOREVER));
    } while (missing > 0);
}

/* ---- memory ---- */

static void memory(uint64_t context, uint64_t bytes, bool late)
{
    rboard_t b;
    char *own;

    if (late && mp_rank == 0)
        compute_ms(50);
    b = board_of(NULL, mp_ranks, context, bytes);
    own = rboard_mem(b);
    CHECK(NULL, own != NULL && (uintptr_t)own % 4096 == 0);
    for (uint64_t i = 0; i < bytes; i++)
        CHECK(NULL, own[i] == 0);
    pattern_fill(own, bytes, mp_key(mp_rank, 0, (uint32_t)context, bytes));
    CHECK_OK(NULL, network_barrier());
    for (int i = 0; i < mp_ranks; i++) {
        const void *mem = rboard_mem_of(b, i);

        CHECK(NULL, rboard_host(b, i) == (apart ? i : 0));
        CHECK(NULL, (mem == NULL) == (apart && i != mp_rank));
        CHECK(NULL,
              mem == NULL || pattern_same(mem, bytes, mp_key(i, 0, (uint32_t)context, bytes)));
    }
    CHECK(NULL, rboard_mem_of(b, mp_ranks) == NULL && rboard_mem_of(b, -1) == NULL);
    CHECK(NULL, rboard_host(b, mp_ranks) == -EINVAL);
    CHECK(NULL, rboard_lost(b, NULL) == 0);
    CHECK_OK(NULL, rboard_close(b)); /* others may still read */
}

/* Each reads what all others have in their own memory; what is not there, and what a member has that is on another host, is refused. */
static void private_memory(uint64_t context)
{
    const size_t bytes = 100000;
    char *mine = malloc(bytes), *others = malloc(bytes);
    rboard_t b = board_of(NULL, mp_ranks, context, 4096);
    uint64_t *own = rboard_mem(b);

    CHECK(NULL, mine != NULL && others != NULL);
    pattern_fill(mine, bytes, mp_key(mp_rank, 0, (uint32_t)context, bytes));
    own[0] = (uint64_t)(uintptr_t)mine;
    CHECK_OK(NULL, network_barrier());
    for (int i = 0; i < mp_ranks; i++) {
        const uint64_t *words = rboard_mem_of(b, i);

        if (words == NULL) {
            CHECK_RC(-EAGAIN, NULL, rboard_fetch(b, i, others, mine, bytes));
            continue;
        }
        CHECK_OK(NULL, rboard_fetch(b, i, others, (const void *)(uintptr_t)words[0], bytes));
        CHECK(NULL, pattern_same(others, bytes, mp_key(i, 0, (uint32_t)context, bytes)));
        CHECK(NULL, i == mp_rank ||
                        rboard_fetch(b, i, others, (const void *)(uintptr_t)64, bytes) == -EPROTO);
    }
    CHECK_RC(-EINVAL, NULL, rboard_fetch(b, mp_ranks, others, mine, bytes));
    CHECK_OK(NULL, network_barrier());
    if (mp_rank == 0)
        CHECK_OK(NULL, rboard_close(b));
    CHECK_OK(NULL, network_barrier());
    if (mp_rank != 0 && !apart)
        CHECK_RC(-EPROTO, NULL,
                 rboard_fetch(b, 0, others,
                              (const void *)(uintptr_t) * (const uint64_t *)rboard_mem_of(b, 0),
                              bytes));
    CHECK_OK(NULL, network_barrier());
    if (mp_rank != 0)
        CHECK_OK(NULL, rboard_close(b));
    free(mine);
    free(others);
}

/* The boards of two lists in one context, one of them in the opposite order, are different ones. */
static void subsets(uint64_t context)
{
    int some[64], n = 0, me = -1;
    rboard_t all, b;

    if (mp_ranks == 1)
        return;
    for (int r = mp_ranks - 1; r >= 0; r--)
        if (r % 2 == mp_rank % 2) {
            me = r == mp_rank ? n : me;
            some[n++] = r;
        }
    CHECK_OK(NULL, board_open(&all, NULL, mp_ranks, context, 100));
    b = board_of(some, n, context, 200);
    CHECK(NULL, rboard_mem_of(b, me) == rboard_mem(b));
    store_own(b, 1 + (uint32_t)mp_rank);
    if (!apart)
        for (int i = 0; i < n; i++)
            while (word_of(b, i) == 0)
                ;
    for (int i = 0; i < n && !apart; i++)
        CHECK(NULL, word_of(b, i) == 1 + (uint32_t)some[i]);
    CHECK_OK(NULL, rboard_wait(all));
    CHECK(NULL, word_of(all, mp_rank) == 0);
    CHECK_RC(-EEXIST, NULL, board_open(&all, NULL, mp_ranks, context, 100));
    CHECK_OK(NULL, rboard_close(all));
    CHECK_OK(NULL, rboard_close(b));
}

/* The k-th board of a context is that of all members, also where some are ahead. */
static void again(uint64_t context, uint32_t rounds)
{
    for (uint32_t k = 1; k <= rounds; k++) {
        rboard_t b = board_of(NULL, mp_ranks, context, 4096);

        for (int i = 0; i < mp_ranks && !apart; i++)
            CHECK(NULL, word_of(b, i) == 0 || word_of(b, i) == k);
        store_own(b, k);
        await_all(b, mp_ranks, k);
        CHECK_OK(NULL, rboard_close(b));
    }
}

/* ---- what does not fit ---- */

static void sizes_differ(uint64_t context)
{
    rboard_t b;

    if (mp_ranks == 1 || apart)
        return;
    CHECK_OK(NULL, board_open(&b, NULL, mp_ranks, context, mp_rank == 0 ? 8192 : 4096));
    CHECK_RC(-EPROTO, NULL, rboard_wait(b));
    CHECK_ERROR(NULL, "8192");
    CHECK_ERROR(NULL, "4096");
    CHECK_OK(NULL, network_barrier());
    CHECK_OK(NULL, rboard_close(b));
}

/* Rank 0 opens it when all others have closed it again. */
static void not_opened(uint64_t context)
{
    rboard_config_t cfg = {.context = context, .timeout_ms = 60};
    rboard_t b;

    if (mp_ranks == 1 || apart)
        return;
    if (mp_rank != 0)
        CHECK_OK(NULL, rboard_open(&b, &cfg, NULL, mp_ranks));
    CHECK_OK(NULL, network_barrier());
    if (mp_rank != 0) {
        CHECK_RC(-ETIMEDOUT, NULL, rboard_wait(b));
        CHECK_ERROR(NULL, "rank 0");
    }
    CHECK_OK(NULL, network_barrier());
    if (mp_rank != 0)
        CHECK_OK(NULL, rboard_close(b));
    CHECK_OK(NULL, network_barrier());
    if (mp_rank == 0) {
        CHECK_OK(NULL, board_open(&b, NULL, mp_ranks, context, 4096));
        CHECK_RC(-EPIPE, NULL, rboard_wait(b));
        CHECK_ERROR(NULL, "has closed");
        CHECK_OK(NULL, rboard_close(b));
    }
}

/* ---- sleeping ---- */

static void barriers(uint64_t context, uint32_t rounds)
{
    rboard_t b = board_of(NULL, mp_ranks, context, 64);

    for (uint32_t k = 1; k <= rounds; k++) {
        store_own(b, k);
        await_all(b, mp_ranks, k);
    }
    CHECK_OK(NULL, rboard_close(b));
}

static void deadline(uint64_t context)
{
    rboard_t b = board_of(NULL, mp_ranks, context, 64);
    rboard_word_t word = {rboard_mem_of(b, apart ? mp_rank : 0), 0};
    double begun = now_ms();

    CHECK_RC(-ETIMEDOUT, NULL, rboard_sleep(b, &word, 1, 120));
    CHECK(NULL, now_ms() - begun >= 119);
    CHECK_OK(NULL, network_barrier());
    CHECK_OK(NULL, rboard_close(b));
}

/* The last rank fails; all others are asleep. */
static void failure(uint64_t context)
{
    rboard_t b = board_of(NULL, mp_ranks, context, 64);
    rboard_word_t word = {rboard_mem(b), 0};
    int member = -1, last = mp_ranks - 1;

    CHECK_OK(NULL, network_barrier()); /* no rank is in rboard_wait any more */
    if (mp_rank == last) {
        compute_ms(30);
        CHECK_OK(NULL, rboard_fail(b, -ECANCELED));
        CHECK_OK(NULL, rboard_fail(b, -EIO)); /* the first one stays */
    }
    CHECK_RC(-ECANCELED, NULL, rboard_sleep(b, &word, 1, R_FOREVER));
    CHECK(NULL, rboard_lost(b, &member) == -ECANCELED && member == last);
    CHECK_RC(-ECANCELED, NULL, rboard_wait(b));
    CHECK_OK(NULL, network_barrier());
    CHECK_OK(NULL, rboard_close(b));
}

/* The report of rank 0 has come to all others: it was sent before this, on the same connection. */
static void await_report(void)
{
    char go = 1;

    for (int r = 1; mp_rank == 0 && r < mp_ranks; r++)
        CHECK_OK(NULL, network_send(r, &go, sizeof(go)));
    if (mp_rank != 0)
        CHECK_OK(NULL, network_recv(0, &go, sizeof(go)));
}

/* Rank 0 has failed before the others open; `closed`: and has closed the board. */
static void failed_before(uint64_t context, bool closed)
{
    rboard_word_t word = {NULL, 0};
    int member = -1;
    rboard_t b;

    if (mp_rank == 0) {
        CHECK_OK(NULL, board_open(&b, NULL, mp_ranks, context, 64));
        CHECK_OK(NULL, rboard_fail(b, -EIO));
        if (closed)
            CHECK_OK(NULL, rboard_close(b));
    }
    await_report();
    if (mp_rank != 0) {
        CHECK_OK(NULL, board_open(&b, NULL, mp_ranks, context, 64));
        word.word = rboard_mem(b);
        CHECK_RC(-EIO, NULL, rboard_sleep(b, &word, 1, R_FOREVER));
        CHECK(NULL, rboard_lost(b, &member) == -EIO && member == 0);
        CHECK_RC(-EIO, NULL, rboard_wait(b));
    }
    CHECK_OK(NULL, network_barrier());
    if (mp_rank != 0 || !closed)
        CHECK_OK(NULL, rboard_close(b));
}

/* What is kept of a board is for that board: the next one of the same name is whole. */
static void failed_once(uint64_t context)
{
    failed_before(context, true);
    again(context, 2);
}

/* Of more reports than are kept the last ones count. */
static void failed_often(uint64_t context)
{
    enum { BOARDS = 70, LAST = 10 };
    rboard_t b[BOARDS];

    for (int i = 0; i < BOARDS && mp_rank == 0; i++) {
        CHECK_OK(NULL, board_open(&b[i], NULL, mp_ranks, context + (uint64_t)i, 64));
        CHECK_OK(NULL, rboard_fail(b[i], -EIO));
    }
    await_report();
    for (int i = BOARDS - LAST; i < BOARDS && mp_rank != 0; i++) {
        CHECK_OK(NULL, board_open(&b[i], NULL, mp_ranks, context + (uint64_t)i, 64));
        CHECK(NULL, rboard_lost(b[i], NULL) == -EIO);
    }
    CHECK_OK(NULL, network_barrier());
    for (int i = mp_rank == 0 ? 0 : BOARDS - LAST; i < BOARDS; i++)
        CHECK_OK(NULL, rboard_close(b[i]));
}

/* ---- words for single members ---- */

static uint64_t word_for(int from, int to, uint64_t number)
{
    return number << 40 | (uint64_t)from << 20 | (uint64_t)to;
}

/* All that has been posted before the barrier has come: messages between two ranks are in order. */
static void await_words(void)
{
    char go = 1;

    for (int r = 0; r < mp_ranks; r++)
        if (r != mp_rank)
            CHECK_OK(NULL, network_send(r, &go, sizeof(go)));
    for (int r = 0; r < mp_ranks; r++)
        if (r != mp_rank)
            CHECK_OK(NULL, network_recv(r, &go, sizeof(go)));
}

/* Each takes the last word of each other one, once. */
static void words_for_members(uint64_t context)
{
    rboard_t b = board_of(NULL, mp_ranks, context, 64);
    bool seen[64] = {false};
    uint64_t word = 0;
    int member = -1;

    CHECK_RC(-EINVAL, NULL, rboard_post(b, mp_rank, 0));
    CHECK_OK(NULL, network_barrier()); /* all have opened it */
    for (uint64_t number = 1; number <= 3; number++)
        for (int to = 0; to < mp_ranks; to++)
            if (to != mp_rank)
                CHECK_OK(NULL, rboard_post(b, to, word_for(mp_rank, to, number)));
    await_words();
    for (int i = 1; i < mp_ranks; i++) {
        CHECK_OK(NULL, rboard_take(b, &member, &word));
        CHECK(NULL, member >= 0 && member < mp_ranks && member != mp_rank && !seen[member]);
        CHECK(NULL, word == word_for(member, mp_rank, 3));
        seen[member] = true;
    }
    CHECK_RC(R_PENDING, NULL, rboard_take(b, &member, &word));
    CHECK_OK(NULL, network_barrier());
    CHECK_OK(NULL, rboard_close(b));
}

/* A word of a board that has been closed here, or of another one of the same ranks, is not for this one. */
static void words_of_other_boards(uint64_t context)
{
    rboard_t b = board_of(NULL, mp_ranks, context, 64), other;
    uint64_t word = 0;
    int member = -1, last = mp_ranks - 1;

    if (mp_rank == 0)
        CHECK_OK(NULL, rboard_close(b));
    CHECK_OK(NULL, network_barrier());
    if (mp_rank == 0) /* its second board of this context; the others have the first */
        CHECK_OK(NULL, board_open(&b, NULL, mp_ranks, context, 64));
    other = board_of(NULL, mp_ranks, context + 1, 64);
    CHECK_OK(NULL, network_barrier());
    if (mp_rank == last && last > 0) {
        CHECK_OK(NULL, rboard_post(b, 0, 1));
        CHECK_OK(NULL, rboard_post(other, 0, 2));
    }
    await_words();
    if (mp_rank == 0 && last > 0) {
        CHECK_RC(R_PENDING, NULL, rboard_take(b, &member, &word));
        CHECK_OK(NULL, rboard_take(other, &member, &word));
        CHECK(NULL, member == last && word == 2);
    }
    CHECK_OK(NULL, network_barrier());
    CHECK_OK(NULL, rboard_close(b));
    CHECK_OK(NULL, rboard_close(other));
}

int main(int argc, char **argv)
{
    uint64_t context = rcontext("mp_board");
    uint32_t rounds;

    apart = mp_asked(argc, argv, "-apart");
    if (apart)
        setenv("RPIPE_CONTROL", "tcp", 1);
    mp_begin(argc, argv, 1);
    rounds = (uint32_t)mp_number(argc, argv, 300);
    memory(context++, 1, false);
    memory(context++, 4096, true);
    memory(context++, 4096 - 64, false); /* with the library's line exactly one page */
    memory(context++, (UINT64_C(5) << 20) + 7, false);
    private_memory(context++);
    subsets(context++);
    again(context++, 30);
    sizes_differ(context++);
    not_opened(context++);
    barriers(context++, rounds);
    deadline(context++);
    failure(context++);
    failed_before(context++, false);
    failed_once(context++);
    failed_often(context);
    words_for_members(rcontext("mp_board: words"));
    words_of_other_boards(rcontext("mp_board: other boards"));
    return mp_end();
}
