/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine_remote.c: what the byzantine rank of byzantine.h does where memory of the victim can be reached by a network: it writes anywhere in what it
 * was shown, with any length and alignment, half over slots and flags; and, `wild`, beyond it, and with keys that were not given to it.
 */
#include "byzantine.h"

#include "rpipe/end/config.h"
#include "rpipe/end/rch.h"
#include "rpipe/data/path_remote.h"

#define BYTES_MOST 300

/* A mirror: what is written from, and fetched into. */
static const struct btl_memory *near_piece(const struct remote_path *n, uint64_t *random)
{
    const struct btl_memory *piece[] = {&n->ring, &n->heap, &n->credit, &n->reverse};

    for (uint64_t i = random_draw(random), tries = 0; tries < 4; tries++)
        if (piece[(i + tries) % 4]->slab != NULL)
            return piece[(i + tries) % 4];
    return NULL;
}

static const struct btl_remote *far_piece(const struct rch *ch, bool reads, uint64_t *random)
{
    const struct btl_remote *remote[] = {&ch->ring_remote, &ch->heap_remote, &ch->reverse_remote,
                                         &ch->credit_remote};
    bool get = ch->cfg.op == OP_GET;

    for (uint64_t i = random_draw(random), tries = 0; tries < 4; tries++) {
        const struct btl_remote *r = remote[(i + tries) % 4];

        if (r->mapping != NULL &&
            (reads || (r != &ch->credit_remote && !(r == &ch->heap_remote && get))))
            return r;
    }
    return NULL;
}

static void spoil(struct btl_transfer *t, struct btl_remote *remote, uint64_t *random)
{
    uint64_t x = random_draw(random);

    *remote = *t->remote;
    t->remote = remote;
    switch (x & 3) {
    case 0:
        remote->key.word[x >> 8 & 1] ^= UINT64_C(1) << (x >> 16 & 63);
        break;
    case 1:
        remote->key.word[0] = draw_number(random);
        break;
    case 2:
        t->remote_offset = t->remote->bytes - 8 + (x >> 8 & 0xffff);
        break;
    default:
        t->remote_offset = draw_number(random);
    }
}

void remote_attack(rch_t ch, bool wild, uint64_t *random)
{
    static struct btl_done done; /* counts what came back; the values are not used */
    uint64_t x = random_draw(random);
    bool fetch = (x & 3) == 0;
    const struct btl_memory *near = near_piece(ch->remote, random);
    const struct btl_remote *far = far_piece(ch, fetch, random);
    struct btl_transfer t = {.bytes = 1 + (x >> 8) % BYTES_MOST};
    struct btl_remote other;
    size_t i;

    if (near == NULL || far == NULL || ch->cells != NULL)
        return;
    if (t.bytes > near->bytes)
        t.bytes = near->bytes;
    if (t.bytes > far->bytes)
        t.bytes = far->bytes;
    t.remote = far;
    t.memory = near;
    t.offset = (x >> 20) % (near->bytes - t.bytes + 1);
    t.remote_offset = (x >> 40) % (far->bytes - t.bytes + 1);
    if ((x >> 60 & 1) != 0)
        t.remote_offset &= ~(uint64_t)7;
    for (i = 0; !fetch && i < t.bytes; i++)
        __atomic_store_n((uint8_t *)near->base + t.offset + i, (uint8_t)random_draw(random),
                         __ATOMIC_RELAXED);
    if (wild && (x >> 52 & 31) == 0)
        spoil(&t, &other, random);
    if (fetch)
        (void)ch->ops->get(ch->remote->connection, &t, &done);
    else
        (void)ch->ops->write(ch->remote->connection, &t, NULL);
    (void)ch->ops->progress(ch->remote->connection);
}
