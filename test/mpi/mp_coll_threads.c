/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads and teams: several threads on one team, which start in an order of their own and wait at the same time; a team for each thread; and a
 * team whose operations end while the program does something else (RCOLL_ASYNC). -apart: each rank is a host of its own. -left: rexit while
 * another thread of the program is in rcoll_wait, and nothing else.
 */
#include "test/lib/mp_check.h"

#include <poll.h>
#include <pthread.h>
#include <rcoll.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 3
#define TURNS 150 /* of each thread */
#define MOST 3000
#define PATIENCE_MS 60000

static bool apart;

/* What member m contributes as operation `number`: element i is m + number + i. */
static void fill(int64_t *values, size_t count, int member, int64_t number)
{
    for (size_t i = 0; i < count; i++)
        values[i] = member + number + (int64_t)i;
}

static void check_sums(const int64_t *sums, size_t count, int n, int64_t number)
{
    for (size_t i = 0; i < count; i++)
        CHECK(NULL, sums[i] == n * (number + (int64_t)i) + n * (n - 1) / 2);
}

static rplan_t sum_of(rteam_t team, const int64_t *from, int64_t *into, size_t count)
{
    rcoll_params_t p = rcoll_params_of(RCOLL_ALLREDUCE, from, into, count);
    rplan_t plan = NULL;

    p.type = RGROUP_INT64;
    CHECK_OK(NULL, rcoll_plan(&plan, team, &p));
    return plan;
}

/* ---- several threads on one team ---- */

struct sharer {
    rteam_t team;
    int index;
    pthread_t thread;
};

/* All members start in one order: the turn goes from thread to thread. */
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_over = PTHREAD_COND_INITIALIZER;
static int turn;

static void start_in_turn(rplan_t plan, int number)
{
    pthread_mutex_lock(&turn_lock);
    while (turn != number)
        pthread_cond_wait(&turn_over, &turn_lock);
    CHECK_OK(NULL, rcoll_start(plan));
    turn++;
    pthread_cond_broadcast(&turn_over);
    pthread_mutex_unlock(&turn_lock);
}

static void wait_for(rplan_t *plan, int number)
{
    rplan_t none[2] = {NULL, *plan};
    int which = -1;

    switch (number % 3) {
    case 0:
        CHECK_OK(NULL, rcoll_wait(*plan));
        break;
    case 1:
        if (rcoll_wait_any(none, 2, &which, R_FOREVER) != -ENOENT) /* another thread has ended it */
            CHECK(NULL, which == 1);
        CHECK_OK(NULL, rcoll_test(*plan));
        break;
    default:
        while (rcoll_test(*plan) == R_PENDING)
            sched_yield();
    }
}

static void *share(void *of)
{
    static const size_t counts[] = {1, 5, 700, MOST};
    const struct sharer *s = of;
    int n = rcoll_size(s->team), me = rcoll_rank(s->team);
    static int64_t from[THREADS][MOST], into[THREADS][MOST];

    for (int i = 0; i < TURNS; i++) {
        const int number = i * THREADS + s->index;
        const size_t count = counts[number % 4];
        rplan_t plan = sum_of(s->team, from[s->index], into[s->index], count);

        fill(from[s->index], count, me, number);
        start_in_turn(plan, number);
        wait_for(&plan, number);
        check_sums(into[s->index], count, n, number);
        CHECK_OK(NULL, rcoll_free(plan));
    }
    return NULL;
}

