/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.h: what the files of the verbs backend share: the device of this process, and a line.
 *
 * device.c finds the device; memory.c registers memory with it; connect.c brings queue pairs of two processes together
 * (librdmacm, on the service thread), greet.c says the first words; line.c makes and ends lines; post.c is the data path. The device, its protection domain and
 * its registrations are the process's; a completion queue and a queue pair belong to one line.
 *
 * Locks: `verbs.lock` guards everything about connecting: it is held around every call of librdmacm, so that no event is
 * half-way through that library while its identifier is destroyed. The data path takes no lock: it looks at `line.state`.
 */
#ifndef BTL_VERBS_VERBS_H
#define BTL_VERBS_VERBS_H

#include "btl/btl.h"
#include "btl/slab.h"

#include "util/cpu.h"
#include "util/hash.h"
#include "util/list.h"
#include "util/error.h"

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

#define SEND_DEPTH                                                                                 \
    256u /* work requests that a line may have under way, unless more are asked for */
#define DEPTH_MOST 4096u  /* and if they are */
#define SIGNAL_EVERY 64u  /* work requests per completion */
#define INLINE_WANTED 128 /* bytes; a longer one makes every entry of the send queue longer */
#define READS_MOST 16     /* READs and atomics under way per direction */

/* An address of IPv4 or IPv6, as a socket has it. */
union verbs_sockaddr {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

/* What a device turned out to be able to do. */
struct verbs_limits {
    uint32_t
        send_depth; /* most work requests of a queue pair, and entries of its completion queue */
    uint32_t inline_most; /* bytes */
    uint32_t message_most;
    uint8_t reads_out, reads_in; /* READs and atomics under way */
    uint32_t atomics;            /* bit mask of 1 << enum btl_atomic */
    bool iwarp;
    bool siw; /* soft-iWARP */
};

struct btl {
    struct btl_host host;
    char device[64]; /* "rxe0" */
    uint8_t port;
    struct verbs_limits limits;
    bool forked; /* in a child: no call goes to the device any more */

    struct ibv_context *context; /* librdmacm's; goes with the listener */
    struct ibv_pd *pd;
    struct slab_pool *slabs;
    void *scratch; /* a line where flushes and unwanted old values land; read by nobody */
    struct ibv_mr *scratch_mr;

    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener;
    union verbs_sockaddr here; /* where it listens */
    struct ibv_comp_channel *greeted;
    struct ibv_cq *greetings; /* of the receive queue of every line; one entry each */

    pthread_mutex_t lock;
    struct hash lines; /* token → line */
};

/* What is known of a line, for whoever wants to transfer: acquire, pairs with the release that ended connecting. */
enum verbs_state { LINE_DOWN, LINE_UP, LINE_FAILING, LINE_FAILED };

enum verbs_stage { IDLE, RESOLVING, ROUTING, CONNECTING, GREETING, CONNECTED, PAUSING };

struct btl_connection {
    /* ---- the data path's: one thread at a time ---- */
    _Atomic int state;
    struct ibv_qp *qp;
    struct ibv_cq *cq;
    uint64_t posted, completed; /* work requests, from the first; what lies between is under way */
    uint32_t depth, mask;       /* of the send queue; of `done` */
    uint32_t unsignaled;        /* posted since the last signal */
    struct btl_done **done;     /* by work request: whose completion it is, or NULL */
    uint64_t written;           /* work requests that a flush has to cover */
    uint64_t placed;            /* that one has covered */
    uint32_t awaited;           /* entries of done[] that are not complete */
    struct btl_done flushed;    /* the READ of a flush that is under way */
    uint64_t flushing,
        flush_end;         /* what the flush under way covers; its own number + 1, 0: none is */
    uint64_t last_address; /* target of the last write or atomic: what a flush reads */
    uint32_t last_key;
    struct btl_counts counts;

    /* ---- connecting: under verbs.lock ---- */
    struct btl *btl;
    enum btl_role role;
    enum verbs_stage stage;
    uint64_t token, peer_token; /* peer's: 0 until its address is known */
    struct rdma_cm_id *id;
    union verbs_sockaddr there;
    int64_t deadline;
    int64_t retry_at; /* PAUSING: the next attempt; GREETING, dialing: the next nudge */
    int64_t pause;    /* before the next attempt */
    int nudges;
    int peer;
    char obstacle[160]; /* why the last attempt came to nothing */

