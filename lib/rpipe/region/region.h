/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.h: the user's own memory: rregion_open, rwrite_from, rread_into (doc/regions.md).
 *
 *   region.c        regions, and their registrations with networks
 *   region_write.c  the writer: messages from a region, and when it may be touched again
 *   region_read.c   the reader: messages into a region
 *   remote_key_cache.c         the reader of a GET pipe: regions of the other end, as far as they are known
 *
 * A region is the program's memory, or one block of a pipe's heap (`own`): then messages are parts of that block, and nothing is
 * ever copied.
 *
 * Invariants
 * 1. region.busy counts what may still reach for the region: flights, parts that the reader has, fetches into it. It is 0 before a
 *    registration is withdrawn or the block is given back.
 * 2. Registrations are appended, never removed before the region goes: they are looked for without a lock. The list of a pipe's own
 *    regions, and their parts, are looked at under the lock of that end, where it has one (thread_sync).
 * 3. A word `*done` is written by calls of its end alone, once: 1, or what went wrong.
 * 4. Flights are in the order of their messages; a flight that was given up stays in the books, and its region busy, until the line is
 *    closed: the device may reach for the memory until then.
 */
#ifndef RPIPE_REGION_REGION_H
#define RPIPE_REGION_REGION_H

#include "rpipe/end/end.h"
#include "rpipe/end/feature.h"

/* What a slot says of a message whose payload is in a region of the writer's, and, in its block, how that is reached. */
struct region_note {
    uint32_t magic, zero;
    uint64_t region; /* its number, never used for another one by this process */
    uint64_t bytes;  /* of the region */
    struct btl_key key;
    uint64_t reserved;
};
#define REGION_NOTE_BYTES 64
#define REGION_MAGIC 0x67657272u /* "rreg" */
static_assert(sizeof(struct region_note) == REGION_NOTE_BYTES, "on the wire");

struct registration { /* with one network, for one peer */
    struct registration *next;
    const struct btl_ops *ops;
    struct btl *btl;
    int peer;
    uint32_t access;
    struct btl_memory memory;
};

struct rregion {
    _Atomic uint32_t open; /* not given back */
    _Atomic uint32_t busy;
    char *base;
    size_t bytes;
    uint64_t number;
    struct registration *_Atomic registrations;
    /* a block of a pipe's heap */
    struct rch *own;     /* whose; NULL: the program's memory */
    _Atomic bool orphan; /* that pipe has been closed: nobody of it looks at this any more */
    struct rdesc *block; /* the user's, as after rmalloc */
    struct rdesc *parts; /* of it, that the reader has; by .next */
    struct rregion *next;
};

/* Where the payload of a message lies. */
struct region_source {
    struct rregion *region;
    const struct btl_memory *memory;
    size_t offset;
    int *done;
};

/* A message from a region over a network, until nobody fetches its payload any more. */
struct region_transfer {
    struct rregion *region;
    int *done;
    uint64_t sequence;
};

/* Where the reader of a GET pipe wants a payload. */
struct placement {
    struct rregion *region; /* NULL: nowhere but in the mirror */
    const struct btl_memory *memory;
    size_t offset, room;
};

/* ---- region.c ---- */
/* 0: offset and bytes lie in this region, which is open and may be used with ch; else the code, with a sentence */
int region_check(struct rch *ch, const char *call, rregion_t region, size_t offset, size_t bytes);
/* As a piece that this end's transfers can use, registered if it is not yet. 0, or why the network does not take it. */
int region_memory(struct rch *ch, const char *call, struct rregion *region,
                  const struct btl_memory **memory);
/* rclose: until no transfer from or to the program's memory is under way; 0, -ETIMEDOUT, or what is wrong */
int region_wait(struct rch *ch, const char *call);
extern const struct end_feature region_feature;
static inline void region_hold(struct rregion *r)
{
    atomic_fetch_add_explicit(&r->busy, 1, memory_order_relaxed);
}
/* release: the transfer's last touch comes before the memory is given back. Pairs with rregion_close */
static inline void region_unhold(struct rregion *r)
{
    atomic_fetch_sub_explicit(&r->busy, 1, memory_order_release);
}

/* ---- region_write.c ---- */
bool region_transfers_reserve(struct rch *ch); /* one more can be noted */
void region_transfer_posted(struct rch *ch, const struct region_source *from, uint64_t sequence);
void region_transfers_complete(
    struct rch *ch); /* what is known of slots read, of flushes, and of fetches, has grown */
void region_part_returned(struct rch *ch, struct rdesc *d); /* the reader has freed it */
void region_abort(struct rch *ch,
                  int code); /* the other end is of no more use: every word gets the code */
int region_wait_transfers(struct rch *ch, const char *call);
void region_release(struct rch *ch); /* the line is closed */
bool region_in_flight(const struct rch *ch);
void region_note_write(struct rch *ch, struct rdesc *d, const struct region_source *from);

/* ---- region_read.c ---- */
int region_wait_placements(struct rch *ch, const char *call);

/* ---- remote_key_cache.c ---- */
struct key_cache; /* what a GET reader knows */
struct cached_key {
    uint64_t number;
    struct btl_remote remote;
    uint32_t users; /* fetches that are not taken */
};
struct cached_key *key_cache_find(struct rch *ch, uint64_t number); /* NULL: not known */
/* From the note that has been fetched. NULL: no room now; *error: it cannot be, and has been told. */
struct cached_key *key_cache_add(struct rch *ch, uint64_t number, const void *note, int *error);
void key_cache_release(struct rch *ch); /* the line is closed */

#endif
