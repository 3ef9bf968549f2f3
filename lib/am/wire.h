/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h: an active message as a message of a pipe: the header, which is its tag, and its memory.
 *
 *     header     kind | pad | handler | nargs | acks | token
 *     memory     payload, pad bytes (0 to 7), nargs arguments of 8 bytes
 *
 * The payload comes first, so it has the alignment of the memory. Five arguments, or payload and arguments of 40 bytes
 * together, fit into a slot. Handlers have the numbers of the requester of a link, in both directions. Everything here is a
 * pure function of what a peer has written, and validates it.
 */
#ifndef AM_WIRE_H
#define AM_WIRE_H

#include "util/error.h"
#include "util/layout.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WIRE_ARGS_MAX 8
#define WIRE_NAME_BYTES 32
#define WIRE_TEXT_BYTES 256 /* of a message about a link, with its end */
#define WIRE_HANDLERS_MAX 255
#define WIRE_RESULT 255u

enum wire_kind {
    WIRE_REQUEST = 1,
    WIRE_REPLY,   /* answers the request with this token; 0: a request without a call */
    WIRE_ACK,     /* of `acks` requests without a call */
    WIRE_HELLO,   /* first message of a link: struct wire_hello */
    WIRE_REFUSED, /* reply to a greeting that does not agree; the payload is the message */
    WIRE_RETIRE,  /* the requester closes the link: all its requests are answered */
    WIRE_RETIRED, /* agreed: no more messages in either direction */
    WIRE_NOT_NOW, /* the target still owns messages of this link */
    WIRE_BARRIER, /* a request that the library handles: epoch, round, failed */
    WIRE_KINDS_END
};

struct wire {
    enum wire_kind kind;
    uint32_t handler, nargs, acks, token;
    size_t bytes; /* of the payload */
};

static inline size_t wire_pad(size_t bytes) { return ((size_t)0 - bytes) & 7; }

/* Bytes of a message. Callers reject payloads so long that this would wrap around. */
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

/* False: not a header that wire_header makes for a message of `size` bytes; *w is meaningless then. */
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

/* Copies payload and arguments into a message. Most payloads are one word, for which a call of memcpy takes long. */
static inline __attribute__((always_inline)) void
wire_put(void *mem, const void *data, size_t bytes, const uint64_t *args, uint32_t nargs)
{
    char *at = (char *)mem + bytes + wire_pad(bytes);

    if (bytes == sizeof(uint64_t) && data != NULL)
        memcpy(mem, data, sizeof(uint64_t));
    else if (bytes > 0 && data != NULL)
        memcpy(mem, data, bytes);
    for (uint32_t i = 0; i < nargs; i++, at += sizeof(uint64_t))
        memcpy(at, &args[i], sizeof(uint64_t));
}

/* ---- the greeting ---- */

#define WIRE_MAGIC 0x6d615261u /* "aRam" */
#define WIRE_OLDEST 2u
#define WIRE_NEWEST 2u
#define WIRE_FEATURES UINT64_C(0)

/* Read zero-extended (util/layout.h). The names of the handlers follow it, each of name_bytes with zeros at its end. */
struct wire_hello {
    uint32_t length; /* of this structure */
    uint32_t magic;
    struct version_range versions;
    uint32_t credits;
    uint64_t features;
    uint64_t request_bytes, reply_bytes;
    uint32_t nhandlers, name_bytes;
    LAYOUT_APPENDED
};
static_assert(sizeof(struct wire_hello) == 48 + LAYOUT_APPENDED_BYTES, "layout on the wire");

/* Numbers of handlers at the two ends of a link. */
struct wire_numbers {
    uint8_t here[WIRE_HANDLERS_MAX];  /* own number, by that of the requester */
    uint8_t there[WIRE_HANDLERS_MAX]; /* number at the requester, by the own one */
};

static inline size_t wire_hello_bytes(uint32_t nhandlers)
{
    return sizeof(struct wire_hello) + (size_t)nhandlers * WIRE_NAME_BYTES;
}

/* The name of own handler i. */
static inline char *wire_hello_name(struct wire_hello *own, uint32_t i)
{
    return (char *)own + wire_hello_bytes(i);
}

/* Makes the greeting; the names are set by the caller. `hello`: zeros, wire_hello_bytes(nhandlers) bytes. */
void wire_hello_init(struct wire_hello *hello, uint32_t credits, uint64_t request_bytes,
                     uint64_t reply_bytes, uint32_t nhandlers);

/* Replaces the characters of a peer's text that a terminal would interpret. */
void wire_make_printable(char *text);

/*
 * Does the greeting of rank `peer` agree with the own one? Handlers are matched by name, in any order: *numbers. Else
 * -EPROTO and a message with both values.
 */
int wire_hello_match(struct wire_hello *own, const void *theirs, size_t bytes, int peer,
                     struct wire_numbers *numbers, struct error *err);

#endif
