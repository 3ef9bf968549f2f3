/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pipes whose heap is memory of a device, between two processes, in both directions, as PUT and as GET, in every mode: streams of random
 * sizes whose messages are freed out of order, by rwrite and rread and by rsend and rrecv. Every byte is checked where the device sees
 * it; the processor can touch none of them (fake_device.h). Over a network payloads are staged, since the memory is no dma-buf.
 */
#include "test/lib/fake_device.h"
#include "test/lib/mp_check.h"

enum { HEAP = 64 * 1024, MESSAGES = 600, HELD = 8 };

static struct fake_device device = {.lock = PTHREAD_MUTEX_INITIALIZER};
static rmemory_ops_t memory;

static rch_t open_end(bool writer, uint32_t ctx, rpipe_op_t op, rpipe_sync_t mode)
{
    rpipe_config_t cfg = {.role = writer ? RPIPE_WRITER : RPIPE_READER,
                          .peer = 1 - mp_rank,
                          .context = ctx,
                          .op = op,
                          .mode = mode,
                          .heuristic =
                              mode == RPIPE_SYNC_BLOCKS ? RMALLOC_NEXT_FIT : RMALLOC_BEST_FIT,
                          .heap_bytes = HEAP,
                          .slots = 16,
                          .memory = &memory};
    rch_t ch = NULL;

    CHECK_OK(NULL, rpipe(&ch, &cfg));
    return ch;
}

static size_t size_of(uint64_t key)
{
    uint64_t x = random_mix(~key);

    return x % 4 == 0 ? (x >> 8) % 64 : (x >> 8) % (HEAP / (3 * HELD));
}

static void put(rch_t ch, uint64_t key)
{
    size_t size = size_of(key);
    static uint8_t bytes[HEAP];
    raddr_t d;

    if (key % 3 == 0) {
        pattern_fill(bytes, size, key);
        CHECK_OK(ch, rsend(ch, bytes, size, 0));
        return;
    }
    CHECK(ch, (d = rmalloc(ch, size)) != ADDR_NULL);
    if (size > 0)
        pattern_fill(fake_at(&device, rmem(ch, d), size).inside, size, key);
    CHECK_OK(ch, rset_tag(ch, d, key));
    CHECK_OK(ch, rwrite(ch, d));
}

static void check(rch_t ch, raddr_t d, size_t size, uint64_t key)
{
    CHECK(ch, size == size_of(key) && rtag(ch, d) == (key % 3 == 0 ? 0 : key));
    if (size > 0)
        CHECK(ch, pattern_same(fake_at(&device, rmem(ch, d), size).inside, size, key));
}

/* Two of three messages are read and held for a while; the third is received by a copy. */
static void get(rch_t ch, int writer, uint32_t ctx, rpipe_sync_t mode)
{
    raddr_t held[HELD] = {ADDR_NULL};
    static uint8_t bytes[HEAP];
    uint64_t state = ctx;
    size_t size;

    for (uint64_t i = 0; i < MESSAGES; i++) {
        uint64_t key = mp_key(writer, 1 - writer, ctx, i);
        /* block mode: memory comes back in the order of the messages */
        size_t at = (mode == RPIPE_SYNC_BLOCKS ? i : mp_draw(&state)) % HELD;

        if (held[at] != ADDR_NULL)
            CHECK_OK(ch, rfree(ch, held[at]));
        held[at] = ADDR_NULL;
        if (i % 3 == 2) {
            CHECK_OK(ch, rrecv(ch, bytes, sizeof(bytes), &size, 0));
            CHECK(ch, size == size_of(key) && pattern_same(bytes, size, key));
            continue;
        }
        CHECK_OK(ch, rread(ch, &held[at], &size));
        check(ch, held[at], size, key);
    }
    for (int i = 0; i < HELD; i++)
        if (held[i] != ADDR_NULL)
            CHECK_OK(ch, rfree(ch, held[i]));
}

/* How the payloads travel. */
static void describe(rch_t ch)
{
    rinfo_pipe_t about;

    CHECK_OK(ch, rwait(ch));
    CHECK_OK(ch, rinfo_describe(ch, &about));
    CHECK(ch, strstr(about.path, "memory of a device (fake)") != NULL);
    printf("rank %d: %s: %s; %s\n", mp_rank, about.backend, about.path, about.why);
}

static void stream(int writer, uint32_t ctx, rpipe_op_t op, rpipe_sync_t mode)
{
    rch_t ch = open_end(mp_rank == writer, ctx, op, mode);
    raddr_t d;

    if (ctx == 0)
        describe(ch);
    if (mp_rank == writer) {
        for (uint64_t i = 0; i < MESSAGES; i++)
            put(ch, mp_key(writer, 1 - writer, ctx, i));
        CHECK_OK(ch, rflush(ch));
    } else {
        get(ch, writer, ctx, mode);
        CHECK_RC(R_EOF, ch, rread(ch, &d, NULL));
    }
    CHECK_OK(ch, rclose(ch));
}

/* One end has memory of a device, the other one of the host: both find that out. */
static void only_one(uint32_t ctx)
{
    rpipe_config_t cfg = {.role = mp_rank == 0 ? RPIPE_WRITER : RPIPE_READER,
                          .peer = 1 - mp_rank,
                          .context = ctx,
                          .heap_bytes = HEAP,
                          .memory = mp_rank == 0 ? &memory : NULL};
    rch_t ch = NULL;

    CHECK_OK(NULL, rpipe(&ch, &cfg));
    CHECK_RC(-EPROTO, ch, rwait(ch));
    CHECK(ch, strstr(rerror(ch), "memory of a device") != NULL);
    CHECK_OK(ch, rclose(ch));
}

int main(int argc, char **argv)
{
    uint32_t ctx = 0;

    memory = fake_ops(&device);
    mp_begin(argc, argv, 2);
    for (int writer = 0; writer < 2; writer++)
        for (int op = RPIPE_PUT; op <= RPIPE_GET; op++)
            for (int mode = RPIPE_SYNC_BLOCKS; mode <= RPIPE_SYNC_CHANNEL; mode++)
                stream(writer, ctx++, (rpipe_op_t)op, (rpipe_sync_t)mode);
    only_one(ctx++);
    CHECK_OK(NULL, rexit());
    CHECK(NULL, device.allocations == 0 && device.imports == 0); /* rexit gives everything back */
    return 0;
}
