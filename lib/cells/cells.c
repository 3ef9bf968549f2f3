/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cells.c: rcells_atomic: operations on 64-bit cells (cells.h, doc/cells.md).
 *
 * An operation that fetches waits for its answer. One that does not is accepted and forgotten; rflush waits for all of them.
 * Where the device has compare-swap but not the operation itself, the value is read, and swapped for the new one unless it
 * has changed; if it has, again.
 *
 * Invariant: one operation that fetches is pending at a time, also where threads share the end (cells.fetching): there is one
 * place for the old value. One whose caller's deadline passed stays pending; the next waits for it first.
 */
#include "cells/cells.h"

#include "rpipe/connect/close.h"
#include "rpipe/connect/handshake.h"
#include "rpipe/data/path_remote.h"
#include "rpipe/end/attach.h"
#include "rpipe/end/area.h"
#include "rpipe/end/call.h"
#include "rpipe/end/config.h"
#include "rpipe/end/connector.h"
#include "rpipe/end/error.h"

#include "util/failpoint.h"
#include "util/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ACTIVE_READY (WRITER_READY | STATE_CELLS)

static_assert((int)BTL_ATOMIC_XOR == (int)RCELLS_XOR && (int)BTL_ATOMIC_CAS == (int)RCELLS_CAS,
              "an operation has the same number in every layer");

uint64_t cells_apply(uint64_t *cell, rcells_op_t op, uint64_t operand, uint64_t compare)
{
    switch (op) {
    case RCELLS_ADD:
        return __atomic_fetch_add(cell, operand, __ATOMIC_ACQ_REL);
    case RCELLS_SWAP:
        return __atomic_exchange_n(cell, operand, __ATOMIC_ACQ_REL);
    case RCELLS_AND:
        return __atomic_fetch_and(cell, operand, __ATOMIC_ACQ_REL);
    case RCELLS_OR:
        return __atomic_fetch_or(cell, operand, __ATOMIC_ACQ_REL);
    case RCELLS_XOR:
        return __atomic_fetch_xor(cell, operand, __ATOMIC_ACQ_REL);
    case RCELLS_CAS:
        break;
    }
    /* the old value is in `compare` afterwards, whether it was swapped or not */
    (void)__atomic_compare_exchange_n(cell, &compare, operand, false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE);
    return compare;
}

static uint64_t cells_result_of(rcells_op_t op, uint64_t value, uint64_t operand)
{
    uint64_t cell = value;

    (void)cells_apply(&cell, op, operand, value);
    return cell;
}

static void cells_set_way(struct rch *ch, enum cells_way way)
{
    static const char *const name[] = {"", "cpu", "device", "service"};

    ch->cells->way = way;
    ch->cells_way = name[way];
}

/* ---- opening: the passive end ---- */

/* The way in which the active end can be let in, and whether this process's own instructions are in the same domain. */
static void cells_choose_way(struct rch *ch)
{
    struct cells *c = ch->cells;
    uint32_t capabilities = ch->ops->attributes.capabilities;
    bool service = setting_number(SET_ATOMICS) != 0;

    c->processors = true;
    if ((capabilities & BTL_LOAD_STORE) != 0) {
        cells_set_way(ch, service ? CELLS_SERVICE : CELLS_CPU);
        return;
    }
    cells_set_way(ch, CELLS_SERVICE);
    if (service || (ch->ops->connection_atomics(remote_connection(ch)) & 1u << RCELLS_CAS) == 0)
        return;
    cells_set_way(ch, CELLS_DEVICE);
    c->processors = (capabilities & BTL_ATOMICS_COHERENT) != 0;
}

/* The key for the other end of `ch`, by which it finds the cells of `master`. */
static int cells_share_key(struct rch *ch, const struct rch *master, struct error *err)
{
    struct btl_memory shared = master->heap_memory;

    shared.key = ch->heap_memory.key;
    return end_key(ch, &shared, &ch->heap_memory.key, err);
}

