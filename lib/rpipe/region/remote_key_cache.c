/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * remote_key_cache.c: what the reader of a GET pipe over a network knows of the writer's regions: a cache, by number (region.h).
 *
 * A message from a region carries the region's number in its slot, and in its block, for whoever does not know that number, how the
 * region is reached. So nothing has to be told beforehand or taken back: a number is never used twice, one that was forgotten is asked
 * for again, and what is known of a region that is gone is of no harm, because no message names it any more.
 *
 * Invariant: an entry with users > 0 stays where it is: fetches under way point to it.
 */
#include "rpipe/data/attempt.h"
#include "rpipe/data/path_remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KNOWN_MOST 64

struct key_cache {
    struct cached_key entry[KNOWN_MOST];
    uint32_t last, next; /* found last; where to look for room */
};

struct cached_key *key_cache_find(struct rch *ch, uint64_t number)
{
    struct key_cache *key_cache = ch->remote->key_cache;
    uint32_t i;

    if (key_cache == NULL)
        return NULL;
    if (key_cache->entry[key_cache->last].number == number)
        return &key_cache->entry[key_cache->last];
    for (i = 0; i < KNOWN_MOST; i++)
        if (key_cache->entry[i].number == number) {
            key_cache->last = i;
            return &key_cache->entry[i];
        }
    return NULL;
}

static void key_cache_forget(struct rch *ch, struct cached_key *k)
{
    if (k->remote.mapping != NULL)
        ch->ops->detach(ch->btl, &k->remote);
    *k = (struct cached_key){0};
}

static void key_cache_refuse(struct rch *ch, int *error, const char *why)
{
    char reason[320];

    snprintf(reason, sizeof(reason),
             "rank %d sends a message from a region of its own that cannot be reached: %s",
             ch->peer, why);
    join_fail(ch, -EPROTO, reason);
    *error = end_error(ch, -EPROTO, "%s", reason);
}

struct cached_key *key_cache_add(struct rch *ch, uint64_t number, const void *note, int *error)
{
    struct key_cache *key_cache = ch->remote->key_cache;
    struct cached_key *k = NULL;
    struct region_note n;
    struct error err = {""};
    uint32_t i;

    memcpy(&n, note, sizeof(n));
    if (n.magic != REGION_MAGIC || n.region != number) {
        key_cache_refuse(ch, error, "its block names another one");
        return NULL;
    }
    if (key_cache == NULL)
        key_cache = ch->remote->key_cache = calloc(1, sizeof(*key_cache));
    for (i = 0; i < KNOWN_MOST && key_cache != NULL && k == NULL; i++) {
        k = &key_cache->entry[key_cache->next];
        key_cache->next = (key_cache->next + 1) % KNOWN_MOST;
        if (k->users > 0)
            k = NULL;
    }
    if (k == NULL)
        return NULL; /* when one of the fetches before this one is taken, there is room; or memory */
    key_cache_forget(ch, k);
    if (ch->ops->attach(ch->btl, ch->peer, &n.key, (size_t)n.bytes, BTL_PEER_READS, &k->remote,
                        &err) != 0) {
        key_cache_refuse(ch, error, err.text);
        return NULL;
    }
    k->remote.bytes = (size_t)n.bytes;
    k->number = number;
    return k;
}

void key_cache_release(struct rch *ch)
{
    struct key_cache *key_cache = ch->remote->key_cache;
    uint32_t i;

    if (key_cache == NULL)
        return;
    for (i = 0; i < KNOWN_MOST; i++)
        key_cache_forget(ch, &key_cache->entry[i]);
    free(key_cache);
    ch->remote->key_cache = NULL;
}
