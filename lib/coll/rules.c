/* SPDX-License-Identifier: BSD-3-Clause */
/* rules.c: see rules.h. */
#include "coll/rules.h"

#include "coll/model.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define RULES_DIGITS_MAX 15

static bool rules_is(const char *text, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

static bool rules_read_number(const char **text, uint64_t *number)
{
    int digits = 0;

    for (*number = 0; isdigit((unsigned char)**text); (*text)++) {
        if (++digits > RULES_DIGITS_MAX)
            return false;
        *number = *number * 10 + (uint64_t)(**text - '0');
    }
    return digits > 0;
}

/* ---- algorithms ---- */

/* Names that stand for an algorithm with a radix. */
static bool rules_find_alias(struct coll_rule *rule, const char *text, size_t length)
{
    bool tree = coll_has(rule->kind, COLL_TREE);

    if (tree && rules_is(text, length, "binomial")) {
        rule->choice = (struct coll_choice){.algorithm = COLL_TREE, .radix = 2};
        return true;
    }
    if (!rules_is(text, length, "flat") && !rules_is(text, length, "linear"))
        return false;
    if (coll_has(rule->kind, COLL_DISSEMINATION))
        rule->choice = (struct coll_choice){.algorithm = COLL_DISSEMINATION, .radix = INT32_MAX};
    else if (tree)
        rule->choice = (struct coll_choice){.algorithm = COLL_TREE, .radix = INT32_MAX};
    return tree || rule->kind == COLL_BARRIER;
}

static bool rules_find_algorithm(struct coll_rule *rule, const char *text, size_t length)
{
    for (int a = 0; a < COLL_ALGORITHMS; a++)
        if (coll_has(rule->kind, (enum coll_algorithm)a) &&
            rules_is(text, length, coll_algorithm_name((enum coll_algorithm)a))) {
            rule->choice = (struct coll_choice){.algorithm = (enum coll_algorithm)a};
            return true;
        }
    return rules_find_alias(rule, text, length);
}

static bool rules_set_number(struct coll_rule *rule, uint64_t number)
{
    switch (rule->choice.algorithm) {
    case COLL_CHAIN:
        rule->segment_bytes = number;
        return true;
    case COLL_DISSEMINATION:
    case COLL_TREE:
    case COLL_HOSTS:
    case COLL_CAST:
        rule->choice.radix = (int)number;
        return number >= 2 && number <= INT32_MAX;
    default:
        return false;
    }
}

int coll_rule_parse_algorithm(struct coll_rule *rule, enum coll_kind kind, const char *text,
                              size_t length, struct error *err)
{
    const char *colon = memchr(text, ':', length), *at;
    struct coll_rule parsed = {.kind = kind, .to = UINT64_MAX};
    uint64_t number;

    if (!rules_find_algorithm(&parsed, text, colon == NULL ? length : (size_t)(colon - text)))
        return error_set(err, -EINVAL, "\"%.*s\" is no algorithm of %s", (int)length, text,
                         coll_kind_name(kind));
    if (colon != NULL) {
        at = colon + 1;
        if (!rules_read_number(&at, &number) || at != text + length ||
            !rules_set_number(&parsed, number))
            return error_set(err, -EINVAL,
                             "\"%.*s\": a radix of 2 or more, or a chain's bytes of a segment, may "
                             "follow an algorithm that has one",
                             (int)length, text);
    }
    *rule = parsed;
    return 0;
}

/* ---- rules ---- */

static bool rules_find_kind(const char *text, size_t length, enum coll_kind *kind)
{
    for (int k = 0; k < COLL_KINDS; k++)
        if (rules_is(text, length, coll_kind_name((enum coll_kind)k))) {
            *kind = (enum coll_kind)k;
            return true;
        }
    return false;
}

/* ":[FROM]-[TO]" */
static bool rules_read_range(const char **text, uint64_t *from, uint64_t *to)
{
    if (**text != ':')
        return true;
    (*text)++;
    if (**text != '-' && !rules_read_number(text, from))
        return false;
    if (*(*text)++ != '-')
        return false;
    return !isdigit((unsigned char)**text) || (rules_read_number(text, to) && *to >= *from);
}

static int rules_parse_one(struct coll_rule *rule, const char *text, size_t length,
                           struct error *err)
{
    const char *at = text + strcspn(text, ":=,");
    uint64_t from = 0, to = UINT64_MAX;
    enum coll_kind kind;
    int rc;

    if (!rules_find_kind(text, (size_t)(at - text), &kind) || !rules_read_range(&at, &from, &to) ||
        *at != '=')
        return error_set(err, -EINVAL, "\"%.*s\" is no rule: KIND[:[FROM]-[TO]]=ALGORITHM[:NUMBER]",
                         (int)length, text);
    at++;
    rc = coll_rule_parse_algorithm(rule, kind, at, (size_t)(text + length - at), err);
    if (rc == 0) {
        rule->from = from;
        rule->to = to;
    }
    return rc;
}

int coll_rules_parse(struct coll_rules *rules, const char *text, struct error *err)
{
    struct coll_rules parsed = {0};
    int rc;

    while (text != NULL && *text != '\0') {
        size_t length = strcspn(text, ",");

        if (parsed.count == COLL_RULES)
            return error_set(err, -EINVAL, "more than %d rules", COLL_RULES);
        rc = rules_parse_one(&parsed.rule[parsed.count], text, length, err);
        if (rc != 0)
            return rc;
        parsed.count++;
        text += length;
        text += *text == ',';
    }
    *rules = parsed;
    return 0;
}

/* Bytes of a contribution, or the mean of a block, as far as all members have the same. */
static uint64_t rules_bytes(int size, const struct coll_request *request)
{
    uint64_t count = 0;

    if (request->kind == COLL_BARRIER)
        return 0;
    if (request->counts == NULL || request->kind == COLL_ALLTOALL)
        return model_times(request->count, request->element);
    for (int i = 0; i < size; i++)
        count = model_add(count, request->counts[i]);
    return model_times(count, request->element) / (uint64_t)size;
}

const struct coll_rule *coll_rules_find(const struct coll_rules *rules, int size,
                                        const struct coll_request *request)
{
    uint64_t bytes = rules_bytes(size, request);

    for (int i = 0; i < rules->count; i++) {
        const struct coll_rule *rule = &rules->rule[i];

        if (rule->kind == request->kind && bytes >= rule->from && bytes <= rule->to)
            return rule;
    }
    return NULL;
}

struct coll_choice coll_rule_choice(const struct coll_rule *rule,
                                    const struct coll_request *request)
{
    struct coll_choice choice = rule->choice;

    if (rule->segment_bytes > 0 && request->element > 0) {
        choice.segment = rule->segment_bytes / request->element;
        if (choice.segment == 0)
            choice.segment = 1;
    }
    return choice;
}
