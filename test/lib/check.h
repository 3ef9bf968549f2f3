/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.h: the assertions of all tests: in a test of cmocka, in its threads and forked children, in the ranks of a forked or of a
 * launched job.
 *
 *   REQUIRE(condition, ...)           ends the caller if the condition does not hold
 *   CHECK(ch, condition)              the same, with the error message of the pipe ch (NULL: of the last other failure)
 *   CHECK_RC(expected, ch, call)      the same, of a call that returns a code; CHECK_OK: the code is R_SUCCESS
 *   CHECK_ERRNO(expected, call)       of a call that returns 0 or NULL, and sets errno
 *   CHECK_ERROR(ch, words)            the error message of ch contains the words
 *   EXPECT(condition, ...)            counts the failure and goes on; check_report() prints the result of such a program
 *
 * The optional arguments are those of printf. Each failure prints file, line, rank, condition or call, codes and message. It ends
 *   a process with status 1, unless check_end is set: forked children and ranks, programs without a framework;
 *   a test of cmocka, and in a thread of it that thread (pair.h): the test asserts that check_failures is 0;
 *   all processes of a launched job (mp_check.h).
 *
 * The header refers to the library only where CHECK... is used.
 */
#ifndef TEST_LIB_CHECK_H
#define TEST_LIB_CHECK_H

#include "test/lib/clock_ms.h"

#include <errno.h>
#include <rinfo.h>
#include <rpipe.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One of each in a program. */
__attribute__((weak)) atomic_int check_failures;   /* of EXPECT, and in threads */
__attribute__((weak)) int check_rank = -1;         /* for messages; -1: none */
__attribute__((weak)) void (*check_context)(void); /* called before a failure is printed, or NULL */
/* Ends the caller; NULL: the process, with status 1. */
__attribute__((weak)) void (*check_end)(const char *file, int line);

#ifdef RPIPE_NO_SHORT_NAMES /* as the sources of the library are compiled */
#define rerror rpipe_error
#endif

#define CHECK_LATE_MS 20000.0 /* a network may deliver so late what shared memory has at once */

#define REQUIRE(condition, ...)                                                                    \
    do {                                                                                           \
        if (!(condition))                                                                          \
            check_stop(__FILE__, __LINE__, #condition, " " __VA_ARGS__);                           \
    } while (0)
#define CHECK(ch, condition)                                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            check_stop(__FILE__, __LINE__, #condition, " errno %d; \"%s\"", errno, rerror(ch));    \
    } while (0)
#define CHECK_RC(expected, ch, call)                                                               \
    do {                                                                                           \
        double check_since_ = 0;                                                                   \
        int check_code_;                                                                           \
        do                                                                                         \
            check_code_ = (call);                                                                  \
        while (check_again(check_code_, (expected), &check_since_));                               \
        check_code(__FILE__, __LINE__, #call, (expected), check_code_, (ch));                      \
    } while (0)
#define CHECK_OK(ch, call) CHECK_RC(R_SUCCESS, ch, call)
#define CHECK_ERRNO(expected, call)                                                                \
    do {                                                                                           \
        errno = 0;                                                                                 \
        if ((call) != 0 || errno != (expected))                                                    \
            check_stop(__FILE__, __LINE__, #call, " is not 0, or errno is %d, not %d", errno,      \
                       (expected));                                                                \
    } while (0)
#define CHECK_ERROR(ch, words) check_error(__FILE__, __LINE__, (words), (ch))
#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_print(__FILE__, __LINE__, #condition, " " __VA_ARGS__);                          \
            atomic_fetch_add(&check_failures, 1);                                                  \
        }                                                                                          \
    } while (0)

static inline void check_vprint(const char *file, int line, const char *what, const char *format,
                                va_list arguments)
{
    char rank[24] = "", more[1000];

    (void)vsnprintf(more, sizeof(more), format, arguments);
    if (check_rank >= 0)
        (void)snprintf(rank, sizeof(rank), "rank %d: ", check_rank);
    fflush(stdout);
    if (check_context != NULL)
        check_context();
    fprintf(stderr, "FAILED %s:%d: %s%s%s%s\n", file, line, rank, what, more[1] != '\0' ? ":" : "",
            more[1] != '\0' ? more : "");
    fflush(stderr);
}

static inline __attribute__((format(printf, 4, 5))) void
check_print(const char *file, int line, const char *what, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    check_vprint(file, line, what, format, arguments);
    va_end(arguments);
}

static inline __attribute__((noreturn, format(printf, 4, 5))) void
check_stop(const char *file, int line, const char *what, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    check_vprint(file, line, what, format, arguments);
    va_end(arguments);
    if (check_end != NULL)
        check_end(file, line);
    _exit(1);
}

/*
 * Is the call to be repeated? Over a simulated network (PAIR_NET) a call may return "not yet" where shared memory would be ready.
 */
static inline bool check_again(int code, int expected, double *since)
{
    if (code == expected || (code != R_PENDING && code != -ETIMEDOUT) || getenv("PAIR_NET") == NULL)
        return false;
    if (*since == 0)
        *since = now_ms();
    return now_ms() - *since < CHECK_LATE_MS;
}

static inline void check_code(const char *file, int line, const char *call, int expected, int code,
                              rch_t ch)
{
    if (code != expected)
        check_stop(file, line, call, " returned %d (%s), not %d (%s); \"%s\"", code,
                   rinfo_strerror(code), expected, rinfo_strerror(expected), rerror(ch));
}

static inline void check_error(const char *file, int line, const char *words, rch_t ch)
{
    if (strstr(rerror(ch), words) == NULL)
        check_stop(file, line, words, " is not in the error message \"%s\"", rerror(ch));
}

/* The exit status of a program whose failures are those of EXPECT, and the line with its result. */
static inline int check_report(const char *program)
{
    printf("%s: %s\n", program, atomic_load(&check_failures) == 0 ? "good" : "FAILED");
    return atomic_load(&check_failures) == 0 ? 0 : 1;
}

#endif
