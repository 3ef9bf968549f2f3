/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork.c: fork(2) in the middle of traffic.
 *
 * Rank 0 writes from one thread and reads from another, and forks all the time from a third. Every call of the child
 * is an error, none hangs or crashes, whatever lock a thread of the parent held; the child may use the allocator by
 * itself, and ends in every way. The traffic goes on, every byte is checked at its end, and the end of a child is not
 * reported as a death. A child that outlives its parent does not hide that the parent has died.
 */
#include "test/lib/job.h"
#include "test/lib/counts.h"
#include <rvmem.h>
#include <rpipe.h>

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED                                                                                  \
    true /* searches for leaks in exit(3), and finds some that are none where threads have gone with a fork */
#else
#define SANITIZED false
#endif
#define FORKS 60
#define WINDOW_US 300

static rch_t out, in;
static _Atomic bool enough;

static size_t message_bytes(uint64_t i) { return i % 3 == 0 ? 32 : 64 + i * 97 % 5000; }

static void *writes(void *unused)
{
    uint64_t i;
    raddr_t d;
    void *mem;

    for (i = 0; !atomic_load(&enough); i++) {
        mem = (d = rmalloc(out, message_bytes(i))) != ADDR_NULL ? rmem(out, d) : NULL;
        CHECK(out, mem != NULL);
        pattern_fill(mem, message_bytes(i), i);
        CHECK(out, rwrite(out, d) == 0);
    }
    CHECK(NULL, rclose(out) == 0);
    return unused;
}

static void *reads(void *unused)
{
    uint64_t i;
    raddr_t d;
    size_t size;
    int rc;

    for (i = 0; (rc = rread(in, &d, &size)) == 0; i++) {
        CHECK(in, size == message_bytes(i) && pattern_same(rmem(in, d), size, i));
        CHECK(in, rfree(in, d) == 0);
    }
    CHECK(in, rc == R_EOF);
    return unused;
}

/* ---- the child ---- */

static int failed_calls;

static void refused(const char *what, int got, int expected)
{
    if (got == expected && strstr(rerror(NULL), "parent") != NULL)
        return;
    if (expected == -EALREADY && got == expected)
        return;
    printf("FAILED in a child: %s gave %d, not %d: %s\n", what, got, expected, rerror(NULL));
    failed_calls++;
}

static void child(int number)
{
    static char range[4096] __attribute__((aligned(64)));
    rpipe_config_t cfg = channel_config(RPIPE_PUT, 1, true, 4096);
    rvmem_config_t vmem_cfg = {.buffer = range, .bytes = 4096};
    rvmem_t vmem;
    raddr_t d = ADDR_NULL;
    char byte = 0;
    int ready;
    rch_t ch;

    alarm(10);
    refused("rpipe", rpipe(&ch, &cfg), -ENOTCONN);
    refused("rread", rread(in, &d, NULL), -ENOTCONN);
    refused("rread_nb", rread_nb(in, &d, NULL), -ENOTCONN);
    errno = 0;
    refused("rmalloc", rmalloc(out, 8) == ADDR_NULL ? -errno : 0, -ENOTCONN);
    refused("rmalloc_nb", rmalloc_nb(out, 8, &d), -ENOTCONN);
    refused("rwrite", rwrite(out, d), -ENOTCONN);
    refused("rfree", rfree(in, d), -ENOTCONN);
    refused("rflush", rflush(out), -ENOTCONN);
    refused("rwait", rwait(in), -ENOTCONN);
    refused("rfd", rfd(in), -ENOTCONN);
    refused("rpoll", rpoll(&in, 1, &ready, 1000), -ENOTCONN);
    refused("rset_timeout", rset_timeout(in, 1), -ENOTCONN);
    refused("network_send", network_send(1, &byte, 1), -ENOTCONN);
    refused("network_recv", network_recv(1, &byte, 1), -ENOTCONN);
    refused("network_barrier", network_barrier(), -ENOTCONN);
    refused("rclose", rclose(in), -ENOTCONN);
    refused("rclose", rclose(out), -ENOTCONN);
    refused("rexit", rexit(), -ENOTCONN);
    refused("rinit", rinit(NULL, NULL), -EALREADY);
    if (rvmem_create(&vmem, &vmem_cfg) != 0 || (d = rvmem_alloc(vmem, 100)) == ADDR_NULL ||
        rvmem_mem(vmem, d) == NULL || rvmem_free(vmem, d) != 0 || rvmem_destroy(vmem) != 0) {
        printf("FAILED in a child: the allocator by itself\n");
        failed_calls++;
    }
    fflush(stdout);
    if (failed_calls > 0)
        _exit(1);
    if (number % 3 == 0 && !SANITIZED)
        exit(0); /* with whatever has been registered to be called */
    if (number % 3 == 1)
        kill(getpid(), SIGKILL);
    _exit(0);
}

/* ---- traffic ---- */

