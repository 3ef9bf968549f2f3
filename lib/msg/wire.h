/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h: messages by tag as messages of a pipe: the header, which is its tag, and its memory.
 *
 *     header     kind:8 | space:16 | zero:8 | word:32
 *
 * `word` is the tag of a message, or the number that a message of the link itself is about. A link has two pipes, one in each
 * direction. All that one end sends goes through one of them, in order: its messages, and what it has to report about its receives.
 *
 *     kind       word     memory
 *     MSG        tag      a message: its payload
 *     RTS        tag      a message whose payload waits at the sender: send, cell, bytes, where
 *     PLACED     tag      a message for an advertised receive, as parts or by a cell: receive, cell, bytes, where
 *     DATA       receive  the payload of an earlier RTS comes, as parts or by WRITTEN: send
 *     PART       receive  the next bytes of a payload
 *     WRITTEN    receive  the payload is in the buffer of the receive: written through the window that its RTR or CTS has named
 *     ABORT      receive  no more parts come: the sender has given up
 *     RTR        tag      a receive waits: receive, number, seen, skip, bytes, where, open
 *     CTS        send     move it, up to `bytes` bytes: receive, window, bytes, where
 *     FIN        send     it has been matched, and no payload is needed
 *     MOVED      cell     the payload is here, or one end has given up: the cell is not used here any more
 *     REFUSED    receive  its RTR with this number came too late: number
 *     UNDO       tag      forget RTRs of this space and tag from this number on: number
 *     UNDONE     number   done
 *     CREDIT     0        messages that were consumed, in units, since the beginning: units
 *     HELLO      0        first message of a link: struct msg_wire_hello
 *     WINDOW     window   memory of this process: struct msg_wire_window. 0: all of it, within a host; from 1: a buffer, over a network, in place
 *                         of the one that had this number before
 *     CELLS      0        this process can access the memory of the other one: MSG_CELLS of struct msg_cell (cell.h), for its own sends
 *     READY      0        the cells have arrived, and so can this process: they may be used
 *     END        reason   last message of a link: this process has ended it, and takes no more messages
 *
 * MSG, RTS and PLACED count as messages; both ends number them alike. Everything here is a pure function of what a peer has written,
 * and validates it.
 */
#ifndef MSG_WIRE_H
#define MSG_WIRE_H

#include "util/error.h"
#include "util/layout.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MSG_WIRE_SLOT_BYTES 40u /* payload that travels in a slot */
#define MSG_WIRE_UNIT 64u       /* of memory that unexpected messages take at the receiver */

enum msg_wire_kind {
    MSG_WIRE_MSG = 1,
    MSG_WIRE_RTS,
    MSG_WIRE_PLACED,
    MSG_WIRE_DATA,
    MSG_WIRE_PART,
    MSG_WIRE_ABORT,
    MSG_WIRE_RTR,
    MSG_WIRE_CTS,
    MSG_WIRE_FIN,
    MSG_WIRE_REFUSED,
    MSG_WIRE_UNDO,
    MSG_WIRE_UNDONE,
    MSG_WIRE_CREDIT,
    MSG_WIRE_HELLO,
    MSG_WIRE_MOVED,
    MSG_WIRE_WINDOW,
    MSG_WIRE_CELLS,
    MSG_WIRE_READY,
    MSG_WIRE_END,
    MSG_WIRE_WRITTEN,
    MSG_WIRE_KINDS_END
};

/* Memory of the kinds that have a fixed length; zero where a kind does not use it. */
struct msg_wire_fields {
    uint32_t id; /* RTS, DATA: send; PLACED, RTR, CTS: receive; REFUSED, UNDO: number */
    uint32_t
        extra; /* RTR: skip, earlier receives of this space and tag; RTS, PLACED: cell + 1; RTS, CTS: window, over a network; 0: none */
    uint64_t bytes; /* RTS, PLACED: of the message; RTR, CTS: of the buffer; CREDIT: units */
    uint64_t
        where; /* RTS, PLACED: address of the payload; RTR, CTS: of the buffer; with a window its offset there + 1; 0: it is not given */
    uint64_t seen;   /* RTR: number of the last message that was matched or kept */
    uint32_t number; /* RTR: of this RTR */
    uint32_t
        open; /* RTR: the buffer may be written before the message has arrived: 1; over a network, by this window */
};
static_assert(sizeof(struct msg_wire_fields) == MSG_WIRE_SLOT_BYTES &&
                  offsetof(struct msg_wire_fields, seen) == 24,
              "layout on the wire");

struct msg_wire {
    enum msg_wire_kind kind;
    uint32_t space, word;
    size_t bytes; /* of the memory */
};

static inline uint64_t msg_wire_header(enum msg_wire_kind kind, uint32_t space, uint32_t word)
{
    return (uint64_t)kind | (uint64_t)(space & 0xffff) << 8 | (uint64_t)word << 32;
}

