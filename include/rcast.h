/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcast.h: a cast, a pipe from one writer to many readers. Each message goes to all readers, in order.
 *
 * On one host there is one ring and one heap, in memory of the writer, which all readers map for reading: a message is
 * written once, and every reader reads it where the writer filled it. Memory is used again when every live reader has
 * freed it, so a reader that does not read makes the writer wait, and nothing is ever lost.
 *
 * Opened with a list of ranks; a member is an index into it. One member writes, all others read. One end belongs to one
 * thread at a time. rerror(NULL) explains a failure.
 */
#ifndef RCAST_H
#define RCAST_H

#include <rpipe.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(                                                                       \
    default) /* the declarations of this header are exported, all others are hidden */

typedef struct rcast *rcast_t; /* a cast, as this member has it */

/*
 * "Same": the same value at every member; of heap_bytes and slots that is verified, and writer and context are the name of the
 * cast. Zero is the default of every member.
 */
typedef struct rcast_config {
    int writer;     /* same; the member that writes; default 0 */
    int timeout_ms; /* deadline of calls, ms; R_FOREVER, R_AT_ONCE; default: RPIPE_TIMEOUT_MS */
    uint64_t
        context; /* same; which of the casts of these ranks, below 2^61 or from rcontext; default 0 */
    uint64_t heap_bytes; /* same; memory for messages of more than 48 bytes; default 1 MiB */
    uint32_t
        slots; /* same; messages written and not freed by all, a power of two, to 65,536; default 256 */
    uint32_t zero;       /* 0 */
    const char *backend; /* same; of what serves other hosts, as in rpipe_config_t */
} rcast_config_t;

/* Opens a cast of n ranks, 1 to 65,536, this one among them; ranks NULL: 0 to n - 1. All open it; it does not wait. */
int rcast_open(rcast_t *cast, const rcast_config_t *cfg, const int *ranks, int n, size_t size);

/* Writer: memory for a message of at most so many bytes, aligned to 16; waits until readers have freed enough. */
int rcast_alloc(rcast_t cast, size_t bytes, void **mem, int flags);

/* Writer: sends the first `bytes` bytes at mem, from rcast_alloc, to all readers; mem is not the caller's any more. */
int rcast_write(rcast_t cast, void *mem, size_t bytes, int flags);

/* Reader: the next message, for reading until rcast_free. R_EOF: the writer has closed, and all has been read. */
int rcast_read(rcast_t cast, const void **mem, size_t *bytes, int flags);

/* Reader: frees a message, in any order. Writer: gives memory back that was not written. Never waits. */
int rcast_free(rcast_t cast, const void *mem);

/* Writer: sends a copy of `bytes` bytes to all readers; the fastest way for small messages. */
int rcast_send(rcast_t cast, const void *buf, size_t bytes, int flags);

/* Reader: copies the next message, and frees it. -EMSGSIZE: it has more than `room` bytes, and stays the next one. */
int rcast_recv(rcast_t cast, void *buf, size_t room, size_t *bytes, int flags);

/* Writer: readers that are neither lost nor have closed, as far as calls have noticed. Reader: 1, or 0 after the writer. */
int rcast_count(rcast_t cast);

/* The member that the last failure was about, or -1. */
int rcast_lost(rcast_t cast);

/* Deadline of later calls, as timeout_ms of rcast_config_t: 0 is the default. */
int rcast_set_timeout(rcast_t cast, int timeout_ms);

/*
 * Closes this end. Of the writer: waits until all living readers have opened the cast, and those on other hosts have received
 * everything; readers get all that was written, then R_EOF.
 */
int rcast_close(rcast_t cast);

/* Closes this end at once. Of the writer: readers that lack a message get -ECONNRESET, as if its process had died. */
int rcast_discard(rcast_t cast);

#pragma GCC visibility pop

/* A macro adds the size that a structure has in this header; see "Sizes" in rmalloc.h. */
#define rcast_open(...) rcast_open(__VA_ARGS__, sizeof(rcast_config_t))

#ifdef __cplusplus
}
#endif
#endif
