/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * known.c: what the reader of a GET pipe over a network knows of the writer's regions: a cache, by number (region.h).
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

struct known {
    struct region_known entry[KNOWN_MOST];
    uint32_t last, next; /* found last; where to look for room */
};

struct region_known *known_find(struct rch *ch, uint64_t number)
{
    struct known *known = ch->net->known;
    uint32_t i;

    if (known == NULL)
        return NULL;
    if (known->entry[known->last].number == number)
        return &known->entry[known->last];
    for (i = 0; i < KNOWN_MOST; i++)
        if (known->entry[i].number == number) {
            known->last = i;
            return &known->entry[i];
        }
    return NULL;
}

static void forget(struct rch *ch, struct region_known *k)
{
    if (k->remote.window != NULL)
        ch->ops->detach(ch->btl, &k->remote);
    *k = (struct region_known){0};
}

static void refuse(struct rch *ch, int *error, const char *why)
{
    char reason[320];

    snprintf(reason, sizeof(reason), "rank %d sends a message from a region of its own that cannot be reached: %s",
             ch->peer, why);
    join_fail(ch, -EPROTO, reason);
    *error = fail(ch, -EPROTO, "%s", reason);
}

struct region_known *known_add(struct rch *ch, uint64_t number, const void *note, int *error)
{
    struct known *known = ch->net->known;
    struct region_known *k = NULL;
    struct region_note n;
    char why[256] = "";
    uint32_t i;

    memcpy(&n, note, sizeof(n));
    if (n.magic != REGION_MAGIC || n.region != number) {
        refuse(ch, error, "its block names another one");
        return NULL;
    }
    if (known == NULL)
        known = ch->net->known = calloc(1, sizeof(*known));
    for (i = 0; i < KNOWN_MOST && known != NULL && k == NULL; i++) {
        k = &known->entry[known->next];
        known->next = (known->next + 1) % KNOWN_MOST;
        if (k->users > 0)
            k = NULL;
    }
    if (k == NULL)
        return NULL; /* when one of the fetches before this one is taken, there is room; or memory */
    forget(ch, k);
    if (ch->ops->attach(ch->btl, ch->peer, &n.key, (size_t)n.bytes, BTL_PEER_READS, &k->remote, why, sizeof(why)) !=
        0) {
        refuse(ch, error, why);
        return NULL;
    }
    k->remote.bytes = (size_t)n.bytes;
    k->number = number;
    return k;
}

void known_forget(struct rch *ch)
{
    struct known *known = ch->net->known;
    uint32_t i;

    if (known == NULL)
        return;
    for (i = 0; i < KNOWN_MOST; i++)
        forget(ch, &known->entry[i]);
    free(known);
    ch->net->known = NULL;
}
