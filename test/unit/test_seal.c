/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_seal.c: CRC-32C against published vectors, and sealed slots: whole ones open, torn and stale ones are "not yet".
 */
#include "sync/seal.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* RFC 3720, B.4: 32 bytes each, least significant byte first */
static void crc_is_crc32c(void **state)
{
    uint64_t zeros[4] = {0}, ones[4], up[4];
    int i;

    (void)state;
    memset(ones, 0xff, sizeof(ones));
    for (i = 0; i < 32; i++)
        ((uint8_t *)up)[i] = (uint8_t)i;
    assert_int_equal(~crc32c_words(UINT32_MAX, zeros, 4), 0x8a9136aau);
    assert_int_equal(~crc32c_words(UINT32_MAX, ones, 4), 0x62a8ab43u);
    assert_int_equal(~crc32c_words(UINT32_MAX, up, 4), 0x46dd794eu);
    assert_int_equal(crc32c_words(crc32c_words(UINT32_MAX, up, 1), up + 1, 3),
                     crc32c_words(UINT32_MAX, up, 4));
}

static struct slot example(uint64_t sequence)
{
    struct slot s = {.header = 0x1234567890abcdef, .kind = SLOT_INLINE, .bytes = 40};

    memset(s.payload, (int)sequence, sizeof(s.payload));
    seal_slot(&s, sequence);
    return s;
}

static void whole_slot_opens(void **state)
{
    struct slot s = example(77), copy;

    (void)state;
    assert_true(seal_promises(&s, 77));
    assert_true(seal_open(&s, 77, &copy));
    assert_memory_equal(&s, &copy, offsetof(struct slot, flag));
    assert_false(seal_open(&s, 78, &copy));
    assert_false(seal_open(&s, 77 + (UINT64_C(1) << 32), &copy)); /* 2^32 messages ago */
    memset(&s, 0, sizeof(s));
    assert_false(seal_open(&s, 1, &copy));
}

/* Every mixture of an old and a new slot, byte by byte, is not the new one unless it is the same. */
static void torn_slot_does_not_open(void **state)
{
    struct slot before = example(13), after = example(77), mixed, copy;
    size_t i, k;

    (void)state;
    for (i = 0; i < sizeof(after); i++)
        for (k = i; k < sizeof(after); k++) {
            memcpy(&mixed, &after, sizeof(mixed));
            memcpy((char *)&mixed + i, (const char *)&before + i, k - i + 1);
            if (memcmp(&mixed, &after, sizeof(mixed)) != 0)
                assert_false(seal_open(&mixed, 77, &copy));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc_is_crc32c),
        cmocka_unit_test(whole_slot_opens),
        cmocka_unit_test(torn_slot_does_not_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
