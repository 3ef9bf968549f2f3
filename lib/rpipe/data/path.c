/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path.c: the choice of the path of an end.
 */
#include "rpipe/data/path.h"

int path_open(struct rch *ch, struct error *err)
{
    bool mapped = (ch->ops->attributes.capabilities & BTL_LOAD_STORE) != 0;
    const struct path_ops *path = mapped ? &path_mapped : &path_remote;
    int rc = path->open(ch, err);

    /* an end that has failed without a connection is never joined and has nothing to release */
    ch->path = rc != 0 && ch->remote == NULL ? &path_mapped : path;
    return rc;
}

void path_none(struct rch *ch) { ch->path = &path_mapped; }
