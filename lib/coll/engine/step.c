/* SPDX-License-Identifier: BSD-3-Clause */
/* step.c: see step.h. Steps on the board, and local ones; those on pipes are in edge.c. */
#include "coll/engine/step.h"

#include "coll/engine/edge.h"
#include "coll/engine/fail.h"
#include "util/failpoint.h"
#include "util/last_error.h"

#include <errno.h>
#include <string.h>

const _Atomic uint64_t operation_in_process = UINT64_MAX;

/* ---- SEND ---- */

/* Whether the cell of a SEND may be written (invariant 2 of cell.h). */
static inline bool step_may_write(struct rteam *t, const struct operation *o, const struct step *s)
{
    if (LIKELY(t->floor + s->mask >= o->number))
        return true;
    team_refresh_floor(t);
    return t->floor + s->mask >= o->number;
}

static inline void step_publish(struct rteam *t, const struct operation *o, const struct step *s,
                                struct cell *cell)
{
    RPIPE_FAILPOINT("rcoll: before a message");
    cell->check = o->check ^ s->salt;
    /* release: pairs with the acquire of step_recv; the message is visible */
    atomic_store_explicit(&cell->number, o->number, memory_order_release);
    t->has_sent = true;
    RPIPE_FAILPOINT("rcoll: message stored");
    rboard_wake(t->board, &cell->number);
}

/* Copies what is there, COLL_CHUNK bytes at a time; the first ones publish the cell. */
static __attribute__((noinline)) int step_copy_into_heap(struct rteam *t, struct operation *o,
                                                         const struct step *s, uint32_t i,
                                                         struct cell *cell)
{
    size_t have = operation_available(o, s->from, s->from_at, s->bytes), at = o->progress[i];
    char *to = t->heap + o->heap_at + s->into_at;
    const char *from = o->base[s->from] + s->from_at;

    while (at < have) {
        size_t piece = have - at < COLL_CHUNK ? have - at : COLL_CHUNK;

        memmove(to + at, from + at, piece);
        /* release: pairs with the acquire of operation_available */
        if (at == 0) {
            cell->where = CELL_IN_BOARD;
            cell->message.at = (uint64_t)(to - (const char *)t->head);
            atomic_store_explicit(&cell->message.ready, piece, memory_order_release);
            step_publish(t, o, s, cell);
        } else {
            RPIPE_FAILPOINT("rcoll: chunk copied");
            atomic_store_explicit(&cell->message.ready, at + piece, memory_order_release);
            rboard_wake(t->board, &cell->message.ready);
        }
        at += piece;
    }
    o->progress[i] = at == s->bytes ? 0 : at;
    return at == s->bytes ? STEP_DONE : STEP_WAITS;
}

/* Where it is: in memory of rcoll_alloc, or of the process. */
static __attribute__((noinline)) int step_publish_where(struct rteam *t, const struct operation *o,
                                                        const struct step *s, struct cell *cell,
                                                        const char *from)
{
    if (team_is_shared(t, from)) {
        cell->where = CELL_IN_BOARD;
        cell->message.at = (uint64_t)(from - (const char *)t->head);
    } else {
        cell->where = CELL_IN_PROCESS;
        cell->message.at = (uint64_t)(uintptr_t)from;
    }
    atomic_store_explicit(&cell->message.ready, s->bytes, memory_order_relaxed);
    step_publish(t, o, s, cell);
    return STEP_DONE;
}

/*
 * A message into its cell. What is in the second line comes first: between the stores into the first one and that of its number the line
 * is not waited for, so that a mate that polls it does not take it away.
 */
static inline void step_fill(struct cell *cell, const char *from, size_t bytes)
{
    if (bytes > CELL_BYTES) {
        memcpy(cell_second(cell), from + CELL_BYTES, bytes - CELL_BYTES);
        bytes = CELL_BYTES;
    }
    memcpy(cell->data, from, bytes);
}

#define CELLS_AHEAD 4  /* of a stream: the cell so far ahead is fetched for writing */
#define CELLS_STREAM 2 /* operations without a message for this member: a stream */

/*
 * A member that only sends, as the first one of a scan, or the root of one broadcast after the other: the stores of its messages would
 * wait for their lines one after the other. One that receives meanwhile has the next cell (team_expect_send), and loses it again if more are fetched.
 */
static inline void step_expect_stream(const struct rteam *t, const struct operation *o,
                                      const struct step *s)
{
    const struct cell *cell;

    if (LIKELY(o->number <= t->received + CELLS_STREAM) || s->slot != 0)
        return;
    cell = operation_cell(o->number + CELLS_AHEAD, s);
    cpu_prefetch_write(cell);
    if (UNLIKELY(s->in_second))
        cpu_prefetch_write(cell_second(cell));
}

