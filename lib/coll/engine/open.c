/* SPDX-License-Identifier: BSD-3-Clause */
/* open.c: rcoll_team, rcoll_close, and what a team is. */
#include "coll/engine/team.h"

#include "coll/engine/agree.h"
#include "coll/engine/async.h"
#include "coll/engine/card.h"
#include "coll/engine/edge.h"
#include "coll/engine/engine.h"
#include "coll/engine/fail.h"
#include "coll/engine/names.h"
#include "coll/engine/operation.h"
#include "coll/engine/open.h"
#include "coll/engine/plan.h"
#include "coll/engine/wait.h"
#include "coll/engine/create.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/last_error.h"
#include "util/segment.h"
#include "util/settings.h"
#include "util/sized.h"
#include "util/failpoint.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef rcoll_team

#define TEAM_HEAP_LEAST 65536
#define TEAM_HEAP_MOST (UINT64_C(1) << 40)
#define TEAM_DEPTH 64
#define TEAM_MOST 65536
#define TEAM_CONTEXT_END (UINT64_C(1) << 61)

/* ---- configuration ---- */

static int team_check_config(struct rteam *t, const rcoll_team_config_t *cfg, struct error *err)
{
    if ((cfg->flags & ~(RCOLL_THREADS | RCOLL_ASYNC)) != 0 || cfg->zero != 0)
        return error_set(err, -EINVAL,
                         "flags is 0x%x and zero is %u; flags are 0x%x, and zero is 0", cfg->flags,
                         cfg->zero, RCOLL_THREADS | RCOLL_ASYNC);
    if (cfg->timeout_ms < R_AT_ONCE)
        return error_set(err, -EINVAL,
                         "timeout_ms is %d; it must be a number of ms, R_FOREVER, R_AT_ONCE, or 0",
                         cfg->timeout_ms);
    t->heap_bytes =
        cfg->heap_bytes == 0 ? (uint64_t)setting_number(SET_COLL_HEAP) : cfg->heap_bytes;
    t->mem_bytes = cfg->mem_bytes;
    t->depth = cfg->depth == 0 ? TEAM_DEPTH : cfg->depth;
    if (t->heap_bytes < TEAM_HEAP_LEAST || t->heap_bytes > TEAM_HEAP_MOST ||
        t->mem_bytes > TEAM_HEAP_MOST)
        return error_set(err, -EINVAL,
                         "heap_bytes is %llu and mem_bytes is %llu; heap_bytes must be 65,536 to "
                         "2^40, mem_bytes "
                         "at most that",
                         (unsigned long long)t->heap_bytes, (unsigned long long)t->mem_bytes);
    if (t->depth < 4 || t->depth > TEAM_DEPTH_MOST || (t->depth & (t->depth - 1)) != 0)
        return error_set(err, -EINVAL, "depth is %u; it must be 4, 8, 16, 32 or 64", t->depth);
    t->heap_bytes = board_round(t->heap_bytes);
    t->mem_bytes = board_round(t->mem_bytes);
    t->threads = cfg->flags != 0;
    t->with_async = (cfg->flags & RCOLL_ASYNC) != 0;
    t->timeout_ms = cfg->timeout_ms == 0           ? (int)setting_number(SET_TIMEOUT_MS)
                    : cfg->timeout_ms == R_AT_ONCE ? 0
                                                   : cfg->timeout_ms;
    if (cfg->backend != NULL) {
        t->backend = strdup(cfg->backend);
        if (t->backend == NULL)
            return error_set(err, -ENOMEM, "no memory for a name");
    }
    return 0;
}

