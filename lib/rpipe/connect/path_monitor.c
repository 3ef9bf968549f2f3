/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net_watch.c: lines that fail while nobody calls. The backend says that some line has failed (btl_host.line_failed); the service thread
 * finds the ends that are meant, waits until the peer's death is no explanation any more (net_news_ns), and then:
 *
 *   a writer's channel fails, and its reader is told: what was under way may be lost (M_NOBODY_LOOKS in model/net.pml);
 *   a reader is woken: it has a right to what is complete, and its next call finds the rest out for itself (net_failed).
 *
 * Invariant: an end is looked at under the store's lock, while it is registered and open; its line lives as long.
 */
#include "rpipe/data/path_remote.h"

#include "control/control.h"

#include <errno.h>

/* Store lock held. When to look again, in ns; 0: there is nothing to wait for. */
static int64_t look_at(struct rch *ch)
{
    uint32_t notice = atomic_load_explicit(&ch->notice, memory_order_acquire); /* pairs with notice_set */
    char reason[384];
    int64_t news;
    int rc;

    if ((notice & (NOTICE_NET | NOTICE_JOINED)) != (NOTICE_NET | NOTICE_JOINED) ||
        (notice & (NOTICE_CLOSED | NOTICE_FAILED | NOTICE_DEAD | NOTICE_LEFT)) != 0)
        return 0;
    rc = ch->ops->line_state(ch->net->line, reason, sizeof(reason));
    if (rc == 0 || rc == -EAGAIN)
        return 0;
    news = net_news_ns(ch, rc);
    if (news > 0)
        return news;
    if ((notice & NOTICE_READER) == 0) {
        if ((notice & NOTICE_BYE) == 0) {
            rc = net_reason(ch, reason, sizeof(reason));
            join_fail_locked(ch, rc, reason);
        }
    } else if (!ch->net->woken && ch->event_arm >= 0) {
        ch->net->woken = true;
        channel_kick(ch);
    }
    return 0;
}

static void look(void *unused)
{
    int64_t again = 0;
    struct meeting *m;
    size_t at = 0;

    store_lock();
    while ((m = store_next(&at)) != NULL) {
        struct link *cursor, *after;

        list_for_each (cursor, after, &m->ends) {
            int64_t ns = look_at(container_of(container_of(cursor, struct store_end, link), struct rch, end));

            if (ns > 0 && (again == 0 || ns < again))
                again = ns;
        }
    }
    store_unlock();
    if (again > 0)
        (void)control_watch(-1, again / 1000 + 1, look, unused);
}

void net_line_failed(void)
{
    if (job_is_open()) /* in rexit lines are closed, and nobody is told */
        (void)control_watch(-1, 0, look, NULL);
}

void net_watch_end(void) { control_unwatch(look, NULL); }
