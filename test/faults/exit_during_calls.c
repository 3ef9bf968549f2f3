/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exit_during_calls.c: rexit while other threads of the process are in calls of the library.
 *
 * Rank 0 has a thread in every call that can wait, each without a deadline for what never comes, and some that never stop calling.
 * Its main thread calls rexit: every one of those calls ends with -ENOTCONN and an error message that names rexit, nothing is given
 * back under it, and no thread of the library is left. Only then does rank 1 leave too, so that nothing else can have ended
 * them. Over shared memory, and over libfabric where that is built.
 *
 *     exit_during_calls [ROUNDS]
 */
#include "test/lib/job.h"
#include "test/lib/group.h"
#include <rpipe.h>

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>

#if defined(__SANITIZE_THREAD__)
#define SEES_ORDER                                                                                 \
    false /* it has only order by atomics: not by threads that have been seen to have run on */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SEES_ORDER false
#endif
#endif
#ifndef SEES_ORDER
#define SEES_ORDER true
#endif

#define HEAP 4096
#define POLLED 3

/* Phases of rank 0: its threads are in calls; those that close what is open have been refused. */
enum { INSIDE = 1, REFUSED };

/* What a thread gets: ends of its own, opened by the main thread, and joined. */
struct task {
    const char *name;
    int (*call)(struct task *me); /* its result; waits, or calls until it is refused */
    rch_t ch[POLLED];
    int peer;
    pthread_t thread;
    _Atomic bool begun;
    int rc;
    char error_message[200];
};

static rgroup_t redux;

/* ---- calls ---- */

static int reads(struct task *me)
{
    raddr_t d;

    return rread(me->ch[0], &d, NULL);
}

static int allocates(struct task *me) { return rmalloc(me->ch[0], HEAP) == ADDR_NULL ? -errno : 0; }

static int writes(struct task *me)
{
    int rc;
    raddr_t d;

    do {
        d = rmalloc(me->ch[0], 8);
        rc = d != ADDR_NULL ? rwrite(me->ch[0], d) : -errno;
    } while (rc == 0);
    return rc;
}

static int polls(struct task *me)
{
    int ready[POLLED];

    return rpoll(me->ch, POLLED, ready, -1);
}

static int waits(struct task *me) { return rwait(me->ch[0]); }
static int receives(struct task *me) { return network_recv(me->peer, me->error_message, 8); }
static int meets(struct task *me)
{
    (void)me;
    return network_barrier();
}

static int reduces(struct task *me)
{
    raddr_t d;
    int place;

    (void)me;
    return rgroup_read(redux, &place, &d, NULL, 0);
}

/* poll(2) is not part of the library: the descriptor becomes readable, and rread returns the reason */
static int watches(struct task *me)
{
    struct pollfd p = {.fd = rfd(me->ch[0]), .events = POLLIN};
    int rc = R_PENDING;
    raddr_t d;

    if (p.fd < 0)
        return p.fd;
    while (rc == R_PENDING) {
        (void)poll(&p, 1, 10000);
        rc = rread_nb(me->ch[0], &d, NULL);
    }
    return rc;
}

static int opens(struct task *me)
{
    rpipe_config_t cfg = channel_config(RPIPE_PUT, me->peer, true, HEAP);
    rch_t ch;
    int rc;

    cfg.context = 1000;
    do {
        rc = rpipe(&ch, &cfg);
        if (rc == 0)
            rc = rclose(ch);
    } while (rc == 0);
    return rc;
}

static int looks(struct task *me)
{
    raddr_t d;
    int rc;

    do
        rc = rread_nb(me->ch[0], &d, NULL);
    while (rc == R_PENDING);
    return rc;
}

/* One end of a pipe to oneself, as fast as it goes; the other end belongs to another thread. */
static int streams_out(struct task *me)
{
    int rc;
    raddr_t d;

    do {
        rc = rmalloc_nb(me->ch[0], 100, &d);
        if (rc == 0)
            rc = rwrite(me->ch[0], d);
    } while (rc == 0 || rc == R_PENDING);
    return rc;
}

