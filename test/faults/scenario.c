/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenario.c: a rank of a job in which a rank is killed or stopped: see scenario.h. What the two ends do is in scenario_ends.c.
 */
#include "scenario.h"

#include "scenario_ends.h"

#include <signal.h>
#include <time.h>

#define CTX_NEW 77
#define NEW_MESSAGES 3

/* ---- what is left of the library ---- */

/* Segments and liveness pages. What rmalloc_stat(1) reads stays mapped for ever, once for a process (lib/observe/record/publish.c). */
static int count_shared(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[400];
    int n = 0;

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        n += strstr(line, "memfd:rmalloc (") != NULL || strstr(line, "memfd:rmalloc-life") != NULL;
    if (f != NULL)
        fclose(f);
    return n;
}

/* ---- new pipes, to a rank that lives ---- */

static rch_t open_new(int peer, uint32_t ctx, bool writer)
{
    rpipe_config_t cfg = channel_config(RPIPE_PUT, peer, writer, 4096);
    rch_t ch;

    cfg.context = ctx;
    CHECK(NULL, rpipe(&ch, &cfg) == 0);
    return ch;
}

/* `to_victim`: the reader may die meanwhile. */
static void write_new(rch_t ch, bool to_victim)
{
    int rc = 0;
    uint64_t i;
    raddr_t d;
    void *mem;

    for (i = 0; i < NEW_MESSAGES && rc == 0; i++) {
        mem = (d = rmalloc(ch, 300)) != ADDR_NULL ? rmem(ch, d) : NULL;
        rc = mem != NULL ? 0 : -errno;
        if (rc == 0) {
            pattern_fill(mem, 300, i);
            rc = rwrite(ch, d);
        }
        CHECK(ch, rc == 0 || (rc == -EPIPE && to_victim));
    }
    CHECK(ch, rclose(ch) == 0);
}

/* R_EOF, and all were there; or how it ended. */
static int read_new(rch_t ch)
{
    uint64_t i;
    size_t size;
    raddr_t d;
    int rc;

    for (i = 0; (rc = rread(ch, &d, &size)) == 0; i++) {
        CHECK(ch, size == 300 && pattern_same(rmem(ch, d), size, i));
        CHECK(ch, rfree(ch, d) == 0);
    }
    CHECK(ch, rc != R_EOF || i == NEW_MESSAGES);
    CHECK(ch, rclose(ch) == 0);
    return rc;
}

static void talk_to_bystander(void)
{
    write_new(open_new(BYSTANDER, CTX_NEW, true), false);
    CHECK(NULL, read_new(open_new(BYSTANDER, CTX_NEW + 1, false)) == R_EOF);
}

static void be_bystander(const struct plan *plan)
{
    int rank, rc;

    for (rank = 0; rank < BYSTANDER; rank++) {
        rc = read_new(open_new(rank, CTX_NEW, false));
        CHECK(NULL, rc == R_EOF || (rc == -ECONNRESET && rank == plan->victim));
        if (rc == R_EOF)
            write_new(open_new(rank, CTX_NEW + 1, true), rank == plan->victim);
    }
}

/* ---- a rank ---- */

static void configure_network(const struct scenario_network *n, int rank)
{
    setenv("RPIPE_BTL", n->backend, 1);
    setenv("RPIPE_OFI_ORDER", n->order, 1);
    setenv("RPIPE_EAGER", "256", 1); /* larger payloads are fetched */
    setenv("RPIPE_OFI_PROVIDER", "tcp", 0);
    if (n->hosts != HOSTS_ONE)
        setenv("RPIPE_INTERFACE", "lo", 1);
    if (n->hosts == HOSTS_EACH || (n->hosts == HOSTS_TWO && rank == 1))
        setenv("RPIPE_CONTROL", "tcp", 1);
}

static void configure(const struct plan *plan, int rank)
{
    const bool of_team = plan->s->network != NULL && plan->s->network->team;
    char text[16];

    /* a call of a team that ends by this deadline, and not by its own, fails the test */
    snprintf(text, sizeof(text), "%d", plan->early ? 600 : of_team ? 2 * PATIENCE_MS : 30000);
    setenv("RPIPE_TIMEOUT_MS", text, 1);
    setenv("RPIPE_WAIT", plan->s->wait, 1);
    setenv("RPIPE_ATOMICS", plan->s->atomics, 1);
    if (plan->s->device)
        setenv("TEST_DEVICE", "all", 1);
    if (plan->s->network != NULL)
        configure_network(plan->s->network, rank);
}

/* All have joined, or one never will. */
static void wait_for_all(struct board *board)
{
    int rank;

    for (rank = 0; rank < SCENARIO_RANKS; rank++)
        while (atomic_load(&board->rank[rank].phase) < 1 && atomic_load(&board->killed) == 0)
            backoff_us(50);
}

/* The kernel kills, wherever this process is by then. */
static void kill_after(struct board *board, int64_t ns)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec when = {.it_value = {ns / NS_PER_S, ns % NS_PER_S}};
    timer_t timer;

    CHECK(NULL, timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    atomic_store(&board->killed, clock_now() + ns);
    CHECK(NULL, timer_settime(timer, 0, &when, NULL) == 0);
}

static int play(struct player *p)
{
    int rc = p->rank == BYSTANDER && !p->s->all ? 0 : p->s->play(p);

    rank_returned(p->board, p->rank, rc, p->ends > 0 ? p->end[p->ends - 1] : NULL);
    scene_close_all(p);
    return rc;
}

/* This thread is the only one, soon: one that has been joined is in the kernel's list for a moment more. */
static bool threads_have_ended(void)
{
    int tries = 0;

    while (entries_of("/proc/self/task") > 3 && tries++ < 1000) /* ".", "..", this one */
        backoff_us(1000);
    return entries_of("/proc/self/task") == 3;
}

int scenario_rank(int rank, struct board *board, const void *arguments)
{
    const struct plan *plan = arguments;
    struct player p = {
        .s = plan->s, .rank = rank, .peer = 1 - rank, .victim = plan->victim, .board = board};
    int fds = entries_of("/proc/self/fd"), rc;

    p.timeout_ms = plan->timeout_ms;
    p.again = plan->again;
    configure(plan, rank);
    if (plan->arm != NULL)
        plan->arm(plan, board, rank);
    if (plan->early && plan->kill_ns > 0 && rank == plan->victim)
        kill_after(board, plan->kill_ns);
    rc = rinit(NULL, NULL);
    if (rc != 0 && plan->early) {
        CHECK(NULL, rc == -ETIMEDOUT || rc == -ECONNRESET || rc == -ECONNREFUSED);
        return 0;
    }
    CHECK(NULL, rc == 0);
    rank_reached(board, rank, 1);
    wait_for_all(board);
    if (!plan->early && plan->kill_ns > 0 && rank == plan->victim)
        kill_after(board, plan->kill_ns);
    play(&p);
    rank_reached(board, rank, 2);
    if (plan->early) { /* the others may not have joined at all */
        (void)rexit();
        return 0;
    }
    if (rank == BYSTANDER)
        be_bystander(plan);
    else
        talk_to_bystander();
    rc = rexit();
    atomic_store(&board->rank[rank].left, clock_now());
    CHECK(NULL, rc == 0);
    CHECK(NULL, plan->s->network != NULL || entries_of("/proc/self/fd") == fds);
    CHECK(NULL, count_shared() == 0);
    CHECK(NULL, plan->s->network != NULL || threads_have_ended());
    rank_reached(board, rank, 3);
    return 0;
}
