/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interrupted_calls.c: a timer that interrupts every system call, a thousand times a second and more, without SA_RESTART.
 *
 * From before rinit to behind rexit: no call ends with EINTR, none is late, nothing is lost: bootstrap, greeting, a large heap,
 * waits for memory, for a slot and for messages, growth, descriptors, collectives. Signals go to the program's threads alone: the
 * service thread never runs a handler. Over Unix sockets, over TCP, and over libfabric where that is built.
 *
 *     interrupted_calls [ROUNDS]
 */
#include "test/lib/job.h"

#include <poll.h>
#include <signal.h>
#include <sys/time.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWER 4 /* a handler costs far more */
#else
#define SLOWER 1
#endif

#define MESSAGES 400
#define HEAP ((size_t)8192)
#define LARGE ((size_t)48 << 20) /* takes the kernel some milliseconds to allocate */

static volatile sig_atomic_t interruptions, elsewhere;
static pid_t main_thread;

static void interrupted(int sig)
{
    (void)sig;
    interruptions++;
    if (gettid() != main_thread)
        elsewhere++;
}

static void start_timer(long us)
{
    const struct sigaction action = {.sa_handler = interrupted};
    const struct itimerval every = {{0, us}, {0, us}};

    main_thread = gettid();
    CHECK(NULL,
          sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0);
}

static size_t message_bytes(uint64_t i) { return i % 3 == 0 ? 24 : 100 + i * 131 % (HEAP / 2); }

static void write_all(rch_t ch)
{
    uint64_t i;
    raddr_t d;
    int rc;

    for (i = 0; i < MESSAGES; i++) {
        d = rmalloc(ch, message_bytes(i));
        CHECK(ch, d != ADDR_NULL);
        pattern_fill(rmem(ch, d), message_bytes(i), i);
        CHECK(ch, rwrite(ch, d) == 0);
    }
    rc = rflush(ch);
    CHECK(ch, rc == 0 || rc == -EPIPE); /* an end that has read everything may have closed */
}

static void read_all(rch_t ch)
{
    struct pollfd p = {.fd = rfd(ch), .events = POLLIN};
    uint64_t i;
    size_t size;
    raddr_t d;
    int ready, rc;

    CHECK(ch, p.fd >= 0);
    for (i = 0; i < MESSAGES; i++) {
        if (i % 8 == 1)
            CHECK(ch, rpoll(&ch, 1, &ready, PATIENCE_MS) == 0);
        do {
            if (i % 8 == 2)
                (void)poll(&p, 1, PATIENCE_MS); /* ends with EINTR: that is not our call */
            rc = i % 8 == 2 ? rread_nb(ch, &d, &size) : rread(ch, &d, &size);
        } while (rc == R_PENDING);
        CHECK(ch, rc == 0);
        CHECK(ch, size == message_bytes(i) && pattern_same(rmem(ch, d), size, i));
        if (i % 16 == 0)
            backoff_us(2000); /* the other side has to wait now and then */
        CHECK(ch, rfree(ch, d) == 0);
    }
}

static void traffic(int rank, rpipe_op_t op, bool grows)
{
    bool writer = (rank == 0) == (op == RPIPE_PUT);
    rpipe_config_t cfg = channel_config(op, 1 - rank, writer, HEAP);
    raddr_t d;
    rch_t ch;

    cfg.slots = 8;
    cfg.context = (uint32_t)op * 2 + grows;
    if (grows)
        cfg.max_heap_bytes = 64 * HEAP;
    CHECK(ch, rpipe(&ch, &cfg) == 0 && rwait(ch) == 0);
    if (writer)
        write_all(ch);
    else
        read_all(ch);
    if (writer && grows) { /* larger than any segment */
        CHECK(ch, (d = rmalloc(ch, 32 * HEAP)) != ADDR_NULL);
        CHECK(ch, rwrite(ch, d) == 0);
    } else if (grows) {
        CHECK(ch, rread(ch, &d, NULL) == 0 && rsize(ch, d) == 32 * HEAP);
    }
    CHECK(ch, rclose(ch) == 0);
}

static void large_heap(int rank)
{
    rpipe_config_t cfg = channel_config(RPIPE_PUT, 1 - rank, rank == 0, LARGE);
    uint64_t number = 0;
    raddr_t d;
    rch_t ch;

    cfg.context = 10;
    CHECK(ch, rpipe(&ch, &cfg) == 0 && rwait(ch) == 0);
    if (rank == 0) {
        CHECK(ch, (d = rmalloc(ch, LARGE)) != ADDR_NULL);
        memset(rmem(ch, d), 1, LARGE);
        CHECK(ch, rwrite(ch, d) == 0);
        CHECK(NULL, network_send(1, &(uint64_t){7}, sizeof(number)) == 0);
    } else {
        CHECK(ch, rread(ch, &d, NULL) == 0 && rfree(ch, d) == 0);
        CHECK(NULL, network_recv(0, &number, sizeof(number)) == 0 && number == 7);
    }
    CHECK(ch, rclose(ch) == 0);
}

struct case_of {
    const char *name, *value; /* of the environment */
    long every_us;
    bool large;
};

static int interrupted_all_the_time(int rank, struct board *board, const void *arguments)
{
    const struct case_of *c = arguments;
    uint64_t mine = (uint64_t)rank + 5, all[2];

    if (c->name != NULL)
        setenv(c->name, c->value, 1);
    start_timer(c->every_us * SLOWER);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    CHECK(NULL, network_barrier() == 0);
    for (int i = 0; i < 4; i++)
        traffic(rank, i % 2 == 0 ? RPIPE_PUT : RPIPE_GET, i >= 2);
    if (c->large)
        large_heap(rank);
    CHECK(NULL, network_allgather(&mine, sizeof(mine), all) == 0 && all[0] == 5 && all[1] == 6);
    CHECK(NULL, rexit() == 0);
    CHECK(NULL, elsewhere == 0);
    atomic_store(&board->rank[rank].number, (uint64_t)interruptions);
    return 0;
}

static void run(const struct case_of *c)
{
    struct job job;
    int rank;

    job_prepare(&job, 2);
    job_start(&job, interrupted_all_the_time, c);
    for (rank = 0; rank < 2; rank++)
        EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0),
               "%s=%s, every %ld us: rank %d: status 0x%x", c->name != NULL ? c->name : "",
               c->name != NULL ? c->value : "", c->every_us, rank, job.status[rank]);
    printf("%s=%s, every %ld us: %llu and %llu signals\n", c->name != NULL ? c->name : "",
           c->name != NULL ? c->value : "", c->every_us,
           (unsigned long long)job.board->rank[0].number,
           (unsigned long long)job.board->rank[1].number);
    job_finish(&job);
}

int main(int argc, char **argv)
{
    static const struct case_of cases[] = {
        {NULL, NULL, 1000, true},
        {NULL, NULL, 250, false},
        {"RPIPE_WAIT", "sleep", 500, false},
        {"RPIPE_CONTROL", "tcp", 1000, false}, /* these two need it */
        {"RPIPE_BTL", "ofi", 1000, false},
    };
    const char *modules = getenv("RPIPE_MODULE_PATH");
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    char path[512];
    bool ofi;

    setenv("RPIPE_LOG", "error", 0);
    setenv("RPIPE_OFI_PROVIDER", "tcp", 0);
    snprintf(path, sizeof(path), "%s/btl_ofi.so", modules != NULL ? modules : "");
    ofi = access(path, R_OK) == 0;
    while (rounds-- > 0)
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases) - (ofi ? 0 : 2); i++)
            run(&cases[i]);
    return check_report(argv[0]);
}
