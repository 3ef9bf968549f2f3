/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * violation.h: the peer has written an invalid value: fails the pipe, with both values.
 */
#ifndef RPIPE_DATA_VIOLATION_H
#define RPIPE_DATA_VIOLATION_H

#include "rpipe/end/rch.h"
#include "sync/violation.h"

/* The next message of the writer: what is wrong, and two values with their names. -EPROTO. */
int violation_of_message(struct rch *ch, const char *what, const char *first, uint64_t a,
                         const char *second, uint64_t b) NOINLINE;
/* A count or an index of the reader. -EPROTO. */
int violation_of_credits(struct rch *ch, const struct violation *v) NOINLINE;

#endif
