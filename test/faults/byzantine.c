/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine.c: the frame of byzantine.h.
 *
 *     byzantine [SECONDS [SEED]]        default 8 seconds; the seed of each round follows from SEED
 *
 * To be run for minutes under AddressSanitizer and UBSan: make check TESTS=test/faults/byzantine is the short one. With
 * RPIPE_BTL=ofi or verbs it goes over a network, where rounds take long. BYZANTINE_WILD=1: with transfers that
 * the network itself has to refuse, after which libfabric gives the connection up.
 */
#include "byzantine.h"

#include "rpipe/end/config.h"
#include "rpipe/end/rch.h"
#include "util/clock.h"
#include "test/lib/cells.h"

#include <signal.h>
#include <sys/mman.h>

#define ROUND_MS 900
#define NETWORK_ROUND_MS 2500 /* its first channel takes most of a second */
#define MADE_CTX 1000000u     /* of pipes made of pipes: each has some for itself */

static const uint32_t queues[] = {1, 3, 16, 100};
static const uint64_t heaps[] = {4096, 65536, 300000};

uint64_t draw_number(uint64_t *random)
{
    uint64_t x = random_draw(random);

    switch (x & 7) {
    case 0:
    case 1:
        return x >> 8 & 15;
    case 2:
        return (x >> 8) % 5000;
    case 3:
        return UINT64_MAX - (x >> 8 & 127);
    case 4:
        return (UINT64_C(1) << (x >> 8 & 63)) + (x >> 16 & 3) - 1;
    case 5:
        return x >> 8 & 0xffffffff;
    case 6:
        return (x >> 8 & 127) * 64;
    default:
        return random_draw(random);
    }
}

struct plan plan_of(const struct round *round, uint64_t k)
{
    uint64_t random = round->seed ^ k * UINT64_C(0xd1342543de82ef95), x = random_draw(&random);
    rpipe_op_t op = (x & 1) != 0 ? RPIPE_PUT : RPIPE_GET;
    struct plan p = {.victim_writes = (x >> 3 & 1) != 0, .cells = (x & 7) == 7};
    uint64_t heap = heaps[(x >> 4) % 3];

    if (p.cells)
        heap = 64 * sizeof(uint64_t);
    p.cfg = channel_config(op, BYZANTINE, p.victim_writes, heap);
    p.cfg.context = (uint32_t)(k / 3); /* each is opened three times */
    p.cfg.slots = (x >> 8 & 1) != 0 ? 8 : 64;
    p.cfg.timeout_ms = 2;
    if (p.cells)
        return p;
    p.cfg.mode = (rpipe_sync_t)(RPIPE_SYNC_BLOCKS + (x >> 9) % 3);
    if (p.cfg.mode != RPIPE_SYNC_BLOCKS) {
        p.cfg.sync_queue = queues[x >> 12 & 3];
        p.cfg.heuristic = (rmalloc_fit_t)(RMALLOC_NEXT_FIT + (x >> 16) % 6);
    }
    if ((x >> 20 & 3) == 0)
        p.cfg.max_heap_bytes = 8 * heap;
    p.cfg.flags = (x >> 22 & 7) == 0 ? RPIPE_THREADS : 0;
    p.shape = (x >> 26 & 7) < 3 ? (enum shape)(REDUX + (x >> 26 & 7)) : PLAIN;
    if (p.shape == PLAIN)
        return p;
    p.cfg.context = MADE_CTX + SHAPE_ENDS * (uint32_t)k;
    p.victim_writes = p.shape == SCATTER;
    return p;
}

int plan_ends(const struct plan *plan)
{
    return plan->shape == PLAIN ? 1 : plan->shape == DUPLEX ? 2 : SHAPE_ENDS;
}

rpipe_config_t plan_mirror(const struct plan *plan, int i)
{
    rpipe_config_t cfg = plan->cfg;
    bool writes = plan->shape == DUPLEX ? i == 0 : !plan->victim_writes;

    cfg.peer = VICTIM;
    cfg.role = writes ? RPIPE_WRITER : RPIPE_READER;
    cfg.flags = 0;
    if (plan->shape == REDUX || plan->shape == SCATTER)
        cfg.context += (uint32_t)i;
    return cfg;
}

/* ---- the byzantine rank ---- */

