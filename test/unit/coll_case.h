/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_case.h: one collective operation as a test sees it: shape, request, algorithm, and what each
 * member contributes; and, by one loop for each kind, what each member must get.
 */
#ifndef TEST_UNIT_COLL_CASE_H
#define TEST_UNIT_COLL_CASE_H

#include "coll/coll.h"

#include <stdint.h>

#define COLL_CASE_MEMBERS 40

struct coll_case {
    uint64_t seed; /* of what members contribute */
    struct shape shape;
    struct coll_request request; /* the same for all members, but for the arrays of alltoall */
    struct coll_choice choice;
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
/* The result in INTO of `bytes`; `defined`: bytes that the operation has to write or to keep. */
void coll_case_expect(const struct coll_case *c, uint64_t op, int me, size_t bytes, uint8_t *into,
                      uint8_t *defined);
/*
 * The operator of the case's order, on `bytes` of elements: a sum; the composition of affine maps,
 * which does not commute; or a hash of both operands, which is not associative either.
 */
void coll_case_fold(enum coll_order order, uint8_t *into, const uint8_t *from, size_t bytes,
                    bool reversed);

#endif
