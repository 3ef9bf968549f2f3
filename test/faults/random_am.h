/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * random_am.h: active messages as a rank might write them that does not mean well: mostly plausible, so that they are not the last ones.
 */
#ifndef TEST_FAULTS_RANDOM_AM_H
#define TEST_FAULTS_RANDOM_AM_H

#include "am/wire.h"
#include "test/lib/job.h"

#define INVALID_AM_MOST 600 /* bytes of a message */

/* The header of a message of *size bytes: of this kind, for one of these handlers, with this token, or of and with others. */
static inline uint64_t invalid_am(uint64_t *random, uint32_t kind, uint32_t handlers,
                                  uint32_t token, size_t *size)
{
    uint64_t x = random_draw(random), y = random_draw(random), header;
    uint32_t handler = (x & 7) != 0 ? (uint32_t)(x >> 8) % handlers : (uint32_t)(x >> 8) & 255;
    uint32_t nargs = (x >> 16 & 7) != 0 ? (uint32_t)(x >> 20) % 4 : (uint32_t)(x >> 20) & 15;
    uint32_t acks = (x >> 24 & 15) == 0 ? (uint32_t)(x >> 28) & 3 : 0;
    size_t bytes = (x >> 32) % ((x >> 31 & 1) != 0 ? 33 : 400);

    if ((y & 7) == 0)
        kind = y >> 8 & 15;
    if ((y >> 12 & 3) == 0)
        token = (uint32_t)(y >> 16) & 0x1ff;
    *size = wire_size(bytes, nargs);
    if ((y >> 32 & 7) == 0)
        *size += y >> 40 & 7;
    header = wire_header((enum wire_kind)kind, bytes, handler, nargs, acks, token);
    return (y >> 48 & 7) == 0 ? header ^ UINT64_C(1) << (y >> 52 & 63) : header;
}

#endif
