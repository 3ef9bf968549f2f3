/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_remote_ops.c: the remote path as one of the paths of path.h: opening, connecting, releasing, and the table (path_remote.h).
 *
 * Invariant: memory is given back after the connection has been closed: no operation can access it any more.
 */
#include "rpipe/data/path_remote_credit.h"
#include "rpipe/data/path_remote_drain.h"
#include "rpipe/data/path_remote_eager.h"
#include "rpipe/data/path_remote_fetch.h"
#include "rpipe/data/path_remote_read.h"
#include "rpipe/data/path_remote_transfer.h"
#include "rpipe/data/path_remote_window.h"
#include "rpipe/data/path_remote_write.h"
#include "rpipe/end/area.h"
#include "rpipe/end/config.h"
#include "rpipe/end/device.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/message.h"
#include "rpipe/end/stream.h"

#include "util/failpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

static int remote_mirror(struct rch *ch, size_t bytes, struct btl_memory *memory, struct error *err)
{
    int rc = ch->ops->alloc(ch->btl, ch->peer, bytes, BTL_LOCAL, false, memory, err);

    if (rc == 0) /* tags of the past must not be valid in the future */
        memset(memory->base, 0, bytes);
    return rc;
}

static int remote_mirror_heap(struct rch *ch, uint32_t access, struct error *err)
{
    if (device_has_heap(ch))
        return device_allocate(ch, &ch->device, area_heap_bytes(&ch->cfg), access,
                               &ch->remote->heap, err);
    return ch->ops->alloc(ch->btl, ch->peer, area_heap_bytes(&ch->cfg), access, ch->cfg.huge_pages,
                          &ch->remote->heap, err);
}

static int remote_open_writer(struct rch *ch, struct error *err)
{
    struct remote_path *n = ch->remote;
    int rc;

    if (ch->cfg.op == OP_CELLS) /* for results of fetching operations */
        return remote_mirror(ch, CACHE_LINE, &n->credit, err);
    rc = remote_mirror(ch, ring_area_bytes(ch->cfg.slots), &n->ring, err);
    if (rc == 0)
        rc = remote_mirror(ch, area_credit_bytes(&ch->cfg), &n->credit, err);
    if (rc == 0 && ch->cfg.op == OP_PUT)
        rc = remote_mirror_heap(ch, BTL_LOCAL, err);
    ch->w.blocks.sealed = true;
    return rc;
}

static int remote_open_reader(struct rch *ch, struct error *err)
{
    int rc = 0;

    if (ch->cfg.mode == RPIPE_SYNC_CHANNEL) {
        rc = remote_mirror(ch, area_reverse_bytes(&ch->cfg), &ch->remote->reverse, err);
        remote_releases_open(ch);
    }
    if (rc != 0 || ch->cfg.op != OP_GET)
        return rc;
    remote_eager_open(ch);
    rc = remote_fetches_open(ch, err);
    if (rc != 0)
        return rc;
    return remote_mirror_heap(ch, ch->remote->eager.most > 0 ? BTL_PEER_WRITES : BTL_LOCAL, err);
}

static int remote_key(const struct rch *ch, const struct btl_memory *memory, struct btl_key *key,
                      struct error *err)
{
    if (ch->ops->connection_key == NULL || ch->remote->connection == NULL)
        return 0;
    return ch->ops->connection_key(ch->remote->connection, memory, key, err);
}

static int remote_open(struct rch *ch, struct error *err)
{
    bool writer = config_side(&ch->cfg) == SIDE_WRITER;
    int rc;

    ch->remote = aligned_alloc(_Alignof(struct remote_path), sizeof(*ch->remote));
    if (ch->remote == NULL)
        return error_set(err, -ENOMEM, "no memory for another connection");
    memset(ch->remote, 0, sizeof(*ch->remote));
    rc = writer ? remote_open_writer(ch, err) : remote_open_reader(ch, err);
    if (rc == 0)
        rc = ch->ops->connection_open(ch->btl, ch->peer, writer ? BTL_CONNECTS : BTL_ACCEPTS,
                                      ch->cfg.max_cqe, &ch->remote->connection,
                                      &ch->remote->address, err);
    if (rc != 0)
        return rc;
    stream_join(ch, ch->remote->connection, &ch->remote->address);
    return ch->remote->eager.most > 0
               ? remote_key(ch, &ch->remote->heap, &ch->remote->heap.key, err)
               : 0;
}

static const struct btl_address *remote_address(const struct rch *ch)
{
    return &ch->remote->address;
}

static int remote_connect(struct rch *ch, const struct btl_address *address, struct error *err)
{
    return ch->ops->connection_connect(ch->remote->connection, address, err);
}

static int remote_reach(struct rch *ch, const struct btl_remote *remote, size_t bytes,
                        struct btl_memory *mirror, void **base, struct error *err)
{
    int rc = 0;

    (void)remote;
    if (mirror->slab == NULL)
        rc = ch->ops->alloc(ch->btl, ch->peer, bytes, BTL_LOCAL, ch->cfg.huge_pages, mirror, err);
    *base = mirror->base;
    return rc;
}

