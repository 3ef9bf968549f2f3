/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cell.h: what is in the memory that a member shows to its host (doc/collectives.md "The board").
 *
 *     head    512 bytes: what the member is, `done`, and which operations it has begun
 *     cells   lines for messages: slot 0, the only one of most operations, has a pair of them for each of `depth` operations, the others one
 *             line for each of CELL_DEPTH or CELL_DEPTH_LAST: those of one slot follow each other, cell[slot][number mod its depth]
 *     heap    messages of more than cell_bytes(), a ring in the order of operations; its first BOARD_HEAP_FIRST bytes are allocated when the
 *             team opens, the others by the owner before it stores there (engine_extend_heap)
 *     mem     memory of rcoll_alloc
 *     agree   what this member contributes to agreements, and its estimates of them
 *
 * Only the owner writes. Invariants:
 *
 * 1. A cell has the number of an operation once its message is there (release, acquire); a message in the heap may grow after that:
 *    `ready` bytes of it are there (release, acquire).
 * 2. A cell, and the heap that it refers to, is written again only when `done` of every mate, which is a member of the same host, is
 *    beyond the number that it has, which is cell_depth() before the new one. So what a member has received is as it was until it ends the operation, or releases its views.
 * 3. `done` never decreases.
 * 4. A message in memory of its process is as it was until all receivers have answered, or `withdrawn` is not 0: a receiver loads that when
 *    it has read the message.
 * 5. started[k mod 64] has 16 bits of k / 64 + 1, and 16 of the check of operation k, from the moment at which k begins until k + 64 does.
 */
#ifndef COLL_ENGINE_CELL_H
#define COLL_ENGINE_CELL_H

#include "util/cpu.h"

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CELL_BYTES 48 /* of a message in its cell, if that is a line */
#define CELL_PAIR 2   /* lines of a cell of slot 0 */
#define CELL_SLOTS 64
#define CELL_DEPTH 8      /* of slots other than 0, at most */
#define CELL_DEPTH_LAST 4 /* of the second half of the slots */
#define CELL_ALIGNMENT 64 /* of messages in the heap */

/* CELL_IN_PROCESS: only of a message that is lent, which a receiver reads by rboard_fetch. */
enum cell_where { CELL_IN_BOARD, CELL_IN_PROCESS };

struct cell {
    _Atomic uint64_t
        number;     /* of the operation; 0: of none. Its low 32 bits are what sleepers sleep on */
    uint32_t check; /* what operation this is, how long the message is, and whether it is marked */
    uint32_t where; /* of a message that is not in its cell: enum cell_where */
    union {
        unsigned char data[CELL_BYTES]; /* of slot 0 it goes on in the next line */
        struct {
            uint64_t
                at; /* where the message is: from the beginning of the board, or an address of its process */
            _Atomic uint64_t ready; /* bytes that are there */
        } message;
    };
};
static_assert(sizeof(struct cell) == CACHE_LINE, "a cell is a line");

/* Lines of a cell of the slot, and how many bytes of a message are in it. */
static inline uint32_t cell_lines(uint32_t slot) { return slot == 0 ? CELL_PAIR : 1; }

static inline size_t cell_bytes(uint32_t slot)
{
    return CELL_BYTES + (size_t)(cell_lines(slot) - 1) * CACHE_LINE;
}

/* How many operations have a cell for the slot, of a team of this depth: powers of two. */
static inline uint32_t cell_depth(uint32_t depth, uint32_t slot)
{
    uint32_t most = slot == 0 ? depth : slot < CELL_SLOTS / 2 ? CELL_DEPTH : CELL_DEPTH_LAST;

    return depth < most ? depth : most;
}

/* Lines of all cells before the slot; with CELL_SLOTS: of all. */
static inline size_t cell_lines_before(uint32_t depth, uint32_t slot)
{
    const uint32_t half = CELL_SLOTS / 2;
    size_t lines = (size_t)depth * CELL_PAIR;

    if (slot == 0)
        return 0;
    lines += (size_t)((slot < half ? slot : half) - 1) * cell_depth(depth, 1);
    return lines + (size_t)(slot < half ? 0 : slot - half) * cell_depth(depth, half);
}

