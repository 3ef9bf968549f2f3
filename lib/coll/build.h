/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * build.h: what builders share. A builder (alg_*.c) adds the operations of one member to a graph,
 * mostly by the parts below: up a tree, down a tree, exchange, dissemination, each over a group.
 *
 * Slots: all members of a group use the same numbers for the same part, and no part of a graph uses
 * a slot of another part. A part uses the slots from `slot` on.
 */
#ifndef COLL_BUILD_H
#define COLL_BUILD_H

#include "coll/coll.h"

struct coll_build {
    struct graph *g;
    const struct shape *shape;
    int size, me;
    const struct coll_request *request;
    const struct coll_choice *choice;
    int radix;             /* 2 to size, at least 2 */
    size_t bytes;          /* count elements */
    struct graph_ref from; /* the own contribution: FROM, or INTO in place */
    size_t *offsets;       /* in elements, of counts without offsets; NULL: not needed */
    size_t *offsets_in;
    struct error *err;
};

typedef int (*coll_builder)(const struct coll_build *b);

/* Block i: where it begins and its length, in bytes. _in: of INTO of alltoall. */
size_t coll_block_at(const struct coll_build *b, int i);
size_t coll_block_bytes(const struct coll_build *b, int i);
size_t coll_block_in_at(const struct coll_build *b, int i);
size_t coll_block_in_bytes(const struct coll_build *b, int i);
/* The end of the last block: the bytes of the vector of blocks. */
size_t coll_extent(const struct coll_build *b);
size_t coll_extent_in(const struct coll_build *b);
/* Of gather and allgather: the block that this member contributes. */
struct graph_ref coll_own_block(const struct coll_build *b);
/* Fills in offsets and offsets_in. 0 or -ENOMEM. */
int coll_find_offsets(struct coll_build *b);

/*
 * A row: the blocks of indices first to first + count - 1 of a group, modulo its size, packed one after
 * the other, as in a message. In the vector of blocks they may be anywhere.
 */
size_t coll_row_bytes(const struct coll_build *b, const struct group *group, int first, int count);
/* Between a packed row and the vector `blocks`, one copy after the other, the first after `after`.
 * Returns the last copy, or `after`. */
int coll_copy_row(const struct coll_build *b, const struct group *group, int first, int count,
                  struct graph_ref packed, bool unpack, struct graph_ref blocks, int after);
/* A packed row of `blocks`: where it is, if its blocks follow each other there; else a copy in
 * SCRATCH. *after: the operation after which it is complete. */
struct graph_ref coll_pack_row(const struct coll_build *b, const struct group *group, int first,
                               int count, struct graph_ref blocks, int *after);
/*
 * b is a copy: from now on its `from` is the packed row of all blocks, complete after `after`. With counts the caller releases
 * b->offsets, by free(). 0 or -ENOMEM.
 */
int coll_pack_blocks(struct coll_build *b, int *after);
/*
 * A vector that is passed on or folded into, and the last operation on it: each operation waits for
 * the one before. It is read where it is (FROM, a view) until something is folded into it; then it
 * is copied to its home, of memory that may be written.
 */
struct coll_value {
    struct graph_ref at;
    struct graph_ref home; /* base GRAPH_FROM: SCRATCH, which is taken when it is needed */
    size_t bytes;
    int last; /* GRAPH_NONE: it has been there from the beginning */
};

/* Bytes of the value, from `at` on. */
struct coll_range {
    size_t at, bytes;
};

struct coll_value value_of(struct graph_ref at, struct graph_ref home, size_t bytes);
struct coll_range value_all(const struct coll_value *v);
void value_send(const struct coll_build *b, struct coll_value *v, int to, uint32_t slot);
void value_send_range(const struct coll_build *b, struct coll_value *v, struct coll_range range,
                      int to, uint32_t slot);
void value_fold(const struct coll_build *b, struct coll_value *v, struct graph_ref from,
                bool reversed);
/* Only the range is copied if the value is not at home: the rest of it is lost. */
void value_fold_range(const struct coll_build *b, struct coll_value *v, struct coll_range range,
                      struct graph_ref from, bool reversed);
/* The value is at home from now on, although nothing is copied: what it was is not needed. */
void value_go_home(const struct coll_build *b, struct coll_value *v);
/* Copies to `into`, unless the value is there. */
void value_store(const struct coll_build *b, struct coll_value *v, struct graph_ref into);
/*
 * Folds n operands in the order of the request: from one after the other, or by the fixed tree of n, slice by slice if they are long.
 * The result is at home. Operands are views, or memory that nothing of v overlaps; the array is not as it was.
 */
void value_fold_all(const struct coll_build *b, struct coll_value *v, struct graph_ref *operand,
                    int n);

/*
 * To index 0 of a tree: each member folds its children in ascending order and sends the result to
 * its parent; so contributions are folded in the order of the group. One slot.
 */
