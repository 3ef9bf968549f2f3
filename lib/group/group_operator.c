/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group_operator.c: rgroup_combine: the operators of collectives (util/fold.h) as one call.
 */
#include "group/group.h"

#include "util/fold.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>

static_assert(RGROUP_LOR + 1 == FOLD_OPERATORS && RGROUP_DOUBLE_INDEX + 1 == FOLD_TYPES,
              "util/fold.h has the same operators and types");

int group_operator(size_t count, rgroup_type_t type, rgroup_op_t op, rgroup_function_t *function,
                   size_t *bytes)
{
    size_t each = fold_element_bytes((unsigned)type);

    if (each == 0 || (unsigned)op >= FOLD_OPERATORS)
        return call_error(NULL, -EINVAL,
                          "type is %d, op is %d; there are types 0 to %d and operators 0 to %d",
                          (int)type, (int)op, FOLD_TYPES - 1, FOLD_OPERATORS - 1);
    *function = fold_function((unsigned)type, (unsigned)op);
    if (*function == NULL)
        return call_error(NULL, -EINVAL, "op is %d, which is not for type %d, RGROUP_%s", (int)op,
                          (int)type, fold_type_name((unsigned)type));
    if (count > SIZE_MAX / each)
        return call_error(NULL, -EINVAL, "count is %zu; elements of %zu bytes allow at most %zu",
                          count, each, SIZE_MAX / each);
    *bytes = count * each;
    return 0;
}

int rgroup_combine(void *into, const void *from, size_t count, rgroup_type_t type, rgroup_op_t op)
{
    rgroup_function_t function = NULL;
    struct call call;
    size_t bytes = 0;
    int rc;

    call_enter(&call, "rgroup_combine");
    rc = group_operator(count, type, op, &function, &bytes);
    if (rc == 0 && bytes > 0 && (into == NULL || from == NULL))
        rc = call_error(NULL, -EINVAL, "%s is NULL", into == NULL ? "into" : "from");
    if (rc == 0 && function != NULL)
        function(into, from, bytes, NULL);
    return call_end(&call, rc);
}
