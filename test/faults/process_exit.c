/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process_exit.c: every way in which a process can leave its peers, come late, or stand still.
 *
 * exit(3), _exit(2), abort(3), a crash and execve(2) without rexit are deaths; rclose before them is not; rexit too
 * early is an orderly end. A peer that never opens, or opens and closes before any peer joins it, keeps no process
 * waiting longer than the deadline. A peer that is stopped is not dead: the deadline decides, and afterwards
 * everything goes on.
 */
#include "test/lib/job.h"

#include <signal.h>
#include <sys/resource.h>

#define MESSAGES 7
#define SHORT_MS 250 /* a deadline that is to pass */

enum way {
    BY_EXIT,
    BY_QUICK_EXIT,
    BY_ABORT,
    BY_CRASH,
    BY_EXEC,
    BY_CLOSE_AND_EXIT,
    BY_RETURN,
    WAYS
};
static const char *const way_names[WAYS] = {
    "exit", "_exit", "abort", "a crash", "execve", "rclose, then _exit", "return from main"};

struct leaving {
    enum way way;
    rpipe_op_t op;
};

static size_t message_bytes(uint64_t i) { return i % 2 == 0 ? 24 : 3000; }

static void write_messages(rch_t ch, uint64_t from, uint64_t to)
{
    uint64_t i;
    raddr_t d;
    void *mem;

    for (i = from; i < to; i++) {
        mem = (d = rmalloc(ch, message_bytes(i))) != ADDR_NULL ? rmem(ch, d) : NULL;
        CHECK(ch, mem != NULL);
        pattern_fill(mem, message_bytes(i), i);
        CHECK(ch, rwrite(ch, d) == 0);
    }
}

static int read_messages(rch_t ch, uint64_t from, uint64_t to)
{
    uint64_t i;
    raddr_t d;
    size_t size;
    int rc = 0;

    for (i = from; i < to && (rc = rread(ch, &d, &size)) == 0; i++) {
        CHECK(ch, size == message_bytes(i) && pattern_same(rmem(ch, d), size, i));
        CHECK(ch, rfree(ch, d) == 0);
    }
    return rc;
}

static rch_t open_channel(rpipe_op_t op, int rank, bool writer, uint32_t ctx)
{
    rpipe_config_t cfg = channel_config(op, 1 - rank, writer, 1 << 16);
    rch_t ch = NULL;

    cfg.context = ctx;
    CHECK(NULL, rpipe(&ch, &cfg) == 0);
    return ch;
}

/* ---- without rexit ---- */

static void leave(enum way way, rch_t ch)
{
    static char *const nothing[] = {(char *)"sleep", (char *)"30", NULL};
    const struct rlimit none = {0, 0};

    setrlimit(RLIMIT_CORE, &none);
    switch (way) {
    case BY_EXIT:
        exit(0);
    case BY_QUICK_EXIT:
        _exit(0);
    case BY_ABORT:
        abort();
    case BY_CRASH:
        signal(SIGSEGV, SIG_DFL); /* also where a sanitizer would report it */
        raise(SIGSEGV);
        break;
    case BY_EXEC:
        execv("/bin/sleep", nothing);
        break;
    case BY_CLOSE_AND_EXIT:
        CHECK(ch, rclose(ch) == 0);
        _exit(0);
    case BY_RETURN:
    case WAYS:
        break;
    }
}

