/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shape.h: what the plan of a collective operation depends on besides the request: how many members
 * there are, which of them share a host, and the trees and parts that builders work with.
 *
 * A shape is the same at all members. Hosts are numbered in the order of their first members; the
 * leader of a host is its first member.
 *
 * Everything else here is arithmetic on indices of a group: a sequence of members, in which a
 * builder works with indices 0 to size - 1 and converts them to ranks where it adds an operation.
 */
#ifndef COLL_SHAPE_H
#define COLL_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shape {
    int size; /* members */
    int hosts;
    int cores;      /* of one host */
    int largest;    /* most members of one host */
    uint32_t slots; /* of a member's board; 0: any number */
    bool in_rows;   /* the members of each host follow each other */
    bool fetches;   /* each member can read the memory of the processes of its host */
    int *host;      /* of each member */
    int *members;   /* of all hosts, one after the other */
    int *first;     /* the members of host h begin at members[first[h]]; hosts + 1 elements */
    int *leaders;   /* of each host: its first member */
    int *last;      /* of each host: its last member */
};

/* host[i]: any number that names the host of member i; host NULL: one host. 0; -EINVAL; -ENOMEM. */
int shape_init(struct shape *s, int size, const int *host, int cores);
void shape_free(struct shape *s);
/* The index of a member among those of its host. */
int shape_index_on_host(const struct shape *s, int member);

struct group {
    int size, me;     /* me: index of this member; -1: it is not in the group */
    int pairs;        /* the first `pairs` indices are the even ones of 2 * pairs members */
    int shift, total; /* an index is rotated by shift modulo total, if total > 0 */
    const int *ranks; /* rank of each index; NULL: the index */
    int replaced, by; /* rank `replaced` of the above is rank `by` instead; -1: none */
};

int group_rank(const struct group *g, int index);
/* All members, with `root` at index 0. */
struct group group_all(const struct shape *s, int me, int root);
/* The members of a host, with the member of index `shift` on that host at index 0. */
struct group group_host(const struct shape *s, int me, int host, int shift);
/* One member of each host: `root` for its host, the leaders of the others. Index 0 is root's host. */
struct group group_leaders(const struct shape *s, int me, int root);
/* All members, those of each host in a row: first the host of `root`, then the others in turn. */
struct group group_by_host(const struct shape *s, int me, int root);
/* Where the members of index `leader` of group_leaders() begin in group_by_host(); of `hosts`: all. */
int group_host_begin(const struct shape *s, int root, int leader);

/*
 * The largest power of two of `size` members that takes part in exchanges by pairs: the other
 * members, the extras, are the odd ones of the first 2 * pairs, so that the order of members is kept:
 *
 *     members   0 1   2 3   4   5      size 6: 2 pairs
 *     indices   0     1     2   3      extras: 1 and 3
 */
struct group_pairs {
    struct group even; /* without the extras; .me is -1 at an extra */
    int rounds;        /* log2(even.size) */
    int partner;       /* rank of the other member of the pair; -1: there is none */
    bool extra;
};
struct group_pairs group_pairs(const struct group *g);

/*
 * A tree of radix r over indices 0 to size - 1, root 0: the parent of an index is the index with its
 * lowest digit other than 0, in base r, set to 0. So a subtree is a row of indices, each level
 * gathers r - 1 children into one index, and there are ceil(log_r size) levels. Radix 2 is the
 * binomial tree, radix l + 1 the gather tree of fan-in l, and radix `size` the linear one.
 */
int tree_parent(int index, int radix);
/* Indices index to index + tree_span() - 1 are the subtree. */
int tree_span(int index, int size, int radix);
/* The children in ascending order, if child is not NULL. Returns their number. */
int tree_children(int index, int size, int radix, int *child);
/* A slot for the message between an index other than 0 and its parent: one for each digit of each level. */
uint32_t tree_slot(int index, int radix);

/* An even division of `total` elements: where part i begins; the first total % parts have one more. */
static inline size_t split_at(size_t total, int parts, int i)
{
    size_t extra = total % (size_t)parts, n = (size_t)i;

    return total / (size_t)parts * n + (n < extra ? n : extra);
}

static inline size_t split_length(size_t total, int parts, int i)
{
    return split_at(total, parts, i + 1) - split_at(total, parts, i);
}

#endif
