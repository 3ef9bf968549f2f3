/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h: the bytes on a connection of the control network.
 *
 * A connection is a sequence of frames: a header, a body, zeros up to a multiple of 8, so that bodies are aligned in the
 * receiver's buffer. The process that connects sends HELLO, with the cookie of the rank that it connects to; the other one
 * answers WELCOME, with the cookie of the first. After that the first sends messages; in the other direction there is at most
 * one FIN. Numbers are in the byte order of the machine; a peer of the other order fails at the magic.
 */
#ifndef CONTROL_WIRE_H
#define CONTROL_WIRE_H

#include "control/card.h"

#include <assert.h>

#define WIRE_FRAME_MAGIC 0x6d617266u
#define WIRE_HELLO_MAGIC UINT64_C(0x316f6c6c65686d72)
#define WIRE_VERSION 1
#define WIRE_HAS_MEMBARRIER 1u

enum wire_type {
    WIRE_HELLO = 1,
    WIRE_WELCOME,
    WIRE_FIN,        /* the last frame of an orderly exit */
    WIRE_PING,       /* no effect but that of a connection: the end of the peer will be noticed */
    WIRE_CHUNK = 16, /* these three belong to collective.c */
    WIRE_ACK,
    WIRE_LEAVE,
};

struct wire_frame {
    uint32_t magic;
    uint32_t type;
    uint32_t bytes; /* of the body */
    uint32_t nfds;  /* descriptors that came with the first byte */
};

struct wire_hello { /* HELLO and WELCOME */
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