static int leaves_or_stays(int rank, struct board *board, const void *arguments)
{
    const struct leaving *l = arguments;
    rch_t ch;
    int rc;

    CHECK(NULL, rinit(NULL, NULL) == 0);
    ch = open_channel(l->op, rank, rank == 1, 0);
    CHECK(ch, rwait(ch) == 0);
    if (rank == 1) {
        write_messages(ch, 0, MESSAGES);
        rank_wait_go(board, 1);
        atomic_store(&board->killed, clock_now());
        leave(l->way, ch);
        return 0; /* BY_RETURN */
    }
    CHECK(ch, read_messages(ch, 0, MESSAGES / 2) == 0);
    atomic_store(&board->go, 1);
    rc = read_messages(ch, MESSAGES / 2, MESSAGES + 1);
    rank_returned(board, rank, rc, ch);
    CHECK(ch, rc == (l->way == BY_CLOSE_AND_EXIT ? R_EOF : -ECONNRESET));
    CHECK(ch, rclose(ch) == 0);
    if (l->way == BY_CLOSE_AND_EXIT) { /* the channel has ended well; the process has not */
        char byte;

        CHECK(NULL, network_recv(1, &byte, 1) == -ECONNRESET);
    }
    CHECK(NULL, rexit() == 0);
    return 0;
}

static void test_ways(int rounds)
{
    static struct spread spread;
    struct leaving l;
    struct job job;
    int round;

    for (l.way = 0; l.way < WAYS; l.way++) {
        spread.n = 0;
        for (round = 0; round < rounds; round++) {
            l.op = round % 2 == 0 ? RPIPE_PUT : RPIPE_GET;
            job_prepare(&job, 2);
            job_start(&job, leaves_or_stays, &l);
            if (job_ended(&job, 0)) {
                EXPECT(job_status_is(&job, 0, 0),
                       "%s: the rank that stays ended with status 0x%x: %s", way_names[l.way],
                       job.status[0], job.board->rank[0].error_message);
                spread_add(&spread,
                           (double)(job.board->rank[0].returned - job.board->killed) / 1e6);
            }
            job_finish(&job);
        }
        spread_print(&spread, way_names[l.way]);
    }
}

/* ---- rexit too early ---- */

static int early(int rank, struct board *board, const void *arguments)
{
    rch_t in, out;
    rpipe_config_t cfg;
    int64_t begin;
    char byte;
    int rc;

    (void)arguments;
    setenv("RPIPE_TIMEOUT_MS", rank == 1 ? "400" : "20000", 1);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    in = open_channel(RPIPE_GET, rank, rank == 1, 0);
    out = open_channel(RPIPE_PUT, rank, rank == 0, 0);
    if (rank == 1) {
        write_messages(in, 0, MESSAGES);
        begin = clock_now();
        rc = rexit();
        CHECK(NULL, rc == -ETIMEDOUT);
        CHECK(NULL,
              clock_now() - begin > 390 * NS_PER_MS && clock_now() - begin < 5000 * NS_PER_MS);
        rank_reached(board, rank, 1);
        return 0;
    }
    CHECK(in, read_messages(in, 0, MESSAGES + 1) == R_EOF);
    while (atomic_load(&board->rank[1].phase) == 0)
        backoff_us(1000);
    CHECK(NULL, network_recv(1, &byte, 1) == -EPIPE);
    while ((rc = network_send(1, &byte, 1)) == 0) /* until its last frame has come */
        backoff_us(1000);
    CHECK(NULL, rc == -EPIPE);
    CHECK(NULL, network_barrier() == -EPIPE);
    while ((rc = rwrite(out, rmalloc(out, 8))) == 0)
        ;
    CHECK(out, rc == -EPIPE);
    cfg = channel_config(RPIPE_PUT, 1, true, 4096);
    CHECK(NULL, rpipe(&out, &cfg) == -EEXIST || rpipe(&out, &cfg) == -EPIPE);
    begin = clock_now();
    CHECK(NULL, rexit() == 0);
    CHECK(NULL, clock_now() - begin < 2000 * NS_PER_MS);
    return 0;
}

/* ---- half open ---- */

