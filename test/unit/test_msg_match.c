/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching of messages with receives (lib/msg/match.h) against a naive list: a million random operations on a few keys with
 * wildcards; and the time of a match, which does not depend on how many entries there are.
 */
#include "msg/match.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "test/lib/random.h"

enum { OPERATIONS = 1000000, MOST = 200, SOURCES = 3, TAGS = 3, SPACES = 2 };

struct receive {
    struct match_node node;
    struct match_key key;
};

struct message {
    struct match_message match;
    struct match_key key;
};

/* the naive lists: in the order of posting, of arrival */
static struct receive *posted[MOST];
static struct message *waiting[MOST];
static int nposted, nwaiting;

static bool fits(struct match_key receive, struct match_key message)
{
    return receive.space == message.space &&
           (receive.source == MATCH_ANY_SOURCE || receive.source == message.source) &&
           (receive.tag == MATCH_ANY_TAG || receive.tag == message.tag);
}

static bool same(struct match_key a, struct match_key b)
{
    return a.space == b.space && a.source == b.source && a.tag == b.tag;
}

static struct match_key draw_key(uint64_t *seed, bool wildcards)
{
    struct match_key key = {(uint32_t)(random_draw(seed) % TAGS),
                            (int32_t)(random_draw(seed) % SOURCES),
                            (uint32_t)(random_draw(seed) % SPACES)};

    if (wildcards && random_draw(seed) % 4 == 0)
        key.tag = MATCH_ANY_TAG;
    if (wildcards && random_draw(seed) % 4 == 0)
        key.source = MATCH_ANY_SOURCE;
    return key;
}

static void remove_at(void *list, int *n, int i, size_t bytes)
{
    char *at = (char *)list + (size_t)i * bytes;

    (*n)--;
    memmove(at, at + bytes, (size_t)(*n - i) * bytes);
}

static void check_places(const struct match_posted *p)
{
    for (int i = 0; i < nposted; i++) {
        uint32_t place = 0;
        bool held = false;

        for (int k = 0; k < i; k++) {
            bool wildcard =
                posted[k]->key.tag == MATCH_ANY_TAG || posted[k]->key.source == MATCH_ANY_SOURCE;

            place += same(posted[k]->key, posted[i]->key);
            held = held || (wildcard && fits(posted[k]->key, posted[i]->key));
        }
        assert_int_equal(match_place(p, &posted[i]->node), place);
        if (posted[i]->key.tag != MATCH_ANY_TAG && posted[i]->key.source != MATCH_ANY_SOURCE)
            assert_int_equal(match_held(p, &posted[i]->node), held);
    }
}

static void receive_comes(struct match_posted *p, struct match_waiting *w, uint64_t *seed)
{
    struct match_key key = draw_key(seed, true);
    struct match_message *found = match_waiting_find(w, key);
    struct receive *r;
    int i = 0;

    while (i < nwaiting && !fits(key, waiting[i]->key))
        i++;
    assert_ptr_equal(found, i < nwaiting ? &waiting[i]->match : NULL);
    if (found != NULL) {
        match_unwait(w, found);
        free(waiting[i]);
        remove_at(waiting, &nwaiting, i, sizeof(waiting[0]));
        return;
    }
    if (nposted == MOST)
        return;
    r = calloc(1, sizeof(*r));
    assert_non_null(r);
    r->key = r->node.key = key;
    match_post(p, &r->node);
    posted[nposted++] = r;
}

static void message_comes(struct match_posted *p, struct match_waiting *w, uint64_t *seed)
{
    struct match_key key = draw_key(seed, false);
    struct match_node *found = match_posted_find(p, key);
    struct message *m;
    int i = 0;

    while (i < nposted && !fits(posted[i]->key, key))
        i++;
    assert_ptr_equal(found, i < nposted ? &posted[i]->node : NULL);
    if (found != NULL) {
        match_unpost(p, found);
        free(posted[i]);
        remove_at(posted, &nposted, i, sizeof(posted[0]));
        return;
    }
    if (nwaiting == MOST)
        return;
    m = calloc(1, sizeof(*m));
    assert_non_null(m);
    m->key = m->match.node[MATCH_EXACT].key = key;
    match_wait(w, &m->match);
    waiting[nwaiting++] = m;
}

static void receive_is_cancelled(struct match_posted *p, uint64_t *seed)
{
    int i = nposted == 0 ? 0 : (int)(random_draw(seed) % (uint64_t)nposted);

    if (nposted == 0)
        return;
    match_unpost(p, &posted[i]->node);
    free(posted[i]);
    remove_at(posted, &nposted, i, sizeof(posted[0]));
}

static void random_operations(void **state)
{
    uint64_t seed = (uint64_t)time(NULL), rare;
    struct match_waiting w;
    struct match_posted p;

    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    assert_int_equal(match_posted_init(&p, random_draw(&seed)), 0);
    assert_int_equal(match_waiting_init(&w, random_draw(&seed)), 0);
    for (int i = 0; i < OPERATIONS; i++) {
        /* for a while more receives, for a while more messages */
        rare = random_draw(&seed) % 16;
        if (rare == 0)
            receive_is_cancelled(&p, &seed);
        else if ((rare < 6) != (i / 5000 % 2 == 0))
            receive_comes(&p, &w, &seed);
        else
            message_comes(&p, &w, &seed);
        if (i % 1000 == 0)
            check_places(&p);
        assert_int_equal(p.table.count, nposted);
    }
    while (nposted > 0)
        receive_is_cancelled(&p, &seed);
    while (nwaiting > 0) {
        match_unwait(&w, &waiting[0]->match);
        free(waiting[0]);
        remove_at(waiting, &nwaiting, 0, sizeof(waiting[0]));
    }
    assert_true(p.table.count == 0 && p.table.firsts == 0 && w.table.count == 0 && w.first == NULL);
    match_table_free(&p.table);
    match_table_free(&w.table);
}

/* Chains of buckets do not grow with the entries: neither of many keys, nor of one. */
static void many_entries(void **state)
{
    enum { MANY = 100000 };
    struct receive *all = calloc(MANY, sizeof(*all));
    struct match_posted p;
    size_t longest = 0;

    (void)state;
    assert_non_null(all);
    assert_int_equal(match_posted_init(&p, 77), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        all[i].node.key = (struct match_key){i % 2 == 0 ? i : 1, 5, 0};
        match_post(&p, &all[i].node);
    }
    for (size_t i = 0; i <= p.table.mask; i++) {
        size_t length = 0;

        for (const struct match_node *n = p.table.bucket[i]; n != NULL; n = n->chain)
            length++;
        longest = length > longest ? length : longest;
    }
    assert_true(p.table.firsts == MANY / 2 + 1 && longest < 16);
    assert_ptr_equal(match_posted_find(&p, (struct match_key){1, 5, 0}), &all[1].node);
    match_unpost(&p, &all[1].node);
    assert_ptr_equal(match_posted_find(&p, (struct match_key){1, 5, 0}), &all[3].node);
    match_table_free(&p.table);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations),
        cmocka_unit_test(many_entries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
