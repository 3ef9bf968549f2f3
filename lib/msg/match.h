/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match.h: which receive gets which message: receives that are posted, and messages that no receive has matched.
 *
 * A key is (space, source, tag). One hash table has the posted receives, whose source, tag or both may be open; another one has the
 * messages. Entries of one key form a FIFO, of which the first is in the chain of its bucket and has a pointer to the last: so there are no
 * nodes besides the entries, and insertion, removal and search take constant time, however many entries have the same key.
 *
 *     posted     a message is searched by its own key, and by those of the three kinds of wildcards that any receive has at the moment;
 *                of the first entries found, the one with the least stamp was posted first
 *     waiting    a receive is searched by its key, wildcards included: a message is in the table by up to four keys. Those with wildcards
 *                are made at the first search with a wildcard, and for every message from then on
 *
 * The key of the last insertion is remembered: programs post windows of receives of one key, and messages of it come one after the other.
 * Then neither a receive that is posted nor a message that it matches computes a place in the table.
 *
 * Pure: no memory but the tables, no clock, no pipe. A table that cannot grow becomes slower. Places of keys depend on a secret,
 * since peers choose tags.
 */
#ifndef MSG_MATCH_H
#define MSG_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MATCH_ANY_SOURCE (-1)
#define MATCH_ANY_TAG UINT32_MAX

struct match_key {
    uint32_t tag;
    int32_t source;
    uint32_t space;
};

struct match_node { /* one line */
    struct match_key key;
    uint32_t rank;            /* distance to the first of its key is rank - first->rank */
    struct match_node *next;  /* of the same key */
    struct match_node *prev;  /* of the same key; undefined in the first */
    struct match_node *last;  /* of the same key; defined in the first */
    struct match_node *chain; /* first of its key: the first of another key in the same bucket */
    struct match_node **chain_at; /* what points to this one; NULL: not the first of its key */
    uint64_t stamp;               /* order of insertion */
};

struct match_table {
    struct match_node *recent; /* the first of the key of the last insertion; or NULL */
    size_t count;              /* entries */
    size_t firsts;             /* keys in the table */
    struct match_node **bucket;
    size_t mask; /* buckets - 1 */
    uint64_t secret;
};

/* 0 or -ENOMEM. */
int match_table_init(struct match_table *t, uint64_t secret);
void match_table_free(struct match_table *t);
static inline bool match_same(struct match_key a, struct match_key b)
{
    return a.tag == b.tag && a.source == b.source && a.space == b.space;
}

static inline size_t match_hash(const struct match_table *t, struct match_key key)
{
    uint64_t x = ((uint64_t)(uint32_t)key.source << 32 | key.tag) ^ t->secret;

    x *= UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 32;
    x = (x + key.space) * UINT64_C(0xd6e8feb86659fd93);
    return (size_t)(x >> 32) & t->mask;
}

/* The first of a key that was inserted last, or NULL. */
static inline struct match_node *match_recent(const struct match_table *t, struct match_key key)
{
    struct match_node *n = t->recent;

    return n != NULL && match_same(n->key, key) ? n : NULL;
}

/* The first of a key, or NULL: by its place in the table. */
static inline struct match_node *match_search(const struct match_table *t, struct match_key key)
{
    struct match_node *n = t->bucket[match_hash(t, key)];

    while (n != NULL && !match_same(n->key, key))
        n = n->chain;
    return n;
}

/* The first of a key, or NULL. */
static inline struct match_node *match_first(const struct match_table *t, struct match_key key)
{
    struct match_node *n = match_recent(t, key);

    return n != NULL ? n : match_search(t, key);
}

/* n becomes the last of its key, of which `first` is the first. */
static inline void match_append(struct match_table *t, struct match_node *first,
                                struct match_node *n)
{
    struct match_node *last = first->last;

    n->next = NULL;
    n->chain_at = NULL;
    n->prev = last;
    n->rank = last->rank + 1;
    last->next = n;
    first->last = n;
    t->count++;
}

/* match_insert of a key that was not the last one. */
void match_insert_other(struct match_table *t, struct match_node *n);
static inline void match_insert(struct match_table *t, struct match_node *n)
{
    struct match_node *first = match_recent(t, n->key);

    if (first != NULL)
        match_append(t, first, n);
    else
        match_insert_other(t, n);
}

