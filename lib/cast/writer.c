/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * writer.c: rcast_alloc, rcast_write, rcast_send: memory, and the window; see cast.h.
 *
 * A message of up to CAST_INLINE bytes is filled in private memory and copied into its slot; a larger one is filled in the heap, where
 * readers read it. Blocks are freed in the order of messages, as the floor rises. The floor is refreshed only where there is no slot or
 * no memory, and no further than is needed; and after each CAST_STEP bytes, since an allocator that is empty starts at its beginning
 * again, in memory that the caches have (as pipes do, sync/reclaim.h).
 */
#include "cast/cast.h"

#include "rpipe/end/call.h"
#include "util/failpoint.h"

#include <errno.h>
#include <string.h>

/* ---- the floor ---- */

static void writer_reclaim(struct rcast *c)
{
    for (; c->reclaimed != c->floor; c->reclaimed++) {
        struct cast_sent *s = &c->sent[c->reclaimed & (c->slots - 1)];

        if (s->d == ADDR_NULL)
            continue;
        (void)rvmem_free(c->heap, s->d);
        s->d = ADDR_NULL;
        c->in_flight -= s->bytes;
    }
}

static void writer_raise_floor(struct rcast *c, uint64_t need)
{
    uint64_t least = c->next;

    for (int i = 0; i < CAST_PATHS && c->path[i] != NULL; i++) {
        uint64_t of_path = c->path[i]->ops->refresh(c->path[i], need);

        if (of_path != UINT64_MAX && (int64_t)(of_path - least) < 0)
            least = of_path;
    }
    c->floor = least;
    writer_reclaim(c);
    c->ahead = c->in_flight + CAST_STEP;
}

/* Is every live reader beyond all messages below `need`? R_PENDING: not yet. A loss is reported first, and ends the call. */
static int writer_refresh(struct rcast *c, uint64_t need)
{
    int rc;

    writer_raise_floor(c, need);
    rc = cast_report_loss(c);
    if (rc != 0)
        return rc;
    if (c->live == 0)
        return call_error(NULL, -EPIPE, "no reader is left: all have closed, or are lost");
    return (int64_t)(c->floor - need) >= 0 ? 0 : R_PENDING;
}

/* ---- memory ---- */

/* Its index; -1: there is no such message. The last one first: it is written next, mostly. */
static inline int writer_find(const struct rcast *c, const void *mem)
{
    int i = c->nunsent - 1;

    while (i >= 0 && c->unsent[i]->mem != mem)
        i--;
    return i;
}

static inline void writer_forget(struct rcast *c, int i)
{
    struct cast_unsent *u = c->unsent[i];

    c->unsent[i] = c->unsent[--c->nunsent];
    c->unsent[c->nunsent] = u;
}

static void *writer_take(struct rcast *c, raddr_t d, size_t bytes)
{
    struct cast_unsent *u = c->unsent[c->nunsent++];

    u->d = d;
    u->bytes = bytes;
    u->mem = d == ADDR_NULL ? u->small : rvmem_mem(c->heap, d);
    return u->mem;
}

struct writer_alloc_arguments {
    size_t bytes;
    raddr_t d;
};

static int writer_alloc_attempt(struct rcast *c, void *of)
{
    struct writer_alloc_arguments *a = of;

    for (;;) {
        uint64_t before = c->floor;
        int rc;

        a->d = rvmem_alloc(c->heap, a->bytes);
        if (a->d != ADDR_NULL)
            return 0;
        if (errno != ENOMEM)
            return call_error(NULL, -errno,
                              "%zu bytes never fit into a heap of %llu; use a larger heap_bytes",
                              a->bytes, (unsigned long long)c->heap_bytes);
        if (c->floor == c->next)
            return call_error(NULL, -ENOBUFS,
                              "%zu bytes do not fit beside the %d messages that are allocated here "
                              "and not written; write or free them first",
                              a->bytes, c->nunsent);
        rc = writer_refresh(c, c->floor + 1);
        if (rc != 0 && (rc != R_PENDING || c->floor == before))
            return rc;
    }
}

