/* SPDX-License-Identifier: BSD-3-Clause */
/* choose.c: see choose.h: candidates, their order, and its explanation. */
#include "coll/choose.h"

#include "coll/cost.h"
#include "coll/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* ---- candidates ---- */

struct choose {
    const struct shape *shape;
    const struct coll_request *request;
    const struct coll_model *model;
    struct coll_candidate *list;
    int count;
};

/* How many messages a member awaits at once, and how many steps follow each other, at most. */
static bool choose_is_large(const struct choose *c, const struct coll_choice *choice)
{
    int radix = coll_radix(c->shape, choice), size = c->shape->size;

    switch (choice->algorithm) {
    case COLL_FLAT:
    case COLL_SHARES:
    case COLL_FETCH:
        return size > COLL_MESSAGES_AT_ONCE;
    case COLL_HOST_SHARES:
        return c->shape->largest > COLL_MESSAGES_AT_ONCE;
    case COLL_RING:
    case COLL_SCATTER_RING:
    case COLL_CHAIN:
    case COLL_LINEAR:
    case COLL_PAIRWISE:
        return size > COLL_STEPS_MOST;
    case COLL_DISSEMINATION:
        return radix > COLL_MESSAGES_AT_ONCE;
    case COLL_CAST:
        if (c->request->kind == COLL_ALLGATHER) /* and memory for a message of each */
            return c->shape->hosts > COLL_MESSAGES_AT_ONCE;
        __attribute__((fallthrough));
    case COLL_TREE: /* down a tree each member awaits one */
        return radix > COLL_MESSAGES_AT_ONCE && c->request->kind != COLL_BCAST &&
               c->request->kind != COLL_SCATTER;
    case COLL_HOSTS:
        return c->shape->hosts > COLL_STEPS_MOST &&
               (c->request->kind == COLL_ALLGATHER || c->request->kind == COLL_REDUCE_SCATTER);
    default:
        return false;
    }
}

static void choose_add(struct choose *c, struct coll_choice choice)
{
    struct coll_candidate candidate = {.choice = choice};
    int at;

    if (c->count == COLL_CANDIDATES)
        return;
    candidate.needs = coll_needs_here(c->shape, c->request, &choice);
    candidate.large = choose_is_large(c, &choice);
    candidate.time = coll_cost(c->shape, c->request, &choice, c->model);
    /* sorted by insertion: of equal ones the first that was added stays the first */
    for (at = c->count++; at > 0; at--) {
        const struct coll_candidate *before = &c->list[at - 1];
        bool can = candidate.needs == NULL, before_can = before->needs == NULL;

        if (can != before_can                  ? before_can
            : candidate.large != before->large ? candidate.large
                                               : candidate.time >= before->time)
            break;
        c->list[at] = c->list[at - 1];
    }
    c->list[at] = candidate;
}

/* The radixes that are worth a try: up to the largest group that the radix is for. */
static void choose_add_radixes(struct choose *c, enum coll_algorithm algorithm)
{
    static const int radix[] = {2, 3, 4, 6, 8, 16, 32};
    const struct shape *s = c->shape;
    int most = s->size;

    if (algorithm == COLL_HOSTS)
        most = s->largest > s->hosts ? s->largest : s->hosts;
    for (size_t i = 0; i < sizeof(radix) / sizeof(*radix) && (i == 0 || radix[i] < most); i++)
        choose_add(c, (struct coll_choice){.algorithm = algorithm, .radix = radix[i]});
    if (most > 2)
        choose_add(c, (struct coll_choice){.algorithm = algorithm, .radix = most});
}

static void choose_add_segments(struct choose *c)
{
    static const size_t segment[] = {1024, 4096, 8192, 32768, 131072};
    size_t element = c->request->element;

    choose_add(c, (struct coll_choice){.algorithm = COLL_CHAIN});
    for (size_t i = 0; i < sizeof(segment) / sizeof(*segment); i++)
        if (segment[i] >= element && c->request->count > segment[i] / element)
            choose_add(
                c, (struct coll_choice){.algorithm = COLL_CHAIN, .segment = segment[i] / element});
}

/* With a tree before it. */
static bool choose_cast_has_radix(const struct coll_request *request)
{
    return request->kind != COLL_BCAST && request->kind != COLL_ALLGATHER;
}

