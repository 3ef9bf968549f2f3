/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transfer.c: operations: how writes, fetches and atomics are posted, in as many steps as it takes, and finished; see ofi.h.
 *
 * What STREAM posts has no completion and no struct: its context is a number that names the line, so that an error finds it,
 * and one of a line that has been closed finds none. Everything else has a struct ofi_op, one step of which is posted at a
 * time. Operations are allocated when lines are opened.
 *
 * Invariants: an operation that is under way is in the list of its line, or of the orphans; it has one step posted, or is in
 * btl.stuck. line.pending == operations in its list; line.placing == those of them that place something at the peer, and
 * flushes. A line with `rest` or `rest_slot` accepts nothing: what it has accepted comes first.
 */
#include "btl/ofi/ofi.h"

#include "util/log.h"
#include "util/failpoint.h"

#include <errno.h>
#include <rmalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- operations ---- */

struct ofi_chunk {
    struct ofi_chunk *next;
    struct ofi_registration registration;
    struct ofi_scratch scratch[OFI_OPS_CHUNK];
    struct ofi_op op[OFI_OPS_CHUNK];
};

/* So many that every line has a few, and a few lines many. */
int ops_reserve(struct btl *btl, struct error *err)
{
    struct ofi_chunk *c;
    size_t i;
    int rc;

    while (btl->ops < OFI_OPS_CHUNK + 4 * btl->line_count) {
        c = calloc(1, sizeof(*c));
        if (c == NULL)
            return error_set(err, -ENOMEM, "no memory for %u operations of lines", OFI_OPS_CHUNK);
        rc = memory_register(&btl->rma, c->scratch, sizeof(c->scratch), BTL_LOCAL, &c->registration,
                             err);
        if (rc != 0) {
            free(c);
            return rc;
        }
        for (i = 0; i < OFI_OPS_CHUNK; i++) {
            struct ofi_op *op = &c->op[i];

            op->scratch = &c->scratch[i];
            op->scratch_desc = c->registration.desc;
            list_init(&op->stuck);
            list_append(&btl->spare, &op->link);
        }
        c->next = btl->chunks;
        btl->chunks = c;
        btl->ops += OFI_OPS_CHUNK;
    }
    return 0;
}

void ops_release(struct btl *btl)
{
    struct ofi_chunk *c;

    while ((c = btl->chunks) != NULL) {
        btl->chunks = c->next;
        memory_unregister(&c->registration);
        free(c);
    }
}

static bool transfer_places(const struct ofi_op *op) { return op->kind != OFI_GET; }

static struct ofi_op *transfer_op_take(struct btl_connection *connection, enum ofi_kind kind,
                                       struct btl_done *done)
{
    struct btl *btl = connection->btl;
    struct ofi_op *op;

    if (connection->pending >= connection->depth || list_empty(&btl->spare))
        return NULL;
    op = container_of(btl->spare.next, struct ofi_op, link);
    list_remove(&op->link);
    list_append(&connection->ops, &op->link);
    op->endpoint = connection->endpoint;
    op->connection = connection;
    op->peer = connection->peer;
    op->to = connection->to;
    op->kind = kind;
    op->done = done;
    op->old = NULL;
    op->part.bytes = op->next.bytes = 0;
    connection->pending++;
    if (transfer_places(op))
        connection->placing++;
    return op;
}

static void transfer_op_put(struct btl *btl, struct ofi_op *op)
{
    if (op->connection != NULL) {
        op->connection->pending--;
        if (transfer_places(op))
            op->connection->placing--;
        op->connection = NULL;
    }
    list_remove(&op->stuck);
    list_remove(&op->link);
    list_insert(&btl->spare, &op->link); /* in front: it is warm */
}

static void transfer_tell_done(struct ofi_op *op, int error)
{
    if (op->done == NULL)
        return;
    if (error != 0) {
        int none = 0;

        atomic_compare_exchange_strong_explicit(&op->done->error, &none, error,
                                                memory_order_relaxed, memory_order_relaxed);
    }
    /* release: whoever sees 0 (acquire) sees what was fetched, and the error */
    atomic_fetch_sub_explicit(&op->done->pending, 1, memory_order_release);
    op->done = NULL;
}

