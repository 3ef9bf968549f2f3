/* SPDX-License-Identifier: BSD-3-Clause */
/* handshake.c: see handshake.h. */
#include "rpipe/connect/handshake.h"

#include "rpipe/connect/areas.h"
#include "rpipe/end/path.h"
#include "rpipe/end/config.h"
#include "rpipe/end/feature.h"
#include "util/text.h"

#include <errno.h>
#include <string.h>

#define HANDSHAKE_MAGIC 0x65706972u /* "ripe" */

static struct version_range handshake_versions(void)
{
    return version_range_of("pipe", PROTOCOL_OLDEST, PROTOCOL_NEWEST);
}

void handshake_make(const struct rch *ch, struct handshake *h)
{
    const struct version_range own = handshake_versions();

    *h = (struct handshake){
        .head = message_head(ch, sizeof(*h), 0),
        .magic = HANDSHAKE_MAGIC,
        .oldest = own.oldest,
        .newest = own.newest,
        .features = ch->cfg.memory != NULL ? HANDSHAKE_DEVICE : 0,
        .layout_oldest = SYNC_LAYOUT_VERSION,
        .layout_newest = SYNC_LAYOUT_VERSION,
        .slots = ch->cfg.slots,
        .op = (uint8_t)ch->cfg.op,
        .algorithm = (uint8_t)ch->cfg.heuristic,
        .sync = (uint8_t)ch->cfg.mode,
        .unit_size = ch->cfg.unit_bytes,
        .alloc_size = ch->cfg.heap_bytes,
        .max_alloc_size = ch->cfg.max_heap_bytes,
        .sync_queue = ch->cfg.sync_queue,
        .incarnation = ch->end.incarnation,
    };
    if (!config_is_open(&ch->cfg)) {
        areas_offer(ch, h);
        if (ch->path->address(ch) != NULL)
            h->address = *ch->path->address(ch);
        features_offer(ch, h);
    }
    memcpy(h->btl, ch->ops->name, strnlen(ch->ops->name, sizeof(h->btl)));
}

bool handshake_is_valid(const struct handshake *h) { return h->magic == HANDSHAKE_MAGIC; }

/* ---- comparing: both values, in the same order at both ends ---- */

static int handshake_overlap(const struct rch *ch, const char *what, unsigned oldest,
                             unsigned newest, unsigned peer_oldest, unsigned peer_newest,
                             struct error *err)
{
    if (peer_oldest <= newest && oldest <= peer_newest && peer_oldest <= peer_newest)
        return 0;
    return error_set(err, -EPROTO,
                     "the versions of the %s are %u to %u here and %u to %u at rank %d; they must "
                     "overlap: update the older library",
                     what, oldest, newest, peer_oldest, peer_newest, ch->peer);
}

static int handshake_differ(const struct rch *ch, const char *what, unsigned long long here,
                            unsigned long long there, struct error *err)
{
    if (here == there)
        return 0;
    return error_set(err, -EPROTO, "%s is %llu here and %llu at rank %d; both ends must agree",
                     what, here, there, ch->peer);
}

static int handshake_differ_name(const struct rch *ch, const char *what, const char *here,
                                 const char *there, struct error *err)
{
    if (strcmp(here, there) == 0)
        return 0;
    return error_set(err, -EPROTO, "%s is %s here and %s at rank %d; both ends must agree", what,
                     here, there, ch->peer);
}

int handshake_compare_op(const struct rch *ch, const struct handshake *h, struct error *err)
{
    return handshake_differ_name(ch, "op", config_op_name((int)ch->cfg.op), config_op_name(h->op),
                                 err);
}

int handshake_adopt(struct rch *ch, const struct handshake *h, struct error *err)
{
    const struct pipe_config other = {
        .heuristic = (rmalloc_fit_t)h->algorithm,
        .mode = (rpipe_sync_t)h->sync,
        .unit_bytes = h->unit_size,
        .heap_bytes = h->alloc_size,
        .max_heap_bytes = h->max_alloc_size,
        .slots = h->slots,
        .sync_queue = h->sync_queue,
    };
    int rc = handshake_compare_op(ch, h, err);

    return rc == 0 ? config_adopt(&ch->cfg, &other, ch->peer, err) : rc;
}

static const char *handshake_memory(bool device)
{
    return device ? "memory of a device" : "memory of the host";
}

static int handshake_compare(const struct rch *ch, const struct handshake *h, struct error *err)
{
    const struct pipe_config *a = &ch->cfg;
    char btl[BTL_NAME_MAX + 1] = "";
    int rc;

    memcpy(btl, h->btl, BTL_NAME_MAX);
    text_make_printable(btl);
    rc = handshake_differ_name(ch, "op", config_op_name((int)a->op), config_op_name(h->op), err);
    if (rc == 0)
        rc = a->op == OP_CELLS
                 ? handshake_differ(ch, "cells", a->heap_bytes / sizeof(uint64_t),
                                    h->alloc_size / sizeof(uint64_t), err)
                 : handshake_differ(ch, "heap_bytes", a->heap_bytes, h->alloc_size, err);
    if (rc == 0)
        rc = handshake_differ(ch, "unit_bytes", a->unit_bytes, h->unit_size, err);
    if (rc == 0)
        rc = handshake_differ_name(ch, "mode", config_mode_name((int)ch->cfg.mode),
                                   config_mode_name(h->sync), err);
    if (rc == 0)
        rc = handshake_differ_name(ch, "heuristic", config_heuristic_name((int)a->heuristic),
                                   config_heuristic_name(h->algorithm), err);
    if (rc == 0)
        rc = handshake_differ(ch, "max_heap_bytes", a->max_heap_bytes, h->max_alloc_size, err);
    if (rc == 0)
        rc = handshake_differ(ch, "sync_queue", ch->cfg.sync_queue, h->sync_queue, err);
    if (rc == 0) /* before slots, whose default depends on it */
        rc = handshake_differ_name(ch, "backend", ch->ops->name, btl, err);
    if (rc == 0)
        rc = handshake_differ(ch, "slots", ch->cfg.slots, h->slots, err);
    if (rc == 0)
        rc = handshake_differ_name(ch, "the heap", handshake_memory(a->memory != NULL),
                                   handshake_memory((h->features & HANDSHAKE_DEVICE) != 0), err);
    return rc;
}

int handshake_attach(struct rch *ch, const struct handshake *h, struct error *err)
{
    const struct version_range own = handshake_versions();
    int rc = handshake_overlap(ch, "protocol", own.oldest, own.newest, h->oldest, h->newest, err);

    if (rc == 0)
        rc = handshake_overlap(ch, "layout of shared memory", SYNC_LAYOUT_VERSION,
                               SYNC_LAYOUT_VERSION, h->layout_oldest, h->layout_newest, err);
    if (rc == 0)
        rc = handshake_compare(ch, h, err);
    if (rc == 0)
        rc = areas_attach(ch, h, err);
    if (rc == 0)
        rc = features_attach(ch, h, err);
    if (rc == 0)
        rc = ch->path->connect(ch, &h->address, err);
    return rc == 0 ? areas_attached(ch, err) : rc;
}
