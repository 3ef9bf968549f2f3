/* SPDX-License-Identifier: BSD-3-Clause */
/* connect.c: see connect.h. */
#include "am/connect.h"

#include "am/fail.h"
#include "am/link_out.h"
#include "am/receive_out.h"

#include <errno.h>
#include <string.h>

/* Sends the greeting. The heap of requests is memory of the target: there is none before it has opened its ends. */
int am_out_proceed(struct ram *am, struct am_out *out)
{
    size_t bytes = wire_hello_bytes(am->nhandlers);
    raddr_t d;
    int rc;

    if (out->state != OUT_OPENING)
        return 0;
    rc = rmalloc_nb(out->requests, bytes, &d);
    if (rc == 0) {
        memcpy(rmalloc_ptr(out->requests, d), am->hello, bytes);
        (void)rpipe_set_tag(out->requests, d, wire_header(WIRE_HELLO, bytes, 0, 0, 0, 0));
        rc = rpipe_write_nb(out->requests, d);
        if (rc != 0)
            (void)rmalloc_free(out->requests, d);
    }
    if (rc == 0) {
        out->state = OUT_OPEN;
        am->opening--;
    } else if (rc != R_PENDING) {
        rc = am_out_broken(am, out, rc);
    }
    return rc;
}

int am_out_get(struct ram *am, int peer, const char *call, struct am_out **found)
{
    struct am_out *out;
    int rc = 0;

    if (peer < 0 || peer >= am->ranks)
        return am_fail(-ENOENT, "%s: peer is %d; the ranks of this job are 0 to %d", call, peer,
                       am->ranks - 1);
    out = am_out_make(am, peer);
    if (out == NULL)
        return am_fail(-ENOMEM, "%s: no memory for a link to rank %d", call, peer);
    switch (out->state) {
    case OUT_CLOSED:
        rc = am_out_open(am, out);
        break;
    case OUT_OPENING:
    case OUT_OPEN:
        break;
    case OUT_RETIRING:
        return am_fail(R_PENDING,
                       "%s: the idle link to rank %d is being closed; it will be opened again",
                       call, peer);
    case OUT_ENDED:
        return am_fail(R_PENDING,
                       "%s: the link to rank %d has ended; a new one needs the %u messages and "
                       "buffers of it that are "
                       "kept here to be freed",
                       call, peer, out->held);
    }
    if (rc == 0)
        rc = am_out_proceed(am, out);
    if (rc == R_PENDING)
        (void)am_fail(rc, "%s: rank %d has not opened its end of the link; it must call ram_serve",
                      call, peer);
    if (rc == 0)
        *found = out;
    return rc;
}
