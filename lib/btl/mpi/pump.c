/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pump.c: see pump.h.
 *
 * A round carries out up to RMA_ROUND operations:
 *   1. MPI_Put of each payload, MPI_Get; slots that have no payload before them in the round
 *   2. MPI_Win_flush for each rank of 1., and of 4. of the round before: what these have sent is placed
 *   3. completion of what is placed
 *   4. MPI_Put of the slots whose payloads are placed now; the next round flushes them
 * So a stream of messages takes one flush for each round, and not two. A thread that has begun goes on
 * until the queue is empty and everything is flushed.
 *
 * MPI does not order two MPI_Put to the same memory. So a round ends before an operation that writes
 * where one of the round, or of 4. of the round before, writes too.
 *
 * Invariants, under the lock: an operation is in the queue, or in `first`, or in `second`, or spare; only the
 * thread that has set `running` changes `first` and `second`, without the lock. `queued` is the length of the queue.
 */
#include "btl/mpi/pump.h"

#include "btl/mpi/memory.h"
#include "btl/mpi/operation.h"
#include "btl/mpi/window.h"

#include "util/clock.h"

#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <string.h>

#define SPIN_NS 20000       /* without work, before the thread sleeps */
#define IDLE_NS (NS_PER_MS) /* then MPI makes progress for others this often */
#define STOP_MS 1000

/* ---- the calls of MPI: each returns the code of the first that failed ---- */

static int pump_put(int rank, const struct rma_range *r)
{
    size_t at, n;
    int code = MPI_SUCCESS;

    for (at = 0; at < r->bytes && code == MPI_SUCCESS; at += n) {
        n = r->bytes - at < RMA_MOST ? r->bytes - at : RMA_MOST;
        code = MPI_Put(r->local + at, (int)n, MPI_BYTE, rank, (MPI_Aint)(r->remote + at), (int)n,
                       MPI_BYTE, rma_window.window);
    }
    return code;
}

static int pump_get(int rank, const struct rma_range *r)
{
    size_t at, n;
    int code = MPI_SUCCESS;

    for (at = 0; at < r->bytes && code == MPI_SUCCESS; at += n) {
        n = r->bytes - at < RMA_MOST ? r->bytes - at : RMA_MOST;
        code = MPI_Get(r->local + at, (int)n, MPI_BYTE, rank, (MPI_Aint)(r->remote + at), (int)n,
                       MPI_BYTE, rma_window.window);
    }
    return code;
}

/* ---- a round ---- */

static bool pump_overlap(const struct rma_range *a, const struct rma_range *b)
{
    return a->bytes > 0 && b->bytes > 0 && a->remote < b->remote + b->bytes &&
           b->remote < a->remote + a->bytes;
}

static bool pump_conflict(const struct rma_op *a, const struct rma_op *b)
{
    return a->kind == RMA_WRITE && b->kind == RMA_WRITE &&
           a->connection->peer == b->connection->peer &&
           (pump_overlap(&a->payload, &b->payload) || pump_overlap(&a->payload, &b->slot) ||
            pump_overlap(&a->slot, &b->payload) || pump_overlap(&a->slot, &b->slot));
}

/* Lock held. Whether the operation may be in this round. */
static bool pump_fits(const struct btl *btl, const struct rma_op *op)
{
    uint32_t i;

    for (i = 0; i < btl->firsts; i++)
        if (pump_conflict(op, btl->first[i]))
            return false;
    for (i = 0; i < btl->seconds; i++)
        if (pump_conflict(op, btl->second[i]))
            return false;
    return true;
}

/* Lock held. */
static void pump_take(struct btl *btl)
{
    bool payload = false;

    while (btl->firsts < RMA_ROUND && !list_empty(&btl->queue)) {
        struct rma_op *op = container_of(btl->queue.next, struct rma_op, link);

        if (!pump_fits(btl, op))
            return;
        list_remove(&op->link);
        atomic_fetch_sub_explicit(&btl->queued, 1, memory_order_relaxed);
        op->in_round = true;
        op->connection->in_rounds++;
        payload |= op->kind == RMA_WRITE && op->payload.bytes > 0;
        op->slot_sent = !payload && op->slot.bytes > 0;
        btl->first[btl->firsts++] = op;
    }
}

static int pump_send(const struct rma_op *op)
{
    if (op->kind == RMA_GET)
        return pump_get(op->connection->peer, &op->payload);
    return pump_put(op->connection->peer, op->slot_sent ? &op->slot : &op->payload);
}

