/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state.h: the state of the control network, and what the modules of
 * lib/control do to it in common. Inside lib/control only.
 *
 * The modules, from the ground up; each calls those before it only. What has to
 * go the other way is a table of functions that the upper module registers:
 * receive_set_handlers(), control_lane_hooks, control_hooks.
 *
 *   wire, card, liveness, endpoint, message, connection, lane
 *                               layouts, and objects that refer to no peer
 *   state                       this
 *   peer_card                   the business card of a peer, and the kind of connection to it
 *   post                        what other threads queue for a peer
 *   receive                     frames out of a connection, to the registered handlers
 *   peer_end                    how a peer ends
 *   peer_loss, peer_send        a connection ends; a connection takes more bytes
 *   greeting, peer_dial         HELLO and WELCOME; outgoing connections
 *   dispatch, accept, watch     a frame, a connection, an event for a backend has come
 *   service                     the service thread: its loop, timers, and the orderly end
 *   transfer, collective        network_send(3) and so on, over lanes
 *   control                     start and stop
 *
 * Access: fields marked L under control.lock; fields marked S on the service
 * thread alone; atomics from any thread; the rest is written before the service
 * thread starts. The lock is never held while a hook runs or a socket is used.
 */
#ifndef CONTROL_STATE_H
#define CONTROL_STATE_H

#include "control/connection.h"
#include "control/hooks.h"
#include "control/liveness.h"
#include "util/thread.h"

#include <pthread.h>

/* What epoll points to begins with one of these. */
enum watch { WATCH_WAKE, WATCH_JOB, WATCH_UNIX, WATCH_TCP, WATCH_CONNECTION, WATCH_BACKEND };

#define NO_TIME INT64_MAX

/* What collective.c registers. Service thread. */
struct control_lane_hooks {
    /* A message of the types WIRE_CHUNK to WIRE_LEAVE. 0; -ENOMEM: the same message has to be
     * delivered again */
    int (*message)(int from, uint32_t type, const void *body, size_t bytes);
    /* The peer has sent its greeting, or has ended. */
    void (*peer_changed)(int peer);
};

/* Of a card, for calls that ask again: it stays when the card is freed. */
struct card_facts {
    bool known, same_kernel, shows_host;
    int path; /* enum control_path, or -errno: peer_card_path() */
    uint32_t backends;
    struct control_host host;
    struct control_process process;
};

/* Where WIRE_EXITING for a peer is. What was queued on the peer's own connection is lost with it. */
enum exiting_sent { EXITING_NOT, EXITING_QUEUED, EXITING_ON_IN };

struct peer {
    /* L: messages that have been posted; the service thread moves them to out->outbox */
    struct link queue;
    uint64_t posted; /* L: messages posted in all */
    /* L: of them, those that the kernel has, or that were dropped at the end of the peer */
    uint64_t completed;
    /* L: in control.ready while the service thread has something to do for this peer */
    struct link ready;
    _Atomic int state; /* 0, -EPIPE, -ECONNRESET; written under the lock, never back to 0 */
    _Atomic bool membarrier;
    _Atomic uint32_t window[WIRE_LANES]; /* of the lanes to the peer; 0: not greeted yet */
    uint32_t liveness_uses;              /* L: holders of the page: control_liveness_hold() */
    const _Atomic uint32_t
        *_Atomic liveness; /* the page; after the end of the peer and its last use, a word alone */
    struct card *card;     /* L, and on the service thread; NULL again after its end */
    struct card_facts facts;    /* L */
    char *_Atomic death_reason; /* set once: why the peer is considered dead */
    _Atomic bool exiting;       /* set once: it is in rexit */

