/* SPDX-License-Identifier: BSD-3-Clause */
/* names.c: see names.h. Counts stay: a name is never used again. */
#include "coll/engine/names.h"

#include "util/hash.h"

#include <errno.h>
#include <pthread.h>
#include <rpipe.h>
#include <stdio.h>

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hash names_opened; /* how often, plus 1, by hash of context and ranks */

/* All of the context before the ranks: combined with the basis alone, it and the first rank could cancel each other. */
uint64_t name_key(uint64_t context, const int *ranks, int n)
{
    return hash_bytes(hash_bytes(HASH_BASIS, &context, sizeof(context)), ranks,
                      (size_t)n * sizeof(*ranks));
}

int name_take(uint64_t *name, uint64_t context, const int *ranks, int n, struct error *err)
{
    uint64_t key = name_key(context, ranks, n);
    uintptr_t count;
    char text[80];
    int rc;

    pthread_mutex_lock(&names_lock);
    count = (uintptr_t)hash_get(&names_opened, key);
    rc = hash_put(&names_opened, key, (void *)(count + 1));
    pthread_mutex_unlock(&names_lock);
    if (rc != 0)
        return error_set(err, rc, "no memory for the name of a team");
    snprintf(text, sizeof(text), "rcoll %llx.%llx.%llu", (unsigned long long)context,
             (unsigned long long)key, (unsigned long long)count);
    *name = rpipe_context(text);
    return 0;
}
