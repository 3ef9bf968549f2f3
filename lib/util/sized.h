/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sized.h: structures of the public interface that travel with their size, so that they can grow at
 * their end.
 */
#ifndef UTIL_SIZED_H
#define UTIL_SIZED_H

#include "util/error.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/*
 * Copies a structure of a caller, which has `size` bytes there, to `to`, which has `known` bytes
 * here. 0.2.0 is the first version, so nothing shorter than `known` exists: -EINVAL. Longer: -E2BIG
 * unless the rest is 0.
 */
static inline int sized_copy(void *to, size_t known, const void *from, size_t size,
                             struct error *err)
{
    const unsigned char *bytes = (const unsigned char *)from;

    memset(to, 0, known); /* also for a caller that goes on after an error */
    if (size < known)
        return error_set(err, -EINVAL, "size is %zu; it must be at least %zu", size, known);
    for (size_t i = known; i < size; i++)
        if (bytes[i] != 0)
            return error_set(err, -E2BIG,
                             "size is %zu, this library has %zu bytes, and byte %zu is not 0; "
                             "use a newer library",
                             size, known, i);
    memcpy(to, from, known);
    return 0;
}

/* Stores a structure into that of a caller, which has `size` bytes; the rest of it becomes 0. */
static inline void sized_store(void *to, size_t size, const void *from, size_t known)
{
    memset(to, 0, size);
    memcpy(to, from, size < known ? size : known);
}

#endif
