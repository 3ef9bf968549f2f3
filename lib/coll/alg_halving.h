/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alg_halving.h: Rabenseifner's scheme: fold by recursive halving, collect by recursive doubling.
 *
 * In round d the members whose indices differ in bit d divide the range that both have
 * left: the one with the bit 0 keeps the lower one. The lowest bit is first, so each element is folded
 * by the same tree as in part_exchange(), and the order is FIXED. Afterwards each index has one
 * part of 2^rounds: that with its bits reversed. Collecting takes the same way back.
 */
#ifndef COLL_ALG_HALVING_H
#define COLL_ALG_HALVING_H

#include "coll/build.h"

#define HALVING_ROUNDS 31

struct halving {
    struct group_pairs pairs;
    struct coll_range kept[HALVING_ROUNDS + 1]; /* before round d; of `rounds`: at the end */
    const size_t *edges; /* where parts begin, in bytes, and the end; NULL: an even division */
};

/* The slots of halving_fold(). */
#define HALVING_SLOTS(rounds) ((rounds) + 1)

/* Extras send their contribution and are done. v is folded to kept[rounds] of its bytes. The caller has set edges. */
void halving_fold(const struct coll_build *b, const struct group *group, uint32_t slot,
                  struct coll_value *v, struct halving *h);
/* The rounds alone, of an index of h->pairs.even, when the extras have been folded in. */
void halving_rounds(const struct coll_build *b, uint32_t slot, struct coll_value *v,
                    struct halving *h);
/* The part of an index: its bits reversed. */
int halving_part(const struct halving *h, int index);
/* Every index of h->pairs.even gets all of v at its home. `rounds` slots. */
void halving_double(const struct coll_build *b, const struct halving *h, uint32_t slot,
                    struct coll_value *v);
/* Only index `top` gets all. `rounds` slots. */
void halving_collect(const struct coll_build *b, const struct halving *h, uint32_t slot, int top,
                     struct coll_value *v);

#endif
