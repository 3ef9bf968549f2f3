/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cross.h: private memory of a process that a peer of the same host reaches by process_vm_readv and
 * process_vm_writev (doc/windows.md "Cross-memory attach").
 *
 * Memory that is lent has a record in its owner: a random cookie, and what may be accessed. The key
 * has the address of the record. The peer compares the record with the key when it attaches, and the
 * cookie with every transfer: in the system call of a fetch, in one before that of a write. So a
 * transfer that begins after the memory was lent accesses neither it nor a process that has got the
 * pid of one that has ended; a write may, if that happens between its two system calls.
 *
 * Invariants
 * 1. A record stays allocated until cross_destroy; its cookie is 0 while nothing is lent by it, before
 *    its memory is freed, and in the child of a fork.
 * 2. The pid is that of the peer's card (btl_host.process), which no message of the peer to this
 *    process changes. The kernel confirms it where the peer greets; the cookie shows the process in
 *    every case.
 *
 * All functions may be called by any thread.
 */
#ifndef BTL_SHM_CROSS_H
#define BTL_SHM_CROSS_H

#include "btl/btl.h"

#include <pthread.h>

struct cross_lent;

struct cross {
    const struct btl_host *host;
    pthread_mutex_t lock;
    struct cross_lent *_Atomic all, *free;
};

void cross_init(struct cross *cross, const struct btl_host *host);
void cross_destroy(struct cross *cross);
/* In the child of a fork: makes the lock usable, and the child's copies of the records name nothing. */
void cross_forked(struct cross *cross);

/* As `lend` without a segment, and as free. */
int cross_lend(struct cross *cross, void *base, size_t bytes, uint32_t access,
               struct btl_memory *memory, struct error *err);
void cross_end(struct cross *cross, struct btl_memory *memory);

/* As the calls of struct btl_ops. */
int cross_borrow(struct cross *cross, int peer, const struct btl_key *key, size_t bytes,
                 uint32_t access, struct btl_remote *remote, struct error *err);
int cross_copy(const struct btl_remote *remote, uint64_t offset, void *memory, size_t bytes,
               bool to_peer, struct error *err);
void cross_detach(struct btl_remote *remote);

#endif