/* The cells of another passive end, for one more peer. */
static int cells_share(struct rch *ch, struct rch *master, struct error *err)
{
    struct cells *c = ch->cells, *m = master->cells;
    bool direct = c->way != CELLS_SERVICE;

    if (m == NULL || m->master != NULL || m->cell == NULL ||
        config_side(&master->cfg) != SIDE_READER ||
        (atomic_load_explicit(&master->state, memory_order_relaxed) & STATE_CLOSED) != 0 ||
        master->cfg.heap_bytes != ch->cfg.heap_bytes) {
        return error_set(err, -EINVAL,
                         "shared must be an open owner end of this process with cells of its own, "
                         "as many as here; it has %llu, here are %llu",
                         (unsigned long long)(master->cfg.heap_bytes / sizeof(uint64_t)),
                         (unsigned long long)(ch->cfg.heap_bytes / sizeof(uint64_t)));
    }
    if (direct && (c->processors != m->processors || (!c->processors && ch->btl != master->btl))) {
        direct =
            false; /* two domains: this peer's requests go through a processor, if those are in the other's */
        cells_set_way(ch, CELLS_SERVICE);
        c->processors = true;
    }
    if (!m->processors && !direct)
        return error_set(err, -ENOTSUP,
                         "the cells of `shared` are operated on by a device that is not "
                         "atomic with processors, and "
                         "rank %d "
                         "is reached in another way: set RPIPE_ATOMICS=service for all of them",
                         ch->peer);
    if (direct) {
        int rc =
            master->heap_memory.slab == NULL || ch->ops != master->ops || ch->ops->share == NULL
                ? -ENOTSUP
                : ch->ops->share(ch->btl, ch->peer, &master->heap_memory, &ch->heap_memory.key,
                                 err);

        if (rc == 0)
            rc = cells_share_key(ch, master, err);
        if (rc != 0) {
            cells_set_way(ch,
                          CELLS_SERVICE); /* always possible where processors are in the domain */
            if (!m->processors)
                return rc;
        }
    }
    c->master = master;
    c->cell = m->cell;
    atomic_fetch_add_explicit(&master->users, 1, memory_order_seq_cst);
    return 0;
}

static int cells_open(struct rch *ch, struct error *err)
{
    struct rch *master = ch->cfg.cells_of;
    struct cells *c;
    int rc;

    if (ch->cfg.op != OP_CELLS)
        return 0;
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return error_set(err, -ENOMEM, "no memory for another pipe of cells");
    ch->cells = c;
    c->count = ch->cfg.heap_bytes / sizeof(uint64_t);
    if (config_side(&ch->cfg) == SIDE_WRITER)
        return 0;
    cells_choose_way(ch);
    if (master != NULL) {
        rendezvous_lock();
        rc = cells_share(ch, master, err);
        rendezvous_unlock();
        return rc;
    }
    rc = ch->ops->alloc(ch->btl, ch->peer, area_heap_bytes(&ch->cfg), BTL_PEER_ATOMICS, false,
                        &ch->heap_memory, err);
    if (rc != 0)
        return rc;
    memset(ch->heap_memory.base, 0, area_heap_bytes(&ch->cfg));
    c->cell = ch->heap_memory.base;
    return end_key(ch, &ch->heap_memory, &ch->heap_memory.key, err);
}

static void cells_offer(const struct rch *ch, struct handshake *h)
{
    if (ch->cells != NULL)
        h->cells = ch->cells->way;
}

/* The active end: what the passive one has chosen is what this one can. */
static int cells_attached(struct rch *ch, uint32_t way, struct error *err)
{
    bool mapped = (ch->ops->attributes.capabilities & BTL_LOAD_STORE) != 0;

    if ((way == CELLS_CPU && mapped) || way == CELLS_SERVICE ||
        (way == CELLS_DEVICE && !mapped &&
         (ch->ops->connection_atomics(remote_connection(ch)) & 1u << RCELLS_CAS) != 0)) {
        cells_set_way(ch, (enum cells_way)way);
        ch->cells->cell = ch->heap_remote.base;
        return 0;
    }
    return error_set(
        err, -ENOTSUP,
        "rank %d requires that the network operates on the cells, and the device here has no "
        "compare-swap: set "
        "RPIPE_ATOMICS=service there",
        ch->peer);
}