    struct connection *out, *in; /* S: NULL: none; `in` is always open */
    struct link alive;           /* S: in control.alive once `liveness` is set */
    struct link timed;           /* S: in control.timed while one of the next two is set */
    int64_t retry_at;            /* S: time to dial, or to send, again */
    /* S: the outgoing connection is lost; `in` is read until then, and the peer ends */
    int64_t drain_until;
    char *drain_reason; /* S: why */
    bool fin_received;  /* S: on our outgoing connection, while `in` may still bring messages */
    bool accepts;       /* S: some address of the peer accepted a connection, but sent no WELCOME */
    unsigned address;   /* S: index of the card's address that is tried */
    unsigned rounds;    /* S: how often all addresses have been tried */
    unsigned refusals;  /* S: greetings that ended early */
    uint32_t greetings; /* S: HELLOs that it was sent; WIRE_HELLO has the number */
    uint32_t greeted;   /* S: the highest such number of its own that was welcome */
    unsigned attempts;  /* S: of this rank itself: to deliver the first message of its queue */
    int version;        /* S: of the control network, that both use; 0: not greeted yet */
    uint64_t features;  /* S: that both have */
    enum exiting_sent exiting_sent; /* S: WIRE_EXITING is queued for it */
    int64_t card_deadline;          /* S: until then the peer may have no card */
};

struct control {
    pthread_mutex_t lock;
    pthread_cond_t completed; /* `completed` of some peer has changed, while flushers > 0 */
    bool asleep;              /* L: the service thread may be in epoll_wait */
    bool stopping;            /* L */
    bool exiting;             /* L: this process is in rexit; its peers are sent WIRE_EXITING */
    int flushers;             /* L */
    uint64_t unsent;          /* L: sum of posted - completed */
    struct link ready;        /* L */
    int64_t stop_deadline;

    _Atomic bool running; /* false: nothing below may be accessed */
    _Atomic bool ticking, check_liveness;
    int rank, size, local_ranks;
    bool membarrier;
    struct card card;
    struct peer *peers; /* the ranks of the job */
    struct control_hooks hooks;
    struct control_lane_hooks lanes;
    struct thread thread;
    int epoll, wake, unix_listener, tcp_listener;

    struct link greeting, open, closed; /* S: connections, by state */
    struct link alive, timed;           /* S: peers */
    int greetings;                      /* S: length of `greeting` */
    int64_t timer;     /* S: not later than the first thing in `greeting` and `timed` that is due */
    int64_t asked;     /* S: when epoll was last asked: what happened later may not be known yet */
    int full_turns;    /* S: since then, with more events than were taken */
    int64_t next_tick; /* S */
    bool listening;    /* S: false while there are no descriptors for incoming connections */
    bool exiting_sent; /* S: to all peers that have been greeted so far */
    bool fins_sent;    /* S: this process leaves */
    int64_t acknowledge_deadline; /* S: then, for what TCP has taken; NO_TIME before all is sent */
    int warnings;                 /* S */
};

extern struct control control;

/* The peer with this number; NULL: there is none. */
struct peer *state_peer(int number);
static inline int peer_number(const struct peer *p) { return (int)(p - control.peers); }

/* The peer's own connection is gone: an EXITING that was queued on it is sent again on the next one. */
static inline void state_in_lost(struct peer *p)
{
    p->in = NULL;
    if (p->exiting_sent == EXITING_ON_IN)
        p->exiting_sent = EXITING_NOT;
}

/* Before the service thread starts; frees all of it. */
void state_init(void);
int state_make_peers(struct error *err);
void state_free_peers(void);

void state_enter_service_thread(void);
void state_wake(void);           /* the service thread, whatever it does */
void state_wake_if_asleep(void); /* e.g. because a watch has a new time */

/* Service thread. */
int state_epoll(int fd, void *watch, bool read, bool write, bool change); /* 0 or -errno */
/* Any thread. The eventfd that wakes the service thread: it is reported when it has been written to,
 * or, with `at_once`, in any case. 0 or -errno. */
int state_epoll_wake(bool at_once, bool change);
void state_timer(int64_t when);        /* the loop turns at `when`, or before */
void state_drop(struct connection *c); /* closes it; its memory is freed at the end of the turn */
/* A warning that other processes can cause; only the first few are logged. */
void state_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* `count` more messages to p are completed. Any thread. */
void state_complete(struct peer *p, uint64_t count);

#endif
