/* SPDX-License-Identifier: BSD-3-Clause */
/* board_open.c: rboard_open and rboard_close, see board.h. */
#include "rpipe/board/board.h"
#include "rpipe/board/board_message.h"
#include "rpipe/board/boards.h"

#include "control/control.h"
#include "rpipe/end/call.h"
#include "rpipe/end/config.h"
#include "rpipe/end/job_state.h"
#include "util/failpoint.h"
#include "util/fork_fds.h"
#include "util/hash.h"
#include "util/map.h"
#include "util/sized.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define MEMBERS_MOST 65536
#define BYTES_DEFAULT 4096
#define BYTES_MOST (UINT64_C(1) << 40)

/* ---- what the caller gives ---- */

/* Whole pages of the memory of each member. */
static int board_check_late(const rboard_config_t *cfg, int n, struct error *err)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t least = cfg->bytes;

    for (int i = 0; i < n && cfg->each != NULL; i++)
        least = i == 0 || cfg->each[i] < least ? cfg->each[i] : least;
    if (cfg->late % page == 0 && cfg->late_bytes % page == 0 && cfg->late <= least &&
        cfg->late_bytes <= least - cfg->late)
        return 0;
    return error_set(err, -EINVAL,
                     "late is %llu and late_bytes is %llu; they must be whole pages of %llu bytes, "
                     "within the memory of each member, %llu bytes",
                     (unsigned long long)cfg->late, (unsigned long long)cfg->late_bytes,
                     (unsigned long long)page, (unsigned long long)least);
}

static int board_check_config(const rboard_config_t *cfg, int n, int *timeout_ms, struct error *err)
{
    int rc;

    if (n < 1 || n > MEMBERS_MOST)
        return error_set(err, -EINVAL, "n is %d; it must be 1 to %d", n, MEMBERS_MOST);
    if ((cfg->flags & ~RBOARD_GO_ON) != 0)
        return error_set(err, -EINVAL, "flags is 0x%x; they are 0x%x", cfg->flags, RBOARD_GO_ON);
    for (int i = 0; i < n; i++) {
        const uint64_t bytes = cfg->each != NULL ? cfg->each[i] : cfg->bytes;

        if (bytes > BYTES_MOST)
            return error_set(err, -EINVAL, "member %d has %llu bytes; it must be at most 2^40", i,
                             (unsigned long long)bytes);
    }
    if (cfg->late_bytes > 0 && (rc = board_check_late(cfg, n, err)) != 0)
        return rc;
    if ((cfg->context & CONTEXT_LIBRARY) != 0)
        return error_set(err, -EINVAL,
                         "context is 0x%llx; it must be below 2^61 or come from rcontext",
                         (unsigned long long)cfg->context);
    return config_timeout(cfg->timeout_ms, timeout_ms, err);
}

static void board_set_bytes(struct rboard *b, const rboard_config_t *cfg)
{
    for (int i = 0; i < b->n; i++) {
        b->member[i].bytes = cfg->each != NULL ? cfg->each[i] : cfg->bytes;
        if (b->member[i].bytes == 0)
            b->member[i].bytes = BYTES_DEFAULT;
    }
}

/* Each rank is of this job, and occurs once; this one does. */
static int board_set_ranks(struct rboard *b, const int *ranks, struct error *err)
{
    const int all = job_ranks();
    unsigned char *seen = calloc((size_t)all, 1);
    int rc = 0;

    if (seen == NULL)
        return error_set(err, -ENOMEM, "no memory for %d ranks", all);
    b->me = -1;
    for (int i = 0; i < b->n && rc == 0; i++) {
        const int rank = ranks != NULL ? ranks[i] : i;

        if (rank < 0 || rank >= all)
            rc = error_set(err, -ENOENT, "member %d is rank %d; the ranks of this job are 0 to %d",
                           i, rank, all - 1);
        else if (seen[rank]++ != 0)
            rc = error_set(err, -EINVAL, "rank %d occurs twice; member %d is the second one", rank,
                           i);
        else if (rank == job_own_rank())
            b->me = i;
        b->member[i].rank = rank;
    }
    free(seen);
    if (rc == 0 && b->me < 0)
        rc = error_set(err, -EINVAL, "rank %d, this one, is not a member", job_own_rank());
    return rc;
}

static uint64_t board_hash_ranks(const struct rboard *b)
{
    uint64_t hash = HASH_BASIS;

    for (int i = 0; i < b->n; i++)
        hash = hash_bytes(hash, &b->member[i].rank, sizeof(b->member[i].rank));
    return hash;
}

