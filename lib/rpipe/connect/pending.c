/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pending.c: rpending: the ends that peers have opened and this process has not. A service accepts connections with it: it
 * opens the other end of what it finds.
 *
 * No message is needed: the rendezvous table keeps the handshakes of these ends. Its count of arrivals grows whenever there
 * may be more to find than before, so a call that finds nothing new is one load.
 */
#include "rpipe/connect/handshake.h"
#include "rpipe/end/call.h"
#include "rpipe/end/job_state.h"

#include <errno.h>
#include <string.h>

/* A handshake waits here for its own end to be opened. Rendezvous lock held. */
static bool pending_waits(const struct rendezvous *m)
{
    if (!list_empty(&m->ends)) {
        const struct rendezvous_end *last = container_of(m->ends.prev, struct rendezvous_end, link);
        const struct rch *ch = container_of(last, struct rch, end);

        if ((atomic_load_explicit(&ch->state, memory_order_relaxed) & STATE_CLOSED) == 0)
            return false;
    }
    return m->unclosed != NULL;
}

/* The first one that waits, which is opened next. False: cells, which are not opened by rpipe. */
static bool pending_describe(const struct rendezvous *m, rpipe_config_t *p)
{
    const struct handshake *h = (const struct handshake *)(const void *)m->unclosed->blob;

    *p = (rpipe_config_t){.role = (rpipe_role_t)m->side,
                          .op = (rpipe_op_t)h->op,
                          .peer = m->peer,
                          .context = m->context};
    return h->op < OP_CELLS;
}

/* Stores into element n of a list whose elements have `size` bytes for the caller. */
static void pending_store(void *list, int n, size_t size, const rpipe_config_t *p)
{
    unsigned char *element = (unsigned char *)list + (size_t)n * size;

    memset(element, 0, size);
    memcpy(element, p, size < sizeof(*p) ? size : sizeof(*p));
}

static int pending_poll(uint64_t context, uint64_t *seen, void *list, int most, size_t size)
{
    int rc = job_check(), n = 0;
    struct rendezvous *m = NULL;
    uint64_t arrivals;
    rpipe_config_t p;

    if (rc != 0)
        return rc;
    if (seen == NULL || list == NULL)
        return call_error(NULL, -EINVAL, "%s is NULL", seen == NULL ? "seen" : "list");
    if (most < 1)
        return call_error(NULL, -EINVAL, "most is %d; it must be 1 or more", most);
    if (size < sizeof(p))
        return call_error(NULL, -EINVAL, "size is %zu; it must be at least %zu", size, sizeof(p));
    if (rendezvous_arrivals() == *seen)
        return 0;
    rendezvous_lock();
    arrivals = rendezvous_arrivals(); /* under the lock: what it counts can be found */
    while (n < most && (m = rendezvous_next_waiting(m)) != NULL)
        if (m->context == context && pending_waits(m) && pending_describe(m, &p))
            pending_store(list, n++, size, &p);
    rendezvous_unlock();
    if (n < most) /* else there may be more: the next call polls again */
        *seen = arrivals;
    return n;
}

/* Nothing new, and no argument that is wrong: what a poll nearly always finds. It is not counted, since it enters nothing. */
static inline bool pending_is_nothing(const uint64_t *seen, const rpipe_config_t *list, int most,
                                      size_t size)
{
    return job_is_open() && !calls_ended() && seen != NULL && list != NULL && most >= 1 &&
           size >= sizeof(*list) && rendezvous_arrivals() == *seen;
}

int(rpipe_pending)(uint64_t context, uint64_t *seen, rpipe_config_t *list, int most, size_t size)
{
    struct call call;

    if (LIKELY(pending_is_nothing(seen, list, most, size)))
        return 0;
    call_enter(&call, "rpending");
    return call_end(&call, pending_poll(context, seen, list, most, size));
}
