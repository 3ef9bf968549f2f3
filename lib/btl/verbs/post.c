/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.c: the data path: writes, gets, atomics, flushes and their completions.
 *
 * A write is one list of work requests, payload then slot, posted by one call; a reliable
 * connection executes WRITEs in the order in which they were posted (doc/verbs.md). One WRITE in
 * SIGNAL_EVERY is signaled; its completion implies those of all before it. An operation that
 * returns data has a completion of its own.
 *
 * Invariants
 * 1. Work requests are numbered from 0, and a completion carries the number. posted - completed <=
 *    depth.
 * 2. Fewer than SIGNAL_EVERY of the last work requests are unsignaled, and no operation takes more
 *    than depth - SIGNAL_EVERY: a full queue always becomes empty enough without a further post.
 * 3. done[n & mask] belongs to a work request that is signaled and not complete.
 *
 * soft-iWARP completes a WRITE while a READ that was posted before it is outstanding. Therefore
 * `completed` only grows, a READ or an atomic is complete by its own completion alone, and its
 * entry of done[] is not reused before. soft-iWARP also answers a short READ that crosses a page
 * with wrong bytes, so that none is posted (verbs_post_first_part).
 */
#include "btl/verbs/post.h"

#include "btl/verbs/held.h"
#include "btl/verbs/memory.h"
#include "btl/verbs/state.h"
#include "btl/verbs/stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_BYTES 64u
#define CHAIN 16u /* work requests per call, of a payload that is split */
#define POLL 16

/*
 * soft-iWARP copies an answer to a READ of up to so many bytes incorrectly if it spans two pages.
 */
#define SHORT_READ 32u
#define PAGE 4096u /* with larger pages some READs are split needlessly */

/* ---- completions ---- */

static void verbs_post_complete(struct btl_done *done, int error)
{
    int32_t none = 0;

    if (error != 0)
        (void)atomic_compare_exchange_strong_explicit(&done->error, &none, error,
                                                      memory_order_relaxed, memory_order_relaxed);
    /* release: the data and the error; pairs with the acquire of a caller that reads 0 */
    (void)atomic_fetch_sub_explicit(&done->pending, 1, memory_order_release);
}

/* The error code of a status, and advice for the user. */
static int verbs_post_explain(enum ibv_wc_status status, const char **advice)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
        *advice = "the other end does not answer: its process may have ended, or its port or the "
                  "route to it is down";
        return -ECONNRESET;
    case IBV_WC_WR_FLUSH_ERR:
        *advice = "the connection has ended: the other end has closed it, or its process has ended";
        return -ECONNRESET;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
        *advice = "the other end's device refuses it: the memory there is not registered, or not "
                  "any longer, as that end has announced";
        return -EPROTO;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
        *advice = "memory of this end is not registered for this operation";
        return -EFAULT;
    default:
        *advice = "the device has failed; see dmesg";
        return -EIO;
    }
}

/* The queue has failed: every outstanding operation completes with the error. */
static NOINLINE int verbs_post_fail_all(struct btl_connection *connection)
{
    uint32_t i;

    for (i = 0; i <= connection->mask; i++) {
        struct btl_done **done = &connection->done[i];

        if (*done != NULL)
            verbs_post_complete(*done, connection->error);
        *done = NULL;
    }
    connection->completed = connection->posted;
    connection->awaited = 0;
    if (connection->held != NULL)
        connection->held->requests = connection->held->writes = 0;
    return connection->error;
}

/* -EAGAIN: not up yet; or the error, after which nothing is outstanding. */
static NOINLINE int verbs_post_not_up(struct btl_connection *connection)
{
    /* acquire: the error, written before FAILED */
    int state = atomic_load_explicit(&connection->state, memory_order_acquire);

    return state == CONNECTION_FAILED ? verbs_post_fail_all(connection) : -EAGAIN;
}

static NOINLINE int verbs_post_completion_failed(struct btl_connection *connection,
                                                 const struct ibv_wc *wc)
{
    const char *advice;
    int error = verbs_post_explain(wc->status, &advice);

    verbs_state_fail(connection, error, "%s to rank %d: %s (vendor 0x%x): %s",
                     connection->btl->device, connection->peer, ibv_wc_status_str(wc->status),
                     wc->vendor_err, advice);
    return verbs_post_not_up(connection);
}

