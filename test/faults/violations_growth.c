/* SPDX-License-Identifier: BSD-3-Clause */
/* violations_growth.c: violations about heaps that grow, see violations.h: in slots, in questions, in answers, and all at once. */
#include "violations.h"
#include "test/lib/cells.h"
#include <rinfo.h>
#include <rpipe.h>

#include <pthread.h>

/* as in grow.c */
enum { GROW_LENGTH = 32, GROW_KEY = 40 };
#define GROW_BYTES 72

/* Messages in, beside and across the segments of a heap that has grown: HEAP bytes, and HEAP more. */
static void violate_segments(rpipe_op_t op, const struct kind *k)
{
    static const struct {
        const char *name;
        uint64_t offset, size;
        int expected;
    } places[] = {
        {"all of the second segment", HEAP, HEAP, 0},
        {"the last byte", 2 * HEAP - 1, 1, 0},
        {"all of the first segment", 0, HEAP, 0},
        {"across the two", HEAP - 64, 128, -EPROTO},
        {"one byte across", HEAP - 1, 2, -EPROTO},
        {"one byte too long", HEAP, HEAP + 1, -EPROTO},
        {"both", 0, 2 * HEAP, -EPROTO},
        {"behind the last", 2 * HEAP, 0, -EPROTO},
        {"where a third one would be", 2 * HEAP + 64, 64, -EPROTO},
        {"behind the limit", MOST, 64, -EPROTO},
        {"a size that wraps around", HEAP + 64, UINT64_MAX - HEAP, -EPROTO},
        {"an offset that wraps around", UINT64_MAX - 63, 128, -EPROTO},
    };
    size_t i, n;

    for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct pair p = pair_open_as(op, k);
        struct slot *slot = &p.w->ring->slot[1];
        const uint8_t *mem;
        raddr_t d, first, second;
        uint64_t sum = 0;
        int rc;

        first = rmalloc(p.w, HEAP); /* and then only unsent memory stands in the way */
        second = rmalloc(p.w, HEAP);
        CHECK(p.w, first != ADDR_NULL && second != ADDR_NULL);
        pattern_fill(rmem(p.w, second), HEAP, 9);
        CHECK(p.w, rfree(p.w, first) == 0 && rwrite(p.w, second) == 0);
        receive_one(p.r, HEAP, 9);
        memset(slot, 0, offsetof(struct slot, flag));
        slot->kind = SLOT_HEAP;
        slot->heap.offset = places[i].offset;
        slot->heap.size = places[i].size;
        ring_slot_publish(slot, 2);
        rc = rread(p.r, &d, NULL);
        EXPECT(rc == places[i].expected, "%s: %d (%s): %s", places[i].name, rc, rinfo_strerror(rc),
               rerror(p.r));
        if (rc == 0) {
            mem = rmem(p.r, d);
            for (n = 0; n < rsize(p.r, d); n++)
                sum += mem[n];
            CHECK(p.r, rsize(p.r, d) == places[i].size && sum != 1);
        }
        pair_close(p);
    }
}

/* Sends to the end that is `ch`'s peer, which is in this process too, what `ch` should not. */
static void say_growth(rch_t ch, uint32_t type, uint64_t k, uint64_t bytes, int code,
                       const struct btl_key *key)
{
    _Alignas(8) unsigned char body[GROW_BYTES] = {0};
    struct end_message_head *head = (struct end_message_head *)(void *)body;

    *head = message_head(ch, sizeof(body), k);
    head->code = code;
    put64(body, GROW_LENGTH, bytes);
    if (key != NULL)
        memcpy(body + GROW_KEY, key, sizeof(*key));
    CHECK(NULL, control_post(0, type, body, sizeof(body), NULL, 0) == 0);
    CHECK(NULL, control_flush(0, deadline_in_ms(PATIENCE_MS)) == 0);
}

