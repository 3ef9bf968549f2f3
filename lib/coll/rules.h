/* SPDX-License-Identifier: BSD-3-Clause */
/* rules.h: rules that name the algorithm of a request by its kind and its bytes, as text. */
#ifndef COLL_RULES_H
#define COLL_RULES_H

#include "coll/coll.h"

#include <stdint.h>

struct coll_rule {
    enum coll_kind kind;
    uint64_t from, to; /* bytes of a contribution, or the mean of a block */
    struct coll_choice choice;
    uint64_t segment_bytes;
};
#define COLL_RULES 32

struct coll_rules {
    int count;
    struct coll_rule rule[COLL_RULES];
};

/*
 * KIND[:[FROM]-[TO]]=ALGORITHM[:NUMBER], separated by commas: "barrier=dissemination:4,allreduce:-4096=flat,
 * bcast:65536-=chain:8192". FROM and TO are bytes; NUMBER is the radix, or the bytes of a segment of a
 * chain. For a barrier "flat" is dissemination in one round, for a bcast "flat" and "linear" are
 * trees of one level, and so is "linear" for a reduce; "binomial" is a tree of radix 2.
 * 0; -EINVAL, and nothing is changed. NULL and "" are no rules.
 */
int coll_rules_parse(struct coll_rules *rules, const char *text, struct error *err);
/* ALGORITHM[:NUMBER] alone. */
int coll_rule_parse_algorithm(struct coll_rule *rule, enum coll_kind kind, const char *text,
                              size_t length, struct error *err);
/* The first rule for the request; NULL: none. */
const struct coll_rule *coll_rules_find(const struct coll_rules *rules, int size,
                                        const struct coll_request *request);
/* What a rule means for this request. */
struct coll_choice coll_rule_choice(const struct coll_rule *rule,
                                    const struct coll_request *request);

#endif
