/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_in_rexit.c: a rank in rexit opens and sends nothing any more. Each call of another rank that needs it ends at once, with an
 * error that names the rank; what it had sent before arrives first. A pipe that never joins is never R_EOF, whichever deadline passes
 * first, and leaves a line in the log. rexit names the ranks that have not come.
 */
#include "test/lib/job.h"

#include <fcntl.h>
#include <poll.h>
#include <ram.h>
#include <rcast.h>
#include <sys/wait.h>

enum { HEAP = 4096, FEW = 5 };

static rch_t open_end(bool writer, rpipe_op_t op, int peer, uint64_t context, int timeout_ms)
{
    rpipe_config_t cfg = channel_config(op, peer, writer, HEAP);
    rch_t ch = NULL;

    cfg.context = context;
    cfg.timeout_ms = timeout_ms;
    CHECK_OK(NULL, rpipe(&ch, &cfg));
    return ch;
}

/* The message is about rank 1 and its rexit. */
static void never_joins(rch_t ch, int rc)
{
    CHECK_RC(-EPIPE, ch, rc);
    CHECK_ERROR(ch, "rank 1");
    CHECK_ERROR(ch, "rexit");
}

/* ---- every call ---- */

static void calls_of_a_writer(rpipe_op_t op, uint64_t context)
{
    rch_t ch = open_end(true, op, 1, context, PATIENCE_MS);
    char large[HEAP] = "";
    raddr_t d;

    never_joins(ch, rwait(ch));
    d = rmalloc(ch, 8); /* in its slot: memory of this process */
    CHECK(ch, d != ADDR_NULL);
    never_joins(ch, rwrite(ch, d));
    never_joins(ch, rwrite_nb(ch, d));
    CHECK_OK(ch, rfree(ch, d));
    never_joins(ch, rsend(ch, large, 8, 0));
    never_joins(ch, rsend(ch, large, sizeof(large), 0));
    never_joins(ch, rroom(ch, 8));
    if (op == RPIPE_PUT)
        never_joins(ch, rmalloc(ch, 1000) == ADDR_NULL ? -errno : 0);
    CHECK_OK(ch, rclose(ch));
}

static void calls_of_a_reader(rpipe_op_t op, uint64_t context)
{
    rch_t ch = open_end(false, op, 1, context, PATIENCE_MS);
    struct pollfd readable = {.fd = rfd(ch), .events = POLLIN};
    char buf[64];
    raddr_t d;
    int ready = 0;

    never_joins(ch, rread(ch, &d, NULL));
    never_joins(ch, rread_nb(ch, &d, NULL));
    never_joins(ch, rrecv(ch, buf, sizeof(buf), NULL, 0));
    never_joins(ch, rrecv(ch, buf, sizeof(buf), NULL, R_NOWAIT));
    never_joins(ch, rwait(ch));
    CHECK_OK(ch, rpoll(&ch, 1, &ready, PATIENCE_MS));
    CHECK(ch, ready == 1);
    CHECK(ch, poll(&readable, 1, PATIENCE_MS) == 1);
    CHECK_OK(ch, rclose(ch));
}

static void calls_of_groups(void)
{
    const int peers[] = {1};
    rpipe_config_t cfg = {.role = RPIPE_WRITER, .context = 300, .timeout_ms = PATIENCE_MS};
    rgroup_t group;
    raddr_t d;
    int member;

    CHECK_OK(NULL, rgroup_open(&group, &cfg, peers, 1));
    never_joins(NULL, rgroup_wait(group));
    CHECK_OK(NULL, rgroup_close(group));
    CHECK_OK(NULL, rgroup_open(&group, &cfg, peers, 1));
    never_joins(NULL, rgroup_alloc(group, RGROUP_ANY, 1000, &member, &d, 0));
    CHECK(NULL, rgroup_lost(group) == 0 && rgroup_count(group) == 0);
    CHECK_OK(NULL, rgroup_close(group));
    cfg.role = RPIPE_READER;
    CHECK_OK(NULL, rgroup_open(&group, &cfg, peers, 1));
    never_joins(NULL,
                rgroup_read(group, &member, &d, NULL, 0)); /* a loss, not the end of a member */
    CHECK(NULL, rgroup_lost(group) == 0);
    CHECK_RC(R_EOF, NULL, rgroup_read(group, &member, &d, NULL, 0));
    CHECK_OK(NULL, rgroup_close(group));
}