static int streams_in(struct task *me)
{
    int rc;
    raddr_t d;

    do {
        rc = rread_nb(me->ch[0], &d, NULL);
        if (rc == 0)
            rc = rfree(me->ch[0], d);
    } while (rc == 0 || rc == R_PENDING);
    return rc;
}

/* ---- windows ---- */

/* bytes; a copy takes longer than rexit waits for one that is not counted */
#define PLACED ((size_t)32 << 20)

/* Over shared memory, which main tries first. */
static bool maps_memory(void) { return getenv("RPIPE_BTL") == NULL; }

static struct {
    rregion_t region;
    rwindow_t window;
    rremote_t remote;
    char *from;
} placed;

static int places(struct task *me)
{
    int rc;

    (void)me;
    do
        rc = rwindow_write(placed.remote, 0, placed.from, PLACED, NULL, NULL, 0);
    while (rc == 0);
    return rc;
}

static rregion_t kept_region;
static struct board *kept_board;
static _Atomic int closers = 2;

/* rank 1 leaves, and rexit of this rank ends, after the last one */
static int closed(int rc)
{
    if (atomic_fetch_sub(&closers, 1) == 1)
        rank_reached(kept_board, 0, REFUSED);
    return rc;
}

/* Begins when rexit has ended the calls, and nothing waits for it: refused, and made after rexit (close_kept). */
static int closes_window(struct task *me)
{
    int rc = looks(me);

    return closed(rc == -ENOTCONN ? rwindow_close(placed.window) : rc);
}

static int closes_region(struct task *me)
{
    int rc = looks(me);

    return closed(rc == -ENOTCONN ? rregion_close(kept_region) : rc);
}

static void close_kept(void)
{
    EXPECT(rwindow_close(placed.window) == 0 && rregion_close(placed.region) == 0 &&
               rregion_close(kept_region) == 0,
           "after rexit: %s", rerror(NULL));
    free(placed.from);
}

static void *runs(void *argument)
{
    struct task *me = argument;

    atomic_store(&me->begun, true);
    me->rc = me->call(me);
    snprintf(me->error_message, sizeof(me->error_message), "%s", rerror(NULL));
    return NULL;
}

/* ---- the ranks ---- */

static rch_t open_end(int rank, bool at_zero_writer, rpipe_op_t op, uint32_t ctx, bool shared)
{
    bool writer = (rank == 0) == at_zero_writer;
    rpipe_config_t cfg = channel_config(op, 1 - rank, writer, HEAP);
    rch_t ch = NULL;

    cfg.timeout_ms = -1;
    cfg.context = ctx;
    cfg.slots = 2;
    cfg.flags = shared && rank == 0 ? RPIPE_THREADS : 0;
    CHECK(NULL, rpipe(&ch, &cfg) == 0);
    CHECK(ch, rwait(ch) == 0);
    return ch;
}

static rch_t open_own(bool writer, uint32_t ctx)
{
    rpipe_config_t cfg = channel_config(RPIPE_PUT, (int)network_rank(), writer, HEAP);
    rch_t ch = NULL;

    cfg.timeout_ms = -1;
    cfg.context = ctx;
    CHECK(NULL, rpipe(&ch, &cfg) == 0);
    return ch;
}

static void open_redux(int rank)
{
    const int writer = 1;
    rpipe_config_t cfg = channel_config(RPIPE_PUT, 1 - rank, rank == 1, HEAP);
    rch_t ch;

    cfg.context = 300;
    cfg.timeout_ms = -1;
    if (rank == 0)
        CHECK(NULL, redux_open(&redux, &cfg, &writer, 1) == 0);
    else
        CHECK(NULL, rpipe(&ch, &cfg) == 0);
}

static int threads_now(void)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    int n = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        n += entry->d_name[0] != '.';
    if (dir != NULL)
        closedir(dir);
    return n;
}

#define TASKS_MOST 28
static struct task tasks[TASKS_MOST];
static int n_tasks;

static struct task *add(const char *name, int (*call)(struct task *))
{
    struct task *t = &tasks[n_tasks++];

