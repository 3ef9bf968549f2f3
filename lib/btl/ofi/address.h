/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address.h: the addresses of peers: their entries in the address vector of an endpoint.
 *
 * An address on the wire is the format and protocol of the provider, so that incompatible ones are
 * detected, followed by the name of the endpoint.
 */
#ifndef BTL_OFI_ADDRESS_H
#define BTL_OFI_ADDRESS_H

#include "btl/ofi/ofi.h"

#include <assert.h>

struct ofi_name { /* struct btl_address.byte */
    uint32_t format, protocol;
    uint8_t byte[BTL_ADDRESS_MAX - 2 - 8 - 1]; /* a zero always follows */
    uint8_t zero;
};
static_assert(offsetof(struct ofi_name, zero) <= BTL_ADDRESS_MAX - 2, "travels in an address");

/* An entry of the address vector, shared by all connections to one endpoint. */
struct ofi_peer {
    struct btl_address address;
    fi_addr_t to;
    uint64_t key;        /* in ofi_endpoint.peers */
    struct ofi_rank *of; /* the peer that has sent the address; NULL: removed with the last use */
    struct link of_rank, idle; /* in its lists */
    uint32_t uses;             /* connections, and operations of closed ones */
};

/* The table of the entries; address_free_all() after the vector is closed. */
void address_init(struct ofi_endpoint *e);
void address_free_all(struct ofi_endpoint *e);

/*
 * Inside the endpoint: a use of the peer's entry of the address vector. 0, or -errno and an error
 * message.
 */
int address_get(struct ofi_endpoint *e, int rank, const struct btl_address *address,
                struct ofi_peer **out, struct error *err);
/* Ends a use that has nothing outstanding. */
void address_put(struct ofi_endpoint *e, struct ofi_peer *p);
/* The entries of a rank that is gone are removed, each with its last use. What it costs depends on
 * that rank alone. */
void address_rank_gone(struct ofi_endpoint *e, int rank);

/* An address as text; "" if it is malformed. */
void address_print(const struct ofi_endpoint *e, const struct btl_address *address, char *text,
                   size_t bytes);

#endif
