/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * error.c: every failure is a sentence: which call, which peer, which limit, what to do.
 *
 * A channel keeps its last one; calls without a channel keep theirs per thread.
 */
#include "rpipe/end/end.h"
#include "util/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SENTENCE_BYTES 512

static _Thread_local char error_last[SENTENCE_BYTES] = "no error";

void last_error_set(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error_last, sizeof(error_last), format, args);
    va_end(args);
    log_debug("%s", error_last);
}

const char *last_error_get(void) { return error_last; }

const char *end_name(const struct rch *ch)
{
    static _Thread_local char name[64];
    int own = (int)rpipe_network_rank();
    bool writer = config_side(&ch->cfg) == SIDE_WRITER;

    snprintf(name, sizeof(name), "pipe %d>%d ctx %u", writer ? own : ch->peer,
             writer ? ch->peer : own, ch->cfg.ctx);
    return name;
}

int end_error(struct rch *ch, int code, const char *format, ...)
{
    char *text;
    int head;
    va_list args;

    atomic_fetch_add_explicit(&ch->counts.errors, 1, memory_order_relaxed);
    trace_moment(ch->trace, TRACE_ERROR, 0, 0, code);
    if (ch->error_text == NULL)
        ch->error_text = calloc(
            1, SENTENCE_BYTES); /* its last byte stays 0: who reads it meanwhile finds an end */
    /* without memory for it, it is said where this thread can hear it */
    ch->no_error_memory = ch->error_text == NULL;
    text = ch->no_error_memory ? error_last : ch->error_text;
    head = snprintf(text, SENTENCE_BYTES, "%s: ", end_name(ch));
    va_start(args, format);
    vsnprintf(text + head, SENTENCE_BYTES - (size_t)head, format, args);
    va_end(args);
    log_debug("%s", text);
    return code;
}

const char *rpipe_error(rch_t ch)
{
    if (ch == NULL || ch->no_error_memory)
        return error_last;
    return ch->error_text != NULL ? ch->error_text : "no error";
}

#ifdef HAVE_STRERRORNAME_NP
static const char *error_name_of(int number)
{
    const char *name = strerrorname_np(number);

    return name != NULL ? name : "errno";
}

static const char *error_description_of(int number)
{
    const char *text = strerrordesc_np(number);

    return text != NULL ? text : "unknown";
}
#else /* musl, whose strerror changes nothing and is in nobody's language */
static const char *error_name_of(int number)
{
    static _Thread_local char name[24];

    snprintf(name, sizeof(name), "errno %d", number);
    return name;
}

static const char *error_description_of(int number) { return strerror(number); }
#endif

const char *rmalloc_strerror(int code)
{
    static const struct {
        int code;
        const char *text;
    } own[] = {
        {R_SUCCESS, "R_SUCCESS: success"},
        {R_PENDING, "R_PENDING: not yet, ask again"},
        {R_EOF, "R_EOF: the writer has closed, and everything has been read"},
        {-EPIPE, "EPIPE: the reader has closed, or is gone"},
        {-ECONNRESET, "ECONNRESET: the peer died before it closed"},
        {-ETIMEDOUT, "ETIMEDOUT: the deadline has passed"},
        {-EMSGSIZE, "EMSGSIZE: of a size that can never fit"},
        {-ENOBUFS, "ENOBUFS: only what this end itself holds stands in the way"},
        {-EPROTO, "EPROTO: the two ends do not agree, or the peer wrote what cannot be"},
        {-ENOTCONN, "ENOTCONN: before rinit, or after close"},
        {-EALREADY, "EALREADY: a process joins a job once"},
        {-EBADF, "EBADF: the wrong end of the channel"},
        {-EEXIST, "EEXIST: this end is open already"},
        {-EINVAL, "EINVAL: invalid argument"},
        {-ENOMEM, "ENOMEM: not enough memory"},
        {-ENOTSUP, "ENOTSUP: not supported by this version, or not on this path"},
        {-EUCLEAN, "EUCLEAN: an invariant is broken"},
        {-ENOENT, "ENOENT: there is no such entry"},
    };
    static _Thread_local char text[80];
    size_t i;

    for (i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (own[i].code == code)
            return own[i].text;
    if (code < 0 && code > -4096) {
        snprintf(text, sizeof(text), "%s: %s", error_name_of(-code), error_description_of(-code));
        return text;
    }
    snprintf(text, sizeof(text), "%d is not a result of this library", code);
    return text;
}
