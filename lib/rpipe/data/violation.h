/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * violation.h: the peer has written an invalid value: fails the pipe, with both values.
 */
#ifndef RPIPE_DATA_VIOLATION_H
#define RPIPE_DATA_VIOLATION_H

#include "rpipe/end/rch.h"
#include "sync/violation.h"

/* The next message of the writer; `what` names two values. -EPROTO. */
int violation_of_message(struct rch *ch, const char *what, uint64_t a, uint64_t b) NOINLINE;
/* A count or an index of the reader. -EPROTO. */
int violation_of_credits(struct rch *ch, const struct violation *v) NOINLINE;

#endif
