/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ram.h: active messages: a request names a handler that runs at another rank, and is answered.
 *
 * Made of channels (rpipe.h), whose public interface is all that it uses. A context is one process's part; it opens
 * channels to whom it talks to, when it does, and closes them when they are idle. Handlers run inside ram_poll() and the
 * calls that wait, never by themselves. A payload lies in memory of a channel: a handler reads it where it arrived.
 *
 * A context belongs to one thread at a time; different contexts may be used by different threads at the same time.
 * ram(7) is the overview; every function has a page in section 3 of the manual.
 */
#ifndef RAM_H
#define RAM_H

#include <rmalloc.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default) /* what is declared here is exported; all else is hidden */

typedef struct ram *ram_t;      /* a context: one process's part */
typedef uint64_t ram_request_t; /* a request that will be waited for; 0 is none */

#define RAM_ARGS_MAX 8   /* arguments of a message, 64 bits each */
#define RAM_HANDLERS 255 /* that a context may have, from 0 */
#define RAM_RESULT 255u  /* instead of a handler: the reply goes to whoever waits for it */

struct ram_internal { /* the library's own */
    void *link;
    raddr_t d;
    uint32_t token, flags;
    uint64_t reserved;
};

/* A message as its handler sees it. Good until the handler returns, unless it is kept (ram_keep). */
typedef struct ram_message {
    int peer; /* who has sent it */
    uint32_t handler;
    uint32_t nargs;
    uint32_t zero;
    uint64_t args[RAM_ARGS_MAX];
    void *
        data; /* the payload, in memory of the channel; aligned to 64 bytes if it does not ride in its slot */
    size_t bytes; /* of the payload */
    struct ram_internal internal;
} ram_message_t;

typedef void (*ram_function_t)(ram_t am, ram_message_t *message, void *arg);

typedef struct ram_handler {
    const char *name; /* at most 31 bytes; compared with the peer's at first contact */
    ram_function_t run;
    void *arg;
} ram_handler_t;

typedef struct ram_config {
    uint32_t version;              /* RAM_CONFIG_VERSION, from RAM_CONFIG_DEFAULT */
    uint32_t ctx;                  /* which of the contexts of these processes, 0..4095 */
    const ram_handler_t *handlers; /* the same names in the same order at every rank; copied */
    uint32_t nhandlers;
    uint32_t
        credits; /* requests to one peer that may be unanswered, 1..250; 0: 32. The same everywhere */
    uint64_t request_bytes; /* memory for requests from one peer; 0: 256 KiB. The same everywhere */
    uint32_t
        reply_bytes; /* largest reply, arguments included, up to 1 MiB; 0: 4096. The same everywhere */
    int timeout_ms; /* deadline of calls that wait; -1 none, RPIPE_TIMEOUT_AUTO the setting. Here */
    uint32_t
        max_links; /* idle ones are closed when there are more to others than this; 0: no limit. Here */
    int idle_ms; /* links are closed when they have been idle for so long; -1: never, 0: 10000. Here */
    const char *btl; /* as in rmalloc_config_t */
    uint64_t reserved[8];
} ram_config_t;

#define RAM_CONFIG_VERSION 1u
#define RPIPE_TIMEOUT_AUTO (-2)
/* clang-format off */
#define RAM_CONFIG_DEFAULT                                                                                             \
    { RAM_CONFIG_VERSION, 0, NULL, 0, 0, 0, 0, RPIPE_TIMEOUT_AUTO, 0, 0, NULL, { 0, 0, 0, 0, 0, 0, 0, 0 } }
/* clang-format on */

/* ---- context ---- */

int ram_init(ram_t *am, const ram_config_t *cfg); /* after rinit; not collective, does not wait */
int ram_exit(ram_t am);                           /* does not wait; before it: ram_barrier */

/* ---- requests ---- */

/* data is copied into memory of the peer. r: for ram_wait; NULL: nobody will ask */
int ram_request(ram_t am, int peer, uint32_t handler, const uint64_t *args, uint32_t nargs,
                const void *data, size_t bytes, ram_request_t *r);
/* R_PENDING: no credit, no memory, or no link yet. Handlers may call it */
int ram_request_nb(ram_t am, int peer, uint32_t handler, const uint64_t *args, uint32_t nargs,
                   const void *data, size_t bytes, ram_request_t *r);
/* Runs handlers until the answer is there. reply: yours until ram_free; NULL: of no interest */
int ram_wait(ram_t am, ram_request_t r, ram_message_t *reply);
int ram_test(ram_t am, ram_request_t r,
             ram_message_t *reply); /* the same, without waiting or running anything */
int ram_flush(ram_t am);            /* until every request of this context is answered */

/* ---- in a handler, or later for a message that was kept ---- */

/* handler: one of the requester's, or RAM_RESULT. Never waits for the program of the peer */
int ram_reply(ram_t am, ram_message_t *to, uint32_t handler, const uint64_t *args, uint32_t nargs,
              const void *data, size_t bytes);
int ram_keep(ram_t am, ram_message_t *message,
             ram_message_t *kept);           /* the message outlives its handler */
int ram_free(ram_t am, ram_message_t *kept); /* answers it, if nobody has */

/* ---- payload without a copy: memory first, then the message ---- */

typedef struct ram_buffer {
    void *data; /* to be filled */
    size_t bytes;
    struct ram_internal internal;
} ram_buffer_t;

int ram_request_alloc(ram_t am, int peer, size_t bytes, ram_buffer_t *b);
int ram_request_send(ram_t am, ram_buffer_t *b, size_t bytes, uint32_t handler,
                     const uint64_t *args, uint32_t nargs, ram_request_t *r);
int ram_reply_alloc(ram_t am, ram_message_t *to, size_t bytes, ram_buffer_t *b);
int ram_reply_send(ram_t am, ram_message_t *to, ram_buffer_t *b, size_t bytes, uint32_t handler,
                   const uint64_t *args, uint32_t nargs);
int ram_buffer_free(ram_t am, ram_buffer_t *b); /* one that was not sent */

/* ---- running handlers ---- */

int ram_poll(ram_t am, int most); /* runs at most so many; how many, or an error. Does not wait */
int ram_serve(ram_t am, int most,
              int timeout_ms); /* waits for the first; 0 after timeout_ms, -1: for ever */
int ram_barrier(ram_t am);     /* collective: flush, then wait for all, running handlers */

/* ---- what happened ---- */

typedef struct ram_stats {
    uint64_t requests;      /* sent */
    uint64_t replies;       /* received, acknowledgements not counted */
    uint64_t handled;       /* handlers run */
    uint64_t answered;      /* replies sent */
    uint64_t bytes_out;     /* of payload, in requests and replies */
    uint64_t bytes_in;      /* the same, received */
    uint64_t stalls_credit; /* calls that found every credit of the peer in use */
    uint64_t stalls_memory; /* calls that found no memory for a request */
    uint64_t opened;        /* links to others, each time */
    uint64_t accepted;      /* links from others, each time */
    uint64_t retired;       /* links to others that were closed because they were idle */
    uint64_t failed;        /* links that ended with an error */
    uint32_t links_out;     /* to others, now; two channels each */
    uint32_t links_in;      /* from others, now; two channels each */
    uint32_t outstanding;   /* requests that are not answered */
    uint32_t kept;          /* messages and buffers that the user holds */
    uint64_t reserved[8];
} ram_stats_t;

int ram_stats(ram_t am, ram_stats_t *st);
const char *ram_error(ram_t am); /* the last failure as a sentence; NULL: of ram_init. Never NULL */

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