/* n is the first of its key: the next one takes its place in the chain. */
static inline void match_remove_first(struct match_table *t, struct match_node *n)
{
    struct match_node *next = n->next, *chain = n->chain;

    t->count--;
    if (t->recent == n)
        t->recent = next;
    if (next != NULL) {
        next->last = n->last;
        next->chain = chain;
        next->chain_at = n->chain_at;
        *n->chain_at = next;
        if (chain != NULL)
            chain->chain_at = &next->chain;
        return;
    }
    *n->chain_at = chain;
    if (chain != NULL)
        chain->chain_at = n->chain_at;
    t->firsts--;
}

void match_remove(struct match_table *t, struct match_node *n);

/* ---- receives ---- */

enum match_kind { MATCH_EXACT, MATCH_TAG_OPEN, MATCH_SOURCE_OPEN, MATCH_BOTH_OPEN, MATCH_KINDS };

static inline enum match_kind match_kind_of(struct match_key key)
{
    return (enum match_kind)((key.tag == MATCH_ANY_TAG) + 2 * (key.source == MATCH_ANY_SOURCE));
}

/* The key with tag, source or both left open. */
static inline struct match_key match_open(struct match_key key, enum match_kind kind)
{
    if ((kind & MATCH_TAG_OPEN) != 0)
        key.tag = MATCH_ANY_TAG;
    if ((kind & MATCH_SOURCE_OPEN) != 0)
        key.source = MATCH_ANY_SOURCE;
    return key;
}

struct match_posted {
    struct match_table table;
    uint64_t stamp;              /* of the last receive */
    uint32_t wildcards;          /* receives with any */
    uint32_t kinds[MATCH_KINDS]; /* receives of each kind but MATCH_EXACT */
};

int match_posted_init(struct match_posted *p, uint64_t secret);

/* A receive with a wildcard is posted (by = 1), or is not any more (-1). */
static inline void match_count_wildcard(struct match_posted *p, struct match_key key, int by)
{
    if (key.tag != MATCH_ANY_TAG && key.source != MATCH_ANY_SOURCE)
        return;
    p->kinds[match_kind_of(key)] += (uint32_t)by;
    p->wildcards += (uint32_t)by;
}

/* n->key is set. */
static inline void match_post(struct match_posted *p, struct match_node *n)
{
    n->stamp = ++p->stamp;
    match_count_wildcard(p, n->key, 1);
    match_insert(&p->table, n);
}

/* match_unpost of one that is not the first of its key: it is cancelled, which is rare. */
void match_unpost_later(struct match_posted *p, struct match_node *n);
static inline void match_unpost(struct match_posted *p, struct match_node *n)
{
    if (p->wildcards != 0)
        match_count_wildcard(p, n->key, -1);
    if (n->chain_at != NULL)
        match_remove_first(&p->table, n);
    else
        match_unpost_later(p, n);
}

/* match_posted_find where there are wildcards. The parts of the key, since it need not be in memory otherwise. */
struct match_node *match_posted_find_any(const struct match_posted *p, uint32_t tag, int32_t source,
                                         uint32_t space);
/* The receive for a message with this key, or NULL; it stays posted. */
static inline struct match_node *match_posted_find(const struct match_posted *p,
                                                   struct match_key key)
{
    return p->wildcards == 0 ? match_first(&p->table, key)
                             : match_posted_find_any(p, key.tag, key.source, key.space);
}

/* Is there a receive with a wildcard, posted before n, that could take a message for n? */
bool match_held(const struct match_posted *p, const struct match_node *n);
/* Receives of the same key that were posted before n. */
uint32_t match_place(const struct match_posted *p, const struct match_node *n);

/* ---- messages ---- */

struct match_message {
    struct match_node node[MATCH_KINDS]; /* [MATCH_EXACT].key is the key of the message */
    struct match_message *next, *prev;   /* in the order of arrival */
};

struct match_waiting {
    struct match_table table;
    struct match_message *first, *last;
    bool wildcards; /* messages are in the table by all four keys */
    uint64_t stamp;
};

int match_waiting_init(struct match_waiting *w, uint64_t secret);
void match_wait(struct match_waiting *w, struct match_message *m); /* its key is set */
void match_unwait(struct match_waiting *w, struct match_message *m);
/* The message that came first of those that a receive with this key takes, or NULL; it stays. */
struct match_message *match_waiting_find(struct match_waiting *w, struct match_key key);

#endif
