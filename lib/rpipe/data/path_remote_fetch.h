/* SPDX-License-Identifier: BSD-3-Clause */
/* path_remote_fetch.h: the reader of a GET pipe over a network: payloads (path_remote_fetch.c). */
#ifndef RPIPE_DATA_PATH_REMOTE_FETCH_H
#define RPIPE_DATA_PATH_REMOTE_FETCH_H

#include "rpipe/data/path_remote.h"

int remote_fetches_open(struct rch *ch, struct error *err);
void remote_fetches_release(struct rch *ch); /* the connection is closed */
/* Takes slots and requests their payloads, as far as there are free entries. 0, or the violation of a slot. */
int remote_fetch_ahead(struct rch *ch);
bool remote_first_is_fetched(const struct rch *ch);
bool remote_first_size(const struct rch *ch,
                       size_t *size);              /* of the oldest message, if there is one */
struct rdesc *remote_take_fetched(struct rch *ch); /* the oldest message, which is fetched */
bool remote_fetches_pending(const struct remote_path *n);
void remote_want(struct rch *ch, const struct placement *place);
bool remote_placed(const struct rch *ch);
int remote_placements_drain(struct rch *ch);

#endif
