/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc32c.c: see crc32c.h. The way is chosen once, at the first call; two threads that choose at
 * once choose the same.
 */
#include "util/crc32c.h"

#include <stdatomic.h>

typedef uint32_t (*crc_way)(uint32_t crc, const uint64_t *word, size_t words);

/* What four bits at the low end do. Only where the processor has no instruction for it. */
static const uint32_t crc32c_table[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

static uint32_t crc32c_by_table(uint32_t crc, const uint64_t *word, size_t words)
{
    size_t i;

    for (i = 0; i < words; i++) {
        uint64_t w = word[i];
        int nibble;

        for (nibble = 0; nibble < 16; nibble++, w >>= 4)
            crc = crc >> 4 ^ crc32c_table[(crc ^ (uint32_t)w) & 15];
    }
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t
crc32c_by_instruction(uint32_t crc, const uint64_t *word, size_t words)
{
    uint64_t c = crc;
    size_t i;

    for (i = 0; i < words; i++)
        c = __builtin_ia32_crc32di(c, word[i]);
    return (uint32_t)c;
}

static crc_way crc32c_choose(void)
{
    return __builtin_cpu_supports("sse4.2") ? crc32c_by_instruction : crc32c_by_table;
}
#else
static crc_way crc32c_choose(void) { return crc32c_by_table; }
#endif

uint32_t crc32c_words(uint32_t crc, const uint64_t *word, size_t words)
{
    static _Atomic(crc_way) way;
    crc_way w = atomic_load_explicit(&way, memory_order_relaxed);

    if (w == NULL) {
        w = crc32c_choose();
        atomic_store_explicit(&way, w, memory_order_relaxed);
    }
    return w(crc, word, words);
}