/* The header of a message with its payload; and one in this space. */
static inline bool msg_wire_is_msg(uint64_t header)
{
    return (header & UINT64_C(0xff0000ff)) == MSG_WIRE_MSG;
}

static inline bool msg_wire_is_msg_in(uint64_t header, uint32_t space)
{
    return (uint32_t)header == (uint32_t)msg_wire_header(MSG_WIRE_MSG, space, 0);
}

static inline uint32_t msg_wire_space(uint64_t header) { return header >> 8 & 0xffff; }
static inline uint32_t msg_wire_word(uint64_t header) { return (uint32_t)(header >> 32); }

/* Kinds whose memory is not a prefix of struct msg_wire_fields. */
static inline bool msg_wire_is_free(enum msg_wire_kind kind)
{
    return kind == MSG_WIRE_MSG || kind == MSG_WIRE_PART || kind == MSG_WIRE_HELLO ||
           kind == MSG_WIRE_WINDOW || kind == MSG_WIRE_CELLS;
}

/* Bytes of memory of a kind: a prefix of struct msg_wire_fields; 0 for the others. */
static inline size_t msg_wire_fields_bytes(enum msg_wire_kind kind)
{
    static const uint8_t bytes[MSG_WIRE_KINDS_END] = {
        [MSG_WIRE_RTS] = 24,    [MSG_WIRE_PLACED] = 24, [MSG_WIRE_DATA] = 4,
        [MSG_WIRE_RTR] = 40,    [MSG_WIRE_CTS] = 24,    [MSG_WIRE_UNDO] = 4,
        [MSG_WIRE_CREDIT] = 16, [MSG_WIRE_REFUSED] = 4};

    return bytes[kind];
}

/* False: not a header that msg_wire_header makes for a message of `size` bytes; *w is meaningless then. */
static inline bool msg_wire_parse(uint64_t header, size_t size, struct msg_wire *w)
{
    uint32_t kind = header & 255;

    w->kind = (enum msg_wire_kind)kind;
    w->space = msg_wire_space(header);
    w->word = msg_wire_word(header);
    w->bytes = size;
    return (header & UINT64_C(0xff000000)) == 0 && kind - 1 < MSG_WIRE_KINDS_END - 1u;
}

/* Copies the fields of a message that msg_wire_parse has accepted, and that is not free. False: they are not valid. */
bool msg_wire_fields(const struct msg_wire *w, const void *mem, struct msg_wire_fields *f);

/* Why a process ends a link that its peer has not ended. */
enum msg_wire_reason {
    MSG_WIRE_VIOLATION = 1, /* the peer has violated the protocol */
    MSG_WIRE_FAULT,         /* the memory of a message cannot be accessed */
    MSG_WIRE_LATE,          /* the peer did not finish to write into memory of this process */
    MSG_WIRE_REASONS_END
};

/* Units that a message of so many bytes takes at the receiver. */
static inline uint64_t msg_wire_units(size_t bytes)
{
    return bytes <= MSG_WIRE_SLOT_BYTES ? 1 : 1 + (bytes + MSG_WIRE_UNIT - 1) / MSG_WIRE_UNIT;
}

/* ---- memory of a process, for peers on its host ---- */

#define MSG_WIRE_WINDOW_BASE 4096u /* address of the first byte of the window */

struct msg_wire_window {
    uint64_t handle[8];
    uint64_t probe; /* address of MSG_WIRE_MAGIC, while the context is open */
};
static_assert(sizeof(struct msg_wire_window) == 72, "layout on the wire");

/* ---- the greeting ---- */

#define MSG_WIRE_MAGIC 0x67736d72u /* "rmsg" */
#define MSG_WIRE_OLDEST 1u
#define MSG_WIRE_NEWEST 1u
#define MSG_WIRE_WINDOWS UINT64_C(1) /* feature: buffers are windows, over networks */
#define MSG_WIRE_FEATURES MSG_WIRE_WINDOWS
#define MSG_WIRE_WINDOWS_MOST 32u /* numbers of windows are from 1 to this one */
#define MSG_WIRE_SHARE_LEAST 64u  /* units */

/* Read zero-extended (util/layout.h). */
struct msg_wire_hello {
    uint32_t length; /* of this structure */
    uint32_t magic;
    struct version_range versions;
    uint32_t part_bytes; /* largest part that fits into the memory of the sender of the greeting */
    uint64_t features;
    uint64_t share; /* units of unexpected messages that the sender of the greeting keeps */
    LAYOUT_APPENDED
};
static_assert(sizeof(struct msg_wire_hello) == 32 + LAYOUT_APPENDED_BYTES, "layout on the wire");

void msg_wire_hello_init(struct msg_wire_hello *own, uint64_t share, uint32_t part_bytes);

/* Reads the greeting of a peer into *theirs, zero-extended. 0, or -EPROTO and a message. */
int msg_wire_hello_match(const struct msg_wire_hello *own, const void *mem, size_t bytes, int peer,
                         struct msg_wire_hello *theirs, struct error *err);

#endif
