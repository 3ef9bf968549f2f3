/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resource_failure_pair.c: as resource_failure.c, at one of two ranks: one requests something that is not there, and the other waits for it.
 *
 * Both open a pipe each way, send messages of each kind, which make the heaps grow, and talk over the control network. At one of them a call on
 * the way fails, or all from one on. The call that needed it reports so, in an error message with the limit and the cure; the other's
 * calls end well, or with the error of the first, or with their short deadlines. Neither crashes or hangs; and when there is enough again the two
 * open new pipes to each other, and messages come through.
 *
 *     resource_failure_pair [PLACES | all]     forks the two for each place: from rinit on; in turn rank 1 and rank 0 lack resources
 *     mpirun -n 2 resource_failure_pair ...    one job for all places: from its first pipe on
 *
 * Under a launcher, calls of threads that are not the library's do not fail: those of PMIx are not ours to test.
 */
#include "test/lib/job.h"
#include "failing_calls.h"
#include <rinfo.h>
#include <rpipe.h>

#define SHORT_MS 250 /* the deadline of a call while something is not there */
#define NETWORK_MS                                                                                 \
    1500         /* RPIPE_TIMEOUT_MS of two that are forked: rinit, rexit, the control network */
#define WANTS 1  /* phases: all calls that may fail have returned, */
#define JOINED 2 /* and rinit was good */

static const char *failed_call;
static char error_message[400];
static int own_rank, rounds;

/* Keeps the error of the first call that failed. */
static int note(const char *call, rch_t ch, int rc)
{
    if (rc != 0 && failed_call == NULL) {
        failed_call = call;
        snprintf(error_message, sizeof(error_message), "%s", rerror(ch));
    }
    return rc;
}

/* ---- what both do ---- */

static const size_t sizes[] = {20, 3000, 20000};

static int open_end(rch_t *ch, bool writer, rpipe_op_t op, uint32_t ctx, int ms)
{
    rpipe_config_t cfg = channel_config(op, 1 - own_rank, writer, 4096 + 64 * (uint64_t)rounds);

    cfg.max_heap_bytes = 131072;
    cfg.heuristic = ctx % 2 == 0 ? RMALLOC_NEXT_FIT : RMALLOC_BEST_FIT;
    cfg.mode = ctx % 2 == 0 ? RPIPE_SYNC_BLOCKS : RPIPE_SYNC_TAGS;
    cfg.timeout_ms = ms;
    cfg.context = ctx;
    return note("rpipe", NULL, rpipe(ch, &cfg));
}

static int send_one(rch_t w, size_t size)
{
    raddr_t d;

    errno = 0;
    d = rmalloc(w, size);
    if (d == ADDR_NULL)
        return note("rmalloc", w, errno != 0 ? -errno : -1);
    pattern_fill(rmem(w, d), size, size + (size_t)own_rank);
    return note("rwrite", w, rwrite(w, d));
}

static int receive_one(rch_t r, size_t size)
{
    size_t got = 0;
    raddr_t d;
    int rc = note("rread", r, rread(r, &d, &got));

    if (rc != 0)
        return rc;
    CHECK(r, got == size && pattern_same(rmem(r, d), size, size + (size_t)(1 - own_rank)));
    return note("rfree", r, rfree(r, d));
}

static int exchange(rch_t w, rch_t r)
{
    int rc = 0;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes) && rc == 0; i++)
        rc = send_one(w, sizes[i]);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes) && rc == 0; i++)
        rc = receive_one(r, sizes[i]);
    if (rc == 0) {
        rc = rfd(r);
        rc = note("rfd", r, rc < 0 ? rc : 0);
    }
    return rc;
}

/* A pipe each way; the error of the first call that failed. */
static int pipes(rpipe_op_t op, uint32_t ctx, int ms)
{
    rch_t w = NULL, r = NULL;
    int rc = open_end(&w, true, op, ctx, ms);

    if (rc == 0 && (rc = open_end(&r, false, op, ctx, ms)) == 0)
        rc = exchange(w, r);
    if (r != NULL)
        CHECK(r, rclose(r) == 0);
    if (w != NULL)
        CHECK(w, rclose(w) == 0);
    return rc;
}

