/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vmem.h: allocators of a chosen heuristic, and what they print, for the tests of rvmem(3).
 */
#ifndef TEST_UNIT_VMEM_H
#define TEST_UNIT_VMEM_H

#include <rvmem.h>
#include <rmalloc.h>

#include "alloc/fit.h"
#include "util/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define UNIT 64u

static rmalloc_fit_t fit; /* of what is created from now on */

static inline rvmem_config_t config(void *buffer, uint64_t bytes)
{
    rvmem_config_t cfg = {.buffer = buffer};

    cfg.heuristic = fit;
    cfg.unit_bytes = UNIT;
    cfg.bytes = bytes;
    return cfg;
}

static inline rvmem_t create(void *buffer, uint64_t bytes)
{
    rvmem_config_t cfg = config(buffer, bytes);
    rvmem_t v = NULL;

    assert_int_equal(rvmem_create(&v, &cfg), 0);
    return v;
}

/* ---- what is printed on standard error ---- */

static FILE *printed;
static int real_stderr = -1;

static inline void capture_begin(void)
{
    printed = tmpfile();
    assert_non_null(printed);
    real_stderr = dup(STDERR_FILENO);
    dup2(fileno(printed), STDERR_FILENO);
}

static inline void capture_end(char *text, size_t bytes)
{
    size_t n;

    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    rewind(printed);
    n = fread(text, 1, bytes - 1, printed);
    text[n] = '\0';
    fclose(printed);
}

static inline void assert_printed(const char *word)
{
    char text[2048];

    capture_end(text, sizeof(text));
    if (strstr(text, word) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", text, word);
}

static inline void assert_silent(void)
{
    char text[2048];

    capture_end(text, sizeof(text));
    assert_string_equal(text, "");
}

static inline void assert_no_block(rvmem_t v, size_t size, int error)
{
    errno = 0;
    assert_true(rvmem_alloc(v, size) == ADDR_NULL);
    assert_int_equal(errno, error);
}

/* ---- RMALLOC_DEBUG, and all heuristics ---- */

static inline void set_debug(const char *value)
{
    struct error err = {""};

    setenv("RMALLOC_DEBUG", value, 1);
    assert_int_equal(settings_load(&err), 0);
}

static inline int debug_on(void **state)
{
    (void)state;
    set_debug("1");
    return 0;
}

static inline int debug_off(void **state)
{
    (void)state;
    set_debug("0");
    return 0;
}

/* Runs a group of tests once for each heuristic. */
static inline int run_for_each_fit(const char *name, int (*run)(const char *name))
{
    static const char *const names[] = {"next-fit",  "first-fit",  "best-fit",
                                        "worst-fit", "random-fit", "segregated-fit"};
    char text[64];
    int failed = 0;

    for (fit = RMALLOC_NEXT_FIT; fit <= RMALLOC_SEGREGATED_FIT; fit++) {
        snprintf(text, sizeof(text), "%s, %s", name, names[fit - RMALLOC_NEXT_FIT]);
        failed += run(text);
    }
    return failed;
}

#endif
