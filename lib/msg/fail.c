/* SPDX-License-Identifier: BSD-3-Clause */
/* fail.c: see fail.h. */
#include "msg/fail.h"

#include "util/last_error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int msg_fail(int code, const char *format, ...)
{
    char text[LAST_ERROR_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    last_error_set("%s", text);
    return code;
}

int msg_check_job(const char *call)
{
    char why[LAST_ERROR_BYTES];
    int rc;

    if (MSG_LIKELY(rpipe_initialized() == 1))
        return 0;
    rc = rpipe_pending(0, NULL, NULL, 0); /* its first check is that of the job */
    snprintf(why, sizeof(why), "%s", last_error_get());
    return msg_fail(rc == -ENOTCONN ? rc : -ENOTCONN, "%s: %s", call, why);
}

int msg_enter_checked(struct rmsg *msg, const char *call)
{
    const char *other = NULL;

    if (one_thread_enter(&msg->threads, call, &other))
        return 0;
    return msg_fail(-EBUSY,
                    "%s: another thread is inside %s of this context; a context belongs to one "
                    "thread at a time",
                    call, other != NULL ? other : "a call");
}

void msg_leave_checked(struct rmsg *msg) { one_thread_leave(&msg->threads); }

int msg_unusable(const struct rmsg *msg, const char *call, int flags, int allowed)
{
    if (msg == NULL)
        return msg_fail(-EINVAL, "%s: msg is NULL", call);
    if ((flags & ~allowed) != 0)
        return msg_fail(-EINVAL, "%s: flags is 0x%x; the flags of this call are 0x%x", call,
                        (unsigned)flags, (unsigned)allowed);
    return msg_check_job(call);
}

int msg_unfit(const struct rmsg *msg, const char *call, int peer, uint32_t space, uint32_t tag,
              const void *buf, size_t bytes, bool send)
{
    if (peer < 0 || peer >= msg->ranks)
        return msg_fail(-ENOENT, "%s: rank %d does not exist; the ranks of this job are 0 to %d",
                        call, peer, msg->ranks - 1);
    if (space >= RMSG_SPACES)
        return msg_fail(-EINVAL, "%s: space is %u; it must be below %d", call, space, RMSG_SPACES);
    if (send && tag == RMSG_ANY_TAG)
        return msg_fail(-EINVAL, "%s: tag is 0x%x, which is RMSG_ANY_TAG", call, tag);
    return msg_fail(-EINVAL, "%s: buf is %s for %zu bytes", call, buf == NULL ? "NULL" : "given",
                    bytes);
}
