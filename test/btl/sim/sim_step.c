/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim_step.c: outstanding operations: which step is next, and what it does.
 *
 * Invariants: op.todo has a bit for every step that is left; an operation without one is gone. A step whose
 * gate is closed is not drawn: the flag of a slot waits for the payload, the store of a part for its read, the old value for
 * the atomic. A slot whose 64 bytes are all there, by whatever words, is done: its reader may have seen it, and its source change.
 */
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOT_STEP 16u
#define FLAG_LOW (1u << 23)
#define FLAG_HIGH (1u << 24)
#define PAYLOAD_STEPS 0xffffu
#define NEAR_STEPS 0xffff0000u

/* ---- metadata ---- */

/* A write without a slot. */
static bool is_alone(const struct sim_op *op)
{
    return op->kind == SIM_WRITE && op->slot_near == NULL;
}

void sim_op_begin(struct btl_connection *connection, struct sim_op *op)
{
    struct btl *btl = connection->btl;

    if (btl->unders == btl->room) {
        btl->room = btl->room == 0 ? 256 : btl->room * 2;
        btl->under = realloc(btl->under, btl->room * sizeof(struct sim_op *));
        if (btl->under == NULL)
            sim_die("no memory for %zu operations", btl->room);
    }
    op->connection = connection;
    op->peer_line = connection->peer;
    op->number = ++connection->accepted;
    connection->outstanding++;
    connection->alone += is_alone(op);
    list_append(&connection->ops, &op->link);
    op->at = btl->unders;
    btl->under[btl->unders++] = op;
    if (!btl->calm && sim_draw(btl, 8) == 0)
        op->delay = (unsigned)sim_draw(btl, 200);
    if (op->near != NULL)
        op->near->near++;
    if (op->far != NULL)
        op->far->far++;
    if (op->slot_near != NULL) {
        op->slot_near->near++;
        op->slot_far->far++;
    }
    if (op->done != NULL)
        atomic_fetch_add_explicit(&op->done->pending, 1, memory_order_relaxed);
    sim_arm(btl);
}

static void complete(struct sim_op *op, int error)
{
    int none = 0;

    if (op->done == NULL)
        return;
    if (error != 0)
        atomic_compare_exchange_strong(&op->done->error, &none, error);
    /* release: what was stored is visible to a thread that sees 0 */
    atomic_fetch_sub_explicit(&op->done->pending, 1, memory_order_release);
    op->done = NULL;
}

static void let_go(struct sim_op *op)
{
    if (op->near != NULL)
        op->near->near--;
    if (op->far != NULL)
        op->far->far--;
    if (op->slot_near != NULL) {
        op->slot_near->near--;
        op->slot_far->far--;
    }
}

static void forget(struct btl *btl, struct sim_op *op)
{
    btl->under[op->at] = btl->under[--btl->unders];
    btl->under[op->at]->at = op->at;
    free(op->copy);
    free(op);
}

void sim_op_end(struct btl *btl, struct sim_op *op, int error)
{
    if (op->connection != NULL) {
        op->connection->outstanding--;
        op->connection->alone -= is_alone(op);
        list_remove(&op->link);
        let_go(op);
    }
    complete(op, error);
    forget(btl, op);
}

/* ---- steps ---- */

static void source_check(const struct sim_op *op, const uint8_t *now, const void *then,
                         size_t bytes, const char *what)
{
    if (op->connection != NULL && !op->connection->btl->byzantine && memcmp(now, then, bytes) != 0)
        sim_die("%s of %zu bytes has changed before it was known to be there (operation %llu of "
                "line %llu)",
                what, bytes, (unsigned long long)op->number,
                (unsigned long long)op->connection->id);
}

static void step_payload(struct btl *btl, struct sim_op *op, unsigned i)
{
    size_t from = op->cut[i], bytes = op->cut[i + 1] - from;

    source_check(op, op->near_at + from, op->copy + from, bytes, "the payload of a write");
    if (btl->defect == DEFECT_TAIL)
        bytes &= ~(size_t)7;
    sim_copy_to(op->far_at + from, op->copy + from, bytes);
}

static void step_slot(struct sim_op *op, unsigned word)
{
    source_check(op, op->slot_near_at + 8 * word, &op->slot[word], 8, "a slot");
    sim_copy_to(op->slot_far_at + 8 * word, &op->slot[word], 8);
}