/* What a writer asks for. */
static void violate_questions(rpipe_op_t op, const struct kind *kind)
{
    static const struct {
        const char *name;
        uint64_t k, bytes;
    } asks[] = {
        {"segment 0", 0, HEAP},
        {"segment 2 before 1", 2, HEAP},
        {"segment 2^64 - 1", UINT64_MAX, HEAP},
        {"segment 2^32 + 1", (UINT64_C(1) << 32) + 1, HEAP},
        {"no bytes", 1, 0},
        {"a part of a unit", 1, HEAP + 1},
        {"less than the heap has, and not the rest", 1, HEAP / 2},
        {"one unit beyond the limit", 1, MOST - HEAP + 64},
        {"2^63 bytes", 1, UINT64_C(1) << 63},
        {"2^64 - 64 bytes", 1, UINT64_MAX - 63},
    };
    size_t i;
    raddr_t d;
    int rc;

    for (i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
        struct pair p = pair_open_as(op, kind);

        send_one(p.w, 700, 1);
        receive_one(p.r, 700, 1);
        say_growth(p.w, MESSAGE_GROW, asks[i].k, asks[i].bytes, 0, NULL);
        CHECK(p.r, rset_timeout(p.r, PATIENCE_MS) == 0);
        rc = rread(p.r, &d, NULL);
        EXPECT(rc == -EPROTO, "growth by %s: the reader got %d (%s)", asks[i].name, rc,
               rinfo_strerror(rc));
        while ((rc = rwait(p.w)) == 0)
            backoff_us(100);
        EXPECT(rc == -EPROTO, "growth by %s: the writer got %d (%s)", asks[i].name, rc,
               rinfo_strerror(rc));
        pair_close(p);
    }
}

/* Segment after segment, as fast as they can be asked for: it ends at the limit, and so does the memory that it costs. */
static void violate_in_use(rpipe_op_t op, const struct kind *kind)
{
    struct pair p = pair_open_as(op, kind);
    uint64_t total = HEAP, k;
    raddr_t d;
    int rc;

    for (k = 1; k < 40; k++) {
        uint64_t bytes = total < MOST - total ? total : MOST - total;

        say_growth(p.w, MESSAGE_GROW, k, bytes != 0 ? bytes : 64, 0,
                   op == RPIPE_GET ? &p.w->heap_memory.key : NULL);
        total += bytes;
    }
    CHECK(p.r, rset_timeout(p.r, PATIENCE_MS) == 0);
    do
        rc = rread(p.r, &d, NULL);
    while (rc == 0);
    EXPECT(rc == -EPROTO, "a storm: %d (%s): %s", rc, rinfo_strerror(rc), rerror(p.r));
    pair_close(p);

    p = pair_open_as(op, &plain); /* a heap that does not grow is not asked */
    for (k = 0; k < 10; k++)
        say_growth(p.w, MESSAGE_GROW, k, HEAP, 0, NULL);
    send_one(p.w, HEAP, 1);
    receive_one(p.r, HEAP, 1);
    pair_close(p);

    p = pair_open_as(op, kind); /* nor does the end that requests, or that has closed */
    say_growth(p.r, MESSAGE_GROW, 1, HEAP, 0, NULL);
    say_growth(p.w, MESSAGE_GROWN, 1, HEAP, 0, NULL);
    send_one(p.w, HEAP, 1);
    receive_one(p.r, HEAP, 1);
    CHECK(p.r, rclose(p.r) == 0);
    say_growth(p.w, MESSAGE_GROW, 1, HEAP, 0, NULL);
    CHECK(p.w, rclose(p.w) == 0);
}

/* What a reader answers: to nothing, and to the question of a writer whose real reader is kept from answering. */
static void violate_answers(rpipe_op_t op, const struct kind *kind)
{
    static const struct {
        const char *name;
        uint64_t k;
        int code;
        int expected, expected_put; /* GET; PUT, where the key counts */
    } answers[] = {
        {"another segment", 2, 0, -EPROTO, -EPROTO},
        {"segment 0", 0, 0, -EPROTO, -EPROTO},
        {"segment 2^64 - 1", UINT64_MAX, 0, -EPROTO, -EPROTO},
        {"no memory", 1, -ENOMEM, -ENOMEM, -ENOMEM},
        {"an error that is none", 1, 12345, -ENOMEM, -ENOMEM},
        {"yes, with a key that was never passed", 1, 0, 0, -EPROTO},
    };
    static const struct btl_key invalid = {{4711, 64, HEAP, 1}};
    struct growth *kept;
    size_t i;
    raddr_t d = ADDR_NULL;
    int rc;

    for (i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct pair p = pair_open_as(op, kind);
        int expected = op == RPIPE_PUT ? answers[i].expected_put : answers[i].expected;

        kept = p.r->growth;
        p.r->growth = NULL;
        CHECK(p.w, rmalloc_nb(p.w, 2 * HEAP, &d) == R_PENDING); /* asks */
        CHECK(NULL, control_flush(0, deadline_in_ms(PATIENCE_MS)) == 0);
        say_growth(p.r, MESSAGE_GROWN, answers[i].k, 2 * HEAP, answers[i].code, &invalid);
        CHECK(p.w, rset_timeout(p.w, PATIENCE_MS) == 0);
        d = rmalloc(p.w, 2 * HEAP);
        rc = d != ADDR_NULL ? 0 : -errno;
        EXPECT(rc == expected, "op %d, the answer is %s: %d (%s): %s", (int)op, answers[i].name, rc,
               rinfo_strerror(rc), rerror(p.w));
        if (rc ==
            0) /* on a GET channel the memory is the writer's own, and the answer is only a yes */
            pattern_fill(rmem(p.w, d), 2 * HEAP, 3);
        p.r->growth = kept;
        pair_close(p);
    }
    for (i = 0; i < 2; i++) { /* unasked; and twice */
        struct pair p = pair_open_as(op, kind);

        if (i == 1)
            CHECK(p.w, rmalloc(p.w, 2 * HEAP) != ADDR_NULL);
        say_growth(p.r, MESSAGE_GROWN, 1 + i, 2 * HEAP, 0, &invalid);
        while ((rc = rwait(p.w)) == 0)
            backoff_us(100);
        EXPECT(rc == -EPROTO, "an answer that was not asked for: %d (%s)", rc, rinfo_strerror(rc));
        pair_close(p);
    }
}

