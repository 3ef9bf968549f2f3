/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * service.h: the state of the control network. Inside lib/control only.
 *
 *   control.c   what the other threads call: start, stop, post, flush, questions
 *   service.c   the service thread: its loop, what comes in, timers, the end
 *   service_watch.c     what backends want to be called for
 *   peer.c      one peer: dialling, greeting, sending, and how it ends
 *
 * Who may touch what: fields marked L under control.lock; fields marked S on the service thread alone; atomics from
 * anywhere; the rest is written before the thread starts. The lock is never held while a hook runs or a socket is used.
 */
#ifndef CONTROL_SERVICE_H
#define CONTROL_SERVICE_H

#include "control/connection.h"
#include "util/error.h"

#include <pthread.h>

/* What epoll points to begins with one of these. */
enum watch { WATCH_WAKE, WATCH_JOB, WATCH_UNIX, WATCH_TCP, WATCH_CONNECTION, WATCH_BACKEND };

#define NO_TIME INT64_MAX

struct peer {
    struct link queue; /* L: messages that have been posted; later in out->outbox */
    uint64_t posted,
        gone; /* L: messages ever; gone: with the kernel, or dropped at the end of the peer */
    struct link ready; /* L: in control.ready while the service thread has something to do for it */
    _Atomic int state; /* 0, -EPIPE, -ECONNRESET; written under the lock, never back to 0 */
    _Atomic bool membarrier;
    const _Atomic uint32_t
        *_Atomic liveness;     /* set once; the page is unmapped at the end of the network */
    struct card *_Atomic card; /* set once */
    char *_Atomic ended;       /* set once: why it is taken for dead */

    struct connection *out, *in; /* S: NULL: none; `in` is always open */
    struct link alive;           /* S: in control.alive once `life` is set */
    struct link timed;           /* S: in control.timed while one of the next two is set */
    int64_t retry_at;            /* S: dial, or send, again */
    int64_t
        suspect_at; /* S: the outgoing side is lost; the incoming one has until then to say what it has */
    char *reason;          /* S: why it is suspected */
    bool goodbye_received; /* S: on our connection, while its own may still have something to say */
    bool soft;             /* S: somebody takes our calls at some address, and says nothing */
    unsigned address;      /* S: of the card, the one that is tried */
    unsigned rounds, refusals; /* S: through all addresses; greetings that ended early */
    int64_t card_patience;     /* S: until when its card may be missing */
};

struct control {
    pthread_mutex_t lock;
    pthread_cond_t moved; /* some peer's `gone` has changed, while flushers > 0 */
    bool asleep;          /* L: the service thread may be in epoll_wait */
    bool stopping;        /* L */
    int flushers;         /* L */
    uint64_t unsent;      /* L: sum of posted - gone */
    struct link ready;    /* L */
    int64_t stop_deadline;

    _Atomic bool running; /* false: nothing below may be touched */
    _Atomic bool ticking, look;
    int rank, size, local_ranks;
    bool membarrier;
    struct card card;
    struct peer *peers;
    struct control_hooks hooks;
    pthread_t thread;
    int epoll, wake, unix_listener, tcp_listener;

    struct link greeting, open, closed; /* S: connections, by state */
    struct link alive, timed;           /* S: peers */
    int greetings;                      /* S: length of `greeting` */
    int64_t timer;     /* S: not later than the first thing in `greeting` and `timed` that is due */
    int64_t next_tick; /* S */
    bool listening;    /* S: false while there are no descriptors for callers */
    bool goodbyes_sent; /* S */
    int warnings;       /* S */
};

extern struct control control;

static inline int peer_rank(const struct peer *p) { return (int)(p - control.peers); }

/* control.c */
void control_enter_service_thread(void);
bool control_running(void);
void control_wake_for_watch(void); /* a watch has a new time */

/* service_watch.c: service thread */
void watch_event(void *watch);
int64_t watch_next(void); /* when one is due; NO_TIME */
void watch_run(void);     /* what is due; and frees what has been unwatched */
void watch_forget(void);  /* when there is no such thread any more */

/* service.c */
void *service_main(void *unused);
int service_watch(int fd, void *watch, bool read, bool write, bool change);
void service_timer(int64_t when);
void service_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void service_read(struct connection *c, size_t budget); /* may end the connection, or the peer */
void service_drop(struct connection *c);                /* closes; freed at the end of the turn */

/* peer.c */
const struct card *peer_card(int rank, int64_t deadline, struct error *err);
int peer_path(const struct card *card,
              struct error *err);          /* enum control_path, or -errno and a sentence */
void peer_serve(struct peer *p);           /* S: sends, or dials */
void peer_connected(struct connection *c); /* S: connect(2) is done, well or badly */
void peer_write(struct connection *c);     /* S: the socket takes more */
/* 0; -ENOMEM: there is no memory, or no descriptor, for it now: the same frame comes again */
int peer_hello(struct connection *c, const struct wire_frame *frame, const void *body);
int peer_welcome(struct connection *c, const struct wire_frame *frame, const void *body);
void peer_lost(struct connection *c, const char *why); /* S: this connection has ended, or has to */
void peer_goodbye(struct connection *c);               /* S: it came on this connection */
void peer_end(struct peer *p, enum control_end end, const char *why);
void peer_check_liveness(void);
void peer_timer(struct peer *p, int64_t now);
void peer_greeting_late(struct connection *c);
void peer_pulse(
    struct connection
        *c); /* S: an open TCP connection of our own: does the other host still answer? */

#endif