static void fork_a_lot(void)
{
    int i, status, good = 0;
    bool well;
    pid_t pid;

    for (i = 0; i < FORKS; i++) {
        fflush(NULL);
        pid = fork();
        CHECK(NULL, pid >= 0);
        if (pid == 0)
            child(i);
        CHECK(NULL, waitpid(pid, &status, 0) == pid);
        well = (i % 3 == 1) ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0;
        if (!well)
            printf("child %d ended with status 0x%x\n", i, (unsigned)status);
        good += well;
        backoff_us(WINDOW_US);
    }
    if (good != FORKS)
        printf("FAILED: %d of %d children ended well\n", good, FORKS);
    CHECK(NULL, good == FORKS);
}

static int traffic(int rank, struct board *board, const void *arguments)
{
    rpipe_config_t to = channel_config(RPIPE_PUT, 1 - rank, rank == 0, 1 << 15);
    rpipe_config_t from = channel_config(RPIPE_GET, 1 - rank, rank == 1, 1 << 15);
    pthread_t writer, reader;
    struct pipe_counts stats = {0};

    (void)arguments;
    (void)board;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    if (rank == 0)
        CHECK(NULL, rpipe(&out, &to) == 0 && rpipe(&in, &from) == 0);
    else
        CHECK(NULL, rpipe(&in, &to) == 0 && rpipe(&out, &from) == 0);
    CHECK(NULL, pthread_create(&writer, NULL, writes, NULL) == 0);
    CHECK(NULL, pthread_create(&reader, NULL, reads, NULL) == 0);
    if (rank == 0) {
        fork_a_lot();
        CHECK(NULL, network_send(1, &rank, sizeof(rank)) == 0);
    } else {
        CHECK(NULL, network_recv(0, &rank, sizeof(rank)) == 0);
    }
    atomic_store(&enough, true);
    pthread_join(writer, NULL);
    pthread_join(reader, NULL);
    CHECK(in, pipe_counts(in, &stats) == 0 && stats.messages > 0);
    printf("rank %u read %llu messages during the forks of rank 0\n", network_rank(),
           (unsigned long long)stats.messages);
    CHECK(in, rclose(in) == 0);
    CHECK(NULL, rexit() == 0);
    return 0;
}

/* ---- the child lives longer ---- */

static int leaves_a_child(int rank, struct board *board, const void *arguments)
{
    rpipe_config_t cfg = channel_config(RPIPE_PUT, 1 - rank, rank == 1, 1 << 15);
    const bool joined = *(const bool *)arguments;
    raddr_t d;
    rch_t ch = NULL;
    int rc;

    CHECK(NULL, rinit(NULL, NULL) == 0);
    if (rank == 0 || joined) {
        CHECK(NULL, rpipe(&ch, &cfg) == 0);
    }
    if (joined)
        CHECK(ch, rwait(ch) == 0);
    CHECK(NULL, network_barrier() == 0);
    if (rank == 1) {
        pid_t pid = fork();

        CHECK(NULL, pid >= 0);
        if (pid == 0) {
            alarm(3);
            for (;;)
                pause();
        }
        rank_reached(board, rank, 1);
        for (;;)
            pause();
    }
    rank_reached(
        board, rank,
        1); /* rank 1 is not killed while this one is still on its way out of the barrier */
    rc = rread(ch, &d, NULL);
    rank_returned(board, rank, rc, ch);
    CHECK(ch, rc == -ECONNRESET);
    CHECK(NULL, rexit() == 0);
    return 0;
}

static void test_orphan(bool joined)
{
    struct job job;
    double ms;

    job_prepare(&job, 2);
    job_start(&job, leaves_a_child, &joined);
    if (job_reached(&job, 0, 1) && job_reached(&job, 1, 1)) {
        backoff_us(20000);
        job_kill(&job, 1, SIGKILL);
        EXPECT(job_ended(&job, 0) && job_status_is(&job, 0, 0),
               "a child outlives its parent: status 0x%x", job.status[0]);
        ms = (double)(job.board->rank[0].returned - job.board->killed) / 1e6;
        printf("parent dead, its child alive, %s: noticed after %.2f ms\n",
               joined ? "joined" : "not joined", ms);
        EXPECT(ms < 2000, "noticed after %.0f ms", ms);
    }
    job_finish(&job);
}

int main(int argc, char **argv)
{
    struct job job;
    int rank, rounds = argc > 1 ? atoi(argv[1]) : 1;

    setenv("RPIPE_LOG", "error", 0);
    while (rounds-- > 0) {
        job_prepare(&job, 2);
        job_start(&job, traffic, NULL);
        for (rank = 0; rank < 2; rank++)
            EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0),
                   "rank %d ended with status 0x%x", rank, job.status[rank]);
        job_finish(&job);
        test_orphan(true);
        test_orphan(false);
    }
    return check_report(argv[0]);
}
