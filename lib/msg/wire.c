/* SPDX-License-Identifier: BSD-3-Clause */
/* wire.c: see wire.h. */
#include "msg/wire.h"

#include <errno.h>
#include <stdio.h>

#define MSG_WIRE_HELLO_LEAST 32u /* bytes of the greeting of version 1 */

bool msg_wire_fields(const struct msg_wire *w, const void *mem, struct msg_wire_fields *f)
{
    size_t bytes = msg_wire_fields_bytes(w->kind);
    bool about_space = w->kind == MSG_WIRE_RTS || w->kind == MSG_WIRE_PLACED ||
                       w->kind == MSG_WIRE_RTR || w->kind == MSG_WIRE_UNDO,
         has_extra = (about_space && w->kind != MSG_WIRE_UNDO) || w->kind == MSG_WIRE_CTS;

    memset(f, 0, sizeof(*f));
    if (msg_wire_is_free(w->kind) || w->bytes != bytes || (!about_space && w->space != 0) ||
        ((w->kind == MSG_WIRE_CREDIT || w->kind == MSG_WIRE_READY) && w->word != 0) ||
        (about_space && w->word == UINT32_MAX) ||
        (w->kind == MSG_WIRE_END && (w->word == 0 || w->word >= MSG_WIRE_REASONS_END)))
        return false;
    if (bytes > 0)
        memcpy(f, mem, bytes);
    return (f->open == 0 || f->where != 0) && f->open <= MSG_WIRE_WINDOWS_MOST &&
           (has_extra || f->extra == 0) && (w->kind != MSG_WIRE_CREDIT || f->id == 0);
}

void msg_wire_hello_init(struct msg_wire_hello *own, uint64_t share, uint32_t part_bytes)
{
    memset(own, 0, sizeof(*own));
    own->length = sizeof(*own);
    own->magic = MSG_WIRE_MAGIC;
    own->versions = version_range_of("messages by tag", MSG_WIRE_OLDEST, MSG_WIRE_NEWEST);
    own->features = MSG_WIRE_FEATURES;
    own->share = share;
    own->part_bytes = part_bytes;
}

int msg_wire_hello_match(const struct msg_wire_hello *own, const void *mem, size_t bytes, int peer,
                         struct msg_wire_hello *theirs, struct error *err)
{
    char other[32];
    int rc;

    if (layout_read(theirs, sizeof(*theirs), mem, bytes, MSG_WIRE_HELLO_LEAST) != 0 ||
        theirs->magic != MSG_WIRE_MAGIC)
        return error_set(err, -EPROTO, "rank %d: the first message is not a greeting", peer);
    snprintf(other, sizeof(other), "rank %d", peer);
    rc = version_agree(own->versions, theirs->versions, "messages by tag", other, err);
    if (rc < 0)
        return rc;
    if (theirs->share < MSG_WIRE_SHARE_LEAST || theirs->part_bytes < MSG_WIRE_SLOT_BYTES)
        return error_set(err, -EPROTO,
                         "rank %d: its greeting has a share of %llu units and parts of %u bytes; "
                         "at least %u and %u are necessary",
                         peer, (unsigned long long)theirs->share, theirs->part_bytes,
                         MSG_WIRE_SHARE_LEAST, MSG_WIRE_SLOT_BYTES);
    return 0;
}