static void calls_of_cells(void)
{
    rcells_config_t cfg = {.role = RCELLS_USER, .peer = 1, .timeout_ms = PATIENCE_MS};
    uint64_t old;
    rcells_t cells;

    CHECK_OK(NULL, rcells_open(&cells, &cfg));
    never_joins(rcells_pipe(cells), rcells_atomic(cells, RCELLS_ADD, 0, 1, 0, &old));
    CHECK_OK(NULL, rcells_close(cells));
}

static void handle(ram_t am, ram_message_t *message, void *argument)
{
    (void)am, (void)message, (void)argument;
}

static void calls_of_active_messages(void)
{
    const ram_handler_t handlers[] = {{.name = "handle", .run = handle}};
    ram_config_t cfg = {.handlers = handlers, .nhandlers = 1, .timeout_ms = PATIENCE_MS};
    ram_request_t request = 0;
    ram_t am;
    int rc;

    CHECK_OK(NULL, ram_init(&am, &cfg));
    rc = ram_request(am, 1, 0, NULL, 0, NULL, 0, &request, 0);
    never_joins(NULL, rc != 0 ? rc : ram_wait(am, request, NULL, 0));
    CHECK_OK(NULL, ram_exit(am));
}

static void calls_of_the_network(void)
{
    uint64_t mine = 1, all[2];

    never_joins(NULL, network_recv(1, &mine, sizeof(mine)));
    never_joins(NULL, network_barrier());
    never_joins(NULL, network_allgather(&mine, sizeof(mine), all));
}

static int every_call(int rank, struct board *board, const void *arguments)
{
    rch_t waits;
    raddr_t d;

    (void)arguments;
    CHECK_OK(NULL, rinit(NULL, NULL));
    if (rank == 1) {
        rank_wait_go(board, 1);
        CHECK_OK(NULL, rexit());
        return 0;
    }
    waits = open_end(false, RPIPE_PUT, 1, 0, R_FOREVER); /* opened before, without a deadline */
    atomic_store(&board->go, 1);
    never_joins(waits, rread(waits, &d, NULL));
    for (int op = RPIPE_PUT; op <= RPIPE_GET; op++) {
        calls_of_a_writer((rpipe_op_t)op, 10 + (uint64_t)op);
        calls_of_a_reader((rpipe_op_t)op, 20 + (uint64_t)op);
    }
    calls_of_groups();
    calls_of_cells();
    calls_of_active_messages();
    calls_of_the_network();
    CHECK_OK(waits, rclose(waits));
    CHECK_OK(NULL, rexit());
    return 0;
}

/* No pipe and no message has connected the two ranks before: the calls of rank 0 do. */
static int without_a_connection(int rank, struct board *board, const void *arguments)
{
    const bool *pipes = arguments;

    CHECK_OK(NULL, rinit(NULL, NULL));
    if (rank == 1) {
        atomic_store(&board->go, 1);
        CHECK_OK(NULL, rexit());
        return 0;
    }
    rank_wait_go(board, 1);
    if (*pipes)
        calls_of_a_reader(RPIPE_GET, 1);
    calls_of_the_network();
    CHECK_OK(NULL, rexit());
    return 0;
}

/* ---- what was sent and opened before ---- */

