/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.h: collective operations as requests, and the builders that turn a request into a graph.
 *
 * A builder is a pure function of shape, member, request and choice. It communicates nothing: all
 * members call it with the same arguments but `me`, and their graphs fit each other. The same
 * graphs are run by an executor, checked by an interpreter, and simulated.
 *
 * Memory of a member (graph.h): FROM is what it contributes, INTO gets its result.
 *
 *     kind            FROM                            INTO
 *     barrier         -                               -
 *     bcast           count elements, at the root     count elements, at all others
 *     reduce          count elements                  count elements, at the root
 *     allreduce       count elements                  count elements
 *     scan, exscan    count elements                  count elements (exscan: not at member 0)
 *     reduce_scatter  all blocks                      this member's block
 *     gather          this member's block             all blocks, at the root
 *     allgather       this member's block             all blocks
 *     scatter         all blocks, at the root         this member's block
 *     alltoall        a block for each member         a block from each member
 *
 * Block i is `count` elements at i * count, or, with counts, counts[i] elements at offsets[i]; with
 * counts and without offsets blocks follow each other. Counts and offsets are the same at all
 * members, but for alltoall: there counts and offsets are of FROM, counts_in and offsets_in of INTO.
 *
 * In place, FROM is not used: what would be there is in INTO, at the place of the result: for
 * reduce, at the root only; for gather, allgather and, at the root, scatter, the own block is where
 * it belongs among the blocks (scatter: in FROM, and INTO of the root is not used); reduce_scatter
 * has all blocks in INTO and leaves its own at the beginning; alltoall has in INTO what is sent, and
 * counts and offsets are those of INTO.
 */
#ifndef COLL_COLL_H
#define COLL_COLL_H

#include "coll/graph.h"
#include "coll/shape.h"
#include "util/error.h"

#include <stdbool.h>
#include <stddef.h>

enum coll_kind {
    COLL_BARRIER,
    COLL_BCAST,
    COLL_REDUCE,
    COLL_ALLREDUCE,
    COLL_REDUCE_SCATTER,
    COLL_SCAN,
    COLL_EXSCAN,
    COLL_GATHER,
    COLL_ALLGATHER,
    COLL_SCATTER,
    COLL_ALLTOALL
};
#define COLL_KINDS 11

/*
 * In which order contributions are folded. FIXED is one tree for each number of members, whatever
 * the algorithm and the hosts are, so that results have the same bits: its leaves are the pairs and
 * single members of group_pairs(), and it is the perfect binary tree above these. The prefix of a
 * scan is the tree of that many members.
 */
enum coll_order {
    COLL_ANY_ORDER,    /* the operator is commutative and associative */
    COLL_MEMBER_ORDER, /* it is associative: operands in the order of members, anyhow bracketed */
    COLL_FIXED_ORDER
};

struct coll_request {
    enum coll_kind kind;
    enum coll_order order;
    int root;
    bool in_place;
    size_t element; /* bytes of an element; what is folded is never divided within one */
    size_t count;
    const size_t *counts, *offsets;       /* in elements; NULL: see above */
    const size_t *counts_in, *offsets_in; /* alltoall only; counts_in goes with counts */
    bool
        counted; /* alltoall with counts: SCRATCH begins with a word of the member, and 0; behind these two the largest word of all is found, by FOLDs */
};

enum coll_algorithm {
    COLL_DISSEMINATION, /* radix: rounds of radix - 1 messages; size: one flat round */
    COLL_EXCHANGE,      /* pairwise exchange: recursive doubling, with extras */
    COLL_TREE,          /* radix: 2 is binomial, l + 1 a gather tree of fan-in l, size linear */
    COLL_CHAIN,         /* segments from member to member */
    COLL_SCATTER_RING,  /* scatter, then allgather by a ring */
    COLL_FLAT,          /* each member reads what all have sent, and computes by itself */
    COLL_SHARES,        /* member i folds part i of what all have sent */
    COLL_RABENSEIFNER,  /* recursive halving, then doubling */
    COLL_RING,
    COLL_BRUCK,
    COLL_PAIRWISE,    /* round i: to me + i, from me - i */
    COLL_LINEAR,      /* all at once, or one member after the other */
    COLL_HALVING,     /* recursive halving */
    COLL_HOSTS,       /* on each host, between leaders, on each host */
    COLL_HOST_SHARES, /* SHARES on each host; each share between hosts by its own leader */
    COLL_CAST,        /* radix: up a tree, then one message to all hosts, or one of each host */
    COLL_FETCH        /* one round of messages that are lent, one of answers */
};
#define COLL_ALGORITHMS 17

struct coll_choice {
    enum coll_algorithm algorithm;
    int radix;      /* 0: 2; more than the size of the team: that size */
    size_t segment; /* COLL_CHAIN: elements of one message; 0: all */
};

/*
 * The graph of member `me`; released with graph_free() in any case. 0; -EINVAL: the request is
 * wrong; -ENOTSUP: the algorithm does not exist for this kind, order, or shape; -ENOMEM.
 */
int coll_build(struct graph *g, const struct shape *shape, int me,
               const struct coll_request *request, const struct coll_choice *choice,
               struct error *err);

const char *coll_kind_name(enum coll_kind kind);
const char *coll_algorithm_name(enum coll_algorithm algorithm);
/* Whether a builder of this algorithm exists for the kind. */
bool coll_has(enum coll_kind kind, enum coll_algorithm algorithm);
/* What an existing builder needs and does not have, as an error message has it; NULL: nothing. */
const char *coll_needs(const struct shape *shape, const struct coll_request *request,
                       const struct coll_choice *choice);
/* The radix of a choice: 2 to the size of the team. */
int coll_radix(const struct shape *shape, const struct coll_choice *choice);

#endif
