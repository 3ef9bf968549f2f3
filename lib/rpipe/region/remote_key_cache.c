/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * remote_key_cache.c: the reader of a GET pipe over a network caches keys of the writer's regions, by number (registration.h).
 *
 * A message from a region carries the region's number in its slot and the region's key in its block. So nothing is announced or
 * revoked: a number is never used twice, an entry that was evicted is fetched again, and the entry of a region that has ended is harmless
 * because no message names it any more.
 *
 * Invariant: an entry with users > 0 stays where it is: fetches in flight point to it.
 */
#include "rpipe/region/registration.h"

#include "rpipe/end/state.h"
#include "util/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MOST 64

struct key_cache {
    struct cached_key entry[KEYS_MOST];
    uint32_t last, next; /* the last one found; where the next one is stored */
};

struct cached_key *key_cache_find(struct key_cache *cache, uint64_t number)
{
    uint32_t i;

    if (cache == NULL)
        return NULL;
    if (cache->entry[cache->last].number == number)
        return &cache->entry[cache->last];
    for (i = 0; i < KEYS_MOST; i++)
        if (cache->entry[i].number == number) {
            cache->last = i;
            return &cache->entry[i];
        }
    return NULL;
}

static void key_cache_evict(struct rch *ch, struct cached_key *k)
{
    if (k->remote.mapping != NULL)
        ch->ops->detach(ch->btl, &k->remote);
    *k = (struct cached_key){0};
}

static struct cached_key *key_cache_free_entry(struct key_cache *cache)
{
    struct cached_key *k = NULL;
    uint32_t i;

    for (i = 0; i < KEYS_MOST && cache != NULL && k == NULL; i++) {
        k = &cache->entry[cache->next];
        cache->next = (cache->next + 1) % KEYS_MOST;
        if (k->users > 0)
            k = NULL;
    }
    return k;
}

struct cached_key *key_cache_add(struct rch *ch, struct key_cache **cache, uint64_t number,
                                 const void *note, int *error)
{
    struct cached_key *k;
    struct region_note n;
    struct error err = {""};

    memcpy(&n, note, sizeof(n));
    if (n.magic != REGION_MAGIC || n.region != number) {
        *error = end_fail(
            ch, -EPROTO,
            "rank %d sends a message from its region %llu, but its block names region %llu",
            ch->peer, (unsigned long long)number, (unsigned long long)n.region);
        return NULL;
    }
    if (*cache == NULL)
        *cache = calloc(1, sizeof(**cache));
    k = key_cache_free_entry(*cache);
    if (k == NULL)
        return NULL; /* there is an entry when a fetch before this one has been taken, or memory */
    key_cache_evict(ch, k);
    if (ch->ops->attach(ch->btl, ch->peer, &n.key, (size_t)n.bytes, BTL_PEER_READS, &k->remote,
                        &err) != 0) {
        *error = end_fail(ch, -EPROTO, "region %llu of rank %d cannot be attached: %s",
                          (unsigned long long)number, ch->peer, err.text);
        return NULL;
    }
    k->remote.bytes = (size_t)n.bytes;
    k->number = number;
    return k;
}

void key_cache_release(struct rch *ch, struct key_cache *cache)
{
    uint32_t i;

    if (cache == NULL)
        return;
    for (i = 0; i < KEYS_MOST; i++)
        key_cache_evict(ch, &cache->entry[i]);
    free(cache);
}
