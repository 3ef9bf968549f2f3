/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.h: posting the steps of operations, and their completions. Inside the endpoint for all.
 *
 * What ORDERED posts has no completion and no struct ofi_op: its context is a number that identifies
 * the connection, so that an error is attributed to it; the number of a closed connection
 * identifies none. Everything else has a struct ofi_op.
 */
#ifndef BTL_OFI_POST_H
#define BTL_OFI_POST_H

#include "btl/ofi/memory.h"
#include "btl/ofi/ofi.h"

/* Context of what is posted for a connection without a completion. */
static inline void *post_tag_of(const struct btl_connection *connection)
{
    return (void *)(((uintptr_t)connection->id << 1) | 1);
}

/*
 * The range of a transfer; NULL: an empty one. The descriptor is that of the process's domain, which is the only one where it counts
 * (fabric_has_domains). Memory of a device always has one: it names the kind of memory.
 */
static inline struct ofi_part post_part_of(const struct ofi_endpoint *e,
                                           const struct btl_transfer *t)
{
    if (t == NULL)
        return (struct ofi_part){0};
    return (struct ofi_part){
        .remote = t->remote->key.word[KEY_ADDRESS] + t->remote_offset,
        .key = t->remote->key.word[KEY_KEY],
        .local = (char *)t->memory->base + t->offset,
        .desc = e->needs_desc || t->memory->device
                    ? ((const struct ofi_registration *)slab_registration(t->memory))->desc
                    : NULL,
        .bytes = t->bytes,
        .device = t->memory->device,
    };
}

/* Removes the first bytes of a part. */
static inline void post_advance(struct ofi_part *part, size_t bytes)
{
    part->remote += bytes;
    part->local += bytes;
    part->bytes -= bytes;
}

/* Counts one work request. */
static inline void post_count(struct btl_connection *connection, bool signaled, bool inlined,
                              bool doorbell)
{
    connection->counts.work_requests++;
    connection->counts.doorbells += doorbell;
    connection->counts.signaled += signaled;
    connection->counts.inlined += inlined;
}

/*
 * Result of a call of the provider: 0, -EAGAIN, or the connection's error, after a permanent
 * failure.
 */
int post_check(struct btl_connection *connection, ssize_t rc, const char *call);

/*
 * Posts a write, or a read if `fetch`, of the first bytes of a part. Returns the result of the
 * provider.
 */
ssize_t post_move(struct ofi_endpoint *e, fi_addr_t to, const struct ofi_part *part, size_t bytes,
                  uint64_t flags, bool fetch, void *context);
/*
 * Posts the first step. On an error nothing has been posted, and the operation is returned to the
 * pool.
 */
int post_start(struct btl_connection *connection, struct ofi_op *op, const char *call);
/* Posts the next step of an operation whose last step is complete, or finishes it. */
void post_continue(struct ofi_op *op);

/* A completion. */
void post_completed(void *context);
/* A completion with an error. */
void post_failed(struct ofi_endpoint *e, void *context, int error, const char *message);
/* The completion queue has failed: no connection receives a completion any more. */
void post_queue_failed(struct ofi_endpoint *e, const char *message);

/* Bit mask of 1 << enum btl_atomic that the provider supports. */
uint32_t post_atomics(struct ofi_endpoint *e);

#endif