static int team_compare_ranks(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

/* The list of ranks: this process is in it, and none is twice. */
static int team_set_ranks(struct rteam *t, const int *ranks, int n, struct error *err)
{
    int me = rpipe_network_rank(), most = rpipe_network_ranks(), *sorted, rc = 0;

    if (n < 1 || n > TEAM_MOST)
        return error_set(err, -EINVAL, "n is %d; it must be 1 to %d", n, TEAM_MOST);
    t->size = n;
    t->me = -1;
    t->rank = malloc((size_t)n * sizeof(*t->rank));
    sorted = malloc((size_t)n * sizeof(*sorted));
    if (t->rank == NULL || sorted == NULL)
        rc = error_set(err, -ENOMEM, "no memory for %d ranks", n);
    for (int i = 0; i < n && rc == 0; i++) {
        sorted[i] = t->rank[i] = ranks == NULL ? i : ranks[i];
        if (t->rank[i] == me)
            t->me = i;
        if (t->rank[i] < 0 || t->rank[i] >= most)
            rc = error_set(err, -EINVAL, "member %d is rank %d; the job has %d", i, t->rank[i],
                           most);
    }
    if (rc == 0 && t->me < 0)
        rc =
            error_set(err, -EINVAL, "this process, rank %d, is not in the list of %d ranks", me, n);
    if (rc == 0) {
        qsort(sorted, (size_t)n, sizeof(*sorted), team_compare_ranks);
        for (int i = 1; i < n && rc == 0; i++)
            if (sorted[i] == sorted[i - 1])
                rc = error_set(err, -EINVAL, "rank %d is in the list twice", sorted[i]);
    }
    free(sorted);
    return rc;
}

/* ---- its stream ---- */

/* hold: rstream_hold or rstream_release. 0, or its code. */
static int team_with_stream(const struct rteam *t, int (*hold)(rstream_t stream, const char *name),
                            rstream_t stream)
{
    char name[64];

    snprintf(name, sizeof(name), "rcoll context %llu", (unsigned long long)t->context);
    return hold(stream, name);
}

/* With flags, threads of the program or of the library use the pipes of the team. */
static int team_set_stream(struct rteam *t, const rcoll_team_config_t *cfg, struct error *err)
{
    int rc;

    t->context = cfg->context;
    if (cfg->stream == NULL)
        return 0;
    if (cfg->flags != 0)
        return error_set(
            err, -EINVAL,
            "stream is given and flags has %s; the pipes of a stream belong to one thread at a "
            "time",
            (cfg->flags & RCOLL_ASYNC) != 0 ? "RCOLL_ASYNC" : "RCOLL_THREADS");
    rc = team_with_stream(t, rstream_hold, cfg->stream);
    if (rc != 0)
        return error_set(err, rc, "the stream cannot be used: %s", rpipe_error(NULL));
    t->stream = cfg->stream;
    return 0;
}

/* ---- the board ---- */

static void team_set_cpus(struct head *head)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return;
    for (int i = 0; i < HEAD_CPUS && i < CPU_SETSIZE; i++)
        if (CPU_ISSET((size_t)i, &set))
            head->cpus[i / 64] |= UINT64_C(1) << i % 64;
}

/* How much of the heap is allocated at once: all where it cannot be later, or pages are larger than those of the board. */
static uint64_t team_heap_first(const struct rteam *t)
{
    return segment_has_late() && segment_bytes(1) == BOARD_PAGE ? BOARD_HEAP_FIRST : t->heap_bytes;
}

static int team_open_board(struct rteam *t, struct error *err)
{
    size_t heap_at = board_heap_at(t->depth);
    uint64_t ready = team_heap_first(t);
    rboard_config_t cfg = {.context = t->name,
                           .bytes = heap_at + t->heap_bytes + t->mem_bytes +
                                    board_round(agree_bytes(t->size)),
                           .timeout_ms = t->timeout_ms == 0 ? R_AT_ONCE : t->timeout_ms,
                           .late = heap_at + ready,
                           .late_bytes = t->heap_bytes - ready};
    int rc = rboard_open(&t->board, &cfg, t->rank, t->size);

    if (rc != 0)
        return error_set(err, rc, "%s", rpipe_error(NULL));
    RPIPE_FAILPOINT("rcoll_team: board opened");
    t->head = rboard_mem(t->board);
    t->cells = (struct cell *)(t->head + 1);
    t->heap = (char *)t->head + heap_at;
    t->heap_ready = ready;
    t->number = t->done = 1;
    t->floor = 1;
    ring_init(&t->ring, t->heap_bytes);
    team_set_cpus(t->head);
    t->head->depth = t->depth;
    t->head->address = (uint64_t)(uintptr_t)t->head;
    t->head->heap_bytes = t->heap_bytes;
    t->head->mem_bytes = t->mem_bytes;
    atomic_store_explicit(&t->head->done, 1, memory_order_relaxed);
    /* release: pairs with the acquire of team_read_head */
    atomic_store_explicit(&t->head->magic, HEAD_MAGIC, memory_order_release);
    return 0;
}