int step_send_cell(struct rteam *t, const struct operation *o, const struct step *s)
{
    struct cell *cell = (struct cell *)(uintptr_t)operation_cell(o->number, s);

    if (UNLIKELY(!step_may_write(t, o, s)))
        return STEP_WAITS;
    if (LIKELY(s->bytes == 8))
        memcpy(cell->data, o->base[s->from] + s->from_at, 8);
    else if (s->bytes > 0)
        step_fill(cell, o->base[s->from] + s->from_at, s->bytes);
    step_publish(t, o, s, cell);
    step_expect_stream(t, o, s);
    return STEP_DONE;
}

/* Not in step_try, so that a kind of step saves the registers that it needs itself, and no others. */
static __attribute__((noinline)) int step_send(struct rteam *t, struct operation *o,
                                               const struct step *s, uint32_t i)
{
    struct cell *cell = (struct cell *)(uintptr_t)operation_cell(o->number, s);
    const char *from;

    if (s->in_cell) {
        if (s->bytes > 0 && operation_available(o, s->from, s->from_at, s->bytes) < s->bytes)
            return STEP_WAITS;
        return step_send_cell(t, o, s);
    }
    if (UNLIKELY(!step_may_write(t, o, s)))
        return STEP_WAITS;
    from = o->base[s->from] + s->from_at;
    if (s->lent || (s->stays && team_is_shared(t, from)))
        return step_publish_where(t, o, s, cell, from);
    return step_copy_into_heap(t, o, s, i, cell);
}

/* ---- RECV ---- */

/* A message is in the heap, aligned, or anywhere in memory of rcoll_alloc. */
static inline bool step_may_be(const struct rteam *t, uint64_t at, size_t bytes)
{
    const uint64_t heap = board_heap_at(t->depth), mem = heap + t->heap_bytes;

    if (LIKELY(at >= heap && at < mem))
        return at % CELL_ALIGNMENT == 0 && bytes <= mem - at;
    return at >= mem && at <= mem + t->mem_bytes && bytes <= mem + t->mem_bytes - at;
}

/* A message that is lent, and in the process of its sender: copies read it. */
static __attribute__((noinline)) int step_recv_lent(struct operation *o, const struct step *s,
                                                    const struct cell *cell)
{
    o->base[s->into] = (const char *)(uintptr_t)operation_load_once(&cell->message.at);
    o->ready[s->into] = &operation_in_process;
    return STEP_DONE;
}

/* A message that is in the heap of its sender. */
static __attribute__((noinline)) int step_recv_from_heap(struct rteam *t, struct operation *o,
                                                         const struct step *s,
                                                         const struct cell *cell)
{
    uint64_t at = operation_load_once(&cell->message.at);

    if (UNLIKELY(!step_may_be(t, at, s->bytes)))
        return team_fail(
            t, -EPROTO, s->peer,
            "member %d, rank %d, has a message of %zu bytes at %llu of its board, which is "
            "outside of its heap, or not aligned",
            (int)s->peer, t->rank[s->peer], s->bytes, (unsigned long long)at);
    o->base[s->into] = t->board_of[s->peer] + at;
    o->ready[s->into] = &cell->message.ready;
    if (operation_available(o, s->into, 0, s->bytes) == s->bytes)
        o->ready[s->into] = NULL;
    else if (s->whole)
        return STEP_WAITS;
    return STEP_DONE;
}

static __attribute__((noinline)) int step_recv(struct rteam *t, struct operation *o,
                                               const struct step *s)
{
    const struct cell *cell = operation_cell(o->number, s);

    operation_expect_second(cell, s);
    /* acquire: pairs with the release of step_publish */
    if (atomic_load_explicit(&cell->number, memory_order_acquire) != o->number)
        return STEP_WAITS;
    team_expect_send(t, o->number, s);
    if (UNLIKELY(cell->check != (o->check ^ s->salt)))
        return team_fail_other(t, o, s->peer);
    if (s->in_cell) {
        o->base[s->into] = (const char *)cell->data;
        o->ready[s->into] = NULL;
        return STEP_DONE;
    }
    if (s->lent && *(const volatile uint32_t *)&cell->where == CELL_IN_PROCESS)
        return step_recv_lent(o, s, cell);
    return step_recv_from_heap(t, o, s, cell);
}

/* ---- local steps ---- */

/* The sender has ended its operations by a failure before the copy was over: what was copied may be anything. */
static int step_check_lender(struct rteam *t, int member)
{
    const struct head *head = (const struct head *)(const void *)t->board_of[member];
    uint32_t code;

    /* acquire: pairs with the release of team_withdraw; a copy that has read what was stored after it finds the code */
    atomic_thread_fence(memory_order_acquire);
    code = atomic_load_explicit(&head->withdrawn, memory_order_relaxed);
    if (LIKELY(code == 0))
        return STEP_DONE;
    return team_fail(t, code < 4096 ? -(int)code : -EPROTO, member,
                     "member %d, rank %d, has ended the operation while its memory was read",
                     member, t->rank[member]);
}