/* What keeps the victim busy, so that there is something to disturb. */
static void behave(rch_t ch, uint64_t *random)
{
    uint64_t old;
    raddr_t d;

    if (ch->cells != NULL) {
        (void)rcells_atomic(cells_at(ch), RCELLS_ADD, random_draw(random) % 64, 1, 0,
                            random_draw(random) % 2 == 0 ? &old : NULL);
    } else if (config_side(&ch->cfg) == SIDE_WRITER) {
        if (rmalloc_nb(ch, random_draw(random) % 300, &d) == 0 && rwrite_nb(ch, d) != 0)
            (void)rfree(ch, d);
    } else if (rread_nb(ch, &d, NULL) == 0) {
        (void)rfree(ch, d);
    }
}

/*
 * With some channels it only stores, with others it sends messages too; and how often it does as it should is another each time: the first
 * violation that can be detected ends the channel.
 */
static void attack(rch_t ch, const struct round *round, bool sends, unsigned good, uint64_t *random)
{
    uint64_t x = random_draw(random);

    if ((x >> 50 & 15) == 0)
        byzantine_am_attack(random);
    if ((x >> 40 & 63) < good)
        behave(ch, random);
    else if (ch->remote != NULL && (x >> 60 & 3) == 0)
        remote_attack(ch, round->wild, random);
    else if ((x & 15) < 10 || !sends)
        memory_attack(ch, random);
    else if ((x & 15) < 15 || (x >> 8 & 31) != 0)
        message_attack(ch, random);
    else
        message_flood(ch, random);
    if ((x >> 16 & 7) == 0)
        backoff_us(20);
}

/* The k-th, as many ends as it has. */
static void attack_all(struct board *board, const struct round *round, uint64_t k, uint64_t *random)
{
    struct plan p = plan_of(round, k);
    rch_t ch[SHAPE_ENDS];
    unsigned good = 63 & (unsigned)random_draw(random);
    bool sends = random_draw(random) % 2 == 0;
    int n = 0, i, joined = 0;

    for (i = 0; i < plan_ends(&p); i++) {
        rpipe_config_t cfg = plan_mirror(&p, i);

        n +=
            (p.cells ? cells_open(&ch[n], &cfg, !p.victim_writes, NULL) : rpipe(&ch[n], &cfg)) == 0;
    }
    for (i = 0; i < n; i++) {
        if (sends && random_draw(random) % 4 == 0)
            message_attack(ch[i], random);
        (void)rset_timeout(ch[i], 50);
        joined += rwait(ch[i]) == 0;
    }
    while (n > 0 && joined == n && atomic_load(&board->rank[VICTIM].number) == k &&
           atomic_load(&board->go) == GO_ON)
        attack(ch[random_draw(random) % (uint64_t)n], round, sends, good, random);
    for (i = 0; i < n; i++) {
        (void)(p.cells ? rcells_close(cells_at(ch[i])) : rclose(ch[i]));
        if (sends && random_draw(random) % 4 == 0)
            message_attack(ch[i], random);
    }
}

int byzantine_main(struct board *board, const struct round *round)
{
    uint64_t random = round->seed, k = UINT64_MAX;

    setenv("RPIPE_LOG", "error", 1);
    setenv("RPIPE_TIMEOUT_MS", "2000", 1);
    unsetenv("RMALLOC_DEBUG");
    CHECK(NULL, rinit(NULL, NULL) == 0);
    if (freopen("/dev/null", "w", stderr) == NULL)
        return 99;
    rank_reached(board, BYZANTINE, 1);
    wire_impostor(&random);
    byzantine_am_open();
    while (atomic_load(&board->go) == GO_ON) {
        if (atomic_load(&board->rank[VICTIM].number) == k) {
            byzantine_am_attack(&random);
            backoff_us(50);
            continue;
        }
        k = atomic_load(&board->rank[VICTIM].number);
        attack_all(board, round, k, &random);
    }
    if (round->breach)
        wire_breach(&random);
    if (round->network) {
        rank_wait_go(board, GO_LEAVE);
        (void)rexit();
    }
    _exit(0);
}

/* ---- the rounds ---- */

static int rank_main(int rank, struct board *board, const void *arguments)
{
    if (rank == VICTIM)
        return victim_main(board, arguments);
    return rank == BYZANTINE ? byzantine_main(board, arguments) : friend_main(board, arguments);
}

/* The end of what the victim has printed on standard error. */
static void show_log(int log)
{
    char text[6000];
    off_t end = lseek(log, 0, SEEK_END);
    ssize_t n =
        pread(log, text, sizeof(text), end > (off_t)sizeof(text) ? end - (off_t)sizeof(text) : 0);

    printf("---- the victim's standard error, %lld bytes, ends so:\n%.*s\n----\n", (long long)end,
           n > 0 ? (int)n : 0, text);
}

