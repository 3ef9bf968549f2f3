/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_remote_eager.c: GET over a network: a small payload is written with its slot, and not fetched (path_remote.h).
 *
 * The reader's handshake has the key of its mirror of the heap, and a limit. A payload within the limit is written to its place in the
 * mirror by the same `write` as its slot, as with PUT, and the slot is marked. Nothing else differs: the block is in the writer's heap,
 * the slot has its offset, and what the reader gives back is the same.
 *
 * Invariants
 * 1. The bytes of a block in the mirror belong to the message that has the block, from its rwrite until the writer has seen it freed. A
 *    fetch into them has completed before rread returns that message, so a write never meets a fetch.
 * 2. The source is the block: it does not change until the reader has freed the message, which it does after it has the slot.
 * 3. A reader takes no marked slot unless it has sent the key, and none that is above its limit or beyond the first segment of the heap,
 *    for which alone there is a key.
 */
#include "rpipe/data/path_remote_eager.h"

#include "rpipe/data/violation.h"
#include "rpipe/end/area.h"
#include "rpipe/end/attach.h"
#include "rpipe/end/config.h"

#include "util/settings.h"

#include <errno.h>

void remote_eager_open(struct rch *ch)
{
    if (ch->cfg.op == OP_GET && config_side(&ch->cfg) == SIDE_READER)
        ch->remote->eager.most = (uint64_t)setting_number(SET_EAGER);
}

const struct btl_key *remote_eager_key(const struct rch *ch, uint64_t *most)
{
    const struct remote_path *n = ch->remote;

    if (config_side(&ch->cfg) != SIDE_READER || n->eager.most == 0)
        return NULL;
    *most = n->eager.most;
    return &n->heap.key;
}

int remote_eager_attach(struct rch *ch, const struct btl_key *key, uint64_t most, struct error *err)
{
    struct remote_eager *e = &ch->remote->eager;
    uint64_t own = (uint64_t)setting_number(SET_EAGER);
    int rc;

    if (own == 0 || most == 0)
        return 0;
    rc = end_attach(ch, key, area_heap_bytes(&ch->cfg), BTL_PEER_WRITES, &e->mirror, err);
    if (rc == 0)
        e->most = most < own ? most : own;
    return rc;
}

void remote_eager_release(struct rch *ch)
{
    struct remote_eager *e = &ch->remote->eager;

    if (e->mirror.mapping != NULL)
        ch->ops->detach(ch->btl, &e->mirror);
}

/* The block is in the first segment. */
static bool remote_eager_reaches(const struct rch *ch, uint64_t offset, uint64_t bytes)
{
    return offset < ch->cfg.heap_bytes && bytes <= ch->cfg.heap_bytes - offset;
}

bool remote_eager_carries(const struct rch *ch, const struct rdesc *d, size_t bytes)
{
    return bytes <= ch->remote->eager.most && d->mem != NULL /* not a part of a region */ &&
           remote_eager_reaches(ch, d->offset, bytes);
}

struct btl_transfer remote_eager_payload(const struct rch *ch, const struct rdesc *d, size_t bytes)
{
    return (struct btl_transfer){&ch->remote->eager.mirror, d->offset, &ch->heap_memory, d->offset,
                                 bytes};
}

int remote_eager_check(struct rch *ch, const struct slot *copy)
{
    uint64_t most = ch->remote->eager.most;

    if (LIKELY(copy->eager == 0))
        return 0;
    if (most == 0 || copy->eager != 1 || copy->kind != SLOT_HEAP)
        return violation_of_message(ch, "is marked to have its payload with it, and may not be",
                                    "mark", copy->eager, "kind", copy->kind);
    if (copy->heap.size > most || !remote_eager_reaches(ch, copy->heap.offset, copy->heap.size))
        return violation_of_message(ch, "is marked to have its payload with it, and is too long",
                                    "bytes", copy->heap.size, "limit", most);
    return 0;
}
