/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rmsg.h: messages by tag: sends and receives that are matched by source, space and tag.
 *
 * They are built on the public interface of rpipe.h alone. A context is the part of one process. It opens pipes to a
 * peer at the first send or receive. A small message travels in its slot, a middle one through memory of the pipe; a
 * large one waits until its receive is known, and then goes from buffer to buffer, or through that memory in chunks.
 *
 * Messages of one source in one space are matched in the order of their sends. A receive that was posted earlier is
 * matched first. Transfers are progressed inside the calls of this header, at no other time.
 *
 * A context belongs to one thread at a time; different threads may use different contexts at the same time.
 * rerror(NULL) explains a failure; rmsg(7) is the overview.
 */
#ifndef RMSG_H
#define RMSG_H

#include <rmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(                                                                       \
    default) /* the declarations of this header are exported, all others are hidden */

typedef struct rmsg *rmsg_t;     /* a context */
typedef uint64_t rmsg_request_t; /* a send or a receive active; 0 is none */
typedef uint64_t
    rmsg_message_t; /* a message that rmsg_mprobe has taken out of matching; 0 is none */

#define RMSG_ANY_SOURCE (-1)     /* from: a message of any rank */
#define RMSG_ANY_TAG UINT32_MAX  /* tag of a receive: any; no message has this tag */
#define RMSG_SPACES 65536        /* spaces are below this number */
#define RMSG_REQUESTS (1u << 20) /* requests of a context at most */

#define RMSG_SYNC 2       /* flags of a send: complete only when a receive has matched it */
#define RMSG_PERSISTENT 4 /* flags of isend, irecv: rmsg_start starts it, any number of times */

/* A message, as a receive or a probe reports it. The layout is final. */
typedef struct rmsg_status {
    int from;       /* rank of the sender */
    int error;      /* 0, or the code with which the request has completed */
    uint32_t space; /* space of the message */
    uint32_t tag;   /* tag of the message */
    size_t bytes;   /* bytes of the message, also where it was longer than the buffer */
} rmsg_status_t;

/* Zero is the default of every member. */
typedef struct rmsg_config {
    uint64_t
        context; /* number of the context, below 2^61 or from rcontext; the same at every peer */
    uint64_t heap_bytes; /* memory for messages from one peer, from 64 KiB; default 1 MiB */
    uint32_t
        slots; /* slots for messages from one peer, a power of two from 16; default: as of a pipe */
    uint32_t
        eager_most; /* largest message that is sent before its receive is known; default 16 KiB */
    uint32_t
        advertise_least; /* smallest buffer of which the sender is informed; default 8 KiB; UINT32_MAX: never */
    int timeout_ms; /* deadline of calls, ms; R_FOREVER, R_AT_ONCE; default: RPIPE_TIMEOUT_MS */
    const char *backend; /* as in rpipe_config_t */
    rstream_t stream;    /* that all pipes of this context are opened in; default: none */
} rmsg_config_t;

/* ---- context ---- */

/* Creates a context, after rinit. Not collective; does not wait. */
int rmsg_open(rmsg_t *msg, const rmsg_config_t *cfg, size_t size);

/* Ends a context; does not wait. Sends that have completed are delivered; requests active end. */
int rmsg_close(rmsg_t msg);

/* Sets the deadline of later calls, as timeout_ms of rmsg_config_t: 0 is the default. */
int rmsg_set_timeout(rmsg_t msg, int timeout_ms);

/* Value of a counter, such as "sent_slot"; rmsg(7) lists them. -ENOENT: unknown. */
int rmsg_count(rmsg_t msg, const char *name, uint64_t *value);

/* ---- sends and receives ---- */

/* Sends bytes at buf, which may be reused on return. flags: RMSG_SYNC, R_NOWAIT (R_PENDING: it cannot leave now). */
int rmsg_send(rmsg_t msg, int to, uint32_t space, uint32_t tag, const void *buf, size_t bytes,
              int flags);

/* Receives a message. -EMSGSIZE: it was longer; the first bytes, as many as fit, have arrived. R_NOWAIT: only one that is there. */
int rmsg_recv(rmsg_t msg, int from, uint32_t space, uint32_t tag, void *buf, size_t room,
              rmsg_status_t *status, int flags);

/* Starts a send. buf stays unchanged until the request has completed. flags: RMSG_SYNC, RMSG_PERSISTENT. */
int rmsg_isend(rmsg_t msg, int to, uint32_t space, uint32_t tag, const void *buf, size_t bytes,
               rmsg_request_t *request, int flags);

/* Starts a receive. buf is the library's until the request has completed. flags: RMSG_PERSISTENT. */
int rmsg_irecv(rmsg_t msg, int from, uint32_t space, uint32_t tag, void *buf, size_t room,
               rmsg_request_t *request, int flags);

/* ---- completion; a request that has completed becomes 0, unless it is persistent ---- */

/* Waits until *request has completed; returns its result. *request 0: returns 0 at once. R_NOWAIT: a test. */
int rmsg_wait(rmsg_t msg, rmsg_request_t *request, rmsg_status_t *status, int flags);

/* Waits until one of n requests has completed: *which; n: all are 0. Returns its result. R_NOWAIT: a test. */
int rmsg_wait_any(rmsg_t msg, rmsg_request_t *requests, int n, int *which, rmsg_status_t *status,
                  int flags);

/* Waits until all n requests have completed; returns the first failure. status: NULL, or n of them. */
int rmsg_wait_all(rmsg_t msg, rmsg_request_t *requests, int n, rmsg_status_t *status, int flags);

/* Cancels a receive, or a send that has not left; it completes with -ECANCELED, or as if not cancelled. */
int rmsg_cancel(rmsg_t msg, rmsg_request_t request);

/* Starts n persistent requests, none of which is active. */
int rmsg_start(rmsg_t msg, const rmsg_request_t *requests, int n);

/* Frees a persistent request that is not active. *request becomes 0. Its buffer stays mapped until then. */
int rmsg_request_free(rmsg_t msg, rmsg_request_t *request);

/* Progresses all transfers of the context; does not wait. */
int rmsg_progress(rmsg_t msg);

/* ---- messages that are there ---- */

/* Waits for a message that a receive would match, and leaves it there. R_NOWAIT: R_PENDING if there is none. */
int rmsg_probe(rmsg_t msg, int from, uint32_t space, uint32_t tag, rmsg_status_t *status,
               int flags);

/* The same, and takes the message out of matching: no other receive gets it. Owned until rmsg_mrecv or rmsg_free. */
int rmsg_mprobe(rmsg_t msg, int from, uint32_t space, uint32_t tag, rmsg_message_t *message,
                rmsg_status_t *status, int flags);

/* Receives a message of rmsg_mprobe. *message becomes 0. */
int rmsg_mrecv(rmsg_t msg, rmsg_message_t *message, void *buf, size_t room, rmsg_status_t *status);

/* Address of the payload where it has arrived, valid until rmsg_free. -ENOTSUP: it is still at the sender. */
int rmsg_peek(rmsg_t msg, rmsg_message_t message, const void **where);

/* Frees a message of rmsg_mprobe without receiving it. *message becomes 0. */
int rmsg_free(rmsg_t msg, rmsg_message_t *message);

#pragma GCC visibility pop

/* A macro adds the size that a structure has in this header; see "Sizes" in rmalloc.h. */
#define rmsg_open(...) rmsg_open(__VA_ARGS__, sizeof(rmsg_config_t))

#ifdef __cplusplus
}
#endif
#endif