static int sent_before(int rank, struct board *board, const void *arguments)
{
    uint64_t word = 7;
    size_t bytes;
    rch_t ch, closed, unused;

    (void)arguments;
    (void)board;
    CHECK_OK(NULL, rinit(NULL, NULL));
    ch = open_end(rank == 1, RPIPE_PUT, 1 - rank, 0, PATIENCE_MS);
    CHECK_OK(ch, rwait(ch));
    if (rank == 1) {
        for (uint64_t i = 0; i < FEW; i++)
            CHECK_OK(ch, rsend(ch, &i, sizeof(i), 0));
        CHECK_OK(NULL, network_send(0, &word, sizeof(word)));
        closed = open_end(true, RPIPE_GET, 0, 1, PATIENCE_MS);
        CHECK_OK(closed, rclose(closed));
        unused = open_end(true, RPIPE_GET, 0, 2, PATIENCE_MS); /* rexit closes it */
        CHECK(unused, unused != NULL);
        CHECK_OK(NULL, rexit());
        return 0;
    }
    CHECK_RC(-EMSGSIZE, NULL, network_recv(1, &word, 0)); /* it stays */
    CHECK_OK(NULL, network_recv(1, &word, sizeof(word)));
    CHECK(NULL, word == 7);
    never_joins(NULL, network_recv(1, &word, sizeof(word)));
    for (uint64_t i = 0; i < FEW; i++) {
        CHECK_OK(ch, rrecv(ch, &word, sizeof(word), &bytes, 0));
        CHECK(ch, word == i && bytes == sizeof(word));
    }
    CHECK_RC(R_EOF, ch, rrecv(ch, &word, sizeof(word), &bytes, 0));
    for (uint64_t context = 1; context <= 2; context++) { /* opened and closed, without a message */
        closed = open_end(false, RPIPE_GET, 1, context, PATIENCE_MS);
        CHECK_RC(R_EOF, closed, rrecv(closed, &word, sizeof(word), &bytes, 0));
        CHECK_OK(closed, rclose(closed));
    }
    never_joins(NULL, network_barrier());
    CHECK_OK(NULL, rexit());
    return 0;
}

/* ---- a cast that is opened late ---- */

/*
 * The writer is in rexit, without rcast_close, when the reader opens the cast. On another host the writer serves it until it has all; on the
 * same one its memory is not passed on any more.
 */
static int late_reader(int rank, struct board *board, const void *arguments)
{
    const bool apart = *(const bool *)arguments;
    rcast_config_t cfg = {.writer = 1, .timeout_ms = PATIENCE_MS};
    uint64_t word = 7;
    size_t bytes;
    rcast_t c;

    (void)board;
    CHECK_OK(NULL, rinit(NULL, NULL));
    if (rank == 1) {
        CHECK_OK(NULL, rcast_open(&c, &cfg, NULL, 2));
        for (uint64_t i = 0; i < FEW; i++)
            CHECK_OK(NULL, rcast_send(c, &i, sizeof(i), 0));
        CHECK_OK(NULL, network_send(0, &word, sizeof(word)));
        CHECK_OK(NULL, rexit());
        return 0;
    }
    CHECK_OK(NULL, network_recv(1, &word, sizeof(word)));
    never_joins(NULL, network_recv(1, &word, sizeof(word)));
    CHECK_OK(NULL, rcast_open(&c, &cfg, NULL, 2));
    for (uint64_t i = 0; i < FEW && apart; i++) {
        CHECK_OK(NULL, rcast_recv(c, &word, sizeof(word), &bytes, 0));
        CHECK(NULL, word == i && bytes == sizeof(word));
    }
    CHECK_RC(apart ? R_EOF : -ECONNRESET, NULL, rcast_recv(c, &word, sizeof(word), &bytes, 0));
    CHECK_OK(NULL, rcast_close(c));
    CHECK_OK(NULL, rexit());
    return 0;
}

/* ---- deadlines of both ---- */

struct deadlines {
    int of_call, of_rexit; /* ms */
};

/* The code is the same whether the deadline of the reader or that of rexit is the shorter one, and after rexit has returned. */
static int race(int rank, struct board *board, const void *arguments)
{
    const struct deadlines *ms = arguments;
    char text[16];
    raddr_t d;
    rch_t ch;
    int rc;

    snprintf(text, sizeof(text), "%d", ms->of_rexit);
    setenv("RPIPE_TIMEOUT_MS", rank == 1 ? text : "60000", 1);
    CHECK_OK(NULL, rinit(NULL, NULL));
    if (rank == 1) {
        rc = rexit();
        CHECK(NULL, rc == 0 || rc == -ETIMEDOUT);
        rank_reached(board, rank, 1);
        return 0;
    }
    ch = open_end(false, RPIPE_PUT, 1, 0, PATIENCE_MS);
    never_joins(ch, rread(ch, &d, NULL));
    CHECK_OK(ch, rset_timeout(ch, ms->of_call));
    do
        never_joins(ch, rread(ch, &d, NULL));
    while (ms->of_rexit < ms->of_call && atomic_load(&board->rank[1].phase) == 0);
    never_joins(ch, rread(ch, &d, NULL));
    CHECK_OK(NULL, rexit());
    return 0;
}

