/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * line.c: the libfabric backend as btl.h wants it: lines, memory, and the life of the whole.
 *
 * A line is a peer's address and counters: the endpoint is one for all. It is up as soon as it has the other end's address; the
 * provider connects, where it connects at all, with the first transfer, and refuses transfers until then.
 *
 * Memory that a device may still reach for: operations of a closed line stay as orphans until they complete, and pieces of
 * their peer that are freed meanwhile wait for that. Of a line that has failed nothing is known, so the peer's pieces
 * are kept to the end.
 */
#include "btl/ofi/ofi.h"

#include "util/clock.h"
#include "util/cpu.h"
#include "util/log.h"
#include "util/failpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

struct ofi_parting {
    struct link link;
    int peer;
    struct btl_piece piece;
};

static int refuse_child(const struct btl *btl, char *why, size_t why_bytes)
{
    if (!btl->forked)
        return 0;
    snprintf(why, why_bytes, "this is the child of a fork: the endpoint is its parent's");
    return -ENOTCONN;
}

static int ofi_alloc(struct btl *btl, int peer, size_t bytes, uint32_t access, bool huge, struct btl_piece *piece,
                     char *why, size_t why_bytes)
{
    int rc = refuse_child(btl, why, why_bytes);

    return rc != 0 ? rc : pool_alloc(btl->pool, peer, bytes, access, huge, piece, why, why_bytes);
}

/* Whoever has the key reaches the memory: that the cells are meant for several peers is for the program to say. */
static int ofi_share(struct btl *btl, int peer, const struct btl_piece *piece, struct btl_key *key, char *why,
                     size_t why_bytes)
{
    (void)btl;
    (void)peer;
    (void)why;
    (void)why_bytes;
    *key = piece->key;
    return 0;
}

static int ofi_adopt(struct btl *btl, int peer, void *base, size_t bytes, uint32_t access, struct btl_piece *piece,
                     char *why, size_t why_bytes)
{
    int rc = refuse_child(btl, why, why_bytes);

    return rc != 0 ? rc : pool_adopt(btl->pool, peer, base, bytes, access, piece, why, why_bytes);
}

static void ofi_free(struct btl *btl, struct btl_piece *piece)
{
    struct ofi_parting *p;
    bool wait = false;

    if (piece->slab == NULL || btl->forked)
        return;
    ofi_lock(btl);
    if (ops_orphaned(btl, pool_peer(piece))) {
        p = malloc(sizeof(*p));
        if (p != NULL) {
            p->peer = pool_peer(piece);
            p->piece = *piece;
            list_append(&btl->parting, &p->link);
            atomic_fetch_add_explicit(&btl->partings, 1, memory_order_relaxed);
        } /* without: the piece stays with the pool until the end */
        wait = true;
    }
    ofi_unlock(btl);
    if (!wait)
        pool_free(btl->pool, piece);
    piece->slab = NULL;
    piece->base = NULL;
}

void progress_part(struct btl *btl)
{
    struct link ready, *at, *after;

    if (atomic_load_explicit(&btl->partings, memory_order_relaxed) == 0)
        return; /* what comes this moment, the next look sees */
    list_init(&ready);
    ofi_lock(btl);
    list_for_each (at, after, &btl->parting) {
        if (ops_orphaned(btl, container_of(at, struct ofi_parting, link)->peer))
            continue;
        list_remove(at);
        list_append(&ready, at);
        atomic_fetch_sub_explicit(&btl->partings, 1, memory_order_relaxed);
    }
    ofi_unlock(btl);
    while (!list_empty(&ready)) {
        struct ofi_parting *p = container_of(ready.next, struct ofi_parting, link);

        list_remove(&p->link);
        pool_free(btl->pool, &p->piece);
        free(p);
    }
}

static int ofi_attach(struct btl *btl, int peer, const struct btl_key *key, size_t bytes, uint32_t access,
                      struct btl_remote *remote, char *why, size_t why_bytes)
{
    (void)access; /* the registration there knows it */
    if (key->word[KEY_BYTES] < bytes) {
        snprintf(why, why_bytes, "rank %d offers %llu bytes where %zu are needed", peer,
                 (unsigned long long)key->word[KEY_BYTES], bytes);
        return -EPROTO;
    }
    remote->base = NULL;
    remote->bytes = key->word[KEY_BYTES];
    remote->window = btl;
    remote->key = *key;
    return 0;
}

static void ofi_detach(struct btl *btl, struct btl_remote *remote)
{
    (void)btl;
    remote->window = NULL;
}

/* ---- lines ---- */

static int ofi_line_open(struct btl *btl, int peer, enum btl_role role, uint32_t depth, struct btl_line **out,
                         struct btl_address *address, char *why, size_t why_bytes)
{
    struct btl_line *line;
    int rc = refuse_child(btl, why, why_bytes);