int coll_candidates(const struct shape *shape, const struct coll_request *request,
                    const struct coll_model *model, struct coll_candidate list[COLL_CANDIDATES])
{
    struct choose c = {.shape = shape, .request = request, .model = model, .list = list};

    for (int a = 0; a < COLL_ALGORITHMS; a++) {
        enum coll_algorithm algorithm = (enum coll_algorithm)a;

        if (!coll_has(request->kind, algorithm) ||
            (algorithm == COLL_CAST && (model->multicast == 0 || shape->hosts == 1)))
            continue;
        if (algorithm == COLL_FETCH && shape->hosts > 1)
            continue; /* it is for one host */
        if ((algorithm == COLL_HOSTS || algorithm == COLL_HOST_SHARES) &&
            (shape->hosts == 1 || shape->largest == 1))
            continue; /* it is no other than the rest */
        if (algorithm == COLL_DISSEMINATION || algorithm == COLL_TREE || algorithm == COLL_HOSTS ||
            (algorithm == COLL_CAST && choose_cast_has_radix(request)))
            choose_add_radixes(&c, algorithm);
        else if (algorithm == COLL_CHAIN)
            choose_add_segments(&c);
        else
            choose_add(&c, (struct coll_choice){.algorithm = algorithm});
    }
    return c.count;
}

/* ---- the choice ---- */

static bool choose_is_kind(const struct coll_request *request)
{
    return (unsigned)request->kind < COLL_KINDS;
}

int coll_choose(const struct shape *shape, const struct coll_request *request,
                const struct coll_model *model, const struct coll_rules *rules,
                struct coll_choice *choice, struct error *err)
{
    struct coll_candidate list[COLL_CANDIDATES];
    const struct coll_rule *rule;

    if (!choose_is_kind(request))
        return error_set(err, -EINVAL, "kind %d; there are %d", (int)request->kind, COLL_KINDS);
    rule = rules == NULL ? NULL : coll_rules_find(rules, shape->size, request);
    if (rule != NULL) {
        struct coll_choice named = coll_rule_choice(rule, request);
        const char *needs = coll_needs_here(shape, request, &named);

        if (needs == NULL) {
            *choice = named;
            return 0;
        }
        error_note(err, "%s by %s needs %s, and is chosen by its cost instead",
                   coll_kind_name(request->kind), coll_algorithm_name(named.algorithm), needs);
    }
    if (coll_candidates(shape, request, model, list) == 0 || list[0].needs != NULL)
        return error_set(err, -ENOTSUP, "no algorithm of %s is possible here",
                         coll_kind_name(request->kind));
    *choice = list[0].choice;
    return 0;
}

/* ---- text ---- */

int coll_choice_print(char *text, size_t bytes, const struct shape *shape,
                      const struct coll_request *request, const struct coll_choice *choice)
{
    const char *name = coll_algorithm_name(choice->algorithm);

    if (choice->algorithm == COLL_CAST && !choose_cast_has_radix(request))
        return snprintf(text, bytes, "%s", name);
    switch (choice->algorithm) {
    case COLL_DISSEMINATION:
    case COLL_TREE:
    case COLL_HOSTS:
    case COLL_CAST:
        return snprintf(text, bytes, "%s:%d", name, coll_radix(shape, choice));
    case COLL_CHAIN:
        return snprintf(text, bytes, "%s:%zu", name, choice->segment * request->element);
    default:
        return snprintf(text, bytes, "%s", name);
    }
}

static void choose_explain_row(FILE *to, const struct shape *shape,
                               const struct coll_request *request,
                               const struct coll_candidate *candidate)
{
    char name[40];

    coll_choice_print(name, sizeof(name), shape, request, &candidate->choice);
    if (candidate->needs != NULL)
        fprintf(to, "  %-20s needs %s\n", name, candidate->needs);
    else
        fprintf(to, "  %-20s %" PRIu64 ".%03" PRIu64 " us%s\n", name, candidate->time / 1000000,
                candidate->time / 1000 % 1000,
                candidate->large ? ", only where no other is possible" : "");
}

int coll_explain(FILE *to, const struct shape *shape, const struct coll_request *request,
                 const struct coll_model *model, const struct coll_rules *rules)
{
    struct coll_candidate list[COLL_CANDIDATES];
    struct coll_choice choice = {0};
    struct error err = {""};
    char name[40] = "nothing";
    int count, rc;

    rc = coll_choose(shape, request, model, rules, &choice, &err);
    if (rc == 0)
        coll_choice_print(name, sizeof(name), shape, request, &choice);
    fprintf(to, "%s of %zu elements of %zu bytes%s, %d members on %d hosts of %d cores: %s\n",
            choose_is_kind(request) ? coll_kind_name(request->kind) : "?", request->count,
            request->element, request->counts != NULL ? " (or counts)" : "", shape->size,
            shape->hosts, shape->cores, name);
    if (err.text[0] != '\0')
        fprintf(to, "  %s\n", err.text);
    if (rc == -EINVAL)
        return ferror(to) ? -EIO : 0;
    count = coll_candidates(shape, request, model, list);
    for (int i = 0; i < count; i++)
        choose_explain_row(to, shape, request, &list[i]);
    return ferror(to) ? -EIO : 0;
}