int ofi_connection_fail(struct btl_connection *connection, int error, const char *call,
                        const char *said)
{
    struct link *at, *after;
    char text[128];

    if (atomic_load_explicit(&connection->error, memory_order_relaxed) == 0) {
        fabric_name(connection->endpoint, &connection->far, text, sizeof(text));
        snprintf(connection->why, sizeof(connection->why), "provider %s, to rank %d at %s: %s: %s",
                 connection->endpoint->provider, connection->peer, text, call, said);
        /* release: the sentence is whole for whoever sees the error (acquire, in ofi_connection_state) */
        atomic_store_explicit(&connection->error, error, memory_order_release);
        list_for_each (at, after, &connection->ops)
            transfer_tell_done(container_of(at, struct ofi_op, link), error);
        if (connection->btl->host.connection_failed != NULL)
            connection->btl->host.connection_failed();
    }
    return atomic_load_explicit(&connection->error, memory_order_relaxed);
}

static int
transfer_positive_errno(int fi_error) /* of libfabric, whose numbers from 256 on are its own */
{
    return fi_error <= 0 || fi_error > 255 ? EIO : fi_error;
}

/* ---- posting ---- */

static void *transfer_tag_of(const struct btl_connection *connection)
{
    return (void *)(((uintptr_t)connection->id << 1) | 1);
}
static bool transfer_is_tag(const void *context) { return ((uintptr_t)context & 1) != 0; }

static ssize_t transfer_post_move(struct ofi_endpoint *e, fi_addr_t to, const struct ofi_part *part,
                                  size_t bytes, uint64_t flags, bool fetch, void *context)
{
    struct iovec near = {part->local, bytes};
    struct fi_rma_iov far = {part->remote, bytes, part->key};
    void *desc = part->desc;
    struct fi_msg_rma message = {.msg_iov = &near,
                                 .desc = &desc,
                                 .iov_count = 1,
                                 .addr = to,
                                 .rma_iov = &far,
                                 .rma_iov_count = 1,
                                 .context = context};

    return fetch ? fi_readmsg(e->ep, &message, flags) : fi_writemsg(e->ep, &message, flags);
}

static void transfer_advance(struct ofi_part *part, size_t bytes)
{
    part->remote += bytes;
    part->local += bytes;
    part->bytes -= bytes;
}

static struct ofi_part transfer_part_of(const struct btl_transfer *t)
{
    if (t == NULL)
        return (struct ofi_part){0};
    return (struct ofi_part){
        .remote = t->remote->key.word[KEY_ADDRESS] + t->remote_offset,
        .key = t->remote->key.word[KEY_KEY],
        .local = (char *)t->memory->base + t->offset,
        .desc = ((const struct ofi_registration *)slab_registration(t->memory))->desc,
        .bytes = t->bytes,
    };
}

static void transfer_count(struct btl_connection *connection, bool signaled, bool inlined,
                           bool doorbell)
{
    connection->counts.work_requests++;
    connection->counts.doorbells += doorbell;
    connection->counts.signaled += signaled;
    connection->counts.inlined += inlined;
}

/* 0; -EAGAIN; or the line's error, for what the provider said for good */
static int transfer_taken(struct btl_connection *connection, ssize_t rc, const char *call)
{
    if (rc == 0)
        return 0;
    if (rc == -FI_EAGAIN)
        return -EAGAIN;
    return ofi_connection_fail(connection, -transfer_positive_errno((int)-rc), call,
                               fi_strerror((int)-rc));
}

static enum fi_op transfer_atomic_code(int op)
{
    static const enum fi_op code[] = {
        [RATOMIC_ADD] = FI_SUM,  [RATOMIC_CAS] = FI_CSWAP, [RATOMIC_SWAP] = FI_ATOMIC_WRITE,
        [RATOMIC_AND] = FI_BAND, [RATOMIC_OR] = FI_BOR,    [RATOMIC_XOR] = FI_BXOR};

    return code[op];
}

