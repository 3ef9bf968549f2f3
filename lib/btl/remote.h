/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * remote.h: what backends without a mapping check of a peer's key, and keep of it.
 *
 * The key is what the peer has sent. Invariant: of memory that is attached, address + bytes does not wrap, and the bytes that this
 * process needs are there; so a transfer only has to be compared with remote->bytes.
 */
#ifndef BTL_REMOTE_H
#define BTL_REMOTE_H

#include "btl/btl.h"
#include "util/error.h"

#include <errno.h>

/* The key names `offered` bytes at `address`; `bytes` are needed. 0, or -EPROTO. */
static inline int btl_key_attach(struct btl *btl, int peer, const struct btl_key *key,
                                 uint64_t address, uint64_t offered, size_t bytes,
                                 struct btl_remote *remote, struct error *err)
{
    if (offered < bytes || offered > UINT64_MAX - address)
        return error_set(err, -EPROTO, "rank %d offers %llu bytes; %zu are needed", peer,
                         (unsigned long long)offered, bytes);
    *remote = (struct btl_remote){.base = NULL, .bytes = offered, .mapping = btl, .key = *key};
    return 0;
}

/* Where this process checks the access that the peer has granted, and not the peer alone. */
static inline int btl_key_check_access(int peer, uint64_t offered, uint32_t access,
                                       struct error *err)
{
    if (offered != access)
        return error_set(err, -EPROTO, "rank %d offers memory with access %llu; %u is needed", peer,
                         (unsigned long long)offered, access);
    return 0;
}

#endif
