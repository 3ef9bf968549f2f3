/* SPDX-License-Identifier: BSD-3-Clause */
/* row.c: see row.h. */
#include "coll/engine/row.h"

#include "coll/engine/fail.h"
#include "coll/engine/step.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- which steps are quick ---- */

static bool row_is_quick(const struct rplan *plan, const struct step *s, const bool *quick_view)
{
    const struct coll_operator *o;

    if (s->bytes > cell_bytes(s->kind == STEP_SEND || s->kind == STEP_RECV ? s->slot : 0) ||
        s->shows)
        return false;
    if (s->kind != STEP_RECV && s->from >= BASE_VIEWS && !quick_view[s->from])
        return false;
    if (s->kind != STEP_FOLD)
        return s->kind == STEP_SEND || s->kind == STEP_RECV || s->kind == STEP_COPY;
    o = &plan->operators[s->op];
    return s->bytes > 0 && s->bytes % o->element == 0 && (!s->reversed || o->symmetric);
}

/* Whether a member of this host uses no processor that this one may use. */
static bool row_is_elsewhere(const struct rteam *t, int member)
{
    for (int i = 0; i < t->nbeside; i++)
        if (t->mates[i] == member)
            return false;
    return member != t->me;
}

int row_bind(const struct rplan *plan, struct program *p, struct error *err)
{
    const struct rteam *t = plan->team;
    bool *quick_view = calloc((size_t)p->nviews + BASE_VIEWS, sizeof(*quick_view));

    if (quick_view == NULL)
        return error_set(err, -ENOMEM, "no memory for a plan of %u steps", p->count);
    for (uint32_t i = 0; i < p->count; i++) {
        struct step *s = &p->steps[i];

        if (s->kind == STEP_SEND || s->kind == STEP_RECV) {
            const char *board = s->kind == STEP_SEND ? (const char *)t->head : t->board_of[s->peer];
            const void *cells = board + sizeof(struct head);

            s->cells = (const struct cell *)cells + cell_index(t->depth, 0, s->slot);
            s->mask = cell_depth(t->depth, s->slot) - 1;
            s->pitch = cell_lines(s->slot) * CACHE_LINE;
            s->elsewhere = s->kind == STEP_RECV && row_is_elsewhere(t, s->peer);
            s->in_cell = s->bytes <= cell_bytes(s->slot);
            s->in_second = s->in_cell && s->bytes > CELL_BYTES;
            s->salt = operation_salt(s);
        }
        s->quick = row_is_quick(plan, s, quick_view);
        if (s->kind == STEP_RECV)
            quick_view[s->into] = s->quick;
    }
    free(quick_view);
    return 0;
}

/* ---- a row ---- */

/* FOLD, COPY */
static inline void row_move(const struct rplan *plan, const struct operation *o,
                            const struct step *s)
{
    char *into = (char *)(uintptr_t)o->base[s->into] + s->into_at;
    const char *from = o->base[s->from] + s->from_at;
    const struct coll_operator *operator;

    if (s->kind == STEP_FOLD) {
        operator= & plan->operators[s->op];
        operator->function(into, from, s->bytes, operator->argument);
    } else if (LIKELY(s->bytes == 8))
        memmove(into, from, 8);
    else if (s->bytes > 0)
        memmove(into, from, s->bytes);
}

static inline int row_recv(struct rteam *t, struct operation *o, const struct step *s)
{
    const struct cell *cell = operation_cell(o->number, s);

    operation_expect_second(cell, s);
    /* acquire: pairs with the release of step_publish */
    if (atomic_load_explicit(&cell->number, memory_order_acquire) != o->number)
        return STEP_WAITS;
    team_expect_send(t, o->number, s);
    if (UNLIKELY(cell->check != (o->check ^ s->salt)))
        return team_fail_other(t, o, s->peer);
    o->base[s->into] = (const char *)cell->data;
    o->ready[s->into] = NULL;
    return STEP_DONE;
}

int row_run(struct rteam *t, struct rplan *plan)
{
    struct operation *o = &plan->op;
    const struct step *first = o->program->steps, *s = &first[o->next];
    int rc = STEP_DONE;

    for (; s->quick; s++) { /* a step behind the last one, which is not quick, ends every program */
        if (s->kind == STEP_RECV)
            rc = row_recv(t, o, s);
        else if (s->kind == STEP_SEND)
            rc = step_send_cell(t, o, s);
        else
            row_move(plan, o, s);
        if (rc != STEP_DONE)
            break;
    }
    o->next = (uint32_t)(s - first);
    return rc;
}