/* Always one that fetches: its completion then says that it has been carried out, and few providers lack them. */
static ssize_t transfer_post_atomic(struct ofi_op *op)
{
    struct ofi_scratch *s = op->scratch;
    struct ofi_endpoint *e = op->endpoint;
    void *d = op->scratch_desc;

    if (op->atomic == RATOMIC_CAS)
        return fi_compare_atomic(e->ep, &s->operand, 1, d, &s->compare, d, &s->result, d, op->to,
                                 op->part.remote, op->part.key, FI_UINT64, FI_CSWAP, &op->context);
    return fi_fetch_atomic(e->ep, &s->operand, 1, d, &s->result, d, op->to, op->part.remote,
                           op->part.key, FI_UINT64, transfer_atomic_code(op->atomic), &op->context);
}

uint32_t transfer_atomics(struct ofi_endpoint *e)
{
    uint32_t mask = 0;
    size_t n = 0;
    int op;

    if ((e->info->caps & FI_ATOMIC) == 0)
        return 0;
    for (op = RATOMIC_ADD; op <= RATOMIC_XOR; op++) {
        int rc = op == RATOMIC_CAS ? fi_compare_atomicvalid(e->ep, FI_UINT64, FI_CSWAP, &n)
                 : op == RATOMIC_SWAP
                     ? fi_fetch_atomicvalid(e->ep, FI_UINT64, FI_ATOMIC_WRITE, &n)
                     : fi_fetch_atomicvalid(e->ep, FI_UINT64, transfer_atomic_code(op), &n);

        if (rc == 0 && n > 0)
            mask |= 1u << op;
    }
    return mask;
}

/* Posts the next step: 0, or what the provider said. */
static ssize_t transfer_op_post(struct ofi_op *op)
{
    struct ofi_endpoint *e = op->endpoint;
    bool fetch = op->kind == OFI_GET || op->kind == OFI_FLUSH;
    size_t bytes = op->part.bytes < e->most ? op->part.bytes : e->most;
    uint64_t flags = FI_COMPLETION | (fetch ? 0 : FI_DELIVERY_COMPLETE);
    ssize_t rc;

    if (op->kind == OFI_ATOMIC) {
        rc = transfer_post_atomic(op);
        bytes = op->part.bytes;
    } else {
        rc = transfer_post_move(e, op->to, &op->part, bytes, flags, fetch, &op->context);
    }
    if (rc != 0)
        return rc;
    transfer_advance(&op->part, bytes);
    if (op->connection != NULL)
        transfer_count(op->connection, true, false, true);
    return 0;
}

/* The first step: with an error nothing has been done, and the operation is given back. */
static int transfer_op_start(struct btl_connection *connection, struct ofi_op *op, const char *call)
{
    int rc = transfer_taken(connection, transfer_op_post(op), call);

    if (rc != 0) {
        op->done = NULL;
        transfer_op_put(connection->btl, op);
        connection->counts.refused += rc == -EAGAIN;
        return rc;
    }
    if (op->done != NULL)
        atomic_fetch_add_explicit(&op->done->pending, 1, memory_order_relaxed);
    return 0;
}

static void transfer_op_finish(struct btl *btl, struct ofi_op *op, int error)
{
    if (error == 0 && op->kind == OFI_ATOMIC && op->old != NULL && op->connection != NULL)
        memcpy(op->old, &op->scratch->result, sizeof(op->scratch->result));
    RPIPE_FAILPOINT("ofi: completed, not told");
    transfer_tell_done(op, error);
    transfer_op_put(btl, op);
}

