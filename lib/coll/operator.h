/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * operator.h: the operator of a FOLD: one of util/fold.h, or a function of the program.
 *
 * A function computes into = into o from. A FOLD may be reversed, into = from o into, which differs
 * in its bits even for operators that commute as numbers: the minimum of 0 and -0. Operators of integers and sums ignore it: the
 * sum of two numbers has the same bits either way, and of two NaNs any compiler may take either.
 */
#ifndef COLL_OPERATOR_H
#define COLL_OPERATOR_H

#include "util/error.h"
#include "util/fold.h"

#include <stdbool.h>
#include <stddef.h>

struct coll_operator {
    fold_function_t function;
    fold_pair_function_t pair; /* NULL: of a function of the program */
    void *argument;
    size_t element; /* bytes */
    bool commutes;  /* and is associative, up to rounding: any order of operands will do */
    bool symmetric; /* a o b has the bits of b o a */
};

/* One of util/fold.h. 0; -EINVAL: there is no such type, or no such operator of it. */
int coll_operator_init(struct coll_operator *o, unsigned type, unsigned op, struct error *err);
/* A function of the program, on elements of `element` bytes, which is not 0. */
struct coll_operator coll_operator_of(fold_function_t function, void *argument, size_t element,
                                      bool commutes);

/* Bytes that coll_operator_apply() needs, for reversed folds. */
size_t coll_operator_scratch(const struct coll_operator *o);
/* into = into o from; reversed: into = from o into. bytes is a multiple of an element. */
void coll_operator_apply(const struct coll_operator *o, void *into, const void *from, size_t bytes,
                         bool reversed, void *scratch);
/* A copy of `copied` to `into`, and then the same; by one pass where the operator has one and `into` overlaps neither. */
void coll_operator_apply_copied(const struct coll_operator *o, void *into, const void *copied,
                                const void *from, size_t bytes, bool reversed, void *scratch);

#endif