/* One completion, of `connection` or of another one of its stream. */
static inline void verbs_post_completed(struct btl_connection *connection, const struct ibv_wc *wc)
{
    struct btl_connection *of = connection;
    struct btl_done **done;
    uint64_t number;

    if (verbs_stream_has_queue(connection)) {
        of = verbs_stream_find(connection->stream, wc);
        if (of == NULL)
            return;
    }
    if (UNLIKELY(wc->status != IBV_WC_SUCCESS)) {
        (void)verbs_post_completion_failed(of, wc);
        return;
    }
    number = verbs_wr_number(of, wc->wr_id);
    done = &of->done[number & of->mask];
    if ((int64_t)(number + 1 - of->completed) > 0)
        of->completed = number + 1;
    if (*done != NULL) {
        verbs_post_complete(*done, 0);
        of->awaited--;
    }
    *done = NULL;
}

/* Takes all completions. 0, -EAGAIN (another thread is failing the connection), or its error. */
static int verbs_post_take_completions(struct btl_connection *connection)
{
    struct ibv_wc wc[POLL];
    int n, i;

    do {
        n = ibv_poll_cq(connection->cq, POLL, wc);
        connection->counts.polls++;
        for (i = 0; i < n; i++)
            verbs_post_completed(connection, &wc[i]);
    } while (n == POLL);
    if (verbs_stream_has_queue(connection))
        connection->looked = ++connection->stream->polls;
    if (UNLIKELY(n < 0))
        verbs_state_fail(connection, -EIO, "%s to rank %d: ibv_poll_cq fails",
                         connection->btl->device, connection->peer);
    return UNLIKELY(atomic_load_explicit(&connection->state, memory_order_relaxed) >=
                    CONNECTION_FAILING)
               ? verbs_post_not_up(connection)
               : 0;
}

/*
 * Of the connections of a stream one polls for all: the others find that it has, and what it has taken for them.
 */
static inline bool verbs_post_is_polled(struct btl_connection *connection)
{
    uint64_t polls;

    if (!verbs_stream_has_queue(connection))
        return false;
    polls = connection->stream->polls;
    if (connection->looked == polls)
        return false;
    connection->looked = polls;
    return true;
}

int verbs_post_progress(struct btl_connection *connection)
{
    int rc = 0;

    /* acquire: the queue pair, written before UP */
    if (UNLIKELY(atomic_load_explicit(&connection->state, memory_order_acquire) == CONNECTION_DOWN))
        return 0;
    if ((connection->posted != connection->completed || connection->awaited > 0) &&
        !verbs_post_is_polled(connection))
        rc = verbs_post_take_completions(connection);
    if (UNLIKELY(atomic_load_explicit(&connection->state, memory_order_acquire) >=
                 CONNECTION_FAILING))
        rc = verbs_post_not_up(connection);
    return rc == -EAGAIN ? 0 : rc;
}

/* ---- posting ---- */

static inline uint32_t verbs_post_space(const struct btl_connection *connection)
{
    return connection->depth - (uint32_t)(connection->posted - connection->completed);
}

/* Posts what is held, and the list behind it, which may be NULL. A list that is posted only in part fails the connection. */
static int verbs_post_ring(struct btl_connection *connection, struct ibv_send_wr *list)
{
    struct ibv_send_wr *refused = NULL;
    int rc;

    if (UNLIKELY(verbs_held_any(connection)))
        list = verbs_held_take(connection->held, list);
    rc = ibv_post_send(connection->qp, list, &refused);
    if (UNLIKELY(rc != 0)) { /* an errno value; some devices return a negative one */
        (void)verbs_post_take_completions(connection);
        verbs_state_fail(connection, -EIO,
                         "%s to rank %d: ibv_post_send: %s; the connection may have ended",
                         connection->btl->device, connection->peer, strerror(rc < 0 ? -rc : rc));
        return verbs_post_not_up(connection);
    }
    connection->counts.doorbells++;
    return 0;
}

static NOINLINE int verbs_post_no_space(struct btl_connection *connection, uint32_t n)
{
    int rc = verbs_held_any(connection) ? verbs_post_ring(connection, NULL) : 0;

    if (rc == 0)
        rc = verbs_post_take_completions(connection);
    return rc == 0 && verbs_post_space(connection) < n ? -EAGAIN : rc;
}

/* 0: the connection is up, and its queue has space for n work requests. */
static inline int verbs_post_ready(struct btl_connection *connection, uint32_t n)
{
    int rc;

    /* acquire: the queue pair, written before UP */
    if (UNLIKELY(atomic_load_explicit(&connection->state, memory_order_acquire) != CONNECTION_UP)) {
        rc = verbs_post_not_up(connection);
        connection->counts.refused += rc == -EAGAIN;
        return rc;
    }
    if (LIKELY(verbs_post_space(connection) >= n))
        return 0;
    rc = verbs_post_no_space(connection, n);
    connection->counts.refused += rc == -EAGAIN;
    return rc;
}

