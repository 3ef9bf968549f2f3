/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.h: memory that the device can access, as struct btl_ops.
 */
#ifndef BTL_VERBS_MEMORY_H
#define BTL_VERBS_MEMORY_H

#include "btl/verbs/verbs.h"

/* Memory in the context of a stream: memory.c. */
struct verbs_copy {
    struct link link;            /* device_context.copies */
    struct verbs_region *region; /* whose copy it is */
    struct ibv_mr *mr;
};

/* The copies of a region, by index of the context; NULL: none. */
struct verbs_copies {
    _Atomic(struct verbs_copy *) in[VERBS_CONTEXTS];
};

/* The registration of a slab, or of memory of the user. */
struct verbs_region {
    struct ibv_mr *mr; /* in the context of the process */
    uint32_t lkey;     /* of `mr` */
    uint32_t access;   /* BTL_PEER_... or BTL_LOCAL */
    int fd;            /* memory of a device: a duplicate, for further contexts; else -1 */
    _Atomic(struct verbs_copies *) copies; /* NULL: none; of a region that exists it only grows */
};

int verbs_memory_open(struct btl *btl, struct error *err);
void verbs_memory_close(struct btl *btl);
/* The protection domain of a context, and the registration of what it needs. 0, or -errno and an error message; to be closed either way. */
int verbs_memory_open_context(struct device_context *context, struct error *err);
void verbs_memory_close_context(struct device_context *context);
/* Registers memory in the context of a stream, if it is not: 0, or -errno and an error message. */
int verbs_memory_copy(struct device_context *context, const struct btl_memory *memory,
                      struct error *err);
/* Memory is in the context of a stream no more: no connection is left there. */
void verbs_memory_leave(struct device_context *context);

/* The registration in the context of a stream; NULL: none yet. */
static inline const struct verbs_copy *verbs_memory_in(const struct device_context *context,
                                                       const struct btl_memory *memory)
{
    struct verbs_region *region = slab_registration(memory);
    /* acquire, twice: pairs with the releases in memory.c */
    struct verbs_copies *copies = atomic_load_explicit(&region->copies, memory_order_acquire);

    return copies != NULL ? atomic_load_explicit(&copies->in[context->index], memory_order_acquire)
                          : NULL;
}

/* The local key in a context, in which the memory is. */
static inline uint32_t verbs_memory_lkey(const struct device_context *context,
                                         const struct btl_memory *memory)
{
    const struct verbs_region *region = slab_registration(memory);

    return LIKELY(context->index == 0) ? region->lkey : verbs_memory_in(context, memory)->mr->lkey;
}

int verbs_alloc(struct btl *btl, int peer, size_t bytes, uint32_t access, bool huge,
                struct btl_memory *memory, struct error *err);
void verbs_free(struct btl *btl, struct btl_memory *memory);
int verbs_share(struct btl *btl, int peer, const struct btl_memory *memory, struct btl_key *key,
                struct error *err);
int verbs_register(struct btl *btl, int peer, void *base, size_t bytes, uint32_t access,
                   struct btl_memory *memory, struct error *err);
int verbs_register_device(struct btl *btl, int peer, void *base, size_t bytes,
                          const struct btl_device *device, uint32_t access,
                          struct btl_memory *memory, struct error *err);
int verbs_attach(struct btl *btl, int peer, const struct btl_key *key, size_t bytes,
                 uint32_t access, struct btl_remote *remote, struct error *err);
void verbs_detach(struct btl *btl, struct btl_remote *remote);
int verbs_connection_key(struct btl_connection *connection, const struct btl_memory *memory,
                         struct btl_key *key, struct error *err);
int verbs_connection_takes(struct btl_connection *connection, const struct btl_remote *remote,
                           struct error *err);

#endif
