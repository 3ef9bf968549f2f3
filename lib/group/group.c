/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.c: opening, joining and closing the members of a group, and the report of lost members; see group.h.
 */
#include "group/group.h"

#include "rpipe/end/connector.h"
#include "rpipe/end/job_state.h"
#include "util/clock.h"
#include "util/sized.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory of groups: never freed, so that a stale handle can be recognized ---- */

static pthread_mutex_t group_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rgroup *group_closed;

static void group_put(struct rgroup *g)
{
    g->open = false;
    free(g->member);
    free(g->next);
    free(g->ends);
    g->member = NULL;
    g->next = NULL;
    g->ends = NULL;
    pthread_mutex_lock(&group_lock);
    g->next_free = group_closed;
    group_closed = g;
    pthread_mutex_unlock(&group_lock);
}

/* Space for n members, of which none is open. NULL: no memory. */
static struct rgroup *group_take(int n, enum side role)
{
    struct rgroup *g;

    pthread_mutex_lock(&group_lock);
    g = group_closed;
    if (g != NULL)
        group_closed = g->next_free;
    pthread_mutex_unlock(&group_lock);
    if (g == NULL)
        g = malloc(sizeof(*g));
    if (g == NULL)
        return NULL;
    *g = (struct rgroup){.role = role, .n = n, .live = n, .lost = -1};
    g->member = calloc((size_t)n, sizeof(*g->member));
    g->ends = calloc((size_t)n, sizeof(rch_t));
    if (role == SIDE_READER)
        g->next = calloc(2 * (size_t)n, sizeof(*g->next));
    if (g->member != NULL && g->ends != NULL && (role == SIDE_WRITER || g->next != NULL))
        return g;
    group_put(g);
    return NULL;
}

/* ---- checks and failures ---- */

static int group_check(const struct rgroup *g, enum side role)
{
    int rc;

    if (g == NULL) {
        rc = job_check();
        return rc != 0 ? rc : call_error(NULL, -EINVAL, "group is NULL");
    }
    if (!g->open)
        return call_error(NULL, -ENOTCONN, "the group has been closed");
    if (job_is_forked()) /* else the members would be lost one by one */
        return job_check();
    if (role != 0 && g->role != role)
        return call_error(NULL, -EBADF,
                          "the members of this group are %s; this call is for a group of %s",
                          g->role == SIDE_WRITER ? "readers" : "writers",
                          role == SIDE_WRITER ? "readers" : "writers");
    return 0;
}

int group_begin(struct call *call, const char *name, struct rgroup *g, enum side role)
{
    call_enter(call, name);
    return group_check(g, role);
}

void group_drop(struct rgroup *g, int member)
{
    if (g->member[member].gone)
        return;
    g->member[member].gone = true;
    g->live--;
}

static int group_report(struct rgroup *g, int member, int rc, const char *reason)
{
    char copy[384]; /* `reason` may be the buffer that the message is written to */

    snprintf(copy, sizeof(copy), "%s", reason);
    return call_error(NULL, rc, "member %d, rank %d: %s", member, g->member[member].peer, copy);
}

/* Is the failure the loss of the peer? Else it concerns what the caller asks for or holds, and the member goes on. */
static bool group_is_loss(const struct group_member *m, int rc)
{
    return rc == -EPIPE || rc == -ECONNRESET || rc == -EPROTO || rc == R_EOF || rc == -ENOTCONN ||
           (atomic_load_explicit(&m->ch->state, memory_order_acquire) & STATE_FAILED) != 0;
}

int group_failed(struct rgroup *g, int member, int rc)
{
    struct group_member *m = &g->member[member];

    g->lost = member;
    if (group_is_loss(m, rc))
        group_drop(g, member);
    return group_report(g, member, rc, rpipe_error(rc == -ENOTCONN ? NULL : m->ch));
}

/* ---- opening ---- */

