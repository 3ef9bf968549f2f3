/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mcast_drive.c: packets are received, and what is due is done; see mcast_drive.h.
 *
 * By the thread that calls, and by the service thread: when packets have arrived and no call has received any for
 * MCAST_DRIVEN_NS, and when something is due. So a writer that computes answers requests, and a reader that computes does not lose
 * packets.
 */
#include "cast/mcast_drive.h"

#include "cast/mcast_carrier.h"
#include "cast/mcast_reader.h"
#include "cast/mcast_writer.h"

#include "control/control.h"
#include "rpipe/end/job_state.h"
#include "util/clock.h"
#include "util/failpoint.h"
#include "util/settings.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#define MCAST_DRIVEN_NS (2 * NS_PER_MS)
#define MCAST_SLEEP_NS NS_PER_MS     /* of a call that waits, at most */
#define MCAST_BATCH (2 * NAK_WINDOW) /* packets that are received at a time */

/* ---- losses for tests ---- */

/* RPIPE_CAST_LOSE: seed:percent[:percent]; each end draws numbers of its own. */
int mcast_set_lose(struct mcast *p, struct error *err)
{
    const char *text = setting_text(SET_CAST_LOSE);
    unsigned long long seed;
    char end;
    int n;

    if (*text == '\0')
        return 0;
    n = sscanf(text, "%llu:%u:%u%c", &seed, &p->lose.drop, &p->lose.repeat, &end);
    if (n < 2 || n > 3 || p->lose.drop > 99 || p->lose.repeat > 100)
        return error_set(err, -EINVAL,
                         "RPIPE_CAST_LOSE is \"%.40s\"; it must be seed:percent or "
                         "seed:percent:percent",
                         text);
    p->lose.state = (uint64_t)(seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + (unsigned)job_own_rank();
    return 0;
}

static bool mcast_draw(struct mcast_lose *l, unsigned percent)
{
    if (percent == 0)
        return false;
    l->state ^= l->state << 13;
    l->state ^= l->state >> 7;
    l->state ^= l->state << 17;
    return (l->state >> 20) % 100 < percent;
}

/* ---- driving ---- */

static void mcast_packet(struct mcast *p, const void *packet, size_t bytes,
                         const struct mcast_arrival *a, int64_t now)
{
    struct nak_head head;

    if (nak_decode(&head, packet, bytes, p->key) != 0)
        return;
    if (p->path.cast->writes)
        mcast_writer_receive(p, &head, a, now);
    else
        mcast_reader_receive(p, &head, (const char *)packet + sizeof(head), a, now);
}

static void mcast_receive_all(struct mcast *p, int64_t now)
{
    struct mcast_arrival a;
    const void *packet;
    int n;

    p->more = false;
    for (unsigned i = 0; i < MCAST_BATCH; i++) {
        n = mcast_carriers_receive(p, &packet, &a);
        if (n < 0)
            return;
        if (mcast_draw(&p->lose, p->lose.drop))
            continue;
        RPIPE_FAILPOINT("net: rcast: packet received");
        mcast_packet(p, packet, (size_t)n, &a, now);
        if (mcast_draw(&p->lose, p->lose.repeat))
            mcast_packet(p, packet, (size_t)n, &a, now);
    }
    p->more = true;
}

static void mcast_advance(struct mcast *p, int64_t now)
{
    mcast_receive_all(p, now);
    if (p->path.cast->writes)
        mcast_writer_advance(p, now);
    else if (p->attached)
        nak_receiver_tick(&p->receiver, now);
    mcast_set_timer(p, now);
    mcast_flush(p);
}

void mcast_drive(struct mcast *p)
{
    p->driven_at = clock_now();
    mcast_advance(p, p->driven_at);
}

/* ---- the service thread ---- */

/* A call has received packets a moment ago: it will again, or what is due is done later. */
static bool mcast_is_driven(const struct mcast *p, int64_t now)
{
    return p->driven_at != 0 && now - p->driven_at < MCAST_DRIVEN_NS;
}

static void mcast_serve(struct mcast *p, int64_t now)
{
    if (!mcast_is_driven(p, now))
        mcast_advance(p, now);
    else
        mcast_set_timer(p, now);
}

static int mcast_watch_fd(const struct mcast *p, enum mcast_watch_kind which)
{
    const struct mcast_carrier *c = &p->carrier[which == MCAST_OF_DEVICE];

    return c->medium != NULL ? c->ops->fd(c->medium, which != MCAST_DIRECT) : -1;
}

static void mcast_ready(struct mcast *p, enum mcast_watch_kind which, void (*ready)(void *))
{
    int64_t now = clock_now(), delay;
    int fd;

    pthread_mutex_lock(&p->lock);
    mcast_serve(p, now);
    delay = mcast_is_driven(p, now) ? MCAST_DRIVEN_NS / 1000 : 0;
    fd = mcast_watch_fd(p, which);
    if (fd >= 0)
        (void)control_watch(fd, delay, ready, p);
    pthread_mutex_unlock(&p->lock);
}

static void mcast_ready_direct(void *arg) { mcast_ready(arg, MCAST_DIRECT, mcast_ready_direct); }
static void mcast_ready_group(void *arg) { mcast_ready(arg, MCAST_OF_GROUP, mcast_ready_group); }
static void mcast_ready_device(void *arg) { mcast_ready(arg, MCAST_OF_DEVICE, mcast_ready_device); }

static void (*const mcast_ready_of[])(void *) = {mcast_ready_direct, mcast_ready_group,
                                                 mcast_ready_device};
#define MCAST_WATCHES (sizeof(mcast_ready_of) / sizeof(mcast_ready_of[0]))

static void mcast_timer(void *arg)
{
    struct mcast *p = arg;

    pthread_mutex_lock(&p->lock);
    p->timer_at = 0;
    mcast_serve(p, clock_now());
    pthread_mutex_unlock(&p->lock);
}

void mcast_watch(struct mcast *p, enum mcast_watch_kind which)
{
    const int fd = mcast_watch_fd(p, which);

    if (fd >= 0)
        (void)control_watch(fd, 0, mcast_ready_of[which], p);
}

int mcast_watch_reserve(struct mcast *p)
{
    int rc = control_watch_reserve(mcast_timer, p);

    for (size_t i = 0; rc == 0 && i < MCAST_WATCHES; i++)
        rc = control_watch_reserve(mcast_ready_of[i], p);
    return rc;
}

void mcast_unwatch(struct mcast *p)
{
    for (size_t i = 0; i < MCAST_WATCHES; i++)
        control_unwatch(mcast_ready_of[i], p);
    control_unwatch(mcast_timer, p);
}

/* When something is due at this end, or NAK_NEVER. */
static int64_t mcast_due(const struct mcast *p)
{
    const int64_t due = p->path.cast->writes ? nak_sender_due(&p->sender)
                        : p->attached        ? nak_receiver_due(&p->receiver)
                                             : NAK_NEVER;

    if (p->more)
        return 0;
    return mcast_carriers_due(p) < due ? mcast_carriers_due(p) : due;
}

/*
 * What the control network brings ends no sleep, so that is short. The service thread stays away: it would take the packets before this
 * thread has seen them.
 */
void mcast_await(struct mcast *p, int64_t ns)
{
    struct pollfd fds[MCAST_WATCHES];
    const int64_t now = clock_now();
    struct timespec timeout;
    nfds_t n = 0;
    int64_t due;

    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < MCAST_WATCHES; i++) {
        const int fd = mcast_watch_fd(p, (enum mcast_watch_kind)i);

        if (fd >= 0)
            fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    due = mcast_due(p);
    ns = ns < MCAST_SLEEP_NS ? ns : MCAST_SLEEP_NS;
    if (due != NAK_NEVER && due - now < ns)
        ns = due > now ? due - now : 0;
    p->driven_at = now + ns;
    pthread_mutex_unlock(&p->lock);
    timeout = (struct timespec){.tv_nsec = ns};
    (void)ppoll(fds, n, &timeout, NULL);
}

/* The service thread comes MCAST_DRIVEN_NS later than due, for a thread in a call may be first; so it is not woken for each packet. */
void mcast_set_timer(struct mcast *p, int64_t now)
{
    int64_t due = mcast_due(p);

    if (due == NAK_NEVER)
        return;
    due = (due > now ? due : now) + MCAST_DRIVEN_NS;
    if (p->timer_at != 0 && p->timer_at <= due + MCAST_DRIVEN_NS)
        return;
    p->timer_at = due;
    (void)control_watch(-1, (due - now) / 1000, mcast_timer, p);
}