static int cells_attach(struct rch *ch, const struct handshake *h, struct error *err)
{
    int rc = 0;

    if (ch->cells == NULL || config_side(&ch->cfg) == SIDE_READER)
        return 0;
    if (h->cells != CELLS_SERVICE)
        rc = end_attach(ch, &h->heap, area_heap_bytes(&ch->cfg), BTL_PEER_ATOMICS, &ch->heap_remote,
                        err);
    return rc == 0 ? cells_attached(ch, (uint32_t)h->cells, err) : rc;
}

static void cells_release(struct rch *ch)
{
    struct rch *master = ch->cells != NULL ? ch->cells->master : NULL;

    free(ch->cells);
    ch->cells = NULL;
    if (master == NULL)
        return;
    atomic_fetch_sub_explicit(&master->users, 1, memory_order_seq_cst);
    end_release_locked(master); /* it may have waited for this */
}

/* ---- the active end ---- */

struct atomic_arguments {
    rcells_op_t op;
    size_t cell;
    uint64_t operand, compare, old;
    bool fetch;
    /* where the attempts are */
    bool under_way;  /* posted, or asked */
    bool reading;    /* by compare-swap: what is pending reads, and does not swap */
    uint64_t number; /* of the request */
    uint64_t seen;   /* by compare-swap: the value that was read */
};

/* Another call waits for an old value. Those that share this end take turns. */
static bool cells_is_taken(const struct cells *c, const struct atomic_arguments *a)
{
    return c->fetching != NULL && c->fetching != a;
}

/* The value is taken, or given up: it is the turn of another thread, which may sleep. */
static void cells_give_turn(struct rch *ch, const struct atomic_arguments *a)
{
    if (ch->cells->fetching != a)
        return;
    ch->cells->fetching = NULL;
    if (ch->cfg.threads)
        (void)wake_if_waiting(
            end_wake_word(ch, atomic_load_explicit(&ch->state, memory_order_relaxed)), true);
}

static bool cells_pending(struct cells *c)
{
    /* acquire: pairs with the release of the thread that completes the operation: the result is here */
    return atomic_load_explicit(&c->done.pending, memory_order_acquire) > 0;
}

static struct btl_transfer cells_transfer_of(struct rch *ch, size_t cell, bool result)
{
    return (struct btl_transfer){&ch->heap_remote, cell * sizeof(uint64_t),
                                 result ? remote_result(ch) : NULL, 0, sizeof(uint64_t)};
}

static uint64_t cells_result_here(struct rch *ch)
{
    return __atomic_load_n((uint64_t *)remote_result(ch)->base, __ATOMIC_RELAXED);
}

static int cells_posted(struct rch *ch, struct atomic_arguments *a, int rc)
{
    if (rc == 0) {
        a->under_way = true;
        return R_PENDING;
    }
    return rc == -EAGAIN ? R_PENDING : remote_failed(ch);
}

/* The device lacks the operation: read, then swap if it is still the same, until it is. */
static int cells_swap_attempt(struct rch *ch, struct atomic_arguments *a)
{
    struct btl_transfer t = cells_transfer_of(ch, a->cell, true);

    if (a->under_way) {
        uint64_t found = cells_result_here(ch);

        a->under_way = false;
        if (!a->reading && found == a->seen) {
            a->old = found;
            return 0;
        }
        a->seen = found;
        a->reading = false;
        return cells_posted(ch, a,
                            ch->ops->atomic(remote_connection(ch), RCELLS_CAS, &t,
                                            cells_result_of(a->op, a->seen, a->operand), a->seen,
                                            &ch->cells->done));
    }
    a->reading = true;
    return cells_posted(ch, a, ch->ops->get(remote_connection(ch), &t, &ch->cells->done));
}