    char failure[256]; /* written before LINE_FAILED (release) */
    int error;
};

/* device.c */
int verbs_device_query(struct error *err);
/* Finds the device, binds `listener` to it, fills in context, port, limits. */
int verbs_device_open(struct btl *btl, struct error *err);
const char *verbs_address_text(const union verbs_sockaddr *a, char *text,
                               size_t bytes); /* "10.0.0.1:4711" */
uint16_t verbs_address_port(const union verbs_sockaddr *a);

/* memory.c */
int verbs_memory_open(struct btl *btl, struct error *err);
void verbs_memory_close(struct btl *btl);
int verbs_alloc(struct btl *btl, int peer, size_t bytes, uint32_t access, bool huge,
                struct btl_memory *memory, struct error *err);
void verbs_free(struct btl *btl, struct btl_memory *memory);
int verbs_share(struct btl *btl, int peer, const struct btl_memory *memory, struct btl_key *key,
                struct error *err);
int verbs_register(struct btl *btl, int peer, void *base, size_t bytes, uint32_t access,
                   struct btl_memory *memory, struct error *err);
int verbs_attach(struct btl *btl, int peer, const struct btl_key *key, size_t bytes,
                 uint32_t access, struct btl_remote *remote, struct error *err);
void verbs_detach(struct btl *btl, struct btl_remote *remote);
/* key.word */
enum { KEY_ADDRESS, KEY_RKEY, KEY_BYTES };

/* connect.c */
int verbs_connect_open(struct btl *btl, struct error *err); /* listens, and watches */
void verbs_connect_stop(
    struct btl *btl); /* no event is handled any more; then the lines can be closed */
void verbs_connect_close(struct btl *btl);
void verbs_connect_forked(struct btl *btl);
void verbs_connect_dial(
    struct btl_connection *connection); /* lock held; `there` and the deadline are set */
void verbs_connect_drop(
    struct btl_connection *connection); /* lock held; identifier and queue pair are no more */

int verbs_no_waiting(int fd);

/* greet.c: lock held, but for opening and closing */
int verbs_greet_open(struct btl *btl, struct error *err);
int verbs_greet_watch(struct btl *btl);
void verbs_greet_stop(struct btl *btl);
void verbs_greet_close(struct btl *btl);
int verbs_greet_expect(
    struct btl_connection
        *connection); /* the other end's first message; before the connection is there */
int verbs_greet(
    struct btl_connection *connection); /* 0: the line is up, or will be when the answer comes */
int verbs_greet_nudge(struct btl_connection *connection); /* when retry_at has come */

/* line.c */
int verbs_connection_open(struct btl *btl, int peer, enum btl_role role, uint32_t depth,
                          struct btl_connection **out, struct btl_address *address,
                          struct error *err);
int verbs_connection_connect(struct btl_connection *connection, const struct btl_address *address,
                             struct error *err);
int verbs_connection_state(struct btl_connection *connection, struct error *err);
void verbs_connection_close(struct btl_connection *connection);
void verbs_connection_describe(struct btl_connection *connection, char *text, size_t text_bytes);
void verbs_connection_counts(struct btl_connection *connection, struct btl_counts *counts);
uint32_t verbs_connection_atomics(struct btl_connection *connection);
void verbs_connection_up(struct btl_connection *connection);
/* The first failure stays. Any thread. */
void verbs_connection_fail(struct btl_connection *connection, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* post.c */
int verbs_write(struct btl_connection *connection, const struct btl_transfer *payload,
                const struct btl_transfer *slot);
int verbs_get(struct btl_connection *connection, const struct btl_transfer *transfer,
              struct btl_done *done);
int verbs_atomic(struct btl_connection *connection, int op, const struct btl_transfer *at,
                 uint64_t operand, uint64_t compare, struct btl_done *done);
int verbs_flush(struct btl_connection *connection);
int verbs_progress(struct btl_connection *connection);

#endif
