/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * altered_layouts.h: every field of every layout that a peer may write, or send.
 *
 * A layout is a list of rows F(struct, member, type of its elements, what it is near). A member that is added to a structure
 * without a row does not compile: the sizes of the rows have to sum up to that of the structure. The cases of altered.h are made
 * from these tables.
 */
#ifndef TEST_FAULTS_ALTERED_LAYOUTS_H
#define TEST_FAULTS_ALTERED_LAYOUTS_H

#include "btl/shm/mapping.h"
#include "cells/cells.h"
#include "control/lane.h"
#include "control/wire.h"
#include "observe/record/trace_clock.h"
#include "rpipe/connect/handshake.h"
#include "rpipe/data/holding.h"
#include "rpipe/grow/grow.h"
#include "sync/slot.h"

/* Values next to these are tried, besides those of every field; TEXT: of its elements the first and the last alone. */
enum near { ANY, SLOTS, HEAP, QUEUE, BODY, LENGTH, TYPE, TEXT };

struct field {
    const char *name;
    uint32_t offset, bytes, element;
    enum near near;
};

struct layout {
    const struct field *field;
    int fields;
    uint32_t bytes; /* of the structure */
};

/* Two views of the tag of a block that the reader gives back (sync/tag.h), which is one word. */
struct tag_view {
    uint32_t block, lap;
};
static_assert(sizeof(struct tag_view) == sizeof(((struct credit_area *)0)->tag[0]), "one tag");
struct cell_view {
    uint64_t cell;
};
struct liveness_view {
    uint32_t word;
};

#define ROWS_SLOT_END(F, T)                                                                        \
    F(T, header, uint64_t, ANY)                                                                    \
    F(T, kind, uint8_t, ANY)                                                                       \
    F(T, bytes, uint8_t, ANY)                                                                      \
    F(T, checked, uint8_t, ANY)                                                                    \
    F(T, eager, uint8_t, ANY)                                                                      \
    F(T, block, uint32_t, QUEUE)                                                                   \
    F(T, flag, uint64_t, SLOTS)
#define ROWS_SLOT(F, T)                                                                            \
    F(T, heap.offset, uint64_t, HEAP)                                                              \
    F(T, heap.size, uint64_t, HEAP)                                                                \
    F(T, heap.region, uint64_t, ANY)                                                               \
    F(T, heap.at, uint64_t, HEAP)                                                                  \
    F(T, heap.check, uint64_t, ANY)                                                                \
    ROWS_SLOT_END(F, T)
#define ROWS_INLINE(F, T) F(T, payload, uint64_t, ANY) ROWS_SLOT_END(F, T)
#define ROWS_CONTROL(F, T)                                                                         \
    F(T, final, uint64_t, SLOTS)                                                                   \
    F(T, final_crc, uint64_t, ANY)                                                                 \
    F(T, reader_wake, uint32_t, ANY)                                                               \
    F(T, writer_wake, uint32_t, ANY)                                                               \
    F(T, push_below, uint32_t, ANY)                                                                \
    F(T, reserved_word, uint32_t, ANY)                                                             \
    F(T, reserved, uint64_t, ANY)
#define ROWS_CREDIT(F, T)                                                                          \
    F(T, slots_read, uint64_t, SLOTS)                                                              \
    F(T, heap_freed, uint64_t, QUEUE)                                                              \
    F(T, fetched, uint64_t, SLOTS)                                                                 \
    F(T, reserved, uint64_t, ANY)
#define ROWS_TAG(F, T)                                                                             \
    F(T, block, uint32_t, QUEUE)                                                                   \
    F(T, lap, uint32_t, ANY)
#define ROWS_CELL(F, T) F(T, cell, uint64_t, ANY)
#define ROWS_LIVENESS(F, T) F(T, word, uint32_t, ANY)

#define ROWS_HEAD(F, T)                                                                            \
    F(T, bytes, uint32_t, LENGTH)                                                                  \
    F(T, version, uint16_t, ANY)                                                                   \
    F(T, role, uint8_t, ANY)                                                                       \
    F(T, flags, uint8_t, ANY)                                                                      \
    F(T, context, uint64_t, ANY)                                                                   \
    F(T, end_number, uint32_t, ANY)                                                                \
    F(T, code, int32_t, ANY)                                                                       \
    F(T, number, uint64_t, SLOTS)
#define ROWS_OF_HEAD(F, T)                                                                         \
    F(T, head.bytes, uint32_t, LENGTH)                                                             \
    F(T, head.version, uint16_t, ANY)                                                              \
    F(T, head.role, uint8_t, ANY)                                                                  \
    F(T, head.flags, uint8_t, ANY)                                                                 \
    F(T, head.context, uint64_t, ANY)                                                              \
    F(T, head.end_number, uint32_t, ANY)                                                           \
    F(T, head.code, int32_t, ANY)                                                                  \
    F(T, head.number, uint64_t, SLOTS)
#define ROWS_FAIL(F, T) ROWS_OF_HEAD(F, T) F(T, reason, uint64_t, TEXT)
#define ROWS_GROW(F, T)                                                                            \
    ROWS_OF_HEAD(F, T)                                                                             \
    F(T, bytes, uint64_t, HEAP)                                                                    \
    F(T, key, uint64_t, HEAP)
#define ROWS_ATOMIC(F, T)                                                                          \
    ROWS_OF_HEAD(F, T)                                                                             \
    F(T, op, uint64_t, ANY)                                                                        \
    F(T, cell, uint64_t, HEAP)                                                                     \
    F(T, operand, uint64_t, ANY)                                                                   \
    F(T, compare, uint64_t, ANY)                                                                   \
    F(T, old, uint64_t, ANY)