static int cells_device_attempt(struct rch *ch, struct atomic_arguments *a)
{
    struct cells *c = ch->cells;
    bool has = (ch->ops->connection_atomics(remote_connection(ch)) & 1u << a->op) != 0,
         fetch = a->fetch || !has;
    struct btl_transfer t = cells_transfer_of(ch, a->cell, fetch);
    int rc = remote_progress(ch);

    if (rc != 0)
        return rc;
    if (cells_is_taken(c, a))
        return R_PENDING; /* also one that does not fetch: a flood of them would never let the other one see an end */
    if (fetch)
        c->fetching = a;
    if (fetch && cells_pending(c))
        return R_PENDING; /* this one, or one before it */
    if (!cells_pending(c) && atomic_load_explicit(&c->done.error, memory_order_relaxed) != 0)
        return remote_failed(ch);
    if (!has)
        return cells_swap_attempt(ch, a);
    if (a->under_way) {
        a->old = cells_result_here(ch);
        return 0;
    }
    rc = cells_posted(
        ch, a,
        ch->ops->atomic(remote_connection(ch), (int)a->op, &t, a->operand, a->compare, &c->done));
    if (rc == R_PENDING && a->under_way && !fetch)
        return 0;
    if (a->under_way && ch->ops->progress(remote_connection(ch)) == 0 && !cells_pending(c)) {
        a->old = cells_result_here(ch);
        return 0;
    }
    return rc;
}

static int cells_service_attempt(struct rch *ch, struct atomic_arguments *a)
{
    struct cells *c = ch->cells;
    /* acquire: pairs with cells_on_reply */
    uint64_t answered = atomic_load_explicit(&c->answered, memory_order_acquire);
    int rc;

    if (a->under_way) {
        if (answered < a->number)
            return R_PENDING;
        a->old = c->old;
        return 0;
    }
    if ((a->fetch && cells_is_taken(c, a)) ||
        atomic_load_explicit(&c->asked, memory_order_relaxed) - answered >= CELLS_PENDING_MOST)
        return R_PENDING;
    if (a->fetch)
        c->fetching = a;
    rc = cells_request(ch, a->op, a->cell, a->operand, a->compare, a->fetch);
    if (rc != 0)
        return rc == -ENOMEM ? call_error(ch, rc, "no memory for another request")
                             : R_PENDING; /* the notification follows */
    a->under_way = true;
    a->number = atomic_load_explicit(&c->asked, memory_order_relaxed);
    RPIPE_FAILPOINT("rcells_atomic: requested");
    return a->fetch ? R_PENDING : 0;
}

/* In an attempt: another thread may close the end at any other time. */
static int cells_check_cell(struct rch *ch, const struct atomic_arguments *a)
{
    if (ch->cells == NULL)
        return call_error(ch, -ECONNRESET, "rank %d, the owner of the cells, is gone", ch->peer);
    if (a->cell >= ch->cells->count)
        return call_error(ch, -EINVAL, "cell is %zu; there are cells 0 to %llu", a->cell,
                          (unsigned long long)ch->cells->count - 1);
    return 0;
}

static int cells_operate(struct rch *ch, struct atomic_arguments *a)
{
    uint32_t state =
        atomic_load_explicit(&ch->state, memory_order_acquire); /* pairs with end_state_set */
    int rc = cells_check_cell(ch, a);

    if (rc == 0)
        rc = call_check_peer(ch, state);
    if (rc == 0 && (state & STATE_JOINED) == 0)
        rc = end_join_complete(ch, deadline_in_ms(ch->timeout_ms));
    if (rc != 0)
        return rc;
    switch (ch->cells->way) {
    case CELLS_DEVICE:
        return cells_device_attempt(ch, a);
    case CELLS_SERVICE:
        return cells_service_attempt(ch, a);
    default:
        a->old = cells_apply(&ch->cells->cell[a->cell], a->op, a->operand, a->compare);
        return 0;
    }
}

static int cells_active_attempt(struct rch *ch, void *arguments)
{
    int rc = cells_operate(ch, arguments);

    if (rc != R_PENDING && ch->cells != NULL)
        cells_give_turn(ch, arguments);
    return rc;
}

/* No thread waits for the value any more. */
static int cells_give_up_attempt(struct rch *ch, void *arguments)
{
    cells_give_turn(ch, arguments);
    return 0;
}

