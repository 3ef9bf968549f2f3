/* SPDX-License-Identifier: BSD-3-Clause */
/* match.c: see match.h. */
#include "msg/match.h"

#include "util/list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MATCH_BUCKETS 256 /* at first */

/* ---- table ---- */

static void match_chain(struct match_node **at, struct match_node *n)
{
    n->chain = *at;
    n->chain_at = at;
    if (n->chain != NULL)
        n->chain->chain_at = &n->chain;
    *at = n;
}

/* Doubles the buckets; without memory for that the chains become longer. */
static __attribute__((noinline, cold)) void match_grow(struct match_table *t)
{
    struct match_node **old = t->bucket, **bucket;
    size_t buckets = t->mask + 1;

    bucket = calloc(2 * buckets, sizeof(*bucket));
    if (bucket == NULL)
        return;
    t->bucket = bucket;
    t->mask = 2 * buckets - 1;
    for (size_t i = 0; i < buckets; i++) {
        for (struct match_node *n = old[i], *chain; n != NULL; n = chain) {
            chain = n->chain;
            match_chain(&bucket[match_hash(t, n->key)], n);
        }
    }
    free(old);
}

int match_table_init(struct match_table *t, uint64_t secret)
{
    memset(t, 0, sizeof(*t));
    t->bucket = calloc(MATCH_BUCKETS, sizeof(struct match_node *));
    if (t->bucket == NULL)
        return -ENOMEM;
    t->mask = MATCH_BUCKETS - 1;
    t->secret = secret;
    return 0;
}

void match_table_free(struct match_table *t)
{
    free(t->bucket);
    t->bucket = NULL;
}

void match_insert_other(struct match_table *t, struct match_node *n)
{
    struct match_node *first = match_search(t, n->key);

    t->recent = first != NULL ? first : n;
    if (first != NULL) {
        match_append(t, first, n);
        return;
    }
    t->count++;
    if (t->firsts++ > t->mask)
        match_grow(t);
    n->next = NULL;
    n->last = n;
    n->rank = 0;
    match_chain(&t->bucket[match_hash(t, n->key)], n);
}

void match_remove(struct match_table *t, struct match_node *n)
{
    if (n->chain_at != NULL) {
        match_remove_first(t, n);
        return;
    }
    t->count--;
    n->prev->next = n->next;
    if (n->next != NULL)
        n->next->prev = n->prev;
    else
        match_first(t, n->key)->last = n->prev;
}

/* ---- receives ---- */

int match_posted_init(struct match_posted *p, uint64_t secret)
{
    memset(p, 0, sizeof(*p));
    return match_table_init(&p->table, secret);
}

void match_unpost_later(struct match_posted *p, struct match_node *n)
{
    for (struct match_node *later = n->next; later != NULL; later = later->next)
        later->rank--;
    match_remove(&p->table, n);
}

struct match_node *match_posted_find_any(const struct match_posted *p, uint32_t tag, int32_t source,
                                         uint32_t space)
{
    const struct match_key key = {tag, source, space};
    struct match_node *found = NULL;

    if (p->table.count > p->wildcards)
        found = match_first(&p->table, key);
    for (int kind = MATCH_TAG_OPEN; kind < MATCH_KINDS; kind++) {
        struct match_node *n;

        if (p->kinds[kind] == 0)
            continue;
        n = match_first(&p->table, match_open(key, (enum match_kind)kind));
        if (n != NULL && (found == NULL || n->stamp < found->stamp))
            found = n;
    }
    return found;
}

bool match_held(const struct match_posted *p, const struct match_node *n)
{
    for (int kind = MATCH_TAG_OPEN; kind < MATCH_KINDS; kind++) {
        struct match_node *first;

        if (p->kinds[kind] == 0)
            continue;
        first = match_first(&p->table, match_open(n->key, (enum match_kind)kind));
        if (first != NULL && first->stamp < n->stamp)
            return true;
    }
    return false;
}

uint32_t match_place(const struct match_posted *p, const struct match_node *n)
{
    return n->rank - match_first(&p->table, n->key)->rank;
}

/* ---- messages ---- */

int match_waiting_init(struct match_waiting *w, uint64_t secret)
{
    memset(w, 0, sizeof(*w));
    return match_table_init(&w->table, secret);
}

static void match_wait_by(struct match_waiting *w, struct match_message *m, enum match_kind kind)
{
    m->node[kind].key = match_open(m->node[MATCH_EXACT].key, kind);
    m->node[kind].stamp = m->node[MATCH_EXACT].stamp;
    match_insert(&w->table, &m->node[kind]);
}

static void match_wait_by_wildcards(struct match_waiting *w, struct match_message *m)
{
    for (int kind = MATCH_TAG_OPEN; kind < MATCH_KINDS; kind++)
        match_wait_by(w, m, (enum match_kind)kind);
}

void match_wait(struct match_waiting *w, struct match_message *m)
{
    m->node[MATCH_EXACT].stamp = ++w->stamp;
    match_wait_by(w, m, MATCH_EXACT);
    if (w->wildcards)
        match_wait_by_wildcards(w, m);
    m->next = NULL;
    m->prev = w->last;
    if (w->last != NULL)
        w->last->next = m;
    else
        w->first = m;
    w->last = m;
}

void match_unwait(struct match_waiting *w, struct match_message *m)
{
    match_remove(&w->table, &m->node[MATCH_EXACT]);
    for (int kind = MATCH_TAG_OPEN; kind < MATCH_KINDS && w->wildcards; kind++)
        match_remove(&w->table, &m->node[kind]);
    if (m->prev != NULL)
        m->prev->next = m->next;
    else
        w->first = m->next;
    if (m->next != NULL)
        m->next->prev = m->prev;
    else
        w->last = m->prev;
}

struct match_message *match_waiting_find(struct match_waiting *w, struct match_key key)
{
    enum match_kind kind = match_kind_of(key);
    struct match_node *n;

    if (w->first == NULL)
        return NULL;
    if (kind != MATCH_EXACT && !w->wildcards) {
        w->wildcards = true;
        for (struct match_message *m = w->first; m != NULL; m = m->next)
            match_wait_by_wildcards(w, m);
    }
    n = match_first(&w->table, key);
    return n == NULL ? NULL : container_of(n - kind, struct match_message, node);
}
