/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_case.h: one collective operation as a test sees it: shape, request, algorithm, and what each
 * member contributes; and, by one loop for each kind, what each member must get.
 */
#ifndef TEST_UNIT_COLL_CASE_H
#define TEST_UNIT_COLL_CASE_H

#include "coll/coll.h"
#include "coll/operator.h"

#include <stdint.h>

#define COLL_CASE_MEMBERS 40
#define COLL_CASE_ELEMENT 24 /* bytes of what is folded, at most */

struct coll_case {
    uint64_t seed; /* of what members contribute */
    struct shape shape;
    struct coll_request request; /* the same for all members, but for the arrays of alltoall */
    struct coll_choice choice;
    bool typed; /* the operator is one of util/fold.h */
    unsigned type, op;
    size_t counts[COLL_CASE_MEMBERS], offsets[COLL_CASE_MEMBERS];
    /* alltoall: [i][j] is what i sends to j, and where; in[j][i] where j receives it */
    size_t sent[COLL_CASE_MEMBERS][COLL_CASE_MEMBERS],
        sent_at[COLL_CASE_MEMBERS][COLL_CASE_MEMBERS];
    size_t in[COLL_CASE_MEMBERS][COLL_CASE_MEMBERS], in_at[COLL_CASE_MEMBERS][COLL_CASE_MEMBERS];
};

/* A random case of one of the kinds for which a builder exists. Released by coll_case_free(). */
void coll_case_draw(struct coll_case *c, uint64_t seed);
void coll_case_free(struct coll_case *c);
/* All in one text, static. */
const char *coll_case_describe(const struct coll_case *c);

/* What member `me` passes to coll_build(). */
struct coll_request coll_case_request(const struct coll_case *c, int me);

/*
 * The memory of member `me` before operation number `op`: what is in FROM, and, in place, in INTO.
 * `defined` gets 1 for each byte that is there. The spaces are those of the graph.
 */
void coll_case_fill(const struct coll_case *c, uint64_t op, int me, const struct graph *g,
                    uint8_t *memory[GRAPH_SPACES], uint8_t *defined[GRAPH_SPACES]);
/* The word of a member where the request is `counted`. */
uint64_t coll_case_word(const struct coll_case *c, uint64_t op, int member);
/* The result in INTO of `bytes`; `defined`: bytes that the operation has to write or to keep. */
void coll_case_expect(const struct coll_case *c, uint64_t op, int me, size_t bytes, uint8_t *into,
                      uint8_t *defined);
/*
 * The operator: of util/fold.h; or a function, by the order of the request: a sum; the composition of
 * affine maps, which does not commute; a hash of both operands, which is not associative either.
 */
struct coll_operator coll_case_operator(const struct coll_case *c);
/*
 * Bytes [at, at + bytes) of the vector that a member contributes, wherever it is. What is folded
 * is whole elements, of values whose result has one representation in the order of the request: sums and
 * products of floating-point numbers are exact, unless the order is fixed.
 */
void coll_case_contribution(const struct coll_case *c, uint64_t op, int member, size_t at,
                            size_t bytes, uint8_t *to);

#endif
