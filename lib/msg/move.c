/* SPDX-License-Identifier: BSD-3-Clause */
/* move.c: see move.h. */
#include "msg/move.h"

#include "msg/direct.h"
#include "msg/link.h"
#include "msg/out.h"
#include "msg/request.h"
#include "msg/window.h"
#include "util/clock.h"
#include "util/failpoint.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>

#define MOVE_STOP_NS 100000000 /* for the chunk that the peer is copying when a call gives up */
#define MOVE_GONE_NS                                                                               \
    1000000000 /* for the report of a peer that has closed its window, or is gone */

/* The receive does not use the cell any more. */
static void move_received(struct msg_request *r, int code)
{
    struct msg_link *l = r->link;
    const uint32_t cell = r->cell_number;

    msg_request_received(l->msg, r, code); /* may free it */
    RPIPE_FAILPOINT("rmsg copy: receive complete, before MOVED");
    msg_out_say(l, MSG_WIRE_MOVED, 0, cell, NULL);
}

/* ---- one chunk ---- */

/* What a turn has done with a request. */
enum move_turn { MOVE_NOTHING, MOVE_SOMETHING, MOVE_LINK_ENDED };

/*
 * A copy has failed. R_PENDING does not mean that the peer is gone: the chunk is held, and copied in a later turn. Else a word of the peer is
 * read. If it can be, the memory of the message is not accessible. If it cannot, the peer has closed its window before it ends the
 * link, or is gone: `in` reports it.
 */
static __attribute__((cold, noinline)) enum move_turn move_failed(struct msg_link *l, int rc)
{
    uint32_t magic = 0;
    char why[160];
    int probed;

    if (rc == R_PENDING)
        return MOVE_NOTHING;
    snprintf(why, sizeof(why), "the memory of a message cannot be accessed: %.100s",
             rpipe_error(l->out));
    probed = rc == -EPIPE ? rc
                          : rwindow_fetch(l->remote, l->probe - MSG_WIRE_WINDOW_BASE, &magic,
                                          sizeof(magic), NULL, NULL, R_NOWAIT);
    if (probed == 0 && magic == MSG_WIRE_MAGIC) {
        (void)msg_link_abort(l, MSG_WIRE_FAULT, why);
        return MOVE_LINK_ENDED;
    }
    if (probed != R_PENDING) {
        l->unreachable = true;
        l->unreachable_until = clock_now() + MOVE_GONE_NS;
    }
    return MOVE_NOTHING;
}

/* The peer cannot be reached, and nothing has reported its end yet. */
static __attribute__((cold, noinline)) enum move_turn move_unreachable(struct msg_link *l)
{
    if (l->out_code != 0 || clock_now() < l->unreachable_until)
        return MOVE_NOTHING;
    (void)msg_link_abort(l, MSG_WIRE_FAULT,
                         "its memory cannot be accessed any more, and it has not ended the link");
    return MOVE_LINK_ENDED;
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

/* The next chunk to copy: the one that is held, or one that is taken now. */
static inline bool move_take(const struct msg_request *r, uint64_t *chunk)
{
    if (MSG_UNLIKELY(r->held != 0)) {
        *chunk = r->held - 1;
        return true;
    }
    return (!r->send || cell_is_open(r->cell)) && cell_take(r->cell, r->chunks, chunk);
}

static enum move_turn move_request(struct msg_request *r)
{
    struct msg_link *l = r->link;
    uint64_t chunk;
    int rc;

    if (MSG_UNLIKELY(l->unreachable || l->out_code != 0))
        return move_unreachable(l);
    if (!move_take(r, &chunk))
        return move_complete(r) ? MOVE_SOMETHING : MOVE_NOTHING;
    RPIPE_FAILPOINT("rmsg copy: chunk taken");
    rc = move_copy(l, r, chunk);
    if (MSG_UNLIKELY(rc != 0)) {
        r->held = chunk + 1;
        return move_failed(l, rc);
    }
    r->held = 0;
    RPIPE_FAILPOINT("rmsg copy: chunk copied, not counted");
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
        enum move_turn turn = r->cell != NULL      ? move_request(r) /* may free it */
                              : msg_direct_turn(r) ? MOVE_SOMETHING
                                                   : MOVE_NOTHING;

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
    r->held = 0;
    if (r->abandoned) {
        msg_move_give_up(l->msg, r);
        return;
    }
    cell_open(r->cell);
    list_append(&l->msg->sharing, &r->queue);
}

/* A chunk that the peer has taken may still be written; one that is held here will not be. */
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
    move_drain(r, cell_stop(r->cell, CELL_RECEIVER_STOPS, r->chunks) - (r->held != 0));
    move_received(r, -ECANCELED);
    if (l->window == NULL && l->state != LINK_ENDED)
        (void)msg_link_abort(
            l, MSG_WIRE_LATE,
            "it did not finish to write into the buffer of a receive that has ended");
    (void)msg;
}

void msg_move_end(struct rmsg *msg)
{
    while (!list_empty(&msg->sharing)) {
        struct msg_request *r = container_of(msg->sharing.next, struct msg_request, queue);

        if (r->link->state == LINK_ENDED || r->send || r->cell == NULL)
            list_remove(&r->queue);
        else
            msg_move_give_up(msg, r);
    }
}