/* Growth of all kinds is requested and answered at random while it goes on. */
struct storm {
    struct pair p;
    uint64_t random;
    _Atomic bool stop;
};

static void *storms(void *argument)
{
    struct storm *s = argument;

    while (!atomic_load(&s->stop)) {
        uint64_t x = random_draw(&s->random);
        struct btl_key key = x & 1 ? s->p.w->heap_memory.key : s->p.r->ring_memory.key;

        if (x >> 1 & 1)
            key.word[x >> 2 & 3] =
                x >> 4 & 1 ? random_draw(&s->random) : random_draw(&s->random) % 10000;
        say_growth(x >> 5 & 1 ? s->p.w : s->p.r, x >> 6 & 1 ? MESSAGE_GROW : MESSAGE_GROWN,
                   x >> 7 & 7 ? 1 + (x >> 10 & 1) : x,
                   x >> 11 & 3 ? (uint64_t)HEAP << (x >> 13 & 3) : x >> 16,
                   x >> 15 & 3 ? 0 : (int)(x >> 40 & 255) - 128, &key);
    }
    return NULL;
}

static void storm_round(uint64_t *random)
{
    const struct kind *k = random_draw(random) % 2 == 0 ? &growing : &growing_tags;
    struct storm s = {.p = pair_open_as(random_draw(random) % 2 == 0 ? RPIPE_PUT : RPIPE_GET, k),
                      .random = random_draw(random)};
    uint64_t sum = 0;
    pthread_t thread;
    size_t size, at;
    raddr_t d;
    int i, rc = 0;

    CHECK(NULL, rset_timeout(s.p.w, 1) == 0 && rset_timeout(s.p.r, 1) == 0);
    CHECK(NULL, pthread_create(&thread, NULL, storms, &s) == 0);
    for (i = 0; i < 10 && rc != -EPROTO; i++) {
        size = random_draw(random) % (3 * HEAP);
        d = rmalloc(s.p.w, size);
        rc = d != ADDR_NULL ? 0 : -errno;
        EXPECT(allowed(rc), "storm: the writer got %d (%s): %s", rc, rinfo_strerror(rc),
               rerror(s.p.w));
        if (rc != 0)
            continue;
        memset(rmem(s.p.w, d), 7, size); /* it can be written everywhere, */
        rc = rwrite(s.p.w, d);
        EXPECT(allowed(rc), "storm: rwrite gave %d (%s): %s", rc, rinfo_strerror(rc),
               rerror(s.p.w));
        rc = rread(s.p.r, &d, &size);
        EXPECT(allowed(rc), "storm: the reader got %d (%s): %s", rc, rinfo_strerror(rc),
               rerror(s.p.r));
        for (at = 0; rc == 0 && at < size; at++)
            sum += ((const uint8_t *)rmem(s.p.r, d))[at]; /* and read */
        if (rc == 0)
            CHECK(s.p.r, rfree(s.p.r, d) == 0);
    }
    atomic_store(&s.stop, true);
    pthread_join(thread, NULL);
    pair_close(s.p);
    if (sum == 1)
        printf("\n"); /* the sum is used */
}

/* ---- all of it ---- */

void violate_growth(void)
{
    rpipe_op_t op;
    size_t n;

    for (op = RPIPE_PUT; op <= RPIPE_GET; op++)
        for (n = 0; n < 2; n++) {
            violate_segments(op, n == 0 ? &growing : &growing_tags);
            violate_questions(op, n == 0 ? &growing : &growing_tags);
            violate_in_use(op, n == 0 ? &growing : &growing_tags);
            violate_answers(op, n == 0 ? &growing : &growing_tags);
        }
}

void violate_growth_in_use(uint64_t *random, int rounds)
{
    while (rounds-- > 0)
        storm_round(random);
}
