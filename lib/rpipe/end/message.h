/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.h: messages between ends, over the control network: their common head, and the table of their handlers.
 *
 * Every message begins with its length. Members that the sender lacks are read as zero, those that this version lacks are
 * ignored: so a structure can grow at its end. What a version changes otherwise is negotiated in the handshake
 * (connect/handshake.h).
 *
 * A module registers a handler for each type that it receives. The dispatcher checks the head, finds the end that the message
 * concerns, under the rendezvous lock, and calls the handler with it.
 */
#ifndef RPIPE_END_MESSAGE_H
#define RPIPE_END_MESSAGE_H

#include "rpipe/end/rch.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Versions of the messages and of the protocol that this library understands. */
#define PROTOCOL_OLDEST 4u
#define PROTOCOL_NEWEST 4u

enum message_type {
    MESSAGE_HANDSHAKE = 64,
    MESSAGE_CLOSE,       /* number: messages written, or read */
    MESSAGE_FAIL,        /* code and reason */
    MESSAGE_EVENT_ON,    /* reader to writer: signal after each message; with the descriptor */
    MESSAGE_EVENT_ACK,   /* number: of the last message that may not be signaled */
    MESSAGE_BTL,         /* of a backend */
    MESSAGE_GROW,        /* grow.c */
    MESSAGE_GROWN,       /* grow.c */
    MESSAGE_SIGNAL,      /* number: of a message written over a network */
    MESSAGE_ATOMIC,      /* cells_service.c */
    MESSAGE_ATOMIC_DONE, /* cells_service.c */
    /* 75, 76: observe/record/trace_clock.h */
    MESSAGE_STARVED = 77, /* holding.c: the writer has waited for memory that the reader holds */
    MESSAGE_BOARD,        /* rpipe/board/board_message.c */
    MESSAGE_CAST,         /* cast/mcast_message.c */
};
#define MESSAGE_TYPES_END 96 /* types are below it */

/* On the wire, first member of every message between ends. */
struct end_message_head {
    uint32_t bytes;   /* of the whole structure */
    uint16_t version; /* newest protocol version of the sender */
    uint8_t role;     /* enum side, of the sender */
    uint8_t flags;    /* MESSAGE_OF_RECEIVER */
    uint64_t context;
    uint32_t end_number; /* of the sender's end (struct rendezvous_end) */
    int32_t code;        /* 0 or a negative errno */
    uint64_t number;
};
static_assert(sizeof(struct end_message_head) == 32, "on the wire");

/*
 * The sender has no end: end_number is that of the receiver's, which will be paired with no other
 * end. Of CLOSE and FAIL.
 */
#define MESSAGE_OF_RECEIVER 1u

#define MESSAGE_REASON_BYTES 384
struct fail_message {
    struct end_message_head head;
    char reason[MESSAGE_REASON_BYTES];
};
static_assert(sizeof(struct fail_message) == 416, "on the wire");

/* ---- sending ---- */

/* The head of a message of this end with `bytes` bytes in all. */
struct end_message_head message_head(const struct rch *ch, size_t bytes, uint64_t number);
/* Queues a message, which begins with its head; `fd` passes a descriptor (NULL: none). As control_post. */
int message_post(int peer, enum message_type type, const struct end_message_head *message,
                 const int *fd);
/* Queues a message of this end that is a head alone. */
int message_post_head(const struct rch *ch, enum message_type type, uint64_t number);
/* The head of an answer to this one, with `bytes` bytes, in the name of an end that does not exist. */
struct end_message_head message_answer(const struct end_message_head *head, size_t bytes);
struct message;
/*
 * Posts an answer to m. False: there is no memory, and m is delivered again, or the peer is cut off because it does not receive
 * its answers. An answer that is lost would pair ends that do not belong together.
 */
bool message_post_answer(struct message *m, enum message_type type,
                         const struct end_message_head *answer);

/* ---- receiving ---- */

/* A message as the handler gets it. */
struct message {
    int from;
    /* checked, aligned, and zero-extended to `known` bytes of its handler */
    const struct end_message_head *head;
    int fd; /* the descriptor that was passed, -1: none. A handler that keeps it stores -1 */
    int rc; /* -ENOMEM, from the handler: nothing has been done; deliver it again */
    const char *violation; /* from the handler: the peer is cut off for this reason */
};

struct message_handler {
    size_t known; /* sizeof the message in this version */
    size_t least; /* bytes that it has in every version; 0: sizeof(struct end_message_head) */
    /* Of an end that is open. Rendezvous lock held. */
    void (*of_open)(struct rch *ch, const struct message *m);
    /* Of any end: `ch` may be closed, or NULL where it has not been opened yet or is gone. Rendezvous lock held. */
    void (*of_any)(struct rch *ch, struct message *m);
    /* Of no end: the head is not checked, no lock is held, and the descriptors stay the caller's. */
    void (*of_none)(int from, uint32_t type, const void *body, size_t bytes, const int *fds,
                    int nfds);
};

/* Before the service thread starts. `handler` is static. */
void message_register(uint32_t type, const struct message_handler *handler);
/* The hook of the control network (struct control_hooks). */
int message_dispatch(int from, uint32_t type, const void *body, size_t bytes, const int *fds,
                     int nfds);

/* The role of the other end. */
static inline enum side side_other(enum side side)
{
    return side == SIDE_WRITER ? SIDE_READER : SIDE_WRITER;
}

#endif
