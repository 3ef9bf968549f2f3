/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * input.h: the bytes that a fuzzer gives, taken from the front; where there are no more, zeros.
 */
#ifndef TEST_FUZZ_INPUT_H
#define TEST_FUZZ_INPUT_H

#include "test/lib/check.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* the name that libFuzzer calls */

/* libFuzzer keeps the input of a process that is aborted. */
static inline void input_check_end(const char *file, int line)
{
    (void)file, (void)line;
    abort();
}

static __attribute__((constructor)) void input_check_begin(void) { check_end = input_check_end; }

struct input {
    const uint8_t *at, *end;
};

static inline bool input_is_empty(const struct input *in) { return in->at == in->end; }

static inline uint32_t input_byte(struct input *in) { return input_is_empty(in) ? 0 : *in->at++; }

static inline uint32_t input_word(struct input *in) /* 16 bits */
{
    uint32_t low = input_byte(in);

    return low | input_byte(in) << 8;
}

#endif
