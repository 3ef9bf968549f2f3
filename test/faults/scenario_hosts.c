/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenario_hosts.c: a team of all three ranks on two or three hosts: operations by pipes and by casts, messages that come before their
 * operation, a broadcast of more than a pipe holds, probes, an agreement, a smaller team: see scenario.h.
 *
 * At each member that lives an operation that a death ends has -ECONNRESET, and a message with the rank and the operation. Then all agree on
 * whether it was over at all of them, and open a team of those that live. While a member is stopped, the messages of deadlines name a
 * rank; stop_job.c waits until one names the one that is stopped.
 */
#include "scenario_ends.h"

#include <rcoll.h>

#define HEAP_BYTES 65536 /* of the team: an operation of more is several parts */
#define COUNT 12000      /* doubles */
#define EARLY 3
#define EARLY_BYTES 40000 /* two of them are more than what is kept in a pipe */
#define LONGEST 400000    /* bytes: more than a pipe holds */
#define LATE_MS 1250      /* longer than a member waits before it asks */
#define PROBE_MS 1500     /* a deadline after the first probe */
#define SHRINK_MS 250     /* in which a team opens, mostly */

/* On three hosts the bystander is the member for which the others wait; on two of them rank 0, which may die, is the leader of both that share one. */
static const int *ranks_of(const struct player *p)
{
    static const int on_three[SCENARIO_RANKS] = {BYSTANDER, 0, 1},
                     on_two[SCENARIO_RANKS] = {0, BYSTANDER, 1};

    return p->s->network->hosts == HOSTS_TWO ? on_two : on_three;
}

static int member_of(const struct player *p, int rank)
{
    int member = 0;

    while (ranks_of(p)[member] != rank && member < SCENARIO_RANKS - 1)
        member++;
    return member;
}

static struct board_rank *mine(const struct player *p) { return &p->board->rank[p->rank]; }

/* ---- how calls end ---- */

static bool message_names(int rank)
{
    char text[16];

    snprintf(text, sizeof(text), "rank %d,", rank);
    return strstr(rerror(NULL), text) != NULL;
}

/* As scene_once_more. */
static bool hosts_once_more(struct player *p, int rc)
{
    if (rc == -ETIMEDOUT && p->again && message_names(p->victim))
        atomic_fetch_add(&mine(p)->named, 1);
    return scene_once_more(p, rc);
}

/* rc, which is 0 or the death of the victim, at all that live. */
static int check_end_of(const struct player *p, rteam_t team, int rc)
{
    int member = -1;

    if (rc == 0)
        return 0;
    CHECK(NULL, rc == -ECONNRESET);
    CHECK(NULL, message_names(p->victim));
    CHECK_ERROR(NULL, "operation ");
    CHECK(NULL, rcoll_lost(team, &member) == -ECONNRESET && member == member_of(p, p->victim));
    return rc;
}

/* ---- operations ---- */

/* A plan that the death of a member keeps from being made, too, names it; the operation is none yet. */
static int hosts_start(struct player *p, rteam_t team, const rcoll_params_t *params, rplan_t *plan)
{
    int rc = rcoll_plan(plan, team, params);

    if (rc != 0) {
        *plan = NULL;
        CHECK(NULL, rc == -ECONNRESET);
        CHECK_ERROR(NULL, "rank ");
        return rc;
    }
    return check_end_of(p, team, rcoll_start(*plan));
}

static int hosts_finish(struct player *p, rteam_t team, rplan_t plan)
{
    int rc;

    do {
        rc = rcoll_wait(plan);
        CHECK(NULL, rc != -ETIMEDOUT || strstr(rerror(NULL), ", has not ") != NULL);
    } while (hosts_once_more(p, rc));
    return check_end_of(p, team, rc);
}

static int hosts_run(struct player *p, rteam_t team, const rcoll_params_t *params)
{
    rplan_t plan;
    int rc = hosts_start(p, team, params, &plan);

    if (rc == 0)
        rc = hosts_finish(p, team, plan);
    if (plan != NULL)
        CHECK(NULL, rcoll_free(plan) == 0);
    return rc;
}

static int hosts_barrier(struct player *p, rteam_t team)
{
    return hosts_run(p, team, &(rcoll_params_t){.kind = RCOLL_BARRIER});
}

/* Rank r contributes (r + 1) i; the sum is that of the members that there are. */
static int hosts_add(struct player *p, rteam_t team, size_t count)
{
    static double own[COUNT], sum[COUNT];
    rcoll_params_t params = rcoll_params_of(RCOLL_ALLREDUCE, own, sum, count);
    double factor = 0;
    int rc;

    params.type = RGROUP_DOUBLE;
    params.op = RGROUP_SUM;
    for (int m = 0; m < rcoll_size(team); m++)
        factor += rcoll_peer(team, m) + 1;
    for (size_t i = 0; i < count; i++)
        own[i] = (p->rank + 1) * (double)i;
    rc = hosts_run(p, team, &params);
    for (size_t i = 0; i < count && rc == 0; i++)
        CHECK(NULL, sum[i] == factor * (double)i);
    return rc;
}

