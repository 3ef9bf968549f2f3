/* SPDX-License-Identifier: BSD-3-Clause */
/* membarrier.c: see membarrier.h. */
#include "util/membarrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool membarrier_tried, membarrier_is_registered; /* rinit is called by one thread */

void membarrier_register(void)
{
    const int needed = MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
    long offered;

    if (membarrier_tried)
        return;
    membarrier_tried = true;
    offered = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    if (offered < 0 || (offered & needed) != needed)
        return;
    if ((offered & MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0)
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    membarrier_is_registered =
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

bool membarrier_registered(void) { return membarrier_is_registered; }

bool membarrier_all(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}