/* Half of the flag; now and then both at once. */
static void step_flag(struct btl *btl, struct sim_op *op, uint32_t step)
{
    uint64_t half[2], flag;

    source_check(op, op->slot_near_at + 56, &op->slot[7], 8, "the flag of a slot");
    sim_copy_from(&flag, op->slot_far_at + 56, 8);
    memcpy(half, &flag, 8);
    if (sim_draw(btl, 2) == 0) {
        flag = op->slot[7];
        op->todo &= ~(FLAG_LOW | FLAG_HIGH);
    } else {
        memcpy((uint8_t *)&flag + (step == FLAG_HIGH ? 4 : 0),
               (uint8_t *)&op->slot[7] + (step == FLAG_HIGH ? 4 : 0), 4);
    }
    sim_copy_to(op->slot_far_at + 56, &flag, 8);
}

static void step_read(struct btl *btl, struct sim_op *op, unsigned i)
{
    size_t from = op->cut[i], bytes = op->cut[i + 1] - from;

    if (btl->defect == DEFECT_STALE_GET && op->far->stale != NULL)
        memcpy(op->copy + from, op->far->stale + (op->far_at - op->far->base) + from, bytes);
    else
        sim_copy_from(op->copy + from, op->far_at + from, bytes);
}

static void step_land(struct btl *btl, struct sim_op *op, unsigned i)
{
    size_t from = op->cut[i], bytes = op->cut[i + 1] - from;

    if (btl->defect == DEFECT_TAIL)
        bytes &= ~(size_t)7;
    if (btl->defect == DEFECT_DONE_EARLY)
        complete(op, 0);
    sim_copy_to(op->near_at + from, op->copy + from, bytes);
}

static uint64_t result(int kind, uint64_t old, uint64_t operand, uint64_t compare)
{
    switch (kind) {
    case 0:
        return old + operand;
    case 1:
        return old == compare ? operand : old;
    case 2:
        return operand;
    case 3:
        return old & operand;
    case 4:
        return old | operand;
    default:
        return old ^ operand;
    }
}

static void step_atomic(struct btl *btl, struct sim_op *op, unsigned half)
{
    uint64_t *cell = (uint64_t *)(void *)op->far_at, value;

    (void)btl;
    if (half == 1) { /* what was computed when the cell was read */
        __atomic_store_n(cell, result(op->atomic, op->old, op->operand, op->compare),
                         __ATOMIC_RELEASE);
        return;
    }
    op->old = __atomic_load_n(cell, __ATOMIC_ACQUIRE);
    if ((op->todo & 2u) != 0)
        return;
    do
        value = result(op->atomic, op->old, op->operand, op->compare);
    while (!__atomic_compare_exchange_n(cell, &op->old, value, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE));
}

static void step_old_value(struct btl *btl, struct sim_op *op)
{
    uint64_t value = op->old;

    if (btl->defect == DEFECT_ATOMIC_NEW)
        value = result(op->atomic, op->old, op->operand, op->compare);
    sim_copy_to(op->near_at, &value, 8);
}

static void step_take(struct btl *btl, struct sim_op *op, unsigned number)
{
    uint32_t step = 1u << number;

    op->todo &= ~step;
    switch (op->kind) {
    case SIM_WRITE:
        if (number < FIRST_SLOT_STEP)
            step_payload(btl, op, number);
        else if (step == FLAG_LOW || step == FLAG_HIGH)
            step_flag(btl, op, step);
        else
            step_slot(op, number - FIRST_SLOT_STEP);
        break;
    case SIM_GET:
        if (number < FIRST_SLOT_STEP)
            step_read(btl, op, number);
        else
            step_land(btl, op, number - FIRST_SLOT_STEP);
        break;
    case SIM_ATOMIC:
        if (number == FIRST_SLOT_STEP)
            step_old_value(btl, op);
        else
            step_atomic(btl, op, number);
        break;
    }
}

/* Another atomic on the same cell is half done: a device lets them through one by one, coherent or not. */
static bool cell_taken(const struct btl *btl, const struct sim_op *op)
{
    if (btl->defect == DEFECT_ATOMIC_TORN || (op->todo & 3u) != 3u)
        return false;
    for (size_t i = 0; i < btl->unders; i++) {
        const struct sim_op *other = btl->under[i];

        if (other != op && other->kind == SIM_ATOMIC && other->far_at == op->far_at &&
            (other->todo & 3u) == 2u)
            return true;
    }
    return false;
}

/* A payload that was written without a slot before this operation is not there yet. */
static bool follows_payload(const struct sim_op *op)
{
    struct link *at, *after;

    if (op->connection == NULL || op->connection->alone == 0)
        return false;
    list_for_each (at, after, &op->connection->ops) {
        const struct sim_op *other = container_of(at, struct sim_op, link);

        if (other == op)
            return false;
        if (is_alone(other))
            return true;
    }
    return false;
}

