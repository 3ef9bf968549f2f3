/* SPDX-License-Identifier: BSD-3-Clause */
/* places.c: see places.h. */
#include "msg/places.h"

#include <string.h>

void places_init(struct places *p)
{
    memset(p, 0, sizeof(*p));
    for (uint32_t i = 0; i < PLACES_STORED; i++)
        p->all[i].next = i + 1 < PLACES_STORED ? &p->all[i + 1] : NULL;
    p->free = &p->all[0];
}

static inline size_t places_hash(uint32_t space, uint32_t tag)
{
    return (((uint64_t)space << 32 | tag) * UINT64_C(0x9e3779b97f4a7c15)) >> 58;
}

static inline struct places_stored **places_bin(struct places *p, uint32_t space, uint32_t tag)
{
    return &p->bin[places_hash(space, tag)];
}

static inline bool places_is(const struct places_stored *s, uint32_t space, uint32_t tag)
{
    return s->tag == tag && s->space == space;
}

static void places_remove(struct places *p, struct places_stored **at)
{
    struct places_stored *s = *at;

    *at = s->next;
    s->next = p->free;
    p->free = s;
    p->stored--;
}

bool places_next(const struct places *p, uint32_t space, uint32_t tag, struct places_rtr *rtr)
{
    const struct places_stored *s = p->bin[places_hash(space, tag)];

    while (s != NULL && !places_is(s, space, tag))
        s = s->next;
    if (s == NULL || s->left > 0)
        return false;
    *rtr = s->rtr;
    return true;
}

bool places_take_stored(struct places *p, uint32_t space, uint32_t tag, struct places_rtr *rtr)
{
    struct places_stored **at = places_bin(p, space, tag);

    while (*at != NULL && !places_is(*at, space, tag))
        at = &(*at)->next;
    if (*at == NULL)
        return false;
    if ((*at)->left > 0) {
        (*at)->left--;
        return false;
    }
    *rtr = (*at)->rtr;
    places_remove(p, at);
    return true;
}

/* Stores an RTR for the message after `distance` more of its space and tag. */
static enum places_verdict places_store(struct places *p, uint32_t space, uint32_t tag,
                                        uint32_t distance, const struct places_rtr *rtr)
{
    struct places_stored **at = places_bin(p, space, tag), *s = p->free;
    uint64_t before = 0;

    for (; *at != NULL; at = &(*at)->next)
        if (places_is(*at, space, tag))
            before += (uint64_t)(*at)->left + 1;
    if (s == NULL || before > distance)
        return PLACES_INVALID;
    p->free = s->next;
    *s = (struct places_stored){
        .rtr = *rtr, .tag = tag, .space = space, .left = distance - (uint32_t)before};
    *at = s;
    p->stored++;
    return PLACES_KEPT;
}

enum places_verdict places_rtr(struct places *p, uint32_t space, uint32_t tag, uint64_t seen,
                               uint32_t skip, const struct places_rtr *rtr, uint32_t *offered)
{
    uint32_t n = 0;

    if (seen > p->sent)
        return PLACES_INVALID;
    if (p->sent - seen > PLACES_LOG)
        return PLACES_REFUSED;
    for (uint64_t number = seen + 1; number <= p->sent; number++) {
        const struct places_entry *e = &p->log[number & (PLACES_LOG - 1)];

        if (e->tag != tag || e->space != space || n++ != skip)
            continue;
        *offered = e->offered;
        return e->offered != 0 ? PLACES_OFFERED : PLACES_SENT;
    }
    return places_store(p, space, tag, skip - n, rtr);
}

void places_undo(struct places *p, uint32_t space, uint32_t tag, uint32_t number)
{
    struct places_stored **at = places_bin(p, space, tag);

    while (*at != NULL) {
        if (places_is(*at, space, tag) && (int32_t)((*at)->rtr.number - number) >= 0)
            places_remove(p, at);
        else
            at = &(*at)->next;
    }
}
