/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c: see progress.h; and rmsg_progress.
 *
 * All pipes that are read are in one array; a turn takes a few messages of each, so no peer can starve another. What is rare (peers
 * that open links) is checked in turns that find nothing. A wait polls for some microseconds. Then it sleeps in rpoll if nothing waits to be
 * sent; else the processor is given away between two attempts, since no pipe wakes a writer and a reader at the same time.
 */
#include "msg/progress.h"

#include "msg/arrive.h"
#include "msg/fail.h"
#include "msg/link.h"
#include "msg/move.h"
#include "msg/out.h"
#include "msg/prepare.h"

#include "util/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>

#define PROGRESS_OTHERS_EVERY 4 /* turns for one link, one for the others */
#define PROGRESS_POLLS 64       /* turns that find nothing, before the thread waits */
#define PROGRESS_FINDS 64       /* turns that find something, between two checks of the deadline */
#define PROGRESS_SLICE_MS 1     /* of waiting, between two checks of what rpoll does not see */
#define PROGRESS_YIELD_NS 1000000 /* of giving the processor away, before the thread sleeps, */
#define PROGRESS_SLEEP_NS 50000   /* so long each time */

/* ---- one turn ---- */

static bool progress_read_all(struct rmsg *msg)
{
    bool arrived = false;

    for (int left = msg->readers; left > 0 && msg->readers > 0; left--) {
        int i = msg->cursor < msg->readers ? msg->cursor : 0;

        msg->cursor = i + 1;
        if (msg_arrive_some(msg->reader[i], PROGRESS_BURST))
            arrived = true;
    }
    return arrived;
}

/* True: a chunk of a payload was copied, or the network has got or completed one. */
static inline bool progress_send_all(struct rmsg *msg)
{
    struct link *at, *after;

    list_for_each (at, after, &msg->busy)
        (void)msg_out_push(container_of(at, struct msg_link, busy));
    return !list_empty(&msg->sharing) && msg_move_turn(msg);
}

static MSG_INLINE bool progress_read(struct rmsg *msg)
{
    bool arrived = progress_read_all(msg);

    if (MSG_UNLIKELY(++msg->turns % PROGRESS_THOROUGH_EVERY == 0 || msg->opening > 0 ||
                     msg->readers == 0))
        msg_link_accept(msg);
    return arrived;
}

bool msg_progress_read(struct rmsg *msg) { return progress_read(msg); }
bool msg_progress_send(struct rmsg *msg) { return progress_send_all(msg); }

bool msg_progress_all(struct rmsg *msg)
{
    bool arrived = progress_read(msg);

    return progress_send_all(msg) || arrived;
}

bool msg_progress_turn(struct rmsg *msg, struct msg_link *l, uint32_t turn)
{
    bool arrived;

    if (l == NULL || l->state != LINK_OPEN)
        return msg_progress_all(msg);
    arrived = msg_arrive_some(l, PROGRESS_BURST);
    if (turn % PROGRESS_THOROUGH_EVERY == PROGRESS_THOROUGH_EVERY - 1 ||
        (turn % PROGRESS_OTHERS_EVERY == PROGRESS_OTHERS_EVERY - 1 && msg->readers > 1))
        return msg_progress_all(msg) || arrived;
    return progress_send_all(msg) || arrived;
}

/* ---- waiting ---- */

static int progress_sleep(struct rmsg *msg)
{
    char why[160];
    int rc;

    if (msg->readers == 0) {
        (void)rpipe_progress(); /* corked messages leave */
        clock_sleep(PROGRESS_SLEEP_NS);
        return msg_check_job("a wait");
    }
    rc = rpipe_poll(msg->reading, msg->readers, msg->ready, PROGRESS_SLICE_MS);
    if (MSG_LIKELY(rc == 0 || rc == -ETIMEDOUT))
        return 0;
    snprintf(why, sizeof(why), "%s", rpipe_error(NULL));
    return msg_fail(rc, "the pipes of this context cannot be read: %s", why);
}

/* Something waits to be sent. */
static int progress_yield(struct msg_wait *w)
{
    int64_t now = clock_now();

    if (w->yields == 0)
        w->yields = now;
    if (now - w->yields < PROGRESS_YIELD_NS) {
        sched_yield();
        return 0;
    }
    clock_sleep(PROGRESS_SLEEP_NS);
    return msg_check_job("a wait");
}

/* Before a turn: after the last one the caller was not done. */
static int progress_deadline(const struct rmsg *msg, struct msg_wait *w)
{
    int64_t now = msg_now_ms();

    w->due = false;
    if (w->deadline == 0)
        w->deadline = msg->timeout_ms < 0 ? INT64_MAX : now + msg->timeout_ms;
    if (now < w->deadline)
        return 0;
    return msg_fail(-ETIMEDOUT, "not done within %d ms", msg->timeout_ms);
}

/*
 * A thread that polls more often than messages come takes each slot from its writer before the writer has stored there, and a stream
 * takes a transfer of a line for each message. With one pause 8 bytes in a window of 64 took 65 to 112 ns each, with two 38, with four 39;
 * the latency of one message is the same.
 */
static inline void progress_pause(void)
{
    msg_pause();
    msg_pause();
}

int msg_progress_wait(struct rmsg *msg, struct msg_link *l, struct msg_wait *w)
{
    int rc = MSG_UNLIKELY(w->due) ? progress_deadline(msg, w) : 0;

    if (MSG_UNLIKELY(rc != 0))
        return rc;
    if (msg_progress_turn(msg, l, w->turns)) {
        w->turns = 0;
        w->yields = 0;
        w->due = ++w->found % PROGRESS_FINDS == 0;
        return 0;
    }
    msg_prepare(msg);
    if (MSG_LIKELY(++w->turns < PROGRESS_POLLS)) {
        progress_pause();
        return 0;
    }
    w->due = true;
    (void)msg_progress_all(msg);
    return list_empty(&msg->busy) && list_empty(&msg->sharing) ? progress_sleep(msg)
                                                               : progress_yield(w);
}

static int progress_call(struct rmsg *msg)
{
    int rc = msg_check_call(msg, "rmsg_progress", 0, 0);

    if (rc == 0 && !msg_progress_all(msg))
        rc = msg_check_job("rmsg_progress");
    return rc;
}

int rmsg_progress(rmsg_t msg)
{
    int rc = msg_enter(msg, "rmsg_progress");

    return rc != 0 ? rc : msg_leave(msg, progress_call(msg));
}