    *t = (struct task){.name = name, .call = call, .peer = 1, .rc = 1};
    return t;
}

static void open_windows(struct task *t)
{
    rwindow_handle_t handle;

    placed.from = calloc(1, PLACED);
    CHECK(NULL, placed.from != NULL);
    CHECK(NULL, rregion_open(&kept_region, NULL, NULL, 64) == 0);
    CHECK(NULL, rregion_open(&placed.region, NULL, NULL, PLACED) == 0);
    t->ch[0] = open_own(true, 94);
    t->ch[1] = open_own(false, 94);
    CHECK(t->ch[1], rwindow_open(&placed.window, t->ch[1], placed.region,
                                 RWINDOW_WRITE | RWINDOW_READ, &handle) == 0);
    CHECK(t->ch[0], rwait(t->ch[0]) == 0 && rwait(t->ch[1]) == 0);
    CHECK(t->ch[0], rwindow_attach(&placed.remote, t->ch[0], &handle, 0) == 0);
}

/* Both ranks open in the same order; rank 0 gives its ends to its threads. */
static void open_all(int rank)
{
    rpipe_config_t alone = channel_config(RPIPE_PUT, 1 - rank, true, HEAP);
    struct task *t;
    uint32_t i;

    for (i = 0; i < 2; i++)
        add("rread", reads)->ch[0] =
            open_end(rank, false, i == 0 ? RPIPE_PUT : RPIPE_GET, 10 + i, false);
    for (i = 0; i < 2; i++) {
        t = add("rmalloc", allocates);
        t->ch[0] = open_end(rank, true, i == 0 ? RPIPE_PUT : RPIPE_GET, 20 + i, false);
        if (rank == 0) { /* the heap is full, and no thread reads */
            raddr_t d = rmalloc(t->ch[0], HEAP);

            CHECK(t->ch[0], d != ADDR_NULL && rwrite(t->ch[0], d) == 0);
        }
    }
    for (i = 0; i < 2; i++)
        add("", writes)->ch[0] =
            open_end(rank, true, i == 0 ? RPIPE_PUT : RPIPE_GET, 30 + i, false);
    t = add("rpoll", polls);
    for (i = 0; i < POLLED; i++)
        t->ch[i] = open_end(rank, false, RPIPE_PUT, 40 + i, false);
    t = add("rpoll", polls);
    for (i = 0; i < POLLED; i++)
        t->ch[i] = open_end(rank, false, RPIPE_PUT, 50 + i, i == 1);
    t = add("rread", reads);
    t->ch[0] = open_end(rank, false, RPIPE_GET, 60, true);
    add("rread", reads)->ch[0] = t->ch[0]; /* the same end, with thread_sync */
    add("rread_nb", watches)->ch[0] = open_end(rank, false, RPIPE_PUT, 70, false);
    t = add("rwait", waits);
    alone.context = 80;
    alone.timeout_ms = -1;
    if (rank == 0)
        CHECK(NULL, rpipe(&t->ch[0], &alone) == 0);
    (void)add("network_recv", receives);
    (void)add("network_barrier", meets);
    (void)add("", reduces);
    (void)add("", opens);
    open_redux(rank);
    if (!SEES_ORDER)
        return;
    add("rread_nb", looks)->ch[0] = open_end(rank, false, RPIPE_PUT, 90, false);
    add("", streams_out)->ch[0] = open_own(true, 91);
    add("", streams_in)->ch[0] = open_own(false, 91);
    if (!maps_memory())
        return;
    add("rwindow_close", closes_window)->ch[0] = open_end(rank, false, RPIPE_PUT, 92, false);
    add("rregion_close", closes_region)->ch[0] = open_end(rank, false, RPIPE_PUT, 93, false);
    if (rank == 0)
        open_windows(add("rwindow_write", places));
}

