/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * must.h: error handling of the examples: they print the call that failed, and end the whole job.
 *
 * If only the process itself exited, the others would wait for their deadlines. A wrong value in a
 * message ends the job in the same way, so that each example is a test of itself: its exit status
 * is 0 only if every value was right.
 */
#ifndef EXAMPLES_MUST_H
#define EXAMPLES_MUST_H

#include <rinfo.h>
#include <rpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(ch, call) must_succeed((call), (ch), #call)
#define MUST_HAVE(ch, call) must_have((call), (ch), #call) /* a call that returns memory */
#define MUST_HOLD(condition) must_hold((condition), #condition, __FILE__, __LINE__)

/*
 * For an example without options: prints the description
 * for --help, and rejects any other argument before rinit.
 */
static inline void must_be_alone(int argc, char **argv, const char *what, const char *start)
{
    if (argc < 2)
        return;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        printf("%s\nRun it as: %s\n", what, start);
        exit(0);
    }
    fprintf(stderr, "\"%s\" is no option of this program, which has none; run it as: %s\n", argv[1],
            start);
    exit(2);
}

static inline void must_succeed(int code, rch_t ch, const char *call)
{
    const char *why;

    if (code >= 0)
        return;
    why = rerror(ch);
    if (network_ranks() > 0) /* before rinit there is no rank */
        fprintf(stderr, "rank %u: ", (unsigned)network_rank());
    fprintf(stderr, "%s: %s: %s\n", call, rinfo_strerror(code), why != NULL ? why : "");
    network_abort(1);
    exit(1);
}

static inline void *must_have(void *mem, rch_t ch, const char *call)
{
    if (mem == NULL)
        must_succeed(-errno, ch, call);
    return mem;
}

/* Memory of a message to write, and its descriptor. */
static inline void *must_alloc(rch_t ch, size_t bytes, raddr_t *d)
{
    *d = rmalloc(ch, bytes);
    if (*d == ADDR_NULL)
        must_succeed(-errno, ch, "rmalloc");
    return rmem(ch, *d);
}

/* The next message, and its descriptor. size may be NULL. */
static inline void *must_read(rch_t ch, raddr_t *d, size_t *size)
{
    *d = ADDR_NULL;
    must_succeed(rread(ch, d, size), ch, "rread");
    return rmem(ch, *d);
}

static inline void must_hold(int condition, const char *text, const char *file, int line)
{
    if (condition)
        return;
    fprintf(stderr, "rank %u: %s:%d: this does not hold: %s\n", (unsigned)network_rank(), file,
            line, text);
    network_abort(1);
    exit(1);
}

#endif