static uint32_t gates_open(const struct btl *btl, const struct sim_op *op)
{
    uint32_t open = op->todo;

    switch (op->kind) {
    case SIM_WRITE:
        if (((op->todo & PAYLOAD_STEPS) != 0 && btl->defect != DEFECT_FLAG_FIRST) ||
            (op->slot_near != NULL && btl->defect != DEFECT_SLOT_PASSES && follows_payload(op)))
            open &= ~(FLAG_LOW | FLAG_HIGH);
        break;
    case SIM_GET: /* a part that is not read is not stored */
        open &= ~((op->todo & PAYLOAD_STEPS) << 16);
        break;
    case SIM_ATOMIC:
        if (cell_taken(btl, op))
            return 0;
        if ((op->todo & 1u) != 0)
            open &= 1u;
        else if ((op->todo & 2u) != 0)
            open &= 2u;
        break;
    }
    return open;
}

static unsigned choose(struct btl *btl, uint32_t open)
{
    uint64_t n = btl->calm || btl->order ? 0 : sim_draw(btl, (uint64_t)__builtin_popcount(open));

    while (n-- > 0)
        open &= open - 1;
    return (unsigned)__builtin_ctz(open);
}

static bool breaks_line(const struct btl *btl, const struct sim_op *op)
{
    return op->connection != NULL && btl->break_at != 0 && op->number >= btl->break_at &&
           (!btl->break_accepting || op->connection->role == BTL_ACCEPTS);
}

/* True: it is complete, and gone. */
static bool op_step(struct btl *btl, struct sim_op *op)
{
    uint32_t open = gates_open(btl, op);

    if (breaks_line(btl, op)) {
        sim_line_fail(op->connection, btl->error,
                      "line %llu: operation %llu was lost, as RPIPE_SIM_BREAK requests",
                      (unsigned long long)op->connection->id, (unsigned long long)op->number);
        return true;
    }
    if (open != 0)
        step_take(btl, op, choose(btl, open));
    if (op->kind == SIM_WRITE && op->slot_near != NULL && (op->todo & PAYLOAD_STEPS) == 0 &&
        memcmp(op->slot_far_at, op->slot, SIM_SLOT_BYTES) == 0)
        op->todo = 0;
    if (op->todo != 0)
        return false;
    sim_op_end(btl, op, 0);
    return true;
}

/* The oldest of the line is done first, whichever was drawn. */
static struct sim_op *in_order(struct btl *btl, struct sim_op *op)
{
    if (!btl->order || op->connection == NULL)
        return op;
    return container_of(op->connection->ops.next, struct sim_op, link);
}

void sim_turn(struct btl *btl, unsigned steps)
{
    sim_lines_settle(btl);
    if (btl->calm) {
        while (btl->unders > 0)
            (void)op_step(btl, btl->under[0]);
        return;
    }
    for (; steps > 0 && btl->unders > 0; steps--) {
        struct sim_op *op = in_order(btl, btl->under[sim_draw(btl, btl->unders)]);

        if (op->delay > 0)
            op->delay--;
        else
            (void)op_step(btl, op);
    }
}

/* ---- the end of a line ---- */

/*
 * Its memory here may be given back now, so what is left is carried on from copies: packets that are on their way. What would
 * come back is lost.
 */
void sim_op_give_up(struct btl *btl, struct sim_op *op)
{
    bool straggles = op->kind == SIM_WRITE && !btl->calm && sim_draw(btl, 2) == 0;

    list_remove(&op->link);
    let_go(op);
    op->connection = NULL;
    if (btl->defect == DEFECT_CLOSE_TOUCHES &&
        op->done != NULL) { /* nothing is left to do but that */
        op->kind = SIM_ATOMIC;
        op->todo = 0;
        op->far = NULL;
        op->peer_line = 0;
        op->delay = 8;
        return;
    }
    op->done = NULL;
    if (!straggles)
        forget(btl, op);
}

void sim_stragglers_end(struct btl *btl, uint64_t connection, struct sim_piece *piece)
{
    for (size_t i = 0; i < btl->unders;) {
        struct sim_op *op = btl->under[i];
        bool hit = piece == NULL ? connection == 0 || op->peer_line == connection
                                 : op->far == piece || op->slot_far == piece;

        if (op->connection == NULL && hit)
            forget(btl, op);
        else
            i++;
    }
}