/* A step is done: the next, if there is one. */
static void transfer_op_continue(struct btl *btl, struct ofi_op *op)
{
    ssize_t rc;

    if (op->part.bytes == 0) {
        if (op->next.bytes > 0)
            RPIPE_FAILPOINT("ofi: payload delivered, slot not posted");
        op->part = op->next;
        op->next.bytes = 0;
    }
    if (op->part.bytes == 0 || (op->connection == NULL && op->kind != OFI_FLUSH) ||
        (op->connection != NULL &&
         atomic_load_explicit(&op->connection->error, memory_order_relaxed) != 0)) {
        transfer_op_finish(btl, op, op->part.bytes == 0 ? 0 : -ECANCELED);
        return;
    }
    rc = transfer_op_post(op);
    if (rc == -FI_EAGAIN) {
        if (list_empty(&op->stuck))
            list_append(&btl->stuck, &op->stuck);
        return;
    }
    list_remove(&op->stuck);
    if (rc == 0)
        return;
    if (op->connection != NULL)
        (void)transfer_taken(op->connection, rc, "a later step of a transfer");
    transfer_op_finish(btl, op, -transfer_positive_errno((int)-rc));
}

void transfer_completed(struct btl *btl, void *context)
{
    if (context != NULL &&
        !transfer_is_tag(context)) /* a tag: of a provider that tells more than it was asked */
        transfer_op_continue(btl, context);
}

void transfer_lost(struct btl *btl, void *context, int error, const char *said)
{
    struct link *at, *after;
    struct ofi_op *op = context;

    if (context == NULL) {
        log_warn("ofi: provider %s reports a failure of it knows not what: %s", btl->rma.provider,
                 said);
        return;
    }
    if (!transfer_is_tag(context)) {
        if (op->connection != NULL)
            (void)ofi_connection_fail(op->connection, -transfer_positive_errno(error),
                                      op->kind == OFI_GET      ? "fi_readmsg"
                                      : op->kind == OFI_ATOMIC ? "an atomic operation"
                                      : op->kind == OFI_FLUSH  ? "fi_readmsg, behind writes"
                                                               : "fi_writemsg",
                                      said);
        transfer_op_finish(btl, op, -transfer_positive_errno(error));
        return;
    }
    list_for_each (at, after, &btl->lines) {
        struct btl_connection *connection = container_of(at, struct btl_connection, link);

        if (transfer_tag_of(connection) == context)
            (void)ofi_connection_fail(connection, -transfer_positive_errno(error), "fi_writemsg",
                                      said);
    }
}

void transfer_queue_lost(struct btl *btl, const char *said)
{
    struct link *at, *after;

    list_for_each (at, after, &btl->lines)
        (void)ofi_connection_fail(container_of(at, struct btl_connection, link), -EIO, "fi_cq_read",
                                  said);
}

/* ---- STREAM ---- */

/* Posts what is left of an accepted write: 0; -EAGAIN: not all; or the line's error. */
static int transfer_stream_continue(struct btl_connection *connection)
{
    struct ofi_endpoint *e = connection->endpoint;
    int rc;

    while (connection->rest.bytes > 0) {
        size_t bytes = connection->rest.bytes < e->most ? connection->rest.bytes : e->most;
        bool more = bytes < connection->rest.bytes || connection->rest_slot.bytes > 0;

        rc = transfer_taken(connection,
                            transfer_post_move(e, connection->to, &connection->rest, bytes,
                                               more ? FI_MORE : 0, false,
                                               transfer_tag_of(connection)),
                            "fi_writemsg");
        if (rc != 0)
            return rc;
        transfer_count(connection, false, false, !more);
        transfer_advance(&connection->rest, bytes);
    }
    if (connection->rest_slot.bytes > 0) {
        RPIPE_FAILPOINT("ofi: payload posted, slot not");
        rc = transfer_taken(connection,
                            transfer_post_move(e, connection->to, &connection->rest_slot,
                                               connection->rest_slot.bytes,
                                               e->inject ? FI_INJECT : 0, false,
                                               transfer_tag_of(connection)),
                            "fi_writemsg");
        if (rc != 0)
            return rc;
        transfer_count(connection, false, e->inject, true);
        connection->rest_slot.bytes = 0;
    }
    return 0;
}

