/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * victim.h: both ends of a pipe in this process, one of which is attacked, for fuzz_pipe and fuzz_control.
 *
 * The calls of the attacked end must return what they may, and each message must be where messages can be.
 */
#ifndef TEST_FUZZ_VICTIM_H
#define TEST_FUZZ_VICTIM_H

#include "input.h"

#include "rpipe/end/rch.h"
#include "test/lib/cells.h"

#define VICTIM_HEAP 4096
#define VICTIM_MOST (8 * VICTIM_HEAP)
#define VICTIM_SLOTS 8
#define VICTIM_HELD 4

struct victim {
    rch_t w, r;
    raddr_t held[VICTIM_HELD];
    int held_next;
};

static inline uint64_t input_long(struct input *in)
{
    uint64_t v = input_word(in) | (uint64_t)input_word(in) << 16;

    return v | (uint64_t)input_word(in) << 32 | (uint64_t)input_word(in) << 48;
}

/* Small, of the size of a heap, near the largest, any. */
static inline uint64_t input_number(struct input *in)
{
    uint32_t how = input_byte(in);

    switch (how & 7) {
    case 0:
    case 1:
    case 2:
        return how >> 3;
    case 3:
        return (uint64_t)(how >> 3) * 64;
    case 4:
        return input_word(in);
    case 5:
        return UINT64_MAX - (how >> 3);
    case 6:
        return UINT64_C(1) << (how >> 3) << (input_byte(in) & 31);
    default:
        return input_long(in);
    }
}

static inline void victim_start(void)
{
    static bool started;

    if (started)
        return;
    started = true;
    setenv("RPIPE_BOOTSTRAP", "single", 1);
    setenv("RPIPE_LOG", "error", 1);
    setenv("RPIPE_ATOMICS", "service", 1);
    REQUIRE(rinit(NULL, NULL) == 0);
}

static inline rch_t victim_end(rpipe_op_t op, bool writer, uint32_t how, uint32_t ctx)
{
    rpipe_config_t cfg = {0};
    rch_t ch;

    cfg.op = op;
    cfg.peer = 0;
    cfg.role = writer ? RPIPE_WRITER : RPIPE_READER;
    cfg.heap_bytes = VICTIM_HEAP;
    cfg.context = ctx;
    cfg.slots = VICTIM_SLOTS;
    cfg.timeout_ms = 20000;
    cfg.mode = (rpipe_sync_t)(RPIPE_SYNC_BLOCKS + (how & 3) % 3);
    cfg.heuristic = cfg.mode == RPIPE_SYNC_BLOCKS
                        ? RMALLOC_NEXT_FIT
                        : (rmalloc_fit_t)(RMALLOC_NEXT_FIT + (how >> 2 & 7) % 6);
    cfg.sync_queue = cfg.mode == RPIPE_SYNC_BLOCKS ? 0 : 1 + (how >> 5 & 3) * 2;
    cfg.max_heap_bytes = (how >> 7 & 1) != 0 ? VICTIM_MOST : 0;
    REQUIRE(rpipe(&ch, &cfg) == 0);
    return ch;
}

static inline void victim_open(struct victim *v, rpipe_op_t op, uint32_t how, uint32_t ctx)
{
    *v = (struct victim){.w = victim_end(op, true, how, ctx), .r = victim_end(op, false, how, ctx)};
    REQUIRE(rwait(v->w) == 0 && rwait(v->r) == 0);
}

static inline void victim_open_cells(struct victim *v, uint32_t context)
{
    rpipe_config_t cfg = {.context = context, .heap_bytes = 64, .timeout_ms = 20000};

    *v = (struct victim){0};
    REQUIRE(cells_open(&v->w, &cfg, true, NULL) == 0 && cells_open(&v->r, &cfg, false, NULL) == 0);
    REQUIRE(rwait(v->w) == 0 && rwait(v->r) == 0);
}

static inline void victim_close_cells(struct victim *v)
{
    REQUIRE(rcells_close(cells_at(v->w)) == 0 && rcells_close(cells_at(v->r)) == 0);
}

static inline void victim_close(struct victim *v)
{
    REQUIRE(rclose(v->w) == 0 && rclose(v->r) == 0);
}

static inline void victim_judge(rch_t ch, int rc)
{
    static const int codes[] = {0,       R_PENDING, R_EOF,     -EPROTO,     -EPIPE,    -ENOBUFS,
                                -ENOMEM, -ENOSPC,   -EMSGSIZE, -ECONNRESET, -ETIMEDOUT};
    size_t i = 0;

    while (i < sizeof(codes) / sizeof(codes[0]) && codes[i] != rc)
        i++;
    REQUIRE(i < sizeof(codes) / sizeof(codes[0]));
    REQUIRE(rc != -EPROTO || strlen(rerror(ch)) > 20);
}

static inline void victim_write(struct victim *v, size_t size)
{
    raddr_t d;
    int rc = rmalloc_nb(v->w, size, &d);

    victim_judge(v->w, rc);
    if (rc != 0)
        return;
    memset(rmem(v->w, d), 1, size);
    rc = rwrite_nb(v->w, d);
    victim_judge(v->w, rc);
    if (rc != 0)
        REQUIRE(rfree(v->w, d) == 0);
}

static inline void victim_read(struct victim *v)
{
    static volatile uint8_t byte;
    const struct rdesc *at;
    raddr_t d;
    size_t size;
    int rc = rread_nb(v->r, &d, &size);

    victim_judge(v->r, rc);
    if (rc != 0)
        return;
    REQUIRE(size == rsize(v->r, d));
    at = desc_of(d);
    REQUIRE(at->units == 0 ? size <= DESC_INLINE_MAX
                           : at->offset < VICTIM_MOST && size <= VICTIM_MOST - at->offset);
    for (size_t i = 0; i < size; i++)
        byte = ((const uint8_t *)rmem(v->r, d))[i];
    if (v->held[v->held_next] != NULL)
        REQUIRE(rfree(v->r, v->held[v->held_next]) == 0);
    v->held[v->held_next] = d;
    v->held_next = (v->held_next + 1) % VICTIM_HELD;
    (void)byte;
}

static inline void victim_give_back(struct victim *v, uint32_t which)
{
    raddr_t *d = &v->held[which % VICTIM_HELD];

    if (*d != NULL)
        REQUIRE(rfree(v->r, *d) == 0);
    *d = NULL;
}

#endif
