/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_btl.c: four modules in one, for test_backend_choice: backends that move nothing, and open or do not as the environment requests.
 *
 * FAKE_BROKEN names those, separated by commas, that cannot be opened; FAKE_UNSUITABLE those that are not chosen unless they are named.
 */
#include "btl/btl.h"

#include "util/module.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int query(struct error *err)
{
    error_note(err, "it is a fake");
    return 0;
}

static int open_as(const char *name, struct btl **btl, struct error *err)
{
    const char *broken = getenv("FAKE_BROKEN");

    if (broken != NULL && strstr(broken, name) != NULL)
        return error_set(err, -EIO, "the fake %s is broken", name);
    *btl = (struct btl *)(uintptr_t)name;
    return 0;
}

static int suits_as(const char *name, struct error *err)
{
    const char *unsuitable = getenv("FAKE_UNSUITABLE");

    if (unsuitable != NULL && strstr(unsuitable, name) != NULL)
        return error_set(err, -ENOTSUP, "the fake %s has to be named", name);
    return 0;
}

static void close_fake(struct btl *btl) { (void)btl; }

static int reach(struct btl *btl, int peer, struct error *err)
{
    (void)btl, (void)peer, (void)err;
    return 0;
}

#define FAKE(backend)                                                                              \
    static int open_##backend(const struct btl_host *host, struct btl **btl, struct error *err)    \
    {                                                                                              \
        (void)host;                                                                                \
        return open_as(#backend, btl, err);                                                        \
    }                                                                                              \
    static int suits_##backend(const struct btl_host *host, struct error *err)                     \
    {                                                                                              \
        (void)host;                                                                                \
        return suits_as(#backend, err);                                                            \
    }                                                                                              \
    extern const struct btl_ops btl_##backend##_ops;                                               \
    MODULE_EXPORT const struct btl_ops btl_##backend##_ops = {                                     \
        .version = BTL_OPS_VERSION,                                                                \
        .name = #backend,                                                                          \
        .query = query,                                                                            \
        .suitable = suits_##backend,                                                               \
        .open = open_##backend,                                                                    \
        .close = close_fake,                                                                       \
        .reach = reach,                                                                            \
    };

FAKE(shm)
FAKE(verbs)
FAKE(ofi)
FAKE(tcp)
