/* SPDX-License-Identifier: BSD-3-Clause */
/* fail.h: the error message of a call, which rerror(NULL) returns; and checks that all calls have in common. */
#ifndef AM_FAIL_H
#define AM_FAIL_H

#include "am/am.h"

/* Sets the last error of this thread; returns code. */
int am_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Returns code. Unless it is 0, the last error of this thread begins with the name of the public call afterwards. */
int am_fail_named(const char *call, int code) __attribute__((cold));

/* The last error of this thread without the name of the call, for a message of that call. */
const char *am_last_error(const char *call);

/* RMALLOC_DEBUG=1: a second thread in a context gets -EBUSY, and its call is not made. */
bool am_enter_checked(struct ram *am, const char *call, int *rc);
void am_leave_checked(struct ram *am);

/* The begin of each public call. False: *rc is the code. am may be NULL. */
static AM_INLINE bool am_enter(struct ram *am, const char *call, int *rc)
{
    return AM_LIKELY(am == NULL || !am->debug) || am_enter_checked(am, call, rc);
}

/* Its end. Returns rc. */
static AM_INLINE int am_leave(struct ram *am, int rc)
{
    if (AM_UNLIKELY(am != NULL && am->debug))
        am_leave_checked(am);
    return rc;
}

/* -EINVAL or -EDEADLK: no context, or in a handler. */
int am_may_not_wait(const struct ram *am, const char *call);

/* May this call wait? If not, *rc is the code. */
static inline bool am_may_wait(const struct ram *am, const char *call, int *rc)
{
    if (AM_LIKELY(am != NULL && !am->in_handler))
        return true;
    *rc = am_may_not_wait(am, call);
    return false;
}

/* 0, or -ENOTCONN: before rinit, after rexit, in the child of a fork. */
int am_check_job(const char *call);

/* 0, or -EINVAL for flags other than R_NOWAIT. */
int am_check_flags(const char *call, int flags);

/* Is the message valid, apart from its length? If not, *rc is the code. */
int am_message_unfit(const struct ram *am, const char *call, size_t bytes, uint32_t handler,
                     const uint64_t *args, uint32_t nargs);
static AM_INLINE bool am_message_fits(const struct ram *am, const char *call, size_t bytes,
                                      uint32_t handler, const uint64_t *args, uint32_t nargs,
                                      const void *data, int *rc)
{
    if (AM_LIKELY(am != NULL && (handler < am->nhandlers || handler == WIRE_RESULT) &&
                  nargs <= WIRE_ARGS_MAX && (nargs == 0 || args != NULL) &&
                  (bytes == 0 || data != NULL)))
        return true;
    *rc = am_message_unfit(am, call, bytes, handler, args, nargs);
    return false;
}

#endif
