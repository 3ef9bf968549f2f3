/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kill_during_connect.c: a process is killed with SIGKILL while the network connection to it is still coming up.
 *
 * Both ends have both handshakes: the writer is attached, the reader is joined. The simulated network never brings a connection up
 * (RPIPE_SIM_MODE=down), so only the death of the peer ends a call before its deadline: with -EPIPE at the writer, -ECONNRESET at the
 * reader, as on a connection that is up.
 *
 * In every other round the peer is dead before the call begins. What is printed is the time from the kill, or the call, to the return.
 *
 *     kill_during_connect [ROUNDS [NAME]]
 */
#include "test/lib/job.h"
#include "test/lib/cells.h"

#include "rpipe/end/rch.h"

#include <poll.h>
#include <signal.h>

#define HEAP ((size_t)1 << 16)
#define LATE_MS 10000 /* the deadline of calls, which no call reaches */

enum kind {
    WAIT,        /* rwait */
    WRITE,       /* rwrite of a message that does not leave */
    ALLOC,       /* rmalloc, the heap is full, and another thread might free */
    ALLOC_GROWS, /* rmalloc, the heap is full and could grow: the other end has to agree */
    CELL,        /* rcells_atomic */
    READ,
    POLL,
    DESCRIPTOR, /* poll on rfd */
    CLOSE,      /* rclose, which waits for proof that everything has arrived */
};

struct scenario {
    const char *name;
    enum kind kind;
    rpipe_op_t op;
    int expected;
    const char *wait;
    bool late, other_victim; /* the call begins after the death; rank 0 dies, and not rank 1 */
};

static const struct scenario scenarios[] = {
    {"rwait, PUT", WAIT, RPIPE_PUT, -EPIPE, NULL, 0, 0},
    {"rwait, GET", WAIT, RPIPE_GET, -EPIPE, NULL, 0, 0},
    {"rwrite, PUT", WRITE, RPIPE_PUT, -EPIPE, NULL, 0, 0},
    {"rwrite, GET", WRITE, RPIPE_GET, -EPIPE, NULL, 0, 0},
    {"rmalloc, PUT", ALLOC, RPIPE_PUT, -EPIPE, NULL, 0, 0},
    {"rmalloc, GET", ALLOC, RPIPE_GET, -EPIPE, NULL, 0, 0},
    {"rmalloc, the heap grows, PUT", ALLOC_GROWS, RPIPE_PUT, -EPIPE, NULL, 0, 0},
    {"rmalloc, the heap grows, GET", ALLOC_GROWS, RPIPE_GET, -EPIPE, NULL, 0, 0},
    {"rcells_atomic", CELL, RPIPE_PUT, -EPIPE, NULL, 0, 0},
    {"rread, PUT", READ, RPIPE_PUT, -ECONNRESET, NULL, 0, 0},
    {"rread, GET", READ, RPIPE_GET, -ECONNRESET, NULL, 0, 0},
    {"rpoll", POLL, RPIPE_GET, -ECONNRESET, NULL, 0, 0},
    {"poll on rfd", DESCRIPTOR, RPIPE_PUT, -ECONNRESET, NULL, 0, 0},
    {"rclose of the reader", CLOSE, RPIPE_GET, 0, NULL, 0, 0},
};

static int victim_of(const struct scenario *s) { return s->other_victim ? 0 : 1; }

static bool survivor_writes(const struct scenario *s) { return s->kind <= CELL; }

/* ---- both ---- */

static rch_t open_end(const struct scenario *s, int rank)
{
    bool writer = (rank != victim_of(s)) == survivor_writes(s);
    rpipe_config_t cfg = channel_config(s->op, 1 - rank, writer, HEAP);
    rch_t ch = NULL;

    cfg.timeout_ms = LATE_MS;
    if (s->kind == CELL) {
        CHECK(NULL, cells_open(&ch, &cfg, writer, NULL) == 0);
        return ch;
    }
    if (s->kind == ALLOC)
        cfg.flags |= RPIPE_THREADS;
    if (s->kind == ALLOC_GROWS)
        cfg.max_heap_bytes = 4 * HEAP;
    CHECK(NULL, rpipe(&ch, &cfg) == 0);
    return ch;
}

/* The service thread sets one of these bits when the handshake of the peer, or its end, arrives. */
static void await_state(rch_t ch, uint32_t bits)
{
    int64_t patience = deadline_in_ms(PATIENCE_MS);

    while ((atomic_load(&ch->state) & bits) == 0) {
        CHECK(ch, !deadline_passed(patience));
        backoff_us(100);
    }
}

/* ---- the one that waits ---- */

static int fill_heap(rch_t ch)
{
    while (rmalloc(ch, HEAP / 4) != ADDR_NULL)
        ;
    return -errno;
}

static int write_one(rch_t ch)
{
    raddr_t d = rmalloc(ch, 100);

    CHECK(ch, d != ADDR_NULL);
    return rwrite(ch, d);
}

