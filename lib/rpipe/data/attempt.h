/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attempt.h: attempts of write.c and read.c of which other calls consist: those with registered memory (rpipe/region).
 *
 * An attempt is made by call_once or call_await; its arguments are kept between attempts.
 */
#ifndef RPIPE_DATA_ATTEMPT_H
#define RPIPE_DATA_ATTEMPT_H

#include "rpipe/end/call.h"

struct region_source;

/* ---- write.c ---- */

struct alloc_arguments {
    size_t size;
    struct rdesc *d;
    bool stalled; /* calls are counted, not attempts */
    struct awaited awaited;
};
int write_alloc_attempt(struct rch *ch, void *arguments);
/* -ETIMEDOUT; where waiting could not have helped, with a message about that. */
int write_explain_timeout(struct rch *ch, const struct alloc_arguments *a);

struct write_arguments {
    struct rdesc *d;
    raddr_t handle; /* of the user: `d` is found in each attempt; if `users` is set */
    bool users;     /* else the caller of this attempt owns `d` */
    size_t bytes;
    bool wait, stalled;
    bool left;        /* memory of a device: the payload is visible outside of it */
    bool staged;      /* it was copied to memory of the host for that */
    const void *part; /* address of a part of a block, which `d` does not have; NULL: none */
    struct awaited awaited;
    const struct region_source *from; /* where the payload is; NULL: in the block of `d` */
    uint64_t number;                  /* of the message, once it has been written: for the trace */
    size_t written;                   /* its bytes */
};
#define WHOLE SIZE_MAX
int write_attempt(struct rch *ch, void *arguments);
int write_unalloc_attempt(struct rch *ch, void *arguments); /* rfree before rwrite: a descriptor */
int write_unalloc(struct rch *ch, struct rdesc *d);
/* rmalloc_nb and rwrite_nb of a message of the heap that the user does not get, at an end that was WRITER_READY. NULL: not now. */
struct rdesc *write_own_alloc(struct rch *ch, size_t size) NOINLINE;
int write_own(struct rch *ch, struct rdesc *d);
/* After a message of a fast path: the reader sleeps, or is in event mode, a fence is needed, or a watermark is reached. 0. */
int write_after(struct rch *ch) NOINLINE;
/* rflush, and the same for an end with cells (side 0): everything that was requested is complete. */
int end_flush(struct rch *ch, const char *name, enum side side);

/* ---- read.c ---- */

/* After a message of a fast path: the writer sleeps, or a fence is needed. 0. */
int read_after(struct rch *ch) NOINLINE;

struct read_arguments {
    struct rdesc *d;
    size_t size;
    bool stalled;  /* calls are counted, not attempts */
    bool extracts; /* the bytes go to memory of the program, and not to a device */
    bool peeked;   /* the size of the next message is known; if not, rread_into takes no message */
    uint64_t number; /* of the message, for the trace */
};
int read_attempt(struct rch *ch, void *arguments);
void read_release(struct rch *ch, struct rdesc *d); /* rfree of the caller's message */
/* The same of an end that is READER_READY, and rread_nb of one, whose next slot is complete. */
void read_release_mapped(struct rch *ch, struct rdesc *d) NOINLINE;
int read_own(struct rch *ch, struct rdesc **d) NOINLINE;

#endif
