/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * board_post.c: rboard_post and rboard_take: words for single members, of any host, by the control network; see board.h.
 *
 * The service thread keeps one word of each member, the last one: so what a member may post takes no memory. Members whose words have not been
 * taken are in a list; their number is loaded first, so that a poll that finds none takes no lock.
 */
#include "rpipe/board/board.h"
#include "rpipe/board/board_message.h"

#include "rpipe/end/call.h"

#include <errno.h>
#include <string.h>

static int board_take_first(struct rboard *b, int *member, uint64_t *word)
{
    struct board_member *m;
    int rc = R_PENDING;

    pthread_mutex_lock(&boards_lock);
    if (!list_empty(&b->posted)) {
        m = container_of(b->posted.next, struct board_member, posted);
        list_remove(&m->posted);
        atomic_fetch_sub_explicit(&b->nposted, 1, memory_order_relaxed);
        *member = (int)(m - b->member);
        *word = m->word;
        rc = 0;
    }
    pthread_mutex_unlock(&boards_lock);
    return rc;
}

int rboard_take(rboard_t board, int *member, uint64_t *word)
{
    struct call call;
    int rc;

    if (LIKELY(board != NULL && member != NULL && word != NULL) &&
        LIKELY(atomic_load_explicit(&board->nposted, memory_order_relaxed) == 0) &&
        LIKELY(atomic_load_explicit(&board->mates, memory_order_relaxed) != 0)) /* else: rexit */
        return R_PENDING;
    call_enter(&call, "rboard_take");
    rc = board_check(board);
    if (rc == 0 && (member == NULL || word == NULL))
        rc = call_error(NULL, -EINVAL, "%s is NULL", member == NULL ? "member" : "word");
    if (rc == 0)
        rc = board_take_first(board, member, word);
    return call_end(&call, rc);
}

static int board_post(const struct rboard *b, int member, uint64_t word)
{
    int rc;

    if (member < 0 || member >= b->n || member == b->me)
        return call_error(NULL, -EINVAL,
                          "member is %d; it must be 0 to %d, and another one than this, %d", member,
                          b->n - 1, b->me);
    pthread_mutex_lock(&boards_lock); /* its name and number */
    rc = b->name != NULL ? board_send_word(b, member, word) : -ENOTCONN;
    pthread_mutex_unlock(&boards_lock);
    if (rc == 0 || rc == R_PENDING)
        return rc;
    return call_error(NULL, rc, "a word cannot be sent to member %d, rank %d: %s", member,
                      b->member[member].rank, strerror(-rc));
}

int rboard_post(rboard_t board, int member, uint64_t word)
{
    struct call call;
    int rc;

    call_enter(&call, "rboard_post");
    rc = board_check(board);
    if (rc == 0)
        rc = board_post(board, member, word);
    return call_end(&call, rc);
}
