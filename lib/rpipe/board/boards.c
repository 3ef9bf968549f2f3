/* SPDX-License-Identifier: BSD-3-Clause */
/* boards.c: what ends boards: a member that is gone, rexit. See boards.h. */
#include "rpipe/board/boards.h"

#include "rpipe/board/board.h"
#include "rpipe/board/board_message.h"

#include "control/control.h"

#include <errno.h>

static struct link boards_left; /* boards that rexit has closed: their handles stay valid */

void boards_start(void)
{
    boards_forget_names();
    list_init(&boards_all);
    list_init(&boards_left);
    board_message_start();
}

/* ---- members that are gone ---- */

static bool board_member_is_alive(const struct board_member *m)
{
    return control_peer_state(m->rank) == 0;
}

/* This process is the first of its host that is left to report what the host has noticed. */
static bool board_reports(const struct rboard *b)
{
    for (int i = 0; i < b->me; i++)
        if (b->member[i].here && board_member_is_alive(&b->member[i]))
            return false;
    return true;
}

static void board_member_died(struct rboard *b, int member)
{
    struct board_member *m = &b->member[member];

    if (!b->goes_on)
        atomic_store_explicit(&m->mem, NULL, memory_order_relaxed);
    if (m->here)
        atomic_store_explicit(&b->sleepers[m->mate], &board_sleepers_none, memory_order_relaxed);
    board_set_state(b, member, -ECONNRESET);
    (void)board_set_lost(b, -ECONNRESET, member);
    if (b->hosts > 1 && board_reports(b))
        board_send_lost(b, !m->here, m->here);
}

static void board_member_gone(struct rboard *b, int member, bool died)
{
    struct board_member *m = &b->member[member];

    if (m->awaited)
        board_refuse(b, member, died ? -ECONNRESET : -EPIPE,
                     "member %d, rank %d, %s before its memory was mapped here", member, m->rank,
                     died ? "has died" : "has left the job");
    if (died)
        board_member_died(b, member);
    else
        board_set_state(b, member, -EPIPE);
}

void boards_check_members(struct rboard *b)
{
    for (int i = 0; i < b->n; i++) {
        const int rank = b->member[i].rank, state = i != b->me ? control_peer_state(rank) : 0;

        if (state != 0 || control_peer_exiting(rank))
            board_member_gone(b, i, state == -ECONNRESET);
    }
}

static void boards_member_gone(int rank, bool died)
{
    struct link *at, *after;

    pthread_mutex_lock(&boards_lock);
    list_for_each (at, after, &boards_all) {
        struct rboard *b = container_of(at, struct rboard, link);

        for (int i = 0; i < b->n; i++)
            if (b->member[i].rank == rank && i != b->me)
                board_member_gone(b, i, died);
    }
    pthread_mutex_unlock(&boards_lock);
}

void boards_peer_gone(int rank, bool died) { boards_member_gone(rank, died); }
void boards_peer_exiting(int rank) { boards_member_gone(rank, false); }

/* ---- the end of boards ---- */

void boards_leave(void)
{
    struct link *at, *after;

    pthread_mutex_lock(&boards_lock);
    list_for_each (at, after, &boards_all)
        board_wake_own(container_of(at, struct rboard, link));
    pthread_mutex_unlock(&boards_lock);
}

void boards_close_all(void)
{
    struct link *at, *after;

    pthread_mutex_lock(&boards_lock);
    list_for_each (at, after, &boards_all) {
        board_release(container_of(at, struct rboard, link));
        list_append(&boards_left, at);
    }
    boards_forget_names();
    pthread_mutex_unlock(&boards_lock);
}
