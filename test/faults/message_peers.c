/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message_peers.c: what one end of a link of messages by tag owes to the other one: copies between processes that fail for a while, or
 * for good; children of a fork; several contexts, each of a thread.
 *
 *   late       two of three copies fail with ESRCH while the peer lives, which does not mean that it is gone: every payload arrives
 *   fault      a buffer of the program is not accessible: -EFAULT at the end that finds it, -ECONNRESET or -EFAULT at the other one,
 *              neither waits for its deadline; another context of the same processes goes on
 *   forked     a child makes every call while a payload is being moved: each is -ENOTCONN, and the transfer of its parent ends well
 *   threads    four threads with a context each, all kinds of messages, in both directions
 */
#include "test/lib/job.h"

#include <pthread.h>
#include <rmsg.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { LARGE = 1 << 20, MESSAGES = 12, THREADS = 4, DEADLINE_MS = 20000 };

/* ---- copies that fail ---- */

static _Atomic bool refusing;
static _Atomic unsigned copies, refused;

static bool refuse(void)
{
    if (!atomic_load(&refusing) || random_mix(atomic_fetch_add(&copies, 1)) % 3 == 0)
        return false;
    atomic_fetch_add(&refused, 1);
    errno = ESRCH;
    return true;
}

#pragma GCC visibility push(default) /* in place of those of the C library, also for modules */
ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long locals,
                         const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    return refuse() ? -1
                    : syscall(SYS_process_vm_readv, pid, local, locals, remote, remotes, flags);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long locals,
                          const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    return refuse() ? -1
                    : syscall(SYS_process_vm_writev, pid, local, locals, remote, remotes, flags);
}
#pragma GCC visibility pop

/* ---- contexts ---- */

static void open_context(rmsg_t *msg, uint64_t context)
{
    const rmsg_config_t cfg = {.context = context, .timeout_ms = DEADLINE_MS};

    CHECK(NULL, rmsg_open(msg, &cfg) == 0);
}

static uint64_t count(rmsg_t msg, const char *name)
{
    uint64_t value = 0;

    CHECK(NULL, rmsg_count(msg, name, &value) == 0);
    return value;
}

/* Both ends have met; then one of the first large messages shows whether payloads are copied across address spaces. */
static bool meet(rmsg_t msg, int rank)
{
    static char buf[LARGE];
    bool copied;

    for (int i = 0; i < 3; i++) { /* windows and cells are there after a message each way */
        rmsg_request_t r[2];

        CHECK(NULL, rmsg_irecv(msg, 1 - rank, 9, 9, buf, LARGE, &r[0], 0) == 0);
        CHECK(NULL, rmsg_isend(msg, 1 - rank, 9, 9, buf, LARGE, &r[1], 0) == 0);
        CHECK(NULL, rmsg_wait_all(msg, r, 2, NULL, 0) == 0);
    }
    copied = count(msg, "sent_shared") > 0;
    if (!copied && rank == 0)
        printf("the kernel does not permit copies between processes here: parts are tested\n");
    return copied;
}

/* ---- late ---- */

static void exchange(rmsg_t msg, int rank, uint64_t number, bool receive_first)
{
    static char out[LARGE], in[LARGE];
    const size_t bytes = LARGE / (1 + number % 5);
    rmsg_request_t s, r;

    pattern_fill(out, bytes, number * 2 + (uint64_t)rank);
    if (receive_first)
        CHECK(NULL, rmsg_irecv(msg, 1 - rank, 0, 1, in, LARGE, &r, 0) == 0);
    CHECK(NULL, rmsg_isend(msg, 1 - rank, 0, 1, out, bytes, &s, 0) == 0);
    if (!receive_first)
        CHECK(NULL, rmsg_irecv(msg, 1 - rank, 0, 1, in, LARGE, &r, 0) == 0);
    CHECK(NULL, rmsg_wait(msg, &r, NULL, 0) == 0);
    CHECK(NULL, pattern_same(in, bytes, number * 2 + (uint64_t)(1 - rank)));
    CHECK(NULL, rmsg_wait(msg, &s, NULL, 0) == 0);
}

static int late(int rank, struct board *board, const void *arguments)
{
    rmsg_t msg;
    bool copied;

    (void)arguments, (void)board;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    open_context(&msg, 1);
    copied = meet(msg, rank);
    atomic_store(&refusing, true);
    for (uint64_t i = 0; i < MESSAGES; i++)
        exchange(msg, rank, i, i % 2 == 0);
    atomic_store(&refusing, false);
    CHECK(NULL, !copied || atomic_load(&refused) > 0);
    CHECK(NULL, network_barrier() == 0);
    CHECK(NULL, rmsg_close(msg) == 0 && rexit() == 0);
    return 0;
}

