/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kill_during_wait.c: a process is killed with SIGKILL while a peer waits for it, in every call that waits.
 *
 * Each must return with the right code, every complete message must be readable first, and rexit must not wait for
 * the dead. What is printed is the time from the kill to the return: rpipe(7) promises 100 ms on shm. The test
 * itself only insists on 2 s, because the machine that it runs on may be busy with other things; read the
 * medians.
 *
 *     kill_during_wait [ROUNDS [NAME]]
 */
#include "test/lib/job.h"
#include <rinfo.h>
#include <rpipe.h>

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#define MESSAGES 20 /* fewer than slots */
#define GIB ((size_t)1 << 30)
#define SEGMENT ((size_t)64 << 20)

enum kind {
    READ_EMPTY,  /* rread of an empty ring */
    READ_STREAM, /* rread while the writer writes as fast as it can */
    READ_LATER,  /* rread after the writer's death: what it wrote is there */
    POLL_EMPTY,  /* rpoll */
    POLL_UNJOINED,
    FD_EMPTY,    /* epoll_wait on rfd */
    FD_UNJOINED, /* poll on the rfd of an end whose writer never opened */
    WRITE_RING,  /* rwrite, the ring is full */
    WRITE_HEAP,  /* rmalloc, the heap is full */
    WRITE_QUEUE, /* rwrite, as many messages as sync_queue allows are not freed */
    WRITE_GROWS, /* rmalloc, the heap grows by segments that take a while to make */
    READ_GROWS,  /* rread, while the writer makes it grow */
    WAIT_READER, /* rwait, the writer never opened */
    WAIT_WRITER, /* rwait, the reader never opened */
    READ_UNJOINED,
    NETWORK_RECV,
    NETWORK_SEND, /* the window is full */
    NETWORK_BARRIER,
    NETWORK_GATHER,
    EXIT,
};

struct scenario {
    const char *name;
    enum kind kind;
    rpipe_op_t op;
    int ranks;
    size_t heap; /* of the channel */
    size_t
        ballast; /* memory of the victim that the kernel has to free before any socket hangs up */
    int expected;
    bool other_victim; /* rank 0, the root of the bootstrap, dies, and not rank 1 */
    const char *wait;
    rpipe_sync_t sync; /* WRITE_QUEUE */
};

static int victim_of(const struct scenario *s) { return s->other_victim ? 0 : 1; }

static bool survivor_writes(enum kind kind)
{
    return kind == WRITE_RING || kind == WRITE_HEAP || kind == WRITE_QUEUE || kind == WRITE_GROWS ||
           kind == WAIT_WRITER;
}

static bool joins(enum kind kind)
{
    return kind <= POLL_EMPTY || kind == FD_EMPTY || kind == READ_GROWS ||
           (survivor_writes(kind) && kind != WAIT_WRITER);
}

static rpipe_config_t config_of(const struct scenario *s, int peer, bool writer)
{
    rpipe_config_t cfg = channel_config(s->op, peer, writer, s->heap);

    if (s->kind == WRITE_QUEUE) {
        cfg.mode = s->sync;
        cfg.heuristic = RMALLOC_BEST_FIT;
        cfg.sync_queue = 5;
    } else if (s->kind == WRITE_GROWS || s->kind == READ_GROWS) {
        cfg.max_heap_bytes = s->heap + 2 * SEGMENT;
    }
    return cfg;
}

static bool has_channel(enum kind kind) { return kind <= READ_UNJOINED; }

static size_t message_bytes(uint64_t i)
{
    return i % 3 == 0 ? 8 : 100 + i * 61 % 3000;
} /* in the slot, and in the heap */

/* ---- both ---- */

static int fill_ring(rch_t ch)
{
    raddr_t d;
    int rc;

    do {
        d = rmalloc(ch, 8);
        if (d == ADDR_NULL)
            return -errno;
        rc = rwrite(ch, d);
    } while (rc == 0);
    return rc;
}

static int fill_heap(rch_t ch, size_t bytes)
{
    raddr_t d;
    int rc;

    do {
        d = rmalloc(ch, bytes);
        if (d == ADDR_NULL)
            return -errno;
        rc = rwrite(ch, d);
    } while (rc == 0);
    return rc;
}

/* ---- the one that dies ---- */