/* Readable without a reason is allowed until the writer has acknowledged the descriptor, which this one may not do any more. */
static int read_by_descriptor(rch_t ch)
{
    struct pollfd p = {.fd = rfd(ch), .events = POLLIN};
    int64_t patience = deadline_in_ms(PATIENCE_MS);
    raddr_t d;
    int rc;

    CHECK(ch, p.fd >= 0);
    do {
        CHECK(ch, poll(&p, 1, PATIENCE_MS) == 1);
        rc = rread_nb(ch, &d, NULL);
    } while (rc == R_PENDING && !deadline_passed(patience));
    return rc;
}

static int call(const struct scenario *s, rch_t ch)
{
    uint64_t old;
    int ready = 0;
    raddr_t d;

    switch (s->kind) {
    case WAIT:
        return rwait(ch);
    case WRITE:
        return write_one(ch);
    case ALLOC:
    case ALLOC_GROWS:
        return fill_heap(ch);
    case CELL:
        return rcells_atomic(cells_at(ch), RCELLS_ADD, 1, 1, 0, &old);
    case READ:
        return rread(ch, &d, NULL);
    case POLL:
        CHECK(ch, rpoll(&ch, 1, &ready, PATIENCE_MS) == 0 && ready == 1);
        return rread_nb(ch, &d, NULL);
    case DESCRIPTOR:
        return read_by_descriptor(ch);
    case CLOSE:
        return rclose(ch);
    }
    return -1;
}

static int survivor(const struct scenario *s, int rank, struct board *board)
{
    rch_t ch = open_end(s, rank);

    await_state(ch, STATE_ATTACHED | STATE_JOINED);
    rank_reached(board, rank, 1);
    if (s->late) {
        rank_wait_go(board, 1); /* the peer has ended */
        await_state(ch, STATE_PEER_DIED);
        atomic_store(&board->killed, clock_now());
    }
    rank_returned(board, rank, call(s, ch), s->kind == CLOSE ? NULL : ch);
    if (s->kind != CLOSE)
        CHECK(ch, cells_or_pipe_close(ch) == 0);
    CHECK(NULL, rexit() == 0);
    return 0;
}

static int any_rank(int rank, struct board *board, const void *arguments)
{
    const struct scenario *s = arguments;
    rch_t ch;

    setenv("RPIPE_WAIT", s->wait, 1);
    setenv("RPIPE_BTL", "sim", 1);
    setenv("RPIPE_SIM_MODE", "down", 1);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    if (rank != victim_of(s))
        return survivor(s, rank, board);
    ch = open_end(s, rank);
    await_state(ch, STATE_ATTACHED | STATE_JOINED);
    rank_reached(board, rank, 1);
    for (;;)
        pause();
}

/* ---- one round ---- */

static void judge(const struct scenario *s, struct job *job, int rank, struct spread *spread)
{
    struct board_rank *mine = &job->board->rank[rank];
    int64_t killed = atomic_load(&job->board->killed), returned = atomic_load(&mine->returned);
    int code = atomic_load(&mine->code);

    EXPECT(job_status_is(job, rank, 0), "%s: rank %d ended with status 0x%x", s->name, rank,
           job->status[rank]);
    if (returned == 0)
        return;
    EXPECT(code == s->expected, "%s%s: %d (%s) and not %d (%s): %s", s->name,
           s->late ? ", late" : "", code, rinfo_strerror(code), s->expected,
           rinfo_strerror(s->expected), mine->error_message);
    EXPECT(returned >= killed, "%s: returned %.3f ms before the kill: %s", s->name,
           (double)(killed - returned) / 1e6, mine->error_message);
    spread_add(spread, (double)(returned - killed) / 1e6);
}

static void round_of(const struct scenario *s, uint64_t *random, struct spread *spread)
{
    int dead = victim_of(s), rank = 1 - dead;
    struct job job;

    job_prepare(&job, 2);
    job_start(&job, any_rank, s);
    if (job_reached(&job, rank, 1) && job_reached(&job, dead, 1)) {
        if (!s->late)
            backoff_us((long)(random_draw(random) % 30000)); /* any part of the wait */
        job_kill(&job, dead, SIGKILL);
        if (job_ended(&job, dead))
            atomic_store(&job.board->go, 1);
        if (job_ended(&job, rank))
            judge(s, &job, rank, spread);
    }
    job_finish(&job);
}

int main(int argc, char **argv)
{
    static const char *const waits[] = {"adaptive", "sleep", "yield"};
    int rounds = argc > 1 ? atoi(argv[1]) : 4, i;
    uint64_t random = seed_of(argc, argv);
    static struct spread spread;
    size_t n;

    setenv("RPIPE_LOG", "error", 0);
    for (n = 0; n < sizeof(scenarios) / sizeof(scenarios[0]); n++) {
        struct scenario s = scenarios[n];

        if (argc > 2 && strstr(s.name, argv[2]) == NULL)
            continue;
        spread.n = 0;
        for (i = 0; i < rounds; i++) {
            s.late = i % 2 == 1;
            s.other_victim = i % 4 >= 2;
            s.wait = waits[i % 3];
            round_of(&s, &random, &spread);
        }
        spread_print(&spread, s.name);
        fflush(stdout);
    }
    printf("%s\n", check_failures == 0 ? "every death was noticed" : "FAILED");
    return check_failures == 0 ? 0 : 1;
}
