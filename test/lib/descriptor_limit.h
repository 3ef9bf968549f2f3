/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * descriptor_limit.h: a process that has next to none left. The limit goes down to what is open, and what lies below it is filled up.
 */
#ifndef TEST_LIB_DESCRIPTOR_LIMIT_H
#define TEST_LIB_DESCRIPTOR_LIMIT_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

/* Exactly so many more can be opened from here on. */
static inline bool descriptors_leave(int spare)
{
    struct rlimit limit;
    int fd, last = 0, own[1024], n = 0;

    for (fd = 0; fd < 1024; fd++)
        last = fcntl(fd, F_GETFD) >= 0 ? fd : last;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    limit.rlim_cur = (rlim_t)last + 1 + (rlim_t)spare;
    if (limit.rlim_cur > sizeof(own) / sizeof(own[0]) || setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    while ((fd = dup(0)) >= 0)
        own[n++] = fd;
    if (errno != EMFILE || n < spare)
        return false;
    while (spare-- > 0)
        (void)close(own[--n]);
    return true;
}

#endif
