/* SPDX-License-Identifier: BSD-3-Clause */
/* altered_memory.c: where the words are that the byzantine rank of altered.h stores: in the last message, credit, tag or reverse slot. */
#include "altered.h"

#include "cells/cells.h"
#include "control/liveness.h"
#include "rpipe/end/rch.h"

static void *last_message(const struct altered_case *c, rch_t ch)
{
    const bool writes = c->way.byzantine_writes;
    uint64_t number = writes ? atomic_load(&ch->w.sent) : ch->r.nread;

    return number == 0 ? NULL : end_slot(ch, number - 1);
}

/* The last position of a ring that was filled; NULL: none was. */
static uint32_t last_freed(rch_t ch)
{
    const struct ring_cursor *next = &ch->r.blocks.next;

    return next->at > 0 ? next->at - 1 : next->size - 1;
}

/* The heap of the pipe, as it is mapped here. */
static void *payload(rch_t ch)
{
    return ch->heap_memory.base != NULL ? ch->heap_memory.base : ch->heap_remote.base;
}

void *memory_target(const struct altered_case *c, rch_t ch)
{
    switch (c->target->place) {
    case AT_SLOT:
    case AT_INLINE:
        return last_message(c, ch);
    case AT_CONTROL:
        return &ch->ring->control;
    case AT_CREDIT:
        return &ch->credit->line;
    case AT_TAG:
        return &ch->credit->tag[last_freed(ch)];
    case AT_REVERSE:
        return ch->r.blocks.reverse == NULL ? NULL : &ch->r.blocks.reverse[last_freed(ch)];
    case AT_PAYLOAD: /* sealed against this rank where it only reads */
        return c->way.byzantine_writes || c->way.op == RPIPE_PUT ? payload(ch) : NULL;
    case AT_CELL:
        return ch->cells->cell;
    case AT_LIVENESS:
        return (void *)(uintptr_t)liveness_word();
    default:
        return NULL;
    }
}