static int half_open(int rank, struct board *board, const void *arguments)
{
    int64_t begin;
    raddr_t d;
    rch_t ch;
    int i, rc;

    (void)arguments;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    /* opened and closed before the peer joined: 0 and 1 by the writer, 2 and 3 by the reader, each PUT and GET */
    for (i = 0; rank == 1 && i < 4; i++)
        CHECK(NULL, rclose(open_channel(i % 2 == 0 ? RPIPE_PUT : RPIPE_GET, rank, i < 2,
                                        (uint32_t)i)) == 0);
    CHECK(NULL, network_barrier() == 0);
    for (i = 0; rank == 0 && i < 4; i++) {
        ch = open_channel(i % 2 == 0 ? RPIPE_PUT : RPIPE_GET, rank, i >= 2, (uint32_t)i);
        CHECK(ch, rwait(ch) == 0);
        if (i < 2)
            CHECK(ch, rread(ch, &d, NULL) == R_EOF);
        else
            CHECK(ch, rwrite(ch, rmalloc(ch, 8)) == -EPIPE);
        CHECK(ch, rclose(ch) == 0);
    }
    /* never opened, then opened after all: by the second incarnation of 0 */
    ch = NULL;
    if (rank == 0) {
        ch = open_channel(RPIPE_PUT, rank, true, 0);
        CHECK(ch, rset_timeout(ch, SHORT_MS) == 0);
        begin = clock_now();
        rc = rwait(ch);
        CHECK(ch, rc == -ETIMEDOUT && clock_now() - begin >= (SHORT_MS - 1) * NS_PER_MS);
        CHECK(ch, strstr(rerror(ch), "rank 1") != NULL);
        d = rmalloc(ch, 8);
        CHECK(ch, d != ADDR_NULL && rwrite(ch, d) == -ETIMEDOUT && rfree(ch, d) == 0);
        errno = 0;
        CHECK(ch, rmalloc(ch, 4000) == ADDR_NULL && errno == ETIMEDOUT);
    }
    CHECK(NULL, network_barrier() == 0);
    if (rank == 1)
        ch = open_channel(RPIPE_PUT, rank, false, 0);
    CHECK(ch, rset_timeout(ch, PATIENCE_MS) == 0);
    if (rank == 0)
        write_messages(ch, 0, MESSAGES);
    else
        CHECK(ch, read_messages(ch, 0, MESSAGES) == 0);
    /* a reader that no peer will ever join does not keep rexit waiting */
    open_channel(RPIPE_PUT, rank, false, 99);
    begin = clock_now();
    CHECK(NULL, rexit() == 0 && clock_now() - begin < 2000 * NS_PER_MS);
    rank_returned(board, rank, 0, NULL);
    return 0;
}

/* ---- stopped ---- */

static bool in_time(int64_t begin, int ms)
{
    int64_t took = clock_now() - begin;

    return took >= (ms - 1) * NS_PER_MS && took < (ms + 2000) * NS_PER_MS;
}