/*
 * Numbers a list of n work requests that ends with `last`. That one is signaled if `answered`, or if SIGNAL_EVERY is reached.
 */
static inline void verbs_post_number(struct btl_connection *connection, struct ibv_send_wr *last,
                                     uint32_t n, bool answered)
{
    connection->unsignaled += n;
    if (answered || connection->unsignaled >= SIGNAL_EVERY) {
        last->send_flags |= IBV_SEND_SIGNALED;
        connection->unsignaled = 0;
        connection->counts.signaled++;
    }
    last->wr_id = verbs_wr_id(connection, connection->posted + n - 1);
    connection->posted += n;
    connection->counts.work_requests += n;
}

/* Numbers and posts a list. `last` is signaled for `done`, which may be NULL. */
static int verbs_post_list(struct btl_connection *connection, struct ibv_send_wr *first,
                           struct ibv_send_wr *last, uint32_t n, struct btl_done *done)
{
    int rc;

    verbs_post_number(connection, last, n, done != NULL);
    rc = verbs_post_ring(connection, first);
    if (rc == 0 && done != NULL) {
        connection->done[(connection->posted - 1) & connection->mask] = done;
        connection->awaited++;
    }
    return rc;
}

static inline void verbs_post_aim(const struct btl_connection *connection, struct ibv_send_wr *wr,
                                  struct ibv_sge *sge, const struct btl_transfer *t, uint64_t from,
                                  uint32_t bytes)
{
    sge->addr = (uintptr_t)t->memory->base + t->offset + from;
    sge->length = bytes;
    sge->lkey = verbs_memory_lkey(connection->context, t->memory);
    wr->sg_list = sge;
    wr->num_sge = 1;
    wr->wr.rdma.remote_addr = t->remote->key.word[KEY_ADDRESS] + t->remote_offset + from;
    wr->wr.rdma.rkey = (uint32_t)t->remote->key.word[KEY_RKEY];
}

/* One WRITE, inline if it is short enough: then the processor copies it, so it must not be memory of a device. */
static inline void verbs_post_aim_write(struct btl_connection *connection, struct ibv_send_wr *wr,
                                        struct ibv_sge *sge, const struct btl_transfer *t,
                                        uint64_t from, uint32_t bytes)
{
    bool inlined = bytes <= connection->btl->limits.inline_most && !t->memory->device;

    wr->wr_id = 0;
    wr->next = NULL;
    wr->opcode = IBV_WR_RDMA_WRITE;
    wr->send_flags = inlined ? IBV_SEND_INLINE : 0;
    connection->counts.inlined += inlined;
    verbs_post_aim(connection, wr, sge, t, from, bytes);
}

/* Number of work requests of a transfer. */
static inline uint64_t verbs_post_requests(const struct btl_connection *connection,
                                           const struct btl_transfer *t)
{
    uint64_t most = connection->btl->limits.message_most;

    return LIKELY(t->bytes <= most) ? t->bytes > 0 : (t->bytes + most - 1) / most;
}

static bool verbs_post_too_long(const struct btl_connection *connection, uint64_t n)
{
    return n > connection->depth - SIGNAL_EVERY;
}

/* Offset of the last of n work requests. */
static inline uint64_t verbs_post_last_offset(const struct btl_connection *connection, uint64_t n)
{
    return LIKELY(n <= 1) ? 0 : (n - 1) * connection->btl->limits.message_most;
}

/* Posts all but the last work request of a long transfer; the queue has space for them. */
static NOINLINE int verbs_post_long(struct btl_connection *connection, const struct btl_transfer *t,
                                    enum ibv_wr_opcode opcode, uint64_t n)
{
    uint32_t most = connection->btl->limits.message_most, i;
    struct ibv_send_wr wr[CHAIN];
    struct ibv_sge sge[CHAIN];
    uint64_t from = 0;
    int rc;

