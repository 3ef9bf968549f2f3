/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mcast_reader.c: a reader's end of the path from another host, see mcast_end.h.
 *
 * `heap` is as large as the writer's, and a message is where it is there; one of at most CAST_INLINE bytes is in its slot. So memory is used
 * again only when this reader has freed what was there: the writer waits for that.
 */
#include "cast/mcast_reader.h"

#include "cast/mcast_carrier.h"

#include "control/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void reader_send(void *arg, int to, const struct nak_head *head, const void *payload)
{
    struct mcast *p = arg;

    (void)to;
    p->carrier[MCAST_UDP].ops->send(p->carrier[MCAST_UDP].medium, &p->carrier[MCAST_UDP].root, head,
                                    sizeof(*head), payload, head->bytes);
}

/* ---- packets ---- */

/* Where the message of this packet is, or NULL: no writer that follows the protocol names that. */
static char *reader_place(struct mcast *p, const struct nak_head *head)
{
    const struct rcast *c = p->path.cast;
    const uint64_t freed = p->receiver.freed, complete = p->receiver.complete;
    struct mcast_slot *slot = &p->slot[head->message & (p->slots - 1)];

    /* not complete, and not more than `slots` beyond what is freed */
    if (head->message - complete >= p->slots - (complete - freed))
        return NULL;
    slot->bytes = head->word;
    slot->mem = slot->small;
    if (head->word > CAST_INLINE) {
        if (head->word > c->heap_bytes || head->offset > c->heap_bytes - head->word ||
            head->offset % 16 != 0)
            return NULL;
        slot->mem = p->heap + head->offset;
    }
    return (char *)slot->mem;
}

static int reader_store(struct mcast *p, const struct nak_head *head, const void *payload)
{
    char *mem;

    if (head->flags == NAK_END)
        return 0;
    mem = reader_place(p, head);
    if (mem == NULL)
        return -EPROTO;
    if (head->bytes > 0)
        memcpy(mem + (uint64_t)head->serial * p->receiver.payload, payload, head->bytes);
    return 0;
}

static void reader_data(struct mcast *p, const struct nak_head *head, const void *payload,
                        uint8_t by, int64_t now)
{
    int rc = nak_receiver_check(&p->receiver, head);

    if (rc == -EALREADY)
        return;
    if (rc == 0)
        rc = reader_store(p, head, payload);
    if (rc == 0)
        rc = nak_receiver_stored(&p->receiver, head, by, now);
    if (rc != 0)
        p->failure = "it sends packets that do not fit the messages before them, or the heap";
}

void mcast_reader_receive(struct mcast *p, const struct nak_head *head, const void *payload,
                          const struct mcast_arrival *a, int64_t now)
{
    if (!p->attached || p->failure != NULL ||
        memcmp(&a->from, &p->carrier[a->carrier].root, sizeof(a->from)) != 0)
        return;
    if (head->kind == NAK_DATA)
        reader_data(p, head, payload, a->by, now);
    else if (head->kind == NAK_ASK)
        nak_receiver_asked(&p->receiver, head, a->by, now);
}

/* ---- opening, closing ---- */

int mcast_reader_open(struct mcast *p, struct error *err)
{
    const struct rcast *c = p->path.cast;
    void *heap;

    p->slot = aligned_alloc(alignof(struct mcast_slot), p->slots * sizeof(*p->slot));
    if (p->slot == NULL)
        return error_set(err, -ENOMEM, "no memory for %u slots", p->slots);
    memset(p->slot, 0, p->slots * sizeof(*p->slot));
    heap = mmap(NULL, c->heap_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED)
        return error_set(err, -ENOMEM, "no memory for a heap of %llu bytes",
                         (unsigned long long)c->heap_bytes);
    p->heap = heap;
    control_monitor(c->member[c->writer].rank);
    return 0;
}

void mcast_reader_close(struct mcast *p)
{
    if (p->heap != NULL)
        munmap(p->heap, p->path.cast->heap_bytes);
    free(p->slot);
}

void mcast_reader_attach(struct mcast *p, const struct mcast_offer *offer)
{
    const struct nak_out out = {reader_send, p};

    if (p->attached)
        return;
    p->attached = true;
    for (int i = 0; i < MCAST_CARRIERS; i++) {
        p->carrier[i].root = offer->root[i];
        p->carrier[i].group = offer->group[i];
    }
    p->key = offer->key;
    nak_receiver_open(&p->receiver, &out, p->key, p->first, p->first, offer->member,
                      offer->payload);
    p->freed_reported = p->first;
    mcast_carriers_join(p);
}