static int stopped(int rank, struct board *board, const void *arguments)
{
    rch_t in, out, late;
    int64_t begin;
    char byte = 1;
    int ready, rc;
    raddr_t d;

    (void)arguments;
    setenv("RPIPE_TIMEOUT_MS", rank == 0 ? "250" : "20000",
           1); /* SHORT_MS, for what has no channel */
    CHECK(NULL, rinit(NULL, NULL) == 0);
    in = open_channel(RPIPE_PUT, rank, rank == 1, 0);
    out = open_channel(RPIPE_GET, rank, rank == 0, 0);
    CHECK(in, rwait(in) == 0 && rwait(out) == 0);
    rank_reached(board, rank, 1);
    if (rank == 1) {
        while (atomic_load(&board->go) < 2) /* stopped somewhere here */
            backoff_us(200);
        write_messages(in, 0, MESSAGES);
        late = open_channel(RPIPE_PUT, rank, true, 5);
        write_messages(late, 0, MESSAGES);
        while ((rc = rread(out, &d, NULL)) == 0)
            CHECK(out, rfree(out, d) == 0);
        CHECK(out, rc == R_EOF);
        CHECK(NULL, rexit() == 0);
        return 0;
    }
    rank_wait_go(board, 1);
    late = open_channel(RPIPE_PUT, rank, false, 5);
    CHECK(in, rset_timeout(in, SHORT_MS) == 0 && rset_timeout(out, SHORT_MS) == 0 &&
                  rset_timeout(late, SHORT_MS) == 0);
    begin = clock_now();
    CHECK(in, rread(in, &d, NULL) == -ETIMEDOUT && in_time(begin, SHORT_MS));
    begin = clock_now();
    CHECK(late, rwait(late) == -ETIMEDOUT && in_time(begin, SHORT_MS));
    begin = clock_now();
    CHECK(in, rpoll(&in, 1, &ready, SHORT_MS) == -ETIMEDOUT && in_time(begin, SHORT_MS));
    begin = clock_now();
    CHECK(NULL, network_recv(1, &byte, 1) == -ETIMEDOUT && in_time(begin, SHORT_MS));
    do {
        d = rmalloc(out, 8);
        CHECK(out, d != ADDR_NULL);
        begin = clock_now();
    } while ((rc = rwrite(out, d)) == 0);
    CHECK(out, rc == -ETIMEDOUT && in_time(begin, SHORT_MS));
    CHECK(in, rfd(in) >= 0);
    rank_reached(board, rank, 2); /* now it is continued, and everything goes on */
    CHECK(in, rset_timeout(in, PATIENCE_MS) == 0 && rset_timeout(out, PATIENCE_MS) == 0 &&
                  rset_timeout(late, PATIENCE_MS) == 0);
    CHECK(in, read_messages(in, 0, MESSAGES) == 0);
    CHECK(late, read_messages(late, 0, MESSAGES) == 0);
    CHECK(out, rwrite(out, d) == 0 && rclose(out) == 0);
    CHECK(in, rread(in, &d, NULL) == R_EOF);
    rc = rexit(); /* 250 ms may be too short on a busy machine */
    CHECK(NULL, rc == 0 || rc == -ETIMEDOUT);
    return 0;
}

/* rexit while the other stands still: bounded by the deadline. */
static int exits_alone(int rank, struct board *board, const void *arguments)
{
    int64_t begin;
    rch_t ch;

    (void)arguments;
    setenv("RPIPE_TIMEOUT_MS", rank == 0 ? "500" : "20000", 1);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    ch = open_channel(RPIPE_PUT, rank, rank == 0, 0);
    CHECK(ch, rwait(ch) == 0);
    rank_reached(board, rank, 1);
    if (rank == 1)
        for (;;)
            pause();
    rank_wait_go(board, 1);
    begin = clock_now();
    CHECK(NULL, rexit() == -ETIMEDOUT);
    CHECK(NULL, in_time(begin, 500));
    return 0;
}

static void test_stopped(rank_function f, bool goes_on)
{
    struct job job;

    job_prepare(&job, 2);
    job_start(&job, f, NULL);
    if (job_reached(&job, 0, 1) && job_reached(&job, 1, 1)) {
        job_kill(&job, 1, SIGSTOP);
        atomic_store(&job.board->go, 1);
        if (goes_on && job_reached(&job, 0, 2)) {
            atomic_store(&job.board->go, 2);
            job_kill(&job, 1, SIGCONT);
            EXPECT(job_ended(&job, 1) && job_status_is(&job, 1, 0),
                   "the stopped rank ended with status 0x%x", job.status[1]);
        }
        EXPECT(job_ended(&job, 0) && job_status_is(&job, 0, 0), "the other ended with status 0x%x",
               job.status[0]);
    }
    job_finish(&job);
}

static void test_both(rank_function f, const char *what)
{
    struct job job;
    int rank;

    job_prepare(&job, 2);
    job_start(&job, f, NULL);
    for (rank = 0; rank < 2; rank++)
        EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0),
               "%s: rank %d ended with status 0x%x", what, rank, job.status[rank]);
    job_finish(&job);
}

int main(int argc, char **argv)
{
    setenv("RPIPE_LOG", "error", 0);
    test_ways(argc > 1 ? atoi(argv[1]) : 4);
    test_both(early, "rexit too early");
    test_both(half_open, "half open");
    test_stopped(stopped, true);
    test_stopped(exits_alone, false);
    return check_report(argv[0]);
}
