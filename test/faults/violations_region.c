/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * violations_region.c: violations about messages from the program's own memory, about what has been fetched of it, and about payloads that come with their message, see violations.h. On shared memory there are no such messages, which is all that is tested; the rest is for networks.
 */
#include "violations.h"
#include <rinfo.h>
#include <rpipe.h>

#include "rpipe/data/path_remote.h"
#include "sync/seal.h"

#define BYTES 1000 /* of a region */
#define AT 2048    /* where in the heap the forged block is */
#define UNKNOWN 4711

static uint8_t memory[BYTES] __attribute__((aligned(64)));

static void put_slot(rch_t r, const struct slot *contents)
{
    uint64_t number = r->r.nread + 1;
    struct slot *slot = end_slot(r, r->r.nread);

    memcpy(slot, contents, offsetof(struct slot, flag));
    if (r->remote != NULL)
        seal_slot(slot, number);
    else
        ring_slot_publish(slot, number);
}

static const struct region_violation {
    const char *name;
    uint64_t bytes, size, at; /* of the region; of the message; where in the region it begins */
    uint32_t magic;           /* added to what is right */
    uint64_t number;
    uint64_t key[4];
    int expected;
} region_violations[] = {
    {"nothing wrong", BYTES, 600, 64, 0, 0, {0}, 0},
    {"all of it", BYTES, BYTES, 0, 0, 0, {0}, 0},
    {"a note without its magic", BYTES, 600, 0, 1, 0, {0}, -EPROTO},
    {"a note about another region", BYTES, 600, 0, 0, 1, {0}, -EPROTO},
    {"a block too small for a note", BYTES, 63, 0, 0, 0, {0}, -EPROTO},
    {"one byte beyond", BYTES, 600, BYTES - 599, 0, 0, {0}, -EPROTO},
    {"behind the end", BYTES, 64, BYTES + 1, 0, 0, {0}, -EPROTO},
    {"a beginning that wraps around", BYTES, 600, UINT64_MAX - 500, 0, 0, {0}, -EPROTO},
    {"no bytes", 0, 600, 0, 0, 0, {0}, -EPROTO},
    {"fewer bytes than the message", 500, 600, 0, 0, 0, {0}, -EPROTO},
    {"more bytes than were shown", BYTES + 1, 600, 0, 0, 0, {0}, -EPROTO},
    {"2^64 - 1 bytes", UINT64_MAX, 600, 0, 0, 0, {0}, -EPROTO},
    {"a key that was never passed", BYTES, 600, 0, 0, 0, {1000, 0, 0, 0}, -EPROTO},
    {"a key of another length", BYTES, 600, 0, 0, 0, {0, 1, 0, 0}, -EPROTO},
    {"a key for something else", BYTES, 600, 0, 0, 0, {0, 0, 1, 0}, -EPROTO},
    {"a key with a wrong end", BYTES, 600, 0, 0, 0, {0, 0, 0, 1}, -EPROTO},
};

static int read_it(struct pair p, rregion_t into, uint8_t *room, size_t *size, uint8_t **mem)
{
    raddr_t d;
    int rc;

    *mem = room;
    if (into != NULL)
        return rread_into(p.r, into, 0, BYTES, size, NULL, 0);
    rc = rread(p.r, &d, size);
    if (rc == 0)
        *mem = rmem(p.r, d);
    return rc;
}

/* The first message is a valid one; its note is what the violation begins with. */
static void violate_note(const struct region_violation *violation, bool elsewhere)
{
    static uint8_t room[BYTES];
    struct slot slot = {.heap = {AT, violation->size, UNKNOWN, violation->at, 0},
                        .kind = SLOT_REGION};
    struct pair p = pair_open(RPIPE_GET);
    rregion_t region, into = NULL;
    struct region_note note;
    uint8_t *mem;
    size_t size;
    int word, rc, i;

    CHECK(p.w, rregion_open(&region, p.w, memory, BYTES) == 0);
    if (elsewhere)
        CHECK(p.r, rregion_open(&into, p.r, room, BYTES) == 0);
    CHECK(p.w, rwrite_from(p.w, region, 0, 600, 0, &word, 0) == 0);
    memcpy(&note, (char *)p.w->heap_memory.base + p.w->ring->slot[0].heap.offset, sizeof(note));
    receive_one(p.r, 600, 5);
    CHECK(p.w, rdone(p.w, &word, 0) == 0);
    note.magic += violation->magic;
    note.region = UNKNOWN + violation->number;
    note.bytes = violation->bytes;
    for (i = 0; i < 4; i++)
        note.key.word[i] += violation->key[i];
    memcpy((char *)p.w->heap_memory.base + AT, &note, sizeof(note));
    put_slot(p.r, &slot);
    rc = read_it(p, into, room, &size, &mem);
    EXPECT(rc == violation->expected, "a region, %s%s: %d (%s): %s", violation->name,
           elsewhere ? ", into another one" : "", rc, rinfo_strerror(rc), rerror(p.r));
    if (rc == 0)
        EXPECT(size == violation->size && memcmp(mem, memory + violation->at, size) == 0,
               "a region, %s: other bytes", violation->name);
    pair_close(p);
    while ((rc = rregion_close(region)) == -EBUSY)
        backoff_us(100);
    EXPECT(rc == 0, "rregion_close: %d (%s)", rc, rerror(NULL));
    if (into != NULL)
        while ((rc = rregion_close(into)) == -EBUSY)
            backoff_us(100);
}

