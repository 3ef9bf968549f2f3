/* SPDX-License-Identifier: BSD-3-Clause */
/* attach.h: how an end attaches to memory of the other end, and what the other end needs to attach to its own. */
#ifndef RPIPE_END_ATTACH_H
#define RPIPE_END_ATTACH_H

#include "rpipe/end/rch.h"

/* As the call of the backend; -EPROTO also for memory in huge pages, where this end has not asked
 * for them (RPIPE_HUGE_PAGES). */
int end_attach(struct rch *ch, const struct btl_key *key, size_t bytes, uint32_t access,
               struct btl_remote *remote, struct error *err);
/* The key of memory for the other end. 0, or -errno and an error message. */
int end_key(const struct rch *ch, const struct btl_memory *memory, struct btl_key *key,
            struct error *err);

#endif
