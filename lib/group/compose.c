/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compose.c: opening, joining and closing the parts of an object, and who is told of a partner's end; see compose.h.
 */
#include "group/compose.h"

#include "util/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory of objects: never given back, so that a stale handle can be looked at ---- */

static pthread_mutex_t compose_lock = PTHREAD_MUTEX_INITIALIZER;
static struct group *compose_closed;

static struct group *compose_object_take(void)
{
    struct group *c;

    pthread_mutex_lock(&compose_lock);
    c = compose_closed;
    if (c != NULL)
        compose_closed = c->next_free;
    pthread_mutex_unlock(&compose_lock);
    if (c == NULL)
        c = malloc(COMPOSE_BYTES);
    if (c != NULL)
        memset(c, 0, COMPOSE_BYTES);
    return c;
}

static void compose_object_put(struct group *c)
{
    c->kind = GROUP_CLOSED;
    free(c->part);
    c->part = NULL;
    pthread_mutex_lock(&compose_lock);
    c->next_free = compose_closed;
    compose_closed = c;
    pthread_mutex_unlock(&compose_lock);
}

int group_check(struct group *c, enum group_kind kind, const char *call)
{
    int rc;

    if (LIKELY(c != NULL && c->kind == kind))
        return 0;
    rc = job_refuses(call);
    if (rc != 0 && c == NULL)
        return rc;
    last_error_set("%s: %s", call,
                   c == NULL ? "the object is NULL"
                             : "this object has been closed, or is of another kind");
    return c == NULL ? -EINVAL : -ENOTCONN;
}

/* ---- what went wrong, and with whom ---- */

static int compose_append_text(const struct group *c, const char *call, int place, int rc,
                               const char *reason)
{
    char copy[384]; /* `reason` may lie where the sentence will */

    snprintf(copy, sizeof(copy), "%s", reason);
    last_error_set("%s: place %d, rank %d: %s", call, place, c->part[place].rank, copy);
    return rc;
}

int group_blame(struct group *c, const char *call, int place, int rc)
{
    c->who = place;
    return compose_append_text(c, call, place, rc,
                               rpipe_error(rc == -ENOTCONN ? NULL : c->part[place].ch));
}

void group_drop(struct group *c, int place)
{
    if (c->part[place].gone)
        return;
    c->part[place].gone = true;
    c->live--;
}

int group_lose(struct group *c, const char *call, int place, int rc)
{
    group_drop(c, place);
    return group_blame(c, call, place, rc);
}

/* ---- opening ---- */

int group_make(struct group **out, const char *call, const rpipe_config_t *cfg, int n)
{
    struct error err = {""};
    struct group *c;

    if (cfg->op != RPIPE_PUT && cfg->op != RPIPE_GET) {
        last_error_set("%s: op is %d; it must be RPIPE_PUT or RPIPE_GET", call, (int)cfg->op);
        return -EINVAL;
    }
    c = compose_object_take();
    if (c != NULL)
        c->part = calloc((size_t)n, sizeof(*c->part));
    if (c == NULL || c->part == NULL) {
        if (c != NULL)
            compose_object_put(c);
        last_error_set("%s: no memory for an object with %d partners", call, n);
        return -ENOMEM;
    }
    c->n = c->live = n;
    c->who = -1;
    if (config_timeout(cfg->timeout_ms, &c->timeout_ms, &err) != 0) {
        compose_object_put(c);
        last_error_set("%s: %s", call, err.text);
        return -EINVAL;
    }
    *out = c;
    return 0;
}

int group_open_member(struct group *c, const char *call, const rpipe_config_t *cfg, int place,
                      int rank, uint64_t context, enum side side)
{
    struct group_member *p = &c->part[place];
    rpipe_config_t own = *cfg;
    int rc;

    own.role = (rpipe_role_t)side;
    own.peer = p->rank = rank;
    own.context = context;
    rc = rpipe_open(&p->ch, &own);
    if (rc != 0) {
        p->ch = NULL;
        return compose_append_text(c, call, place, rc, rpipe_error(NULL));
    }
    p->whose = p->ch->whose;
    return 0;
}

void group_abandon(struct group *c)
{
    int i;

    for (i = 0; i < c->n && c->part[i].ch != NULL; i++)
        (void)rpipe_close(c->part[i].ch);
    compose_object_put(c);
}

static int compose_refuses_list(const char *call, const rpipe_config_t *cfg, const int *ranks,
                                int n)
{
    int rc = job_refuses(call), size = rpipe_network_ranks(), i;

    if (rc != 0)
        return rc;
    if (cfg == NULL) {
        last_error_set("%s: needs a configuration (NULL)", call);
        return -EINVAL;
    }
    if (n < 1 || n > COMPOSE_MOST || (ranks == NULL && n > size)) {
        last_error_set("%s: %d partners; there must be 1 to %d", call, n,
                       ranks == NULL ? size : COMPOSE_MOST);
        return -EINVAL;
    }
    for (i = 0; ranks != NULL && i < n; i++)
        if (ranks[i] < 0 || ranks[i] >= size) {
            last_error_set("%s: place %d is rank %d; the ranks of this job are 0 to %d", call, i,
                           ranks[i], size - 1);
            return -EINVAL;
        }
    return 0;
}