/* Two messages, of which one is fetched, which the writer has been notified of. What the reader then reports of the payloads that it has fetched: */
static void violate_fetches(void)
{
    static const struct {
        const char *name;
        int64_t beyond; /* the truth */
        int expected;
    } violations[] = {
        {"more than were written", 2, -EPROTO},
        {"many more", 1000, -EPROTO},
        {"fewer than before", -1, -EPROTO},
        {"very many", INT64_MIN, -EPROTO},
        {"the last one too", 1, 0}, /* its own loss */
    };
    size_t i;
    int rc;

    for (i = 0; i < sizeof(violations) / sizeof(violations[0]); i++) {
        struct pair p = pair_open(RPIPE_GET);
        rregion_t region;
        int word[2];

        CHECK(p.w, rregion_open(&region, p.w, memory, BYTES) == 0);
        CHECK(p.w, rwrite_from(p.w, region, 0, 600, 0, &word[0], 0) == 0);
        receive_one(p.r, 600, 5);
        CHECK(p.w, rdone(p.w, &word[0], 0) == 0);
        CHECK(p.w, rwrite_from(p.w, region, 0, 600, 0, &word[1], 0) == 0);
        atomic_fetch_add(&p.r->credit->line.fetched, (uint64_t)violations[i].beyond);
        rc = rdone(p.w, &word[1], 0);
        EXPECT(rc == violations[i].expected, "fetched: %s: %d (%s): %s", violations[i].name, rc,
               rinfo_strerror(rc), rerror(p.w));
        pair_close(p);
        while (rregion_close(region) == -EBUSY)
            backoff_us(100);
    }
}

/* Messages that are marked to have come with their payload. */
static void violate_eager(void)
{
    enum { LIMIT = 600 };
    static const struct {
        const char *name;
        struct slot slot;
        bool refused; /* the reader has not sent its key */
        int expected;
    } violations[] = {
        {"as long as is permitted",
         {.heap = {.offset = AT, .size = LIMIT}, .kind = SLOT_HEAP, .eager = 1},
         false,
         0},
        {"nothing", {.heap = {.offset = AT, .size = 0}, .kind = SLOT_HEAP, .eager = 1}, false, 0},
        {"longer",
         {.heap = {.offset = AT, .size = LIMIT + 1}, .kind = SLOT_HEAP, .eager = 1},
         false,
         -EPROTO},
        {"very long",
         {.heap = {.offset = 0, .size = UINT64_MAX}, .kind = SLOT_HEAP, .eager = 1},
         false,
         -EPROTO},
        {"behind the heap",
         {.heap = {.offset = HEAP, .size = 64}, .kind = SLOT_HEAP, .eager = 1},
         false,
         -EPROTO},
        {"across its end",
         {.heap = {.offset = HEAP - 64, .size = 65}, .kind = SLOT_HEAP, .eager = 1},
         false,
         -EPROTO},
        {"another mark",
         {.heap = {.offset = AT, .size = 64}, .kind = SLOT_HEAP, .eager = 2},
         false,
         -EPROTO},
        {"all bits",
         {.heap = {.offset = AT, .size = 64}, .kind = SLOT_HEAP, .eager = 255},
         false,
         -EPROTO},
        {"a small message", {.kind = SLOT_INLINE, .bytes = 8, .eager = 1}, false, -EPROTO},
        {"from a region",
         {.heap = {.offset = AT, .size = 64, .region = 1}, .kind = SLOT_REGION, .eager = 1},
         false,
         -EPROTO},
        {"not permitted",
         {.heap = {.offset = AT, .size = 64}, .kind = SLOT_HEAP, .eager = 1},
         true,
         -EPROTO},
        {"nothing, not permitted",
         {.heap = {.offset = AT, .size = 0}, .kind = SLOT_HEAP, .eager = 1},
         true,
         -EPROTO},
    };
    size_t i;
    int rc;

    for (i = 0; i < 2 * sizeof(violations) / sizeof(violations[0]); i++) {
        bool put = i % 2 == 1; /* where no mark is valid */
        struct pair p = pair_open(put ? RPIPE_PUT : RPIPE_GET);
        raddr_t d;

        if (!put)
            p.r->remote->eager.most = violations[i / 2].refused ? 0 : LIMIT;
        put_slot(p.r, &violations[i / 2].slot);
        rc = rread(p.r, &d, NULL);
        EXPECT(rc == (put ? -EPROTO : violations[i / 2].expected),
               "with its payload%s: %s: %d (%s): %s", put ? ", PUT" : "", violations[i / 2].name,
               rc, rinfo_strerror(rc), rerror(p.r));
        pair_close(p);
    }
}

void violate_regions(void)
{
    static const struct slot slot = {.heap = {AT, 600, UNKNOWN, 0, 0}, .kind = SLOT_REGION};
    struct pair p = pair_open(RPIPE_PUT);
    raddr_t d;
    size_t i;
    int rc;

    put_slot(p.r, &slot);
    rc = rread(p.r, &d, NULL);
    EXPECT(rc == -EPROTO, "a region, and the memory is the reader's: %d (%s)", rc,
           rinfo_strerror(rc));
    pair_close(p);
    pattern_fill(memory, BYTES, 5);
    p = pair_open(RPIPE_GET);
    if (p.r->remote != NULL) {
        for (i = 0; i < 2 * sizeof(region_violations) / sizeof(region_violations[0]); i++)
            violate_note(&region_violations[i / 2], i % 2 == 1);
        violate_fetches();
        violate_eager();
    }
    pair_close(p);
}
