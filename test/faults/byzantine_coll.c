/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine_coll.c: a member of a team that stores and sends what it likes.
 *
 * Rank 2 is byzantine. In each round it opens a team with ranks 0 and 1, and calls the same operations, while a thread of it changes words of
 * its board: cells that are in use, heads, `done`, what has been started, agreements, messages. With -apart each rank is a host of its own, and
 * rank 2 sends messages with tags and sizes of its own instead, or more than can be kept, and probes. Ranks 0 and 1 get results or codes, before their
 * deadlines; and in another thread of each, with rank 3, a team goes on whose results are right.
 */
#include "test/lib/job.h"

#include "coll/engine/team.h"
#include "rpipe/board/board.h"
#include "test/lib/random.h"

#include <pthread.h>
#include <rcoll.h>
#include <sched.h>

#define RANKS 4
#define BYZANTINE 2
#define SHORT_MS 100
#define DEPTH 8
#define CALLS 12
#define MOST 20000 /* doubles */
#define HONEST_CONTEXT 5
#define FIRST_CONTEXT 100
#define MESSAGES 20000
#define MESSAGE_MOST 2048
#define WORDS 50

static uint64_t seed;
static int rounds = 40;
static bool apart;
static const int with[3] = {0, 1, BYZANTINE}, without[3] = {0, 1, 3};

/* ---- what rank 2 changes ---- */

enum target { CELLS = 1, HEAD = 2, DATA = 4, AGREEMENT = 8, ANYTHING = 16, TARGETS = 32 };

struct noise {
    _Atomic bool ends;
    unsigned targets;
    uint64_t random;
};

/* Values at the edges of what is right, and any. */
static uint64_t edge_value(uint64_t *random, uint64_t right, uint64_t bytes)
{
    const uint64_t heap = board_heap_at(DEPTH);
    const uint64_t values[] = {
        0,          1,        right + 1, right - 1,         right + DEPTH,
        bytes,      heap - 1, bytes - 1, UINT64_MAX,        UINT64_MAX - 4096,
        1ULL << 63, heap,     right ^ 4, bytes - CELL_BYTES};

    if (random_draw(random) % 4 == 0)
        return random_draw(random);
    return values[random_draw(random) % (sizeof(values) / sizeof(*values))];
}

static void change_cell(struct noise *n, char *mem, uint64_t bytes)
{
    struct cell *cells = (struct cell *)(void *)(mem + sizeof(struct head));
    struct cell *cell = &cells[random_draw(&n->random) % cell_count(DEPTH)];

    for (int i = 0; i < 64 && atomic_load(&cell->number) == 0; i++)
        cell = &cells[random_draw(&n->random) % (DEPTH * 6)];
    switch (random_draw(&n->random) % 5) {
    case 0:
        cell->message.at = edge_value(&n->random, cell->message.at, bytes);
        break;
    case 1:
        atomic_store(&cell->message.ready,
                     edge_value(&n->random, atomic_load(&cell->message.ready), bytes));
        break;
    case 2:
        if (random_draw(&n->random) % 16 == 0)
            cell->check ^= 1U << random_draw(&n->random) % 32;
        break;
    case 3:
        if (random_draw(&n->random) % 16 == 0)
            atomic_store(&cell->number, edge_value(&n->random, atomic_load(&cell->number), bytes));
        break;
    default:
        cell->data[random_draw(&n->random) % CELL_BYTES] = (unsigned char)random_draw(&n->random);
    }
}

static void change_head(struct noise *n, char *mem, uint64_t bytes)
{
    struct head *head = (struct head *)(void *)mem;
    uint64_t *words = (uint64_t *)(void *)mem;

    switch (random_draw(&n->random) % 4) {
    case 0:
        words[random_draw(&n->random) % (sizeof(*head) / 8)] = random_draw(&n->random);
        break;
    case 1:
        atomic_store(
            &head->started[random_draw(&n->random) % HEAD_STARTED],
            head_started(random_draw(&n->random) % (4 * DEPTH), (uint32_t)random_draw(&n->random)));
        break;
    default:
        atomic_store(&head->done, edge_value(&n->random, atomic_load(&head->done), bytes));
    }
}

static void change_once(struct noise *n, char *mem, uint64_t bytes)
{
    const uint64_t agreement = bytes - BOARD_PAGE, heap = board_heap_at(DEPTH);
    const unsigned target = n->targets & (1U << random_draw(&n->random) % 5);

    if (target == CELLS)
        change_cell(n, mem, bytes);
    else if (target == HEAD && random_draw(&n->random) % 64 == 0)
        change_head(n, mem, bytes);
    else if (target == DATA)
        mem[heap + random_draw(&n->random) % (agreement - heap)] ^= 0x40;
    else if (target == AGREEMENT)
        ((uint64_t *)(void *)(mem + agreement))[random_draw(&n->random) % 16] =
            random_draw(&n->random) % 3 == 0 ? random_draw(&n->random)
                                             : random_draw(&n->random) % 4;
    else if (target == ANYTHING && random_draw(&n->random) % 16 == 0)
        mem[random_draw(&n->random) % bytes] = (char)random_draw(&n->random);
}

