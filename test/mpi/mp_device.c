/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pipes whose heap is memory of a device, between two processes, in both directions, as PUT and as GET, in every mode: streams of random
 * sizes whose messages are freed out of order, by rwrite and rread and by rsend and rrecv. Every byte is checked where the device sees
 * it; the processor can touch none of them (fake_device.h). Over a network payloads are staged, since the memory is no dma-buf. And a window
 * of such memory, which the other process writes into and fetches from.
 */
#include "test/lib/fake_device.h"
#include "test/lib/mp_check.h"

enum { HEAP = 64 * 1024, MESSAGES = 600, HELD = 8, WINDOW = 200 * 1000, ROUNDS = 100 };

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

/* ---- a window at rank 0 ---- */

/* The owner or the user, and the pipes from and to the other one. */
struct side {
    rch_t out, in;
    rwindow_handle_t handle;
};

/* The bytes that the user places in a round, and the owner changes. */
static size_t window_part(uint64_t round, uint64_t *at)
{
    size_t bytes = 1 + random_mix(round) % (WINDOW / 2);

    *at = random_mix(~round) % (WINDOW - bytes);
    return bytes;
}

/* A message of the other process: what it has placed or stored before is here. */
static void window_pass(rch_t from, uint64_t round)
{
    uint64_t got = 0;
    size_t n;

    CHECK_OK(from, rrecv(from, &got, sizeof(got), &n, 0));
    CHECK(from, got == round);
}

static void window_own(struct side *s)
{
    rregion_t region;
    rwindow_t window;
    uint8_t *inside;

    CHECK_OK(NULL, rregion_open_device(&region, NULL, &memory, NULL, WINDOW));
    inside = fake_at(&device, rregion_mem(region), WINDOW).inside;
    CHECK_OK(s->out,
             rwindow_open(&window, s->out, region, RWINDOW_READ | RWINDOW_WRITE, &s->handle));
    CHECK_OK(s->out, rsend(s->out, &s->handle, sizeof(s->handle), 0));
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t at;
        size_t bytes = window_part(round, &at);

        window_pass(s->in, round);
        CHECK_OK(NULL, rwindow_sync(window, at, bytes, RWINDOW_WRITE));
        CHECK(s->in, pattern_same(inside + at, bytes, 2 * round));
        pattern_fill(inside + at, bytes, 2 * round + 1);
        CHECK_OK(NULL, rwindow_sync(window, at, bytes, RWINDOW_READ));
        CHECK_OK(s->out, rsend(s->out, &round, sizeof(round), 0));
    }
    window_pass(s->in, ROUNDS); /* the user has detached it */
    CHECK_OK(NULL, rwindow_close(window));
    CHECK_OK(NULL, rregion_close(region));
}

static void window_use(struct side *s)
{
    static uint8_t near[WINDOW];
    uint64_t last = ROUNDS;
    rremote_t remote;
    rregion_t here;
    size_t n;

    CHECK_OK(s->in, rrecv(s->in, &s->handle, sizeof(s->handle), &n, 0));
    CHECK_OK(s->out, rwindow_attach_device(&remote, s->out, &memory, &s->handle, 0));
    CHECK_OK(s->out, rregion_open(&here, s->out, near, WINDOW));
    for (uint64_t round = 0; round < ROUNDS; round++) {
        int written, fetched;
        uint64_t at;
        size_t bytes = window_part(round, &at);

        pattern_fill(near, bytes, 2 * round);
        CHECK_OK(s->out, rwindow_write(remote, at, near, bytes, here, &written, 0));
        CHECK_OK(s->out, rsend(s->out, &round, sizeof(round), 0));
        window_pass(s->in, round);
        CHECK_OK(s->out, rdone(s->out, &written, 0));
        CHECK_OK(s->out, rwindow_fetch(remote, at, near, bytes, here, &fetched, 0));
        CHECK_OK(s->out, rdone(s->out, &fetched, 0));
        CHECK(s->out, pattern_same(near, bytes, 2 * round + 1));
    }
    CHECK_OK(s->out, rwindow_detach(remote));
    CHECK_OK(s->out, rsend(s->out, &last, sizeof(last), 0));
    CHECK_OK(NULL, rregion_close(here));
}

static void window(uint32_t ctx)
{
    const bool owner = mp_rank == 0;
    struct side s = {
        .out = open_end(true, owner ? ctx : ctx + 1, RPIPE_PUT, RPIPE_SYNC_BLOCKS),
        .in = open_end(false, owner ? ctx + 1 : ctx, RPIPE_PUT, RPIPE_SYNC_BLOCKS),
    };

    if (owner)
        window_own(&s);
    else
        window_use(&s);
    CHECK_OK(s.out, rclose(s.out));
    CHECK_OK(s.in, rclose(s.in));
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
    window(ctx);
    ctx += 2;
    only_one(ctx++);
    CHECK_OK(NULL, rexit());
    CHECK(NULL, device.allocations == 0 && device.imports == 0); /* rexit gives everything back */
    return 0;
}