struct sums {
    uint64_t channels, joined, refused, read, good, served, ended;
};

/* Something of everything has been. */
static bool has_begun(const struct job *job)
{
    return atomic_load(&job->board->rank[HONEST].done) > 0 &&
           atomic_load(&job->board->rank[VICTIM].number) > 2;
}

static void run_round(const struct round *round, struct sums *sums)
{
    uint64_t random = round->seed;
    struct job job;
    int before = check_failures;

    job_prepare(&job, RANKS);
    job_start(&job, rank_main, round);
    if (job_reached(&job, VICTIM, 1) && job_reached(&job, HONEST, 1)) {
        int64_t until = deadline_in_ms(round->network ? NETWORK_ROUND_MS : ROUND_MS);
        int64_t patience = deadline_in_ms(PATIENCE_MS);

        while ((!deadline_passed(until) || (!has_begun(&job) && !deadline_passed(patience))) &&
               kill(job.pid[VICTIM], 0) == 0)
            backoff_us(1000);
        if (random_draw(&random) % 4 == 0 && !round->network)
            job_kill(&job, BYZANTINE, SIGKILL);
        atomic_store(&job.board->go, GO_STOP);
        if (!round->network)
            (void)job_ended(&job, BYZANTINE); /* in whatever way */
        atomic_store(&job.board->go, GO_LEAVE);
    }
    EXPECT(job_ended(&job, VICTIM) && job_status_is(&job, VICTIM, 0), "the victim: status 0x%x",
           job.status[VICTIM]);
    EXPECT(job_ended(&job, HONEST) && job_status_is(&job, HONEST, 0), "the friend: status 0x%x",
           job.status[HONEST]);
    EXPECT(atomic_load(&job.board->rank[VICTIM].done) > 0, "the good pipe has carried nothing");
    EXPECT(atomic_load(&job.board->rank[HONEST].done) > 0,
           "the friend's requests have not been answered");
    if (check_failures > before)
        show_log(round->log);
    if (check_failures > before)
        printf("in the round with seed %llu%s%s\n", (unsigned long long)round->seed,
               round->checked ? ", checked" : "", round->breach ? ", with a breach" : "");
    sums->channels += atomic_load(&job.board->rank[VICTIM].number);
    sums->joined += atomic_load(BOARD_JOINED(job.board));
    sums->refused += atomic_load(BOARD_REFUSED(job.board));
    sums->read += atomic_load(BOARD_READ(job.board));
    sums->good += atomic_load(&job.board->rank[VICTIM].done);
    sums->served += atomic_load(&job.board->rank[HONEST].done);
    sums->ended += atomic_load(BOARD_ENDED(job.board));
    job_finish(&job);
}

int main(int argc, char **argv)
{
    int seconds = argc > 1 ? atoi(argv[1]) : 8, rounds = 0;
    const char *btl = getenv("RPIPE_BTL");
    bool network = btl != NULL && strcmp(btl, "shm") != 0;
    struct sums sums = {0};
    uint64_t random;
    int64_t until;

    if (argc > 2)
        setenv("FAULTS_SEED", argv[2], 1);
    random = seed_of(argc, argv);
    until = deadline_in_ms(seconds * 1000);
    do {
        struct round r = {.seed = random_draw(&random),
                          .log = memfd_create("byzantine", MFD_CLOEXEC)};

        r.network = network;
        r.wild = network && getenv("BYZANTINE_WILD") != NULL && random_draw(&random) % 2 == 0;
        r.checked = random_draw(&random) % 4 == 0;
        r.breach = random_draw(&random) % 2 == 0;
        run_round(&r, &sums);
        close(r.log);
        rounds++;
    } while (!deadline_passed(until) && check_failures == 0);
    printf(
        "%d rounds: %llu channels to the byzantine rank, %llu joined; %llu messages of its, %llu "
        "times -EPROTO; "
        "%llu messages beside them; %llu links of active messages ended, %llu requests beside "
        "them\n",
        rounds, (unsigned long long)sums.channels, (unsigned long long)sums.joined,
        (unsigned long long)sums.read, (unsigned long long)sums.refused,
        (unsigned long long)sums.good, (unsigned long long)sums.ended,
        (unsigned long long)sums.served);
    return check_report(argv[0]);
}
