/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the program's own between processes: each rank sends to the next one and reads from the one before it, PUT and GET:
 * from a region by halves that are filled anew when their word allows it, into a region or not, from memory of the pipe; and a
 * message as large as the heap. Every byte is checked. Over a network nothing but small messages is copied, which is counted.
 */
#include "test/lib/mp_check.h"
#include "test/lib/counts.h"
#include <rpipe.h>

enum { HEAP = 512 * 1024, HALF = 96 * 1024, PART = 16 * 1024, PARTS = 4 };
static uint64_t messages; /* of each stream: the argument, or 60 */

static uint8_t out[2 * HALF], in[HEAP], large[HEAP];

struct ends {
    rch_t w, r;
    int next, before;
    uint32_t ctx;
};

static uint64_t key_to(const struct ends *e, uint64_t i)
{
    return mp_key(mp_rank, e->next, e->ctx, i);
}
static uint64_t key_from(const struct ends *e, uint64_t i)
{
    return mp_key(e->before, mp_rank, e->ctx, i);
}

static size_t size_of(uint64_t key)
{
    return random_mix(key) % 4 == 0 ? random_mix(key) % 200 : random_mix(key) % (HALF + 1);
}

static rregion_t region_of(rch_t ch, void *base, size_t bytes)
{
    rregion_t region = NULL;

    CHECK_OK(ch, rregion_open(&region, ch, base, bytes));
    return region;
}

/* One message is in flight while the other part is filled. The reader takes every other one into its own memory. */
static void halves(struct ends *e)
{
    rregion_t from = region_of(e->w, out, sizeof(out)), into = region_of(e->r, in, sizeof(in));
    int word[2] = {1, 1};
    uint64_t direct = 0;
    struct pipe_transport t = {0};
    size_t got = 0;

    for (uint64_t i = 0; i < messages + 1; i++) {
        if (i < messages) {
            uint64_t key = key_to(e, i);
            size_t half = i % 2, size = size_of(key);

            if (word[half] == 0)
                CHECK_OK(e->w, rdone(e->w, &word[half], 0));
            CHECK(e->w, word[half] == 1);
            pattern_fill(out + half * HALF, size, key);
            CHECK_OK(e->w, rwrite_from(e->w, from, half * HALF, size, 0, &word[half], 0));
            direct += size >= 64;
        }
        if (i == 0)
            continue;
        if (i % 4 != 1) {
            uint64_t key = key_from(e, i - 1);

            CHECK_OK(e->r, rread_into(e->r, into, i % 64, sizeof(in) - 64, &got, NULL, 0));
            CHECK(e->r, got == size_of(key) && pattern_same(in + i % 64, got, key));
        } else {
            mp_read_free(e->r, size_of(key_from(e, i - 1)), key_from(e, i - 1));
        }
    }
    CHECK_OK(e->w, rdone(e->w, NULL, 0));
    CHECK(e->w, word[0] == 1 && word[1] == 1);
    CHECK_OK(e->w, pipe_transport(e->w, &t));
    CHECK(e->w, mp_at_once(e->w) || on_device_region() ? t.direct == 0 : t.direct >= direct);
    CHECK_OK(NULL, rregion_close(from));
    CHECK_OK(NULL, rregion_close(into));
}

/* memory of the pipe, in turns */
static void parts(struct ends *e)
{
    int word[PARTS] = {1, 1, 1, 1};
    rregion_t region = region_of(e->w, NULL, PARTS * PART);
    uint8_t *memory = rregion_mem(region);

    CHECK(e->w, memory != NULL);
    for (uint64_t i = 0; i < messages; i++) {
        size_t part = i % PARTS;

        if (word[part] == 0)
            CHECK_OK(e->w, rdone(e->w, &word[part], 0));
        CHECK(e->w, word[part] == 1);
        pattern_fill(memory + part * PART, PART, key_to(e, i));
        CHECK_OK(e->w, rwrite_from(e->w, region, part * PART, PART, 0, &word[part], 0));
        mp_read_free(e->r, PART, key_from(e, i));
    }
    CHECK_OK(e->w, rdone(e->w, NULL, 0));
    CHECK_OK(NULL, rregion_close(region));
}

/* as large as the heap, from there to here */
static void largest(struct ends *e)
{
    rregion_t from = region_of(e->w, large, sizeof(large)), into = region_of(e->r, in, sizeof(in));
    size_t got = 0;
    int word = 0;

    pattern_fill(large, sizeof(large), key_to(e, 1));
    CHECK_OK(e->w, rwrite_from(e->w, from, 0, sizeof(large), 0, &word, 0));
    CHECK_OK(e->r, rread_into(e->r, into, 0, sizeof(in), &got, NULL, 0));
    CHECK(e->r, got == sizeof(in) && pattern_same(in, got, key_from(e, 1)));
    CHECK_OK(e->w, rdone(e->w, &word, 0));
    CHECK_OK(NULL, rregion_close(from));
    CHECK_OK(NULL, rregion_close(into));
}

static void in_turn(uint32_t ctx, rpipe_op_t op, void (*test)(struct ends *))
{
    struct ends e = {NULL, NULL, (mp_rank + 1) % mp_ranks, (mp_rank + mp_ranks - 1) % mp_ranks,
                     ctx};

    CHECK_OK(NULL, mp_open(&e.w, true, e.next, ctx, op, HEAP, 64));
    CHECK_OK(NULL, mp_open(&e.r, false, e.before, ctx, op, HEAP, 64));
    test(&e);
    CHECK_OK(e.w, rclose(e.w));
    CHECK_OK(e.r, rclose(e.r));
}

int main(int argc, char **argv)
{
    messages = (uint64_t)mp_number(argc, argv, 60);
    mp_begin(argc, argv, 1);
    for (uint32_t i = 0; i < 2; i++) {
        rpipe_op_t op = i == 0 ? RPIPE_PUT : RPIPE_GET;

        in_turn(10 * i, op, halves);
        in_turn(10 * i + 1, op, parts);
        in_turn(10 * i + 2, op, largest);
    }
    return mp_end();
}
