/* SPDX-License-Identifier: BSD-3-Clause */
/* stream_call.c: rstream_open, rstream_close, rstream_hold, rstream_release and rstream_describe (stream.h). */
#include "rpipe/end/call.h"
#include "rpipe/end/error.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/stream.h"

#include "util/sized.h"

#include <errno.h>

static int stream_open_checked(rstream_t *stream, const rstream_config_t *cfg, size_t size)
{
    struct error err = {""};
    rstream_config_t known = {0};
    int rc = job_check();

    if (rc != 0)
        return rc;
    if (stream == NULL)
        return call_error(NULL, -EINVAL, "stream is NULL");
    if (cfg != NULL && (rc = sized_copy(&known, sizeof(known), cfg, size, &err)) != 0)
        return call_error(NULL, rc, "%s", err.text);
    if ((unsigned)known.share > RSTREAM_THREADS)
        return call_error(
            NULL, -EINVAL,
            "share is %d; it must be one of RSTREAM_DYNAMIC (the default) to RSTREAM_THREADS",
            (int)known.share);
    return stream_begin((enum btl_share)known.share, stream);
}

int(rstream_open)(rstream_t *stream, const rstream_config_t *cfg, size_t size)
{
    struct call call;

    call_enter(&call, "rstream_open");
    return call_end(&call, stream_open_checked(stream, cfg, size));
}

int rstream_close(rstream_t stream)
{
    struct call call;
    int rc;

    call_enter(&call, "rstream_close");
    rc = job_check();
    return call_end(&call, rc != 0 ? rc : stream_end(stream));
}

static int stream_call_named(rstream_t stream, const char *name,
                             int (*call)(rstream_t stream, const char *name))
{
    int rc = job_check();

    if (rc != 0)
        return rc;
    if (name == NULL || *name == '\0')
        return call_error(NULL, -EINVAL, "name is %s", name == NULL ? "NULL" : "empty");
    return call(stream, name);
}

int rstream_hold(rstream_t stream, const char *name)
{
    struct call call;

    call_enter(&call, "rstream_hold");
    return call_end(&call, stream_call_named(stream, name, stream_hold));
}

int rstream_release(rstream_t stream, const char *name)
{
    struct call call;

    call_enter(&call, "rstream_release");
    return call_end(&call, stream_call_named(stream, name, stream_unhold));
}

int rstream_describe(rstream_t stream, char *text, size_t bytes)
{
    struct call call;
    int rc;

    call_enter(&call, "rstream_describe");
    rc = job_check();
    if (rc == 0 && (text == NULL || bytes == 0))
        rc = call_error(NULL, -EINVAL, "text is %s, bytes is %zu", text == NULL ? "NULL" : "given",
                        bytes);
    return call_end(&call, rc != 0 ? rc : stream_describe(stream, text, bytes));
}
