/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h: the control network: small reliable messages between any two ranks of the job, and one service thread.
 *
 * Each rank opens its own outgoing connection to a peer on demand: a Unix socket if the peer is on this host and in this
 * network namespace (it can carry descriptors), TCP otherwise. Messages from A to B are FIFO; the two directions are
 * independent. A message to oneself is delivered like any other. Before anything that a peer says is read, the caller has
 * shown the cookie of the rank that it calls, and has got its own back.
 *
 * The service thread does all I/O of these sockets. control_post() only queues, so it never waits and may be called from
 * any thread, the service thread included. Hooks run on the service thread with no lock held.
 *
 * Life: every process has one page, shared read-only with each local peer, whose first word is a robust futex that the
 * service thread holds. The kernel marks it when the process dies, before it tears down the memory: a peer reads that
 * by a plain load. An orderly exit sets the word to LIVENESS_LEFT.
 */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include "util/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTROL_BODY_MAX 65536 /* bytes of one message */
#define CONTROL_FDS_MAX 8      /* descriptors that travel with one message */
#define CONTROL_MESSAGE_MAX 64
#define CONTROL_TYPE_USER 64 /* types below are the control network's own */

#define LIVENESS_OWNER_DIED 0x40000000u /* FUTEX_OWNER_DIED */
#define LIVENESS_LEFT 0u                /* exited in order */

enum control_path { CONTROL_SELF, CONTROL_UNIX, CONTROL_TCP };
enum control_end { PEER_LEFT, PEER_DIED };

struct control_hooks {
    /* A message of type >= CONTROL_TYPE_USER. The descriptors become the hook's: it keeps or closes every one. One that this
     * process had no number left for (RLIMIT_NOFILE) is -1. */
    void (*message)(int from, uint32_t type, const void *body, size_t bytes, const int *fds,
                    int nfds);
    /* This peer will say nothing more: it called control_stop() (PEER_LEFT), or is dead or unreachable (PEER_DIED).
     * Once per peer; `why` is a sentence. */
    void (*peer_gone)(int rank, enum control_end end, const char *why);
    /* While control_set_ticking(true): at least every 50 ms. */
    void (*tick)(void);
};

/* After job_open(): makes the sockets and the card, publishes it (job_publish), starts the service thread. */
int control_start(const struct control_hooks *hooks, int64_t deadline, struct error *err);
/* Sends what is queued (until the deadline), says goodbye to every peer, ends the thread, closes everything. */
void control_stop(int64_t deadline);
/* In the child of a fork: closes the sockets, forgets the thread. Takes no lock, waits for nobody. */
void control_forked(void);

/* Queues a copy of the message; descriptors are duplicated. 0; -EINVAL; -ENOMEM; -EMFILE; -ENOTCONN (stopped);
 * -ECONNRESET (the peer has died); -EPIPE (it has left); -ENOTSUP (descriptors over TCP). */
int control_post(int to, uint32_t type, const void *body, size_t bytes, const int *fds, int nfds);
/* What has to be said some day, made while there is memory; NULL: there is none. At most CONTROL_MESSAGE_MAX bytes of body. */
struct control_message;
struct control_message *control_message_alloc(uint32_t type, size_t bytes);
void control_message_free(struct control_message *m);
/* Posts it with this body, and forgets it in any case. As control_post, but never for want of memory. */
int control_post_message(int to, struct control_message *m, const void *body);
/* Until everything posted to `to` (-1: to anybody) so far is with the kernel, or the peer is gone. 0 or -ETIMEDOUT;
 * -EDEADLK on the service thread; -ENOTCONN. */
int control_flush(int to, int64_t deadline);
/* Messages posted to `to` that are not with the kernel yet. */
uint64_t control_backlog(int to);
/* Sees to it that the end of `rank` will be noticed: connects, where there is no connection yet. For whoever waits for a
 * peer that he sends nothing to. */
void control_monitor(int rank);
/* Has the service thread look at the life words now: peer_gone() follows for the dead, after what they still said. */
void control_check_liveness(void);
/* On the service thread: this peer breaks the protocol of a layer above. It is cut off as if it had died. */
void control_cut_off(int rank, const char *why);

enum control_path
control_path(int rank); /* how messages would travel; looks at the card, may wait for it briefly */
/* What this rank's card says of its backends (btl_likely), and whether it runs under this kernel. 0 or -errno and why not. */
int control_peer_backends(int rank, uint32_t *backends, bool *same_kernel, struct error *err);
/* Where to watch the peer's life word (read-only page), or NULL: not connected yet, or not on this host. Valid until
 * control_stop(). The word is the owner's thread id while it lives. */
const _Atomic uint32_t *control_liveness(int rank);
static inline bool liveness_died(const _Atomic uint32_t *liveness)
{
    return liveness != NULL &&
           (atomic_load_explicit(liveness, memory_order_relaxed) & LIVENESS_OWNER_DIED) != 0;
}
/* 0: the peer can be talked to, or has not been talked to yet; -EPIPE: left; -ECONNRESET: died */
int control_peer_state(int rank);
/* Why it is taken for dead, "" while nothing is known: "its host has not answered for 9000 ms ...". Valid until control_stop() */
const char *control_peer_why(int rank);
bool control_peer_membarrier(
    int rank); /* the peer is registered for, and able to issue, membarrier GLOBAL_EXPEDITED */
bool control_membarrier(void); /* and this process */
void control_set_ticking(bool on);
/*
 * The service thread calls ready(arg) once, when fd can be read, or without one (-1) only by time, `delay_us` from now at the
 * earliest. Watching again replaces what (ready, arg) waited for. 0, -ENOMEM, or an error of epoll. After control_unwatch, on any
 * other thread than the service thread, `ready` neither runs nor will; the caller holds no lock that `ready` takes.
 */
int control_watch(int fd, int64_t delay_us, void (*ready)(void *arg), void *arg);
void control_unwatch(void (*ready)(void *arg), void *arg);
/* The address that this rank offers first to other hosts, numeric; "" if it listens at none. Valid until control_stop(). */
const char *control_address(void);
bool control_on_service_thread(void);
int control_local_ranks(void); /* ranks on this host that are known so far, this one included */

#endif
