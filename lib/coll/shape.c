/* SPDX-License-Identifier: BSD-3-Clause */
/* shape.c: see shape.h. */
#include "coll/shape.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* ---- hosts ---- */

struct shape_entry {
    int name, member;
};

static int shape_compare(const void *a, const void *b)
{
    const struct shape_entry *x = a, *y = b;

    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return (x->member > y->member) - (x->member < y->member);
}

/* Numbers hosts in the order of their first members: host[] and the number of hosts. */
static int shape_number_hosts(struct shape *s, const int *name)
{
    struct shape_entry *entry = malloc((size_t)s->size * sizeof(*entry));
    int previous = 0;

    if (entry == NULL)
        return -ENOMEM;
    for (int i = 0; i < s->size; i++)
        entry[i] = (struct shape_entry){.name = name == NULL ? 0 : name[i], .member = i};
    qsort(entry, (size_t)s->size, sizeof(*entry), shape_compare);
    /* first the lowest member of the host for each member, then the number of that */
    for (int i = 0; i < s->size; i++) {
        if (i == 0 || entry[i].name != entry[i - 1].name)
            previous = entry[i].member;
        s->host[entry[i].member] = previous;
    }
    free(entry);
    for (int i = 0; i < s->size; i++)
        s->host[i] = s->host[i] == i ? s->hosts++ : s->host[s->host[i]];
    return 0;
}

static void shape_list_members(struct shape *s)
{
    int *next = s->first + 1; /* first[h + 1] is where host h ends, when all are listed */

    for (int i = 0; i < s->size; i++)
        if (s->host[i] + 1 < s->hosts)
            next[s->host[i] + 1]++;
    for (int h = 1; h < s->hosts; h++)
        next[h] += next[h - 1];
    s->in_rows = true;
    for (int i = 0; i < s->size; i++) {
        s->in_rows = s->in_rows && next[s->host[i]] == i;
        s->members[next[s->host[i]]++] = i;
    }
    for (int h = 0; h < s->hosts; h++) {
        int members = s->first[h + 1] - s->first[h];

        s->leaders[h] = s->members[s->first[h]];
        s->last[h] = s->members[s->first[h + 1] - 1];
        s->largest = members > s->largest ? members : s->largest;
    }
}

int shape_init(struct shape *s, int size, const int *host, int cores)
{
    *s = (struct shape){.size = size, .cores = cores};
    if (size < 1 || size > INT32_MAX / 4 || cores < 1)
        return -EINVAL;
    s->host = calloc((size_t)size, sizeof(*s->host));
    s->members = calloc((size_t)size, sizeof(*s->members));
    s->first = calloc((size_t)size + 2, sizeof(*s->first));
    s->leaders = calloc((size_t)size, sizeof(*s->leaders));
    s->last = calloc((size_t)size, sizeof(*s->last));
    if (s->host == NULL || s->members == NULL || s->first == NULL || s->leaders == NULL ||
        s->last == NULL || shape_number_hosts(s, host) != 0) {
        shape_free(s);
        return -ENOMEM;
    }
    shape_list_members(s);
    return 0;
}

void shape_free(struct shape *s)
{
    free(s->host);
    free(s->members);
    free(s->first);
    free(s->leaders);
    free(s->last);
    *s = (struct shape){0};
}

int shape_index_on_host(const struct shape *s, int member)
{
    int low = s->first[s->host[member]], high = s->first[s->host[member] + 1], begin = low;

    while (low < high) {
        int middle = low + (high - low) / 2;

        if (s->members[middle] < member)
            low = middle + 1;
        else
            high = middle;
    }
    return low - begin;
}

/* ---- groups ---- */

int group_rank(const struct group *g, int index)
{
    int rank = index < g->pairs ? 2 * index : index + g->pairs;

    if (g->total > 0)
        rank = (rank + g->shift) % g->total;
    if (g->ranks != NULL)
        rank = g->ranks[rank];
    return rank == g->replaced ? g->by : rank;
}

struct group group_all(const struct shape *s, int me, int root)
{
    return (struct group){.size = s->size,
                          .me = (me - root + s->size) % s->size,
                          .shift = root,
                          .total = s->size,
                          .replaced = -1};
}

struct group group_host(const struct shape *s, int me, int host, int shift)
{
    int size = s->first[host + 1] - s->first[host];

    return (struct group){
        .size = size,
        .me = s->host[me] != host ? -1 : (shape_index_on_host(s, me) - shift + size) % size,
        .shift = shift,
        .total = size,
        .ranks = s->members + s->first[host],
        .replaced = -1};
}

struct group group_leaders(const struct shape *s, int me, int root)
{
    int host = s->host[root], own = s->host[me];
    int chosen = own == host ? root : s->leaders[own];

    return (struct group){.size = s->hosts,
                          .me = me == chosen ? (own - host + s->hosts) % s->hosts : -1,
                          .shift = host,
                          .total = s->hosts,
                          .ranks = s->leaders,
                          .replaced = s->leaders[host],
                          .by = root};
}

struct group group_by_host(const struct shape *s, int me, int root)
{
    int shift = s->first[s->host[root]];

    return (struct group){
        .size = s->size,
        .me = (s->first[s->host[me]] + shape_index_on_host(s, me) - shift + s->size) % s->size,
        .shift = shift,
        .total = s->size,
        .ranks = s->members,
        .replaced = -1};
}

int group_host_begin(const struct shape *s, int root, int leader)
{
    int host = s->host[root];

    if (leader >= s->hosts)
        return s->size;
    return (s->first[(host + leader) % s->hosts] - s->first[host] + s->size) % s->size;
}

struct group_pairs group_pairs(const struct group *g)
{
    struct group_pairs p = {.even = *g, .partner = -1};
    int power = 1, pairs;

    while (power <= g->size / 2) {
        power *= 2;
        p.rounds++;
    }
    pairs = g->size - power;
    p.even.size = power;
    p.even.pairs = pairs;
    if (g->me >= 0 && g->me < 2 * pairs) {
        p.extra = g->me % 2 != 0;
        p.partner = group_rank(g, g->me ^ 1);
        p.even.me = p.extra ? -1 : g->me / 2;
    } else if (g->me >= 0) {
        p.even.me = g->me - pairs;
    }
    return p;
}

/* ---- trees ---- */

/* The largest power of the radix that divides index, which is not 0. */
static int tree_digit(int index, int radix)
{
    int64_t power = 1;

    while (index % (power * radix) == 0)
        power *= radix;
    return (int)power;
}

int tree_parent(int index, int radix)
{
    int digit = tree_digit(index, radix);

    return index - index / digit % radix * digit;
}

int tree_span(int index, int size, int radix)
{
    int rest = size - index, digit;

    if (index == 0)
        return size;
    digit = tree_digit(index, radix);
    return digit < rest ? digit : rest;
}

int tree_children(int index, int size, int radix, int *child)
{
    int end = index + tree_span(index, size, radix), n = 0;

    for (int64_t step = 1; index + step < end; step *= radix)
        for (int64_t j = 1; j < radix && index + j * step < end; j++, n++)
            if (child != NULL)
                child[n] = (int)(index + j * step);
    return n;
}

uint32_t tree_slot(int index, int radix)
{
    uint32_t level = 0;

    for (; index % radix == 0; index /= radix)
        level++;
    return level * ((uint32_t)radix - 1) + (uint32_t)(index % radix) - 1;
}
