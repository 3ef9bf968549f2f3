/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handshake.h: the handshake record: what one end sends to the other so that both can join.
 *
 * Two versions of the library understand each other where their ranges of versions overlap; the newest common one is used. A
 * feature bit announces an optional extension. Spare bytes are sent as zero.
 */
#ifndef RPIPE_CONNECT_HANDSHAKE_H
#define RPIPE_CONNECT_HANDSHAKE_H

#include "rpipe/end/message.h"
#include "rpipe/end/rch.h"
#include "util/error.h"
#include "util/layout.h"

/*
 * Of the reader of a GET pipe over a network: `heap` is the key of its mirror of the heap, and the writer may write payloads of up to
 * `eager` bytes into it (data/path_remote_eager.c). Without it every payload is fetched.
 */
#define HANDSHAKE_EAGER UINT64_C(1)
/* The heap is memory of a device (rpipe/end/device.h). */
#define HANDSHAKE_DEVICE UINT64_C(2)

struct handshake {
    struct end_message_head head;
    uint32_t magic;
    uint16_t oldest, newest;               /* protocol versions of the sender */
    uint64_t features;                     /* extensions of the sender: HANDSHAKE_... */
    uint16_t layout_oldest, layout_newest; /* versions of the layout of shared memory */
    uint32_t slots;
    uint8_t op, algorithm, sync, zero;
    uint32_t unit_size;
    uint64_t alloc_size, max_alloc_size;
    uint32_t sync_queue;
    uint32_t
        incarnation; /* how often the sender has opened this end; the larger of both is in traces */
    char btl[BTL_NAME_MAX];
    struct btl_key ring, credit, heap, reverse;
    uint64_t cells;             /* enum cells_way of the passive end; 0: a pipe of messages */
    struct btl_address address; /* of the connection, where the backend has connections */
    uint64_t eager;             /* HANDSHAKE_EAGER: bytes */
    uint64_t spare[7];
    LAYOUT_APPENDED
};
#define HANDSHAKE_BYTES 408
static_assert(sizeof(struct handshake) == HANDSHAKE_BYTES + LAYOUT_APPENDED_BYTES, "on the wire");
static_assert(sizeof(struct handshake) <= RENDEZVOUS_BLOB_MAX, "can be kept");
/* A record that is shorter names no versions. */
#define HANDSHAKE_LEAST offsetof(struct handshake, layout_oldest)

void handshake_make(const struct rch *ch, struct handshake *h);
/* The sender leaves the sizes to the receiver: no memory is offered yet, and the same end sends another record. */
static inline bool handshake_is_open(const struct handshake *h) { return h->alloc_size == 0; }
/* Takes over the sizes of the peer. -EPROTO and both values. Rendezvous lock held. */
int handshake_adopt(struct rch *ch, const struct handshake *h, struct error *err);
/* What can be compared before the sizes are known. -EPROTO and both values. */
int handshake_compare_op(const struct rch *ch, const struct handshake *h, struct error *err);
/* Is it a record at all? */
bool handshake_is_valid(const struct handshake *h);
/* Compares, attaches, connects. -EPROTO and both values where the ends differ. Rendezvous lock held. */
int handshake_attach(struct rch *ch, const struct handshake *h, struct error *err);

#endif