static void remote_attached(struct rch *ch, void **heap)
{
    struct remote_path *n = ch->remote;

    *heap = n->heap.base;
    if (config_side(&ch->cfg) == SIDE_READER) {
        ch->r.blocks.reverse = n->reverse.base;
        return;
    }
    ch->ring = n->ring.base;
    ch->credit = n->credit.base;
    credit_line_init(&ch->credit->line, job_first()); /* until it is fetched */
    n->credits.fetched = job_first();
}

/* The number is in the close message, which follows the last operation. */
static void remote_announce_final(struct rch *ch, uint64_t final)
{
    (void)ch;
    (void) final;
}

/* ---- releasing ---- */

static void remote_close(struct rch *ch)
{
    struct remote_path *n = ch->remote;

    if (n == NULL)
        return;
    remote_releases_close(ch);
    if (n->connection != NULL)
        ch->ops->connection_close(n->connection);
    n->connection = NULL;
    remote_transfers_release(ch);
    remote_fetches_release(ch);
}

static void remote_release(struct rch *ch)
{
    struct remote_path *n = ch->remote;
    size_t i;

    if (n == NULL)
        return;
    remote_eager_release(ch);
    struct btl_memory *memory[] = {&n->ring, &n->credit, &n->heap, &n->reverse};
    for (i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        if (memory[i]->slab != NULL)
            ch->ops->free(ch->btl, memory[i]);
    free(n);
    ch->remote = NULL;
}

static int remote_connected(struct rch *ch)
{
    struct error err = {""};
    int rc = ch->ops->connection_state(ch->remote->connection, &err);

    if (rc == -EAGAIN) {
        (void)ch->ops->progress(ch->remote->connection);
        rc = ch->ops->connection_state(ch->remote->connection, &err);
    }
    RPIPE_FAILPOINT("net: state of the connection read");
    return rc == -EAGAIN ? R_PENDING : rc != 0 ? remote_failed(ch) : 0;
}

static int remote_failure(struct rch *ch, int code, struct error *err)
{
    (void)code;
    return remote_reason(ch, err);
}

static int remote_check(struct rch *ch)
{
    return ch->remote->failed_at != 0 ? remote_failed(ch) : 0;
}

/* ---- for observers ---- */

static void remote_count(struct rch *ch)
{
    if (ch->remote == NULL || ch->remote->connection == NULL)
        return;
    ch->ops->connection_counts(ch->remote->connection, &ch->counts.remote);
    ch->counts.credit_reads = ch->remote->credits.reads;
    ch->counts.direct = ch->remote->direct;
}

static void remote_describe(struct rch *ch, char *text, size_t bytes)
{
    size_t used = device_has_heap(ch) ? device_describe(ch, text, bytes) : 0;

    if (ch->remote->connection != NULL)
        ch->ops->connection_describe(ch->remote->connection, text + used, bytes - used);
    else
        snprintf(text + used, bytes - used, "no connection");
}

static bool remote_places(const struct rch *ch)
{
    return config_side(&ch->cfg) == SIDE_WRITER || ch->cfg.op == OP_GET;
}

/* The reader's service thread makes its descriptor readable. */
static void remote_signal(struct rch *ch)
{
    remote_hold(ch, ch->corked); /* the reader finds what it is woken for */
    (void)message_post_head(ch, MESSAGE_SIGNAL,
                            atomic_load_explicit(&ch->w.sent, memory_order_relaxed));
}

static uint64_t remote_ops_delivered(const struct rch *ch) { return remote_delivered(ch); }

const struct path_ops path_remote = {
    .state = STATE_REMOTE,
    .wakes = false,
    .open = remote_open,
    .address = remote_address,
    .connect = remote_connect,
    .connected = remote_connected,
    .eager_key = remote_eager_key,
    .eager_attach = remote_eager_attach,
    .key = remote_key,
    .reach = remote_reach,
    .attached = remote_attached,
    .announce_final = remote_announce_final,
    .drain = remote_drain,
    .drained = remote_drained,
    .failure = remote_failure,
    .close = remote_close,
    .release = remote_release,
    .progress = remote_progress,
    .check = remote_check,
    .count = remote_count,
    .describe = remote_describe,
    .places = remote_places,
    .publish = remote_publish,
    .fetch_credits = remote_fetch_credits,
    .signal = remote_signal,
    .hold = remote_hold,
    .transfers_pending = remote_transfers_pending,
    .transfers_drive = remote_transfers_drive,
    .transfers_abort = remote_transfers_abort,
    .move = remote_move,
    .message_ready = remote_message_ready,
    .message_before_join = remote_message_before_join,
    .next_size = remote_next_size,
    .take = remote_take,
    .delivered = remote_ops_delivered,
    .at_end = remote_at_end,
    .release_block = remote_release_block,
    .want = remote_want,
    .placed = remote_placed,
    .placements_drain = remote_placements_drain,
};