static __attribute__((noinline)) int step_fetch(struct rteam *t, const struct operation *o,
                                                const struct step *s)
{
    int member = o->program->view_of[s->from - BASE_VIEWS], rc;

    rc = rboard_fetch(t->board, member, (char *)(uintptr_t)o->base[s->into] + s->into_at,
                      o->base[s->from] + s->from_at, s->bytes);
    RPIPE_FAILPOINT("rcoll: fetched");
    if (rc == 0)
        return step_check_lender(t, member);
    if (rpipe_initialized() != 1)
        return STEP_WAITS; /* rexit ends the call */
    if (rc == -EAGAIN)
        rc = -ECONNRESET; /* its board was mapped when the message was read: it has died since */
    return team_fail(t, rc, member, "the memory of member %d, rank %d, cannot be read: %s", member,
                     t->rank[member], last_error_get());
}

static __attribute__((noinline)) int step_copy(struct rteam *t, struct operation *o,
                                               const struct step *s, uint32_t i)
{
    size_t have = operation_available(o, s->from, s->from_at, s->bytes), at = o->progress[i];

    if (UNLIKELY(s->from >= BASE_VIEWS && o->ready[s->from] == &operation_in_process))
        return step_fetch(t, o, s);
    if (UNLIKELY(s->shows))
        return STEP_DONE;

    if (have > at)
        memmove((char *)(uintptr_t)o->base[s->into] + s->into_at + at,
                o->base[s->from] + s->from_at + at, have - at);
    o->progress[i] = have == s->bytes ? 0 : have;
    return have == s->bytes ? STEP_DONE : STEP_WAITS;
}

static __attribute__((noinline)) int step_fold(struct rplan *plan, struct operation *o,
                                               const struct step *s, uint32_t i)
{
    const struct coll_operator *operator= & plan->operators[s->op];
    size_t have = operation_available(o, s->from, s->from_at, s->bytes), at = o->progress[i];

    have -= have % operator->element;
    if (have > at && s->copies)
        coll_operator_apply_copied(operator, (char *)(uintptr_t) o->base[s->into] + s->into_at + at,
                                   o->base[s->copied] + s->copied_at + at,
                                   o->base[s->from] + s->from_at + at, have - at, s->reversed,
                                   plan->operator_scratch);
    else if (have > at)
        coll_operator_apply(operator, (char *)(uintptr_t) o->base[s->into] + s->into_at + at,
                            o->base[s->from] + s->from_at + at, have - at, s->reversed,
                            plan->operator_scratch);
    o->progress[i] = have == s->bytes ? 0 : have;
    return have == s->bytes ? STEP_DONE : STEP_WAITS;
}

static __attribute__((noinline)) int step_call(struct rteam *t, struct rplan *plan,
                                               const struct step *s)
{
    const struct graph_call *call = &plan->op.program->calls[s->peer];
    int rc = call->function != NULL ? call->function(call->argument) : 0;

    if (rc >= 0)
        return STEP_DONE;
    return team_fail(t, rc < -4095 ? -EINVAL : rc, t->me,
                     "a function of the graph of member %d, rank %d, has returned %d", t->me,
                     t->rank[t->me], rc);
}

int step_try(struct rteam *t, struct rplan *plan, uint32_t i)
{
    struct operation *o = &plan->op;
    const struct step *s = &o->program->steps[i];

    switch (s->kind) {
    case STEP_SEND:
        return step_send(t, o, s, i);
    case STEP_RECV:
        return step_recv(t, o, s);
    case STEP_FOLD:
        return step_fold(plan, o, s, i);
    case STEP_COPY:
        return step_copy(t, o, s, i);
    case STEP_CALL:
        return step_call(t, plan, s);
    case STEP_PIPE_SEND:
        return edge_send(t, o, s, i);
    default:
        return edge_recv(t, o, s);
    }
}

/* ---- what a step waits for ---- */

static rboard_word_t step_low_half(const _Atomic uint64_t *word, uint64_t seen)
{
    /* the low 32 bits come first on the machines that there are; x86-64 and aarch64 are little-endian */
    return (rboard_word_t){(const void *)word, (uint32_t)seen};
}

static bool step_word_of_view(const struct rteam *t, const struct operation *o, uint32_t base,
                              rboard_word_t *word)
{
    uint64_t ready;

    (void)t;
    if (base < BASE_VIEWS || o->ready[base] == NULL)
        return false;
    ready = atomic_load_explicit(o->ready[base], memory_order_relaxed);
    *word = step_low_half(o->ready[base], ready);
    return true;
}

bool step_word(const struct rteam *t, const struct rplan *plan, uint32_t i, rboard_word_t *word)
{
    const struct operation *o = &plan->op;
    const struct step *s = &o->program->steps[i];
    const struct cell *cell;
    uint64_t number;

    switch (s->kind) {
    case STEP_RECV:
        cell = operation_cell(o->number, s);
        number = atomic_load_explicit(&cell->number, memory_order_relaxed);
        if (number != o->number)
            *word = step_low_half(&cell->number, number);
        else
            *word = step_low_half(&cell->message.ready,
                                  atomic_load_explicit(&cell->message.ready, memory_order_relaxed));
        return true;
    case STEP_FOLD:
    case STEP_COPY:
    case STEP_SEND:
        return step_word_of_view(t, o, s->from, word);
    default:
        return false;
    }
}