    for (n--; n > 0; n -= i) {
        for (i = 0; i < CHAIN && i < n; i++) {
            memset(&wr[i], 0, sizeof(wr[i]));
            wr[i].opcode = opcode;
            verbs_post_aim(connection, &wr[i], &sge[i], t, from, most);
            if (i > 0)
                wr[i - 1].next = &wr[i];
            from += most;
        }
        rc = verbs_post_list(connection, wr, &wr[i - 1], i, NULL);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int verbs_post_write(struct btl_connection *connection, const struct btl_transfer *payload,
                     const struct btl_transfer *slot)
{
    struct ibv_send_wr wr[2], *last = NULL;
    struct ibv_sge sge[2];
    uint64_t n = payload != NULL ? verbs_post_requests(connection, payload) : 0,
             from = verbs_post_last_offset(connection, n);
    uint32_t count = 0;
    int rc;

    assert(slot == NULL || slot->bytes == SLOT_BYTES);
    if (UNLIKELY(verbs_post_too_long(connection, n)))
        return -EMSGSIZE;
    rc = verbs_post_ready(connection, (uint32_t)n + (slot != NULL));
    if (UNLIKELY(rc != 0))
        return rc;
    if (UNLIKELY(n > 1)) {
        rc = verbs_post_long(connection, payload, IBV_WR_RDMA_WRITE, n);
        if (rc != 0)
            return rc;
    }
    if (n > 0) {
        last = &wr[count];
        verbs_post_aim_write(connection, last, &sge[count++], payload, from,
                             (uint32_t)(payload->bytes - from));
    }
    if (slot != NULL) {
        if (last != NULL)
            last->next = &wr[count];
        last = &wr[count];
        verbs_post_aim_write(connection, last, &sge[count++], slot, 0, SLOT_BYTES);
    }
    if (UNLIKELY(last == NULL))
        return 0;
    connection->last_address = last->wr.rdma.remote_addr;
    connection->last_key = last->wr.rdma.rkey;
    verbs_post_number(connection, last, count, false);
    connection->written = connection->posted;
    if (UNLIKELY(verbs_held_takes(connection, count)))
        return verbs_held_add(connection->held, wr, count) ? verbs_post_ring(connection, NULL) : 0;
    return verbs_post_ring(connection, wr);
}

int verbs_post_hold(struct btl_connection *connection, uint32_t most)
{
    int rc = verbs_held_any(connection) ? verbs_post_ring(connection, NULL) : 0;

    if (connection->held == NULL && most > 0) /* without memory nothing is held */
        connection->held = calloc(1, sizeof(*connection->held));
    if (connection->held != NULL)
        connection->held->most = most < HELD_WRITES ? most : HELD_WRITES;
    return rc;
}

/*
 * Whether the entry in done[] of the n-th next work request is free: one that was overtaken may
 * still use it.
 */
static inline int verbs_post_place_is_free(struct btl_connection *connection, uint64_t n)
{
    if (LIKELY(connection->done[(connection->posted + n - 1) & connection->mask] == NULL))
        return 0;
    connection->counts.refused++;
    return -EAGAIN;
}

/*
 * Bytes of the first of two READs, if one READ of all of them would cross a page at the other end
 * and return wrong bytes (soft-iWARP; the kind of iWARP device at the other end is unknown). 0: one
 * READ suffices.
 */
static inline uint32_t verbs_post_first_part(const struct btl_connection *connection,
                                             const struct btl_transfer *t, uint64_t from)
{
    uint32_t in_page =
        (uint32_t)((t->remote->key.word[KEY_ADDRESS] + t->remote_offset + from) % PAGE);

    if (LIKELY(!connection->btl->limits.iwarp || t->bytes - from > SHORT_READ ||
               in_page + (t->bytes - from) <= PAGE))
        return 0;
    return PAGE - in_page;
}

int verbs_post_get(struct btl_connection *connection, const struct btl_transfer *t,
                   struct btl_done *done)
{
    struct ibv_send_wr wr[2] = {{.opcode = IBV_WR_RDMA_READ, .next = &wr[1]},
                                {.opcode = IBV_WR_RDMA_READ}};
    struct ibv_sge sge[2];
    uint64_t n = verbs_post_requests(connection, t), from = verbs_post_last_offset(connection, n);
    uint32_t part = verbs_post_first_part(connection, t, from), last = part != 0 ? 2 : 1;
    int rc;

    if (UNLIKELY(n == 0))
        return verbs_post_ready(connection, 0);
    if (UNLIKELY(verbs_post_too_long(connection, n - 1 + last)))
        return -EMSGSIZE;
    rc = verbs_post_ready(connection, (uint32_t)n - 1 + last);
    if (rc == 0)
        rc = verbs_post_place_is_free(connection, n - 1 + last);
    if (UNLIKELY(rc != 0))
        return rc;
    if (UNLIKELY(n > 1)) {
        rc = verbs_post_long(connection, t, IBV_WR_RDMA_READ, n);
        if (rc != 0)
            return rc;
    }
    if (UNLIKELY(part != 0))
        verbs_post_aim(connection, &wr[0], &sge[0], t, from, part);
    verbs_post_aim(connection, &wr[1], &sge[1], t, from + part, (uint32_t)(t->bytes - from - part));
    (void)atomic_fetch_add_explicit(&done->pending, 1, memory_order_relaxed);
    rc = verbs_post_list(connection, &wr[2 - last], &wr[1], last, done);
    if (UNLIKELY(rc != 0)) {
        (void)atomic_fetch_sub_explicit(&done->pending, 1, memory_order_relaxed);
        return rc;
    }
    connection->counts.gets++;
    return 0;
}

int verbs_post_atomic(struct btl_connection *connection, int op, const struct btl_transfer *at,
                      uint64_t operand, uint64_t compare, struct btl_done *done)
{
    struct ibv_send_wr wr = {.num_sge = 1};
    struct ibv_sge sge = {.addr = (uintptr_t)connection->btl->scratch,
                          .length = 8,
                          .lkey = connection->context->scratch_mr->lkey};
    int rc;

    if (op < 0 || op > 31 || (connection->btl->limits.atomics & 1u << op) == 0)
        return -ENOTSUP;
    rc = verbs_post_ready(connection, 1);
    if (rc == 0)
        rc = verbs_post_place_is_free(connection, 1);
    if (UNLIKELY(rc != 0))
        return rc;
    if (at->memory != NULL) {
        sge.addr = (uintptr_t)at->memory->base + at->offset;
        sge.lkey = verbs_memory_lkey(connection->context, at->memory);
    }
    wr.sg_list = &sge;
    wr.wr.atomic.remote_addr = at->remote->key.word[KEY_ADDRESS] + at->remote_offset;
    wr.wr.atomic.rkey = (uint32_t)at->remote->key.word[KEY_RKEY];
    if (op == BTL_ATOMIC_CAS) {
        wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
        wr.wr.atomic.compare_add = compare;
        wr.wr.atomic.swap = operand;
    } else {
        wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        wr.wr.atomic.compare_add = operand;
    }
    if (done != NULL)
        (void)atomic_fetch_add_explicit(&done->pending, 1, memory_order_relaxed);
    rc = verbs_post_list(connection, &wr, &wr, 1, done);
    if (UNLIKELY(rc != 0)) {
        if (done != NULL)
            (void)atomic_fetch_sub_explicit(&done->pending, 1, memory_order_relaxed);
        return rc;
    }
    connection->last_address = wr.wr.atomic.remote_addr;
    connection->last_key = wr.wr.atomic.rkey;
    connection->written = connection->posted;
    connection->counts.atomics++;
    return 0;
}

/*
 * A READ is executed after every WRITE and atomic that was posted before it, and its answer
 * overtakes none of them on the way to the other end's memory: when it has arrived, they are
 * placed. It reads a byte of the last write.
 */
static int verbs_post_read_last(struct btl_connection *connection)
{
    struct ibv_sge sge = {.addr = (uintptr_t)connection->btl->scratch,
                          .length = 1,
                          .lkey = connection->context->scratch_mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1};
    int rc = verbs_post_ready(connection, 1);

    if (rc == 0)
        rc = verbs_post_place_is_free(connection, 1);
    if (rc != 0)
        return rc;
    wr.wr.rdma.remote_addr = connection->last_address;
    wr.wr.rdma.rkey = connection->last_key;
    connection->flushing = connection->written;
    atomic_store_explicit(&connection->flushed.pending, 1, memory_order_relaxed);
    rc = verbs_post_list(connection, &wr, &wr, 1, &connection->flushed);
    if (rc == 0) {
        connection->flush_end = connection->posted;
        connection->counts.flushes++;
    }
    return rc;
}

int verbs_post_flush(struct btl_connection *connection)
{
    int rc;

    if (connection->flush_end == 0) {
        if (connection->placed == connection->written) {
            rc = verbs_post_progress(connection);
            /* acquire: the error, written before FAILED */
            return rc == 0 && atomic_load_explicit(&connection->state, memory_order_acquire) !=
                                  CONNECTION_UP
                       ? verbs_post_not_up(connection)
                       : rc;
        }
        rc = verbs_post_read_last(connection);
        if (rc != 0)
            return rc;
    }
    rc = verbs_post_progress(connection);
    if (rc != 0)
        return rc;
    /* acquire: pairs with the release in verbs_post_complete */
    if (atomic_load_explicit(&connection->flushed.pending, memory_order_acquire) > 0)
        return -EAGAIN;
    connection->placed = connection->flushing;
    connection->flush_end = 0;
    return 0;
}