    (void)role; /* nobody dials: the endpoint is there */
    if (rc != 0)
        return rc;
    line = aligned_alloc(CACHE_LINE, (sizeof(*line) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (line == NULL) {
        snprintf(why, why_bytes, "no memory for another line");
        return -ENOMEM;
    }
    memset(line, 0, sizeof(*line));
    line->btl = btl;
    line->endpoint = &btl->rma;
    line->peer = peer;
    line->depth = depth > OFI_DEPTH ? depth : OFI_DEPTH;
    list_init(&line->ops);
    list_init(&line->stuck);
    ofi_lock(btl);
    btl->line_count++;
    rc = ops_reserve(btl, why, why_bytes);
    if (rc == 0) {
        line->id = ++btl->last_line;
        list_append(&btl->lines, &line->link);
    } else {
        btl->line_count--;
    }
    ofi_unlock(btl);
    if (rc != 0) {
        free(line);
        return rc;
    }
    RPIPE_STEP("ofi: line open");
    *address = btl->rma.address;
    *out = line;
    return 0;
}

static int ofi_line_connect(struct btl_line *line, const struct btl_address *address, char *why, size_t why_bytes)
{
    struct btl *btl = line->btl;
    int rc = refuse_child(btl, why, why_bytes);

    if (rc != 0)
        return rc;
    ofi_lock(btl);
    rc = fabric_peer(line->endpoint, address, &line->to, why, why_bytes);
    if (rc == 0 && line->endpoint->broken) {
        snprintf(why, why_bytes, "provider %s has lost its completion queue: nothing goes through it any more",
                 line->endpoint->provider);
        rc = -EIO;
    }
    if (rc == 0) {
        line->far = *address;
        line->connected = true;
    }
    ofi_unlock(btl);
    RPIPE_STEP("ofi: address of the other end known");
    return rc;
}

static int ofi_line_state(struct btl_line *line, char *why, size_t why_bytes)
{
    int rc = atomic_load_explicit(&line->error, memory_order_acquire); /* pairs with line_fail */

    if (rc != 0)
        snprintf(why, why_bytes, "%s", line->why);
    else if (!line->connected)
        rc = -EAGAIN;
    return rc;
}

static void ofi_line_close(struct btl_line *line)
{
    struct btl *btl = line->btl;
    bool keep;

    if (btl->forked)
        return;
    RPIPE_STEP("ofi: before a line is closed");
    ofi_lock(btl);
    transfer_abandon(line);
    keep = atomic_load_explicit(&line->error, memory_order_relaxed) != 0;
    list_remove(&line->link);
    btl->line_count--;
    progress_posted(btl); /* orphans have to be seen to */
    ofi_unlock(btl);
    if (keep)
        pool_keep(btl->pool, line->peer);
    free(line);
}

static void ofi_line_describe(struct btl_line *line, char *text, size_t text_bytes)
{
    char near[128], far[128];

    ofi_lock(line->btl);
    fabric_name(line->endpoint, &line->endpoint->address, near, sizeof(near));
    fabric_name(line->endpoint, &line->far, far, sizeof(far));
    ofi_unlock(line->btl);
    snprintf(text, text_bytes, "%s %s to %s", line->endpoint->provider, near, line->connected ? far : "nobody yet");
}

static void ofi_line_counts(struct btl_line *line, struct btl_counts *counts)
{
    ofi_lock(line->btl);
    *counts = line->counts;
    ofi_unlock(line->btl);
}

static uint32_t ofi_line_atomics(struct btl_line *line) { return line->endpoint->atomics; }

/* ---- transfers: the lock around what transfer.c does ---- */

static int refused_child(const struct btl_line *line) { return line->btl->forked ? -ENOTCONN : 0; }

/* What has been accepted is carried on whether or not anybody calls again. */
static int unlock_posted(struct btl *btl, int rc)
{
    progress_posted(btl);
    ofi_unlock(btl);
    return rc;
}

static int ofi_write(struct btl_line *line, const struct btl_transfer *payload, const struct btl_transfer *slot)
{
    if (refused_child(line) != 0)
        return -ENOTCONN;
    ofi_lock(line->btl);
    return unlock_posted(line->btl, transfer_write(line, payload, slot));
}

static int ofi_get(struct btl_line *line, const struct btl_transfer *transfer, struct btl_done *done)
{
    if (refused_child(line) != 0)
        return -ENOTCONN;
    ofi_lock(line->btl);
    return unlock_posted(line->btl, transfer_get(line, transfer, done));
}

static int ofi_atomic(struct btl_line *line, int op, const struct btl_transfer *at, uint64_t operand, uint64_t compare,
                      struct btl_done *done)
{
    if (refused_child(line) != 0)
        return -ENOTCONN;
    ofi_lock(line->btl);
    return unlock_posted(line->btl, transfer_atomic(line, op, at, operand, compare, done));
}

static int ofi_flush(struct btl_line *line)
{
    int rc;

    if (refused_child(line) != 0)
        return -ENOTCONN;
    ofi_lock(line->btl);
    rc = transfer_flush(line);
    if (rc == -EAGAIN) {
        atomic_store_explicit(&line->btl->driven_at, clock_now(), memory_order_relaxed);
        progress_drive(line->btl);
    }
    return unlock_posted(line->btl, rc);
}

static int ofi_progress_all(struct btl *btl)
{
    if (!btl->forked)
        progress_by_user(btl);
    return 0;
}

static int ofi_progress(struct btl_line *line)
{
    if (refused_child(line) != 0)
        return -ENOTCONN;
    progress_by_user(line->btl);
    return atomic_load_explicit(&line->error, memory_order_relaxed);
}

/* ---- the backend ---- */

static int ofi_open(const struct btl_host *host, struct btl **out, char *why, size_t why_bytes)
{
    struct btl *btl = calloc(1, sizeof(*btl));
    int rc;

    if (btl == NULL) {
        snprintf(why, why_bytes, "no memory");
        return -ENOMEM;
    }
    btl->host = *host;
    log_set_level((enum log_level)host->log_level);
    log_set_rank(host->rank);
    pthread_mutex_init(&btl->lock, NULL);
    list_init(&btl->lines);
    list_init(&btl->stuck);
    list_init(&btl->stuck_lines);
    list_init(&btl->spare);
    list_init(&btl->orphans);
    list_init(&btl->parting);
    rc = fabric_open(host, &btl->rma, why, why_bytes);
    if (rc != 0)
        goto no_endpoint;
    RPIPE_STEP("ofi: endpoint open");
    btl->rma.atomics = transfer_atomics(&btl->rma);
    rc = pool_create(&memory_device, btl, &btl->pool);
    if (rc == 0)
        rc = progress_start(btl);
    if (rc != 0) {
        snprintf(why, why_bytes, "no memory, or no watch of the service thread: %s", strerror(-rc));
        goto no_watch;
    }
    *out = btl;
    return 0;
no_watch:
    fabric_close(&btl->rma);
    pool_destroy(btl->pool);
    fabric_close_domain(&btl->rma);
no_endpoint:
    pthread_mutex_destroy(&btl->lock);
    free(btl);
    return rc;
}

static void ofi_close(struct btl *btl)
{
    if (btl->forked)
        return; /* what closing would say to peers, it would say in the parent's name */
    progress_stop(btl);
    while (!list_empty(&btl->lines))
        ofi_line_close(container_of(btl->lines.next, struct btl_line, link));
    while (!list_empty(&btl->parting)) {
        struct ofi_parting *p = container_of(btl->parting.next, struct ofi_parting, link);

        list_remove(&p->link);
        free(p); /* its piece goes with the pool */
    }
    fabric_close(&btl->rma);
    ops_release(btl);
    pool_destroy(btl->pool);
    fabric_close_domain(&btl->rma);
    pthread_mutex_destroy(&btl->lock);
    free(btl);
}

static void ofi_forked(struct btl *btl)
{
    pthread_mutex_init(&btl->lock, NULL);
    pool_forked(btl->pool);
    btl->forked = true;
}

static int ofi_reach(struct btl *btl, int peer, char *why, size_t why_bytes)
{
    (void)peer;
    return refuse_child(btl, why, why_bytes); /* whether it answers, the line will tell */
}

static void ofi_peer_gone(struct btl *btl, int peer)
{
    if (btl->forked)
        return;
    ofi_lock(btl);
    transfer_peer_gone(btl, peer);
    ofi_unlock(btl);
}

extern const struct btl_ops btl_ofi_ops;
__attribute__((visibility("default"))) const struct btl_ops btl_ofi_ops = {
    .version = BTL_OPS_VERSION,
    .name = "ofi",
    .attributes = {.capabilities = BTL_TARGET_PROGRESS, .alignment = CACHE_LINE},
    .query = fabric_query,
    .open = ofi_open,
    .close = ofi_close,
    .forked = ofi_forked,
    .reach = ofi_reach,
    .peer_gone = ofi_peer_gone,
    .alloc = ofi_alloc,
    .free = ofi_free,
    .share = ofi_share,
    .adopt = ofi_adopt,
    .attach = ofi_attach,
    .detach = ofi_detach,
    .line_open = ofi_line_open,
    .line_connect = ofi_line_connect,
    .line_state = ofi_line_state,
    .line_close = ofi_line_close,
    .line_describe = ofi_line_describe,
    .line_counts = ofi_line_counts,
    .line_atomics = ofi_line_atomics,
    .write = ofi_write,
    .get = ofi_get,
    .atomic = ofi_atomic,
    .flush = ofi_flush,
    .progress = ofi_progress,
    .progress_all = ofi_progress_all,
};