/* ---- fault ---- */

static void must_be_over(int rc)
{
    REQUIRE(rc == -EFAULT || rc == -ECONNRESET, "%d: %s", rc, rerror(NULL));
}

/* Rank 1 gives memory that is not accessible to a send, or to a receive. */
static void give_nothing(rmsg_t msg, int rank, bool send)
{
    static char buf[LARGE];
    char *nothing = mmap(NULL, LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
         *use = rank == 1 ? nothing : buf;
    rmsg_request_t large, other, any;
    int which;

    CHECK(NULL, nothing != MAP_FAILED);
    CHECK(NULL, rmsg_irecv(msg, 1 - rank, 1, 1, NULL, 0, &other, 0) == 0);
    CHECK(NULL, rmsg_irecv(msg, RMSG_ANY_SOURCE, 1, 2, NULL, 0, &any, 0) == 0);
    if ((rank == 1) == send)
        CHECK(NULL, rmsg_isend(msg, 1 - rank, 0, 1, use, LARGE, &large, 0) == 0);
    else
        CHECK(NULL, rmsg_irecv(msg, 1 - rank, 0, 1, use, LARGE, &large, 0) == 0);
    must_be_over(rmsg_wait(msg, &large, NULL, 0));
    must_be_over(rmsg_wait(msg, &other, NULL, 0));
    must_be_over(rmsg_wait_any(msg, &any, 1, &which, NULL, 0)); /* reported once, and posted */
    CHECK(NULL, any != 0 && rmsg_cancel(msg, any) == 0);
    CHECK(NULL, rmsg_wait(msg, &any, NULL, 0) == -ECANCELED);
    must_be_over(rmsg_send(msg, 1 - rank, 0, 1, buf, 8, 0));
    CHECK(NULL, munmap(nothing, LARGE) == 0);
}

static int fault(int rank, struct board *board, const void *arguments)
{
    rmsg_t msg[3];
    bool copied;

    (void)arguments, (void)board;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    for (int i = 0; i < 3; i++) {
        open_context(&msg[i], (uint64_t)i);
        copied = meet(msg[i], rank);
    }
    for (int i = 0; i < 2 && copied; i++) {
        give_nothing(msg[i], rank, i == 0);
        exchange(msg[2], rank, (uint64_t)i, true);
    }
    CHECK(NULL, network_barrier() == 0);
    for (int i = 0; i < 3; i++)
        CHECK(NULL, rmsg_close(msg[i]) == 0);
    CHECK(NULL, rexit() == 0);
    return 0;
}

/* ---- forked ---- */

static void in_the_child(rmsg_t msg, rmsg_request_t request)
{
    const rmsg_request_t copy = request;
    char buf[16] = "";
    rmsg_request_t other;
    rmsg_message_t m = 0;
    rmsg_t opened;
    int which, wrong = 0;

#define GONE(call) (wrong += (call) != -ENOTCONN || strstr(rerror(NULL), "parent") == NULL)
    GONE(rmsg_progress(msg));
    GONE(rmsg_wait(msg, &request, NULL, R_NOWAIT));
    GONE(rmsg_wait(msg, &request, NULL, 0));
    GONE(rmsg_wait_any(msg, &request, 1, &which, NULL, 0));
    GONE(rmsg_wait_all(msg, &request, 1, NULL, 0));
    GONE(rmsg_cancel(msg, copy));
    GONE(rmsg_start(msg, &copy, 1));
    GONE(rmsg_send(msg, 1, 0, 1, buf, 8, 0));
    GONE(rmsg_isend(msg, 1, 0, 1, buf, 8, &other, 0));
    GONE(rmsg_recv(msg, 1, 0, 1, buf, 8, NULL, 0));
    GONE(rmsg_recv(msg, RMSG_ANY_SOURCE, 0, 1, buf, 8, NULL, R_NOWAIT));
    GONE(rmsg_irecv(msg, 1, 0, 1, buf, 8, &other, 0));
    GONE(rmsg_probe(msg, 1, 0, 1, NULL, 0));
    GONE(rmsg_mprobe(msg, 1, 0, 1, &m, NULL, 0));
    GONE(rmsg_set_timeout(msg, 1));
    GONE(rmsg_open(&opened, NULL));
    GONE(rmsg_close(msg));
#undef GONE
    if (wrong > 0)
        printf("FAILED: %d calls of the child of a fork\n", wrong);
    fflush(stdout);
    _exit(wrong > 0);
}

static int forked(int rank, struct board *board, const void *arguments)
{
    static char out[8 * LARGE], in[8 * LARGE];
    int status = -1;
    rmsg_request_t r;
    rmsg_t msg;
    pid_t pid;

    (void)arguments;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    open_context(&msg, 1);
    (void)meet(msg, rank);
    pattern_fill(out, sizeof(out), 4711);
    if (rank == 1) {
        CHECK(NULL, rmsg_isend(msg, 0, 0, 7, out, sizeof(out), &r, 0) == 0);
        rank_reached(board, 1, 1);
        rank_wait_go(board, 1); /* meanwhile rank 0 would move all of it alone */
    } else {
        CHECK(NULL, rmsg_irecv(msg, 1, 0, 7, in, sizeof(in), &r, 0) == 0);
        while (atomic_load(&board->rank[1].phase) < 1)
            sched_yield();
        CHECK(NULL, rmsg_wait(msg, &r, NULL, R_NOWAIT) == R_PENDING); /* it has begun */
        pid = fork();
        if (pid == 0)
            in_the_child(msg, r);
        CHECK(NULL, waitpid(pid, &status, 0) == pid && status == 0);
        rank_reached(board, 0, 1);
    }
    CHECK(NULL, rmsg_wait(msg, &r, NULL, 0) == 0);
    CHECK(NULL, rank == 1 || pattern_same(in, sizeof(in), 4711));
    CHECK(NULL, network_barrier() == 0);
    CHECK(NULL, rmsg_close(msg) == 0 && rexit() == 0);
    return 0;
}

/* ---- threads ---- */

struct worker {
    int rank;
    uint64_t number;
};

static size_t worker_bytes(uint64_t number)
{
    static const size_t bytes[] = {8, 40, 41, 3000, 17000, 70000, 300000};

    return bytes[number % (sizeof(bytes) / sizeof(bytes[0]))];
}

static void *work(void *argument)
{
    const struct worker *w = argument;
    char *out = malloc(300000), *in = malloc(300000);
    rmsg_t msg;

    open_context(&msg, 100 + w->number);
    for (uint64_t i = 0; i < 300; i++) {
        const uint64_t key = w->number << 32 | i;
        const size_t bytes = worker_bytes(i * 5 + w->number);
        rmsg_request_t r[2];

        pattern_fill(out, bytes, key * 2 + (uint64_t)w->rank);
        CHECK(NULL, rmsg_irecv(msg, i % 4 == 0 ? RMSG_ANY_SOURCE : 1 - w->rank, 0, (uint32_t)i, in,
                               300000, &r[0], 0) == 0);
        CHECK(NULL, rmsg_isend(msg, 1 - w->rank, 0, (uint32_t)i, out, bytes, &r[1], 0) == 0);
        CHECK(NULL, rmsg_wait_all(msg, r, 2, NULL, 0) == 0);
        CHECK(NULL, pattern_same(in, bytes, key * 2 + (uint64_t)(1 - w->rank)));
    }
    if (w->rank == 0) /* the last one has closed its context, or has received all */
        CHECK(NULL, rmsg_send(msg, 1, 1, 0, NULL, 0, RMSG_SYNC) == 0);
    else
        CHECK(NULL, rmsg_recv(msg, 0, 1, 0, NULL, 0, NULL, 0) == 0);
    CHECK(NULL, rmsg_close(msg) == 0);
    free(out);
    free(in);
    return NULL;
}

static int threads(int rank, struct board *board, const void *arguments)
{
    struct worker w[THREADS];
    pthread_t t[THREADS];

    (void)arguments, (void)board;
    CHECK(NULL, rinit(NULL, NULL) == 0);
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){rank, (uint64_t)i};
        CHECK(NULL, pthread_create(&t[i], NULL, work, &w[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(NULL, pthread_join(t[i], NULL) == 0);
    CHECK(NULL, network_barrier() == 0);
    CHECK(NULL, rexit() == 0);
    return 0;
}

/* ---- the test ---- */

static void play(const char *name, rank_function f, bool go)
{
    struct job job;

    job_prepare(&job, 2);
    job_start(&job, f, NULL);
    if (go && job_reached(&job, 0, 1))
        atomic_store(&job.board->go, 1);
    for (int rank = 0; rank < 2; rank++)
        EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0), "%s: rank %d: status 0x%x",
               name, rank, (unsigned)job.status[rank]);
    job_finish(&job);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        rank_function f;
        bool go;
    } part[] = {{"late", late, false},
                {"fault", fault, false},
                {"forked", forked, true},
                {"threads", threads, false}};

    setenv("RPIPE_TIMEOUT_MS", "30000", 1);
    for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++)
        if (argc < 2 || strcmp(argv[1], part[i].name) == 0)
            play(part[i].name, part[i].f, part[i].go);
    return check_report(argv[0]);
}
