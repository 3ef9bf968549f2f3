/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deferred.h: what could not be posted at once, and what outlives a connection.
 *
 * Operations of a closed connection are orphans until they complete. Memory for their peer that is
 * freed meanwhile is freed when the peer has no orphans left. After a failure of a connection the
 * state of its transfers is unknown: the memory of its peer then stays mapped until the backend is
 * closed (slab_quarantine).
 */
#ifndef BTL_OFI_DEFERRED_H
#define BTL_OFI_DEFERRED_H

#include "btl/ofi/ofi.h"

/* ---- inside the endpoint ---- */

/* Posts the steps and writes that the provider did not accept before. */
void deferred_continue(struct ofi_endpoint *e);
/*
 * A connection is closed: its operations become orphans; ORDERED: a flush among them covers what is
 * not flushed.
 */
void deferred_abandon(struct btl_connection *connection);
/* Connections to the peer fail; what was not posted to it is not posted any more. */
void deferred_peer_gone(struct ofi_endpoint *e, int peer);

/* ---- outside of all endpoints ---- */

/* Frees memory, now or when its peer has no orphans left. */
void deferred_free(struct btl *btl, struct btl_memory *memory);
/* Frees the memory whose peer has no orphans left. */
void deferred_free_ready(struct btl *btl);
/* At closing: releases the list; the memory is freed with the slab pool. */
void deferred_release_all(struct btl *btl);

#endif