static void threads_share_a_team(uint32_t flags)
{
    rcoll_team_config_t cfg = {.flags = flags, .mem_bytes = 65536};
    struct sharer s[THREADS];
    rteam_t team;

    CHECK_OK(NULL, rcoll_team(&team, &cfg, NULL, mp_ranks));
    turn = 0;
    for (int i = 0; i < THREADS; i++) {
        s[i] = (struct sharer){.team = team, .index = i};
        CHECK(NULL, pthread_create(&s[i].thread, NULL, share, &s[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(s[i].thread, NULL);
    CHECK_OK(NULL, rcoll_barrier(team));
    CHECK_OK(NULL, rcoll_close(team));
}

/* ---- a team for each thread ---- */

static void *own_team(void *of)
{
    rcoll_team_config_t cfg = {.context = 50 + (uint64_t)((struct sharer *)of)->index};
    int64_t from[40], into[40];
    rteam_t team;

    CHECK_OK(NULL, rcoll_team(&team, &cfg, NULL, mp_ranks));
    for (int i = 0; i < 2 * TURNS; i++) {
        fill(from, 40, mp_rank, i);
        CHECK_OK(NULL, rcoll_allreduce(team, from, into, 40, RGROUP_INT64, RGROUP_SUM));
        check_sums(into, 40, mp_ranks, i);
        CHECK_OK(NULL, rcoll_barrier(team));
    }
    CHECK_OK(NULL, rcoll_close(team));
    return NULL;
}

static void threads_have_teams(void)
{
    struct sharer s[THREADS];

    for (int i = 0; i < THREADS; i++) {
        s[i].index = i;
        CHECK(NULL, pthread_create(&s[i].thread, NULL, own_team, &s[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(s[i].thread, NULL);
}

/* ---- operations that end without a call ---- */

static int readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, ms);
}

/* The last member starts when all others have started: so none of them has ended in its start. */
static void ends_without_calls(rteam_t team, const char *algorithm, size_t count, int64_t number)
{
    static int64_t from[MOST], into[MOST];
    rcoll_params_t p = rcoll_params_of(RCOLL_ALLREDUCE, from, into, count);
    bool last = mp_rank == mp_ranks - 1;
    rplan_t plan;
    int fd;

    p.type = RGROUP_INT64;
    p.algorithm = algorithm;
    fill(from, count, mp_rank, number);
    CHECK_OK(NULL, rcoll_plan(&plan, team, &p));
    fd = rcoll_fd(team);
    CHECK(NULL, fd >= 0 && fd == rcoll_fd(team));
    if (!last)
        CHECK_OK(NULL, rcoll_start(plan));
    CHECK_RC(last ? R_SUCCESS : R_PENDING, NULL, rcoll_test(plan)); /* drains the descriptor */
    CHECK_OK(NULL, network_barrier());
    if (last)
        CHECK_OK(NULL, rcoll_start(plan));
    CHECK(NULL, readable(fd, PATIENCE_MS) == 1);
    CHECK_OK(NULL, rcoll_test(plan));
    CHECK(NULL, readable(fd, 0) == 0);
    check_sums(into, count, mp_ranks, number);
    CHECK_OK(NULL, rcoll_free(plan));
}

/* The lock of the team may have been held by its thread at the fork: no call takes it. */
static bool refused(rteam_t team, rplan_t plan, rgraph_t graph)
{
    const void *at;
    rplan_t other;
    size_t bytes;
    int which;

    return rcoll_fd(team) == -ENOTCONN && rcoll_barrier(team) == -ENOTCONN &&
           rcoll_wait_any(&plan, 1, &which, 0) == -ENOTCONN &&
           rcoll_view(plan, 0, &at, &bytes) == -ENOTCONN &&
           rcoll_dealloc(team, &which) == -ENOTCONN &&
           rcoll_graph_plan(&other, graph, NULL, 0, NULL, 0) == -ENOTCONN &&
           rcoll_close(team) == -ENOTCONN;
}

static void a_child_has_no_team(rteam_t team)
{
    rcoll_params_t p = {.kind = RCOLL_ALLREDUCE,
                        .flags = RCOLL_VIEWS,
                        .from = "a number",
                        .count = 1,
                        .type = RGROUP_INT64,
                        .op = RGROUP_SUM};
    int status = 0;
    rgraph_t graph;
    rplan_t plan;
    pid_t child;

    CHECK_OK(NULL, rcoll_plan(&plan, team, &p));
    CHECK_OK(NULL, rcoll_graph(&graph, team, 8));
    child = fork();
    if (child == 0)
        _exit(refused(team, plan, graph) ? 0 : 1);
    CHECK(NULL, child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK_OK(NULL, rcoll_free(plan));
    CHECK_OK(NULL, rcoll_graph_plan(&plan, graph, NULL, 0, NULL, 0));
    CHECK_OK(NULL, rcoll_free(plan));
}

/* Closed with operations in flight, which end first. */
static void closed_while_it_works(void)
{
    rcoll_team_config_t cfg = {.flags = RCOLL_ASYNC};
    static int64_t from[MOST], into[MOST];
    rplan_t plan;
    rteam_t team;

    CHECK_OK(NULL, rcoll_team(&team, &cfg, NULL, mp_ranks));
    fill(from, MOST, mp_rank, 7);
    plan = sum_of(team, from, into, MOST);
    CHECK_OK(NULL, rcoll_start(plan));
    CHECK_OK(NULL, rcoll_close(team));
    check_sums(into, MOST, mp_ranks, 7);
}

static void operations_end_by_themselves(void)
{
    rcoll_team_config_t cfg = {.flags = RCOLL_ASYNC};
    rteam_t team, plain;

    CHECK_OK(NULL, rcoll_team(&plain, NULL, NULL, mp_ranks));
    CHECK_RC(-ENOTSUP, NULL, rcoll_fd(plain));
    CHECK_OK(NULL, rcoll_close(plain));
    CHECK_OK(NULL, rcoll_team(&team, &cfg, NULL, mp_ranks));
    for (int i = 0; i < 20; i++) {
        ends_without_calls(team, "exchange", i % 2 == 0 ? 4 : MOST, i);
        ends_without_calls(team, "ring", MOST, i);
        CHECK_OK(NULL, rcoll_barrier(team));
    }
    a_child_has_no_team(team);
    CHECK_OK(NULL, rcoll_barrier(team));
    CHECK_OK(NULL, rcoll_close(team));
    for (int i = 0; i < 5; i++)
        closed_while_it_works();
    threads_share_a_team(RCOLL_ASYNC);
}

/* ---- rexit while another thread works: of the library, or of the program ---- */

static pthread_t program_thread;
static _Atomic bool works;

/*
 * At rank 0, where another thread than that of rexit executes it, until rexit has begun and for long enough to have unmapped what it reads, the contribution
 * of another member. A bound on how long a mistake has to show, not a synchronization.
 */
static void work_until_rexit(void *into, const void *from, size_t bytes, void *argument)
{
    const volatile int64_t *other = from;
    double begin;

    (void)bytes, (void)argument;
    *(int64_t *)into += *other;
    if (mp_rank != 0 || pthread_equal(pthread_self(), program_thread))
        return;
    works = true;
    while (rinitialized() == 1)
        usleep(100);
    begin = now_ms();
    while (now_ms() - begin < 50)
        (void)*other;
}

/* The operation is over before rexit is, or has ended with it. */
static void *wait_at_work(void *of)
{
    int rc = rcoll_wait(of);

    CHECK(NULL, rc == 0 || rc == -ENOTCONN);
    return NULL;
}

/* Rank 0 starts first, so no other contribution is there in its start; the others have sent theirs when their operation is over. */
static void left_at_work(rteam_t team, pthread_t *waiter)
{
    static int64_t from = 1, into;
    rcoll_params_t p = {.kind = RCOLL_REDUCE,
                        .from = &from,
                        .into = &into,
                        .count = 1,
                        .element = sizeof(from),
                        .function = work_until_rexit};
    rplan_t plan;

    program_thread = pthread_self();
    CHECK_OK(NULL, rcoll_plan(&plan, team, &p));
    if (mp_rank == 0)
        CHECK_OK(NULL, rcoll_start(plan));
    CHECK_OK(NULL, network_barrier());
    if (mp_rank != 0) {
        CHECK_OK(NULL, rcoll_start(plan));
        CHECK_OK(NULL, rcoll_wait(plan));
    }
    if (mp_rank == 0 && waiter != NULL)
        CHECK(NULL, pthread_create(waiter, NULL, wait_at_work, plan) == 0);
    while (mp_rank == 0 && !works)
        usleep(100);
}

static int left_in_wait(void)
{
    static rteam_t team; /* rexit closes it, as above */
    pthread_t waiter;
    int status;

    CHECK_OK(NULL, rcoll_team(&team, NULL, NULL, mp_ranks));
    left_at_work(team, &waiter);
    status = mp_end();
    if (mp_rank == 0)
        pthread_join(waiter, NULL);
    return status;
}

int main(int argc, char **argv)
{
    rcoll_team_config_t cfg = {.flags = RCOLL_ASYNC, .context = 9};
    static rteam_t left; /* static: rexit closes it, and releases nothing of it */

    apart = mp_asked(argc, argv, "-apart");
    if (apart)
        setenv("RPIPE_CONTROL", "tcp", 1);
    mp_begin(argc, argv, 2);
    if (mp_asked(argc, argv, "-left"))
        return left_in_wait();
    threads_share_a_team(RCOLL_THREADS);
    threads_have_teams();
    operations_end_by_themselves();
    CHECK_OK(NULL, rcoll_team(&left, &cfg, NULL, mp_ranks)); /* for rexit, with its thread */
    CHECK_OK(NULL, rcoll_barrier(left));
    left_at_work(left, NULL);
    return mp_end();
}
