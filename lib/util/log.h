/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log.h: one line on standard error per event: "rmalloc[rank] error: message".
 *
 * The level is the setting RPIPE_LOG: error, warn (the default), info, debug. An error is logged
 * where it is first detected, once; callers that pass it on do not log it again. Nothing is logged
 * on the data path.
 */
#ifndef UTIL_LOG_H
#define UTIL_LOG_H

#include <stdarg.h>
#include <stdatomic.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);
void log_set_rank(int rank); /* -1: not known */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_vline(enum log_level level, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* Rate-limited warning for events that a peer can cause: only the first few of each counter
 * `warned` are logged. */
void log_few(_Atomic unsigned *warned, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
