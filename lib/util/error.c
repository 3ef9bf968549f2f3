/* SPDX-License-Identifier: BSD-3-Clause */
/* error.c: see error.h. */
#include "util/error.h"

#include <stdio.h>

void error_vnote(struct error *err, const char *format, va_list arguments)
{
    (void)vsnprintf(err->text, sizeof(err->text), format, arguments);
}

int error_set(struct error *err, int code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    error_vnote(err, format, arguments);
    va_end(arguments);
    return code;
}

void error_note(struct error *err, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    error_vnote(err, format, arguments);
    va_end(arguments);
}
