/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * debug_one_end.c: RMALLOC_DEBUG=1 at one end of a pipe alone: its own stores beyond a message are found, those of the other end
 * are not, and every message arrives as it was sent.
 */
#include "test/lib/job.h"

#include <errno.h>
#include <string.h>

#define MESSAGES 400

struct setting {
    int debugging; /* the rank that has RMALLOC_DEBUG=1 */
    rpipe_op_t op;
};

static size_t message_bytes(uint64_t i) { return i * 37 % 500; }

/* A byte behind a message that has no other use: of its slot, or of its last unit. */
static bool spoil(rch_t ch, raddr_t d, size_t bytes)
{
    uint8_t *at = (uint8_t *)rmem(ch, d) + bytes;

    if (bytes > 40 && bytes % 64 == 0)
        return false;
    *at ^= 1;
    return true;
}

static void write_messages(rch_t ch, bool debugging)
{
    for (uint64_t i = 0; i < MESSAGES; i++) {
        size_t bytes = message_bytes(i);
        raddr_t d = rmalloc(ch, bytes);

        CHECK(ch, d != ADDR_NULL);
        pattern_fill(rmem(ch, d), bytes, i);
        if (i % 3 == 0 && spoil(ch, d, bytes) && debugging) {
            CHECK_RC(-EUCLEAN, ch, rwrite(ch, d));
            CHECK_ERROR(ch, "beyond a message");
        }
        CHECK_OK(ch, rwrite(ch, d));
    }
}

static void read_messages(rch_t ch, const struct setting *s, bool debugging)
{
    for (uint64_t i = 0; i < MESSAGES; i++) {
        size_t size;
        raddr_t d;

        CHECK_OK(ch, rread(ch, &d, &size));
        CHECK(ch, size == message_bytes(i) && pattern_same(rmem(ch, d), size, i));
        if (s->op == RPIPE_PUT || size <= 40)
            memset(rmem(ch, d), 0, size);
        if (size <= 40 && spoil(ch, d, size) && debugging)
            CHECK_RC(-EUCLEAN, ch, rfree(ch, d));
        CHECK_OK(ch, rfree(ch, d));
    }
}

static int rank_of_two(int rank, struct board *board, const void *arguments)
{
    const struct setting *s = arguments;
    rpipe_config_t cfg = channel_config(s->op, 1 - rank, rank == 0, 8192);
    bool debugging = rank == s->debugging;
    rch_t ch;

    (void)board;
    setenv("RMALLOC_DEBUG", debugging ? "1" : "0", 1);
    CHECK_OK(NULL, rinit(NULL, NULL));
    CHECK_OK(NULL, rpipe(&ch, &cfg));
    if (rank == 0)
        write_messages(ch, debugging);
    else
        read_messages(ch, s, debugging);
    CHECK_OK(ch, rclose(ch));
    CHECK_OK(NULL, rexit());
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    setenv("RPIPE_LOG", "error", 0);
    for (int debugging = 0; debugging < 2; debugging++)
        for (int op = RPIPE_PUT; op <= RPIPE_GET; op++) {
            struct setting s = {debugging, (rpipe_op_t)op};
            struct job job;

            job_prepare(&job, 2);
            job_start(&job, rank_of_two, &s);
            for (int rank = 0; rank < 2; rank++)
                EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0),
                       "rank %d, debugging %d, %s", rank, debugging,
                       op == RPIPE_PUT ? "PUT" : "GET");
            job_finish(&job);
        }
    return check_report(argv[0]);
}
