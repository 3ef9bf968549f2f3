/* SPDX-License-Identifier: BSD-3-Clause */
/* error.c: see error.h. */
#include "rpipe/end/error.h"

#include "observe/record/trace.h"
#include "rpipe/end/call_context.h"
#include "rpipe/end/config.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/rch.h"

#include <errno.h>
#include <pthread.h>
#include <rinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPIES 4 /* as rerror(3) states */

static pthread_mutex_t error_lock = PTHREAD_MUTEX_INITIALIZER; /* error_text of all ends */

void error_forked(void) { pthread_mutex_init(&error_lock, NULL); }

const char *end_name(const struct rch *ch)
{
    static _Thread_local char name[64];
    int own = job_own_rank();
    bool writer = config_side(&ch->cfg) == SIDE_WRITER;

    snprintf(name, sizeof(name), "%s %d>%d context %llu", ch->cfg.op == OP_CELLS ? "cells" : "pipe",
             writer ? own : ch->peer, writer ? ch->peer : own,
             (unsigned long long)(ch->cfg.context & ~CONTEXT_LIBRARY));
    return name;
}

/* The message of the end, for rpipe_error. Without memory for it rpipe_error returns the thread's. */
static void error_keep(struct rch *ch, const char *text)
{
    pthread_mutex_lock(&error_lock);
    if (ch->error_text == NULL)
        ch->error_text = calloc(1, LAST_ERROR_BYTES);
    ch->no_error_memory = ch->error_text == NULL;
    if (ch->error_text != NULL)
        snprintf(ch->error_text, LAST_ERROR_BYTES, "%s", text);
    pthread_mutex_unlock(&error_lock);
}

void error_drop(struct rch *ch)
{
    pthread_mutex_lock(&error_lock);
    free(ch->error_text);
    ch->error_text = NULL;
    pthread_mutex_unlock(&error_lock);
}

/* Where a text is copied to: those of several ends may be in one line of the program. */
static char *error_text_next(void)
{
    static _Thread_local char texts[COPIES][LAST_ERROR_BYTES];
    static _Thread_local unsigned which;

    return texts[which++ % COPIES];
}

/* The text of an end may change, or be freed, at any time: any thread may call rerror. */
static const char *error_copy(const struct rch *ch)
{
    char *text = error_text_next();

    pthread_mutex_lock(&error_lock);
    snprintf(text, LAST_ERROR_BYTES, "%s",
             ch->error_text != NULL ? ch->error_text
             : ch->no_error_memory  ? last_error_get()
                                    : "no error");
    pthread_mutex_unlock(&error_lock);
    return text;
}

int call_error(struct rch *ch, int code, const char *format, ...)
{
    const char *call = call_name();
    char text[LAST_ERROR_BYTES];
    size_t used = 0;
    va_list arguments;

    if (ch != NULL) {
        atomic_fetch_add_explicit(&ch->counts.errors, 1, memory_order_relaxed);
        trace_moment(ch->trace, TRACE_ERROR, 0, 0, code);
        used += (size_t)snprintf(text, sizeof(text), "%s: ", end_name(ch));
    }
    if (call != NULL)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s: ", call);
    va_start(arguments, format);
    vsnprintf(text + used, sizeof(text) - used, format, arguments);
    va_end(arguments);
    if (ch != NULL)
        error_keep(ch, text);
    last_error_set_of(ch != NULL ? ch->id : 0, text); /* logs it, too */
    return code;
}

/* The message where the last failure was that of a call on an end that is closed, or outside of its job; else NULL. */
static const char *error_of_gone(const struct rch *ch)
{
    uint32_t state = atomic_load_explicit(&ch->state, memory_order_relaxed);
    const char *call = atomic_load_explicit(&ch->gone_call, memory_order_relaxed);
    char *text;

    if (call == NULL || (state & (STATE_CLOSED | STATE_FORKED | STATE_EXITING)) == 0)
        return NULL;
    text = error_text_next();
    snprintf(text, LAST_ERROR_BYTES, "%s: %s", call,
             (state & STATE_FORKED) != 0   ? "the pipe belongs to the parent process of this one"
             : (state & STATE_CLOSED) != 0 ? "the pipe has been closed"
                                           : "this process has left the job of this pipe (rexit)");
    return text;
}

const char *rpipe_error(rch_t ch)
{
    const char *gone;

    if (ch == NULL)
        return last_error_get();
    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_LOCKED) != 0 &&
        last_error_of() == ch->id)
        return last_error_get(); /* this thread's own failure, whatever other threads do */
    gone = error_of_gone(ch);
    return gone != NULL ? gone : error_copy(ch);
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
#else /* musl: its strerror is thread-safe and not localized */
static const char *error_name_of(int number)
{
    static _Thread_local char name[24];

    snprintf(name, sizeof(name), "errno %d", number);
    return name;
}

static const char *error_description_of(int number) { return strerror(number); }
#endif

const char *rinfo_strerror(int code)
{
    static const struct {
        int code;
        const char *text;
    } own[] = {
        {R_SUCCESS, "R_SUCCESS: success"},
        {R_PENDING, "R_PENDING: nothing happened; repeat the call later"},
        {R_EOF, "R_EOF: the writer has closed, and everything has been read"},
        {-EPIPE, "EPIPE: the reader has closed, or is gone"},
        {-ECONNRESET, "ECONNRESET: the peer died before it closed"},
        {-ETIMEDOUT, "ETIMEDOUT: the deadline has passed"},
        {-EMSGSIZE, "EMSGSIZE: the message has a size that can never fit"},
        {-ENOBUFS, "ENOBUFS: messages that this end holds use the memory; send or free some"},
        {-EPROTO, "EPROTO: configuration mismatch or protocol violation by the peer"},
        {-ENOTCONN,
         "ENOTCONN: the job or the pipe is not open: before rinit, or after rexit or rclose"},
        {-EALREADY, "EALREADY: already done; a process joins a job once, a request has one reply"},
        {-EBADF, "EBADF: this end of the pipe does not have this call"},
        {-EEXIST, "EEXIST: this end is open already; another pipe needs another context"},
        {-EINVAL, "EINVAL: invalid argument"},
        {-ENOMEM, "ENOMEM: not enough memory"},
        {-ENOTSUP, "ENOTSUP: not supported by this version, or not between these processes"},
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
    snprintf(text, sizeof(text), "%d is not a result of this library: 0, -1 to -4096", code);
    return text;
}