static void victim_writes(rch_t ch, struct board *board, int rank, uint64_t count)
{
    uint64_t i;
    raddr_t d;
    void *mem;

    for (i = 0; i < count; i++) {
        mem = (d = rmalloc(ch, message_bytes(i))) != ADDR_NULL ? rmem(ch, d) : NULL;
        CHECK(ch, mem != NULL);
        pattern_fill(mem, message_bytes(i), i);
        CHECK(ch, rwrite(ch, d) == 0);
        atomic_store_explicit(&board->rank[rank].done, i + 1,
                              memory_order_release); /* complete: must arrive */
    }
}

static int victim(int rank, struct board *board, const struct scenario *s)
{
    int peer = 1 - rank;
    rch_t ch = NULL;

    if (s->ballast > 0) {
        char *p =
            mmap(NULL, s->ballast, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        size_t i;

        CHECK(NULL, p != MAP_FAILED);
        (void)madvise(p, s->ballast, MADV_NOHUGEPAGE); /* small pages take the kernel longer */
        for (i = 0; i < s->ballast; i += 4096)
            p[i] = 1;
    }
    if (joins(s->kind)) {
        rpipe_config_t cfg = config_of(s, peer, !survivor_writes(s->kind));

        CHECK(NULL, rpipe(&ch, &cfg) == 0);
        CHECK(ch, rwait(ch) == 0);
    }
    if (s->kind == READ_LATER)
        victim_writes(ch, board, rank, MESSAGES);
    rank_reached(board, rank, 2);
    if (s->kind == READ_STREAM)
        victim_writes(ch, board, rank, UINT64_MAX);
    if (s->kind == READ_GROWS)
        (void)fill_heap(ch, SEGMENT);
    for (;;)
        pause();
}

/* ---- the one that waits ---- */

/* Reads to the end; how many messages there were. */
static uint64_t read_all(rch_t ch, int *code)
{
    uint64_t i;
    raddr_t d;
    size_t size;

    for (i = 0; (*code = rread(ch, &d, &size)) == 0; i++) {
        CHECK(ch, size == message_bytes(i));
        CHECK(ch, pattern_same(rmem(ch, d), size, i));
        CHECK(ch, rfree(ch, d) == 0);
    }
    return i;
}

/* Holds all that comes. */
static int read_and_hold(rch_t ch)
{
    raddr_t d;
    int rc;

    do
        rc = rread(ch, &d, NULL);
    while (rc == 0);
    return rc;
}

static int watch_fd(rch_t ch, bool with_epoll)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd = rfd(ch), rc, set = epoll_create1(EPOLL_CLOEXEC);
    int64_t patience = deadline_in_ms(PATIENCE_MS);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    raddr_t d;

    CHECK(ch, fd >= 0 && set >= 0);
    CHECK(ch, epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    do { /* readable without a reason is allowed, until the writer has received the announcement of the descriptor */
        rc = with_epoll ? epoll_wait(set, &event, 1, PATIENCE_MS) : poll(&p, 1, PATIENCE_MS);
        CHECK(ch, rc == 1);
        rc = rread_nb(ch, &d, NULL);
    } while (rc == R_PENDING && !deadline_passed(patience));
    close(set);
    return rc;
}

static int window_fill(int to)
{
    static char much[1 << 16];
    int rc;

    do
        rc = network_send(to, much, sizeof(much));
    while (rc == 0);
    return rc;
}

static int call(const struct scenario *s, rch_t ch, int peer, struct board *board, int rank)
{
    uint64_t all[RANKS_MOST], mine = 0;
    int rc, ready = 0;
    raddr_t d;

    switch (s->kind) {
    case READ_EMPTY:
    case READ_UNJOINED:
        return rread(ch, &d, NULL);
    case READ_STREAM:
    case READ_LATER:
        atomic_store(&board->rank[rank].number, read_all(ch, &rc));
        return rc;
    case POLL_EMPTY:
    case POLL_UNJOINED:
        rc = rpoll(&ch, 1, &ready, PATIENCE_MS);
        CHECK(ch, rc == 0 && ready == 1);
        return rread_nb(ch, &d, NULL);
    case FD_EMPTY:
    case FD_UNJOINED:
        return watch_fd(ch, s->kind == FD_EMPTY);
    case WRITE_RING:
        return fill_ring(ch);
    case WRITE_HEAP:
        return fill_heap(ch, s->heap / 8);
    case WRITE_QUEUE:
        return fill_heap(ch, 100);
    case WRITE_GROWS:
        return fill_heap(ch, SEGMENT);
    case READ_GROWS:
        return read_and_hold(ch);
    case WAIT_READER:
    case WAIT_WRITER:
        return rwait(ch);
    case NETWORK_RECV:
        return network_recv(peer, &mine, sizeof(mine));
    case NETWORK_SEND:
        return window_fill(peer);
    case NETWORK_BARRIER:
        return network_barrier();
    case NETWORK_GATHER:
        return network_allgather(&mine, sizeof(mine), all);
    case EXIT:
        return rexit();
    }
    return -1;
}

static int survivor(int rank, struct board *board, const struct scenario *s)
{
    int peer = victim_of(s), rc;
    bool channel = has_channel(s->kind) && rank < 2;
    rch_t ch = NULL;

    if (channel) {
        rpipe_config_t cfg = config_of(s, peer, survivor_writes(s->kind));

        CHECK(NULL, rpipe(&ch, &cfg) == 0);
        if (joins(s->kind))
            CHECK(ch, rwait(ch) == 0);
    }
    rank_reached(board, rank, 2);
    if (s->kind == READ_LATER)
        rank_wait_go(board, 1);
    rc = call(s, ch, peer, board, rank);
    rank_returned(board, rank, rc, ch);
    if (channel) {
        CHECK(ch, s->kind != READ_EMPTY ||
                      rread(ch, &(raddr_t){NULL}, NULL) == rc); /* again and again */
        CHECK(ch, rclose(ch) == 0);
    }
    rc = s->kind == EXIT ? rc : rexit();
    CHECK(NULL, rc == 0);
    return 0;
}

static int any_rank(int rank, struct board *board, const void *arguments)
{
    const struct scenario *s = arguments;

    setenv("RPIPE_TIMEOUT_MS", "20000", 1);
    setenv("RPIPE_WAIT", s->wait, 1);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    return rank == victim_of(s) ? victim(rank, board, s) : survivor(rank, board, s);
}

/* ---- one round ---- */

static void judge(const struct scenario *s, struct job *job, int rank, struct spread *spread)
{
    struct board_rank *mine = &job->board->rank[rank], *dead = &job->board->rank[victim_of(s)];
    int64_t killed = atomic_load(&job->board->killed), returned = atomic_load(&mine->returned);
    int code = atomic_load(&mine->code);
    uint64_t wrote = atomic_load(&dead->done), got = atomic_load(&mine->number);

    EXPECT(job_status_is(job, rank, 0), "%s: rank %d ended with status 0x%x", s->name, rank,
           job->status[rank]);
    if (returned == 0)
        return;
    EXPECT(code == s->expected, "%s: %d (%s) and not %d (%s): %s", s->name, code,
           rinfo_strerror(code), s->expected, rinfo_strerror(s->expected), mine->error_message);
    EXPECT(returned >= killed || s->kind == EXIT, "%s: returned %.3f ms before the kill: %s",
           s->name, (double)(killed - returned) / 1e6, mine->error_message);
    if (s->kind == READ_STREAM ||
        s->kind == READ_LATER) /* one more may be complete without an announcement of the writer */
        EXPECT(got == wrote || got == wrote + 1, "%s: %llu messages read, %llu written", s->name,
               (unsigned long long)got, (unsigned long long)wrote);
    spread_add(spread, (double)(returned - killed) / 1e6);
}

static void round_of(const struct scenario *s, uint64_t *random, struct spread *spread)
{
    struct job job;
    int rank, dead = victim_of(s);
    bool ok = true;

    job_prepare(&job, s->ranks);
    job_start(&job, any_rank, s);
    for (rank = 0; rank < s->ranks && ok; rank++)
        ok = job_reached(&job, rank, 2);
    if (ok) {
        backoff_us((long)(random_draw(random) % 30000) +
                   (survivor_writes(s->kind) || s->kind == NETWORK_SEND ? 10000 : 0));
        if (s->kind == READ_LATER) { /* dead and gone before the first poll */
            job_kill(&job, dead, SIGKILL);
            job_ended(&job, dead);
            backoff_us((long)(random_draw(random) % 60000));
            atomic_store(&job.board->killed, clock_now());
            atomic_store(&job.board->go, 1);
        } else {
            job_kill(&job, dead, SIGKILL);
        }
        for (rank = 0; rank < s->ranks; rank++) {
            if (rank != dead && job_ended(&job, rank))
                judge(s, &job, rank, spread);
        }
    }
    job_finish(&job);
}

static const struct scenario scenarios[] = {
    {"rread, PUT", READ_EMPTY, RPIPE_PUT, 2, 1 << 16, 0, -ECONNRESET, 0, 0, 0},
    {"rread, GET", READ_EMPTY, RPIPE_GET, 2, 1 << 16, 0, -ECONNRESET, 0, 0, 0},
    {"rread of a stream, PUT", READ_STREAM, RPIPE_PUT, 2, 1 << 16, 0, -ECONNRESET, 0, 0, 0},
    {"rread of a stream, GET", READ_STREAM, RPIPE_GET, 2, 1 << 16, 0, -ECONNRESET, 0, 0, 0},
    {"rread after the death, PUT", READ_LATER, RPIPE_PUT, 2, 1 << 17, 0, -ECONNRESET, 0, 0, 0},
    {"rread after the death, GET", READ_LATER, RPIPE_GET, 2, 1 << 17, 0, -ECONNRESET, 0, 0, 0},
    {"rpoll", POLL_EMPTY, RPIPE_PUT, 2, 1 << 16, 0, -ECONNRESET, 0, 0, 0},
    {"rpoll, not joined", POLL_UNJOINED, RPIPE_PUT, 2, 1 << 16, 0, -ECONNRESET, 0, 0, 0},
    {"epoll on rfd", FD_EMPTY, RPIPE_PUT, 2, 1 << 16, 0, -ECONNRESET, 0, 0, 0},
    {"poll on rfd, not joined", FD_UNJOINED, RPIPE_PUT, 2, 1 << 16, 0, -ECONNRESET, 0, 0, 0},
    {"rwrite, ring full, PUT", WRITE_RING, RPIPE_PUT, 2, 1 << 16, 0, -EPIPE, 0, 0, 0},
    {"rwrite, ring full, GET", WRITE_RING, RPIPE_GET, 2, 1 << 16, 0, -EPIPE, 0, 0, 0},
    {"rmalloc, heap full, PUT", WRITE_HEAP, RPIPE_PUT, 2, 1 << 16, 0, -EPIPE, 0, 0, 0},
    {"rmalloc, heap full, GET", WRITE_HEAP, RPIPE_GET, 2, 1 << 16, 0, -EPIPE, 0, 0, 0},
    {"rwrite, queue full, PUT tags", WRITE_QUEUE, RPIPE_PUT, 2, 1 << 16, 0, -EPIPE, 0, 0,
     RPIPE_SYNC_TAGS},
    {"rwrite, queue full, GET tags", WRITE_QUEUE, RPIPE_GET, 2, 1 << 16, 0, -EPIPE, 0, 0,
     RPIPE_SYNC_TAGS},
    {"rwrite, queue full, PUT channel", WRITE_QUEUE, RPIPE_PUT, 2, 1 << 16, 0, -EPIPE, 0, 0,
     RPIPE_SYNC_CHANNEL},
    {"rwrite, queue full, GET channel", WRITE_QUEUE, RPIPE_GET, 2, 1 << 16, 0, -EPIPE, 0, 0,
     RPIPE_SYNC_CHANNEL},
    {"rmalloc, the heap grows, PUT", WRITE_GROWS, RPIPE_PUT, 2, 1 << 16, 0, -EPIPE, 0, 0, 0},
    {"rmalloc, the heap grows, GET", WRITE_GROWS, RPIPE_GET, 2, 1 << 16, 0, -EPIPE, 0, 0, 0},
    {"rread, the heap grows, PUT", READ_GROWS, RPIPE_PUT, 2, 1 << 16, 0, -ECONNRESET, 0, 0, 0},
    {"rread, the heap grows, GET", READ_GROWS, RPIPE_GET, 2, 1 << 16, 0, -ECONNRESET, 0, 0, 0},
    {"rwait of a reader", WAIT_READER, RPIPE_PUT, 2, 1 << 16, 0, -ECONNRESET, 0, 0, 0},
    {"rwait of a writer", WAIT_WRITER, RPIPE_PUT, 2, 1 << 16, 0, -EPIPE, 0, 0, 0},
    {"rread, not joined", READ_UNJOINED, RPIPE_GET, 2, 1 << 16, 0, -ECONNRESET, 0, 0, 0},
    {"network_recv", NETWORK_RECV, RPIPE_PUT, 2, 0, 0, -ECONNRESET, 0, 0, 0},
    {"network_send, window full", NETWORK_SEND, RPIPE_PUT, 2, 0, 0, -ECONNRESET, 0, 0, 0},
    {"network_barrier of 4", NETWORK_BARRIER, RPIPE_PUT, 4, 0, 0, -ECONNRESET, 0, 0, 0},
    {"network_allgather of 5", NETWORK_GATHER, RPIPE_PUT, 5, 0, 0, -ECONNRESET, 0, 0, 0},
    {"rexit of 3", EXIT, RPIPE_PUT, 3, 0, 0, 0, 0, 0, 0},
    /* the socket hangs up late, the liveness word does not */
    {"rread, PUT, victim of 1 GiB", READ_EMPTY, RPIPE_PUT, 2, 1 << 16, GIB, -ECONNRESET, 0, 0, 0},
    {"rread, GET heap of 1 GiB", READ_EMPTY, RPIPE_GET, 2, GIB, 0, -ECONNRESET, 0, 0, 0},
    {"rread after the death, GET heap of 1 GiB", READ_LATER, RPIPE_GET, 2, GIB, 0, -ECONNRESET, 0,
     0, 0},
    {"rwrite, PUT heap of 1 GiB", WRITE_RING, RPIPE_PUT, 2, GIB, 0, -EPIPE, 0, 0, 0},
    {"rwait, victim of 1 GiB", WAIT_READER, RPIPE_PUT, 2, 1 << 16, GIB, -ECONNRESET, 0, 0, 0},
    {"rpoll, victim of 1 GiB", POLL_EMPTY, RPIPE_PUT, 2, 1 << 16, GIB, -ECONNRESET, 0, 0, 0},
    {"rpoll, not joined, victim of 1 GiB", POLL_UNJOINED, RPIPE_PUT, 2, 1 << 16, GIB, -ECONNRESET,
     0, 0, 0},
    {"epoll on rfd, victim of 1 GiB", FD_EMPTY, RPIPE_PUT, 2, 1 << 16, GIB, -ECONNRESET, 0, 0, 0},
    {"poll on rfd, not joined, 1 GiB", FD_UNJOINED, RPIPE_PUT, 2, 1 << 16, GIB, -ECONNRESET, 0, 0,
     0},
    {"network_recv, victim of 1 GiB", NETWORK_RECV, RPIPE_PUT, 2, 0, GIB, -ECONNRESET, 0, 0, 0},
    {"network_barrier of 4, victim of 1 GiB", NETWORK_BARRIER, RPIPE_PUT, 4, 0, GIB, -ECONNRESET, 0,
     0, 0},
    {"rexit of 3, victim of 1 GiB", EXIT, RPIPE_PUT, 3, 0, GIB, 0, 0, 0, 0},
};

static size_t memory_available(void)
{
    return (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
    static const char *const waits[] = {"adaptive", "sleep", "yield"};
    int rounds = argc > 1 ? atoi(argv[1]) : 3, i;
    uint64_t random = seed_of(argc, argv);
    static struct spread spread;
    size_t n;

    setenv("RPIPE_LOG", "error", 0);
    for (n = 0; n < sizeof(scenarios) / sizeof(scenarios[0]); n++) {
        struct scenario s = scenarios[n];
        bool big = s.heap >= GIB || s.ballast >= GIB;

        if (argc > 2 && strstr(s.name, argv[2]) == NULL)
            continue;
        if (big && memory_available() < 4 * GIB) {
            printf("%-44s left out: less than 4 GiB of free memory\n", s.name);
            continue;
        }
        spread.n = 0;
        for (i = 0; i < (big ? (rounds + 2) / 3 : rounds); i++) {
            s.other_victim = i % 2 == 1;
            s.wait = waits[i % 3];
            round_of(&s, &random, &spread);
        }
        spread_print(&spread, s.name);
        fflush(stdout);
    }
    printf("%s\n", check_failures == 0 ? "every death was noticed" : "FAILED");
    return check_failures == 0 ? 0 : 1;
}
