/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hash.c: see hash.h.
 *
 * The place of a key is SipHash-1-3 of it, with a secret of this process: a peer that chooses keys cannot find those that share
 * a place.
 */
#include "util/hash.h"

#include "util/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define SIZE_LEAST 16

static uint64_t hash_key[2];
static pthread_once_t hash_key_once = PTHREAD_ONCE_INIT;

struct hash_slot {
    uint64_t key;
    void *value; /* NULL: empty */
};

/* ---- a hash with a secret ---- */

static void hash_draw_key(void)
{
    if (getrandom(hash_key, sizeof(hash_key), GRND_NONBLOCK) == (ssize_t)sizeof(hash_key))
        return;
    /* a sandbox without it: what other processes do not see */
    hash_key[0] = (uint64_t)clock_now() ^ (uint64_t)(uintptr_t)&hash_key << 16;
    hash_key[1] = (uint64_t)(uintptr_t)__builtin_frame_address(0) ^ (uint64_t)getpid() << 48;
}

static inline uint64_t hash_rotate(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

struct hash_state {
    uint64_t v[4];
};

static inline void hash_round(struct hash_state *s)
{
    s->v[0] += s->v[1];
    s->v[2] += s->v[3];
    s->v[1] = hash_rotate(s->v[1], 13) ^ s->v[0];
    s->v[3] = hash_rotate(s->v[3], 16) ^ s->v[2];
    s->v[0] = hash_rotate(s->v[0], 32);
    s->v[2] += s->v[1];
    s->v[0] += s->v[3];
    s->v[1] = hash_rotate(s->v[1], 17) ^ s->v[2];
    s->v[3] = hash_rotate(s->v[3], 21) ^ s->v[0];
    s->v[2] = hash_rotate(s->v[2], 32);
}

static inline void hash_word(struct hash_state *s, uint64_t word)
{
    s->v[3] ^= word;
    hash_round(s);
    s->v[0] ^= word;
}

static inline uint64_t hash_sip(const uint64_t key[2], const void *bytes, size_t n)
{
    struct hash_state s = {
        {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
         key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)}};
    const unsigned char *at = bytes;
    uint64_t word, last = 0;
    size_t i;

    for (i = 0; i + sizeof(word) <= n; i += sizeof(word)) {
        memcpy(&word, at + i, sizeof(word));
        hash_word(&s, word);
    }
    memcpy(&last, at + i, n - i);
    hash_word(&s, last | (uint64_t)n << 56);
    s.v[2] ^= 0xff;
    for (i = 0; i < 3; i++)
        hash_round(&s);
    return s.v[0] ^ s.v[1] ^ s.v[2] ^ s.v[3];
}

uint64_t hash_secret_bytes(const void *bytes, size_t n)
{
    pthread_once(&hash_key_once, hash_draw_key);
    return hash_sip(hash_key, bytes, n);
}

/* ---- the table ---- */

/* The table has slots, so that the key has been drawn. */
static size_t hash_home(const struct hash *h, uint64_t key)
{
    return (size_t)hash_sip(hash_key, &key, sizeof(key)) & (h->size - 1);
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
    pthread_once(&hash_key_once, hash_draw_key);
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
