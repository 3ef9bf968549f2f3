/* SPDX-License-Identifier: BSD-3-Clause */
/* fail.c: see fail.h. */
#include "coll/engine/fail.h"

#include "coll/engine/team_call.h"
#include "util/clock.h"
#include "util/last_error.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#define FAIL_OTHERS_MS                                                                             \
    100 /* the control network names the rank that has died; a pipe reports only that it has failed */

int coll_fail(int code, const char *format, ...)
{
    char text[LAST_ERROR_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    last_error_set("%s", text);
    return code;
}

int coll_fail_named(const char *call, int code)
{
    char text[LAST_ERROR_BYTES];
    size_t bytes = strlen(call);

    snprintf(text, sizeof(text), "%s", last_error_get());
    if (strncmp(text, call, bytes) != 0 || text[bytes] != ':')
        last_error_set("%s: %s", call, text);
    return code;
}

int coll_check_job(const char *call)
{
    if (LIKELY(rpipe_initialized() == 1))
        return 0;
    return coll_fail(
        -ENOTCONN,
        "%s: this process is not in a job: before rinit, after rexit, or in the child of a fork",
        call);
}

/* ---- failures of a team ---- */

void team_withdraw(struct rteam *t, int code)
{
    if (!team_is_heavy(t))
        return;
    atomic_store_explicit(&t->head->withdrawn, (uint32_t)-code, memory_order_relaxed);
    /* release: pairs with the acquire of step_check_lender; what the program stores from here on is after the code */
    atomic_thread_fence(memory_order_release);
}

static void team_set_lost(struct rteam *t, int code, int member, const char *text)
{
    team_withdraw(t, code);
    t->lost_member = member;
    snprintf(t->lost_text, sizeof(t->lost_text), "%s", text);
    t->lost = code;
}

int team_fail(struct rteam *t, int code, int member, const char *format, ...)
{
    char text[ERROR_TEXT_BYTES];
    va_list arguments;

    if (t->lost != 0)
        return t->lost;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (code == -ECONNRESET) {
        int64_t until = clock_now() + FAIL_OTHERS_MS * NS_PER_MS;

        while (!team_is_lost(t) && clock_now() < until)
            clock_sleep(NS_PER_MS);
    }
    if (t->lost == 0) {
        team_set_lost(t, code, member, text);
        (void)rboard_fail(t->board, code);
    }
    return t->lost;
}

int team_fail_other(struct rteam *t, const struct operation *o, int member)
{
    return team_fail(
        t, -EPROTO, member,
        "member %d, rank %d, has started another operation than member %d, rank %d, as number "
        "%llu of the team, or before it; all members start the same operations with the same "
        "parameters",
        member, t->rank[member], t->me, t->rank[t->me], (unsigned long long)o->number);
}

bool team_is_lost(struct rteam *t)
{
    char text[ERROR_TEXT_BYTES];
    int member = 0, code;

    if (t->lost != 0)
        return true;
    code = rboard_lost(t->board, &member);
    if (LIKELY(code == 0))
        return false;
    if (code == -ECONNRESET)
        snprintf(text, sizeof(text), "rank %d, member %d of the team, has died", t->rank[member],
                 member);
    else
        snprintf(text, sizeof(text), "rank %d, member %d of the team, has reported a failure: %s",
                 t->rank[member], member, strerror(-code));
    team_set_lost(t, code, member, text);
    return true;
}

int team_lost_error(const struct rteam *t, const char *call)
{
    return coll_fail(t->lost, "%s: %s; operation %llu of the team is the first that is not over",
                     call, t->lost_text, (unsigned long long)t->done);
}
