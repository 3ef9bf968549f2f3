/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slot.h: the contents of the shared memory of a pipe: slots, control line, credit line (doc/protocol.md).
 *
 * Each structure is read by a process that does not trust the one that wrote it and may have another build of this library:
 * fixed-width types, sizes and offsets frozen by static_assert, one version number for all.
 */
#ifndef SYNC_SLOT_H
#define SYNC_SLOT_H

#include "alloc/desc.h"
#include "util/cpu.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SYNC_LAYOUT_VERSION 3

enum slot_kind { SLOT_INLINE = 1, SLOT_HEAP = 2, SLOT_FREED = 3, SLOT_REGION = 4 };

/*
 * A notification. `flag` is the sequence number of the message, counted from 1 and never repeated: the reader tests for
 * the one value that it expects, and anything else means "not yet".
 */
struct slot {
    union {
        uint8_t payload[DESC_INLINE_MAX]; /* SLOT_INLINE */
        struct {
            uint64_t offset; /* SLOT_HEAP: in bytes from the beginning of the heap */
            uint64_t size;
            /* SLOT_REGION: the payload is in the program's memory at the writer, and the block holds a struct region_note */
            uint64_t region; /* its number */
            uint64_t at;     /* in bytes from the beginning of the region */
            uint64_t check;  /* of the payload, if `checked` is 1 */
        } heap;
    };
    uint64_t header; /* of the user */
    union {
        struct {
            uint8_t kind;  /* enum slot_kind */
            uint8_t bytes; /* SLOT_INLINE: length of the payload */
            uint8_t
                checked; /* SLOT_HEAP: 1: the writer has RMALLOC_DEBUG=1, see debug_guard.c; else 0 */
            uint8_t
                eager; /* SLOT_HEAP, GET over a network: 1: the payload has been written with the slot; else 0 */
            uint32_t block; /* SLOT_HEAP with tags or channel, SLOT_FREED: index of the block */
        };
        uint64_t word; /* all of these: slot_word */
    };
    _Atomic uint64_t flag;
};
static_assert(sizeof(struct slot) == CACHE_LINE, "a slot is one line: one write");
static_assert(offsetof(struct slot, header) == 40 && offsetof(struct slot, kind) == 48,
              "layout of a slot");
static_assert(offsetof(struct slot, flag) == 56, "the flag is the last word of a slot");

/* A small message: `word` of its slot, as one store. */
static FORCE_INLINE uint64_t slot_word_inline(size_t bytes)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return SLOT_INLINE + ((uint64_t)bytes << 8);
#else
    return (uint64_t)SLOT_INLINE << 56 | (uint64_t)bytes << 48;
#endif
}

/* One line beside the ring; all of it is zero while the pipe is open and no end sleeps. */
struct ring_control {
    _Atomic uint64_t final;       /* writer: number of messages written, + 1; 0: open */
    uint64_t final_crc;           /* for backends that write words in any order */
    _Atomic uint32_t reader_wake; /* 1: the reader sleeps, or is about to */
    _Atomic uint32_t writer_wake; /* 1: the writer */
    _Atomic uint32_t push_below;  /* reader: payloads of fewer bytes are pushed (push.h); a hint */
    uint32_t reserved_word;
    uint64_t reserved[4];
};
static_assert(sizeof(struct ring_control) == CACHE_LINE, "one line");
static_assert(offsetof(struct ring_control, reader_wake) == 16, "layout of the control line");

/* In the reader's memory, slots behind the line; the writer writes them. */
struct ring_area {
    struct ring_control control;
    struct slot slot[];
};

/* In the reader's memory; the writer only reads it. */
struct credit_line {
    _Atomic uint64_t slots_read; /* slots copied out */
    _Atomic uint64_t
        heap_freed; /* heap messages freed, without a gap, in the order of their slots */
    _Atomic uint64_t
        fetched; /* GET over a network: messages whose payload has been fetched, without a gap */
    uint64_t reserved[5];
};
static_assert(sizeof(struct credit_line) == CACHE_LINE, "one line");

/* Nothing has been read yet, and messages are counted from `first`. */
static inline void credit_line_init(struct credit_line *line, uint64_t first)
{
    atomic_store_explicit(&line->slots_read, first, memory_order_relaxed);
    atomic_store_explicit(&line->fetched, first, memory_order_relaxed);
}

/* In the reader's memory; the writer only reads it. With tags: the queue behind the line, so that one READ gets both. */
struct credit_area {
    struct credit_line line;
    _Atomic uint64_t tag[];
};

static inline size_t ring_area_bytes(uint32_t slots)
{
    return sizeof(struct ring_area) + (size_t)slots * sizeof(struct slot);
}

static FORCE_INLINE struct slot *ring_slot_at(struct ring_area *ring, size_t offset)
{
    return ((struct ring_area *)(void *)((char *)ring + offset))
        ->slot; /* so that every access has a constant offset */
}

/* The message with this sequence number is complete. Pairs with the release in ring_slot_publish. */
static inline bool ring_slot_ready(const struct slot *s, uint64_t sequence)
{
    return atomic_load_explicit(&s->flag, memory_order_acquire) == sequence;
}

/* Release: a reader that sees the flag (acquire in ring_slot_ready) sees the slot, and the payload in the heap. */
static inline void ring_slot_publish(struct slot *s, uint64_t sequence)
{
    atomic_store_explicit(&s->flag, sequence, memory_order_release);
}

#endif