static rcoll_params_t broadcast_of(const struct player *p, unsigned char *data, size_t bytes,
                                   int root, const char *algorithm)
{
    rcoll_params_t params = rcoll_params_of(RCOLL_BCAST, data, data, bytes);

    params.root = member_of(p, root);
    params.algorithm = algorithm;
    return params;
}

static int hosts_broadcast(struct player *p, rteam_t team, size_t bytes, int root,
                           const char *algorithm)
{
    static unsigned char data[LONGEST];
    rcoll_params_t params = broadcast_of(p, data, bytes, root, algorithm);
    int rc;

    memset(data, 0, bytes);
    if (p->rank == root)
        pattern_fill(data, bytes, (uint64_t)root + bytes);
    rc = hosts_run(p, team, &params);
    CHECK(NULL, rc != 0 || pattern_same(data, bytes, (uint64_t)root + bytes));
    return rc;
}

/* ---- messages that come before their operation ---- */

/* Until both ends have started what follows, or one never will; and for as long as their messages need. */
static void hosts_await_ends(const struct player *p)
{
    int64_t deadline = deadline_in_ms(p->timeout_ms);

    for (int i = 0; i < BYSTANDER; i++)
        while (atomic_load(&p->board->rank[i].attached) < 2 &&
               atomic_load(&p->board->killed) == 0 && !deadline_passed(deadline))
            backoff_us(50);
    backoff_us(10000);
}

/*
 * On three hosts a sum goes from the bystander to rank 0, and from there to rank 1. While rank 0 waits for it, rank 1 gets what rank 0
 * broadcasts after it.
 */
static int hosts_early(struct player *p, rteam_t team)
{
    static unsigned char data[EARLY][EARLY_BYTES];
    static double own, sum; /* of plans that may go on */
    rcoll_params_t scan = rcoll_params_of(RCOLL_SCAN, &own, &sum, 1);
    rplan_t plan[1 + EARLY] = {NULL};
    int rc;

    own = p->rank + 1;
    scan.type = RGROUP_DOUBLE;
    scan.op = RGROUP_SUM;
    scan.algorithm = "linear";
    if (p->rank == BYSTANDER)
        hosts_await_ends(p);
    rc = hosts_start(p, team, &scan, &plan[0]);
    for (int i = 0; i < EARLY && rc == 0; i++) {
        rcoll_params_t params = broadcast_of(p, data[i], EARLY_BYTES, 0, "flat");

        if (p->rank == 0)
            pattern_fill(data[i], EARLY_BYTES, (uint64_t)i);
        rc = hosts_start(p, team, &params, &plan[1 + i]);
    }
    atomic_store(&mine(p)->attached, 2);
    for (int i = 0; i <= EARLY && rc == 0; i++)
        rc = hosts_finish(p, team, plan[i]);
    for (int m = 0; m <= rcoll_rank(team); m++)
        sum -= rcoll_peer(team, m) + 1;
    CHECK(NULL, rc != 0 || sum == 0);
    for (int i = 0; i < EARLY; i++)
        CHECK(NULL, rc != 0 || pattern_same(data[i], EARLY_BYTES, (uint64_t)i));
    for (int i = 0; i <= EARLY; i++)
        if (plan[i] != NULL)
            CHECK(NULL, rcoll_free(plan[i]) == 0);
    return rc;
}

/* ---- probes ---- */

#define FROM ((rcoll_ref_t){.base = RCOLL_FROM})
#define INTO ((rcoll_ref_t){.base = RCOLL_INTO})

/* Of ranks 0 and 1 each sends to the other one when it has the message of the bystander: so both wait for each other, and for it. */
static void build_probed(const struct player *p, rgraph_t graph)
{
    const int ends[] = {member_of(p, 0), member_of(p, 1)};
    rcoll_ref_t message = {.base = 0};
    int got, late, send, copy;

    if (p->rank == BYSTANDER) {
        CHECK(NULL, rcoll_graph_send(graph, ends, 2, 0, FROM, sizeof(double)) >= 0);
        return;
    }
    got = rcoll_graph_recv(graph, member_of(p, p->peer), 1, sizeof(double));
    late = rcoll_graph_recv(graph, member_of(p, BYSTANDER), 0, sizeof(double));
    send = rcoll_graph_send(graph, &ends[p->peer], 1, 1, FROM, sizeof(double));
    CHECK(NULL, got >= 0 && late >= 0 && send >= 0);
    CHECK(NULL, rcoll_graph_after(graph, send, late) == 0);
    message.base = got;
    copy = rcoll_graph_copy(graph, INTO, message, sizeof(double));
    CHECK(NULL, copy >= 0);
}

