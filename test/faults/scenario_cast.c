/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenario_cast.c: casts of all three ranks, first of rank 0, then of rank 1: see scenario.h. A writer that loses a reader learns of it
 * once, and goes on for the other; readers of a dead writer get all that it has written.
 */
#include "scenario_ends.h"

#include <rcast.h>

#define CAST_MESSAGES 50
#define CAST_SLOTS 8
#define CAST_HEAP 16384

static size_t cast_bytes(uint64_t i) { return i % 3 == 0 ? i % 49 : 100 + i * 977 % 6000; }

/* One message, by copy or in place. */
static int cast_write(struct player *p, rcast_t c, uint64_t i)
{
    unsigned char buf[64];
    void *mem;
    int rc;

    if (i % 3 == 0) {
        pattern_fill(buf, cast_bytes(i), i);
        do
            rc = rcast_send(c, buf, cast_bytes(i), 0);
        while (scene_once_more(p, rc));
        return rc;
    }
    do
        rc = rcast_alloc(c, cast_bytes(i), &mem, 0);
    while (scene_once_more(p, rc));
    if (rc != 0)
        return rc;
    pattern_fill(mem, cast_bytes(i), i);
    do
        rc = rcast_write(c, mem, cast_bytes(i), 0);
    while (scene_once_more(p, rc));
    if (rc != 0)
        CHECK(NULL, rcast_free(c, mem) == 0);
    return rc;
}

/* Until both readers have the first message, or the kill is over: what a writer has written before is lost with it. */
static void cast_await_readers(struct player *p)
{
    int64_t deadline = deadline_in_ms(p->timeout_ms);

    for (int i = 0; i < SCENARIO_RANKS; i++)
        while (i != p->rank &&
               atomic_load(&p->board->rank[i].attached) <= (i == BYSTANDER && p->rank)) {
            int64_t killed = atomic_load(&p->board->killed);

            if (killed != 0 && clock_now() > killed)
                return;
            if (deadline_passed(deadline) && scene_once_more(p, -ETIMEDOUT))
                deadline = deadline_in_ms(p->timeout_ms);
            backoff_us(50);
        }
}

static int cast_write_all(struct player *p, rcast_t c)
{
    int lost = 0;

    for (uint64_t i = 0; i < CAST_MESSAGES; i++) {
        int rc = cast_write(p, c, i);

        if (i % 16 == 5)
            backoff_us(1500); /* the readers sleep */
        if (rc == 0 && i == 0)
            cast_await_readers(p);
        if (rc == 0) {
            atomic_fetch_add(&p->board->rank[p->rank].done, 1);
            continue;
        }
        CHECK(NULL, rc == -ECONNRESET && lost == 0); /* reported once */
        CHECK(NULL, rcast_lost(c) == p->peer && rcast_count(c) == 1);
        lost = rc;
        i--;
    }
    return lost;
}

static int cast_read_all(struct player *p, rcast_t c, int writer)
{
    static unsigned char copy[CAST_HEAP];
    const void *mem = copy;
    size_t bytes;
    uint64_t i;
    int rc;

    for (i = 0;; i++) {
        do
            rc = i % 4 == 0 ? rcast_recv(c, copy, sizeof(copy), &bytes, 0)
                            : rcast_read(c, &mem, &bytes, 0);
        while (scene_once_more(p, rc));
        if (rc != 0)
            break;
        CHECK(NULL, bytes == cast_bytes(i) && pattern_same(i % 4 == 0 ? copy : mem, bytes, i));
        if (i == 0)
            atomic_fetch_add(&p->board->rank[p->rank].attached, 1);
        if (i % 16 == 11)
            backoff_us(1500); /* the writer sleeps */
        CHECK(NULL, i % 4 == 0 || rcast_free(c, mem) == 0);
        if (p->rank != BYSTANDER)
            atomic_fetch_add(&p->board->rank[p->rank].number, 1);
    }
    CHECK(NULL, rc == -ECONNRESET || (rc == R_EOF && i == CAST_MESSAGES));
    CHECK(NULL, rc == R_EOF || rcast_lost(c) == writer);
    CHECK(NULL, rcast_read(c, &mem, &bytes, R_NOWAIT) == rc);
    return rc == R_EOF ? 0 : rc;
}

static int cast_once(struct player *p, int writer)
{
    rcast_config_t cfg = {.writer = writer,
                          .slots = CAST_SLOTS,
                          .heap_bytes = CAST_HEAP,
                          .timeout_ms = p->timeout_ms};
    rcast_t c;
    int rc;

    CHECK(NULL, rcast_open(&c, &cfg, NULL, SCENARIO_RANKS) == 0);
    rc = p->rank == writer ? cast_write_all(p, c) : cast_read_all(p, c, writer);
    while (scene_once_more(p, rcast_close(c)))
        ;
    return rc;
}

int scene_cast(struct player *p)
{
    int first = cast_once(p, 0), second = cast_once(p, 1);

    return first != 0 ? first : second;
}
