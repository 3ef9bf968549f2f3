/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Casts between hosts, while packets are lost and repeated: streams of every size, with each rank as the writer; a writer that computes
 * while readers request what they lack; a reader that computes, while the writer has to end.
 *
 * usage: mp_mcast [PERCENT [MESSAGES]], with +hosts, or on several hosts. PERCENT, or -PERCENT, of the packets that arrive at each rank are
 * lost, and half as many repeated; MESSAGES: of one longer stream. -direct: by IPv6, where there are no groups, so that each reader is
 * sent its packets directly, and 5 % are lost. -cut, two ranks, for test/hosts/namespaces: the cable is pulled for good.
 */
#include "test/lib/mp_check.h"

#include <netinet/in.h>
#include <rcast.h>
#include <sys/socket.h>

static rcast_t cast_open(uint64_t context, int writer, uint32_t slots, uint64_t heap_bytes)
{
    rcast_config_t cfg = {
        .context = context, .writer = writer, .slots = slots, .heap_bytes = heap_bytes};
    rcast_t c = NULL;

    CHECK_OK(NULL, rcast_open(&c, &cfg, NULL, mp_ranks));
    return c;
}

static size_t size_of(uint64_t context, uint64_t number, size_t most)
{
    uint64_t state = number ^ context << 40, x = mp_draw(&state);

    return x % 2 == 0 ? x / 2 % 64 : x / 2 % (most + 1);
}

static void write_one(rcast_t c, uint64_t context, uint64_t number, size_t most)
{
    const size_t bytes = size_of(context, number, most);
    void *mem = NULL;

    CHECK_OK(NULL, rcast_alloc(c, bytes, &mem, 0));
    pattern_fill(mem, bytes, mp_key(0, 0, (uint32_t)context, number));
    CHECK_OK(NULL, rcast_write(c, mem, bytes, 0));
}

static void read_one(rcast_t c, uint64_t context, uint64_t number, size_t most)
{
    const size_t bytes = size_of(context, number, most);
    const void *mem = NULL;
    size_t got = SIZE_MAX;

    CHECK_OK(NULL, rcast_read(c, &mem, &got, 0));
    REQUIRE(got == bytes, "message %llu has %zu bytes, not %zu", (unsigned long long)number, got,
            bytes);
    REQUIRE(pattern_same(mem, bytes, mp_key(0, 0, (uint32_t)context, number)),
            "message %llu of %zu bytes is not what was sent", (unsigned long long)number, bytes);
    CHECK_OK(NULL, rcast_free(c, mem));
}

static void read_end(rcast_t c)
{
    const void *mem;
    size_t got;

    CHECK_RC(R_EOF, NULL, rcast_read(c, &mem, &got, 0));
    CHECK_OK(NULL, rcast_close(c));
}

static void stream(uint64_t context, int writer, uint32_t slots, uint64_t heap_bytes, size_t most,
                   uint64_t messages)
{
    rcast_t c = cast_open(context, writer, slots, heap_bytes);

    for (uint64_t i = 0; i < messages; i++)
        if (mp_rank == writer)
            write_one(c, context, i, most);
        else
            read_one(c, context, i, most);
    if (mp_rank == writer)
        CHECK_OK(NULL, rcast_close(c));
    else
        read_end(c);
}

/* The writer is in no call of the cast: its service thread sends again what readers lack. */
static void writer_elsewhere(uint64_t context)
{
    rcast_t c = cast_open(context, 0, 128, 1 << 20);

    for (uint64_t i = 0; i < 100; i++)
        if (mp_rank == 0)
            write_one(c, context, i, 4000);
        else
            read_one(c, context, i, 4000);
    CHECK_OK(NULL, network_barrier());
    if (mp_rank == 0)
        CHECK_OK(NULL, rcast_close(c));
    else
        read_end(c);
}

/* Readers are in no call: their service threads receive, so that the writer can close. */
static void readers_elsewhere(uint64_t context)
{
    rcast_t c = cast_open(context, 0, 128, 1 << 20);

    for (uint64_t i = 0; i < 100 && mp_rank == 0; i++)
        write_one(c, context, i, 4000);
    if (mp_rank == 0)
        CHECK_OK(NULL, rcast_close(c));
    CHECK_OK(NULL, network_barrier());
    for (uint64_t i = 0; i < 100 && mp_rank != 0; i++)
        read_one(c, context, i, 4000);
    if (mp_rank != 0)
        read_end(c);
}

