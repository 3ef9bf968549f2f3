/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attempt.h: attempts of write.c and read.c that other calls are made of: those that move the program's own memory (region.h).
 *
 * An attempt is made under call_once or call_wait, with its arguments kept between attempts.
 */
#ifndef RPIPE_DATA_ATTEMPT_H
#define RPIPE_DATA_ATTEMPT_H

#include "rpipe/end/end.h"

struct region_source;

/* ---- write.c ---- */

struct alloc_arguments {
    const char *call;
    size_t size;
    struct rdesc *d;
    bool stalled; /* calls are counted, not attempts */
    struct awaited awaited;
};
int write_alloc_attempt(struct rch *ch, void *arguments);
/* -ETIMEDOUT, with a better sentence where waiting was in vain. */
int write_explain_timeout(struct rch *ch, const struct alloc_arguments *a);

struct write_arguments {
    const char *call;
    struct rdesc *d;
    size_t bytes;
    bool wait, stalled;
    struct awaited awaited;
    const struct region_source
        *from;       /* over a network: the payload is there, and not in d's block; NULL: it is */
    uint64_t number; /* of the message, once it has been written, */
    size_t written;  /* and its bytes: for the trace */
};
#define WHOLE SIZE_MAX
int write_attempt(struct rch *ch, void *arguments);
int write_unalloc_attempt(struct rch *ch,
                          void *arguments); /* rfree of what was not sent: the descriptor */

/* ---- read.c ---- */

struct read_arguments {
    const char *call;
    raddr_t d;
    size_t size;
    bool stalled; /* calls are counted, not attempts */
    bool
        unseen; /* what comes now has not been looked at: it is not taken, only what there is instead of it */
    uint64_t number; /* of the message, for the trace */
};
int read_attempt(struct rch *ch, void *arguments);
bool read_next_size(
    struct rch *ch,
    size_t *size); /* of the next message, if there is one. Joined. Not to be believed */
void read_release(struct rch *ch, struct rdesc *d); /* rfree, of the caller's message */
int read_violation(struct rch *ch, const char *what, uint64_t a,
                   uint64_t b); /* -EPROTO: fails the channel */

#endif
