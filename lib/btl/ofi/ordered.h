/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ordered.h: writes to a provider that places them in the order in which they are posted (ofi.h).
 * Inside the endpoint for all.
 *
 * A connection with `rest` or `rest_slot` accepts nothing: a write that it has accepted is posted
 * completely first.
 */
#ifndef BTL_OFI_ORDERED_H
#define BTL_OFI_ORDERED_H

#include "btl/ofi/ofi.h"

/*
 * Posts payload and slot. 0: accepted; -EAGAIN: nothing has been posted; or the connection's error.
 */
int ordered_write(struct btl_connection *connection, const struct btl_transfer *payload,
                  const struct btl_transfer *slot);
/* Posts the rest of an accepted write. 0; -EAGAIN: a part is left; or the connection's error. */
int ordered_continue(struct btl_connection *connection);

#endif
