/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy_small.h: copies the payload of a slot, 0 to 48 bytes, without a call and without an access beyond it.
 *
 * Two copies of a fixed size that overlap in the middle cover all lengths between that size and its double:
 *
 *     0       8      n-8      n
 *     [first 8]
 *              [last 8 bytes ]
 */
#ifndef RPIPE_DATA_COPY_SMALL_H
#define RPIPE_DATA_COPY_SMALL_H

#include "util/cpu.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static FORCE_INLINE void copy_small(void *to, const void *from, size_t n)
{
    unsigned char *t = to;
    const unsigned char *f = from;

    if (n > 16) {
        if (n > 32)
            memcpy(t + 16, f + 16, 16);
        memcpy(t, f, 16);
        memcpy(t + n - 16, f + n - 16, 16);
    } else if (LIKELY(n == 8)) { /* as a word: the program has often stored it just now */
        memcpy(t, f, 8);
    } else if (n > 8) {
        memcpy(t, f, 8);
        memcpy(t + n - 8, f + n - 8, 8);
    } else if (n >= 4) {
        memcpy(t, f, 4);
        memcpy(t + n - 4, f + n - 4, 4);
    } else if (n > 0) {
        t[0] = f[0];
        t[n / 2] = f[n / 2];
        t[n - 1] = f[n - 1];
    }
}

#endif
