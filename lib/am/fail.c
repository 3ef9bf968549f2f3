/* SPDX-License-Identifier: BSD-3-Clause */
/* fail.c: see fail.h. */
#include "am/fail.h"

#include "util/last_error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int am_fail(int code, const char *format, ...)
{
    char text[LAST_ERROR_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    last_error_set("%s", text);
    return code;
}

const char *am_last_error(const char *call)
{
    const char *text = last_error_get();
    size_t bytes = strlen(call);

    return strncmp(text, call, bytes) == 0 && strncmp(text + bytes, ": ", 2) == 0 ? text + bytes + 2
                                                                                  : text;
}

int am_fail_named(const char *call, int code)
{
    char text[LAST_ERROR_BYTES];

    if (code == 0 || am_last_error(call) != last_error_get())
        return code;
    snprintf(text, sizeof(text), "%s", last_error_get());
    last_error_set("%s: %s", call, text);
    return code;
}

bool am_enter_checked(struct ram *am, const char *call, int *rc)
{
    const char *other = NULL;

    if (one_thread_enter(&am->threads, call, &other))
        return true;
    *rc = am_fail(-EBUSY,
                  "%s: another thread is inside %s of this context; a context belongs to one "
                  "thread at a time",
                  call, other != NULL ? other : "a call");
    return false;
}

void am_leave_checked(struct ram *am) { one_thread_leave(&am->threads); }

int am_may_not_wait(const struct ram *am, const char *call)
{
    if (am == NULL)
        return am_fail(-EINVAL, "%s: am is NULL", call);
    return am_fail(-EDEADLK,
                   "%s: a handler must not wait; it may call ram_request with R_NOWAIT, ram_reply "
                   "and ram_keep",
                   call);
}

int am_check_job(const char *call)
{
    char why[LAST_ERROR_BYTES];
    int rc;

    if (AM_LIKELY(rpipe_initialized() == 1))
        return 0;
    rc = rpipe_pending(0, NULL, NULL,
                       0); /* its first check is that of the job, and sets the reason */
    snprintf(why, sizeof(why), "%s", am_last_error("rpending"));
    return am_fail(rc == -ENOTCONN ? rc : -ENOTCONN, "%s: %s", call, why);
}

int am_check_flags(const char *call, int flags)
{
    if (AM_LIKELY((flags & ~R_NOWAIT) == 0))
        return 0;
    return am_fail(-EINVAL, "%s: flags is 0x%x; it must be 0 or R_NOWAIT", call, (unsigned)flags);
}

int am_message_unfit(const struct ram *am, const char *call, size_t bytes, uint32_t handler,
                     const uint64_t *args, uint32_t nargs)
{
    if (am == NULL)
        return am_fail(-EINVAL, "%s: am is NULL", call);
    if (handler >= am->nhandlers && handler != WIRE_RESULT)
        return am_fail(-EINVAL, "%s: handler is %u; this context has handlers 0 to %d", call,
                       handler, (int)am->nhandlers - 1);
    if (nargs > WIRE_ARGS_MAX || (nargs > 0 && args == NULL))
        return am_fail(-EINVAL,
                       "%s: nargs is %u and args is %s; at most %d arguments are possible, and "
                       "args must be given for them",
                       call, nargs, args == NULL ? "NULL" : "given", WIRE_ARGS_MAX);
    return am_fail(-EINVAL, "%s: data is NULL for %zu bytes", call, bytes);
}
