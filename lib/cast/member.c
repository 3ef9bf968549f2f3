/* SPDX-License-Identifier: BSD-3-Clause */
/* member.c: handles of casts, and members that have left or are lost; see cast.h. */
#include "cast/cast.h"

#include "rpipe/end/error.h"
#include "rpipe/end/job_state.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>

/* ---- handles: never freed, so that a closed one can be recognized ---- */

static pthread_mutex_t member_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rcast *member_closed;
static struct rcast *member_all; /* found by leak checkers after rexit */

void cast_put_handle(struct rcast *c)
{
    c->open = false;
    pthread_mutex_lock(&member_lock);
    c->next_free = member_closed;
    member_closed = c;
    pthread_mutex_unlock(&member_lock);
}

struct rcast *cast_take_handle(void)
{
    struct rcast *c, *all;

    pthread_mutex_lock(&member_lock);
    c = member_closed;
    if (c != NULL)
        member_closed = c->next_free;
    else if ((c = malloc(sizeof(*c))) != NULL) {
        c->next_all = member_all;
        member_all = c;
    }
    pthread_mutex_unlock(&member_lock);
    if (c == NULL)
        return NULL;
    all = c->next_all;
    *c = (struct rcast){.last_lost = -1, .why_of = -1, .next_all = all};
    return c;
}

/*
 * No other thread is in a call, so the list stays as it is; what is in it is never freed. All are ended before one is awaited: a reader
 * that has yet to read one cast may be in a call of another.
 */
void cast_leave_all(int64_t deadline)
{
    for (struct rcast *c = member_all; c != NULL; c = c->next_all)
        if (c->open)
            cast_leave_begin(c);
    for (struct rcast *c = member_all; c != NULL; c = c->next_all)
        if (c->open)
            cast_leave(c, deadline);
}

int cast_begin(struct call *call, const char *name, struct rcast *c, enum cast_side side)
{
    int rc;

    call_enter(call, name);
    rc = job_check();
    if (rc != 0)
        return rc;
    if (c == NULL)
        return call_error(NULL, -EINVAL, "cast is NULL");
    if (!c->open)
        return call_error(NULL, -ENOTCONN, "the cast has been closed");
    if (side != CAST_ANY && c->writes != (side == CAST_WRITER))
        return call_error(NULL, -EBADF, "this member is a %s; only %s can make this call",
                          c->writes ? "writer" : "reader", c->writes ? "a reader" : "the writer");
    return 0;
}

/* ---- members that are gone ---- */

void cast_member_left(struct rcast *c, int member, enum cast_state state, int code,
                      const char *format, ...)
{
    struct cast_member *m = &c->member[member];
    va_list arguments;

    if (m->state != CAST_LIVE)
        return;
    m->state = (uint8_t)state;
    m->code = code;
    if (c->writes)
        c->live--;
    if (state != CAST_LOST)
        return;
    c->losses++;
    if (code == -EPROTO) {
        va_start(arguments, format);
        error_vnote(&c->why, format, arguments);
        va_end(arguments);
        c->why_of = member;
    }
}

int cast_loss_error(struct rcast *c, int member)
{
    struct cast_member *m = &c->member[member];

    if (!m->reported) {
        m->reported = true;
        c->losses--;
    }
    c->last_lost = member;
    if (m->code == -EPROTO)
        return call_error(NULL, m->code, "%s %d, rank %d, violates the protocol%s%s",
                          member == c->writer ? "the writer, member" : "the reader, member", member,
                          m->rank, c->why_of == member ? ": " : "",
                          c->why_of == member ? c->why.text : "");
    return call_error(NULL, m->code, "%s %d, rank %d, has died%s",
                      member == c->writer ? "the writer, member" : "the reader, member", member,
                      m->rank,
                      c->writes ? "; the others go on" : ", or left the job without rcast_close");
}

int cast_report_loss(struct rcast *c)
{
    for (int i = 0; c->losses > 0 && i < c->n; i++)
        if (c->member[i].state == CAST_LOST && !c->member[i].reported)
            return cast_loss_error(c, i);
    return 0;
}

/* ---- what a program asks ---- */

int rcast_count(rcast_t cast)
{
    struct call call;
    int rc = cast_begin(&call, "rcast_count", cast, CAST_ANY);

    if (rc == 0)
        rc = cast->writes ? cast->live : cast->ended == 0;
    call_leave(&call);
    return rc;
}

int rcast_lost(rcast_t cast)
{
    struct call call;
    int rc = cast_begin(&call, "rcast_lost", cast, CAST_ANY);

    if (rc == 0)
        rc = cast->last_lost;
    call_leave(&call);
    return rc;
}
