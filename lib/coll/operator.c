/* SPDX-License-Identifier: BSD-3-Clause */
/* operator.c: see operator.h. */
#include "coll/operator.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#define OPERATOR_PIECE 1024 /* of a reversed fold: small enough for the first cache */

/* Operators of util/fold.h. Integers have a band, and no other type does. */
#define OPERATOR_SUM 0
#define OPERATOR_BAND 4

int coll_operator_init(struct coll_operator *o, unsigned type, unsigned op, struct error *err)
{
    fold_function_t function = fold_function(type, op);

    if (function == NULL)
        return error_set(err, -EINVAL, "operator %u does not exist for type %u (%s)", op, type,
                         fold_type_name(type));
    *o = coll_operator_of(function, NULL, fold_element_bytes(type), true);
    o->pair = fold_pair_function(type, op);
    o->symmetric = op == OPERATOR_SUM || fold_function(type, OPERATOR_BAND) != NULL;
    return 0;
}

struct coll_operator coll_operator_of(fold_function_t function, void *argument, size_t element,
                                      bool commutes)
{
    return (struct coll_operator){
        .function = function, .argument = argument, .element = element, .commutes = commutes};
}

size_t coll_operator_scratch(const struct coll_operator *o)
{
    return o->element > OPERATOR_PIECE ? o->element : OPERATOR_PIECE / o->element * o->element;
}

void coll_operator_apply(const struct coll_operator *o, void *into, const void *from, size_t bytes,
                         bool reversed, void *scratch)
{
    const char *source = from;
    char *to = into;
    size_t piece = coll_operator_scratch(o);

    if (!reversed || o->symmetric) {
        if (bytes > 0)
            o->function(into, from, bytes, o->argument);
        return;
    }
    for (; bytes > 0; bytes -= piece, to += piece, source += piece) {
        piece = piece < bytes ? piece : bytes;
        memcpy(scratch, source, piece);
        o->function(scratch, to, piece, o->argument);
        memcpy(to, scratch, piece);
    }
}

static bool operator_overlaps(const void *a, const void *b, size_t bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return x < y + bytes && y < x + bytes;
}

void coll_operator_apply_copied(const struct coll_operator *o, void *into, const void *copied,
                                const void *from, size_t bytes, bool reversed, void *scratch)
{
    if (o->pair == NULL || operator_overlaps(into, copied, bytes) ||
        operator_overlaps(into, from, bytes)) {
        memmove(into, copied, bytes);
        coll_operator_apply(o, into, from, bytes, reversed, scratch);
    } else if (reversed && !o->symmetric)
        o->pair(into, from, copied, bytes);
    else
        o->pair(into, copied, from, bytes);
}
