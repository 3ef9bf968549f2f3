/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message_close.c: a context of messages by tag is closed while a transfer is in flight, or while its peer sends.
 *
 *     fetch      over tcp: a rank fetches a payload from a peer that is stopped, and closes its context meanwhile. The close ends with the deadline
 *                of pipes; when the peer goes on, its bytes are placed in the buffer, and nowhere else. Then another context of both works
 *     closing    a rank sends messages of all kinds, without waiting, to a peer that closes its context after the first one: each send
 *                completes, or fails with -EPIPE, and none waits for its deadline; over shared memory and over tcp
 */
#include "test/lib/job.h"

#include <rmsg.h>
#include <signal.h>
#include <sys/wait.h>

enum { LARGE = 1 << 20, KINDS = 6, ROUNDS = 20, DEADLINE_MS = 20000 };

static rmsg_t open_context(uint64_t context)
{
    const rmsg_config_t cfg = {.context = context, .timeout_ms = DEADLINE_MS};
    rmsg_t msg = NULL;

    CHECK(NULL, rmsg_open(&msg, &cfg) == 0);
    return msg;
}

/* A large message each way. */
static void exchange(rmsg_t msg, int rank, uint64_t number)
{
    static char out[LARGE], in[LARGE];
    rmsg_request_t r[2];

    pattern_fill(out, LARGE, number * 2 + (uint64_t)rank);
    CHECK(NULL, rmsg_irecv(msg, 1 - rank, 9, 9, in, LARGE, &r[0], 0) == 0);
    CHECK(NULL, rmsg_isend(msg, 1 - rank, 9, 9, out, LARGE, &r[1], 0) == 0);
    CHECK(NULL, rmsg_wait_all(msg, r, 2, NULL, 0) == 0);
    CHECK(NULL, pattern_same(in, LARGE, number * 2 + (uint64_t)(1 - rank)));
}

static void leave(int rank)
{
    rmsg_t msg = open_context(1000);

    exchange(msg, rank, 1000);
    CHECK(NULL, network_barrier() == 0);
    CHECK(NULL, rmsg_close(msg) == 0 && rexit() == 0);
}

/* ---- fetch ---- */

static void fetch_and_close(struct board *board, rmsg_t msg)
{
    static struct {
        char before[64], in[LARGE], after[64];
    } m;
    static const char nothing[64];
    uint64_t registered = 0;
    rmsg_request_t r;

    CHECK(NULL, rmsg_probe(msg, 1, 0, 7, NULL, 0) == 0);
    rank_reached(board, 0, 1);
    rank_wait_go(board, 1); /* rank 1 is stopped */
    CHECK(NULL, rmsg_irecv(msg, 1, 0, 7, m.in, LARGE, &r, 0) == 0);
    CHECK(NULL, rmsg_wait(msg, &r, NULL, R_NOWAIT) == R_PENDING);
    CHECK(NULL, rmsg_count(msg, "registered", &registered) == 0 && registered > 1);
    CHECK(NULL, rmsg_close(msg) == 0);
    rank_reached(board, 0, 2);
    leave(0);
    CHECK(NULL, memcmp(m.before, nothing, 64) == 0 && memcmp(m.after, nothing, 64) == 0);
    for (size_t i = 0; i < LARGE; i += 64) /* of a line all or nothing */
        CHECK(NULL, m.in[i] == 0 || memcmp(m.in + i, "................", 16) == 0);
}

static int fetch(int rank, struct board *board, const void *arguments)
{
    static char out[LARGE];
    rmsg_request_t s;
    rmsg_t msg;
    int rc;

    (void)arguments;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    msg = open_context(1);
    exchange(msg, rank, 1);
    if (rank == 0) {
        fetch_and_close(board, msg);
        return 0;
    }
    memset(out, '.', LARGE);
    CHECK(NULL, rmsg_isend(msg, 0, 0, 7, out, LARGE, &s, 0) == 0);
    rank_reached(board, 1, 1);
    rank_wait_go(board, 2); /* it was stopped here */
    rc = rmsg_wait(msg, &s, NULL, 0);
    REQUIRE(rc == 0 || rc == -EPIPE || rc == -ECONNRESET, "%d: %s", rc, rerror(NULL));
    CHECK(NULL, rmsg_close(msg) == 0);
    leave(1);
    return 0;
}

static void stop(struct job *job, int rank)
{
    siginfo_t info;

    job_kill(job, rank, SIGSTOP);
    EXPECT(waitid(P_PID, (id_t)job->pid[rank], &info, WSTOPPED) == 0, "rank %d has not stopped",
           rank);
}

static void stop_the_sender(struct job *job)
{
    if (!job_reached(job, 1, 1) || !job_reached(job, 0, 1))
        return;
    stop(job, 1);
    atomic_store(&job->board->go, 1);
    (void)job_reached(job, 0, 2);
    job_kill(job, 1, SIGCONT);
    atomic_store(&job->board->go, 2);
}

/* ---- closing ---- */

static void send_all(rmsg_t msg)
{
    static const size_t bytes[KINDS] = {0, 8, 41, 4096, 20000, LARGE};
    static char out[LARGE];
    rmsg_request_t r[2 * KINDS];
    int rc = 0, n = 0;

    while (n < 2 * KINDS && rc == 0) {
        rc = rmsg_isend(msg, 1, 0, 1, out, bytes[n % KINDS], &r[n], n < KINDS ? 0 : RMSG_SYNC);
        if (rc == 0)
            n++;
    }
    REQUIRE(rc == 0 || rc == -EPIPE, "isend: %d: %s", rc, rerror(NULL));
    for (int i = 0; i < n; i++) {
        rc = rmsg_wait(msg, &r[i], NULL, 0);
        REQUIRE(rc == 0 || rc == -EPIPE, "message %d: %d: %s", i, rc, rerror(NULL));
        CHECK(NULL, i < KINDS || rc == -EPIPE); /* a synchronous one has no receive */
    }
    CHECK(NULL, rmsg_send(msg, 1, 0, 1, out, 8, 0) == -EPIPE);
    CHECK(NULL, rmsg_recv(msg, 1, 0, 2, out, 8, NULL, 0) == -EPIPE);
}

static int closing(int rank, struct board *board, const void *arguments)
{
    (void)arguments, (void)board;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        rmsg_t msg = open_context(i);

        if (i % 2 == 0) /* else the link may not be open yet */
            exchange(msg, rank, i);
        if (rank == 0)
            send_all(msg);
        else
            CHECK(NULL, rmsg_recv(msg, 0, 0, 1, NULL, 0, NULL, 0) == 0);
        CHECK(NULL, rmsg_close(msg) == 0);
    }
    leave(rank);
    return 0;
}

/* ---- the test ---- */

static void play(const char *name, rank_function f, const char *backend,
                 void (*meanwhile)(struct job *job))
{
    struct job job;

    setenv("RPIPE_BTL", backend, 1);
    job_prepare(&job, 2);
    job_start(&job, f, NULL);
    if (meanwhile != NULL)
        meanwhile(&job);
    for (int rank = 0; rank < 2; rank++)
        EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0),
               "%s, %s: rank %d: status 0x%x", name, backend, rank, (unsigned)job.status[rank]);
    job_finish(&job);
}

int main(int argc, char **argv)
{
    (void)argc;
    setenv("RPIPE_LOG", "error", 0);
    play("closing", closing, "shm", NULL);
    play("closing", closing, "tcp", NULL);
    setenv("RPIPE_TIMEOUT_MS", "500", 1); /* the close waits so long */
    play("fetch", fetch, "tcp", stop_the_sender);
    return check_report(argv[0]);
}