/* Memory in the heap for more than CAST_INLINE bytes. */
static int writer_alloc_in_heap(struct rcast *c, size_t bytes, raddr_t *d, int flags)
{
    struct writer_alloc_arguments a = {bytes, ADDR_NULL};
    int rc;

    if (c->in_flight >= c->ahead)
        writer_raise_floor(c, c->next);
    rc = cast_await(c, flags, writer_alloc_attempt, &a);
    if (rc == -ETIMEDOUT)
        rc = cast_writer_timed_out(c, "memory");
    *d = a.d;
    return rc;
}

static NOINLINE int writer_alloc_slow(struct rcast *c, size_t bytes, void **mem, int flags)
{
    struct call call;
    raddr_t d = ADDR_NULL;
    int rc = cast_begin(&call, "rcast_alloc", c, CAST_WRITER);

    if (rc == 0)
        rc = call_check_flags(NULL, flags);
    if (rc == 0 && mem == NULL)
        rc = call_error(NULL, -EINVAL, "mem is NULL");
    if (rc == 0 && c->nunsent == CAST_UNSENT)
        rc = call_error(NULL, -ENOBUFS,
                        "%d messages are allocated and not written; write or free one first",
                        CAST_UNSENT);
    if (rc == 0 && bytes > CAST_INLINE)
        rc = writer_alloc_in_heap(c, bytes, &d, flags);
    if (rc == 0)
        *mem = writer_take(c, d, bytes);
    return call_end(&call, rc);
}

int rcast_alloc(rcast_t cast, size_t bytes, void **mem, int flags)
{
    raddr_t d = ADDR_NULL;

    if (UNLIKELY(!cast_may(cast, true, flags) || mem == NULL || cast->nunsent == CAST_UNSENT))
        return writer_alloc_slow(cast, bytes, mem, flags);
    if (bytes > CAST_INLINE) {
        if (UNLIKELY(cast->in_flight >= cast->ahead)) {
            if (cast->path[1] != NULL) /* it takes a lock: in counted calls alone */
                return writer_alloc_slow(cast, bytes, mem, flags);
            writer_raise_floor(cast, cast->next);
        }
        d = rvmem_alloc(cast->heap, bytes);
        if (UNLIKELY(d == ADDR_NULL))
            return writer_alloc_slow(cast, bytes, mem, flags);
    }
    *mem = writer_take(cast, d, bytes);
    return 0;
}

/* rcast_free of the writer. */
int cast_give_back(struct rcast *c, const void *mem)
{
    const int i = writer_find(c, mem);

    if (i < 0)
        return call_error(NULL, -EINVAL, "%p is no message that is allocated and not written", mem);
    if (c->unsent[i]->d != ADDR_NULL)
        (void)rvmem_free(c->heap, c->unsent[i]->d);
    writer_forget(c, i);
    return 0;
}

/* ---- sending ---- */

/* The window, and what the paths need. */
static int writer_attempt(struct rcast *c, void *of)
{
    struct cast_message m = *(const struct cast_message *)of;
    int rc;

    if (c->ended_here)
        return call_error(NULL, -EPIPE, "rcast_close has been called; close again");
    rc = c->next - c->floor < c->slots ? 0 : writer_refresh(c, c->next - c->slots + 1);
    if (rc == 0 && c->live == 0)
        rc = writer_refresh(c, c->next);
    m.number = c->next;
    for (int i = 0; rc == 0 && i < CAST_PATHS && c->path[i] != NULL; i++)
        if (c->path[i]->ops->room != NULL)
            rc = c->path[i]->ops->room(c->path[i], &m);
    return rc;
}

static inline bool writer_is_ready(const struct rcast *c)
{
    return c->next - c->floor < c->slots && c->live > 0 && !c->ended_here &&
           c->path[0]->ops->room == NULL && c->path[1] == NULL;
}

