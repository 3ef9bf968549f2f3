/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overcommit.h: whether the kernel refuses pages of shared memory beyond the commit limit
 * (vm.overcommit_memory = 2). A page that a peer has punched out of a segment is such a page at the
 * next access: refused, it is SIGBUS (doc/security.md).
 */
#ifndef UTIL_OVERCOMMIT_H
#define UTIL_OVERCOMMIT_H

#include <stdbool.h>

/* False also where /proc is not readable. */
bool overcommit_is_strict(void);
/* /proc/sys/vm/overcommit_memory; for tests: another file. */
extern const char *overcommit_path;

#endif