void part_fold(const struct coll_build *b, const struct group *group, int radix, uint32_t slot,
               struct coll_value *v);
/* The same in the order of the request: FIXED folds pairs first, and then by radix 2. */
void part_fold_ordered(const struct coll_build *b, const struct group *group, int radix,
                       uint32_t slot, struct coll_value *v);
/* From index 0 to all: one message to all children. Elsewhere v becomes the view. One slot. */
void part_spread(const struct coll_build *b, const struct group *group, int radix, uint32_t slot,
                 struct coll_value *v);
/* The same by one message to one member of each host, which sends it to the others of its host. Two slots. */
void part_cast(const struct coll_build *b, int root, uint32_t slot, struct coll_value *v);
/*
 * Pairwise exchange (recursive doubling): extras send first and are answered last; the others
 * exchange and fold with the index that differs in one bit, lowest bit first. Every member has the
 * result; the order is FIXED. PART_EXCHANGE_SLOTS slots.
 */
#define PART_EXCHANGE_SLOTS 34
void part_exchange(const struct coll_build *b, const struct group *group, uint32_t slot,
                   struct coll_value *v);
/*
 * Dissemination: in round d member i sends to i + j * radix^d and receives from i - j * radix^d, j = 1
 * to radix - 1. v has no bytes, and is there when all members have come. PART_ROUNDS slots.
 */
#define PART_ROUNDS 32
void part_disseminate(const struct coll_build *b, const struct group *group, int radix,
                      uint32_t slot, struct coll_value *v);

/* One message to all others of a group. Returns the SEND; GRAPH_NONE: there are none. */
int part_send_all(const struct coll_build *b, const struct group *group, uint32_t slot,
                  struct graph_ref from, size_t bytes);

int alg_barrier_dissemination(const struct coll_build *b);
int alg_barrier_exchange(const struct coll_build *b);
int alg_barrier_tree(const struct coll_build *b);
int alg_barrier_hosts(const struct coll_build *b);
int alg_barrier_cast(const struct coll_build *b);
int alg_bcast_tree(const struct coll_build *b);
int alg_bcast_chain(const struct coll_build *b);
int alg_bcast_scatter_ring(const struct coll_build *b);
int alg_bcast_hosts(const struct coll_build *b);
int alg_bcast_cast(const struct coll_build *b);
int alg_reduce_tree(const struct coll_build *b);
int alg_reduce_flat(const struct coll_build *b);
int alg_reduce_rabenseifner(const struct coll_build *b);
int alg_reduce_hosts(const struct coll_build *b);
int alg_allreduce_exchange(const struct coll_build *b);
int alg_allreduce_tree(const struct coll_build *b);
int alg_allreduce_cast(const struct coll_build *b);
int alg_allreduce_flat(const struct coll_build *b);
int alg_allreduce_shares(const struct coll_build *b);
int alg_allreduce_host_shares(const struct coll_build *b);
int alg_allreduce_rabenseifner(const struct coll_build *b);
int alg_allreduce_ring(const struct coll_build *b);
int alg_allreduce_hosts(const struct coll_build *b);
int alg_reduce_scatter_flat(const struct coll_build *b);
int alg_reduce_scatter_pairwise(const struct coll_build *b);
int alg_reduce_scatter_halving(const struct coll_build *b);
int alg_reduce_scatter_ring(const struct coll_build *b);
int alg_reduce_scatter_hosts(const struct coll_build *b);
int alg_scan_linear(const struct coll_build *b);
int alg_scan_exchange(const struct coll_build *b);
int alg_scan_flat(const struct coll_build *b);
int alg_scan_hosts(const struct coll_build *b);
int alg_gather_tree(const struct coll_build *b);
int alg_gather_linear(const struct coll_build *b);
int alg_gather_hosts(const struct coll_build *b);
int alg_allgather_flat(const struct coll_build *b);
int alg_allgather_ring(const struct coll_build *b);
int alg_allgather_bruck(const struct coll_build *b);
int alg_allgather_hosts(const struct coll_build *b);
int alg_allgather_cast(const struct coll_build *b);
int alg_scatter_tree(const struct coll_build *b);
int alg_scatter_linear(const struct coll_build *b);
int alg_scatter_flat(const struct coll_build *b);
int alg_scatter_hosts(const struct coll_build *b);
int alg_alltoall_flat(const struct coll_build *b);
int alg_alltoall_linear(const struct coll_build *b);
int alg_alltoall_pairwise(const struct coll_build *b);
int alg_alltoall_bruck(const struct coll_build *b);
int alg_alltoall_hosts(const struct coll_build *b);
int alg_bcast_fetch(const struct coll_build *b);
int alg_gather_fetch(const struct coll_build *b);
int alg_allgather_fetch(const struct coll_build *b);
int alg_scatter_fetch(const struct coll_build *b);
int alg_alltoall_fetch(const struct coll_build *b);

#endif