/* One flush for each run of operations to one rank. */
static void pump_flush(struct rma_op *const list[], uint32_t n, int *flushed, int *result)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (list[i]->connection->peer != *flushed) {
            *flushed = list[i]->connection->peer;
            *result = MPI_Win_flush(*flushed, rma_window.window);
        }
        if (list[i]->code == MPI_SUCCESS)
            list[i]->code = *result;
    }
}

static bool pump_has_slot_left(const struct rma_op *op)
{
    return op->slot.bytes > 0 && !op->slot_sent && op->code == MPI_SUCCESS;
}

/* What follows a failed transfer of its connection is not announced: it fails, too. */
static void pump_spread_failures(struct btl *btl)
{
    uint32_t i, j;

    for (i = 0; i < btl->firsts; i++)
        for (j = 0; btl->first[i]->code != MPI_SUCCESS && j < btl->firsts; j++)
            if (btl->first[j]->connection == btl->first[i]->connection)
                btl->first[j]->code = btl->first[i]->code;
}

/* Lock not held: parts 1, 2 and 4, which leave `second` as it is. */
static void pump_call(struct btl *btl)
{
    int flushed = -1, result = MPI_SUCCESS;
    uint32_t i;

    for (i = 0; i < btl->firsts; i++)
        btl->first[i]->code = pump_send(btl->first[i]);
    pump_flush(btl->second, btl->seconds, &flushed, &result);
    pump_flush(btl->first, btl->firsts, &flushed, &result);
    pump_spread_failures(btl);
    for (i = 0; i < btl->firsts; i++) {
        struct rma_op *op = btl->first[i];

        if (pump_has_slot_left(op))
            op->code = pump_put(op->connection->peer, &op->slot);
    }
}

/* Lock held, and given back for the calls of MPI. */
static void pump_round(struct btl *btl)
{
    uint32_t i;

    pump_take(btl);
    pthread_mutex_unlock(&btl->lock);
    pump_call(btl);
    pthread_mutex_lock(&btl->lock);
    for (i = 0; i < btl->seconds; i++)
        rma_operation_complete(btl->second[i]);
    btl->seconds = 0;
    for (i = 0; i < btl->firsts; i++) {
        if (pump_has_slot_left(btl->first[i]))
            btl->second[btl->seconds++] = btl->first[i];
        else
            rma_operation_complete(btl->first[i]);
    }
    btl->firsts = 0;
    btl->round++;
}

/* Lock held, and given back in between: rounds, until nothing is queued nor sent and not flushed. */
static void pump_run(struct btl *btl)
{
    btl->running = true;
    while (!list_empty(&btl->queue) || btl->seconds > 0)
        pump_round(btl);
    btl->running = false;
}

void rma_pump_posted(struct btl *btl)
{
    if (btl->in_call && !btl->running)
        pump_run(btl);
    else if (btl->asleep)
        pthread_cond_signal(&btl->work);
}

/* ---- the thread ---- */

/* Lock held. Until there is work; meanwhile MPI makes progress for the other ranks. */
static void pump_wait(struct btl *btl)
{
    int64_t until = clock_now() + SPIN_NS;
    struct timespec wake;

    pthread_mutex_unlock(&btl->lock);
    while (atomic_load_explicit(&btl->queued, memory_order_relaxed) == 0 && clock_now() < until) {
        rma_window_progress();
        sched_yield();
    }
    rma_memory_free_ready(btl);
    pthread_mutex_lock(&btl->lock);
    if ((!btl->running && !list_empty(&btl->queue)) || btl->stopping)
        return;
    until = clock_now() + IDLE_NS;
    wake = (struct timespec){(time_t)(until / NS_PER_S), (long)(until % NS_PER_S)};
    btl->asleep = true;
    pthread_cond_timedwait(&btl->work, &btl->lock, &wake);
    btl->asleep = false;
}

static void pump_main(void *argument)
{
    struct btl *btl = argument;

    pthread_mutex_lock(&btl->lock);
    while (!btl->stopping) {
        if (!btl->running && !list_empty(&btl->queue))
            pump_run(btl);
        else
            pump_wait(btl);
    }
    pthread_mutex_unlock(&btl->lock);
}

int rma_pump_start(struct btl *btl)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&btl->work, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return -thread_start(&btl->thread, "rpipe-mpi", pump_main, btl);
}

int rma_pump_stop(struct btl *btl)
{
    pthread_mutex_lock(&btl->lock);
    btl->stopping = true;
    pthread_cond_signal(&btl->work);
    pthread_mutex_unlock(&btl->lock);
    return thread_join(&btl->thread, deadline_in_ms(STOP_MS));
}