static void *change_board(void *argument)
{
    struct noise *n = argument;

    while (!atomic_load(&n->ends)) {
        pthread_mutex_lock(&boards_lock);
        if (!list_empty(&boards_all)) {
            struct rboard *b = container_of(boards_all.next, struct rboard, link);

            for (int i = 0; i < 50; i++)
                change_once(n, atomic_load(&b->mem), b->member[b->me].bytes);
        }
        pthread_mutex_unlock(&boards_lock);
        sched_yield();
    }
    return NULL;
}

/* ---- what rank 2 sends ---- */

/* The first members of a `struct edge` of the engine. */
struct edge_ends {
    rch_t out, in;
};

static void send_nonsense(rteam_t t, uint64_t *random, bool flood)
{
    static char body[MESSAGE_MOST];

    for (int i = 0; i < 2 * MESSAGES; i++) {
        const struct edge_ends *ends = (const void *)t->edges[i % 2];
        uint64_t number = t->number + (flood ? 1 : random_draw(random) % (DEPTH + 3)), tag;
        size_t bytes = random_draw(random) % (flood ? 64 : MESSAGE_MOST);
        uint32_t check = (t->history + t->barrier->check) * UINT32_C(0x9e3779b1);
        raddr_t d = ADDR_NULL;

        if (ends == NULL || ends->out == NULL || (!flood && i > 400))
            continue;
        check = random_draw(random) % 8 == 0 ? (uint32_t)random_draw(random) : check;
        tag = flood ? (uint64_t)i : random_draw(random) % 70;
        tag = number << 40 | tag << 24 | (check & 0xffffff);
        if (!flood && random_draw(random) % 8 == 0)
            tag = random_draw(random);
        if (rmalloc_nb(ends->out, bytes, &d) != 0)
            continue;
        memcpy(rmem(ends->out, d), body, bytes);
        (void)rset_tag(ends->out, d, tag);
        while (rwrite_nb(ends->out, d) == R_PENDING)
            sched_yield();
    }
}

/* Probes of operations that have begun, will, or never do, most of them right. */
static void post_nonsense(rteam_t t, uint64_t *random)
{
    for (int i = 0; i < WORDS; i++) {
        uint64_t number = t->number + random_draw(random) % (DEPTH + 3);
        uint32_t check = (t->history + t->barrier->check) * UINT32_C(0x9e3779b1);
        uint64_t word = number << 16 | (check & HEAD_CHECK);

        if (random_draw(random) % 64 == 0)
            word = random_draw(random) % 2 == 0 ? random_draw(random) : word ^ 1;
        (void)rboard_post(t->board, i % 2, word);
    }
}

/* ---- operations ---- */

static double from[MOST], into[MOST];

/* Operation i of a round: the same at all members. */
static int operate(rteam_t t, uint64_t *random)
{
    static const rcoll_kind_t kinds[] = {RCOLL_BARRIER,   RCOLL_BCAST,  RCOLL_ALLREDUCE, RCOLL_SCAN,
                                         RCOLL_ALLGATHER, RCOLL_REDUCE, RCOLL_ALLTOALL};
    static const size_t counts[] = {1, 6, 500, 6000};
    const size_t block[3] = {300, 300, 300};
    rcoll_params_t p = {.kind = kinds[random_draw(random) % 7], .from = from, .into = into};

    p.count = counts[random_draw(random) % 4];
    p.root = p.kind == RCOLL_BCAST || p.kind == RCOLL_REDUCE ? (int)(random_draw(random) % 3) : 0;
    if (p.kind == RCOLL_BCAST)
        p.into = from;
    if (p.kind == RCOLL_ALLREDUCE || p.kind == RCOLL_SCAN || p.kind == RCOLL_REDUCE)
        p.type = RGROUP_DOUBLE;
    else
        p.element = p.kind == RCOLL_BARRIER ? 0 : sizeof(double);
    if (p.kind == RCOLL_ALLTOALL) {
        p.count = 0;
        p.counts = p.counts_in = block;
    }
    return rcoll_run(t, &p);
}

static void expect_code(const char *call, int rc)
{
    EXPECT(rc > -4096, "%s gave %d", call, rc);
    EXPECT(rc >= 0 || rerror(NULL)[0] != '\0', "%s gave %d without a message", call, rc);
}

static rteam_t open_team(int round)
{
    rcoll_team_config_t cfg = {.context = (uint64_t)(FIRST_CONTEXT + round),
                               .heap_bytes = 65536,
                               .depth = DEPTH,
                               .timeout_ms = SHORT_MS};
    rteam_t t = NULL;

    expect_code("rcoll_team", rcoll_team(&t, &cfg, with, 3));
    return t;
}

