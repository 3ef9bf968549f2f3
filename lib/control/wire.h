/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h: the bytes on a connection of the control network.
 *
 * A connection is a sequence of frames: a header, a body, zeros up to a multiple of 8, so that
 * bodies are aligned in the receiver's buffer. The process that connects sends HELLO, with the
 * cookie of the rank that it connects to; the other one answers WELCOME, with the cookie of the
 * first. After that the first sends messages; in the other direction there is at most one EXITING
 * and one FIN.
 * Over a Unix socket WELCOME comes with the liveness page of its sender, and the first frame after
 * it is PAGE, with that of the other: no descriptor is taken from a process that has not greeted.
 * Numbers are in the byte order of the machine; a peer of the other order fails at the magic.
 *
 * Each structure begins with its length and is read zero-extended (util/layout.h). Both processes
 * use the newest version of which both have sent the range, in their cards and greetings.
 */
#ifndef CONTROL_WIRE_H
#define CONTROL_WIRE_H

#include "control/card.h"
#include "util/layout.h"

#include <assert.h>

#define WIRE_FRAME_MAGIC 0x326d7266u
#define WIRE_HELLO_MAGIC UINT64_C(0x326f6c6c65686d72)
#define WIRE_LANES 2

enum wire_type {
    WIRE_HELLO = 1,
    WIRE_WELCOME,
    WIRE_FIN,  /* the last frame of an orderly exit */
    WIRE_PING, /* no effect but that of a connection: the end of the peer will be noticed */
    WIRE_PAGE, /* the liveness page of the process that has connected */
    /* 6 to 15 are reserved for peers that connect by name */
    WIRE_CHUNK = 16, /* these three belong to collective.c */
    WIRE_ACK,
    WIRE_LEAVE,
    /* The sender is in rexit: it opens nothing any more. Behind everything that it has posted before; in either direction of
     * a connection; only to a peer with CONTROL_FEATURE_EXITING */
    WIRE_EXITING,
};

/* Flags of a greeting. */
#define WIRE_HAS_MEMBARRIER 1u

struct wire_frame {
    uint32_t bytes; /* of this header; a multiple of 8 */
    uint32_t magic;
    uint16_t type;
    uint16_t nfds; /* descriptors that came with the first byte */
    uint32_t body_bytes;
};

struct wire_hello { /* HELLO and WELCOME */
    uint32_t bytes; /* of this structure */
    struct version_range versions;
    uint64_t magic;
    uint64_t features;
    uint32_t from, to; /* numbers of peers */
    uint32_t flags;
    uint32_t attempt; /* of HELLO: rises with each connection that the sender makes to this peer */
    uint8_t cookie[COOKIE_BYTES];         /* of the receiver */
    uint8_t process_id[PROCESS_ID_BYTES]; /* of the sender */
    uint32_t window[WIRE_LANES]; /* of the lanes to the sender: bytes that it takes unread */
    uint8_t more_spare[24];
    LAYOUT_APPENDED
};

static_assert(sizeof(struct wire_frame) == 16, "fixed on the wire");
static_assert(offsetof(struct wire_hello, cookie) == 40 &&
                  offsetof(struct wire_hello, window) == 72,
              "fixed on the wire");
static_assert(sizeof(struct wire_hello) == 104 + LAYOUT_APPENDED_BYTES, "fixed on the wire");
#define WIRE_HELLO_LEAST 104
#define WIRE_HELLO_MOST 512 /* of any version */
#define WIRE_FRAME_LEAST 16
#define WIRE_FRAME_MOST 64 /* the header, of any version */

static inline size_t wire_padded(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

/* Bytes of a frame, whose header is as it should be. */
static inline size_t wire_frame_bytes(const struct wire_frame *frame)
{
    return frame->bytes + wire_padded(frame->body_bytes);
}

#endif
