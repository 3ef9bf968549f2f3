/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection.h: one socket of the control network: frames out of bytes, descriptors with frames,
 * partial reads and writes.
 *
 * It reports which frames came, and that the connection ended; it has no part in what that means
 * for a peer. Service thread only.
 *
 * Descriptors: the sender attaches a message's descriptors to its first byte, and begins a
 * sendmsg(2) with it. The kernel hands them out with that byte or before, in order; so a frame
 * takes the oldest of those that have come. Whatever is left over, or missing, when a frame is
 * complete, is a violation of the protocol.
 */
#ifndef CONTROL_CONNECTION_H
#define CONTROL_CONNECTION_H

#include "control/message.h"
#include "util/error.h"

#include <sys/types.h>

enum connection_state {
    CONNECTION_DIALING,  /* connect(2) is in progress */
    CONNECTION_GREETING, /* HELLO sent, or being sent */
    CONNECTION_ACCEPTED, /* HELLO has not come yet */
    CONNECTION_OPEN,
    CONNECTION_CLOSED, /* to be freed at the end of the turn */
};

struct connection {
    int watch; /* first: what epoll points to, see state.h */
    struct link link;
    int fd;
    enum connection_state state;
    bool is_unix, outgoing;
    bool used;        /* a frame has come after greeting and page */
    bool paged;       /* the PAGE has come */
    bool wants_write; /* epoll reports when the socket takes more */
    bool truncated;   /* descriptors have come for which this process had no number */
    bool paused;      /* there was no memory for a frame: reading continues later, see receive.c */
    bool unwatched;   /* paused, and epoll has had no memory for it yet */
    int peer;         /* -1 before the greeting */
    /* of the greeting; of an open outgoing one over TCP: the next check of the other host */
    int64_t deadline;
    /* input */
    uint8_t *buffer;
    size_t capacity, begin, end; /* bytes [begin, end) have not been consumed */
    size_t body_max;             /* longest body that is accepted now */
    int fds[2 * CONTROL_FDS_MAX];
    int nfds;
    /* output */
    struct link outbox;
    size_t sent; /* of the first message's bytes */
};

struct connection *connection_new(int fd, bool is_unix,
                                  bool outgoing); /* NULL: no memory; fd is then still open */
void connection_close(struct connection *c);      /* the socket, descriptors, outbox */
void connection_free(struct connection *c);
void connection_queue(struct connection *c, struct message *m);
/* Sends until the outbox is empty (0) or the kernel takes no more (-EAGAIN; -ENOBUFS: try again
 * later, epoll does not report when); else -errno: the connection is broken. *sent_messages
 * grows by the messages that the kernel has taken whole. */
int connection_send(struct connection *c, uint64_t *sent_messages);
/* Reads once. Bytes; 0: end; -EAGAIN; -ENOMEM: no memory, or no numbers for descriptors: try again
 * later; -errno. */
ssize_t connection_receive(struct connection *c, struct error *err);
/* The next whole frame in the buffer: 1, 0 (not whole yet), or -EPROTO and a message. Valid
 * until the next call. Its descriptors are c->fds[0 .. nfds); a receiver that takes one calls
 * fork_fds_forget() and puts -1 in its place. */
int connection_frame(struct connection *c, const struct wire_frame **frame, const void **body,
                     struct error *err);
void connection_consume(struct connection *c, const struct wire_frame *frame);

#endif
