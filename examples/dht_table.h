/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dht_table.h: one process's part of a distributed hash table, and the keys that the programs put
 * there.
 *
 * Open addressing: a key goes to the first free slot from the one that its hash names, within the
 * part of its owner. --fill sets how full the parts are, so that keys collide. A key is never 0,
 * which is an empty slot. All keys differ, and each process can compute the nth key of any other,
 * and the value that belongs to it.
 */
#ifndef EXAMPLES_DHT_TABLE_H
#define EXAMPLES_DHT_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "app.h"

struct dht_pair {
    uint64_t key, value;
};

struct dht_part {
    struct dht_pair *slot;
    uint64_t slots; /* a power of two */
    uint64_t entries;
};

struct dht_options {
    uint32_t inserts, lookups; /* of each process */
    uint32_t fill;             /* per cent of the slots that are in use at the end, at most */
    uint32_t batch;            /* elements of a message */
};

#define DHT_OPTIONS_DEFAULT                                                                        \
    {                                                                                              \
        1000000, 1000000, 50, 256                                                                  \
    }

#define DHT_OPTION_TABLE(o)                                                                        \
    APP_NUMBER("inserts", 'i', &(o).inserts, 0, 100000000, "Keys that each process inserts"),      \
        APP_NUMBER("lookups", 'l', &(o).lookups, 0, 100000000,                                     \
                   "Lookups by each process; every eighth key is not in the table"),               \
        APP_NUMBER("fill", 'f', &(o).fill, 1, 90,                                                  \
                   "Per cent of the slots that are in use in the end"),                            \
        APP_NUMBER("batch", 'B', &(o).batch, 1, 65536, "Elements of a message")

/* ---- keys ---- */

static inline uint64_t dht_key(uint32_t process, uint32_t n)
{
    return app_mix((uint64_t)process << 32 | (n + 1u));
}
static inline uint64_t dht_value(uint64_t key)
{
    return app_mix(key + 0x9e3779b97f4a7c15u) | 1;
} /* never 0 */
static inline int dht_owner(uint64_t key, int nranks)
{
    return (int)((key >> 44) * (uint64_t)nranks >> 20);
}

/*
 * The key of the nth lookup of a process: a key of the next
 * process, but every eighth was never inserted.
 */
static inline uint64_t dht_lookup_key(const struct dht_options *o, int rank, int nranks, uint32_t n)
{
    if (n % 8 == 7 || o->inserts == 0)
        return dht_key((uint32_t)rank, 0x80000000u + n);
    return dht_key((uint32_t)((rank + 1) % nranks), n % o->inserts);
}

/* What a lookup must find; 0: nothing. */
static inline uint64_t dht_lookup_value(const struct dht_options *o, uint64_t key, uint32_t n)
{
    return n % 8 == 7 || o->inserts == 0 ? 0 : dht_value(key);
}

/* A digest of keys and values in any order: the sum of this. */
static inline uint64_t dht_mark(uint64_t key, uint64_t value)
{
    return app_mix(key ^ app_mix(value));
}

/* ---- a part ---- */

/* Keys are dealt out by their hash, so some part gets more than the mean: some more slots. */
static inline uint64_t dht_slots(const struct dht_options *o)
{
    uint64_t wanted = (uint64_t)o->inserts * 100 / o->fill + 64, slots = 64;

    while (slots < wanted)
        slots *= 2;
    return slots;
}

static inline uint64_t dht_slot(uint64_t key, uint64_t slots) { return key & (slots - 1); }

/* 0: the part is full */
static inline int dht_insert(struct dht_part *t, uint64_t key, uint64_t value)
{
    uint64_t at = dht_slot(key, t->slots);

    for (uint64_t tries = 0; tries < t->slots; tries++, at = (at + 1) & (t->slots - 1)) {
        if (t->slot[at].key == key)
            return 1;
        if (t->slot[at].key != 0)
            continue;
        t->slot[at].key = key;
        t->slot[at].value = value;
        t->entries++;
        return 1;
    }
    return 0;
}

static inline uint64_t dht_find(const struct dht_part *t, uint64_t key)
{
    uint64_t at = dht_slot(key, t->slots);

    for (uint64_t tries = 0; tries < t->slots; tries++, at = (at + 1) & (t->slots - 1)) {
        if (t->slot[at].key == key)
            return t->slot[at].value;
        if (t->slot[at].key == 0)
            return 0;
    }
    return 0;
}

/* A batch is known in advance, so slots are on their way to the cache before it is their turn. */
enum { DHT_AHEAD = 12 };

static inline void dht_prefetch(const struct dht_part *t, uint64_t key)
{
    __builtin_prefetch(&t->slot[dht_slot(key, t->slots)], 1);
}

/* words: key, value, key, value ... 0: the part is full */
static inline int dht_insert_batch(struct dht_part *t, const uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i + DHT_AHEAD < count)
            dht_prefetch(t, words[2 * (i + DHT_AHEAD)]);
        if (!dht_insert(t, words[2 * i], words[2 * i + 1]))
            return 0;
    }
    return 1;
}

/* keys to pairs; the value is 0 where there is none */
static inline void dht_find_batch(const struct dht_part *t, const uint64_t *keys, size_t count,
                                  uint64_t *pairs)
{
    for (size_t i = 0; i < count; i++) {
        if (i + DHT_AHEAD < count)
            dht_prefetch(t, keys[i + DHT_AHEAD]);
        pairs[2 * i] = keys[i];
        pairs[2 * i + 1] = dht_find(t, keys[i]);
    }
}

static inline uint64_t dht_digest(const struct dht_part *t)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < t->slots; i++)
        if (t->slot[i].key != 0)
            sum += dht_mark(t->slot[i].key, t->slot[i].value);
    return sum;
}

/* What the digests of all parts must add up to. */
static inline uint64_t dht_expected(const struct dht_options *o, int nranks)
{
    uint64_t sum = 0;

    for (uint32_t r = 0; r < (uint32_t)nranks; r++)
        for (uint32_t n = 0; n < o->inserts; n++)
            sum += dht_mark(dht_key(r, n), dht_value(dht_key(r, n)));
    return sum;
}

#endif