static int network(void)
{
    int mine = own_rank, all[2] = {-1, -1}, theirs = -1, rc;

    rc = note("network_send", NULL, network_send(1 - own_rank, &mine, sizeof(mine)));
    if (rc == 0)
        rc = note("network_recv", NULL, network_recv(1 - own_rank, &theirs, sizeof(theirs)));
    if (rc == 0)
        rc = note("network_allgather", NULL, network_allgather(&mine, sizeof(mine), all));
    CHECK(NULL, rc != 0 || (theirs == 1 - own_rank && all[0] == 0 && all[1] == 1));
    return rc;
}

/* ---- what is reported to them ---- */

static void judge(bool limited, struct place p, int rc)
{
    const char *who = limited ? "the rank without resources" : "the other";

    if (getenv("FAULTS_PRINT") != NULL)
        printf("%lld%s %s, %s: %s gave %d (%s): %s\n", (long long)p.from,
               p.to > p.from ? " on" : "", limited ? failing_name() : "-", who,
               rc != 0 ? failed_call : "nothing", rc, rinfo_strerror(rc), error_message);
    if (rc == 0)
        return;
    EXPECT(failing_is_expected(rc) || rc == R_EOF, "place %lld, %s, %s, when %s fails: %d (%s): %s",
           (long long)p.from, who, failed_call, failing_name(), rc, rinfo_strerror(rc),
           error_message);
    EXPECT(strlen(error_message) > 12 && strcmp(error_message, "no error") != 0,
           "place %lld, %s, %s: no error message: %s", (long long)p.from, who, failed_call,
           error_message);
    if (limited && p.from == p.to && (rc == -EMFILE || rc == -ENOSPC || rc == -EAGAIN))
        EXPECT(strstr(error_message, failing_words()) != NULL,
               "place %lld, %s, when %s fails: \"%s\" is not in: %s", (long long)p.from,
               failed_call, failing_name(), failing_words(), error_message);
}

static void must_work(const char *after, int rc)
{
    EXPECT(rc == 0, "rank %d: with enough of everything again, after %s failed: %s: %d (%s): %s",
           own_rank, after, failed_call, rc, rinfo_strerror(rc), error_message);
}

/* ---- forked: from rinit on ---- */

struct trial {
    struct place place;
    int limited; /* rank */
};

static void wait_for(struct board *board, int rank, int phase)
{
    while (atomic_load(&board->rank[rank].phase) <
           phase) /* if that one ends, so does the test, and with it this */
        backoff_us(200);
}

static int forked(int rank, struct board *board, const void *arguments)
{
    const struct trial *t = arguments;
    bool limited = rank == t->limited;
    char ms[16];
    int rc;

    own_rank = rank;
    snprintf(ms, sizeof(ms), "%d", NETWORK_MS);
    setenv("RPIPE_TIMEOUT_MS", ms, 1);
    if (limited)
        failing_arm(t->place);
    rc = note("rinit", NULL, rinit(NULL, NULL));
    board->rank[rank].done = rc == 0;
    if (rc == 0)
        rc = network();
    if (rc == 0)
        rc = pipes(RPIPE_PUT, 0, SHORT_MS);
    if (rc == 0)
        rc = pipes(RPIPE_GET, 1, SHORT_MS);
    if (limited)
        board->rank[rank].number = (uint64_t)failing_disarm();
    judge(limited, t->place, rc);
    rank_reached(board, rank, WANTS);
    wait_for(board, 1 - rank, WANTS);
    if (board->rank[0].done && board->rank[1].done) {
        const char *what = failing_name();

        failed_call = NULL;
        rc = pipes(RPIPE_PUT, 10, PATIENCE_MS / 2);
        must_work(what, rc == 0 ? pipes(RPIPE_GET, 11, PATIENCE_MS / 2) : rc);
    }
    rank_reached(board, rank, JOINED);
    if (board->rank[rank].done) {
        wait_for(board, 1 - rank, JOINED); /* rexit has a short deadline here */
        rc = rexit();
        EXPECT(rc == 0 || rc == -ETIMEDOUT, "rank %d: rexit: %d: %s", rank, rc, rerror(NULL));
    }
    fflush(stdout);
    return check_failures > 0 ? 1 : 0;
}

static int64_t try_place(struct place place, int limited)
{
    const struct trial t = {place, limited};
    struct job job;
    int64_t n;
    int rank;

    job_prepare(&job, 2);
    job_start(&job, forked, &t);
    for (rank = 0; rank < 2; rank++)
        if (job_ended(&job, rank))
            EXPECT(job_status_is(&job, rank, 0), "place %lld of rank %d: status 0x%x of rank %d",
                   (long long)place.from, limited, job.status[rank], rank);
    n = (int64_t)job.board->rank[limited].number;
    job_finish(&job);
    return n;
}

