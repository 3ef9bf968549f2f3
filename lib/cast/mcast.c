/* SPDX-License-Identifier: BSD-3-Clause */
/* mcast.c: the path to readers of other hosts: its operations, opening and closing; see mcast_end.h. */
#include "cast/mcast_carrier.h"
#include "cast/mcast_drive.h"
#include "cast/mcast_message.h"
#include "cast/mcast_reader.h"
#include "cast/mcast_writer.h"

#include "control/control.h"
#include "util/clock.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const struct cast_path_ops mcast_ops;

static void mcast_progress(struct cast_path *path)
{
    struct mcast *p = mcast_of(path);

    pthread_mutex_lock(&p->lock);
    mcast_drive(p);
    pthread_mutex_unlock(&p->lock);
}

/* ---- operations of the writer ---- */

static void mcast_publish(struct cast_path *path, const struct cast_message *m)
{
    struct mcast *p = mcast_of(path);
    int64_t now;

    pthread_mutex_lock(&p->lock);
    p->queue[m->number & (p->slots - 1)] = *m;
    p->published = m->number + 1;
    RPIPE_FAILPOINT("net: rcast_write: before packets");
    if (nak_sender_room(&p->sender) < p->sender.window / 2) {
        mcast_drive(p); /* reports may have come */
    } else {
        now = clock_now();
        mcast_writer_send(p, now);
        mcast_set_timer(p, now);
        mcast_flush(p);
    }
    RPIPE_FAILPOINT("net: rcast_write: packets sent");
    pthread_mutex_unlock(&p->lock);
}

/* Reports to the cast what has been noted about a reader. */
static void mcast_report_reader(struct mcast *p, struct mcast_reader *r)
{
    struct rcast *c = p->path.cast;
    const int state = mcast_writer_peer(p, r);

    if (r->violation != NULL)
        cast_member_left(c, r->member, CAST_LOST, -EPROTO, "%s", r->violation);
    else if (r->closed)
        cast_member_left(c, r->member, CAST_CLOSED, 0, "closed");
    else if (state == -ECONNRESET)
        cast_member_left(c, r->member, CAST_LOST, -ECONNRESET, "died");
    else if (state != 0)
        cast_member_left(c, r->member, CAST_CLOSED, 0, "left the job");
    r->left = r->violation != NULL || r->closed || state != 0;
}

static uint64_t mcast_refresh(struct cast_path *path, uint64_t need)
{
    struct mcast *p = mcast_of(path);
    uint64_t least = UINT64_MAX;
    bool lives = false;

    pthread_mutex_lock(&p->lock);
    mcast_drive(p);
    for (uint32_t i = 0; i < p->readers; i++) {
        const uint64_t freed = p->sender.member[i].freed;

        if (!p->reader[i].left)
            mcast_report_reader(p, &p->reader[i]);
        if (p->reader[i].left)
            continue;
        if (!lives || (int64_t)(freed - least) < 0)
            least = freed;
        lives = true;
    }
    nak_sender_wait(&p->sender, lives && (int64_t)(least - need) < 0, clock_now());
    mcast_set_timer(p, clock_now());
    pthread_mutex_unlock(&p->lock);
    return least;
}

static void mcast_position(struct cast_path *path, int member, uint64_t *read, uint64_t *freed)
{
    struct mcast *p = mcast_of(path);

    *read = *freed = p->first;
    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < p->readers; i++)
        if (p->reader[i].member == member)
            *read = *freed = p->sender.member[i].freed; /* what it has read is not reported */
    pthread_mutex_unlock(&p->lock);
}

static void mcast_end(struct cast_path *path, uint64_t number)
{
    struct mcast *p = mcast_of(path);

    (void)number; /* that of the next message: all were published */
    pthread_mutex_lock(&p->lock);
    p->ending = true;
    mcast_drive(p);
    pthread_mutex_unlock(&p->lock);
    RPIPE_FAILPOINT("net: rcast_close: END sent");
}

static int mcast_drain(struct cast_path *path)
{
    struct mcast *p = mcast_of(path);
    int rc;

    pthread_mutex_lock(&p->lock);
    mcast_drive(p);
    rc = p->end_sent && nak_sender_done(&p->sender) ? 0 : R_PENDING;
    for (uint32_t i = 0; rc != 0 && i < p->readers; i++)
        if (!p->sender.member[i].gone && p->sender.member[i].got != p->sender.next)
            path->cast->last_lost = p->reader[i].member;
    pthread_mutex_unlock(&p->lock);
    return rc;
}

/* ---- operations of a reader ---- */

/* No message is there: has the writer left? `state` was loaded before packets were received. */
static int mcast_check_writer(const struct mcast *p, int state, struct error *err)
{
    const struct rcast *c = p->path.cast;

    if (p->receiver.ended)
        return R_EOF;
    if (p->failure != NULL)
        return error_set(err, -EPROTO, "%s", p->failure);
    if (p->writer_closed)
        return error_set(err, -ECONNRESET, "it has closed before all messages arrived here");
    if (state == 0 && !p->attached && rboard_state(c->board, c->writer) == -ECONNRESET)
        return error_set(err, -ECONNRESET,
                         "it had discarded the cast before this process opened it");
    if (state == 0)
        return R_PENDING;
    return error_set(err, -ECONNRESET, "it has %s before all messages arrived here",
                     state == -EPIPE ? "left the job" : "died");
}

