/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * error.h: one error value: a code and the message that explains it.
 *
 *     struct error err = {""};
 *     rc = btl_choose(peer, name, &ops, &btl, &err);
 *     if (rc != 0)
 *         log_error("...: %s", err.text);
 *
 * A function that can fail for several reasons takes a `struct error *` as its last parameter,
 * returns the code, and writes the message. On success it may write a message too, where its
 * comment states it (why a backend was chosen).
 */
#ifndef UTIL_ERROR_H
#define UTIL_ERROR_H

#include <stdarg.h>

#define ERROR_TEXT_BYTES 384

struct error {
    char text[ERROR_TEXT_BYTES]; /* one message, without a full stop; "" while there is none */
};

/* Writes the message and returns `code`, a negative errno. */
int error_set(struct error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes a message where there is no failure, or where the code is decided elsewhere. */
void error_note(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void error_vnote(struct error *err, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

#endif