/* Waits until a mate has filled in its head, which it does as soon as it has opened its board. */
static int team_read_head(const struct rteam *t, int member, struct error *err)
{
    const struct head *head = (const struct head *)(const void *)t->board_of[member];
    uint64_t heap_bytes, mem_bytes;
    uint32_t depth;
    int64_t deadline = deadline_in_ms(t->timeout_ms);

    /* acquire: pairs with the release of team_open_board */
    while (atomic_load_explicit(&head->magic, memory_order_acquire) != HEAD_MAGIC) {
        int lost = -1, rc = rboard_lost(t->board, &lost);

        if (rpipe_initialized() != 1)
            return error_set(err, -ENOTCONN, "the job has ended");

        if (rc != 0)
            return error_set(
                err, rc, "member %d, rank %d, has died or failed before it had filled in its board",
                lost, lost >= 0 ? t->rank[lost] : -1);
        if (deadline_passed(deadline))
            return error_set(err, -ETIMEDOUT, "member %d, rank %d, has not filled in its board",
                             member, t->rank[member]);
        sched_yield();
    }
    depth = head->depth;
    heap_bytes = head->heap_bytes;
    mem_bytes = head->mem_bytes;
    if (depth == t->depth && heap_bytes == t->heap_bytes && mem_bytes == t->mem_bytes)
        return 0;
    return error_set(
        err, -EINVAL,
        "heap_bytes, mem_bytes, depth are %llu, %llu, %u here and %llu, %llu, %u at member %d, "
        "rank %d",
        (unsigned long long)t->heap_bytes, (unsigned long long)t->mem_bytes, t->depth,
        (unsigned long long)heap_bytes, (unsigned long long)mem_bytes, depth, member,
        t->rank[member]);
}

/* Whether this process may read the memory of that of a mate: a word whose value is fixed. */
static bool team_may_fetch(const struct rteam *t, int member)
{
    const struct head *head = (const struct head *)(const void *)t->board_of[member];
    uint64_t magic = 0, address = operation_load_once(&head->address);

    return rboard_fetch(t->board, member, &magic, (const void *)(uintptr_t)address,
                        sizeof(magic)) == 0 &&
           magic == HEAD_MAGIC;
}

/* Whether a member may use a processor that this one may use. */
static bool team_is_beside(const struct rteam *t, int member)
{
    const struct head *theirs = (const struct head *)(const void *)t->board_of[member];
    uint64_t both = 0;

    for (int w = 0; w < HEAD_CPUS / 64; w++)
        both |= t->head->cpus[w] & operation_load_once(&theirs->cpus[w]);
    return both != 0;
}

/* Mates whose processors are those of this member come first. */
static void team_order_mates(struct rteam *t)
{
    for (int i = 0; i < t->nmates; i++) {
        int mate = t->mates[i];

        if (!team_is_beside(t, mate))
            continue;
        t->mates[i] = t->mates[t->nbeside];
        t->mates[t->nbeside++] = mate;
    }
}

/* Hosts, mates, and how many processors these have. */
static int team_find_shape(struct rteam *t, struct error *err)
{
    uint64_t cpus[HEAD_CPUS / 64] = {0};
    int *host = malloc((size_t)t->size * sizeof(*host)), cores = 0, rc;

    t->board_of = calloc((size_t)t->size, sizeof(*t->board_of));
    t->mates = calloc((size_t)t->size, sizeof(*t->mates));
    t->edges = calloc((size_t)t->size, sizeof(struct edge *));
    t->casts = calloc((size_t)t->size, sizeof(struct edge *));
    if (host == NULL || t->board_of == NULL || t->mates == NULL || t->edges == NULL ||
        t->casts == NULL) {
        free(host);
        return error_set(err, -ENOMEM, "no memory for %d members", t->size);
    }
    t->fetches = true;
    rc = rboard_wait(t->board);
    if (rc != 0)
        error_set(err, rc, "%s", rpipe_error(NULL));
    for (int i = 0; i < t->size && rc == 0; i++) {
        host[i] = rboard_host(t->board, i);
        if (host[i] != rboard_host(t->board, t->me))
            continue;
        t->board_of[i] = i == t->me ? (const char *)t->head : rboard_mem_of(t->board, i);
        if (t->board_of[i] == NULL)
            rc = error_set(err, -ECONNRESET, "the memory of member %d, rank %d, is gone", i,
                           t->rank[i]);
        else if (i != t->me) {
            t->mates[t->nmates++] = i;
            rc = team_read_head(t, i, err);
            t->fetches = t->fetches && rc == 0 && team_may_fetch(t, i);
        }
        for (int w = 0; w < HEAD_CPUS / 64 && rc == 0; w++)
            cpus[w] |= ((const struct head *)(const void *)t->board_of[i])->cpus[w];
    }
    for (int w = 0; w < HEAD_CPUS / 64; w++)
        cores += __builtin_popcountll(cpus[w]);
    if (rc == 0)
        rc = shape_init(&t->shape, t->size, host, cores > 0 ? cores : 1);
    t->shape.slots = CELL_SLOTS;
    t->crowded = t->nmates + 1 > cores;
    if (rc == 0)
        team_order_mates(t);
    free(host);
    return rc;
}