static int rank_zero(struct board *board, uint64_t delay_us)
{
    int64_t patience;
    int i, before = threads_now();

    CHECK(NULL, rinit(NULL, NULL) == 0);
    kept_board = board;
    open_all(0);
    CHECK(NULL, network_barrier() == 0);
    for (i = 0; i < n_tasks; i++)
        CHECK(NULL, pthread_create(&tasks[i].thread, NULL, runs, &tasks[i]) == 0);
    for (i = 0; i < n_tasks; i++)
        while (!atomic_load(&tasks[i].begun))
            sched_yield();
    backoff_us((long)delay_us); /* some are asleep by then, some are not: any moment must do */
    rank_reached(board, 0, INSIDE);
    CHECK(NULL, rexit() == 0);
    for (i = 0; i < n_tasks; i++)
        pthread_join(tasks[i].thread, NULL);
    patience =
        deadline_in_ms(SEES_ORDER ? PATIENCE_MS : 0); /* ThreadSanitizer has a thread of its own */
    for (i = 0; i < n_tasks; i++) {
        const struct task *t = &tasks[i];

        EXPECT(t->rc == -ENOTCONN, "%d, %s: gave %d: %s", i, t->name, t->rc, t->error_message);
        EXPECT((strstr(t->error_message, t->name) != NULL ||
                strstr(t->error_message, "this call") != NULL) &&
                   (strstr(t->error_message, "rexit") != NULL ||
                    strstr(t->error_message, "closed") != NULL),
               "%d, %s: the error message: %s", i, t->name, t->error_message);
    }
    if (SEES_ORDER && maps_memory())
        close_kept();
    while (threads_now() > before &&
           !deadline_passed(
               patience)) /* a thread that has been joined may still be listed for a moment */
        backoff_us(1000);
    EXPECT(!SEES_ORDER || threads_now() <= before, "%d threads before rinit, %d after rexit",
           before, threads_now());
    EXPECT(rexit() == -ENOTCONN && network_barrier() == -ENOTCONN, "%s", rerror(NULL));
    return check_failures > 0 ? 1 : 0;
}

/* Opens the other ends, serves none of them, and leaves when the threads of rank 0 are about to be notified. */
static int rank_one(struct board *board)
{
    CHECK(NULL, rinit(NULL, NULL) == 0);
    open_all(1);
    CHECK(NULL, network_barrier() == 0);
    rank_wait_go(board, 1);
    CHECK(NULL, rexit() == 0);
    return 0;
}

static int exits(int rank, struct board *board, const void *arguments)
{
    const uint64_t *delay_us = arguments;

    return rank == 0 ? rank_zero(board, *delay_us) : rank_one(board);
}

static void one_job(uint64_t delay_us)
{
    struct job job;
    int rank;

    job_prepare(&job, 2);
    job_start(&job, exits, &delay_us);
    if (job_reached(&job, 0, INSIDE))
        backoff_us(
            60000); /* more than a slice of sleep: what still waits then has not been notified */
    if (SEES_ORDER && maps_memory())
        (void)job_reached(&job, 0, REFUSED);
    atomic_store(&job.board->go, 1);
    for (rank = 0; rank < 2; rank++)
        EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0),
               "rank %d, rexit after %llu us: status 0x%x", rank, (unsigned long long)delay_us,
               job.status[rank]);
    job_finish(&job);
}

int main(int argc, char **argv)
{
    int round, rounds = argc > 1 ? atoi(argv[1]) : 4;
    const char *modules = getenv("RPIPE_MODULE_PATH");
    uint64_t seed = seed_of(argc, argv);
    char path[512];

    setenv("RPIPE_LOG", "error", 0);
    for (round = 0; round < rounds; round++)
        one_job(round % 4 == 0 ? 0 : random_draw(&seed) % (round % 4 == 1 ? 500 : 20000));
    snprintf(path, sizeof(path), "%s/btl_ofi.so", modules != NULL ? modules : "");
    if (SEES_ORDER && getenv("RPIPE_BTL") == NULL && access(path, R_OK) == 0) {
        setenv("RPIPE_BTL", "ofi", 1);
        setenv("RPIPE_OFI_PROVIDER", "tcp", 1);
        one_job(random_draw(&seed) % 20000);
    }
    return check_report(argv[0]);
}