/* ---- hosts ---- */

/* The host of a rank that is gone is not known any more: it has one of its own. */
static int board_host_of(int rank, struct control_host *host, struct error *err)
{
    int rc = control_host(rank, host, err);

    if (rc == 0 || control_peer_state(rank) == 0)
        return rc;
    memset(host->id, 0xff, sizeof(host->id));
    memcpy(host->id, &rank, sizeof(rank));
    return 0;
}

/* Numbers the hosts in the order of their first members. */
static int board_find_hosts(struct rboard *b, struct error *err)
{
    struct control_host *known = calloc((size_t)b->n, sizeof(*known)), host;
    uint32_t at;
    int rc = 0;

    if (known == NULL)
        return error_set(err, -ENOMEM, "no memory for the hosts of %d members", b->n);
    for (int i = 0; i < b->n && rc == 0; i++) {
        rc = board_host_of(b->member[i].rank, &host, err);
        for (at = 0; at < b->hosts && memcmp(&known[at], &host, sizeof(host)) != 0;)
            at++;
        if (at == b->hosts)
            known[b->hosts++] = host;
        b->member[i].host = at;
    }
    free(known);
    return rc;
}

/* The members of this host; the memory of all but this one is awaited. */
static int board_find_mates(struct rboard *b, struct error *err)
{
    uint32_t mates = 0;

    for (int i = 0; i < b->n; i++) {
        struct board_member *m = &b->member[i];

        m->here = m->host == b->member[b->me].host;
        m->awaited = m->here && i != b->me;
        m->mate = m->here ? mates++ : 0;
    }
    b->awaited = mates - 1;
    b->sleepers = calloc(mates, sizeof(*b->sleepers));
    if (b->sleepers == NULL)
        return error_set(err, -ENOMEM, "no memory for %u members of this host", mates);
    for (uint32_t i = 0; i < mates; i++)
        atomic_store_explicit(&b->sleepers[i], &board_sleepers_unmapped, memory_order_relaxed);
    atomic_store_explicit(&b->mates, mates, memory_order_relaxed);
    return 0;
}

/* ---- opening ---- */

static uint64_t board_cookie(void)
{
    uint64_t cookie = 0;

    while (cookie == 0)
        if (getrandom(&cookie, sizeof(cookie), 0) != (ssize_t)sizeof(cookie))
            cookie = 0;
    return cookie;
}

/* Own memory: that of the program, and behind it one line of the library. */
static int board_make_memory(struct rboard *b, struct error *err)
{
    const size_t line = board_line(b, b->me);
    struct board_member *m = &b->member[b->me];
    struct board_line *own;
    int rc = segment_make_late(board_segment_bytes(b, b->me), b->late, &b->segment, &b->fd, err);

    if (rc != 0)
        return rc;
    fork_fds_add(b->fd);
    own = (struct board_line *)(void *)((char *)b->segment.base + line);
    own->cookie = board_cookie();
    own->address = (uint64_t)(uintptr_t)&own->cookie;
    b->own_sleepers = &own->sleepers;
    atomic_store_explicit(&b->mem, b->segment.base, memory_order_relaxed);
    atomic_store_explicit(&m->mem, b->segment.base, memory_order_relaxed);
    atomic_store_explicit(&b->sleepers[m->mate], b->own_sleepers, memory_order_relaxed);
    return 0;
}

static void board_free(struct rboard *b)
{
    if (b == NULL)
        return;
    free((void *)b->sleepers);
    free(b->member);
    free(b);
}

static struct rboard *board_alloc(int n)
{
    struct rboard *b = calloc(1, sizeof(*b));

    if (b == NULL)
        return NULL;
    b->member = calloc((size_t)n, sizeof(*b->member));
    if (b->member == NULL) {
        free(b);
        return NULL;
    }
    b->n = n;
    b->fd = -1;
    list_init(&b->link);
    list_init(&b->posted);
    for (int i = 0; i < n; i++)
        list_init(&b->member[i].posted);
    atomic_init(&b->fences, true);
    return b;
}

/* What has come of each mate was not for this board. Lock held. */
static void board_count_received(struct rboard *b)
{
    for (int i = 0; i < b->n; i++) {
        const struct board_peer *peer =
            b->member[i].awaited ? boards_peer(b->member[i].rank) : NULL;

        b->member[i].got = peer != NULL ? peer->got : UINT64_MAX;
    }
}

