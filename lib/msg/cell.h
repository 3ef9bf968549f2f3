/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cell.h: which process copies which chunk of a large payload: words in memory that both ends of a link address.
 *
 * Two processes of one host can copy a payload across their address spaces, each of them alone or both at once. It is divided into
 * chunks; a process takes the next one by an addition to `next`, copies it, and adds one to `done`. So no chunk is copied twice, a
 * process that makes no calls takes none, and the payload has been moved when `done` is the number of chunks.
 *
 * A cell belongs to the sender of a payload from the RTS or PLACED that names it to the MOVED of the receiver; between them both
 * ends use it:
 *
 *     next    chunks taken, and more; STOP: none can be taken any more
 *     done    chunks copied; and bits of an end that has given up its request, set once, after which the payload is not complete
 *     open    the sender may write into the buffer of the receive
 *
 * Invariants (model/cell.pml):
 * 1. A process that has taken a chunk copies it in the same call: it does not return with a chunk that is not done, but for one that
 *    the kernel cannot copy yet, which it is not copying then, and copies later.
 * 2. A send completes when all chunks are done, or with MOVED: the receiver copies none of it any more.
 * 3. A receive completes when all chunks are done, or after STOP when those that were taken are done: the sender copies none of it
 *    any more. It sends MOVED then, and does not use the cell again.
 *
 * Pure: words of a peer, which may have any value, decide only which chunks of the own request are copied.
 */
#ifndef MSG_CELL_H
#define MSG_CELL_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MSG_CELLS 32u /* of a link, for the sends of one end */

struct msg_cell {
    _Atomic uint64_t next, done;
    _Atomic uint32_t open;
    char pad[44];
};
static_assert(sizeof(struct msg_cell) == 64, "a line of both processes");

#define CELL_STOP (UINT64_C(1) << 40)         /* next */
#define CELL_COUNT UINT64_C(0xffffffff)       /* done: chunks */
#define CELL_SENDER_STOPS (UINT64_C(1) << 40) /* done */
#define CELL_RECEIVER_STOPS (UINT64_C(1) << 41)

#define CELL_CHUNK (64u << 10)       /* bytes of a chunk, */
#define CELL_SHORT_CHUNK (32u << 10) /* of a payload of up to CELL_SHORT bytes, */
#define CELL_SHORT (256u << 10)
#define CELL_CHUNKS_MOST (1u << 20) /* and so many at most */

/* A multiple of 4 KiB, from the length of the payload alone: both ends compute the same. */
static inline uint64_t cell_chunk_bytes(uint64_t bytes)
{
    uint64_t least = bytes / CELL_CHUNKS_MOST;

    if (bytes <= CELL_SHORT)
        return CELL_SHORT_CHUNK;
    return least <= CELL_CHUNK ? CELL_CHUNK : (least + 4096) & ~UINT64_C(4095);
}

static inline uint64_t cell_chunks(uint64_t bytes)
{
    uint64_t chunk = cell_chunk_bytes(bytes);

    return bytes / chunk + (bytes % chunk != 0);
}

/* The sender: nothing has been copied. It is published by the message that names the cell. */
static inline void cell_begin(struct msg_cell *c, bool open)
{
    atomic_store_explicit(&c->next, 0, memory_order_relaxed);
    atomic_store_explicit(&c->done, 0, memory_order_relaxed);
    atomic_store_explicit(&c->open, open, memory_order_relaxed);
}

/* The receiver, or the sender on its behalf: the buffer may be written. */
static inline void cell_open(struct msg_cell *c)
{
    atomic_store_explicit(&c->open, 1, memory_order_release); /* pairs with cell_is_open */
}

static inline bool cell_is_open(struct msg_cell *c)
{
    return atomic_load_explicit(&c->open, memory_order_acquire) != 0; /* pairs with cell_open */
}

/* Takes a chunk of a payload of so many; false: all are taken. */
static inline bool cell_take(struct msg_cell *c, uint64_t chunks, uint64_t *chunk)
{
    if (atomic_load_explicit(&c->next, memory_order_relaxed) >= chunks)
        return false;
    *chunk = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed);
    return *chunk < chunks;
}

/* The chunk that was taken has been copied. */
static inline void cell_copied(struct msg_cell *c)
{
    (void)atomic_fetch_add_explicit(&c->done, 1, memory_order_acq_rel); /* pairs with cell_done */
}

/* Chunks that have been copied, and bits of an end that has given up. */
static inline uint64_t cell_done(struct msg_cell *c)
{
    return atomic_load_explicit(&c->done, memory_order_acquire); /* pairs with cell_copied */
}

/* One end gives up. Returns the number of chunks that were taken, which may not all be done yet. */
static inline uint64_t cell_stop(struct msg_cell *c, uint64_t who, uint64_t chunks)
{
    uint64_t taken;

    (void)atomic_fetch_or_explicit(&c->done, who, memory_order_acq_rel);
    taken = atomic_fetch_add_explicit(&c->next, CELL_STOP, memory_order_acq_rel) %
            CELL_STOP; /* without those of the other end */
    return taken < chunks ? taken : chunks;
}

#endif
