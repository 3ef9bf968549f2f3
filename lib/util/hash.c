/* SPDX-License-Identifier: BSD-3-Clause */
/* hash.c: see hash.h. */
#include "util/hash.h"

#include <errno.h>
#include <stdlib.h>

#define SIZE_LEAST 16

struct hash_slot {
    uint64_t key;
    void *value; /* NULL: empty */
};

/* finalizer of splitmix64: every bit of the key reaches every bit of the place */
static size_t hash_home(const struct hash *h, uint64_t key)
{
    key = (key ^ (key >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    key = (key ^ (key >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (size_t)(key ^ (key >> 31)) & (h->size - 1);
}

static size_t hash_place(const struct hash *h, uint64_t key)
{
    size_t i = hash_home(h, key);

    while (h->slot[i].value != NULL && h->slot[i].key != key)
        i = (i + 1) & (h->size - 1);
    return i;
}

void hash_init(struct hash *h) { *h = (struct hash){NULL, 0, 0}; }

void hash_free(struct hash *h)
{
    free(h->slot);
    hash_init(h);
}

void *hash_get(const struct hash *h, uint64_t key)
{
    return h->size == 0 ? NULL : h->slot[hash_place(h, key)].value;
}

static int hash_resize(struct hash *h, size_t size)
{
    struct hash old = *h;
    size_t i;
    struct hash_slot *slot = calloc(size, sizeof(*slot));

    if (slot == NULL)
        return -ENOMEM;
    h->slot = slot;
    h->size = size;
    for (i = 0; i < old.size; i++)
        if (old.slot[i].value != NULL)
            h->slot[hash_place(h, old.slot[i].key)] = old.slot[i];
    free(old.slot);
    return 0;
}

int hash_put(struct hash *h, uint64_t key, void *value)
{
    size_t i = h->size > 0 ? hash_place(h, key) : 0;
    int rc;

    if (h->size == 0 || h->slot[i].value == NULL) {
        if (4 * (h->used + 1) > 3 * h->size) {
            rc = hash_resize(h, h->size == 0 ? SIZE_LEAST : 2 * h->size);
            if (rc != 0)
                return rc;
            i = hash_place(h, key);
        }
        h->used++;
    }
    h->slot[i] = (struct hash_slot){key, value};
    return 0;
}

void *hash_remove(struct hash *h, uint64_t key)
{
    size_t hole, i, mask = h->size - 1;
    void *value;

    if (h->size == 0)
        return NULL;
    hole = hash_place(h, key);
    value = h->slot[hole].value;
    if (value == NULL)
        return NULL;
    h->used--;
    /* move back the entries that would no longer be found across the hole */
    for (i = (hole + 1) & mask; h->slot[i].value != NULL; i = (i + 1) & mask) {
        size_t at = hash_home(h, h->slot[i].key);

        if (((i - at) & mask) >= ((i - hole) & mask)) {
            h->slot[hole] = h->slot[i];
            hole = i;
        }
    }
    h->slot[hole].value = NULL;
    if (h->size > SIZE_LEAST && 8 * h->used < h->size)
        (void)hash_resize(h, h->size / 2); /* without memory for that it stays as it is */
    return value;
}

void *hash_next(const struct hash *h, size_t *cursor)
{
    while (*cursor < h->size) {
        void *value = h->slot[(*cursor)++].value;

        if (value != NULL)
            return value;
    }
    return NULL;
}
