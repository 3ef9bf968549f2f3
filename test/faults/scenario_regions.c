/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenario_regions.c: messages from regions and into them (doc/regions.md), while a rank dies or is stopped: see scenario_ends.h.
 *
 * The writer sends from parts of its own memory, each of which it spoils and fills anew as soon as its word allows it, and from parts of
 * the pipe's; the reader reads every third message in place, the others into memory of its own. So a word that comes too
 * early, or memory of a dead rank that is taken for a message, is a message that is not what it should be.
 *
 * A part that ends with an error has been notified of every part of its memory: no word is 0 any more.
 */
#include "scenario_ends.h"

#define MESSAGES 28
#define PIECES 3
#define PIECE 700
#define PARTS 2
#define PART 512

static struct board_rank *mine(const struct player *p) { return &p->board->rank[p->rank]; }

/* In a slot, at the limits of what is copied, and beyond. */
static size_t message_bytes(uint64_t i)
{
    static const size_t few[] = {0, 8, 40, 41, 63, 64};

    return i % 3 == 0 ? few[i / 3 % 6] : 100 + i * 61 % 400;
}

static uint64_t tag_of(uint64_t i) { return i * UINT64_C(0x123456789abcdef); }

static rregion_t region_of(struct player *p, rch_t ch, void *base, size_t bytes)
{
    rregion_t region = NULL;
    int rc;

    do
        rc = rregion_open(&region, ch, base, bytes);
    while (scene_once_more(p, rc));
    CHECK(ch, rc == 0 || rc == -EPIPE);
    if (rc == 0)
        p->region[p->regions++] = region;
    return region;
}

/* ---- the writer ---- */

struct sending {
    rregion_t region, own; /* own: NULL where other messages could not pass it (next-fit) */
    int word[PIECES + PARTS];
};

static unsigned char memory[PIECES][PIECE];

static bool is_part(const struct sending *s, uint64_t i) { return s->own != NULL && i % 4 == 3; }

static size_t piece_of(const struct sending *s, uint64_t i)
{
    return is_part(s, i) ? PIECES + i / 4 % PARTS : i % PIECES;
}

static char *address_of(const struct sending *s, size_t piece)
{
    return piece < PIECES ? (char *)memory[piece]
                          : (char *)rregion_mem(s->own) + (piece - PIECES) * PART;
}

static int await(struct player *p, rch_t ch, int *word)
{
    int rc = 0;

    while (*word == 0) {
        rc = rdone(ch, word, 0);
        CHECK(ch, rc == 0            ? *word == 1
                  : rc == -ETIMEDOUT ? *word == 0
                                     : rc == -EPIPE && *word == -EPIPE);
        if (rc != 0 && !scene_once_more(p, rc))
            return rc;
    }
    return rc;
}

static int send_one(struct player *p, rch_t ch, struct sending *s, uint64_t i)
{
    size_t piece = piece_of(s, i), bytes = message_bytes(i),
           offset = piece < PIECES ? piece * PIECE : (piece - PIECES) * PART;
    int rc = await(p, ch, &s->word[piece]);

    if (rc != 0)
        return rc;
    memset(address_of(s, piece), 0x5a, piece < PIECES ? PIECE : PART);
    pattern_fill(address_of(s, piece), bytes, i);
    s->word[piece] = 4711;
    do
        rc = rwrite_from(ch, piece < PIECES ? s->region : s->own, offset, bytes, tag_of(i),
                         &s->word[piece], 0);
    while (scene_once_more(p, rc));
    CHECK(ch, rc == 0 ? s->word[piece] != 4711 : rc == -EPIPE && s->word[piece] == 4711);
    if (rc == 0)
        atomic_fetch_add(&mine(p)->done, 1); /* complete: it must arrive */
    return rc;
}

