/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kill_during_startup.c: a process is killed at a random moment of its first milliseconds: while it joins the job, connects,
 * opens, joins, writes, closes and opens again.
 *
 * Two ranks open the same endless sequence of channels, PUT and GET, in either direction; each carries a few
 * messages and is closed. Whatever the moment, the survivor sees whole messages in their order, then the right end,
 * and leaves the job at once.
 *
 *     kill_during_startup [ROUNDS]
 */
#include "test/lib/job.h"

#include <signal.h>

#define MESSAGES 4
#define CONTEXTS 5

struct plan {
    int victim;
    bool early;   /* also within rinit */
    long kill_us; /* after the fork, or after rinit */
};

static size_t message_bytes(uint64_t i) { return i % 2 == 0 ? 16 : 500 + i * 400; }

static int write_some(rch_t ch, uint64_t k)
{
    uint64_t i;
    raddr_t d;
    void *mem;
    int rc;

    for (i = 0; i < MESSAGES; i++) {
        mem = (d = rmalloc(ch, message_bytes(i))) != ADDR_NULL ? rmem(ch, d) : NULL;
        if (mem == NULL)
            return -errno;
        pattern_fill(mem, message_bytes(i), k * 64 + i);
        rc = rwrite(ch, d);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int read_some(rch_t ch, uint64_t k)
{
    uint64_t i;
    raddr_t d;
    size_t size;
    int rc;

    for (i = 0; (rc = rread(ch, &d, &size)) == 0; i++) {
        CHECK(ch, i < MESSAGES && size == message_bytes(i));
        CHECK(ch, pattern_same(rmem(ch, d), size, k * 64 + i));
        CHECK(ch, rfree(ch, d) == 0);
    }
    CHECK(ch, rc != R_EOF || i == MESSAGES);
    return rc == R_EOF ? 0 : rc;
}

/* The k-th channel; 0, or how it ended. */
static int channel(int rank, uint64_t k)
{
    bool writer = (k >> 1 & 1) == (uint64_t)rank;
    rpipe_config_t cfg = channel_config(k & 1 ? RPIPE_GET : RPIPE_PUT, 1 - rank, writer, 1 << 14);
    rch_t ch;
    int rc;

    cfg.context = (uint32_t)(k % CONTEXTS);
    rc = rpipe(&ch, &cfg);
    if (rc != 0)
        return rc;
    if (k % 3 == 0)
        rc = rwait(ch);
    if (rc == 0)
        rc = writer ? write_some(ch, k) : read_some(ch, k);
    CHECK(ch, rc == 0 || rc == (writer ? -EPIPE : -ECONNRESET));
    CHECK(ch, rclose(ch) == 0);
    return rc;
}

static int either(int rank, struct board *board, const void *arguments)
{
    const struct plan *plan = arguments;
    uint64_t k;
    int rc;

    setenv("RPIPE_TIMEOUT_MS", plan->early ? "600" : "20000", 1);
    rc = rinit(NULL, NULL);
    if (plan->early && (rc == -ETIMEDOUT || rc == -ECONNRESET)) {
        rank_reached(board, rank, 1);
        rank_returned(board, rank, rc, NULL);
        return 0;
    }
    CHECK(NULL, rc == 0);
    rank_reached(board, rank, 1);
    for (k = 0; rc == 0; k++)
        rc = channel(rank, k);
    atomic_store(&board->rank[rank].number, k);
    CHECK(NULL, rc == -EPIPE || rc == -ECONNRESET);
    CHECK(NULL, rexit() == 0);
    rank_returned(board, rank, rc, NULL);
    return 0;
}

static void round_of(const struct plan *plan, struct spread *spread, uint64_t *channels)
{
    int survivor = 1 - plan->victim;
    struct board_rank *at;
    struct job job;

    job_prepare(&job, 2);
    at = &job.board->rank[survivor];
    job_start(&job, either, plan);
    if (plan->early || job_reached(&job, plan->victim, 1)) {
        backoff_us(plan->kill_us);
        job_kill(&job, plan->victim, SIGKILL);
        if (job_ended(&job, survivor)) {
            EXPECT(job_status_is(&job, survivor, 0),
                   "victim %d%s, killed after %ld us: the other ended with status 0x%x",
                   plan->victim, plan->early ? ", from the fork on" : "", plan->kill_us,
                   job.status[survivor]);
            if (!plan->early && atomic_load(&at->returned) != 0)
                spread_add(spread,
                           (double)(atomic_load(&at->returned) - atomic_load(&job.board->killed)) /
                               1e6);
            *channels += atomic_load(&at->number);
        }
    }
    job_finish(&job);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 60, i;
    uint64_t random = seed_of(argc, argv), channels = 0;
    static struct spread spread;
    struct plan plan;

    setenv("RPIPE_LOG", "error", 0);
    for (i = 0; i < rounds; i++) {
        plan.victim = (int)(random_draw(&random) % 2);
        plan.early = i % 8 == 7;
        plan.kill_us = (long)(random_draw(&random) % (plan.early ? 8000 : 4000));
        round_of(&plan, &spread, &channels);
    }
    printf("%llu channels in %d rounds\n", (unsigned long long)channels, rounds);
    spread_print(&spread, "handshake: kill to the end of rexit");
    printf("%s\n", check_failures == 0 ? "no moment was bad" : "FAILED");
    return check_failures == 0 ? 0 : 1;
}