/* ---- opening ---- */

void team_close_shrunk(struct shrink *s)
{
    if (s->living != NULL)
        (void)rcoll_close(s->living);
    s->living = NULL;
}

void team_forget_shrink(struct rteam *t)
{
    if (t->shrink == NULL)
        return;
    team_close_shrunk(t->shrink);
    free(t->shrink);
    t->shrink = NULL;
}

static void team_destroy(struct rteam *t)
{
    edge_close_all(t);
    team_forget_shrink(t);
    agree_close(t);
    while (t->plans.next != NULL && !list_empty(&t->plans))
        plan_destroy(container_of(t->plans.next, struct rplan, in_plans));
    if (t->stream != NULL && rpipe_initialized() == 1)
        (void)team_with_stream(t, rstream_release, t->stream);
    if (t->board != NULL)
        (void)rboard_close(t->board);
    if (t->mem != NULL)
        (void)rvmem_destroy(t->mem);
    hash_free(&t->blocks);
    shape_free(&t->shape);
    pthread_mutex_destroy(&t->lock);
    free(t->backend);
    free(t->rank);
    free((void *)t->board_of);
    free(t->mates);
    free(t);
}

static int team_make_mem(struct rteam *t, struct error *err)
{
    rvmem_config_t cfg = {
        .buffer = t->heap + t->heap_bytes, .bytes = t->mem_bytes, .heuristic = RMALLOC_BEST_FIT};
    int rc = t->mem_bytes > 0 ? rvmem_create(&t->mem, &cfg) : 0;

    return rc == 0 ? 0 : error_set(err, rc, "%s", rpipe_error(NULL));
}

static int team_set_up(struct rteam *t, struct error *err)
{
    const rcoll_params_t barrier = {.kind = RCOLL_BARRIER};
    int rc = team_open_board(t, err);

    if (rc == 0)
        rc = team_find_shape(t, err);
    if (rc == 0)
        rc = team_make_mem(t, err);
    t->model = coll_model_default();
    if (rc == 0) {
        RPIPE_FAILPOINT("rcoll_team: before the cards");
        rc = card_exchange(t, err);
    }
    if (rc == 0)
        rc = plan_create(&t->barrier, t, &barrier, NULL, err);
    if (rc == 0 && t->with_async)
        rc = async_open(t, err);
    return rc;
}

int team_open(struct rteam **team, const rcoll_team_config_t *cfg, const int *ranks, int n,
              struct error *err)
{
    struct rteam *t = calloc(1, sizeof(*t));
    int rc;

    if (t == NULL)
        return error_set(err, -ENOMEM, "no memory for a team");
    list_init(&t->queue);
    list_init(&t->plans);
    hash_init(&t->blocks);
    pthread_mutex_init(&t->lock, NULL);
    rc = team_check_config(t, cfg, err);
    if (rc == 0)
        rc = team_set_ranks(t, ranks, n, err);
    if (rc == 0)
        rc = team_set_stream(t, cfg, err);
    if (rc == 0)
        rc = name_take(&t->name, cfg->context, t->rank, t->size, err);
    if (rc == 0)
        rc = team_set_up(t, err);
    if (rc != 0) {
        if (t->board != NULL && rc != -ECONNRESET)
            (void)rboard_fail(t->board, rc);
        team_destroy(t);
        return rc;
    }
    *team = t;
    return 0;
}

