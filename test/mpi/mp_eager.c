/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GET between processes, with sizes around the limit up to which a payload comes with its message: each rank writes to the next one and
 * reads from the one before it, in every mode, from a heap that is too small for all and may grow. Every byte is checked, and over a
 * network the reads of each reader are counted: one for each message that is longer, or beyond the first segment.
 */
#include "test/lib/mp_check.h"
#include <rpipe.h>

enum { LIMIT = 16384, HEAP = 320 * 1024, AHEAD = 4, HELD = 3 };
/* HEAP: at most seven messages of 32 KiB are in flight or held, one more is allocated, and one is too long for the end of the heap. */
static uint64_t messages; /* of each pipe: the argument, or 300 */

struct ends {
    rch_t w, r;
    int next, before;
    uint32_t ctx;
};

/* Half of them right at the limit. */
static size_t size_of(uint64_t key)
{
    static const size_t edges[] = {LIMIT - 1, LIMIT, LIMIT + 1, 41, 64, LIMIT + 8, LIMIT - 8, 4096};

    return key % 2 == 0 ? edges[key / 2 % 8] : 41 + key / 2 % (2 * LIMIT);
}

static uint64_t key_to(const struct ends *e, uint64_t i)
{
    return mp_key(mp_rank, e->next, e->ctx, i);
}
static uint64_t key_from(const struct ends *e, uint64_t i)
{
    return mp_key(e->before, mp_rank, e->ctx, i);
}

static rch_t open_end(struct ends *e, bool writer, rpipe_sync_t mode, uint64_t most)
{
    rpipe_config_t cfg = {0};
    rch_t ch;

    cfg.op = RPIPE_GET;
    cfg.peer = writer ? e->next : e->before;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = HEAP;
    cfg.max_heap_bytes = most;
    cfg.grow_after_us = 1;
    cfg.context = e->ctx;
    cfg.mode = mode;
    cfg.slots = 16;
    CHECK_OK(NULL, rpipe(&ch, &cfg));
    return ch;
}

/* The last few are held, and checked again before they are freed: nothing has been written over them. */
static void stream(struct ends *e, bool grows)
{
    raddr_t held[HELD] = {ADDR_NULL};
    uint64_t longer = 0;
    struct pipe_transport t = {0};

    for (uint64_t i = 0; i < messages + AHEAD; i++) {
        if (i < messages)
            mp_send(e->w, size_of(key_to(e, i)), key_to(e, i));
        if (i >= AHEAD) {
            uint64_t n = i - AHEAD, key = key_from(e, n);

            if (held[n % HELD] != ADDR_NULL) {
                uint64_t old = key_from(e, n - HELD);

                CHECK(e->r, pattern_same(rmem(e->r, held[n % HELD]), size_of(old), old));
                CHECK_OK(e->r, rfree(e->r, held[n % HELD]));
            }
            held[n % HELD] = mp_receive(e->r, size_of(key), key);
            longer += size_of(key) > LIMIT;
        }
    }
    for (size_t k = 0; k < HELD; k++)
        if (held[k] != ADDR_NULL)
            CHECK_OK(e->r, rfree(e->r, held[k]));
    CHECK_OK(e->r, pipe_transport(e->r, &t));
    if (mp_at_once(e->r))
        CHECK(e->r, t.gets == 0);
    else
        CHECK(e->r, grows ? t.gets >= longer && t.gets <= messages : t.gets == longer);
}

int main(int argc, char **argv)
{
    static const rpipe_sync_t modes[] = {RPIPE_SYNC_BLOCKS, RPIPE_SYNC_TAGS, RPIPE_SYNC_CHANNEL};

    messages = (uint64_t)mp_number(argc, argv, 300);
    mp_begin(argc, argv, 1);
    for (uint32_t i = 0; i < 6; i++) {
        struct ends e = {NULL, NULL, (mp_rank + 1) % mp_ranks, (mp_rank + mp_ranks - 1) % mp_ranks,
                         i};

        e.w = open_end(&e, true, modes[i / 2], i % 2 == 0 ? 0 : 4 * HEAP);
        e.r = open_end(&e, false, modes[i / 2], i % 2 == 0 ? 0 : 4 * HEAP);
        stream(&e, i % 2 == 1);
        CHECK_OK(e.w, rclose(e.w));
        CHECK_OK(e.r, rclose(e.r));
    }
    return mp_end();
}
