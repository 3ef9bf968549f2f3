/* SPDX-License-Identifier: BSD-3-Clause */
/* board.c: the table of boards, and what changes the state of one; see board.h. */
#include "rpipe/board/board.h"

#include "control/control.h"
#include "rpipe/end/call.h"
#include "rpipe/end/job_state.h"
#include "sync/futex.h"
#include "sync/wait.h"
#include "util/fork_fds.h"
#include "util/hash.h"
#include "util/map.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pthread_mutex_t boards_lock = PTHREAD_MUTEX_INITIALIZER;
struct link boards_all; /* open boards */
const _Atomic uint32_t board_sleepers_unmapped = 1, board_sleepers_none = 0;

static struct hash boards_names; /* name → struct board_name */
static struct hash boards_peers; /* rank → struct board_peer */
static bool boards_uncounted;    /* an OPEN has not been counted for lack of memory */
static bool boards_early;        /* a loss has been kept */

struct board_name *boards_name(uint64_t context, uint64_t ranks, bool make)
{
    const uint64_t key = hash_bytes(ranks, &context, sizeof(context));
    struct board_name *name = hash_get(&boards_names, key);

    if (name != NULL ||
        !make) /* two names of one key: the message of one is not that of the other */
        return name != NULL && name->context == context && name->ranks == ranks ? name : NULL;
    name = calloc(1, sizeof(*name));
    if (name == NULL)
        return NULL;
    name->context = context;
    name->ranks = ranks;
    if (hash_put(&boards_names, key, name) == 0)
        return name;
    free(name);
    return NULL;
}

void boards_forget_names(void)
{
    struct board_name *name;
    struct board_peer *peer;
    size_t cursor = 0;

    while ((name = hash_next(&boards_names, &cursor)) != NULL)
        free(name);
    hash_free(&boards_names);
    hash_init(&boards_names);
    cursor = 0;
    while ((peer = hash_next(&boards_peers, &cursor)) != NULL) {
        free(peer->early);
        free(peer);
    }
    hash_free(&boards_peers);
    hash_init(&boards_peers);
    boards_uncounted = boards_early = false;
}

struct board_peer *boards_peer(int rank)
{
    struct board_peer *peer = hash_get(&boards_peers, (uint64_t)rank);

    if (boards_uncounted || peer != NULL)
        return boards_uncounted ? NULL : peer;
    peer = calloc(1, sizeof(*peer));
    if (peer != NULL && hash_put(&boards_peers, (uint64_t)rank, peer) == 0)
        return peer;
    free(peer);
    return NULL;
}

void boards_count_open(int rank)
{
    struct board_peer *peer = boards_peer(rank);

    if (peer != NULL)
        peer->got++;
    else
        boards_uncounted = true;
}

void boards_keep_early(int rank, const struct board_early *early)
{
    struct board_peer *peer = boards_peer(rank);

    if (peer != NULL && peer->early == NULL)
        peer->early = calloc(BOARD_EARLY, sizeof(*peer->early));
    if (peer == NULL || peer->early == NULL)
        return;
    peer->early[peer->nearly++ % BOARD_EARLY] = *early;
    boards_early = true;
}

bool boards_have_early(void) { return boards_early; }

/* ---- what ends the waits of a board ---- */

void board_wake_own(struct rboard *b)
{
    /* release: pairs with the acquire of a thread that is about to sleep */
    atomic_fetch_add_explicit(&b->news, 1, memory_order_release);
    futex_wake(&b->news);
    (void)wake_if_waiting(&b->wake, true);
}

bool board_set_lost(struct rboard *b, int code, int member)
{
    if (atomic_load_explicit(&b->lost, memory_order_relaxed) != 0)
        return false;
    /* release: pairs with the acquire in rboard_lost */
    atomic_store_explicit(&b->lost, (uint64_t)-code << 32 | (uint32_t)member, memory_order_release);
    board_wake_own(b);
    return true;
}