/*
 * Ends by rexit alone: it closes what the ranks have open. The writer has more to send than the window admits, and readers read when
 * it is in rexit; of one cast each side has opened only its own end.
 */
static void left_open(uint64_t context)
{
    rcast_t c = cast_open(context, 0, 128, 1 << 20), alone = NULL;
    const void *mem;
    size_t got;

    if (mp_rank == 0)
        (void)cast_open(context + 1, 0, 2, 4096); /* no reader ever opens it */
    else
        alone = cast_open(context + 2, 0, 2, 4096);
    CHECK_OK(NULL, network_barrier());
    for (uint64_t i = 0; i < 100; i++)
        if (mp_rank == 0)
            write_one(c, context, i, 8000);
        else
            read_one(c, context, i, 8000);
    if (mp_rank == 0)
        return;
    CHECK_RC(R_EOF, NULL, rcast_read(c, &mem, &got, 0));
    CHECK_RC(-ECONNRESET, NULL, rcast_read(alone, &mem, &got, 0));
}

/* Messages until the other host is lost: one call of each end reports that within the keep-alive, or its deadline, and names the rank. */
static void until_cut(uint64_t context)
{
    rcast_config_t cfg = {.context = context, .slots = 64, .heap_bytes = 1 << 16};
    char buf[1000] = "", other[20];
    size_t bytes;
    rcast_t c = NULL;
    int rc = 0;

    CHECK_OK(NULL, rcast_open(&c, &cfg, NULL, 2));
    for (uint64_t i = 0; rc == 0; i++) {
        rc = mp_rank == 0 ? rcast_send(c, buf, sizeof(buf), 0)
                          : rcast_recv(c, buf, sizeof(buf), &bytes, 0);
        if (i == 1000 && mp_rank != 0) {
            printf("streaming\n");
            fflush(stdout);
        }
    }
    snprintf(other, sizeof(other), "rank %d", 1 - mp_rank);
    REQUIRE(rc == -ECONNRESET || rc == -ETIMEDOUT, "code %d: %s", rc, rerror(NULL));
    REQUIRE(strstr(rerror(NULL), other) != NULL, "no %s in: %s", other, rerror(NULL));
    printf("rank %d: %s\n", mp_rank, rerror(NULL));
    fflush(stdout);
    _exit(0); /* rexit is collective, and the other host is lost */
}

static bool has_ipv6(void)
{
    const struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    const bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&own, sizeof(own)) == 0;

    if (fd >= 0)
        close(fd);
    return has;
}

int main(int argc, char **argv)
{
    const bool direct = mp_asked(argc, argv, "-direct"), cut = mp_asked(argc, argv, "-cut");
    const long percent = direct ? 5 : cut ? 0 : argc > 1 ? labs(strtol(argv[1], NULL, 10)) : 0;
    uint64_t context;
    char lose[60];

    snprintf(lose, sizeof(lose), "1:%ld:%ld", percent, percent / 2);
    if (percent > 0)
        setenv("RPIPE_CAST_LOSE", lose, 0);
    if (direct && !has_ipv6()) {
        printf("skipped: no IPv6 here\n");
        return 77;
    }
    if (direct)
        setenv("RPIPE_INTERFACE", "::1", 1);
    mp_begin(argc, argv, 2);
    context = rcontext("mp_mcast");
    if (cut)
        until_cut(context);
    for (int writer = 0; writer < mp_ranks; writer++)
        stream(context++, writer, 64, 1 << 16, 4000, 400);
    if (argc > 2) { /* for test/hosts/namespaces, which interrupts it */
        printf("streaming\n");
        fflush(stdout);
        stream(context++, 0, 64, 1 << 16, 4000, strtoull(argv[2], NULL, 10));
    }
    stream(context++, 0, 2, 1 << 16, 8000, 200);
    stream(context++, 1, 256, 1 << 22, 300000, 30);
    stream(context++, 0, 0, 0, 48, 2000);
    writer_elsewhere(context++);
    readers_elsewhere(context++);
    left_open(context);
    return mp_end();
}
