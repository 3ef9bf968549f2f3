/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call.h: what the slow path of every public call consists of: checks, attempts, and the one wait loop of user threads.
 *
 *     struct call call;
 *     int rc = call_begin(&call, "rflush", ch, SIDE_WRITER);
 *
 *     if (rc == 0)
 *         rc = call_await(ch, &awaited, flush_attempt, &arguments);
 *     return call_end(&call, rc);
 *
 * An attempt never waits: it returns 0, R_PENDING to be called again, or an error whose message it has set (call_error).
 */
#ifndef RPIPE_END_CALL_H
#define RPIPE_END_CALL_H

#include "rpipe/end/call_context.h"
#include "rpipe/end/error.h"
#include "rpipe/end/rch.h"

/* Enters the call `name` and checks its end: NULL, closed, forked, not the `side` (0: either). 0, or the code and its message. */
int call_begin(struct call *call, const char *name, struct rch *ch, enum side side);
/* The check alone, for a call of several ends that has been entered by call_enter. */
int call_check(struct rch *ch, enum side side);
/* Leaves it, also where call_begin has failed. Returns rc. */
int call_end(const struct call *call, int rc);

/* R_NOWAIT is the only flag of a call that takes flags. 0, or -EINVAL and its message. */
int call_check_flags(struct rch *ch, int flags);
/* Can the peer of this end still be used? 0, or the code and its message. Also of an end that is not joined. */
int call_check_peer(struct rch *ch, uint32_t state);
#define CALL_LOGGED_MS                                                                             \
    1000 /* shorter deadlines are polls: they are not logged, nor reported to the peer */
/* The other end was not opened, and never will be: its process is in rexit, or has left. */
static inline bool end_never_joins(uint32_t state)
{
    return (state & (STATE_PEER_EXITING | STATE_PEER_LEFT)) != 0 &&
           (state & (STATE_JOINED | STATE_ATTACHED | STATE_PEER_CLOSED | STATE_FAILED)) == 0;
}
/* -EPIPE at either end, and its message; the first one of an end is logged. */
int call_never_joins(struct rch *ch, uint32_t state) NOINLINE;
/* No descriptor is left; `held`: how many the user owns. -ENOMEM or -ENOBUFS and its message. */
int call_no_descriptor(struct rch *ch, uint64_t held);

typedef int (*attempt)(struct rch *ch, void *arguments);
/* What a call waits for; the attempt may change it. */
struct awaited {
    const char *what; /* for the message of the deadline: "no WHAT within 100 ms" */
    int64_t slice;    /* ns to sleep at most before the next attempt; 0: WAIT_SLICE_MS */
};
/* Attempts until the result is not R_PENDING, or the deadline passes. With RPIPE_THREADS each attempt is made under the lock. */
int call_await(struct rch *ch, const struct awaited *awaited, attempt try, void *arguments);
/* One attempt, in the same way. */
int call_once(struct rch *ch, attempt try, void *arguments);

/* The peer is dead, and everything that it may still have stored is visible. */
bool end_peer_died(const struct rch *ch, uint32_t state);
/* ": its host ...", or "" where nothing is known; for messages. Buffer of the calling thread. */
const char *end_death_reason(const struct rch *ch);

#endif
