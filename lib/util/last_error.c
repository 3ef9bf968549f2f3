/* SPDX-License-Identifier: BSD-3-Clause */
/* last_error.c: see last_error.h. */
#include "util/last_error.h"

#include "util/log.h"

#include <stdio.h>

static _Thread_local char last_error_text[LAST_ERROR_BYTES] = "no error";
static _Thread_local uint32_t last_error_object;

void last_error_set(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(last_error_text, sizeof(last_error_text), format, args);
    va_end(args);
    last_error_object = 0;
    log_debug("%s", last_error_text);
}

void last_error_set_of(uint32_t object, const char *text)
{
    last_error_set("%s", text);
    last_error_object = object;
}

uint32_t last_error_of(void) { return last_error_object; }

const char *last_error_get(void) { return last_error_text; }
