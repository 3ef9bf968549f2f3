/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.h: what is in the memory that members of a cast show to their host (doc/casts.md "Structures").
 *
 * The writer has, from offset 0: head, `slots` slots, and from a page on the heap. A reader has one line. Only the owner writes.
 *
 * Invariants:
 *
 * 1. A slot has the number of a message once that is there (release, acquire). What it contains, and the memory in the heap that it
 *    refers to, is written again only when `freed` of each live reader is beyond that number.
 * 2. `freed` and `read` of a reader never decrease, and freed <= read.
 * 3. `end` is stored once, after the last message.
 *
 * Numbers of messages are compared by their signed difference. A process sleeps on the low 32 bits of a word: within a lap of the ring no
 * two values that it sees have the same one.
 */
#ifndef CAST_RING_H
#define CAST_RING_H

#include "util/cpu.h"

#include <assert.h>
#include <endian.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define CAST_INLINE 48 /* bytes of a message that are in its slot */

struct cast_slot {
    _Atomic uint64_t number; /* of the message; before the first lap that of the lap before it */
    uint64_t bytes;          /* more than CAST_INLINE: it is in the heap */
    union {
        unsigned char data[CAST_INLINE];
        uint64_t at; /* from the beginning of the heap */
    };
};
static_assert(sizeof(struct cast_slot) == CACHE_LINE, "a slot is a line");

#define CAST_MAGIC UINT64_C(0x3130747361637200) /* "rcast01" */

struct cast_head {
    _Atomic uint64_t magic; /* stored last */
    uint64_t first, heap_bytes;
    uint32_t slots, zero;
    unsigned char unused[32];
    alignas(CACHE_LINE) _Atomic uint64_t end; /* 1 + how many messages there are; 0: open */
    unsigned char unused_too[CACHE_LINE - 8];
};
static_assert(sizeof(struct cast_head) == 2 * (size_t)CACHE_LINE, "two lines");

#define CAST_LINE_CLOSED (UINT64_C(1) << 63)

struct cast_line {
    _Atomic uint64_t
        freed; /* 1 + how many of the first messages are freed; 0: not begun; CAST_LINE_CLOSED: the reader has closed */
    _Atomic uint64_t read; /* the same of messages read; for messages of errors alone */
    unsigned char unused[CACHE_LINE - 16];
};
static_assert(sizeof(struct cast_line) == CACHE_LINE, "one line");

#define CAST_PAGE 4096

static inline size_t cast_heap_at(uint32_t slots)
{
    size_t at = sizeof(struct cast_head) + (size_t)slots * sizeof(struct cast_slot);

    return (at + CAST_PAGE - 1) / CAST_PAGE * CAST_PAGE;
}

/* The 32 bits of a word that a process sleeps on. */
static inline const void *cast_low_word(const _Atomic uint64_t *word)
{
    return (const char *)(const void *)word + (__BYTE_ORDER == __BIG_ENDIAN ? 4 : 0);
}

#endif