#define ROWS_STARVED(F, T)                                                                         \
    ROWS_OF_HEAD(F, T)                                                                             \
    F(T, bytes, uint64_t, HEAP)                                                                    \
    F(T, waited, uint64_t, ANY)
#define ROWS_HANDSHAKE(F, T)                                                                       \
    ROWS_OF_HEAD(F, T)                                                                             \
    F(T, magic, uint32_t, ANY)                                                                     \
    F(T, oldest, uint16_t, ANY)                                                                    \
    F(T, newest, uint16_t, ANY)                                                                    \
    F(T, features, uint64_t, ANY)                                                                  \
    F(T, layout_oldest, uint16_t, ANY)                                                             \
    F(T, layout_newest, uint16_t, ANY)                                                             \
    F(T, slots, uint32_t, SLOTS)                                                                   \
    F(T, op, uint8_t, ANY)                                                                         \
    F(T, algorithm, uint8_t, ANY)                                                                  \
    F(T, sync, uint8_t, ANY)                                                                       \
    F(T, zero, uint8_t, ANY)                                                                       \
    F(T, unit_size, uint32_t, HEAP)                                                                \
    F(T, alloc_size, uint64_t, HEAP)                                                               \
    F(T, max_alloc_size, uint64_t, HEAP)                                                           \
    F(T, sync_queue, uint32_t, QUEUE)                                                              \
    F(T, incarnation, uint32_t, ANY)                                                               \
    F(T, btl, char, TEXT)                                                                          \
    F(T, ring, uint64_t, HEAP)                                                                     \
    F(T, credit, uint64_t, HEAP)                                                                   \
    F(T, heap, uint64_t, HEAP)                                                                     \
    F(T, reverse, uint64_t, HEAP)                                                                  \
    F(T, cells, uint64_t, ANY)                                                                     \
    F(T, address, uint16_t, TEXT)                                                                  \
    F(T, eager, uint64_t, HEAP)                                                                    \
    F(T, spare, uint64_t, ANY)
#define ROWS_SEGMENT(F, T)                                                                         \
    F(T, type, uint32_t, ANY)                                                                      \
    F(T, access, uint32_t, ANY)                                                                    \
    F(T, id, uint64_t, ANY)                                                                        \
    F(T, bytes, uint64_t, HEAP)
#define ROWS_CLOCK(F, T)                                                                           \
    F(T, query, uint64_t, ANY)                                                                     \
    F(T, time, int64_t, ANY)                                                                       \
    F(T, clock, uint64_t, ANY)
#define ROWS_CHUNK(F, T)                                                                           \
    F(T, bytes, uint32_t, LENGTH)                                                                  \
    F(T, lane, uint16_t, ANY)                                                                      \
    F(T, kind, uint16_t, ANY)                                                                      \
    F(T, flags, uint32_t, ANY)                                                                     \
    F(T, code, int32_t, ANY)                                                                       \
    F(T, epoch, uint32_t, ANY)                                                                     \
    F(T, round, uint32_t, ANY)                                                                     \
    F(T, culprit, int32_t, ANY)                                                                    \
    F(T, spare, uint32_t, ANY)                                                                     \
    F(T, total, uint64_t, BODY)                                                                    \
    F(T, offset, uint64_t, BODY)
#define ROWS_ACK(F, T)                                                                             \
    F(T, bytes, uint32_t, LENGTH)                                                                  \
    F(T, lane, uint32_t, ANY)                                                                      \
    F(T, taken, uint64_t, ANY)
#define ROWS_FRAME(F, T)                                                                           \
    F(T, bytes, uint32_t, LENGTH)                                                                  \
    F(T, magic, uint32_t, ANY)                                                                     \
    F(T, type, uint16_t, TYPE)                                                                     \
    F(T, nfds, uint16_t, SLOTS)                                                                    \
    F(T, body_bytes, uint32_t, BODY)
#define ROWS_HELLO(F, T)                                                                           \
    F(T, bytes, uint32_t, LENGTH)                                                                  \
    F(T, versions, uint16_t, ANY)                                                                  \
    F(T, magic, uint64_t, ANY)                                                                     \
    F(T, features, uint64_t, ANY)                                                                  \
    F(T, from, uint32_t, SLOTS)                                                                    \
    F(T, to, uint32_t, SLOTS)                                                                      \
    F(T, flags, uint32_t, ANY)                                                                     \
    F(T, attempt, uint32_t, ANY)                                                                   \
    F(T, cookie, uint64_t, ANY)                                                                    \
    F(T, process_id, uint64_t, ANY)                                                                \
    F(T, window, uint32_t, BODY)                                                                   \
    F(T, more_spare, uint64_t, ANY)

#define ROW(type, member, of, near)                                                                \
    {#member, offsetof(type, member), sizeof(((type *)0)->member), sizeof(of), near},
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a summand */
#define ROW_SIZE(type, member, of, near) +sizeof(((type *)0)->member)
#define ROW_FITS(type, member, of, near)                                                           \
    static_assert(sizeof(((type *)0)->member) % sizeof(of) == 0, #member ": whole elements");

/* name_layout: the table of a structure. */
#define LAYOUT(name, type, ROWS)                                                                   \
    static_assert((0 ROWS(ROW_SIZE, type)) == sizeof(type), #name ": every field has a row");      \
    ROWS(ROW_FITS, type)                                                                           \
    static const struct field name##_fields[] = {ROWS(ROW, type)};                                 \
    static const struct layout name##_layout = {                                                   \
        name##_fields, sizeof(name##_fields) / sizeof(name##_fields[0]), sizeof(type)};

#endif
