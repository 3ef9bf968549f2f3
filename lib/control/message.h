/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.h: a message of the control network that waits to be sent: its frame, and the descriptors
 * that go with it.
 */
#ifndef CONTROL_MESSAGE_H
#define CONTROL_MESSAGE_H

#include "control/hooks.h"
#include "control/wire.h"
#include "util/list.h"

struct message {
    struct link link;
    int nfds;
    bool posted; /* counted in peer.posted; false: HELLO, WELCOME, PAGE */
    bool lent;   /* the descriptor is owned elsewhere: it is not closed with the message */
    int fds[CONTROL_FDS_MAX];
    _Alignas(8) struct wire_frame frame;
    uint8_t body[]; /* padded */
};

static_assert(offsetof(struct message, body) ==
                  offsetof(struct message, frame) + sizeof(struct wire_frame),
              "header and body are contiguous on the wire");

/* A copy of the body; the descriptors are duplicated. NULL and errno. */
struct message *message_new(uint32_t type, const void *body, size_t bytes, const int *fds,
                            int nfds);
/* Adds a descriptor that stays open longer than any message lives, without a duplicate: a
 * duplicate needs a free number. */
void message_lend(struct message *m, int fd);
/* closes its descriptors; the kernel has those that were sent */
void message_drop_fds(struct message *m);
void message_free(struct message *m);
size_t message_bytes(const struct message *m); /* on the wire */

#endif