/* Whatever comes of it, each call ends, and leaves this process whole. */
static int play_round(int round)
{
    uint64_t random = seed + (uint64_t)round, flags = 3;
    rteam_t t = open_team(round), living = NULL;
    int rc = 0, dead[3], over = 0;

    if (t == NULL)
        return 0;
    for (int i = 0; i < CALLS && rc == 0; i++) {
        rc = operate(t, &random);
        expect_code("rcoll_run", rc);
        over += rc == 0;
    }
    expect_code("rcoll_agree", rcoll_agree(t, &flags, dead, 3));
    expect_code("rcoll_shrink", rcoll_shrink(&living, t));
    if (living != NULL)
        expect_code("rcoll_close", rcoll_close(living));
    expect_code("rcoll_close", rcoll_close(t));
    return over;
}

static void play_byzantine(int round)
{
    uint64_t random = seed ^ (uint64_t)(round + 1) * 0x9e3779b97f4a7c15;
    struct noise n = {.targets = 1 + (unsigned)(random_draw(&random) % (TARGETS - 1)),
                      .random = random};
    pthread_t thread;
    bool early = random_draw(&random) % 4 == 0;
    rteam_t t;

    if (early)
        CHECK(NULL, pthread_create(&thread, NULL, change_board, &n) == 0);
    t = open_team(round);
    if (!early)
        CHECK(NULL, pthread_create(&thread, NULL, change_board, &n) == 0);
    if (t != NULL && apart && round % 2 == 0)
        post_nonsense(t, &random);
    if (t != NULL && apart && round % 3 != 0)
        send_nonsense(t, &random, round % 3 == 2);
    if (t != NULL) {
        uint64_t same = seed + (uint64_t)round, flags = 3;
        rteam_t living = NULL;
        int rc = 0;

        for (int i = 0; i < CALLS && rc == 0; i++)
            rc = operate(t, &same);
        (void)rcoll_agree(t, &flags, NULL, 0);
        (void)rcoll_shrink(&living, t);
        if (living != NULL)
            (void)rcoll_close(living);
    }
    atomic_store(&n.ends, true);
    pthread_join(thread, NULL);
    if (t != NULL)
        (void)rcoll_close(t);
}

/* ---- the honest team ---- */

static rteam_t honest;
static _Atomic int64_t honest_ends;

/* Until all three have set honest_ends. */
static void *go_on(void *unused)
{
    int64_t mine[40], all[40], number = 0;

    for (;; number++) {
        for (int i = 0; i < 40; i++)
            mine[i] = number + i;
        CHECK(NULL, rcoll_allreduce(honest, mine, all, 40, RGROUP_INT64, RGROUP_SUM) == 0);
        for (int i = 0; i < 40; i++)
            CHECK(NULL, all[i] == 3 * (number + i));
        mine[0] = atomic_load(&honest_ends);
        CHECK(NULL, rcoll_allreduce(honest, mine, all, 1, RGROUP_INT64, RGROUP_MIN) == 0);
        if (all[0] != 0)
            break;
        backoff_us(200);
    }
    EXPECT(number > 0, "%lld rounds of the honest team", (long long)number);
    return unused;
}

static void play_honest(int rank)
{
    rcoll_team_config_t cfg = {.context = HONEST_CONTEXT, .timeout_ms = PATIENCE_MS / 2};
    pthread_t thread;
    int over = 0;

    CHECK(NULL, rcoll_team(&honest, &cfg, without, 3) == 0);
    CHECK(NULL, pthread_create(&thread, NULL, go_on, NULL) == 0);
    for (int i = 0; i < rounds && rank != 3; i++)
        over += play_round(i);
    atomic_store(&honest_ends, 1);
    pthread_join(thread, NULL);
    CHECK(NULL, rcoll_close(honest) == 0);
    if (rank == 0)
        printf("%d of %d operations were over at rank 0\n", over, rounds * CALLS);
}

/* ---- the job ---- */

static int any_rank(int rank, struct board *board, const void *unused)
{
    (void)board;
    (void)unused;
    setenv("RPIPE_LOG", "error", 1);
    if (apart)
        setenv("RPIPE_CONTROL", "tcp", 1);
    CHECK(NULL, rinit(NULL, NULL) == 0);
    if (rank != BYZANTINE)
        play_honest(rank);
    else
        for (int i = 0; i < rounds; i++)
            play_byzantine(i);
    CHECK(NULL, rexit() == 0);
    return atomic_load(&check_failures) == 0 ? 0 : 1;
}

static void run_job(void)
{
    struct job job;

    job_prepare(&job, RANKS);
    job_start(&job, any_rank, NULL);
    for (int rank = 0; rank < RANKS; rank++) {
        job_ended(&job, rank);
        EXPECT(job_status_is(&job, rank, 0), "%s: rank %d ended with status 0x%x",
               apart ? "apart" : "one host", rank, job.status[rank]);
    }
    job_finish(&job);
}

int main(int argc, char **argv)
{
    seed = seed_of(argc, argv);
    if (argc > 1)
        rounds = atoi(argv[1]);
    run_job();
    apart = getenv("RPIPE_MODULE_PATH") != NULL; /* pipes between hosts are of a module */
    if (!apart)
        return check_failures == 0 ? 0 : 1;
    rounds = rounds / 3 + 1;
    run_job();
    return check_failures == 0 ? 0 : 1;
}
