/* SPDX-License-Identifier: BSD-3-Clause */
/* last_error.c: see last_error.h. */
#include "util/last_error.h"

#include "util/log.h"

#include <stdio.h>

static _Thread_local char last_error_text[LAST_ERROR_BYTES] = "no error";

void last_error_set(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(last_error_text, sizeof(last_error_text), format, args);
    va_end(args);
    log_debug("%s", last_error_text);
}

const char *last_error_get(void) { return last_error_text; }
