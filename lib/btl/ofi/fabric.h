/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.h: the provider and its endpoints: that of the process, and those of streams.
 */
#ifndef BTL_OFI_FABRIC_H
#define BTL_OFI_FABRIC_H

#include "btl/ofi/ofi.h"

int fabric_query(struct error *err);
int fabric_suitable(const struct btl_host *host, struct error *err);
/*
 * Whether one write of two ranges may carry a payload and the slot that announces it: it takes two
 * ranges, and places the bytes of one operation in order.
 */
bool fabric_joins(const struct fi_info *info);
int fabric_open(const struct btl_host *host, struct ofi_endpoint *e, struct error *err);
/*
 * Opens another endpoint of the same provider, with a completion queue and an address vector, in a domain of its own or in that of `first`,
 * the process's. e->stream is set. 0, or -errno and the reason.
 */
int fabric_open_beside(const struct ofi_endpoint *first, bool own_domain, struct ofi_endpoint *e,
                       struct error *err);
/* Closes the endpoint with its queue and address vector; registrations may still exist ... */
void fabric_close(struct ofi_endpoint *e);
/* ... and, after they are gone, the domain. */
void fabric_close_domain(struct ofi_endpoint *e);

#endif
