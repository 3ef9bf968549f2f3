/* SPDX-License-Identifier: BSD-3-Clause */
/* layout.c: see layout.h. */
#include "util/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int layout_read(void *to, size_t to_bytes, const void *from, size_t from_bytes, size_t least)
{
    uint32_t length = 0;

    memset(to, 0, to_bytes);
    if (from_bytes < sizeof(length))
        return -EPROTO;
    memcpy(&length, from, sizeof(length));
    if (length < least || length > from_bytes)
        return -EPROTO;
    memcpy(to, from, length < to_bytes ? length : to_bytes);
    return 0;
}

struct version_range version_range_of(const char *what, uint16_t oldest, uint16_t newest)
{
    struct version_range range = {oldest, newest};

#ifdef RPIPE_TEST_NEWER
    const char *disjoint = getenv("RMALLOC_TEST_DISJOINT");

    range.newest++;
    if (disjoint != NULL && strcmp(disjoint, what) == 0)
        range.oldest = range.newest;
#else
    (void)what;
#endif
    return range;
}

int version_agree(struct version_range own, struct version_range peer, const char *what,
                  const char *other, struct error *err)
{
    int newest = own.newest < peer.newest ? own.newest : peer.newest;

    if (peer.oldest <= peer.newest && newest >= own.oldest && newest >= peer.oldest)
        return newest;
    return error_set(err, -EPROTO,
                     "%s has versions %u to %u of %s, and this process has %u to %u; install "
                     "releases of this library that have a version in common",
                     other, peer.oldest, peer.newest, what, own.oldest, own.newest);
}
