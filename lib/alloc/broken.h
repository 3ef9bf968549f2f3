/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * broken.h: how a check says what is wrong.
 */
#ifndef ALLOC_BROKEN_H
#define ALLOC_BROKEN_H

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Writes the sentence; returns -EUCLEAN. */
static inline int broken(char *why, size_t why_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline int broken(char *why, size_t why_bytes, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, why_bytes, format, args);
    va_end(args);
    return -EUCLEAN;
}

#endif