static int transfer_stream_write(struct btl_connection *connection,
                                 const struct btl_transfer *payload,
                                 const struct btl_transfer *slot)
{
    const struct btl_transfer *end = slot != NULL ? slot : payload;
    struct ofi_part last = transfer_part_of(end);
    size_t bytes;
    int rc;

    connection->rest = transfer_part_of(payload);
    connection->rest_slot = transfer_part_of(slot);
    bytes = connection->rest.bytes;
    rc = transfer_stream_continue(connection);
    if (rc == -EAGAIN && connection->rest.bytes == bytes &&
        (bytes > 0 || connection->rest_slot.bytes > 0)) {
        connection->rest.bytes = connection->rest_slot.bytes = 0;
        connection->counts.refused++;
        return -EAGAIN;
    }
    if (rc == -EAGAIN)
        list_append(&connection->btl->stuck_lines, &connection->stuck);
    else if (rc != 0)
        return rc;
    bytes = last.bytes < sizeof(uint64_t) ? last.bytes : sizeof(uint64_t);
    connection->last = (struct ofi_part){
        .remote = last.remote + last.bytes - bytes, .key = last.key, .bytes = bytes};
    connection->unflushed = true;
    return 0;
}

/* ---- the calls ---- */

/* 0: the line takes something. What it has accepted goes first. */
static int transfer_ofi_connection_ready(struct btl_connection *connection)
{
    int rc = atomic_load_explicit(&connection->error, memory_order_relaxed);

    if (rc != 0)
        return rc;
    if (!connection->connected)
        return -EAGAIN;
    if (connection->rest.bytes == 0 && connection->rest_slot.bytes == 0)
        return 0;
    rc = transfer_stream_continue(connection);
    if (rc == 0)
        list_remove(&connection->stuck);
    return rc;
}

int transfer_write(struct btl_connection *connection, const struct btl_transfer *payload,
                   const struct btl_transfer *slot)
{
    struct ofi_op *op;
    int rc = transfer_ofi_connection_ready(connection);

    if (rc != 0) {
        connection->counts.refused += rc == -EAGAIN;
        return rc;
    }
    if (payload != NULL && payload->bytes == 0)
        payload = NULL;
    if (payload == NULL && slot == NULL)
        return 0;
    if (connection->endpoint->stream &&
        (payload == NULL || payload->bytes <= connection->endpoint->ordered))
        return transfer_stream_write(connection, payload, slot);
    op = transfer_op_take(connection, OFI_WRITE, NULL);
    if (op == NULL) {
        connection->counts.refused++;
        return -EAGAIN;
    }
    op->part = transfer_part_of(payload != NULL ? payload : slot);
    op->next = transfer_part_of(payload != NULL ? slot : NULL);
    return transfer_op_start(connection, op, "fi_writemsg");
}

int transfer_get(struct btl_connection *connection, const struct btl_transfer *t,
                 struct btl_done *done)
{
    struct ofi_op *op = NULL;
    int rc = transfer_ofi_connection_ready(connection);

    if (rc == 0 && t->bytes == 0)
        return 0;
    if (rc == 0)
        op = transfer_op_take(connection, OFI_GET, done);
    if (op == NULL) {
        connection->counts.refused += rc == 0 || rc == -EAGAIN;
        return rc != 0 ? rc : -EAGAIN;
    }
    op->part = transfer_part_of(t);
    rc = transfer_op_start(connection, op, "fi_readmsg");
    RPIPE_FAILPOINT("ofi: fetch posted");
    connection->counts.gets += rc == 0;
    return rc;
}

int transfer_atomic(struct btl_connection *connection, int code, const struct btl_transfer *at,
                    uint64_t operand, uint64_t compare, struct btl_done *done)
{
    struct ofi_op *op = NULL;
    int rc = transfer_ofi_connection_ready(connection);

    if (rc == 0 && (code < RATOMIC_ADD || code > RATOMIC_XOR ||
                    (connection->endpoint->atomics & 1u << code) == 0))
        return -ENOTSUP;
    if (rc == 0)
        op = transfer_op_take(connection, OFI_ATOMIC, done);
    if (op == NULL) {
        connection->counts.refused += rc == 0 || rc == -EAGAIN;
        return rc != 0 ? rc : -EAGAIN;
    }
    op->atomic = code;
    op->part = (struct ofi_part){.remote = at->remote->key.word[KEY_ADDRESS] + at->remote_offset,
                                 .key = at->remote->key.word[KEY_KEY],
                                 .bytes = sizeof(uint64_t)};
    op->old = at->memory != NULL ? (char *)at->memory->base + at->offset : NULL;
    op->scratch->operand = operand;
    op->scratch->compare = compare;
    rc = transfer_op_start(connection, op, "an atomic operation");
    connection->counts.atomics += rc == 0;
    return rc;
}

