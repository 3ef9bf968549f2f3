/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * holding.c: see holding.h.
 *
 * The writer has counts of messages, not a list of those that the reader holds: `outstanding` of the heap were sent and have not come
 * back, `unread` of all kinds were sent and not read, so at least outstanding - unread were read and not freed. Over a network both
 * are as of the last credits; so they are too where the reason of a failed connection is still awaited (R_PENDING), since a deadline
 * that has passed is the result all the same.
 */
#include "rpipe/data/holding.h"

#include "rpipe/data/credit.h"
#include "rpipe/end/call.h"
#include "rpipe/end/config.h"
#include "rpipe/end/job_state.h"
#include "rpipe/end/path.h"

#include "control/control.h"
#include "util/log.h"

#include <errno.h>
#include <stdio.h>

struct holding {
    uint64_t sent, unread;       /* messages */
    uint64_t outstanding, bytes; /* messages of the heap, and their memory in whole units */
    uint64_t held;               /* read and not freed, at least */
    size_t size;                 /* what the call was for */
};

static int holding_count(struct rch *ch, struct holding *h)
{
    uint64_t sent = atomic_load_explicit(&ch->w.sent, memory_order_relaxed);
    int rc = ch->path->fetch_credits(ch, NEED_SLOT);

    if (rc == 0)
        rc = ch->path->fetch_credits(ch, NEED_MEMORY);
    rc = rc == R_PENDING ? 0 : rc;
    h->sent = sent - job_first();
    h->unread = sent - credit_slots_read(ch);
    h->outstanding = ch->w.blocks.sent - ch->w.blocks.returned;
    h->bytes = ch->w.blocks.units * ch->cfg.unit_bytes;
    h->held = h->outstanding > h->unread ? h->outstanding - h->unread : 0;
    return rc;
}

/* The reader is sent it once: it may wait for this end, compute, or have forgotten rfree. */
static void holding_post(struct rch *ch, const struct holding *h)
{
    struct starved_message m = {.head = message_head(ch, sizeof(m), h->held),
                                .bytes = h->bytes,
                                .waited = (uint64_t)ch->timeout_ms};

    if (h->held == 0 || ch->timeout_ms < CALL_LOGGED_MS || ch->w.starved_sent)
        return;
    ch->w.starved_sent = message_post(ch->peer, MESSAGE_STARVED, &m.head, NULL) == 0;
}

static void holding_describe(const struct rch *ch, const struct holding *h, char *text,
                             size_t bytes)
{
    const char *order = ch->w.blocks.ops->bounded
                            ? ""
                            : "; it comes back in the order of the messages (RPIPE_SYNC_BLOCKS)";

    if (h->unread == 0)
        snprintf(text, bytes,
                 "%s has read all %llu messages, and the memory of %llu, %llu bytes, has not "
                 "come back: it must call rfree for each message%s",
                 control_peer_name(ch->peer), (unsigned long long)h->sent,
                 (unsigned long long)h->outstanding, (unsigned long long)h->bytes, order);
    else if (h->held > 0)
        snprintf(text, bytes,
                 "%s has not read %llu messages, and holds %llu or more that it has read: it "
                 "must call rfree for each message; the memory of %llu, %llu bytes, has not come "
                 "back%s",
                 control_peer_name(ch->peer), (unsigned long long)h->unread,
                 (unsigned long long)h->held, (unsigned long long)h->outstanding,
                 (unsigned long long)h->bytes, order);
    else
        snprintf(text, bytes,
                 "%s is alive and joined, and has not read %llu messages; the memory of %llu, "
                 "%llu bytes, has not come back",
                 control_peer_name(ch->peer), (unsigned long long)h->unread,
                 (unsigned long long)h->outstanding, (unsigned long long)h->bytes);
}

static int holding_attempt(struct rch *ch, void *arguments)
{
    struct holding *h = arguments;
    char text[320];
    int rc;

    if ((atomic_load_explicit(&ch->state, memory_order_acquire) & STATE_JOINED) == 0)
        return -ETIMEDOUT; /* its message is set */
    rc = holding_count(ch, h);
    if (rc != 0 || h->outstanding == 0)
        return rc != 0 ? rc : -ETIMEDOUT;
    holding_post(ch, h);
    holding_describe(ch, h, text, sizeof(text));
    return h->size > 0 ? call_error(ch, -ETIMEDOUT, "no memory for %zu bytes within %d ms: %s",
                                    h->size, ch->timeout_ms, text)
                       : call_error(ch, -ETIMEDOUT,
                                    "sync_queue messages, %u, are not freed within %d ms: %s",
                                    ch->cfg.sync_queue, ch->timeout_ms, text);
}

int holding_explain(struct rch *ch, size_t size)
{
    struct holding h = {.size = size};

    return call_once(ch, holding_attempt, &h); /* with RPIPE_THREADS under the lock */
}

/* ---- at the reader: on the service thread, rendezvous lock held ---- */

static void holding_on_starved(struct rch *ch, const struct message *m)
{
    const struct starved_message *s = (const struct starved_message *)(const void *)m->head;

    if (config_side(&ch->cfg) != SIDE_READER || ch->starved_logged)
        return;
    ch->starved_logged = true;
    log_warn("%s: the writer, %s, has waited %llu ms for memory: this end holds %llu messages "
             "or more that it has read, and %llu bytes have not come back; call rfree for each "
             "message",
             end_name(ch), control_peer_name(m->from), (unsigned long long)s->waited,
             (unsigned long long)m->head->number, (unsigned long long)s->bytes);
}

const struct message_handler holding_starved_handler = {.known = sizeof(struct starved_message),
                                                        .of_open = holding_on_starved};
