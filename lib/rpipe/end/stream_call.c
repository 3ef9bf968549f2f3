/* SPDX-License-Identifier: BSD-3-Clause */
/* stream_call.c: rstream_open and rstream_close (stream.h). */
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
