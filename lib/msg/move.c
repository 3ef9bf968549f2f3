/* SPDX-License-Identifier: BSD-3-Clause */
/* move.c: see move.h. */
#include "msg/move.h"

#include "msg/link.h"
#include "msg/out.h"
#include "msg/request.h"
#include "msg/window.h"
#include "util/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>

#define MOVE_STOP_NS 100000000 /* for the chunk that the peer is copying when a call gives up */

/* The receive does not use the cell any more. */
static void move_received(struct msg_request *r, int code)
{
    struct msg_link *l = r->link;
    const uint32_t cell = r->cell_number;

    msg_request_received(l->msg, r, code); /* may free it */
    msg_out_say(l, MSG_WIRE_MOVED, 0, cell, NULL);
}

/* ---- one chunk ---- */

/* A copy has failed. False: the peer is gone, and the pipe will report it; true: the link has ended, and with it its requests. */
static __attribute__((cold, noinline)) bool move_failed(struct msg_link *l, int rc)
{
    uint32_t magic = 0;
    char why[120];

    if (rc != R_PENDING && rc != -EPIPE &&
        rwindow_fetch(l->remote, l->probe - MSG_WIRE_WINDOW_BASE, &magic, sizeof(magic), NULL, NULL,
                      R_NOWAIT) == 0 &&
        magic == MSG_WIRE_MAGIC) {
        snprintf(why, sizeof(why), "the memory of a message cannot be accessed: %s",
                 rpipe_error(l->out));
        (void)msg_link_end(l, -EFAULT, why);
        return true;
    }
    l->unreachable = true;
    return false;
}

static int move_copy(const struct msg_link *l, const struct msg_request *r, uint64_t chunk)
{
    const size_t size = cell_chunk_bytes(r->total), at = chunk * size, left = r->total - at,
                 bytes = left < size ? left : size;
    const uint64_t there = r->where - MSG_WIRE_WINDOW_BASE + at;

    return r->send ? rwindow_write(l->remote, there, r->buf + at, bytes, NULL, NULL, R_NOWAIT)
                   : rwindow_fetch(l->remote, there, r->buf + at, bytes, NULL, NULL, R_NOWAIT);
}

/* Completes a request if nothing more is to be copied. */
static bool move_complete(struct msg_request *r)
{
    const uint64_t done = cell_done(r->cell);

    if (!r->send && (done & CELL_SENDER_STOPS) != 0) {
        move_received(r, -ECANCELED);
        return true;
    }
    if (done < r->chunks)
        return false;
    if (r->send)
        msg_request_sent(r, 0); /* also if the receiver has given up, and throws it away */
    else
        move_received(r, 0);
    return true;
}

/* What a turn has done with a request. */
enum move_turn { MOVE_NOTHING, MOVE_SOMETHING, MOVE_LINK_ENDED };

static enum move_turn move_request(struct msg_request *r)
{
    struct msg_link *l = r->link;
    uint64_t chunk;
    int rc;

    if (l->unreachable || l->out_code != 0)
        return MOVE_NOTHING;
    if ((r->send && !cell_is_open(r->cell)) || !cell_take(r->cell, r->chunks, &chunk))
        return move_complete(r) ? MOVE_SOMETHING : MOVE_NOTHING;
    rc = move_copy(l, r, chunk);
    if (MSG_UNLIKELY(rc != 0))
        return move_failed(l, rc) ? MOVE_LINK_ENDED : MOVE_NOTHING;
    cell_copied(r->cell);
    if (r->send)
        l->msg->counts.chunks_written++;
    else
        l->msg->counts.chunks_fetched++;
    (void)move_complete(r);
    return MOVE_SOMETHING;
}

bool msg_move_turn(struct rmsg *msg)
{
    struct link *at, *after;
    bool something = false;

    list_for_each (at, after, &msg->sharing) {
        struct msg_request *r = container_of(at, struct msg_request, queue);
        struct msg_link *l = r->link;
        const int out = l->out_code;
        enum move_turn turn = move_request(r); /* may free it */

        if (turn == MOVE_LINK_ENDED || l->out_code != out)
            return true; /* others are not in the list any more either */
        something = something || turn == MOVE_SOMETHING;
    }
    return something;
}

/* ---- beginning and end ---- */

void msg_move_receive(struct msg_link *l, struct msg_request *r, uint32_t cell, uint64_t where)
{
    r->state = MSG_ARRIVING;
    r->cell_number = cell;
    r->cell = &l->in_cells[cell];
    r->where = where;
    r->chunks = cell_chunks(r->total);
    if (r->abandoned) {
        msg_move_give_up(l->msg, r);
        return;
    }
    cell_open(r->cell);
    list_append(&l->msg->sharing, &r->queue);
}

/* A chunk that the peer has taken may still be written. */
static void move_drain(struct msg_request *r, uint64_t taken)
{
    const int64_t until = clock_now() + MOVE_STOP_NS;

    while ((cell_done(r->cell) & CELL_COUNT) < taken && !r->link->unreachable) {
        if (clock_now() > until) {
            msg_window_close(r->link);
            return;
        }
        sched_yield();
    }
}

void msg_move_give_up(struct rmsg *msg, struct msg_request *r)
{
    struct msg_link *l = r->link;

    if (r->send) {
        (void)cell_stop(r->cell, CELL_SENDER_STOPS, r->chunks);
        list_remove(&r->queue); /* it completes with MOVED */
        return;
    }
    move_drain(r, cell_stop(r->cell, CELL_RECEIVER_STOPS, r->chunks));
    move_received(r, -ECANCELED);
    if (l->window == NULL && l->state != LINK_ENDED)
        (void)msg_link_end(
            l, -ETIMEDOUT,
            "it did not finish to write into the buffer of a receive that has ended");
    (void)msg;
}

void msg_move_end(struct rmsg *msg)
{
    while (!list_empty(&msg->sharing)) {
        struct msg_request *r = container_of(msg->sharing.next, struct msg_request, queue);

        if (r->link->state == LINK_ENDED || r->send)
            list_remove(&r->queue);
        else
            msg_move_give_up(msg, r);
    }
}
