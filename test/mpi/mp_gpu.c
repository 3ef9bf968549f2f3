/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pipes whose heap is memory of a GPU (contrib/gpu), between two processes, in both directions, as PUT and as GET, in every mode:
 * streams of random sizes that kernels fill and compare (examples/gpu.h), or that rsend and rrecv copy, freed out of order; and
 * descriptors that are no memory of a GPU.
 *
 *   -cuda, -hip   over a fake driver (test/lib/fake_gpu.c)
 *   -real-cuda    over the driver and the device of this machine; -real-hip likewise
 */
#include "examples/gpu.h"
#include "test/lib/mp_check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { HEAP = 1 << 20, MESSAGES = 300, HELD = 8, WORDS_MOST = HEAP / 4 / (3 * HELD) };

static struct gpu gpu;

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
                          .memory = gpu.memory};
    rch_t ch = NULL;

    CHECK_OK(NULL, rpipe(&ch, &cfg));
    return ch;
}

static uint32_t words_of(uint64_t key)
{
    uint64_t x = random_mix(~key);

    return 1 + (uint32_t)((x >> 8) % (x % 4 == 0 ? 16 : WORDS_MOST));
}

static void put(rch_t ch, uint64_t key)
{
    static uint32_t words[WORDS_MOST];
    uint32_t n = words_of(key);
    raddr_t d;

    if (key % 3 == 0) {
        for (uint32_t i = 0; i < n; i++)
            words[i] = gpu_word((uint32_t)key, i);
        CHECK_OK(ch, rsend(ch, words, n * sizeof(words[0]), 0));
        return;
    }
    CHECK(ch, (d = rmalloc(ch, n * sizeof(words[0]))) != ADDR_NULL);
    gpu.fill(&gpu, rmem(ch, d), n, (uint32_t)key);
    CHECK_OK(ch, rwrite(ch, d));
}

static void get_copy(rch_t ch, uint64_t key)
{
    static uint32_t words[WORDS_MOST];
    size_t size;

    CHECK_OK(ch, rrecv(ch, words, sizeof(words), &size, 0));
    CHECK(ch, size == words_of(key) * sizeof(words[0]));
    for (uint32_t i = 0; i < words_of(key); i++)
        CHECK(ch, words[i] == gpu_word((uint32_t)key, i));
}

/* Two of three messages are read and held for a while; the third is received by a copy. */
static void get(rch_t ch, int writer, uint32_t ctx, rpipe_sync_t mode)
{
    raddr_t held[HELD] = {ADDR_NULL};
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
            get_copy(ch, key);
            continue;
        }
        CHECK_OK(ch, rread(ch, &held[at], &size));
        CHECK(ch, size == words_of(key) * sizeof(uint32_t));
        CHECK(ch, gpu.check(&gpu, rmem(ch, held[at]), words_of(key), (uint32_t)key) == 0);
    }
    for (int i = 0; i < HELD; i++)
        if (held[i] != ADDR_NULL)
            CHECK_OK(ch, rfree(ch, held[i]));
}

static void stream(int writer, uint32_t ctx, rpipe_op_t op, rpipe_sync_t mode)
{
    rch_t ch = open_end(mp_rank == writer, ctx, op, mode);
    raddr_t d;

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

/* The import is refused. The descriptor is closed. */
static void refused(const char *what, int fd, size_t bytes)
{
    const rmemory_ops_t *m = gpu.memory;
    void *base = NULL;
    int rc;

    CHECK(NULL, fd >= 0);
    rc = m->import(m->argument, fd, bytes, &base);
    printf("rank %d: import of %s: %s; %s\n", mp_rank, what, rinfo_strerror(rc), gpu.error(&gpu));
    REQUIRE(rc == -EPROTO && base == NULL, "%s: %d", what, rc);
    close(fd);
}

static void descriptors(void)
{
    const rmemory_ops_t *m = gpu.memory;
    enum { BYTES = 4 << 20 };
    void *base = NULL, *again = NULL;
    int fd = -1, pair[2];

    refused("a memfd", memfd_create("no memory of a GPU", MFD_CLOEXEC), BYTES);
    refused("a file", open("/proc/self/exe", O_RDONLY | O_CLOEXEC), BYTES);
    refused("a device", open("/dev/null", O_RDWR | O_CLOEXEC), BYTES);
    CHECK(NULL, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    refused("a socket", pair[0], BYTES);
    close(pair[1]);
    CHECK(NULL, pipe2(pair, O_CLOEXEC) == 0);
    refused("a pipe", pair[0], BYTES);
    close(pair[1]);

    CHECK(NULL, m->alloc(m->argument, BYTES, &base, &fd) == 0);
    refused("less memory than it should be", dup(fd), 16 * BYTES);
    CHECK(NULL, m->import(m->argument, fd, BYTES, &again) == 0);
    close(fd);
    gpu.fill(&gpu, base, BYTES / 4, 5);
    CHECK(NULL, gpu.check(&gpu, again, BYTES / 4, 5) == 0);
    CHECK(NULL, gpu.check(&gpu, again, BYTES / 4, 6) > BYTES / 8);
    m->free(m->argument, base, BYTES);
    CHECK(NULL, gpu.check(&gpu, again, BYTES / 4, 5) == 0); /* the import keeps it */
    m->unimport(m->argument, again, BYTES);
}

int main(int argc, char **argv)
{
    bool real = mp_asked(argc, argv, "-real-cuda") || mp_asked(argc, argv, "-real-hip"),
         hip = mp_asked(argc, argv, "-hip") || mp_asked(argc, argv, "-real-hip");
    const char *fake = hip ? "test/lib/.libs/fake_hip.so" : "test/lib/.libs/fake_cuda.so";
    char error[256] = "";
    uint32_t ctx = 0;

    mp_begin(argc, argv, 2);
    REQUIRE(gpu_open(&gpu, hip ? "hip" : "cuda", real ? NULL : fake, 0, error, sizeof(error)) == 0,
            "%s", error);
    printf("rank %d: %s\n", mp_rank, gpu.name);
    descriptors();
    for (int writer = 0; writer < 2; writer++)
        for (int op = RPIPE_PUT; op <= RPIPE_GET; op++)
            for (int mode = RPIPE_SYNC_BLOCKS; mode <= RPIPE_SYNC_CHANNEL; mode++)
                stream(writer, ctx++, (rpipe_op_t)op, (rpipe_sync_t)mode);
    CHECK_OK(NULL, rexit());
    gpu.close(&gpu);
    printf("rank %d: %u streams of %d messages were as sent\n", mp_rank, ctx, MESSAGES);
    return 0;
}
