/* SPDX-License-Identifier: BSD-3-Clause */
/* message.c: see message.h. */
#include "am/message.h"

#include "am/link_in.h"

void am_message_finish(struct ram *am, ram_message_t *m)
{
    if ((m->internal.flags & AM_REQUEST) != 0) {
        struct am_in *in = m->internal.link;

        (void)rmalloc_free(in->requests, m->internal.d);
        if ((m->internal.flags & AM_ANSWERED) == 0)
            am_in_answer_empty(am, in, m->internal.token);
    } else {
        struct am_out *out = m->internal.link;

        (void)rmalloc_free(out->replies, m->internal.d);
        out->in_use--;
    }
}