/* A read of what was written last: it is behind all writes, and does not overtake them. */
static void transfer_flush_part(struct ofi_op *op, const struct btl_connection *connection)
{
    op->part = connection->last;
    op->part.local = (char *)&op->scratch->placement;
    op->part.desc = op->scratch_desc;
}

int transfer_flush(struct btl_connection *connection)
{
    struct ofi_op *op;
    int rc = transfer_ofi_connection_ready(connection);

    if (rc != 0)
        return rc;
    if (connection->unflushed) {
        op = transfer_op_take(connection, OFI_FLUSH, NULL);
        if (op == NULL)
            return -EAGAIN;
        transfer_flush_part(op, connection);
        rc = transfer_op_start(connection, op, "fi_readmsg, behind writes");
        if (rc != 0)
            return rc;
        RPIPE_FAILPOINT("ofi: flush posted");
        connection->unflushed = false;
        connection->counts.flushes++;
    }
    return connection->placing > 0 ? -EAGAIN : 0;
}

/* ---- what could not be posted at once, and what outlives its line ---- */

void transfer_continue(struct btl *btl)
{
    struct link *at, *after;

    list_for_each (at, after, &btl->stuck_lines) {
        struct btl_connection *connection = container_of(at, struct btl_connection, stuck);

        if (transfer_stream_continue(connection) != -EAGAIN)
            list_remove(&connection->stuck);
    }
    list_for_each (at, after, &btl->stuck)
        transfer_op_continue(btl, container_of(at, struct ofi_op, stuck));
}

/* Operations become orphans; a stream whose end is not known ends with a flush among them. */
void transfer_abandon(struct btl_connection *connection)
{
    struct btl *btl = connection->btl;
    struct link *at, *after;

    connection->depth = UINT32_MAX;
    if (connection->unflushed &&
        atomic_load_explicit(&connection->error, memory_order_relaxed) == 0) {
        struct ofi_op *op = transfer_op_take(connection, OFI_FLUSH, NULL);

        if (op != NULL) {
            transfer_flush_part(op, connection);
            list_append(&btl->stuck, &op->stuck);
        } else {
            (void)ofi_connection_fail(connection, -ENOBUFS, "connection_close",
                                      "no operation is free"); /* its memory is kept */
        }
    }
    list_for_each (at, after, &connection->ops) {
        struct ofi_op *op = container_of(at, struct ofi_op, link);

        op->connection = NULL;
        op->done = NULL;
        list_remove(&op->link);
        list_append(&btl->orphans, &op->link);
    }
    connection->pending = connection->placing = 0;
    list_remove(&connection->stuck);
    transfer_continue(btl);
}

bool ops_orphaned(const struct btl *btl, int peer)
{
    struct link *at, *after;

    list_for_each (at, after, &btl->orphans)
        if (container_of(at, struct ofi_op, link)->peer == peer)
            return true;
    return false;
}

/*
 * What the provider never took, it will not take any more; what it has taken may still touch memory. Its lines fail: some
 * providers would try to connect with every call, and say -FI_EAGAIN for ever.
 */
void transfer_peer_gone(struct btl *btl, int peer)
{
    struct link *at, *after;

    list_for_each (at, after, &btl->lines) {
        struct btl_connection *connection = container_of(at, struct btl_connection, link);

        if (connection->peer == peer)
            (void)ofi_connection_fail(connection, -ECONNRESET, "the control network",
                                      "this rank is gone");
    }
    list_for_each (at, after, &btl->stuck) {
        struct ofi_op *op = container_of(at, struct ofi_op, stuck);

        if (op->peer == peer && op->connection == NULL)
            list_remove(&op->stuck); /* and stays an orphan */
    }
}