/* The line in which the cell of an operation begins. */
static inline size_t cell_index(uint32_t depth, uint64_t number, uint32_t slot)
{
    return cell_lines_before(depth, slot) +
           (size_t)(number & (cell_depth(depth, slot) - 1)) * cell_lines(slot);
}

static inline size_t cell_count(uint32_t depth) { return cell_lines_before(depth, CELL_SLOTS); }

/* The second line of a cell of slot 0. */
static inline void *cell_second(const struct cell *cell) { return (void *)(uintptr_t)(cell + 1); }

#define HEAD_MAGIC UINT64_C(0x32306c6c6f637200) /* "rcoll02" */
#define HEAD_CPUS 1024
#define HEAD_STARTED 64 /* at least the largest depth */

struct head {
    _Atomic uint64_t magic; /* stored last */
    uint64_t heap_bytes, mem_bytes;
    uint32_t depth;
    _Atomic uint32_t
        withdrawn;    /* -code: operations have failed here, and memory that was lent may change */
    uint64_t address; /* of this head, in its process */
    unsigned char unused[24];
    alignas(CACHE_LINE) _Atomic uint64_t
        done; /* operations below this number are over here, and their views released */
    _Atomic uint64_t
        views; /* the oldest operation with RCOLL_VIEWS that has been started here, and whose views are not released; 0: none */
    alignas(CACHE_LINE) uint64_t cpus[HEAD_CPUS / 64]; /* processors that this process may use */
    alignas(CACHE_LINE) _Atomic uint32_t started[HEAD_STARTED]; /* head_started() */
};
static_assert(sizeof(struct head) == 512, "eight lines: the pairs of lines behind it are aligned");
static_assert(sizeof(struct head) + (HEAD_STARTED * CELL_PAIR + (CELL_SLOTS / 2 - 1) * CELL_DEPTH +
                                     CELL_SLOTS / 2 * CELL_DEPTH_LAST) *
                                        sizeof(struct cell) ==
                  32 * 1024,
              "with the default depth, head and cells are eight pages");

#define HEAD_CHECK UINT32_C(0xffff) /* bits of a check in `started` */

/*
 * What `started` has of an operation: 16 bits of its check, and 16 of its lap, from 1; 0: none has begun. So a word is taken for that of another
 * operation only if one member is exactly 2^22 operations behind a mate.
 */
static inline uint32_t head_started(uint64_t number, uint32_t check)
{
    return (uint32_t)(number / HEAD_STARTED + 1) << 16 | (check & HEAD_CHECK);
}

/* Whether the member of a word has begun the operation of this number, or a later one of the same word. */
static inline bool head_has_begun(uint32_t started, uint64_t number)
{
    return started != 0 && (int16_t)((started >> 16) - (head_started(number, 0) >> 16)) >= 0;
}

/* Whether a word is that of an operation of this number, and of another check. */
static inline bool head_contradicts(uint32_t started, uint64_t number, uint32_t check)
{
    const uint32_t other = started ^ head_started(number, check);

    return started != 0 && other >> 16 == 0 && other != 0;
}

/* Of agreements, one after the other; see agree.h. */
struct agree_words {
    _Atomic uint64_t contributed; /* number of the agreement, stored after flags */
    uint64_t flags;
    _Atomic uint64_t estimated; /* the same, after the estimate */
    uint64_t estimate;
    uint64_t unused[4];
    /* a bit for each member follows: the dead of the estimate */
};
static_assert(sizeof(struct agree_words) == CACHE_LINE, "a line, and the bits behind it");

#define BOARD_PAGE 4096
#define BOARD_HEAP_FIRST                                                                           \
    16384 /* of the heap, allocated when the team opens: more than its cards need */

static inline size_t board_round(size_t bytes)
{
    return (bytes + BOARD_PAGE - 1) / BOARD_PAGE * BOARD_PAGE;
}

static inline size_t agree_dead_bytes(int members) { return ((size_t)members + 511) / 512 * 64; }

static inline size_t agree_bytes(int members)
{
    return sizeof(struct agree_words) + agree_dead_bytes(members);
}

static inline size_t board_heap_at(uint32_t depth)
{
    return board_round(sizeof(struct head) + cell_count(depth) * sizeof(struct cell));
}

#endif
