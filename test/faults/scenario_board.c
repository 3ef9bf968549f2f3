/* SPDX-License-Identifier: BSD-3-Clause */
/* scenario_board.c: a board of the two ends, opened twice: see scenario.h. Each waits for the word of the other, and sleeps. */
#include "scenario_ends.h"

#include <stdatomic.h>

#define ROUNDS 12

static bool is_end(int rc) { return rc == -EPIPE || rc == -ECONNRESET; }

static int await_word(struct player *p, rboard_t b, const _Atomic uint32_t *word, uint32_t value)
{
    rboard_word_t w = {word, 0};
    int rc = 0;

    while (rc == 0 && (w.seen = atomic_load_explicit(word, memory_order_acquire)) < value) {
        CHECK(NULL, w.seen == value - 1);
        rc = rboard_sleep(b, &w, 1, p->timeout_ms);
        if (scene_once_more(p, rc))
            rc = 0;
    }
    CHECK(NULL, w.seen <= value + 1); /* it is one ahead at most */
    return rc;
}

static int pass_words(struct player *p, rboard_t b)
{
    _Atomic uint32_t *own = rboard_mem(b);
    const _Atomic uint32_t *other = rboard_mem_of(b, p->peer);
    int rc = 0;

    if (other == NULL) /* dead by now */
        return rboard_lost(b, NULL);
    for (uint32_t i = 1; i <= ROUNDS && rc == 0; i++) {
        if (i % 4 == (unsigned)p->rank)
            backoff_us(1500); /* the other one sleeps */
        atomic_store_explicit(own, i, memory_order_release);
        rboard_wake(b, own);
        rc = await_word(p, b, other, i);
    }
    return rc;
}

static int once(struct player *p, uint64_t context)
{
    rboard_config_t cfg = {.context = context, .bytes = 4096, .timeout_ms = p->timeout_ms};
    int member = -1, rc;
    rboard_t b;

    CHECK(NULL, rboard_open(&b, &cfg, NULL, 2) == 0);
    do
        rc = rboard_wait(b);
    while (scene_once_more(p, rc));
    if (rc == 0)
        rc = pass_words(p, b);
    CHECK(NULL, rc == 0 || is_end(rc));
    if (rc == -ECONNRESET) {
        CHECK(NULL, rboard_lost(b, &member) == rc && member == p->peer);
        CHECK(NULL, rboard_mem_of(b, p->peer) == NULL);
    }
    rboard_wake(b, rboard_mem(b));
    CHECK(NULL, rboard_close(b) == 0);
    return rc;
}

int scene_board(struct player *p)
{
    int rc = once(p, 1);

    return rc == 0 ? once(p, 1) : rc;
}