void board_set_state(struct rboard *b, int member, int code)
{
    struct board_member *m = &b->member[member];

    if (atomic_load_explicit(&m->code, memory_order_relaxed) != 0)
        return;
    /* release: pairs with the acquire in rboard_state: what the member has stored before is visible */
    atomic_store_explicit(&m->code, code, memory_order_release);
    board_wake_own(b);
}

void board_keep_word(struct rboard *b, int member, uint64_t word)
{
    struct board_member *m = &b->member[member];

    m->word = word;
    if (!list_empty(&m->posted))
        return;
    list_append(&b->posted, &m->posted);
    /* relaxed: the word is read under the lock */
    atomic_fetch_add_explicit(&b->nposted, 1, memory_order_relaxed);
}

size_t board_line(const struct rboard *b, int member)
{
    return map_round_up((size_t)b->member[member].bytes, CACHE_LINE);
}

size_t board_segment_bytes(const struct rboard *b, int member)
{
    return map_round_up(board_line(b, member) + CACHE_LINE, (size_t)sysconf(_SC_PAGESIZE));
}

/* With membarrier at all of them the fence of rboard_wake is that of the sleeper. */
static bool board_needs_fences(const struct rboard *b)
{
    if (!control_membarrier())
        return true;
    for (int i = 0; i < b->n; i++)
        if (b->member[i].here && i != b->me && !control_peer_membarrier(b->member[i].rank))
            return true;
    return false;
}

void board_arrived(struct rboard *b, int member)
{
    if (!b->member[member].awaited)
        return;
    b->member[member].awaited = false;
    if (--b->awaited > 0)
        return;
    fork_fds_close(b->fd);
    b->fd = -1;
    atomic_store_explicit(&b->fences, board_needs_fences(b), memory_order_relaxed);
    (void)wake_if_waiting(&b->wake, true);
}

void board_refuse(struct rboard *b, int member, int code, const char *format, ...)
{
    va_list arguments;

    if (b->refused == 0) {
        va_start(arguments, format);
        error_vnote(&b->refused_reason, format, arguments);
        va_end(arguments);
        b->refused = code;
    }
    board_arrived(b, member);
    board_set_state(b, member, code);
    board_wake_own(b);
}

/* ---- calls ---- */

int board_check(const struct rboard *b)
{
    int rc = job_check();

    if (rc == 0 && b == NULL)
        rc = call_error(NULL, -EINVAL, "board is NULL");
    return rc;
}

int board_lost_code(struct rboard *b, int *member)
{
    /* acquire: pairs with the release in board_set_lost */
    const uint64_t lost = atomic_load_explicit(&b->lost, memory_order_acquire);

    if (lost != 0 && member != NULL)
        *member = (int)(uint32_t)lost;
    return -(int)(lost >> 32);
}

int board_lost_error(struct rboard *b)
{
    int member = 0, rank, code = board_lost_code(b, &member);
    const char *why;

    if (code == 0)
        return 0;
    rank = b->member[member].rank;
    why = control_peer_why(rank);
    if (code == -ECONNRESET)
        return call_error(NULL, code, "member %d, rank %d, is lost%s%s", member, rank,
                          *why != '\0' ? ": " : "", why);
    return call_error(NULL, code, "member %d, rank %d, has failed: %s", member, rank,
                      strerror(-code));
}

/* ---- the end of a board ---- */

void board_release(struct rboard *b)
{
    atomic_store_explicit(&b->mates, 0, memory_order_relaxed);
    atomic_store_explicit(&b->mem, NULL, memory_order_relaxed);
    for (int i = 0; i < b->n; i++) {
        atomic_store_explicit(&b->member[i].mem, NULL, memory_order_relaxed);
        segment_unmap(&b->member[i].segment);
    }
    segment_unmap(&b->segment);
    fork_fds_close(b->fd);
    b->fd = -1;
    list_remove(&b->link);
    if (b->name != NULL)
        b->name->board = NULL;
    b->name = NULL;
}
