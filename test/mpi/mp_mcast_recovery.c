/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deaths in a cast between hosts, while packets are lost: readers die in the middle of a stream, one after the other, and all others get
 * every message; then the writer dies, and those that live get what it had sent, in order, and its death. Run with +hosts, or on several hosts.
 */
#include "test/lib/mp_check.h"

#include <rcast.h>
#include <signal.h>

#define MESSAGES 3000u
#define BYTES 1000u

static uint64_t key_of(uint64_t number) { return mp_key(0, 0, 1, number); }

/* Message `number`, or the code with which the stream ends. */
static int read_one(rcast_t c, uint64_t number)
{
    const size_t bytes = number % BYTES;
    const void *mem = NULL;
    size_t got = 0;
    int rc = rcast_read(c, &mem, &got, 0);

    if (rc != 0)
        return rc;
    REQUIRE(got == bytes && pattern_same(mem, bytes, key_of(number)),
            "message %llu is not what was sent", (unsigned long long)number);
    CHECK_OK(NULL, rcast_free(c, mem));
    return 0;
}

/* Sends it, whatever readers die meanwhile: each death is reported once. */
static void write_one(rcast_t c, uint64_t number, int *deaths)
{
    const size_t bytes = number % BYTES;
    unsigned char buf[BYTES];
    int rc;

    pattern_fill(buf, bytes, key_of(number));
    while ((rc = rcast_send(c, buf, bytes, 0)) == -ECONNRESET)
        ++*deaths;
    CHECK_RC(0, NULL, rc);
}

/* Half of the readers die, the last ones first, each at another message. */
static int dies_at(int rank) { return rank > mp_ranks / 2 ? 300 + 200 * (mp_ranks - rank) : -1; }

static void readers_die(uint64_t context)
{
    rcast_config_t cfg = {.context = context, .slots = 64};
    int deaths = 0;
    rcast_t c = NULL;

    CHECK_OK(NULL, rcast_open(&c, &cfg, NULL, mp_ranks));
    for (uint64_t i = 0; i < MESSAGES; i++) {
        if (dies_at(mp_rank) == (int)i)
            raise(SIGKILL);
        if (mp_rank == 0)
            write_one(c, i, &deaths);
        else
            CHECK_RC(0, NULL, read_one(c, i));
    }
    if (mp_rank != 0)
        CHECK_RC(R_EOF, NULL, read_one(c, MESSAGES));
    else
        REQUIRE(deaths > 0 && deaths + rcast_count(c) <= mp_ranks - 1, "%d deaths, %d readers live",
                deaths, rcast_count(c));
    CHECK_OK(NULL, rcast_close(c));
}

static void writer_dies(uint64_t context)
{
    const int living = mp_ranks / 2 + 1;
    rcast_config_t cfg = {.context = context};
    rcast_t c = NULL;
    uint64_t i = 0;
    int rc = 0, deaths = 0;

    CHECK_OK(NULL, rcast_open(&c, &cfg, NULL, living));
    if (mp_rank == 0) {
        for (; i < 1000; i++)
            write_one(c, i, &deaths);
        raise(SIGKILL);
    }
    while (rc == 0)
        rc = read_one(c, i++);
    REQUIRE(rc == -ECONNRESET && i >= 1000 - 256, "code %d after %llu messages", rc,
            (unsigned long long)i);
    CHECK(NULL, rcast_lost(c) == 0);
    CHECK_OK(NULL, rcast_close(c));
}

int main(int argc, char **argv)
{
    const uint64_t context = 77;

    setenv("RPIPE_CAST_LOSE", "3:10:5", 0);
    mp_begin(argc, argv, 3);
    readers_die(context);
    writer_dies(context + 1);
    _exit(0); /* rexit is collective, and some are gone */
}