static int group_check_peers(const int *peers, int n)
{
    int ranks = job_ranks();

    if (n < 1 || n > GROUP_MOST || (peers == NULL && n > ranks))
        return call_error(NULL, -EINVAL, "n is %d; it must be 1 to %d", n,
                          peers == NULL ? ranks : GROUP_MOST);
    for (int i = 0; peers != NULL && i < n; i++)
        if (peers[i] < 0 || peers[i] >= ranks)
            return call_error(NULL, -ENOENT, "peers[%d] is %d; the ranks of this job are 0 to %d",
                              i, peers[i], ranks - 1);
    return 0;
}

static int group_open_member(struct rgroup *g, rpipe_config_t cfg, int member)
{
    struct group_member *m = &g->member[member];
    int rc;

    cfg.peer = m->peer;
    rc = rpipe_open(&m->ch, &cfg);
    if (rc != 0) {
        m->ch = NULL;
        return group_report(g, member, rc, rpipe_error(NULL));
    }
    m->id = m->ch->id;
    return 0;
}

/* All members or none. A peer that occurs several times has the contexts cfg->context, cfg->context + 1 ... */
static int group_open_members(struct rgroup *g, const rpipe_config_t *cfg, const int *peers)
{
    uint32_t *seen = calloc((size_t)job_ranks(), sizeof(*seen)); /* how often a peer has occurred */
    int rc = seen == NULL ? call_error(NULL, -ENOMEM, "no memory for a group of %d", g->n) : 0;

    for (int i = 0; rc == 0 && i < g->n; i++) {
        rpipe_config_t own = *cfg;

        g->member[i].peer = peers != NULL ? peers[i] : i;
        own.context += seen[g->member[i].peer]++;
        rc = group_open_member(g, own, i);
    }
    free(seen);
    for (int i = 0; rc != 0 && i < g->n && g->member[i].ch != NULL; i++)
        (void)rpipe_close(g->member[i].ch);
    return rc;
}

static int group_open(rgroup_t *group, const rpipe_config_t *cfg, const int *peers, int n,
                      size_t size)
{
    struct error err = {""};
    rpipe_config_t known;
    struct rgroup *g;
    int rc = job_check();

    if (rc != 0)
        return rc;
    if (group == NULL || cfg == NULL)
        return call_error(NULL, -EINVAL, "%s is NULL", group == NULL ? "group" : "cfg");
    rc = sized_copy(&known, sizeof(known), cfg, size, &err);
    if (rc != 0)
        return call_error(NULL, rc, "%s", err.text);
    if (known.role != RPIPE_WRITER && known.role != RPIPE_READER)
        return call_error(NULL, -EINVAL, "role is %d; set RPIPE_WRITER or RPIPE_READER",
                          (int)known.role);
    rc = group_check_peers(peers, n);
    if (rc != 0)
        return rc;
    g = group_take(n, (enum side)known.role);
    if (g == NULL)
        return call_error(NULL, -ENOMEM, "no memory for a group of %d", n);
    if (config_timeout(known.timeout_ms, &g->timeout_ms, &err) != 0)
        rc = call_error(NULL, -EINVAL, "%s", err.text);
    else
        rc = group_open_members(g, &known, peers);
    if (rc != 0) {
        group_put(g);
        return rc;
    }
    if (g->role == SIDE_READER)
        group_readers_init(g);
    g->open = true;
    *group = g;
    return 0;
}

int(rgroup_open)(rgroup_t *group, const rpipe_config_t *cfg, const int *peers, int n, size_t size)
{
    struct call call;

    call_enter(&call, "rgroup_open");
    return call_end(&call, group_open(group, cfg, peers, n, size));
}

/* ---- joining and closing ---- */

/* One deadline for all members; the deadline of each pipe stays. */
static int group_wait_member(struct rgroup *g, int member, int64_t deadline)
{
    struct group_member *m = &g->member[member];
    int64_t left = deadline == DEADLINE_NEVER ? 0 : (deadline - clock_now()) / NS_PER_MS;
    int own = m->ch->timeout_ms, rc;

    m->ch->timeout_ms = deadline == DEADLINE_NEVER ? -1 : left > 0 ? (int)left : 0;
    rc = rpipe_wait(m->ch);
    m->ch->timeout_ms = own;
    if (rc == -ETIMEDOUT) { /* that of the group, of which this member had the rest */
        g->lost = member;
        return call_error(NULL, rc, "member %d, rank %d, is not joined within %d ms: %s", member,
                          m->peer, g->timeout_ms, end_connector->pending(m->ch));
    }
    return rc == 0 ? 0 : group_failed(g, member, rc);
}

