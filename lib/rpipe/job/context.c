/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.c: rcontext: the contexts that belong to a name, so that two libraries in one program do not collide.
 *
 * FNV-1a of the name, finished so that every bit of it reaches the bits that are used. Bit 63 marks such contexts, bits 20 to
 * 60 are the hash, the low 20 bits are left to the program. Every process computes the same; no job is needed.
 */
#include "util/hash.h"

#include <rpipe.h>

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define NAMED (UINT64_C(1) << 63)
#define HASH_BITS UINT64_C(0x1ffffffffff00000)
static_assert(HASH_BITS >> 61 == 0, "bits 61 and 62 belong to the library");

uint64_t rpipe_context(const char *name)
{
    uint64_t h;

    if (name == NULL || *name == '\0')
        return 0;
    h = hash_bytes(HASH_BASIS, name, strlen(name));
    h ^= h >> 33;
    h *= UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 33;
    return NAMED | (h & HASH_BITS);
}
