/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_loop.h: collectives in loops, as bench/compare_coll measures them: what ours (coll_ours.c) and MPI (mpi_coll.c) have in common.
 *
 * Each case is a kind and a length. A batch is a loop of operations of at least --seconds, with a barrier before and after it; the
 * root rotates, unless --fixed-root is given. Kinds that end in v have blocks of unequal length (coll_loop_counts). Sums are of doubles. A case is checked before it is measured. Rank 0 prints one line of JSON: the time of an
 * operation in each batch, ns, by its own clock.
 *
 * --overlap: of an allreduce that is started, computed beside for as long as it takes by itself, and waited for: the part of its time that
 * the computation hides, in percent of each batch; 0: none, 100: the computation takes as long as without it.
 */
#ifndef BENCH_COLL_LOOP_H
#define BENCH_COLL_LOOP_H

#include <stddef.h>

#define COLL_LOOP_MEMBERS 64 /* more than any benchmark has */

enum coll_loop_kind {
    LOOP_BARRIER,
    LOOP_BCAST,
    LOOP_REDUCE,
    LOOP_ALLREDUCE,
    LOOP_REDUCE_SCATTER,
    LOOP_SCAN,
    LOOP_EXSCAN,
    LOOP_GATHER,
    LOOP_ALLGATHER,
    LOOP_SCATTER,
    LOOP_ALLTOALL,
    LOOP_GATHERV,
    LOOP_ALLGATHERV,
    LOOP_ALLTOALLV,
    LOOP_KINDS
};

/* Blocks of gatherv, allgatherv and alltoallv at this member, in doubles: as many for ours and for MPI, one after the other. */
struct coll_counts {
    size_t elements[COLL_LOOP_MEMBERS];
    int counts[COLL_LOOP_MEMBERS], displacements[COLL_LOOP_MEMBERS];
    int mine; /* what this member contributes to a gatherv or an allgatherv */
};

struct coll_library {
    const char *program, *library;
    /* One operation; bytes: that a member contributes, or of a block. NULL: it does not have the kind. */
    void (*run)(enum coll_loop_kind kind, const void *from, void *into, size_t bytes, int root);
    /* The value of rank 0 at all, and the largest value of all. */
    double (*most)(double mine);
    void (*abort)(int status);
    /* NULL: contributions are of calloc(); else memory for them, zeros, which release() gives back. */
    void *(*alloc)(size_t bytes);
    void (*release)(void *mem);
    /* NULL: the result is in `into`; else copies the result of the last operation there, to be checked. */
    void (*copy_result)(void *into);
    /* An allreduce that is started, and waited for. */
    void (*start)(const void *from, void *into, size_t bytes);
    void (*finish)(void);
};

/*
 * The blocks of a kind that ends in v: 0.5 times `bytes` for an even member, 1.5 times for an odd one; of an alltoallv for two members whose
 * sum is even, or odd.
 */
const struct coll_counts *coll_loop_counts(enum coll_loop_kind kind, size_t bytes);

/* Reads the options, measures and prints. Returns the exit status. */
int coll_loop_main(const struct coll_library *library, int rank, int ranks, int argc, char **argv);

#endif
