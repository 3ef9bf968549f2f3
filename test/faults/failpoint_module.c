/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoint_module.c: part of a module that has failpoints (lib/util/failpoint.h), and returns where they are: the linker's names for them are each
 * object's own. The program that loads it exports failpoint_reached().
 */
#ifndef RPIPE_FAILPOINTS
#define RPIPE_FAILPOINTS /* as the module is built */
#endif
#include "failpoint.h"

#include "util/failpoint.h"

extern struct failpoint __start_rpipe_failpoints[],
    __stop_rpipe_failpoints[]; /* NOLINT(bugprone-reserved-identifier): the linker's */

__attribute__((visibility("default"))) void step_range(struct failpoint **from,
                                                       struct failpoint **to);

void step_range(struct failpoint **from, struct failpoint **to)
{
    *from = __start_rpipe_failpoints;
    *to = __stop_rpipe_failpoints;
}