int group_open(struct group **out, enum group_kind kind, const char *call,
               const rpipe_config_t *cfg, const int *ranks, int n, enum side side)
{
    uint32_t *seen; /* how often a rank has occurred so far */
    struct group *c;
    int rc = compose_refuses_list(call, cfg, ranks, n), i;

    if (rc == 0)
        rc = group_make(&c, call, cfg, n);
    if (rc != 0)
        return rc;
    seen = calloc((size_t)rpipe_network_ranks(), sizeof(*seen));
    if (seen == NULL) {
        last_error_set("%s: no memory for an object with %d partners", call, n);
        rc = -ENOMEM;
    }
    for (i = 0; rc == 0 && i < n; i++) {
        int rank = ranks != NULL ? ranks[i] : i;

        rc = group_open_member(c, call, cfg, i, rank, cfg->context + seen[rank]++, side);
    }
    free(seen);
    if (rc != 0) {
        group_abandon(c);
        return rc;
    }
    c->kind = kind;
    *out = c;
    return 0;
}

/* ---- the rest of a life ---- */

int group_close(struct group *c, enum group_kind kind, const char *call)
{
    int i, rc = group_check(c, kind, call), first = 0;

    if (rc != 0)
        return rc;
    for (i = 0; i < c->n; i++) {
        if (!group_member_is_open(&c->part[i]))
            continue; /* by the user, or by rexit */
        rc = rpipe_close(c->part[i].ch);
        if (rc != 0 && first == 0) {
            compose_append_text(c, call, i, rc,
                                rpipe_error(rc == -ENOTCONN ? NULL : c->part[i].ch));
            first = rc;
        }
    }
    compose_object_put(c);
    return first;
}

/* The deadline is one for all, the parts' own is each one's. */
static int compose_wait_for_part(struct group *c, const char *call, int place, int64_t deadline)
{
    struct group_member *p = &c->part[place];
    int64_t left = deadline == DEADLINE_NEVER ? 0 : (deadline - clock_now()) / NS_PER_MS;
    int own = p->ch->timeout_ms, rc;

    p->ch->timeout_ms = deadline == DEADLINE_NEVER ? -1 : left > 0 ? (int)left : 0;
    rc = rpipe_wait(p->ch);
    p->ch->timeout_ms = own;
    if (rc == 0)
        return 0;
    return group_member_is_lost(p, rc) ? group_lose(c, call, place, rc)
                                       : group_blame(c, call, place, rc);
}

int group_wait(struct group *c, enum group_kind kind, const char *call)
{
    int i, rc = group_check(c, kind, call);
    int64_t deadline;

    if (rc != 0)
        return rc;
    deadline = deadline_in_ms(c->timeout_ms);
    for (i = 0; i < c->n; i++) {
        if (c->part[i].gone)
            continue;
        if (!group_member_is_open(&c->part[i])) {
            group_drop(c, i);
            continue;
        }
        rc = compose_wait_for_part(c, call, i, deadline);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int group_set_timeout(struct group *c, enum group_kind kind, const char *call, int ms)
{
    int i, rc = group_check(c, kind, call);

    if (rc != 0)
        return rc;
    if (ms < -1) {
        last_error_set("%s: %d ms; it must be -1 (no deadline) or more", call, ms);
        return -EINVAL;
    }
    c->timeout_ms = ms;
    for (i = 0; i < c->n; i++)
        if (group_member_is_open(&c->part[i]))
            (void)rpipe_set_timeout(c->part[i].ch, ms);
    return 0;
}

int group_rank(struct group *c, enum group_kind kind, const char *call, int place)
{
    int rc = group_check(c, kind, call);

    return rc != 0 ? rc : place < 0 || place >= c->n ? -EINVAL : c->part[place].rank;
}

int group_index(struct group *c, enum group_kind kind, const char *call, int rank)
{
    int i, rc = group_check(c, kind, call);

    for (i = 0; rc == 0 && i < c->n; i++)
        if (c->part[i].rank == rank)
            return i;
    return rc != 0 ? rc : -ENOENT;
}

int group_live(struct group *c, enum group_kind kind, const char *call)
{
    int rc = group_check(c, kind, call);

    return rc != 0 ? rc : c->live;
}

int group_last_failed(struct group *c, enum group_kind kind, const char *call)
{
    int rc = group_check(c, kind, call);

    return rc != 0 ? rc : c->who;
}
