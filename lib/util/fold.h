/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fold.h: the operators of reductions, element by element. Types and operators have the numbers of rgroup_type_t and rgroup_op_t
 * (<rpipe.h>).
 */
#ifndef UTIL_FOLD_H
#define UTIL_FOLD_H

#include <stddef.h>

#define FOLD_OPERATORS 9
#define FOLD_TYPES 18

/* into = into (operator) from, for arrays that do not overlap, aligned or not. `bytes` is a multiple of an element. */
typedef void (*fold_function_t)(void *into, const void *from, size_t bytes, void *argument);

/* to = a (operator) b: `to` overlaps neither of them. The same bits as a copy of a, and b folded into it. */
typedef void (*fold_pair_function_t)(void *to, const void *a, const void *b, size_t bytes);

/* NULL: there is none for this type. */
fold_function_t fold_function(unsigned type, unsigned op);
fold_pair_function_t fold_pair_function(unsigned type, unsigned op);

/* Of an element; 0: there is no such type. */
size_t fold_element_bytes(unsigned type);

/* As in <rpipe.h>, without the prefix; for messages. */
const char *fold_type_name(unsigned type);

#endif
