/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * broken.h: how a check reports a broken invariant.
 */
#ifndef ALLOC_BROKEN_H
#define ALLOC_BROKEN_H

#include "util/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Stores the error message and returns -EUCLEAN. */
static inline int broken(struct error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline int broken(struct error *err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    error_vnote(err, format, args);
    va_end(args);
    return -EUCLEAN;
}

#endif