static int hosts_ask(struct player *p, rteam_t team)
{
    double own = p->rank + 1, got = 0;
    rgraph_t graph;
    rplan_t plan;
    int rc = rcoll_graph(&graph, team, 0);

    CHECK(NULL, rc == 0);
    build_probed(p, graph);
    rc = rcoll_graph_plan(&plan, graph, &own, sizeof(own), &got, sizeof(got));
    CHECK(NULL, rc == 0 || rc == -ECONNRESET);
    if (rc != 0)
        return rc;
    if (p->rank == BYSTANDER)
        backoff_us(LATE_MS * 1000);
    rc = check_end_of(p, team, rcoll_start(plan));
    if (rc == 0)
        rc = hosts_finish(p, team, plan);
    CHECK(NULL, rc != 0 || p->rank == BYSTANDER || got == p->peer + 1);
    CHECK(NULL, rcoll_free(plan) == 0);
    return rc;
}

/* ---- what follows ---- */

/* No deadline is to end it: it cannot be called again. */
static void hosts_be_patient(const struct player *p, bool patient)
{
    atomic_store(&mine(p)->patient, patient);
}

/*
 * A member that has opened the team agrees with the others only if these have, too: a team that a death keeps from being opened is none.
 * That is what a launcher or the control network would find out; here the board does.
 */
static bool hosts_have_opened(const struct player *p)
{
    bool all = true;

    for (int i = 0; i < SCENARIO_RANKS; i++) {
        while (i != p->victim && atomic_load(&p->board->rank[i].attached) == 0)
            backoff_us(50);
        all = all && (i == p->victim || atomic_load(&p->board->rank[i].attached) > 0);
    }
    return all;
}

/* The team of those that live, which is smaller if it has to be; it works. */
static int hosts_shrink(struct player *p, rteam_t team, bool smaller)
{
    rteam_t living = NULL;
    int rc;

    CHECK(NULL, rcoll_set_timeout(team, p->again ? SHRINK_MS : p->timeout_ms) == 0);
    do
        rc = rcoll_shrink(&living, team);
    while (hosts_once_more(p, rc));
    CHECK(NULL, rc == 0);
    CHECK(NULL, rcoll_size(living) == SCENARIO_RANKS - 1 ||
                    (rcoll_size(living) == SCENARIO_RANKS && !smaller));
    CHECK(NULL, rcoll_set_timeout(living, p->timeout_ms) == 0);
    rc = hosts_add(p, living, 1);
    CHECK(NULL, rc == 0 || rcoll_size(living) == SCENARIO_RANKS);
    CHECK(NULL, rcoll_close(living) == 0 || rc != 0);
    return rc;
}

/* Whether all were through; then those that live go on. */
static int hosts_go_on(struct player *p, rteam_t team, int rc)
{
    uint64_t flags = rc == 0 ? 3 : 2;
    int dead[SCENARIO_RANKS], n, after;

    do
        n = rcoll_agree(team, &flags, dead, SCENARIO_RANKS);
    while (hosts_once_more(p, n));
    CHECK(NULL, n == 0 || (n == 1 && dead[0] == member_of(p, p->victim)));
    CHECK(NULL, (flags | 1) == 3);
    after = hosts_shrink(p, team, n == 1 || flags == 2);
    return rc != 0 ? rc : n == 1 || flags == 2 ? -ECONNRESET : after;
}

static int hosts_with_team(struct player *p, int (*operate)(struct player *p, rteam_t team),
                           int timeout_ms)
{
    rcoll_team_config_t cfg = {.heap_bytes = HEAP_BYTES};
    rteam_t team;
    int rc;

    hosts_be_patient(p, true);
    rc = rcoll_team(&team, &cfg, ranks_of(p), SCENARIO_RANKS);
    hosts_be_patient(p, false);
    CHECK(NULL, rc == 0 || rc == -ECONNRESET);
    atomic_store(&mine(p)->attached, rc == 0 ? 1 : -1);
    if (rc != 0)
        return rc;
    CHECK(NULL, rcoll_set_timeout(team, timeout_ms) == 0);
    rc = operate(p, team);
    if (rc == 0 || hosts_have_opened(p))
        rc = hosts_go_on(p, team, rc);
    CHECK(NULL, rcoll_close(team) == 0 || rc != 0);
    return rc;
}

static int hosts_operate(struct player *p, rteam_t team)
{
    int rc = hosts_barrier(p, team);

    if (rc == 0)
        rc = hosts_add(p, team, 1);
    if (rc == 0)
        rc = hosts_add(p, team, COUNT);
    for (int root = 0; root < BYSTANDER && rc == 0; root++)
        rc = hosts_broadcast(p, team, root == 0 ? 8 : 3000, root, "cast");
    if (rc == 0)
        rc = hosts_early(p, team);
    if (rc == 0)
        rc = hosts_broadcast(p, team, LONGEST, BYSTANDER, NULL);
    return rc;
}

int scene_hosts(struct player *p) { return hosts_with_team(p, hosts_operate, p->timeout_ms); }

static int hosts_operate_with_probes(struct player *p, rteam_t team)
{
    int rc = hosts_barrier(p, team);

    return rc == 0 ? hosts_ask(p, team) : rc;
}

int scene_probes(struct player *p)
{
    return hosts_with_team(p, hosts_operate_with_probes,
                           p->timeout_ms < PROBE_MS ? PROBE_MS : p->timeout_ms);
}
