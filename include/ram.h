/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ram.h: active messages: a request runs a handler at a peer, and is answered.
 *
 * They are built on the public interface of rpipe.h alone. A context is the part of one process. It opens pipes to a
 * peer at the first request and closes them when they are idle. Handlers run inside ram_serve() and the calls that
 * wait, at no other time. A handler reads a payload where it arrived, without a copy.
 *
 * A context belongs to one thread at a time; different threads may use different contexts at the same time.
 * rerror(NULL) explains a failure; ram(7) is the overview.
 */
#ifndef RAM_H
#define RAM_H

#include <rmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(                                                                       \
    default) /* the declarations of this header are exported, all others are hidden */

typedef struct ram *ram_t;      /* a context */
typedef uint64_t ram_request_t; /* a request that ram_wait waits for; 0 is none */

#define RAM_ARGS_MAX 8   /* arguments of a message, 64 bits each */
#define RAM_HANDLERS 255 /* handlers of a context at most */
#define RAM_RESULT 255u  /* ram_reply: instead of a handler; ram_wait returns the reply */

struct ram_internal { /* reserved for the library */
    void *link;
    raddr_t d;
    uint32_t token, flags;
    uint64_t reserved[5];
};

/* A message: as a handler gets it, as ram_wait returns it, or one that is being built. The layout is final. */
typedef struct ram_message {
    int peer;                    /* rank or peer number of the other process */
    uint32_t handler;            /* index into the handlers of the process that runs it */
    uint32_t nargs;              /* arguments in use */
    uint32_t zero;               /* 0 */
    uint64_t args[RAM_ARGS_MAX]; /* the arguments */
    void *data; /* the payload, in memory of a pipe; aligned to 64 bytes unless it is in its slot */
    size_t bytes; /* bytes of payload */
    struct ram_internal internal;
} ram_message_t;

/* A handler. message is valid until it returns, unless ram_keep keeps it. */
typedef void (*ram_function_t)(ram_t am, ram_message_t *message, void *argument);

typedef struct ram_handler {
    const char *name;   /* at most 31 bytes; compared with the name at the peer at first contact */
    ram_function_t run; /* the function */
    void *argument;     /* its last parameter */
} ram_handler_t;

/* "Same": the same value at every peer, verified at first contact. Zero is the default of every member. */
typedef struct ram_config {
    uint64_t context;              /* same; number of the context, below 2^61 or from rcontext */
    const ram_handler_t *handlers; /* same names, in any order; the table is copied */
    uint32_t nhandlers;            /* same; number of handlers, to RAM_HANDLERS */
    uint32_t credits;              /* same; unanswered requests to one peer, 1 to 250; default 32 */
    uint64_t
        request_bytes; /* same; memory for requests from one peer, from 16 KiB; default 256 KiB */
    uint32_t
        reply_bytes; /* same; largest reply with its arguments, 256 bytes to 1 MiB; default 4096 */
    int timeout_ms;  /* deadline of calls, ms; R_FOREVER, R_AT_ONCE; default: RPIPE_TIMEOUT_MS */
    uint32_t max_links;  /* links to peers above which idle ones are closed; default: no limit */
    int idle_ms;         /* ms after which an idle link is closed; R_FOREVER; default 10,000 */
    const char *backend; /* as in rpipe_config_t */
    rstream_t stream;    /* that all pipes of this context are opened in; default: none */
} ram_config_t;

/* ---- context ---- */

/* Creates a context, after rinit. Not collective; does not wait. */
int ram_init(ram_t *am, const ram_config_t *cfg, size_t size);

/* Ends a context; does not wait. An orderly end calls ram_barrier first. */
int ram_exit(ram_t am);

/* ---- requests ---- */

/* Sends a request with a copy of bytes at data. r: for ram_wait; NULL: no reply. R_NOWAIT: also in a handler. */
int ram_request(ram_t am, int peer, uint32_t handler, const uint64_t *args, uint32_t nargs,
                const void *data, size_t bytes, ram_request_t *r, int flags);

/* Runs handlers until r is answered. reply: owned by the caller until ram_free; or NULL. R_NOWAIT: runs none. */
int ram_wait(ram_t am, ram_request_t r, ram_message_t *reply, int flags);

/* Runs handlers until every request of this context is answered. Reports lost requests that have no r. */
int ram_flush(ram_t am);

/* ---- in a handler, or later for a message that was kept ---- */

/* Answers a request once. handler: index of what runs at the requester, or RAM_RESULT. Never waits for the program of the peer. */
int ram_reply(ram_t am, ram_message_t *to, uint32_t handler, const uint64_t *args, uint32_t nargs,
              const void *data, size_t bytes);

/* Keeps the message of a handler after it returns; from then on it is *kept. */
int ram_keep(ram_t am, ram_message_t *message, ram_message_t *kept);

/* Frees a message that was kept, a reply, or one that was allocated and not sent. Answers an unanswered request. */
int ram_free(ram_t am, ram_message_t *message);

/* ---- payload without a copy: allocate, fill in data, handler, nargs and args, send ---- */

/* Allocates a request of bytes to a peer in its memory; runs handlers while it waits. R_NOWAIT: also in a handler. */
int ram_request_alloc(ram_t am, int peer, size_t bytes, ram_message_t *message, int flags);

/* Allocates the reply to a request; one for each request. */
int ram_reply_alloc(ram_t am, ram_message_t *to, size_t bytes, ram_message_t *message);

/* Sends the first message->bytes of what was allocated. r: as ram_request. On failure the caller still owns it. */
int ram_send(ram_t am, ram_message_t *message, ram_request_t *r, int flags);

/* ---- running handlers ---- */

/* Runs at most `most` handlers; waits for the first: 0 not at all, ms, R_FOREVER. Returns how many, or an error. */
int ram_serve(ram_t am, int most, int timeout_ms);

/* Flushes, then waits for all ranks, and runs handlers; collective. */
int ram_barrier(ram_t am);

/* Value of a counter, such as "requests"; rinfo_counter() lists them with scope "ram". -ENOENT: unknown. */
int ram_count(ram_t am, const char *name, uint64_t *value);

#pragma GCC visibility pop

/* A macro adds the size that a structure has in this header; see "Sizes" in rmalloc.h. */
#define ram_init(...) ram_init(__VA_ARGS__, sizeof(ram_config_t))

#ifdef __cplusplus
}
#endif
#endif
