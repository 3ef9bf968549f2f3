/* SPDX-License-Identifier: BSD-3-Clause */
/* prepare.c: see prepare.h. */
#include "msg/prepare.h"

#include "util/cpu.h"

#define PREPARE_LINES 4 /* in one poll: few enough that the next poll does not wait for them */

/* A pipe that has no memory, or has failed, is left to the next send. */
static bool prepare_allocate(struct msg_link *l)
{
    struct msg_prepared *p = &l->prepared;

    if (l->state != LINK_OPEN || l->out_code != 0 || rmalloc_nb(l->out, p->last, &p->d) != 0)
        return false;
    p->mem = rmalloc_ptr(l->out, p->d);
    p->bytes = p->last;
    p->fetched = 0;
    return true;
}

void msg_prepare_step(struct rmsg *msg)
{
    struct msg_prepared *p = &msg->preparing->prepared;

    if (p->bytes == 0 && !prepare_allocate(msg->preparing)) {
        msg->preparing = NULL;
        return;
    }
    for (int i = 0; i < PREPARE_LINES && p->fetched < p->bytes; i++, p->fetched += CACHE_LINE)
        cpu_prefetch_write(p->mem + p->fetched);
    if (p->fetched >= p->bytes)
        msg->preparing = NULL;
}

void msg_prepare_drop(struct msg_link *l)
{
    l->prepared.bytes = 0;
    (void)rmalloc_free(l->out, l->prepared.d);
}