/* Fills the slot and publishes it. `d` is in the heap, with `mem` and `bytes`; or ADDR_NULL. */
static inline void writer_publish(struct rcast *c, raddr_t d, const void *mem, size_t bytes)
{
    struct cast_slot *slot = &c->slot[c->next & (c->slots - 1)];
    struct cast_sent *sent = &c->sent[c->next & (c->slots - 1)];

    slot->bytes = bytes;
    if (bytes > CAST_INLINE) {
        slot->at = (uint64_t)((const char *)mem - c->heap_mem);
        c->in_flight += bytes;
    } else {
        if (bytes == 8)
            memcpy(slot->data, mem, 8);
        else if (bytes > 0)
            memcpy(slot->data, mem, bytes);
        if (d != ADDR_NULL)
            (void)rvmem_free(c->heap, d);
        d = ADDR_NULL;
        mem = slot->data;
    }
    *sent = (struct cast_sent){d, mem, bytes};
    for (int i = 0; i < CAST_PATHS && c->path[i] != NULL; i++) {
        const struct cast_message m = {c->next, mem, bytes};

        c->path[i]->ops->publish(c->path[i], &m);
    }
    c->next++;
}

static int writer_await(struct rcast *c, const void *mem, size_t bytes, int flags)
{
    struct cast_message m = {0, mem, bytes};
    int rc = cast_await(c, flags, writer_attempt, &m);

    return rc == -ETIMEDOUT ? cast_writer_timed_out(c, "slot") : rc;
}

static NOINLINE int writer_slow(struct rcast *c, void *mem, size_t bytes, int flags)
{
    struct call call;
    int i = -1, rc = cast_begin(&call, "rcast_write", c, CAST_WRITER);

    if (rc == 0)
        rc = call_check_flags(NULL, flags);
    if (rc != 0)
        return call_end(&call, rc);
    i = writer_find(c, mem);
    if (i < 0)
        rc = call_error(NULL, -EINVAL, "%p is no message that is allocated and not written", mem);
    else if (bytes > c->unsent[i]->bytes)
        rc = call_error(NULL, -EINVAL, "bytes is %zu, and %llu are allocated", bytes,
                        (unsigned long long)c->unsent[i]->bytes);
    else
        rc = writer_await(c, mem, bytes, flags);
    if (rc == 0) {
        writer_publish(c, c->unsent[i]->d, mem, bytes);
        writer_forget(c, i);
    }
    return call_end(&call, rc);
}

int rcast_write(rcast_t cast, void *mem, size_t bytes, int flags)
{
    int i;

    if (UNLIKELY(!cast_may(cast, true, flags) || !writer_is_ready(cast)))
        return writer_slow(cast, mem, bytes, flags);
    i = writer_find(cast, mem);
    if (UNLIKELY(i < 0 || bytes > cast->unsent[i]->bytes))
        return writer_slow(cast, mem, bytes, flags);
    writer_publish(cast, cast->unsent[i]->d, mem, bytes);
    writer_forget(cast, i);
    return 0;
}

static NOINLINE int writer_send_slow(struct rcast *c, const void *buf, size_t bytes, int flags)
{
    struct call call;
    raddr_t d = ADDR_NULL;
    const void *mem = buf;
    int rc = cast_begin(&call, "rcast_send", c, CAST_WRITER);

    if (rc == 0)
        rc = call_check_flags(NULL, flags);
    if (rc == 0 && buf == NULL && bytes > 0)
        rc = call_error(NULL, -EINVAL, "buf is NULL for %zu bytes", bytes);
    if (rc == 0 && bytes > CAST_INLINE) {
        rc = writer_alloc_in_heap(c, bytes, &d, flags);
        if (rc == 0)
            mem = memcpy(rvmem_mem(c->heap, d), buf, bytes);
    }
    if (rc == 0) {
        rc = writer_await(c, mem, bytes, flags);
        RPIPE_FAILPOINT("rcast_send: before the message");
        if (rc == 0)
            writer_publish(c, d, mem, bytes);
        else if (d != ADDR_NULL)
            (void)rvmem_free(c->heap, d);
    }
    return call_end(&call, rc);
}

int rcast_send(rcast_t cast, const void *buf, size_t bytes, int flags)
{
    if (UNLIKELY(!cast_may(cast, true, flags) || bytes > CAST_INLINE || !writer_is_ready(cast) ||
                 (buf == NULL && bytes > 0)))
        return writer_send_slow(cast, buf, bytes, flags);
    writer_publish(cast, ADDR_NULL, buf, bytes);
    return 0;
}
