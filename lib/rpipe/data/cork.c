/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cork.c: rcork: the writer may hold messages and post them together (end/cork.h, doc/threads.md).
 *
 * On mapped memory a message is visible when it has been written, and there is nothing to hold.
 */
#include "rpipe/end/cork.h"

#include "rpipe/end/call.h"
#include "rpipe/end/path.h"

#include <errno.h>

static int cork_attempt(struct rch *ch, void *arguments)
{
    const bool on = *(const int *)arguments != 0;

    if (on && ch->cfg.threads)
        return call_error(
            ch, -EINVAL,
            "the pipe was opened with RPIPE_THREADS; messages are held for one thread, "
            "which posts them before it waits");
    ch->corked = on;
    if (on)
        return 0;
    cork_forget(ch);
    ch->path->hold(ch, false);
    return 0;
}

int rpipe_cork(rch_t ch, int on)
{
    struct call call;
    int rc = call_begin(&call, "rcork", ch, SIDE_WRITER);

    if (rc == 0)
        rc = call_once(ch, cork_attempt, &on);
    return call_end(&call, rc);
}
