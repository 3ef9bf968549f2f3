/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.h: registration of memory with the domain of the process, and with those of streams.
 */
#ifndef BTL_OFI_MEMORY_H
#define BTL_OFI_MEMORY_H

#include "btl/ofi/ofi.h"

struct ofi_registration {
    struct fid_mr *mr; /* NULL: nothing is registered, since the provider does not require it */
    void *desc;
    uint64_t key;
    bool by_address; /* remote addresses are addresses of this process; or offsets */
};

/* The source of slabs (slab.h): their registrations are struct ofi_registration. */
extern const struct slab_source memory_source;

/* Registers a range in the domain of an endpoint, inside; device NULL: memory of the host. 0, or -errno and an error message. */
int memory_register(struct ofi_endpoint *e, void *base, size_t bytes, uint32_t access,
                    const struct btl_device *device, struct ofi_registration *r, struct error *err);
void memory_deregister(struct ofi_registration *r);
/*
 * The endpoint of a new stream has a domain of its own: registers all that peers may access there, too. What comes later is registered in
 * the domains of all streams. btl.lock held. 0, or -errno and an error message, and nothing is registered there.
 */
int memory_open_domain(struct ofi_endpoint *e, struct error *err);
/* The stream is not opened after all: removes what is registered there. btl.lock held. */
void memory_close_domain(struct ofi_endpoint *e);

#endif
