/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path.c: the choice of the path of an end.
 */
#include "rpipe/data/path.h"

int path_open(struct rch *ch, struct error *err)
{
    bool mapped = (ch->ops->attributes.capabilities & BTL_LOAD_STORE) != 0;
    int rc;

    ch->path = mapped ? &path_mapped : &path_remote;
    rc = ch->path->open(ch, err);
    if (rc != 0 && ch->remote == NULL) /* such an end is never joined and has nothing to release */
        ch->path = &path_mapped;
    return rc;
}

void path_none(struct rch *ch) { ch->path = &path_mapped; }
