/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.c: see post.h.
 */
#include "btl/ofi/post.h"

#include "btl/ofi/operation.h"

#include "util/failpoint.h"
#include "util/log.h"

#include <errno.h>
#include <string.h>

static bool post_is_tag(const void *context) { return ((uintptr_t)context & 1) != 0; }

ssize_t post_move(struct ofi_endpoint *e, fi_addr_t to, const struct ofi_part *part, size_t bytes,
                  uint64_t flags, bool fetch, void *context)
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

int post_check(struct btl_connection *connection, ssize_t rc, const char *call)
{
    if (rc == 0)
        return 0;
    if (rc == -FI_EAGAIN)
        return -EAGAIN;
    return operation_fail_connection(connection, -operation_errno((int)-rc), call,
                                     fi_strerror((int)-rc));
}

static enum fi_op post_atomic_code(int op)
{
    static const enum fi_op code[] = {[BTL_ATOMIC_ADD] = FI_SUM,
                                      [BTL_ATOMIC_CAS] = FI_CSWAP,
                                      [BTL_ATOMIC_SWAP] = FI_ATOMIC_WRITE,
                                      [BTL_ATOMIC_AND] = FI_BAND,
                                      [BTL_ATOMIC_OR] = FI_BOR,
                                      [BTL_ATOMIC_XOR] = FI_BXOR};

    return code[op];
}

/*
 * Always a fetching atomic: its completion then means that it has been carried out, and most
 * providers have them.
 */
static ssize_t post_atomic(struct ofi_op *op)
{
    struct ofi_scratch *s = op->scratch;
    struct ofi_endpoint *e = op->endpoint;
    void *d = op->scratch_desc;

    if (op->atomic == BTL_ATOMIC_CAS)
        return fi_compare_atomic(e->ep, &s->operand, 1, d, &s->compare, d, &s->result, d, op->to,
                                 op->part.remote, op->part.key, FI_UINT64, FI_CSWAP, &op->context);
    return fi_fetch_atomic(e->ep, &s->operand, 1, d, &s->result, d, op->to, op->part.remote,
                           op->part.key, FI_UINT64, post_atomic_code(op->atomic), &op->context);
}

uint32_t post_atomics(struct ofi_endpoint *e)
{
    uint32_t mask = 0;
    size_t n = 0;
    int op;

    if ((e->info->caps & FI_ATOMIC) == 0)
        return 0;
    for (op = BTL_ATOMIC_ADD; op <= BTL_ATOMIC_XOR; op++) {
        int rc = op == BTL_ATOMIC_CAS ? fi_compare_atomicvalid(e->ep, FI_UINT64, FI_CSWAP, &n)
                 : op == BTL_ATOMIC_SWAP
                     ? fi_fetch_atomicvalid(e->ep, FI_UINT64, FI_ATOMIC_WRITE, &n)
                     : fi_fetch_atomicvalid(e->ep, FI_UINT64, post_atomic_code(op), &n);

        if (rc == 0 && n > 0)
            mask |= 1u << op;
    }
    return mask;
}

/* Posts the next step. Returns the result of the provider. */
static ssize_t post_step(struct ofi_op *op)
{
    struct ofi_endpoint *e = op->endpoint;
    bool fetch = op->kind == OFI_GET || op->kind == OFI_FLUSH;
    size_t bytes = op->part.bytes < e->most ? op->part.bytes : e->most;
    uint64_t flags = FI_COMPLETION | (fetch ? 0 : FI_DELIVERY_COMPLETE);
    ssize_t rc;

    if (op->kind == OFI_ATOMIC) {
        rc = post_atomic(op);
        bytes = op->part.bytes;
    } else {
        rc = post_move(e, op->to, &op->part, bytes, flags, fetch, &op->context);
    }
    if (rc != 0)
        return rc;
    post_advance(&op->part, bytes);
    if (op->connection != NULL)
        post_count(op->connection, true, false, true);
    return 0;
}

int post_start(struct btl_connection *connection, struct ofi_op *op, const char *call)
{
    int rc = post_check(connection, post_step(op), call);

    if (rc != 0) {
        op->done = NULL;
        operation_put(op);
        connection->counts.refused += rc == -EAGAIN;
        return rc;
    }
    if (op->done != NULL)
        atomic_fetch_add_explicit(&op->done->pending, 1, memory_order_relaxed);
    return 0;
}

static void post_finish(struct ofi_op *op, int error)
{
    if (error == 0 && op->kind == OFI_ATOMIC && op->old != NULL && op->connection != NULL)
        memcpy(op->old, &op->scratch->result, sizeof(op->scratch->result));
    if (error != 0 && op->kind == OFI_FLUSH && op->connection != NULL)
        op->connection->unflushed = true;
    RPIPE_FAILPOINT("ofi: completed, not reported");
    operation_complete(op, error);
    operation_put(op);
}

void post_continue(struct ofi_op *op)
{
    ssize_t rc;

    if (op->part.bytes == 0) {
        if (op->next.bytes > 0)
            RPIPE_FAILPOINT("ofi: payload delivered, slot not posted");
        op->part = op->next;
        op->next.bytes = 0;
    }
    if (op->part.bytes == 0 || (op->connection == NULL && op->kind != OFI_FLUSH) ||
        (op->connection != NULL && ofi_error_of(op->connection) != 0)) {
        post_finish(op, op->part.bytes == 0 ? 0 : -ECANCELED);
        return;
    }
    rc = post_step(op);
    if (rc == -FI_EAGAIN) {
        if (list_empty(&op->stuck))
            list_append(&op->endpoint->stuck, &op->stuck);
        return;
    }
    list_remove(&op->stuck);
    if (rc == 0)
        return;
    if (op->connection != NULL)
        (void)post_check(op->connection, rc, "a later step of a transfer");
    post_finish(op, -operation_errno((int)-rc));
}

void post_completed(void *context)
{
    if (context != NULL && !post_is_tag(context)) /* some providers report completions unasked */
        post_continue(context);
}

void post_failed(struct ofi_endpoint *e, void *context, int error, const char *message)
{
    struct link *at, *after;
    struct ofi_op *op = context;

    if (context == NULL) {
        log_warn("ofi: provider %s reports a failure of an unknown operation: %s", e->provider,
                 message);
        return;
    }
    if (!post_is_tag(context)) {
        if (op->connection != NULL)
            (void)operation_fail_connection(op->connection, -operation_errno(error),
                                            op->kind == OFI_GET      ? "fi_readmsg"
                                            : op->kind == OFI_ATOMIC ? "an atomic operation"
                                            : op->kind == OFI_FLUSH  ? "fi_readmsg, behind writes"
                                                                     : "fi_writemsg",
                                            message);
        post_finish(op, -operation_errno(error));
        return;
    }
    list_for_each (at, after, &e->connections) {
        struct btl_connection *connection = container_of(at, struct btl_connection, link);

        if (post_tag_of(connection) == context)
            (void)operation_fail_connection(connection, -operation_errno(error), "fi_writemsg",
                                            message);
    }
}

void post_queue_failed(struct ofi_endpoint *e, const char *message)
{
    struct link *at, *after;

    list_for_each (at, after, &e->connections)
        (void)operation_fail_connection(container_of(at, struct btl_connection, link), -EIO,
                                        "fi_cq_read", message);
}
