/* SPDX-License-Identifier: BSD-3-Clause */
/* attach.c: see attach.h. */
#include "rpipe/end/attach.h"

#include "rpipe/end/path.h"

#include <errno.h>

int end_attach(struct rch *ch, const struct btl_key *key, size_t bytes, uint32_t access,
               struct btl_remote *remote, struct error *err)
{
    int rc = ch->ops->attach(ch->btl, ch->peer, key, bytes, access, remote, err);

    if (rc != 0 || !remote->huge || ch->cfg.huge_pages)
        return rc;
    ch->ops->detach(ch->btl, remote);
    return error_set(err, -EPROTO,
                     "rank %d passed %zu bytes in huge pages, and this end has not asked for them: "
                     "set RPIPE_HUGE_PAGES in the flags of both ends, or of none",
                     ch->peer, bytes);
}

int end_key(const struct rch *ch, const struct btl_memory *memory, struct btl_key *key,
            struct error *err)
{
    *key = memory->key;
    return ch->path->key != NULL ? ch->path->key(ch, memory, key, err) : 0;
}