/* The k-th of so many places; every fourth time nothing is there from then on. */
static struct place place_of(int64_t k, int64_t places, int64_t all)
{
    int64_t n = 1 + k * all / places;

    return (struct place){n, k % 4 == 3 ? INT64_MAX : n};
}

static void by_fork(const char *program, int64_t places, bool every)
{
    int64_t all[2] = {0, 0}, k;

    for (int rank = 0; rank < 2; rank++)
        all[rank] = try_place(NO_PLACE, rank);
    if (every)
        places = 2 * (all[0] > all[1] ? all[0] : all[1]);
    printf("%s: %lld calls of rank 0, %lld of rank 1; %lld places\n", program, (long long)all[0],
           (long long)all[1], (long long)places);
    fflush(stdout);
    for (k = 0; k < places && check_failures < 20; k++)
        (void)try_place(place_of(k / 2, (places + 1) / 2, all[1 - k % 2]), 1 - (int)(k % 2));
}

/* ---- launched: one job, from its first pipe on ---- */

static void together(void) { CHECK(NULL, network_barrier() == 0); }

/* One round: place, then whether all works again. How many calls there were. */
static int64_t try_here(struct place place, int limited)
{
    bool fails = own_rank == limited;
    uint32_t ctx = 4 * (uint32_t)rounds++;
    int64_t n = 0;
    int rc;

    failed_call = NULL;
    *error_message = '\0';
    together();
    if (fails)
        failing_arm(place);
    rc = pipes(RPIPE_PUT, ctx, SHORT_MS);
    if (rc == 0)
        rc = pipes(RPIPE_GET, ctx + 1, SHORT_MS);
    if (fails)
        n = failing_disarm();
    judge(fails, place, rc);
    together();
    failed_call = NULL;
    rc = pipes(RPIPE_PUT, ctx + 2, PATIENCE_MS / 2);
    must_work(fails ? failing_name() : "a call of the other rank",
              rc == 0 ? pipes(RPIPE_GET, ctx + 3, PATIENCE_MS / 2) : rc);
    return n;
}

static int launched(const char *program, int64_t places, bool every)
{
    int64_t all[2] = {0, 0}, mine, k;
    int size, fds;

    failing_in_library();
    CHECK(NULL, rinit(&own_rank, &size) == 0);
    CHECK(NULL, size == 2);
    for (int rank = 0; rank < 2; rank++) {
        (void)try_here(NO_PLACE, rank); /* what is done once is done */
        mine = try_here(NO_PLACE, rank);
        if (own_rank == rank)
            all[rank] = mine;
    }
    mine = all[own_rank];
    CHECK(NULL, network_allgather(&mine, sizeof(mine), all) == 0);
    if (every)
        places = 2 * (all[0] > all[1] ? all[0] : all[1]);
    if (own_rank == 0)
        printf("%s: %lld calls of rank 0, %lld of rank 1; %lld places\n", program,
               (long long)all[0], (long long)all[1], (long long)places);
    fds = entries_of("/proc/self/fd");
    for (k = 0; k < places; k++)
        (void)try_here(place_of(k / 2, (places + 1) / 2, all[1 - k % 2]), 1 - (int)(k % 2));
    together();
    printf("rank %d: %d descriptors before, %d after\n", own_rank, fds,
           entries_of("/proc/self/fd"));
    EXPECT(entries_of("/proc/self/fd") <= fds + 4, "rank %d has %d descriptors, and had %d",
           own_rank, entries_of("/proc/self/fd"), fds);
    CHECK(NULL, rexit() == 0);
    return check_failures > 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    const char *how =
        argc > 1 ? argv[1] + (argv[1][0] == '-') : ""; /* test/run-mpi makes it an option */
    bool every = strcmp(how, "all") == 0;
    int64_t places = atoi(how) > 0 ? atoi(how) : 16;

    if (!failing_memory)
        printf("descriptors and threads only: another malloc is in force\n");
    setenv("RPIPE_LOG", "error", 0);
    if (getenv("PMIX_RANK") != NULL)
        return launched(argv[0], places, every);
    by_fork(argv[0], places, every);
    return check_report(argv[0]);
}
