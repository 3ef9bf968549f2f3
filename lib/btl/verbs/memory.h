/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.h: memory that the device can access, as struct btl_ops.
 */
#ifndef BTL_VERBS_MEMORY_H
#define BTL_VERBS_MEMORY_H

#include "btl/verbs/verbs.h"

int verbs_memory_open(struct btl *btl, struct error *err);
void verbs_memory_close(struct btl *btl);
int verbs_alloc(struct btl *btl, int peer, size_t bytes, uint32_t access, bool huge,
                struct btl_memory *memory, struct error *err);
void verbs_free(struct btl *btl, struct btl_memory *memory);
int verbs_share(struct btl *btl, int peer, const struct btl_memory *memory, struct btl_key *key,
                struct error *err);
int verbs_register(struct btl *btl, int peer, void *base, size_t bytes, uint32_t access,
                   struct btl_memory *memory, struct error *err);
int verbs_register_device(struct btl *btl, int peer, void *base, size_t bytes, int fd,
                          uint32_t access, struct btl_memory *memory, struct error *err);
int verbs_attach(struct btl *btl, int peer, const struct btl_key *key, size_t bytes,
                 uint32_t access, struct btl_remote *remote, struct error *err);
void verbs_detach(struct btl *btl, struct btl_remote *remote);

#endif