/* The reader is gone. For each part it is defined whether the reader has got it, and the reader uses none any more. */
static void all_fail(rch_t ch, struct sending *s)
{
    size_t piece;
    int rc;

    for (piece = 0; piece < PIECES + PARTS; piece++) {
        CHECK(ch, s->word[piece] != 0);
        rc = rdone(ch, &s->word[piece], 0);
        CHECK(ch, s->word[piece] > 0 ? rc == 0 : rc == s->word[piece]);
        if (piece < PIECES || s->own != NULL)
            memset(address_of(s, piece), 0xa5, PART);
    }
    rc = rdone(ch, NULL, 0);
    CHECK(ch, rc == 0 || rc == -EPIPE);
}

static int send_all(struct player *p, rch_t ch)
{
    struct sending s = {.region = region_of(p, ch, memory, sizeof(memory))};
    size_t piece;
    uint64_t i;
    int rc = s.region != NULL ? 0 : -EPIPE;

    if (rc != 0)
        return rc;
    for (piece = 0; piece < PIECES + PARTS; piece++)
        s.word[piece] = 1;
    if (p->s->sync != RPIPE_SYNC_BLOCKS)
        s.own = region_of(p, ch, NULL, PARTS * PART);
    for (i = 0; i < MESSAGES && rc == 0; i++) {
        if (i == 12)
            backoff_us(1500); /* the reader has nothing */
        rc = send_one(p, ch, &s, i);
    }
    if (rc == 0)
        do
            rc = rdone(ch, NULL, 0);
        while (scene_once_more(p, rc));
    CHECK(ch, rc == 0 || rc == -EPIPE);
    if (rc != 0)
        all_fail(ch, &s);
    return rc;
}

/* ---- the reader ---- */

static unsigned char in[1024];

static int take_into(struct player *p, rch_t ch, rregion_t region, uint64_t i)
{
    size_t at = i % 9, size = 4711;
    uint64_t tag = 4711;
    int rc;

    memset(in, 0x5a, sizeof(in));
    do {
        rc = rread_into(ch, region, at, PIECE, &size, &tag, 0);
        CHECK(ch, rc == 0 || (size == 4711 && tag == 4711));
    } while (scene_once_more(p, rc));
    if (rc == 0)
        CHECK(ch, size == message_bytes(i) && pattern_same(in + at, size, i) && tag == tag_of(i));
    return rc;
}

static int take_there(struct player *p, rch_t ch, uint64_t i)
{
    size_t size = 4711;
    raddr_t d;
    int rc;

    do
        rc = rread(ch, &d, &size);
    while (scene_once_more(p, rc));
    if (rc != 0)
        return rc;
    CHECK(ch, size == message_bytes(i) && pattern_same(rmem(ch, d), size, i) &&
                  rtag(ch, d) == tag_of(i));
    if (i % 4 == 3)
        backoff_us(300); /* the writer waits for its part */
    CHECK(ch, rfree(ch, d) == 0);
    return 0;
}

static int receive_all(struct player *p, rch_t ch)
{
    rregion_t region = region_of(p, ch, in, sizeof(in));
    uint64_t i = 0;
    int rc;

    if (region == NULL)
        return -ECONNRESET;
    do {
        rc = i % 3 == 1 || i + 1 >= MESSAGES ? take_there(p, ch, i) : take_into(p, ch, region, i);
        if (rc == 0)
            atomic_fetch_add(&mine(p)->number, 1);
        i += rc == 0;
        if (i == 20)
            backoff_us(1500); /* the writer has no memory */
    } while (rc == 0);
    CHECK(ch, rc == R_EOF || rc == -ECONNRESET);
    CHECK(ch, rc != R_EOF || i == MESSAGES);
    CHECK(ch, rread_into(ch, region, 0, PIECE, NULL, NULL, 0) == rc); /* again and again */
    return rc == R_EOF ? 0 : rc;
}

int scene_region(struct player *p)
{
    rpipe_config_t cfg = scene_config(p, p->peer, 0, p->rank == 0);
    rch_t ch = scene_open(p, &cfg);
    int rc = scene_wait_joined(p, ch);

    if (rc != 0)
        return rc;
    return p->rank == 0 ? send_all(p, ch) : receive_all(p, ch);
}
