/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * descriptor.h: descriptors of memory that peers have passed and that this process does not map: memory of devices.
 *
 * Only the program's table of calls can check what such a descriptor is (rmemory_ops_t), so it is kept as it came, closed when the
 * peer revokes it or is gone, and nothing else is done with it. A peer has at most DESCRIPTORS_MOST of them here beside those that ends
 * and windows of this process use.
 *
 * All functions may be called by any thread.
 */
#ifndef BTL_SHM_DESCRIPTOR_H
#define BTL_SHM_DESCRIPTOR_H

#include "util/error.h"
#include "util/list.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define DESCRIPTORS_MOST 64

struct descriptor_table {
    pthread_mutex_t lock;
    struct link all;       /* struct descriptor */
    struct link peers;     /* struct descriptor_peer */
    void (*close)(int fd); /* btl_host.close_received */
    _Atomic unsigned warnings;
};

void descriptor_table_init(struct descriptor_table *table, void (*close_received)(int fd));
void descriptor_table_destroy(struct descriptor_table *table);
/* In the child of a fork: makes the lock usable. */
void descriptor_table_forked(struct descriptor_table *table);

/* The descriptor stays the caller's. */
void descriptor_announced(struct descriptor_table *table, int peer, uint64_t id, uint64_t bytes,
                          int fd);
void descriptor_revoked(struct descriptor_table *table, int peer, uint64_t id);
void descriptor_peer_gone(struct descriptor_table *table, int peer);
/*
 * *fd: a duplicate, the caller's. -EPROTO: the peer has passed none with this id and at least so many bytes. The ids of a peer grow, and
 * are announced in their order: -EAGAIN if this one is above all that have arrived.
 */
int descriptor_borrow(struct descriptor_table *table, int peer, uint64_t id, size_t bytes, int *fd,
                      struct error *err);

#endif
