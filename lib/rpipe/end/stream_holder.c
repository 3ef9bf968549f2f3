/* SPDX-License-Identifier: BSD-3-Clause */
/* stream_holder.c: see stream_holder.h. */
#include "rpipe/end/stream_holder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_HOLDERS_NAMED 2 /* in a message */

struct stream_holder {
    struct link link;
    char name[STREAM_HOLDER_BYTES];
};

void stream_holders_init(struct stream_holders *h)
{
    list_init(&h->list);
    h->count = 0;
}

int stream_holders_add(struct stream_holders *h, const char *name, struct error *err)
{
    struct stream_holder *holder = malloc(sizeof(*holder));

    if (holder == NULL)
        return error_set(err, -ENOMEM, "no memory for the name of what is opened in the stream");
    snprintf(holder->name, sizeof(holder->name), "%s", name);
    list_append(&h->list, &holder->link);
    h->count++;
    return 0;
}

int stream_holders_remove(struct stream_holders *h, const char *name, struct error *err)
{
    struct link *at, *after;

    list_for_each (at, after, &h->list) {
        struct stream_holder *holder = container_of(at, struct stream_holder, link);

        if (strncmp(holder->name, name, sizeof(holder->name) - 1) != 0)
            continue;
        list_remove(at);
        h->count--;
        free(holder);
        return 0;
    }
    return error_set(err, -ENOENT, "the stream is not held by \"%.63s\"", name);
}

void stream_holders_print(const struct stream_holders *h, char *text, size_t bytes)
{
    const struct link *at = h->list.next;
    size_t used = 0, named = 0;

    *text = '\0';
    for (; at != &h->list && named < STREAM_HOLDERS_NAMED && used < bytes; at = at->next, named++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", named > 0 ? ", " : "",
                                 container_of(at, const struct stream_holder, link)->name);
    if (named < h->count && used < bytes)
        snprintf(text + used, bytes - used, " and %zu more", h->count - named);
}

void stream_holders_free(struct stream_holders *h)
{
    while (!list_empty(&h->list)) {
        struct stream_holder *holder = container_of(h->list.next, struct stream_holder, link);

        list_remove(&holder->link);
        free(holder);
    }
    h->count = 0;
}
