/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ordered.c: see ordered.h.
 */
#include "btl/ofi/ordered.h"

#include "btl/ofi/post.h"

#include "util/failpoint.h"

#include <errno.h>

/* What is left of the write is a payload and a slot that may be one operation. */
static bool ordered_may_join(const struct btl_connection *connection)
{
    size_t most = connection->endpoint->joined, slot = connection->rest_slot.bytes;

    return connection->rest.bytes > 0 && slot > 0 && slot <= most &&
           connection->rest.bytes <= most - slot && !connection->rest.device;
}

/* The slot is the second range: its bytes are placed behind those of the payload. */
static int ordered_post_joined(struct btl_connection *connection)
{
    struct ofi_part *payload = &connection->rest, *slot = &connection->rest_slot;
    struct iovec near[] = {{payload->local, payload->bytes}, {slot->local, slot->bytes}};
    struct fi_rma_iov far[] = {{payload->remote, payload->bytes, payload->key},
                               {slot->remote, slot->bytes, slot->key}};
    void *desc[] = {payload->desc, slot->desc};
    struct fi_msg_rma message = {.msg_iov = near,
                                 .desc = desc,
                                 .iov_count = 2,
                                 .addr = connection->to,
                                 .rma_iov = far,
                                 .rma_iov_count = 2,
                                 .context = post_tag_of(connection)};
    int rc = post_check(connection, fi_writemsg(connection->endpoint->ep, &message, 0),
                        "fi_writemsg, payload and slot");

    if (rc != 0)
        return rc;
    post_count(connection, false, false, true);
    payload->bytes = slot->bytes = 0;
    return 0;
}

int ordered_continue(struct btl_connection *connection)
{
    struct ofi_endpoint *e = connection->endpoint;
    int rc;

    while (connection->rest.bytes > 0) {
        if (ordered_may_join(connection))
            return ordered_post_joined(connection);
        size_t bytes = connection->rest.bytes < e->most ? connection->rest.bytes : e->most;
        bool more = bytes < connection->rest.bytes || connection->rest_slot.bytes > 0;

        rc = post_check(connection,
                        post_move(e, connection->to, &connection->rest, bytes, more ? FI_MORE : 0,
                                  false, post_tag_of(connection)),
                        "fi_writemsg");
        if (rc != 0)
            return rc;
        post_count(connection, false, false, !more);
        post_advance(&connection->rest, bytes);
    }
    if (connection->rest_slot.bytes > 0) {
        RPIPE_FAILPOINT("ofi: payload posted, slot not");
        rc = post_check(connection,
                        post_move(e, connection->to, &connection->rest_slot,
                                  connection->rest_slot.bytes, e->inject ? FI_INJECT : 0, false,
                                  post_tag_of(connection)),
                        "fi_writemsg");
        if (rc != 0)
            return rc;
        post_count(connection, false, e->inject, true);
        connection->rest_slot.bytes = 0;
    }
    return 0;
}

int ordered_write(struct btl_connection *connection, const struct btl_transfer *payload,
                  const struct btl_transfer *slot)
{
    const struct btl_transfer *end = slot != NULL ? slot : payload;
    struct ofi_part last = post_part_of(connection->endpoint, end);
    size_t bytes;
    int rc;

    connection->rest = post_part_of(connection->endpoint, payload);
    connection->rest_slot = post_part_of(connection->endpoint, slot);
    bytes = connection->rest.bytes;
    rc = ordered_continue(connection);
    if (rc == -EAGAIN && connection->rest.bytes == bytes &&
        (bytes > 0 || connection->rest_slot.bytes > 0)) {
        connection->rest.bytes = connection->rest_slot.bytes = 0;
        connection->counts.refused++;
        return -EAGAIN;
    }
    if (rc == -EAGAIN)
        list_append(&connection->endpoint->stuck_connections, &connection->stuck);
    else if (rc != 0)
        return rc;
    bytes = last.bytes < sizeof(uint64_t) ? last.bytes : sizeof(uint64_t);
    connection->last = (struct ofi_part){
        .remote = last.remote + last.bytes - bytes, .key = last.key, .bytes = bytes};
    connection->unflushed = true;
    return 0;
}
