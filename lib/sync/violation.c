/* SPDX-License-Identifier: BSD-3-Clause */
/* violation.c: see violation.h. */
#include "sync/violation.h"

#include <errno.h>

int violation_set(struct violation *v, const char *what, uint64_t value, uint64_t least,
                  uint64_t most)
{
    *v = (struct violation){what, value, least, most};
    return -EPROTO;
}
