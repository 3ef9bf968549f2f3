/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * last_error.h: the message of the last failed call of this thread, for calls that have no object
 * to keep it in.
 *
 * Every layer sets it; rerror(NULL) returns it.
 */
#ifndef UTIL_LAST_ERROR_H
#define UTIL_LAST_ERROR_H

#include <stdint.h>

#define LAST_ERROR_BYTES 512

/* Replaces the message of this thread, and logs it at level debug. */
void last_error_set(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for a failure of the object with this number, which is not 0. */
void last_error_set_of(uint32_t object, const char *text);
/* The object of the last failure of this thread; 0: it was of none. */
uint32_t last_error_of(void);
/* The message; "no error" before the first failure. Valid until the next failure in this thread. */
const char *last_error_get(void);

#endif
