/* SPDX-License-Identifier: BSD-3-Clause */
/* overcommit.c: see overcommit.h. */
#include "util/overcommit.h"

#include <fcntl.h>
#include <unistd.h>

const char *overcommit_path = "/proc/sys/vm/overcommit_memory";

bool overcommit_is_strict(void)
{
    int fd = open(overcommit_path, O_RDONLY | O_CLOEXEC);
    char mode = 0;
    ssize_t n;

    if (fd < 0)
        return false;
    n = read(fd, &mode, 1);
    close(fd);
    return n == 1 && mode == '2';
}
