/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * list.h: doubly linked list with links inside the members.
 *
 * The head is a link like the others, so that an empty list is a head that points to itself and no
 * case is special. Invariant: l->next->prev == l and l->prev->next == l for every link of a list.
 */
#ifndef UTIL_LIST_H
#define UTIL_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct link {
    struct link *prev, *next;
};

#define container_of(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static inline void list_init(struct link *head) { head->prev = head->next = head; }
static inline bool list_empty(const struct link *head) { return head->next == head; }

static inline void list_insert(struct link *prev, struct link *link)
{
    link->prev = prev;
    link->next = prev->next;
    prev->next->prev = link;
    prev->next = link;
}

static inline void list_append(struct link *head, struct link *link)
{
    list_insert(head->prev, link);
}

/* Leaves the removed link an empty list of its own: removing it twice does no harm. */
static inline void list_remove(struct link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* `cursor` may be removed inside; `after` is a scratch variable */
#define list_for_each(cursor, after, head)                                                         \
    for ((cursor) = (head)->next, (after) = (cursor)->next; (cursor) != (head);                    \
         (cursor) = (after), (after) = (cursor)->next)

#endif
