/* SPDX-License-Identifier: BSD-3-Clause */
/* kept.c: see kept.h. */
#include "msg/kept.h"

#include "msg/out.h"

void msg_kept_report(struct msg_link *l)
{
    struct msg_wire_fields f = {.bytes = l->in_consumed};

    l->in_reported = l->in_consumed;
    msg_out_say(l, MSG_WIRE_CREDIT, 0, 0, &f);
}

void msg_kept_free(struct rmsg *msg, struct msg_message *m)
{
    if (m->d != ADDR_NULL)
        (void)rmalloc_free(m->link->in, m->d);
    if (m->offered)
        m->link->offered--;
    else
        msg_kept_consumed(m->link, m->bytes);
    pool_put(&msg->messages, &m->item);
}

void msg_kept_drop(struct rmsg *msg, struct msg_message *m)
{
    if (m->offered && m->send != 0)
        msg_out_say(m->link, MSG_WIRE_FIN, 0, m->send, NULL);
    msg_kept_free(msg, m);
}

/* A message that no receive has matched. NULL, or what is wrong. */
const char *msg_kept_add(struct msg_link *l, const struct msg_wire *w, const rtaken_t *taken,
                         const struct msg_wire_fields *offer)
{
    const uint64_t bytes = offer != NULL ? offer->bytes : w->bytes;
    struct rmsg *msg = l->msg;
    struct msg_message *m;

    if (offer != NULL && l->offered >= RMSG_REQUESTS)
        return "more RTSs than it can have requests";
    m = pool_get(&msg->messages);
    if (m == NULL)
        return "more messages than this process has memory for";
    m->link = l;
    m->taken = m->consumed = false;
    m->offered = offer != NULL;
    m->bytes = bytes;
    m->d = ADDR_NULL;
    if (offer != NULL) {
        l->offered++;
        m->send = offer->id;
        m->cell = offer->extra;
        m->where = offer->where;
    } else if (bytes > MSG_WIRE_SLOT_BYTES) {
        m->d = taken->d;
    } else {
        memcpy(m->slot, taken->mem, bytes);
        msg_taken_free(l, taken);
    }
    m->match.node[MATCH_EXACT].key = (struct match_key){w->word, l->peer, w->space};
    match_wait(&msg->waiting, &m->match);
    return NULL;
}

void msg_kept_end(struct msg_link *l)
{
    struct rmsg *msg = l->msg;

    for (uint32_t i = 1; i < msg->messages.objects; i++) {
        struct msg_message *m = pool_by_index(&msg->messages, i);

        if (m == NULL || m->link != l || !m->offered)
            continue;
        m->send = 0;
        if (m->taken)
            continue;
        match_unwait(&msg->waiting, &m->match);
        msg_kept_free(msg, m);
    }
}
