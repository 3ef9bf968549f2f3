/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * violation.h: a word in shared memory that the other end cannot have written by the protocol: its value and the valid range.
 *
 * The code of lib/sync detects violations and returns -EPROTO; its caller reports them and fails the pipe.
 */
#ifndef SYNC_VIOLATION_H
#define SYNC_VIOLATION_H

#include <stdint.h>

struct violation {
    const char *what; /* the quantity, for "WHAT is VALUE; valid are LEAST to MOST" */
    uint64_t value, least, most;
};

/* Fills `v` and returns -EPROTO. */
int violation_set(struct violation *v, const char *what, uint64_t value, uint64_t least,
                  uint64_t most);

#endif
