/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hash.h: table from 64-bit keys to pointers, and a hash of bytes.
 *
 * Open addressing with linear probing, at most three quarters full, removal by shifting back (no
 * tombstones). Invariant: between the home of a key and its place no slot is empty. A value is
 * never NULL. Not for the data path: it grows, and becomes smaller again when it is an eighth full.
 * Keys may be chosen by a peer: their places depend on a secret of this process.
 */
#ifndef UTIL_HASH_H
#define UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash {
    struct hash_slot *slot;
    size_t size; /* a power of two, or 0 */
    size_t used;
};

void hash_init(struct hash *h);
void hash_free(struct hash *h); /* the table, not the values */
void *hash_get(const struct hash *h, uint64_t key);
/* 0 or -ENOMEM. To replace a value cannot fail. */
int hash_put(struct hash *h, uint64_t key, void *value);
void *hash_remove(struct hash *h, uint64_t key); /* the value that was there, or NULL */
/* Steps through all values: start with *cursor 0; NULL at the end. The table must not change
 * meanwhile. */
void *hash_next(const struct hash *h, size_t *cursor);

/* Of these bytes, with the secret of this process: not for what leaves it. */
uint64_t hash_secret_bytes(const void *bytes, size_t n);

#define HASH_BASIS UINT64_C(0xcbf29ce484222325)

/*
 * FNV-1a of these bytes, with another basis another hash: the same in all processes, and no
 * protection from a peer that chooses the bytes.
 */
static inline uint64_t hash_bytes(uint64_t basis, const void *bytes, size_t n)
{
    const unsigned char *byte = bytes;

    for (size_t i = 0; i < n; i++)
        basis = (basis ^ byte[i]) * UINT64_C(0x100000001b3);
    return basis;
}

/* The same of n words, lowest byte first. */
static inline uint64_t hash_words(uint64_t basis, const uint64_t *word, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (unsigned bit = 0; bit < 64; bit += 8)
            basis = (basis ^ (word[i] >> bit & 0xff)) * UINT64_C(0x100000001b3);
    return basis;
}

#endif
