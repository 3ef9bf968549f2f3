/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection.h: one socket of the control network: frames out of bytes, descriptors with frames, partial reads and writes.
 *
 * It knows nothing of ranks' fates: it says what came, and that it ended. Used by the service thread alone, but for
 * message_new().
 *
 * Descriptors: the sender attaches a message's descriptors to its first byte, and begins a sendmsg(2) with it. The kernel
 * hands them out with that byte or before, in order; so a frame takes the oldest of those that have come. Whatever is left
 * over, or missing, when a frame is complete, is a breach of the protocol.
 */
#ifndef CONTROL_CONNECTION_H
#define CONTROL_CONNECTION_H

#include "control/wire.h"
#include "util/list.h"
#include "util/error.h"

#include <sys/types.h>

struct message {
    struct link link;
    int nfds;
    bool lent; /* the descriptor is not the message's own: it is not closed with it */
    int fds[CONTROL_FDS_MAX];
    _Alignas(8) struct wire_frame frame;
    uint8_t body[]; /* padded */
};

static_assert(offsetof(struct message, body) ==
                  offsetof(struct message, frame) + sizeof(struct wire_frame),
              "header and body are sent as one piece");

/* A copy of the body; the descriptors are duplicated. NULL and errno. */
struct message *message_new(uint32_t type, const void *body, size_t bytes, const int *fds,
                            int nfds);
/* One that stays open longer than any message lives, and so is not duplicated: that takes no number where there is none left. */
void message_lend(struct message *m, int fd);
void message_free(struct message *m); /* closes its descriptors */

enum connection_state {
    CONNECTION_DIALING,  /* connect(2) is under way */
    CONNECTION_GREETING, /* HELLO sent, or being sent */
    CONNECTION_ACCEPTED, /* waits for HELLO */
    CONNECTION_OPEN,
    CONNECTION_CLOSED, /* to be freed at the end of the turn */
};

struct connection {
    int watch; /* first: what epoll points to, see service.h */
    struct link link;
    int fd;
    enum connection_state state;
    bool is_unix, outgoing;
    bool heard;       /* something has come after the greeting */
    bool wants_write; /* epoll has been told */
    bool truncated;   /* descriptors have come that this process had no number for */
    bool
        starved; /* there was no memory for what has come: it is read on in a while, see service.c */
    bool unwatched; /* starved, too: epoll has no room for it yet */
    int peer;       /* -1: not known yet */
    int64_t
        deadline; /* of the greeting; of an open outgoing one over TCP: the next look at its pulse */
    /* what has come */
    uint8_t *buffer;
    size_t capacity, begin, end; /* bytes [begin, end) have not been consumed */
    size_t body_max;             /* longest body that is accepted now */
    int fds[2 * CONTROL_FDS_MAX];
    int nfds;
    /* what is to go */
    struct link outbox;
    size_t sent; /* of the first message's bytes */
};

struct connection *connection_new(int fd, bool is_unix,
                                  bool outgoing); /* NULL: no memory; fd is then still open */
void connection_close(struct connection *c);      /* the socket, descriptors, outbox */
void connection_free(struct connection *c);
void connection_queue(struct connection *c, struct message *m);
/* Sends until the outbox is empty (0) or the kernel takes no more (-EAGAIN; -ENOBUFS: ask again later, epoll does not know
 * when); else -errno: it is broken. *gone grows by the messages that have gone whole. */
int connection_send(struct connection *c, uint64_t *gone);
/* Reads once. Bytes; 0: end; -EAGAIN; -errno. */
ssize_t connection_receive(struct connection *c, struct error *err);
/* The next whole frame in the buffer: 1, 0 (not whole yet), or -EPROTO and a sentence. Good until the next call. Its
 * descriptors are c->fds[0 .. nfds); who takes one over calls fork_fds_forget() and puts -1 in its place. */
int connection_frame(struct connection *c, const struct wire_frame **frame, const void **body,
                     struct error *err);
void connection_consume(struct connection *c, const struct wire_frame *frame);

#endif