static int cells_passive_attempt(struct rch *ch, void *arguments)
{
    struct atomic_arguments *a = arguments;
    int rc = cells_check_cell(ch, a);

    if (rc != 0)
        return rc;
    if (ch->cells->cell == NULL)
        return call_error(ch, -ECONNRESET,
                          "this end has no cells: rank %d was gone when it was opened", ch->peer);
    if (!ch->cells->processors)
        return call_error(
            ch, -ENOTSUP,
            "these cells are operated on by a device that is not atomic with this "
            "processor: set "
            "RPIPE_ATOMICS=service at this end, or open a user end to this process itself");
    a->old = cells_apply(&ch->cells->cell[a->cell], a->op, a->operand, a->compare);
    return 0;
}

static int cells_check_operation(struct rch *ch, const struct atomic_arguments *a)
{
    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_CELLS) == 0)
        return call_error(ch, -EBADF, "this is a pipe of messages; rcells_open opens cells");
    if ((unsigned)a->op > RCELLS_XOR)
        return call_error(ch, -EINVAL, "op is %d; it must be RCELLS_ADD to RCELLS_XOR", (int)a->op);
    if (ch->adopts) { /* the number of cells is that of the owner */
        int rc = rpipe_wait(ch);

        if (rc != 0)
            return rc;
    }
    return 0;
}

static NOINLINE int cells_atomic_slow(struct rch *ch, struct atomic_arguments *a)
{
    static const struct awaited awaited = {"answer from the cells", 0};
    struct call call;
    int rc = call_begin(&call, "rcells_atomic", ch, 0);

    if (rc == 0)
        rc = cells_check_operation(ch, a);
    if (rc != 0)
        return call_end(&call, rc);
    if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_READER) != 0)
        return call_end(&call, call_once(ch, cells_passive_attempt, a));
    rc = call_await(ch, &awaited, cells_active_attempt, a);
    if (rc == -ETIMEDOUT)
        (void)call_once(ch, cells_give_up_attempt, a);
    return call_end(&call, rc);
}

int rcells_atomic(rcells_t cells, rcells_op_t op, size_t cell, uint64_t operand, uint64_t compare,
                  uint64_t *old)
{
    struct rch *ch = rcells_pipe(cells);
    struct atomic_arguments a = {
        .op = op, .cell = cell, .operand = operand, .compare = compare, .fetch = old != NULL};
    int rc = 0;

    if (LIKELY(
            ch != NULL && atomic_load_explicit(&ch->state, memory_order_acquire) == ACTIVE_READY &&
            ch->cells->way == CELLS_CPU && cell < ch->cells->count && (unsigned)op <= RCELLS_XOR))
        a.old = cells_apply(&ch->cells->cell[cell], op, operand, compare);
    else
        rc = cells_atomic_slow(ch, &a);
    RPIPE_FAILPOINT("rcells_atomic: done");
    if (rc == 0 && old != NULL)
        *old = a.old;
    return rc;
}

static int cells_settled(struct rch *ch)
{
    struct cells *c = ch->cells;

    if (c == NULL || config_side(&ch->cfg) == SIDE_READER)
        return 0;
    /* a device completes what it was given also after the other end was closed, and accesses the cells until then */
    if (c->way == CELLS_DEVICE && cells_pending(c))
        return ch->ops->progress(remote_connection(ch)) != 0 ? -EIO
               : cells_pending(c)                            ? R_PENDING
                                                             : 0;
    /* answers come from the service thread of a peer that has not closed */
    if (c->way != CELLS_SERVICE ||
        (atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_PEER_CLOSED) != 0)
        return 0;
    return atomic_load_explicit(&c->answered, memory_order_acquire) ==
                   atomic_load_explicit(&c->asked, memory_order_relaxed)
               ? 0
               : R_PENDING;
}

const struct end_feature cells_feature = {.name = "cells",
                                          .messages = cells_messages,
                                          .open = cells_open,
                                          .offer = cells_offer,
                                          .attach = cells_attach,
                                          .settled = cells_settled,
                                          .release = cells_release};
