/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc32c.h: CRC-32C (Castagnoli, reflected, polynomial 0x82f63b78) of 64-bit words, by the
 * processor where it can.
 */
#ifndef UTIL_CRC32C_H
#define UTIL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues `crc` (at the beginning ~0, not inverted at the end) over `words` words in the byte
 * order of the machine. */
uint32_t crc32c_words(uint32_t crc, const uint64_t *word, size_t words);

#endif