int rgroup_wait(rgroup_t group)
{
    struct call call;
    int rc = group_begin(&call, "rgroup_wait", group, 0);
    int64_t deadline = rc == 0 ? deadline_in_ms(group->timeout_ms) : 0;

    for (int i = 0; rc == 0 && i < group->n; i++) {
        if (group->member[i].gone)
            continue;
        if (group_member_is_open(&group->member[i]))
            rc = group_wait_member(group, i, deadline);
        else
            group_drop(group, i);
    }
    return call_end(&call, rc);
}

int rgroup_close(rgroup_t group)
{
    struct call call;
    int rc = group_begin(&call, "rgroup_close", group, 0), first = 0;

    if (rc != 0)
        return call_end(&call, rc);
    for (int i = 0; i < group->n; i++) {
        if (!group_member_is_open(&group->member[i]))
            continue; /* closed by the program, or by rexit */
        rc = rpipe_close(group->member[i].ch);
        if (rc != 0 && first == 0)
            first = group_report(group, i, rc,
                                 rpipe_error(rc == -ENOTCONN ? NULL : group->member[i].ch));
    }
    group_put(group);
    return call_end(&call, first);
}

/* ---- members ---- */

int rgroup_set_timeout(rgroup_t group, int timeout_ms)
{
    struct error err = {""};
    struct call call;
    int rc = group_begin(&call, "rgroup_set_timeout", group, 0);

    if (rc == 0 && config_timeout(timeout_ms, &group->timeout_ms, &err) != 0)
        rc = call_error(NULL, -EINVAL, "%s", err.text);
    for (int i = 0; rc == 0 && i < group->n; i++)
        if (group_member_is_open(&group->member[i]))
            (void)rpipe_set_timeout(group->member[i].ch, timeout_ms);
    return call_end(&call, rc);
}

static NOINLINE rch_t group_no_pipe(rgroup_t group, int member)
{
    struct call call;
    int rc = group_begin(&call, "rgroup_pipe", group, 0);

    if (rc == 0 && (member < 0 || member >= group->n))
        rc = call_error(NULL, -EINVAL, "member is %d; there are members 0 to %d", member,
                        group->n - 1);
    else if (rc == 0)
        rc = call_error(NULL, -ENOTCONN, "the pipe of member %d has been closed", member);
    call_leave(&call);
    errno = -rc;
    return NULL;
}

rch_t rgroup_pipe(rgroup_t group, int member)
{
    if (UNLIKELY(group == NULL || !group->open || member < 0 || member >= group->n ||
                 !group_member_is_open(&group->member[member])))
        return group_no_pipe(group, member);
    return group->member[member].ch;
}

/* Members whose loss a call on the pipe itself has reported. */
static void group_drop_reported(struct rgroup *g)
{
    for (int i = 0; i < g->n; i++) {
        struct group_member *m = &g->member[i];

        if (m->gone)
            continue;
        if (!group_member_is_open(m)) {
            group_drop(g, i);
        } else if (group_member_is_reported(m)) {
            group_drop(g, i);
            g->lost = i;
        }
    }
}

int rgroup_count(rgroup_t group)
{
    struct call call;
    int rc = group_begin(&call, "rgroup_count", group, 0);

    if (rc == 0) {
        group_drop_reported(group);
        rc = group->live;
    }
    return call_end(&call, rc);
}

int rgroup_lost(rgroup_t group)
{
    struct call call;
    int rc = group_begin(&call, "rgroup_lost", group, 0);

    if (rc == 0) {
        group_drop_reported(group);
        rc = group->lost;
    }
    return call_end(&call, rc);
}
