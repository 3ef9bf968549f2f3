/* SPDX-License-Identifier: BSD-3-Clause */
/* card.c: see card.h. */
#include "coll/engine/card.h"

#include "coll/engine/engine.h"
#include "coll/engine/plan.h"
#include "coll/engine/wait.h"
#include "coll/engine/create.h"
#include "coll/engine/fail.h"
#include "util/last_error.h"
#include "util/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CARD_TEXT 1024

struct card {
    uint64_t heap_bytes, mem_bytes;
    uint32_t depth, cores;
    uint32_t explain, fetches;
    uint32_t members; /* that have the configuration of the lowest one */
    char model[CARD_TEXT], rules[CARD_TEXT];
};

/* into: of lower members */
static void card_combine(void *into, const void *from, size_t bytes, void *argument)
{
    struct card *a = into;
    const struct card *b = from;

    (void)bytes;
    (void)argument;
    a->fetches = a->fetches != 0 && b->fetches != 0;
    a->cores = b->cores < a->cores ? b->cores : a->cores;
    if (a->heap_bytes == b->heap_bytes && a->mem_bytes == b->mem_bytes && a->depth == b->depth)
        a->members += b->members;
}

/* Settings that are malformed are those of the lowest member: so the failure is the same at all members. */
static int card_apply(struct rteam *t, struct card *card, struct error *err)
{
    struct error why = {""};
    int rc;

    card->model[CARD_TEXT - 1] = card->rules[CARD_TEXT - 1] = '\0';
    if (card->members != (uint32_t)t->size)
        return error_set(
            err, -EINVAL,
            "%u of %d members have heap_bytes, mem_bytes and depth of member 0; here these are "
            "%llu, %llu and %u, and they must be the same at all members",
            card->members, t->size, (unsigned long long)t->heap_bytes,
            (unsigned long long)t->mem_bytes, t->depth);
    if (card->cores < 1 || card->cores > HEAD_CPUS)
        return error_set(err, -EPROTO, "a member has %u processors; this process expects 1 to %d",
                         card->cores, HEAD_CPUS);
    rc = coll_model_parse(&t->model, card->model, &why);
    if (rc != 0)
        return error_set(err, rc, "RCOLL_MODEL of member 0: %s", why.text);
    rc = coll_rules_parse(&t->rules, card->rules, &why);
    if (rc != 0)
        return error_set(err, rc, "RCOLL_ALGORITHM of member 0: %s", why.text);
    t->explain = card->explain != 0;
    t->shape.cores = (int)card->cores;
    t->shape.fetches = card->fetches != 0;
    return 0;
}

static bool card_is_over(struct rteam *t, void *of)
{
    (void)t;
    return ((struct rplan *)of)->state == PLAN_IDLE;
}

int card_exchange(struct rteam *t, struct error *err)
{
    static const struct coll_choice tree = {.algorithm = COLL_TREE, .radix = 2};
    rcoll_params_t params = {.kind = RCOLL_ALLREDUCE,
                             .flags = RCOLL_IN_PLACE,
                             .count = 1,
                             .element = sizeof(struct card),
                             .function = card_combine};
    struct card *card = calloc(1, sizeof(*card));
    struct team_call call;
    struct rplan *plan;
    int rc;

    if (card == NULL)
        return error_set(err, -ENOMEM, "no memory for the card of a member");
    *card = (struct card){.heap_bytes = t->heap_bytes,
                          .mem_bytes = t->mem_bytes,
                          .depth = t->depth,
                          .cores = (uint32_t)t->shape.cores,
                          .explain = (uint32_t)setting_number(SET_COLL_EXPLAIN),
                          .fetches = t->fetches,
                          .members = 1};
    snprintf(card->model, CARD_TEXT, "%s", setting_text(SET_COLL_MODEL));
    snprintf(card->rules, CARD_TEXT, "%s", setting_text(SET_COLL_ALGORITHM));
    params.into = card;
    rc = plan_create(&plan, t, &params, &tree, err);
    if (rc == 0) {
        engine_start(t, plan);
        team_enter_counted(&call, "rcoll_team");
        rc = team_leave(&call, team_wait(t, &call, card_is_over, plan, t->timeout_ms));
        if (rc == -ETIMEDOUT)
            rc = team_timed_out(t, "rcoll_team", t->timeout_ms);
        rc = rc == 0 ? plan->result : rc;
        if (rc != 0)
            error_set(err, rc, "%s", t->lost != 0 ? t->lost_text : last_error_get());
        else
            rc = card_apply(t, card, err);
        if (plan->state == PLAN_IDLE)
            plan_destroy(plan);
    }
    free(card);
    return rc;
}
