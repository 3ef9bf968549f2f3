/* SPDX-License-Identifier: BSD-3-Clause */
/* path_remote_eager.h: GET over a network: payloads that are written with their slot (path_remote_eager.c). */
#ifndef RPIPE_DATA_PATH_REMOTE_EAGER_H
#define RPIPE_DATA_PATH_REMOTE_EAGER_H

#include "rpipe/data/path_remote.h"

/* Reader: whether the writer may write into the mirror. Before the mirror is allocated. */
void remote_eager_open(struct rch *ch);
const struct btl_key *remote_eager_key(const struct rch *ch, uint64_t *most);
int remote_eager_attach(struct rch *ch, const struct btl_key *key, uint64_t most,
                        struct error *err);
void remote_eager_release(struct rch *ch); /* the connection is closed */

/* Writer: this message of `bytes` bytes, with a block, comes with its payload. */
bool remote_eager_carries(const struct rch *ch, const struct rdesc *d, size_t bytes);
struct btl_transfer remote_eager_payload(const struct rch *ch, const struct rdesc *d, size_t bytes);

/* Reader: 0, or the violation of a slot that is marked and may not be. */
int remote_eager_check(struct rch *ch, const struct slot *copy);

#endif
