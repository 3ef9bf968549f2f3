/* SPDX-License-Identifier: BSD-3-Clause */
/* fail.h: the error message of a call, which rerror(NULL) returns; and checks that all calls have in common. */
#ifndef MSG_FAIL_H
#define MSG_FAIL_H

#include "msg/msg.h"

/* Sets the last error of this thread; returns code. */
int msg_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* 0, or -ENOTCONN: before rinit, after rexit, in the child of a fork. */
int msg_check_job(const char *call);
/* RMALLOC_DEBUG=1: a second thread in a context gets -EBUSY, and its call is not made. */
int msg_enter_checked(struct rmsg *msg, const char *call) __attribute__((cold));
void msg_leave_checked(struct rmsg *msg) __attribute__((cold));

/* The begin of each public call. 0, or the code. msg may be NULL. */
static inline int msg_enter(struct rmsg *msg, const char *call)
{
    return MSG_LIKELY(msg == NULL || !msg->debug) ? 0 : msg_enter_checked(msg, call);
}

/* Its end. Returns rc. */
static inline int msg_leave(struct rmsg *msg, int rc)
{
    if (MSG_UNLIKELY(msg != NULL && msg->debug))
        msg_leave_checked(msg);
    return rc;
}

/* The code of a check of context, flags or job that has failed. */
int msg_unusable(const struct rmsg *msg, const char *call, int flags, int allowed)
    __attribute__((cold));
/* The code of a check of rank, space, tag and buffer that has failed. */
int msg_unfit(const struct rmsg *msg, const char *call, int peer, uint32_t space, uint32_t tag,
              const void *buf, size_t bytes, bool send) __attribute__((cold));

/*
 * 0; -EINVAL: msg is NULL, or a flag is not one of `allowed`; -ENOTCONN: the job has ended, or this is the child of a fork, which
 * shares the memory of cells with its parent and must not touch it.
 */
static inline int msg_check_call(const struct rmsg *msg, const char *call, int flags, int allowed)
{
    if (MSG_LIKELY(msg != NULL && (flags & ~allowed) == 0 && rpipe_initialized() == 1))
        return 0;
    return msg_unusable(msg, call, flags, allowed);
}

/* 0 or the code: rank, space, tag and buffer of a send or of a receive. */
static inline int msg_check(const struct rmsg *msg, const char *call, int peer, uint32_t space,
                            uint32_t tag, const void *buf, size_t bytes, bool send)
{
    if (MSG_LIKELY(((peer >= 0 && peer < msg->ranks) || (!send && peer == RMSG_ANY_SOURCE)) &&
                   space < RMSG_SPACES && (!send || tag != RMSG_ANY_TAG) &&
                   (bytes == 0 || buf != NULL)))
        return 0;
    return msg_unfit(msg, call, peer, space, tag, buf, bytes, send);
}

#endif
