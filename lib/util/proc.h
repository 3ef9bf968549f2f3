/* SPDX-License-Identifier: BSD-3-Clause */
/* proc.h: the state of processes and threads from proc(5). */
#ifndef UTIL_PROC_H
#define UTIL_PROC_H

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The letter of a state, from the `stat` of a process or thread; 0: there is none; '?': the file
 * is malformed. */
static inline char proc_state(const char *path)
{
    char text[512], *name_ends;
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return 0;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    name_ends =
        strrchr(text, ')'); /* a name may have parentheses and blanks; what follows has none */
    return name_ends != NULL && name_ends[1] == ' ' ? name_ends[2] : '?';
}

#endif
