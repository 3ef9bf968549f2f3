/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c: see log.h. A line is composed in a buffer and written by one call, so that lines of
 * many ranks stay whole. */
#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FEW 20

static enum log_level log_current = LOG_WARN;
static int log_own_rank = -1;

void log_set_level(enum log_level level) { log_current = level; }
void log_set_rank(int rank) { log_own_rank = rank; }

void log_vline(enum log_level level, const char *format, va_list args)
{
    static const char *const name[] = {"error", "warning", "info", "debug"};
    char line[1024];
    int saved = errno, head, body;
    size_t length;
    ssize_t written;

    if (level > log_current)
        return;
    if (log_own_rank >= 0)
        head = snprintf(line, sizeof(line), "rmalloc[%d] %s: ", log_own_rank, name[level]);
    else
        head = snprintf(line, sizeof(line), "rmalloc %s: ", name[level]);
    body = vsnprintf(line + head, sizeof(line) - (size_t)head - 1, format, args);
    length = (size_t)head + (body > 0 ? (size_t)body : 0);
    if (length > sizeof(line) - 2)
        length = sizeof(line) - 2; /* the message was longer: it is cut */
    line[length++] = '\n';
    written = write(STDERR_FILENO, line, length);
    (void)written; /* there is no other place to log it */
    errno = saved;
}

void log_line(enum log_level level, const char *format, ...)
{
    va_list args;

    if (level > log_current)
        return;
    va_start(args, format);
    log_vline(level, format, args);
    va_end(args);
}

void log_few(_Atomic unsigned *warned, const char *format, ...)
{
    unsigned before = atomic_fetch_add_explicit(warned, 1, memory_order_relaxed);
    char line[600];
    va_list args;

    if (before > FEW || LOG_WARN > log_current) {
        atomic_fetch_sub_explicit(warned, 1, memory_order_relaxed); /* it must not wrap around */
        return;
    }
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    log_line(LOG_WARN, "%s%s", line,
             before == FEW ? " (further warnings like this are not logged)" : "");
}
