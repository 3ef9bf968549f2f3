/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.c: RMALLOC_DEBUG=1: the books are compared after every operation.
 *
 * Writer: every invariant of the shadow. Reader: the messages that it holds are disjoint; they are kept in a search tree whose
 * order calls two ranges equal when they overlap, so that the tree finds an overlap by itself.
 */
#include "rpipe/channel.h"

#include "util/log.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>

static int by_range(const void *a, const void *b)
{
    const struct rdesc *x = a, *y = b;
    uint64_t x_end = x->offset + (x->size > 0 ? x->size : 1), y_end = y->offset + (y->size > 0 ? y->size : 1);

    if (x_end <= y->offset)
        return -1;
    return y_end <= x->offset ? 1 : 0;
}

int check_read(struct rch *ch, struct rdesc *d)
{
    struct rdesc **found;

    if (d->units == 0)
        return 0;
    found = tsearch(d, &ch->r.overlap, by_range);
    if (found == NULL)
        return 0; /* no memory for a check is no reason to fail */
    return *found == d ? 0 : -EPROTO;
}

void check_freed(struct rch *ch, struct rdesc *d)
{
    if (d->units != 0)
        tdelete(d, &ch->r.overlap, by_range);
}

void check_grow(struct rch *ch, void *base, uint64_t bytes)
{
    (void)ch;
    (void)base;
    (void)bytes;
}

static void keep(void *d) { (void)d; }

void check_forget(struct rch *ch)
{
    if (ch->r.overlap != NULL)
        tdestroy(ch->r.overlap, keep);
    ch->r.overlap = NULL;
}

void check_heap(struct rch *ch)
{
    /* acquire: pairs with notice_set */
    struct heap *heap = writer_heap(ch, atomic_load_explicit(&ch->notice, memory_order_acquire));
    char why[256];

    if (heap == NULL || heap_check(heap, why, sizeof(why)) == 0)
        return;
    log_error("%s: the books of the heap are broken: %s", channel_name(ch), why);
    abort();
}
