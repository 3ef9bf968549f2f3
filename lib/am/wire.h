/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h: what an active message is in a channel: the 8 bytes of user header of a message of the channel, and its memory.
 *
 *     header     kind | pad | handler | nargs | acks | token
 *     memory     payload, pad bytes (0 to 7), nargs arguments of 8 bytes
 *
 * The payload comes first, so that it has the alignment of the memory; five arguments, or a payload and arguments of 40
 * bytes together, ride in the slot. Everything here is a pure function of what a peer has written: it never trusts it.
 */
#ifndef AM_WIRE_H
#define AM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_ARGS_MAX 8
#define WIRE_NAME_BYTES 32
#define WIRE_HANDLERS_MAX 255
#define WIRE_RESULT 255u

enum wire_kind {
    WIRE_REQUEST = 1,
    WIRE_REPLY,   /* answers the request with this token; 0: one that nobody waits for */
    WIRE_ACK,     /* of `acks` requests that nobody waits for */
    WIRE_HELLO,   /* first on a link: what the two contexts must have in common */
    WIRE_REFUSED, /* the answer where they differ; the payload is a sentence */
    WIRE_RETIRE,  /* the requester wants to close the link: all its requests are answered */
    WIRE_RETIRED, /* agreed: nothing more will come, from either side */
    WIRE_NOT_NOW, /* messages of this link are still kept */
    WIRE_BARRIER, /* a request that the library answers: epoch, round */
    WIRE_KINDS_END
};

struct wire {
    enum wire_kind kind;
    uint32_t handler, nargs, acks, token;
    size_t bytes; /* of the payload */
};

static inline size_t wire_pad(size_t bytes) { return ((size_t)0 - bytes) & 7; }

/* bytes of a message; payloads that are so long that this would wrap are refused before */
static inline size_t wire_size(size_t bytes, uint32_t nargs)
{
    return nargs == 0 ? bytes : bytes + wire_pad(bytes) + 8 * (size_t)nargs;
}

static inline uint64_t wire_header(enum wire_kind kind, size_t bytes, uint32_t handler,
                                   uint32_t nargs, uint32_t acks, uint32_t token)
{
    uint64_t pad = nargs == 0 ? 0 : wire_pad(bytes);

    return (uint64_t)kind | pad << 4 | (uint64_t)handler << 8 | (uint64_t)nargs << 16 |
           (uint64_t)acks << 24 | (uint64_t)token << 32;
}

/* False: this cannot have been written by wire_header, for a message of `size` bytes; then *w means nothing. */
static inline bool wire_parse(uint64_t header, size_t size, struct wire *w)
{
    uint32_t kind = header & 15, pad = header >> 4 & 15, nargs = header >> 16 & 255;

    w->kind = (enum wire_kind)kind;
    w->handler = header >> 8 & 255;
    w->nargs = nargs;
    w->acks = header >> 24 & 255;
    w->token = (uint32_t)(header >> 32);
    w->bytes = size - pad - 8 * (size_t)nargs;
    return kind - 1 < WIRE_KINDS_END - 1u && nargs <= WIRE_ARGS_MAX &&
           size >= pad + 8 * (size_t)nargs && pad == (nargs == 0 ? 0 : wire_pad(w->bytes));
}

/* ---- the greeting ---- */

#define WIRE_MAGIC 0x6d615261u /* "aRam" */
#define WIRE_VERSION 1u

struct wire_hello {
    uint32_t magic, version, credits, nhandlers;
    uint64_t request_bytes, reply_bytes;
    char name[][WIRE_NAME_BYTES]; /* of the handlers, by number; zeros behind it */
};

static inline size_t wire_hello_bytes(uint32_t nhandlers)
{
    return sizeof(struct wire_hello) + (size_t)nhandlers * WIRE_NAME_BYTES;
}

/* Text of a peer's for people, which ends somewhere: without what a terminal would obey. */
void wire_make_printable(char *text);

/* Is what rank `peer` has sent the same as our own? Else false, and a sentence with both values. */
bool wire_hello_agrees(const struct wire_hello *own, const void *theirs, size_t bytes, int peer,
                       char *why, size_t why_bytes);

#endif