/* From here on messages of the other members find the board. */
static int board_register(struct rboard *b, uint64_t context, struct error *err)
{
    struct board_name *name;
    int rc = 0;

    pthread_mutex_lock(&boards_lock);
    name = boards_name(context, board_hash_ranks(b), true);
    if (name == NULL)
        rc = error_set(err, -ENOMEM, "no memory for another board");
    else if (name->board != NULL)
        rc = error_set(err, -EEXIST, "a board of these ranks is open in context %llu already",
                       (unsigned long long)context);
    if (rc == 0) {
        name->board = b;
        b->name = name;
        b->number = ++name->opened;
        list_append(&boards_all, &b->link);
        board_count_received(b);
        if (b->awaited == 0) {
            fork_fds_close(b->fd);
            b->fd = -1;
        }
        board_take_early(b);
        boards_check_members(b);
    }
    pthread_mutex_unlock(&boards_lock);
    return rc;
}

/* Passes the memory to every other member of the host. One that is gone is noticed by the service thread. */
static int board_announce(struct rboard *b, struct error *err)
{
    int rc = 0;

    pthread_mutex_lock(&boards_lock);
    for (int i = 0; i < b->n && rc == 0; i++) {
        const struct board_member *m = &b->member[i];

        if (!m->awaited)
            continue;
        rc = board_send_open(b, i, true);
        if (rc == -ECONNRESET || rc == -EPIPE)
            rc = 0;
        if (rc != 0)
            error_note(err, "the memory cannot be passed to member %d, rank %d: %s", i, m->rank,
                       strerror(-rc));
    }
    if (rc != 0 && board_set_lost(b, rc, b->me)) /* those that have it wait for this member */
        board_send_lost(b, true, true);
    pthread_mutex_unlock(&boards_lock);
    return rc;
}

/* The first member of a host notices the end of the first of each other one: that of a host as a whole. */
static void board_monitor_hosts(const struct rboard *b)
{
    uint32_t next = 0;

    for (int i = 0; i < b->me; i++)
        if (b->member[i].here)
            return;
    for (int i = 0; i < b->n && b->hosts > 1; i++) {
        if (b->member[i].host != next)
            continue;
        next++;
        if (!b->member[i].here)
            control_monitor(b->member[i].rank);
    }
}

static void board_discard(struct rboard *b)
{
    pthread_mutex_lock(&boards_lock);
    board_release(b);
    pthread_mutex_unlock(&boards_lock);
    board_free(b);
}

static int board_open(rboard_t *board, const rboard_config_t *cfg, const int *ranks, int n,
                      size_t size)
{
    struct error err = {""};
    rboard_config_t known;
    struct rboard *b = NULL;
    int timeout_ms = 0, rc = job_check();

    if (rc != 0)
        return rc;
    if (board == NULL || cfg == NULL)
        return call_error(NULL, -EINVAL, "%s is NULL", board == NULL ? "board" : "cfg");
    rc = sized_copy(&known, sizeof(known), cfg, size, &err);
    if (rc == 0)
        rc = board_check_config(&known, n, &timeout_ms, &err);
    if (rc == 0 && (b = board_alloc(n)) == NULL)
        rc = error_set(&err, -ENOMEM, "no memory for a board of %d members", n);
    if (rc != 0)
        return call_error(NULL, rc, "%s", err.text);
    board_set_bytes(b, &known);
    b->goes_on = (known.flags & RBOARD_GO_ON) != 0;
    b->timeout_ms = timeout_ms;
    if (segment_has_late())
        b->late = (struct segment_late){.at = known.late, .bytes = known.late_bytes};
    if ((rc = board_set_ranks(b, ranks, &err)) == 0 && (rc = board_find_hosts(b, &err)) == 0 &&
        (rc = board_find_mates(b, &err)) == 0 && (rc = board_make_memory(b, &err)) == 0 &&
        (rc = board_register(b, known.context, &err)) == 0) {
        RPIPE_FAILPOINT("rboard_open: before OPEN");
        rc = board_announce(b, &err);
        RPIPE_FAILPOINT("rboard_open: OPEN queued");
    }
    if (rc != 0) {
        board_discard(b);
        return call_error(NULL, rc, "%s", err.text);
    }
    board_monitor_hosts(b);
    *board = b;
    return 0;
}

int(rboard_open)(rboard_t *board, const rboard_config_t *cfg, const int *ranks, int n, size_t size)
{
    struct call call;

    call_enter(&call, "rboard_open");
    return call_end(&call, board_open(board, cfg, ranks, n, size));
}

int rboard_close(rboard_t board)
{
    struct call call;
    int rc;

    call_enter(&call, "rboard_close");
    rc = board_check(board);
    if (rc == 0)
        board_discard(board);
    return call_end(&call, rc);
}
