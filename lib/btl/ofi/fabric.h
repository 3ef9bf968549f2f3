/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.h: the provider, its endpoint, and the addresses of peers.
 */
#ifndef BTL_OFI_FABRIC_H
#define BTL_OFI_FABRIC_H

#include "btl/ofi/ofi.h"

/* An entry of the address vector, shared by all connections to one endpoint. */
struct ofi_peer {
    struct btl_address address;
    fi_addr_t to;
    uint64_t key;  /* in ofi_endpoint.peers */
    int rank;      /* the peer that has sent the address */
    uint32_t uses; /* connections, and operations of closed ones */
    bool gone;     /* the rank is gone: removed with the last use */
};

int fabric_query(struct error *err);
int fabric_suitable(const struct btl_host *host, struct error *err);
int fabric_open(const struct btl_host *host, struct ofi_endpoint *e, struct error *err);
/* Closes the endpoint with its queue and address vector; registrations may still exist ... */
void fabric_close(struct ofi_endpoint *e);
/* ... and, after they are gone, the domain. */
void fabric_close_domain(struct ofi_endpoint *e);

/*
 * With the lock held: a use of the peer's entry of the address vector. 0, or -errno and an error
 * message.
 */
int fabric_peer_get(struct ofi_endpoint *e, int rank, const struct btl_address *address,
                    struct ofi_peer **out, struct error *err);
/* Ends a use that has nothing outstanding. */
void fabric_peer_put(struct ofi_endpoint *e, struct ofi_peer *p);
/* The entries of a rank that is gone are removed, each with its last use. */
void fabric_peer_gone(struct ofi_endpoint *e, int rank);

/* An address as text; "" if it is malformed. */
void fabric_name(const struct ofi_endpoint *e, const struct btl_address *address, char *text,
                 size_t bytes);

#endif