static int team_call_open(rteam_t *team, const rcoll_team_config_t *cfg, const int *ranks, int n,
                          size_t size)
{
    rcoll_team_config_t c = {.context = 0};
    struct error err = {""};
    int rc = coll_check_job("rcoll_team");

    if (rc != 0)
        return rc;
    if (team == NULL)
        return coll_fail(-EINVAL, "rcoll_team: team is NULL");
    *team = NULL;
    if (cfg != NULL)
        rc = sized_copy(&c, sizeof(c), cfg, size, &err);
    if (rc == 0 && c.context >= TEAM_CONTEXT_END && c.context >> 61 == 0)
        rc = error_set(&err, -EINVAL, "context is too large");
    if (rc == 0)
        rc = team_open(team, &c, ranks, n, &err);
    return rc == 0 ? 0 : coll_fail(rc, "rcoll_team: %s", err.text);
}

int rcoll_team(rteam_t *team, const rcoll_team_config_t *cfg, const int *ranks, int n, size_t size)
{
    struct team_call call;

    team_enter_counted(&call, "rcoll_team");
    return team_leave(&call, team_call_open(team, cfg, ranks, n, size));
}

/* ---- closing ---- */

static bool team_is_idle(struct rteam *t, void *of)
{
    (void)of;
    for (const struct link *link = t->queue.next; link != &t->queue; link = link->next)
        if (container_of(link, const struct rplan, in_queue)->state != PLAN_HELD)
            return false;
    return true;
}

static int team_call_close(rteam_t team, struct team_call *call)
{
    int rc;

    if (team == NULL)
        return coll_fail(-EINVAL, "rcoll_close: the team is NULL");
    if (rpipe_initialized() != 1)
        return coll_check_job("rcoll_close");
    async_close(team);
    RPIPE_FAILPOINT("rcoll_close: waiting");
    rc = team_wait(team, call, team_is_idle, NULL, team->timeout_ms);
    if (rc == -ETIMEDOUT) {
        rc = team_timed_out(team, "rcoll_close", team->timeout_ms);
        (void)team_fail(team, -ECANCELED, team->me, "member %d, rank %d, has closed the team",
                        team->me, team->rank[team->me]);
    } else if (rc != 0 && team->lost != 0)
        rc = 0; /* nothing is left to wait for */
    while (!list_empty(&team->queue)) {
        struct rplan *plan = container_of(team->queue.next, struct rplan, in_queue);

        plan->free_at_end = false;
        if (plan->state != PLAN_QUEUED)
            edge_release(team, &plan->op);
        list_remove(&plan->in_queue);
    }
    team_destroy(team);
    return rc;
}

int rcoll_close(rteam_t team)
{
    struct team_call call;

    team_enter_counted(&call, "rcoll_close");
    return team_leave(&call, team_call_close(team, &call));
}

/* ---- what a team is ---- */

int rcoll_rank(rteam_t team)
{
    return team != NULL ? team->me : coll_fail(-EINVAL, "rcoll_rank: the team is NULL");
}

int rcoll_size(rteam_t team)
{
    return team != NULL ? team->size : coll_fail(-EINVAL, "rcoll_size: the team is NULL");
}

int rcoll_peer(rteam_t team, int member)
{
    if (team == NULL || member < 0 || member >= team->size)
        return coll_fail(-EINVAL, "rcoll_peer: member is %d; the team has %d", member,
                         team != NULL ? team->size : 0);
    return team->rank[member];
}

int rcoll_set_timeout(rteam_t team, int timeout_ms)
{
    if (team == NULL || timeout_ms < R_AT_ONCE || timeout_ms == 0)
        return coll_fail(
            -EINVAL,
            "rcoll_set_timeout: team is %s and timeout_ms is %d; it must be a number of ms, "
            "R_FOREVER (-1) or R_AT_ONCE (-2)",
            team == NULL ? "NULL" : "given", timeout_ms);
    team->timeout_ms = timeout_ms == R_AT_ONCE ? 0 : timeout_ms;
    return 0;
}
