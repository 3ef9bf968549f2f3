/* SPDX-License-Identifier: BSD-3-Clause */
/* clang-format off: as printed */
/* basic_config.h: what listing B.3 includes: the configuration, and the macros of its test suite. */
#ifndef BASIC_CONFIG_H
#define BASIC_CONFIG_H

#include "basic_cfg.h"
#include <stdio.h>

static int test_failures;

#define TEST_OK 0
#define TEST_ASSERT(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            test_failures++;                                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
        }                                                                                          \
    } while (0)
#define TEST_SUITE_END() (test_failures != 0)

#endif