static int mcast_poll(struct cast_path *path, struct cast_message *m, struct error *err)
{
    struct mcast *p = mcast_of(path);
    const int writer = path->cast->member[path->cast->writer].rank;
    const int state = control_peer_state(writer);
    int rc = 0;

    pthread_mutex_lock(&p->lock);
    if (!p->attached && !p->asked && control_peer_exiting(writer)) {
        p->asked = true;
        mcast_announce(p);
    }
    if (!p->attached || m->number == p->receiver.complete)
        mcast_drive(p);
    if (!p->attached || m->number == p->receiver.complete) {
        rc = mcast_check_writer(p, state, err);
    } else {
        const struct mcast_slot *slot = &p->slot[m->number & (p->slots - 1)];

        m->mem = slot->mem;
        m->bytes = slot->bytes;
    }
    pthread_mutex_unlock(&p->lock);
    return rc;
}

static void mcast_release(struct cast_path *path, uint64_t number, uint64_t freed)
{
    struct mcast *p = mcast_of(path);
    const uint64_t bytes = p->slot[number & (p->slots - 1)].bytes;
    bool report;

    pthread_mutex_lock(&p->lock);
    p->freed_bytes += bytes;
    report = freed != p->freed_reported && (freed - p->freed_reported >= p->slots / 4 ||
                                            p->freed_bytes >= path->cast->heap_bytes / 4);
    nak_receiver_freed(&p->receiver, freed, report);
    if (report) {
        p->freed_bytes = 0;
        p->freed_reported = freed;
        mcast_flush(p);
    }
    pthread_mutex_unlock(&p->lock);
    RPIPE_FAILPOINT("net: rcast_free: reported, or not yet");
}

/* ---- opening, closing ---- */

static void mcast_free(struct mcast *p)
{
    if (p->path.cast->writes)
        mcast_writer_close(p);
    else
        mcast_reader_close(p);
    mcast_carriers_close(p);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static int mcast_draw_key(struct mcast *p, struct error *err)
{
    if (getrandom(&p->key, sizeof(p->key), 0) != (ssize_t)sizeof(p->key))
        return error_set(err, -EIO, "there are no random numbers");
    return 0;
}

static int mcast_open(struct rcast *c, struct cast_path **path, struct error *err)
{
    struct mcast *p =
        aligned_alloc(CACHE_LINE, (sizeof(*p) + CACHE_LINE - 1) & ~(CACHE_LINE - 1ul));
    int rc;

    if (p == NULL)
        return error_set(err, -ENOMEM, "no memory for a path");
    memset(p, 0, sizeof(*p));
    p->path = (struct cast_path){&mcast_ops, c};
    pthread_mutex_init(&p->lock, NULL);
    list_init(&p->link);
    p->context = c->context;
    p->first = c->first;
    p->slots = c->slots;
    if ((rc = mcast_set_lose(p, err)) != 0 || (rc = mcast_draw_key(p, err)) != 0 ||
        (rc = mcast_carriers_open(p, err)) != 0 ||
        (rc = c->writes ? mcast_writer_open(p, err) : mcast_reader_open(p, err)) != 0 ||
        (rc = mcast_watch_reserve(p)) != 0 || (rc = mcast_register(p, err)) != 0) {
        mcast_unwatch(p);
        mcast_free(p);
        return rc;
    }
    RPIPE_FAILPOINT("net: rcast_open: before the announcement");
    pthread_mutex_lock(&p->lock);
    mcast_watch(p, MCAST_DIRECT);
    pthread_mutex_unlock(&p->lock);
    mcast_announce(p);
    RPIPE_FAILPOINT("net: rcast_open: announced");
    *path = &p->path;
    return 0;
}

static void mcast_close(struct cast_path *path)
{
    struct mcast *p = mcast_of(path);

    mcast_announce_close(p);
    mcast_unregister(p);
    RPIPE_FAILPOINT("net: rcast_close: announced");
    mcast_unwatch(p);
    mcast_free(p);
}

static void mcast_sleep(struct cast_path *path, int64_t ns) { mcast_await(mcast_of(path), ns); }

static const struct cast_path_ops mcast_ops = {
    .name = "udp",
    .open = mcast_open,
    .publish = mcast_publish,
    .refresh = mcast_refresh,
    .position = mcast_position,
    .end = mcast_end,
    .drain = mcast_drain,
    .poll = mcast_poll,
    .release = mcast_release,
    .progress = mcast_progress,
    .sleep = mcast_sleep,
    .close = mcast_close,
};

const struct cast_path_ops *const cast_remote_ops = &mcast_ops;
