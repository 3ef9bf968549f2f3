/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region_peer_stopped.c: a transfer from, or into, the program's memory over a network, whose other end is stopped (doc/regions.md).
 *
 * Calls end by their deadlines; the word stays 0, the region busy, and rclose leaves the pipe open: no call ever reports that the
 * memory is its own while the network may reach for it. Later all goes on: it is read, by a call that stores it elsewhere; or the pipe
 * is closed, and then nothing is stored in the program's memory any more.
 *
 * Over libfabric's provider tcp, where a READ takes the processor of the one that is read from. Skipped where that backend was not built.
 */
#include "test/lib/job.h"

#include <signal.h>
#include <sys/wait.h>

#define BYTES ((size_t)3 << 20)
#define FIRST 1000 /* a message before that: the connection is there, and the region is known */
#define SHORT_MS 200

struct round {
    rpipe_op_t op;
    bool reads; /* GET: else the reader closes */
};

static unsigned char memory[2 * BYTES];

static rch_t open_end(const struct round *round, int rank)
{
    rpipe_config_t cfg = channel_config(round->op, 1 - rank, rank == 0, 2 * BYTES);
    rch_t ch;

    CHECK(NULL, rpipe(&ch, &cfg) == 0);
    CHECK(ch, rwait(ch) == 0);
    return ch;
}

/* This end gets its memory back: at once, unless what it has sent was given up, which it may be read from until both have closed. */
static void end(rch_t ch, rregion_t region, bool aborted)
{
    int64_t patience = deadline_in_ms(PATIENCE_MS);
    int rc;

    CHECK(ch, rclose(ch) == 0);
    while ((rc = rregion_close(region)) == -EBUSY && aborted && !deadline_passed(patience))
        backoff_us(100);
    CHECK(NULL, rc == 0);
    memset(memory, 0xa5, sizeof(memory));
    CHECK(NULL, rexit() == 0);
}

static int writer(const struct round *round, struct board *board)
{
    rregion_t region = NULL;
    int word = 4711, rc;
    rch_t ch = open_end(round, 0);

    CHECK(ch, rregion_open(&region, ch, memory, BYTES) == 0);
    pattern_fill(memory, FIRST, 5);
    CHECK(ch, rwrite_from(ch, region, 0, FIRST, 0, NULL, 0) == 0 && rdone(ch, NULL, 0) == 0);
    pattern_fill(memory, BYTES, 1);
    rank_reached(board, 0, 1);
    if (round->op == RPIPE_PUT)
        rank_wait_go(board, 1); /* the reader is stopped */
    CHECK(ch, rwrite_from(ch, region, 0, BYTES, 77, &word, 0) == 0 && word == 0);
    if (round->op == RPIPE_PUT) {
        CHECK(ch, rset_timeout(ch, SHORT_MS) == 0);
        CHECK(ch, rdone(ch, &word, 0) == -ETIMEDOUT && rflush(ch) == -ETIMEDOUT && word == 0);
        CHECK(ch, rregion_close(region) == -EBUSY && rclose(ch) == -ETIMEDOUT);
        CHECK(ch, pattern_same(memory, BYTES, 1) && rset_timeout(ch, PATIENCE_MS) == 0);
    } else {
        CHECK(ch, rflush(ch) == 0);
    }
    rank_reached(board, 0, 2);
    rc = rdone(ch, &word, 0);
    CHECK(ch, rc == 0 || (rc == -EPIPE && !round->reads));
    CHECK(ch, word == (rc == 0 ? 1 : rc));
    end(ch, region, rc != 0);
    return 0;
}

static void take(rch_t ch, rregion_t region, size_t at)
{
    size_t size = 0;
    uint64_t tag = 0;

    CHECK(ch, rread_into(ch, region, at, BYTES, &size, &tag, 0) == 0);
    CHECK(ch, size == BYTES && tag == 77 && pattern_same(memory + at, BYTES, 1));
    CHECK(ch, rread_into(ch, region, 0, BYTES, NULL, NULL, 0) == R_EOF);
}

static int reader(const struct round *round, struct board *board)
{
    rch_t ch = open_end(round, 1);
    rregion_t region = NULL;

    CHECK(ch, rregion_open(&region, ch, memory, sizeof(memory)) == 0);
    CHECK(ch,
          rread_into(ch, region, 0, BYTES, NULL, NULL, 0) == 0 && pattern_same(memory, FIRST, 5));
    rank_reached(board, 1, 1);
    if (round->op == RPIPE_GET) {
        rank_wait_go(board, 1); /* the writer is stopped */
        CHECK(ch, rset_timeout(ch, SHORT_MS) == 0);
        CHECK(ch, rread_into(ch, region, 0, BYTES, NULL, NULL, 0) == -ETIMEDOUT);
        CHECK(ch, rregion_close(region) == -EBUSY && rclose(ch) == -ETIMEDOUT);
        CHECK(ch, rset_timeout(ch, PATIENCE_MS) == 0);
        rank_reached(board, 1, 2);
        rank_wait_go(board, 2); /* it goes on */
    }
    if (round->reads)
        take(ch, region, BYTES);
    end(ch, region, false);
    return 0;
}

static int be(int rank, struct board *board, const void *arguments)
{
    setenv("RPIPE_BTL", "ofi", 1);
    setenv("RPIPE_OFI_PROVIDER", "tcp", 1);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    return rank == 0 ? writer(arguments, board) : reader(arguments, board);
}

static void stop(struct job *job, int rank)
{
    siginfo_t info;

    job_kill(job, rank, SIGSTOP);
    EXPECT(waitid(P_PID, (id_t)job->pid[rank], &info, WSTOPPED) == 0, "rank %d has not stopped",
           rank);
}

static void play(const struct round *round)
{
    int stopped = round->op == RPIPE_PUT ? 1 : 0, rank;
    struct job job;
    bool good;

    job_prepare(&job, 2);
    job_start(&job, be, round);
    /* GET: the message is there, and its payload has not been asked for */
    good = job_reached(&job, 1, 1) && job_reached(&job, 0, round->op == RPIPE_PUT ? 1 : 2);
    if (good) {
        stop(&job, stopped);
        atomic_store(&job.board->go, 1);
        good = job_reached(&job, 1 - stopped, 2);
        job_kill(&job, stopped, SIGCONT);
        atomic_store(&job.board->go, 2);
    }
    for (rank = 0; rank < 2 && good; rank++)
        EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0), "%s: rank %d: status 0x%x",
               round->op == RPIPE_PUT ? "PUT"
               : round->reads         ? "GET, read"
                                      : "GET, closed",
               rank, job.status[rank]);
    job_finish(&job);
}

int main(int argc, char **argv)
{
    static const struct round rounds[] = {{RPIPE_PUT, true}, {RPIPE_GET, true}, {RPIPE_GET, false}};
    const char *modules = getenv("RPIPE_MODULE_PATH");
    char path[4096];
    size_t i;

    (void)argc;
    snprintf(path, sizeof(path), "%s/btl_ofi.so", modules != NULL ? modules : "lib/.libs");
    if (access(path, R_OK) != 0) {
        printf("skipped: backend ofi has not been built\n");
        return 77;
    }
    setenv("RPIPE_LOG", "error", 0);
    for (i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++)
        play(&rounds[i]);
    return check_report(argv[0]);
}
