/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h: what travels on a connection of the control network. Inside lib/control only.
 *
 * A connection is a sequence of frames: a header, a body, zeros up to a multiple of 8, so that bodies are aligned where
 * they lie in the receiver's buffer. Who calls says HELLO, with the cookie of the rank that it calls; who is called says
 * WELCOME, with the cookie of the caller. After that the caller sends messages; the other direction carries at most one
 * GOODBYE. Numbers are in the byte order of the machine; a peer of the other order fails at the magic.
 */
#ifndef CONTROL_WIRE_H
#define CONTROL_WIRE_H

#include "control/card.h"
#include "control/control.h"

#include <assert.h>

#define WIRE_FRAME_MAGIC 0x6d617266u
#define WIRE_HELLO_MAGIC UINT64_C(0x316f6c6c65686d72)
#define WIRE_VERSION 1
#define WIRE_HAS_MEMBARRIER 1u

enum wire_type {
    WIRE_HELLO = 1,
    WIRE_WELCOME,
    WIRE_GOODBYE,    /* the last frame of an orderly exit */
    WIRE_PING,       /* nothing: makes a connection, so that the end of the peer is noticed */
    WIRE_PIECE = 16, /* these three belong to collective.c */
    WIRE_ACK,
    WIRE_LEAVE,
};

struct wire_frame {
    uint32_t magic;
    uint32_t type;
    uint32_t bytes; /* of the body */
    uint32_t nfds;  /* descriptors that came with the first byte */
};

struct wire_hello { /* and welcome */
    uint64_t magic;
    uint32_t version;
    uint32_t from, to;
    uint32_t flags;
    uint8_t cookie[COOKIE_BYTES];
    uint64_t spare;
};

static_assert(sizeof(struct wire_frame) == 16 && sizeof(struct wire_hello) == 48,
              "fixed on the wire");

static inline size_t wire_padded(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

#endif