/* ---- the log ---- */

/* One warning for each end, however often its calls fail. */
static int one_line(int rank, struct board *board, const void *arguments)
{
    static const char expected[] = "pipe 1>0 context 77: rread: rank 1";
    char text[4096] = "", *at;
    int ends[2], before, lines = 0;
    ssize_t n;
    raddr_t d;
    rch_t ch;

    (void)arguments;
    (void)board;
    CHECK_OK(NULL, rinit(NULL, NULL));
    if (rank == 1) {
        CHECK_OK(NULL, rexit());
        return 0;
    }
    ch = open_end(false, RPIPE_PUT, 1, 77, PATIENCE_MS);
    before = dup(STDERR_FILENO);
    REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0 && dup2(ends[1], STDERR_FILENO) >= 0,
            "no pipe for the log");
    for (int i = 0; i < FEW; i++)
        never_joins(ch, rread(ch, &d, NULL));
    n = read(ends[0], text, sizeof(text) - 1);
    (void)dup2(before, STDERR_FILENO);
    text[n > 0 ? n : 0] = '\0';
    for (at = text; (at = strstr(at, expected)) != NULL; at++)
        lines++;
    REQUIRE(lines == 1, "the log is \"%s\"", text);
    CHECK_OK(NULL, rexit());
    return 0;
}

/* ---- rexit ---- */

/* Ranks 1 and 3 do not call rexit. */
static int names_the_missing(int rank, struct board *board, const void *arguments)
{
    (void)arguments;
    setenv("RPIPE_TIMEOUT_MS", rank == 0 ? "400" : "60000", 1);
    CHECK_OK(NULL, rinit(NULL, NULL));
    if (rank == 0) {
        CHECK_RC(-ETIMEDOUT, NULL, rexit());
        CHECK_ERROR(NULL, "missing: rank 1, rank 3;");
        CHECK_ERROR(NULL, "400 ms");
        atomic_store(&board->go, 1);
        return 0;
    }
    if (rank % 2 == 1)
        rank_wait_go(board, 1);
    CHECK_OK(NULL, rexit());
    return 0;
}

static void run(const char *name, int size, rank_function f, const void *arguments)
{
    struct job job;

    printf("%s\n", name);
    job_prepare(&job, size);
    job_start(&job, f, arguments);
    for (int rank = 0; rank < size; rank++)
        EXPECT(job_ended(&job, rank) && job_status_is(&job, rank, 0),
               "%s: rank %d ended with status 0x%x", name, rank, job.status[rank]);
    job_finish(&job);
}

int main(void)
{
    static const struct deadlines deadlines[] = {{100, 1000}, {1000, 400}, {400, 400}};

    run("every call", 2, every_call, NULL);
    run("without a connection", 2, without_a_connection, (bool[]){true});
    run("late reader", 2, late_reader, (bool[]){false});
    setenv("RPIPE_CONTROL", "tcp", 1); /* shared memory cannot be passed there */
    run("late reader, over tcp", 2, late_reader, (bool[]){true});
    run("without a connection, over tcp", 2, without_a_connection, (bool[]){false});
    unsetenv("RPIPE_CONTROL");
    run("sent before", 2, sent_before, NULL);
    for (size_t i = 0; i < sizeof(deadlines) / sizeof(*deadlines); i++)
        run("deadlines of both", 2, race, &deadlines[i]);
    run("one line in the log", 2, one_line, NULL);
    run("names the missing", 4, names_the_missing, NULL);
    return check_report("peer_in_rexit");
}
