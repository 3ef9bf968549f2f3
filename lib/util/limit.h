/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limit.h: the limit behind an error of the system, and where it is set; for the end of a message.
 */
#ifndef UTIL_LIMIT_H
#define UTIL_LIMIT_H

#include <errno.h>

/* "" for an error without a limit. Positive errno. */
static inline const char *limit_of(int error)
{
    switch (error) {
    case EMFILE:
        return " (descriptors of this process: see ulimit -n)";
    case ENFILE:
        return " (descriptors of this machine: see sysctl fs.file-max)";
    case ENOMEM:
        return " (memory; address space, ulimit -v; or mappings, sysctl vm.max_map_count)";
    case ENOSPC: /* of fallocate(2) for memory */
        return " (memory of this machine, or of its control group)";
    case EAGAIN: /* of pthread_create */
        return " (threads: see ulimit -u, and pids.max of the control group)";
    default:
        return "";
    }
}

/* The same of epoll_ctl(2), whose ENOSPC concerns no disk. */
static inline const char *limit_of_watch(int error)
{
    return error == ENOSPC ? " (see sysctl fs.epoll.max_user_watches)" : limit_of(error);
}

/* And of files that have a name. */
static inline const char *limit_of_file(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return " (free space there, or name a file elsewhere)";
    case EFBIG:
        return " (see ulimit -f)";
    default:
        return limit_of(error);
    }
}

#endif
