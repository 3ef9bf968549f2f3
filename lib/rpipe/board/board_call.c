/* SPDX-License-Identifier: BSD-3-Clause */
/* board_call.c: rboard_wait, rboard_lost, rboard_fail, and where memory is; see board.h. */
#include "rpipe/board/board.h"
#include "rpipe/board/board_message.h"

#include "control/control.h"
#include "observe/record/publish.h"
#include "rpipe/end/call.h"
#include "rpipe/end/cork.h"
#include "rpipe/end/job_state.h"
#include "sync/wait.h"

#include <errno.h>

/* ---- where memory is ---- */

void *rboard_mem(rboard_t board)
{
    return board != NULL ? atomic_load_explicit(&board->mem, memory_order_relaxed) : NULL;
}

const void *rboard_mem_of(rboard_t board, int member)
{
    if (board == NULL || member < 0 || member >= board->n)
        return NULL;
    /* acquire: pairs with the release of the service thread, after the mapping */
    return atomic_load_explicit(&board->member[member].mem, memory_order_acquire);
}

int rboard_host(rboard_t board, int member)
{
    if (board == NULL || member < 0 || member >= board->n)
        return -EINVAL;
    return (int)board->member[member].host;
}

/* ---- losses ---- */

int rboard_lost(rboard_t board, int *member)
{
    return board != NULL ? board_lost_code(board, member) : -EINVAL;
}

int rboard_state(rboard_t board, int member)
{
    const struct board_member *m;
    int code;

    if (board == NULL || member < 0 || member >= board->n)
        return -EINVAL;
    m = &board->member[member];
    /* acquire: pairs with the release in board_set_state */
    code = atomic_load_explicit(&m->code, memory_order_acquire);
    if (code != 0 || !m->here)
        return code;
    return atomic_load_explicit(&m->mem, memory_order_acquire) != NULL ? 0 : R_PENDING;
}

int rboard_fail(rboard_t board, int code)
{
    struct call call;
    int rc;

    call_enter(&call, "rboard_fail");
    rc = board_check(board);
    if (rc == 0 && (code >= 0 || code < -4095))
        rc = call_error(NULL, -EINVAL, "code is %d; it must be -1 to -4095", code);
    if (rc == 0) {
        pthread_mutex_lock(&boards_lock);
        if (board_set_lost(board, code, board->me))
            board_send_lost(board, true, true);
        pthread_mutex_unlock(&boards_lock);
    }
    return call_end(&call, rc);
}

/* ---- rboard_wait ---- */

/* R_PENDING while the memory of a member is awaited. */
static int board_wait_attempt(void *of)
{
    struct rboard *b = of;
    int rc = calls_ended() ? job_check() : b->goes_on ? 0 : board_lost_error(b);

    if (rc != 0)
        return rc;
    pthread_mutex_lock(&boards_lock);
    if (b->refused != 0 && !b->goes_on)
        rc = call_error(NULL, b->refused, "%s", b->refused_reason.text);
    else if (b->awaited > 0)
        rc = R_PENDING;
    for (int i = 0; rc == R_PENDING && i < b->n; i++)
        if (b->member[i].awaited)
            control_check_peer(b->member[i].rank);
    pthread_mutex_unlock(&boards_lock);
    return rc;
}

static int board_wait_timed_out(const struct rboard *b)
{
    int i = 0, rank = 0;
    uint32_t others;

    pthread_mutex_lock(&boards_lock);
    while (i < b->n - 1 && !b->member[i].awaited)
        i++;
    rank = b->member[i].rank;
    others = b->awaited > 0 ? b->awaited - 1 : 0;
    pthread_mutex_unlock(&boards_lock);
    return call_error(NULL, -ETIMEDOUT,
                      "member %d, rank %d, and %u others have not opened the board of context %llu "
                      "within %d ms",
                      i, rank, others, (unsigned long long)b->name->context, b->timeout_ms);
}

int rboard_wait(rboard_t board)
{
    struct waiter w;
    struct call call;
    int rc;

    call_enter(&call, "rboard_wait");
    rc = board_check(board);
    if (rc == 0)
        rc = board_wait_attempt(board);
    if (rc == R_PENDING) {
        cork_before_wait();
        publish_process_wait("the memory of the other members in rboard_wait");
        wait_begin(&w, &board->wake, deadline_in_ms(board->timeout_ms), true);
        w.keep = true; /* another thread may wait, too */
        rc = wait_until(&w, board_wait_attempt, board);
        publish_process_wait(NULL);
        if (rc == -ETIMEDOUT)
            rc = board_wait_timed_out(board);
    }
    return call_end(&call, rc);
}
