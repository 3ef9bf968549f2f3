/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mapping.h: mappings of the segments that peers have passed to this process.
 *
 * A segment is announced with its descriptor, attached to by the keys of its blocks, and revoked.
 * Nothing that a peer sends is trusted: an id belongs to its sender alone, a descriptor is checked
 * before it is mapped (segment.h), a key must be within its segment, and a peer has at most
 * MAPPING_MOST mappings and WAITING_MOST descriptors here.
 *
 * All functions may be called by any thread.
 */
#ifndef BTL_SHM_MAPPING_H
#define BTL_SHM_MAPPING_H

#include "btl/btl.h"
#include "util/error.h"
#include "util/hash.h"

#include <assert.h>
#include <pthread.h>

#define MAPPING_ID_BITS 40 /* of the id of a segment, which its owner chooses */

enum { KEY_SLAB, KEY_OFFSET, KEY_BYTES, KEY_ACCESS }; /* words of struct btl_key */
/* Besides the access: a segment of the user's, and private memory, whose other words are those of cross.h. */
#define KEY_LENT 0x100u
#define KEY_CROSS 0x200u
/* Memory that this backend only passes the descriptor of (descriptor.h). */
#define KEY_DESCRIPTOR 0x400u

/* What the backends of two ranks send each other, with the descriptor of the segment. */
enum shm_message_type { SHM_SEGMENT = 1, SHM_REVOKED = 2, SHM_DESCRIPTOR = 3 };
struct shm_message {
    uint32_t type;
    uint32_t access;
    uint64_t id;
    uint64_t bytes;
};
static_assert(sizeof(struct shm_message) == 24, "on the wire between processes");

struct mapping_table {
    pthread_mutex_t lock;
    int rank;             /* of this process, for error messages */
    struct hash peers;    /* peer → struct mapping_peer */
    struct hash mappings; /* mapping_key → struct mapping */
    _Atomic unsigned warnings;
};

void mapping_table_init(struct mapping_table *table, int rank);
void mapping_table_destroy(struct mapping_table *table);
/* In the child of a fork: makes the lock usable. */
void mapping_table_forked(struct mapping_table *table);

/*
 * A peer announces a segment. The descriptor stays the caller's. A segment that cannot be mapped is
 * recorded too, so that mapping_attach() can report why; where memory or mappings were short, it
 * tries again.
 */
void mapping_announced(struct mapping_table *table, int peer, uint64_t id, uint32_t access,
                       uint64_t bytes, int fd);
/* A peer revokes a segment: it is unmapped with the last detach. */
void mapping_revoked(struct mapping_table *table, int peer, uint64_t id);
/* All segments of the peer are revoked. Nothing of the peer is left after the last detach. */
void mapping_peer_gone(struct mapping_table *table, int peer);

/* As the calls of struct btl_ops. */
int mapping_attach(struct mapping_table *table, int peer, const struct btl_key *key, size_t bytes,
                   uint32_t access, struct btl_remote *remote, struct error *err);
/*
 * As `borrow`. The ids of a peer grow, and are announced in their order: -EAGAIN if this one is above all that have arrived.
 */
int mapping_borrow(struct mapping_table *table, int peer, const struct btl_key *key, size_t bytes,
                   uint32_t access, struct btl_remote *remote, struct error *err);
void mapping_detach(struct mapping_table *table, struct btl_remote *remote);

#endif
